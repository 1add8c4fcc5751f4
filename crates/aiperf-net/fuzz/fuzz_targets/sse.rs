//! Events are the same however a stream is cut. The first byte says where.
#![no_main]

use aiperf_net::sse::SseScanner;
use libfuzzer_sys::fuzz_target;

type Seen = (Option<Vec<u8>>, Option<Vec<u8>>, Option<usize>, Option<Vec<u8>>, bool, bool);

fn read(bytes: &[u8], step: usize) -> Vec<Seen> {
    let mut scanner = SseScanner::new();
    let mut seen = Vec::new();
    let mut end = 0;
    loop {
        end = (end + step).min(bytes.len());
        let at_end = end == bytes.len();
        while let Some(e) = scanner.next(&bytes[..end], at_end) {
            seen.push((
                e.data().map(|d| d.into_owned()),
                e.kind().map(<[u8]>::to_vec),
                e.data_end(),
                e.mended_data(),
                e.is_done(),
                e.is_error(),
            ));
        }
        if at_end {
            return seen;
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((step, bytes)) = input.split_first() else { return };
    let whole = read(bytes, bytes.len().max(1));
    assert_eq!(read(bytes, usize::from(*step) + 1), whole);
    assert_eq!(read(bytes, 1), whole);
});
