//! Worked examples, a slow look at each tick, and numbers of AIPerf's own functions.

use super::aiperf_vectors::{CHUNKS, UNIFORM};
use super::*;
use proptest::prelude::*;

/// A completed request with these gaps between its chunks.
fn row(start: u64, ttft: u64, gaps: &[u64], tail: u64, [isl, osl]: [u32; 2]) -> RequestRow {
    let last = start + ttft + gaps.iter().sum::<u64>();
    RequestRow {
        start_ns: start,
        first_ns: Some(start + ttft),
        last_ns: Some(last),
        end_ns: last + tail,
        isl: Some(isl),
        osl: Some(osl),
        chunks: gaps.len() as u32 + 1,
        ..RequestRow::default()
    }
}

fn collected(requests: &[(RequestRow, Vec<u64>)]) -> (RequestRows, IntColumn) {
    let (mut rows, mut column) = (RequestRows::default(), IntColumn::default());
    for (row, gaps) in requests {
        rows.push(row);
        if is_completed(row) {
            for gap in gaps {
                column.push(*gap);
            }
        }
    }
    (rows, column)
}

fn over_time(requests: &[(RequestRow, Vec<u64>)], window: Window, max_gaps: u64) -> OverTime {
    let (rows, column) = collected(requests);
    OverTime::limited(&rows, Some(&column), window, max_gaps).expect("requests and time")
}

fn avg(of: &OverTime, curve: Curve) -> f64 {
    of.get(curve).and_then(|s| s.avg).expect("a mean")
}

/// One request from 100 to 200 ns with 10 tokens in and 5 out (chunks at 120, 140, 140 and 180), one that failed from 150 to 250.
fn two() -> Vec<(RequestRow, Vec<u64>)> {
    let failed = RequestRow { outcome: Outcome::Failed, ..row(150, 20, &[30], 50, [7, 3]) };
    vec![(row(100, 20, &[20, 0, 40], 20, [10, 5]), vec![20, 0, 40]), (failed, vec![30])]
}

#[test]
fn a_worked_example() {
    let of = over_time(&two(), Window::new(0, 400), MAX_GAPS);
    let near = |curve, expected: f64| {
        let found = avg(&of, curve);
        assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{curve:?}: {found} is not {expected}");
    };
    near(Curve::Concurrency, 200.0 / 400.0);
    near(Curve::PrefillConcurrency, 20.0 / 400.0);
    near(Curve::DecodeConcurrency, 80.0 / 400.0);
    // All tokens but the first, over the whole window and over the 80 ns of decode.
    near(Curve::Decode, 4.0 / 400.0 * 1e9);
    near(Curve::ActiveDecode, 4.0 / 80.0 * 1e9);
    near(Curve::ActiveDecodePerUser, 4.0 / 80.0 * 1e9);
    near(Curve::ActivePrefill, 10.0 / 20.0 * 1e9);
    near(Curve::Total, 14.0 / 400.0 * 1e9);
    // Something is in flight for 150 ns.
    near(Curve::ActiveTotal, 14.0 / 150.0 * 1e9);
    // 10 for 20; 11 for 20; two chunks of 4/3 at 140; another at 180.
    near(
        Curve::TokensInFlight,
        (10.0 * 20.0 + 11.0 * 20.0 + (11.0 + 8.0 / 3.0) * 40.0 + 15.0 * 20.0) / 400.0,
    );
    // Two tokens over 20 ns are the fastest.
    assert_eq!(of.get(Curve::Decode).and_then(|s| s.max), Some(2.0 / 20.0 * 1e9));
    assert_eq!(of.get(Curve::Concurrency).and_then(|s| s.max), Some(2.0));
    assert_eq!((of.decode, of.gaps), (Some(DecodeShape::Chunks), 3));
    let law = of.littles_law.expect("requests");
    assert!((law.concurrency - 0.5).abs() < 1e-12 && law.difference.abs() < 1e-12, "{law:?}");
    assert!((law.throughput - 2.0 / 400e-9).abs() < 1e-3 && (law.time_in_flight - 100e-9).abs() < 1e-20);
}

#[test]
fn beyond_so_many_gaps_decode_is_even() {
    let of = over_time(&two(), Window::new(0, 400), 2);
    assert_eq!(of.decode, Some(DecodeShape::Uniform));
    assert_eq!(of.get(Curve::Decode).and_then(|s| s.max), Some(4.0 / 80.0 * 1e9));
    assert_eq!(of.get(Curve::TokensInFlight).and_then(|s| s.max), Some(15.0));
}

#[test]
fn what_is_cut_off_by_the_window_shows_in_the_law() {
    let of = over_time(&two(), Window::new(0, 200), MAX_GAPS);
    // 150 of 200 ns of flight are inside.
    let law = of.littles_law.expect("requests");
    assert!((law.difference + 0.25).abs() < 1e-12, "{law:?}");
}

#[test]
fn without_streams_there_is_concurrency_alone() {
    let (rows, _) = collected(&two());
    let of = OverTime::of(&rows, None, Window::new(0, 400)).expect("requests");
    assert_eq!(of.get(Curve::Concurrency).and_then(|s| s.avg), Some(0.5));
    assert_eq!((of.get(Curve::Decode), of.get(Curve::TokensInFlight), of.decode), (None, None, None));
    assert!(OverTime::of(&RequestRows::default(), None, Window::new(0, 400)).is_none());
    assert!(OverTime::of(&rows, None, Window::new(5, 5)).is_none());
}

/// Requests as AIPerf's functions were given them.
fn referenced() -> Vec<(RequestRow, Vec<u64>)> {
    let mut state = 7_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let request = |_| {
        let (start, ttft, chunks) = (1000 + next() % 50_000, 100 + next() % 9000, 2 + next() % 6);
        let gap = |_| if next() % 4 == 0 { 0 } else { 1 + next() % 4000 };
        let gaps: Vec<u64> = (1..chunks).map(gap).collect();
        let tail = next() % 500;
        let lengths = [1 + next() % 300, chunks + next() % 40].map(|n| n as u32);
        let mut row = row(start, ttft, &gaps, tail, lengths);
        if next() % 5 == 0 {
            row.outcome = Outcome::Failed;
        }
        (row, gaps)
    };
    (0..24).map(request).collect()
}

#[test]
fn the_numbers_are_those_of_aiperf_s_functions() {
    let (rows, column) = collected(&referenced());
    let window = Window::new(500, 60_000);
    for (expected, max_gaps, short) in
        [(CHUNKS, MAX_GAPS, SHORT), (UNIFORM, 1, SHORT), (CHUNKS, MAX_GAPS, 0), (UNIFORM, 1, 0)]
    {
        let of = OverTime::told(&rows, Some(&column), window, max_gaps, short).expect("requests and time");
        assert_eq!(expected.lines().count(), of.curves.len());
        for line in expected.lines() {
            let (curve, numbers) = line.split_once(' ').expect("a curve and numbers");
            let found = of.curves.iter().find(|(c, _)| format!("{c:?}") == curve);
            let (_, stats) = found.expect("it is there");
            let names = ["avg", "min", "max", "std", "p50", "p90", "p95", "p99"];
            for (name, expected) in names.into_iter().zip(numbers.split(' ')) {
                let expected: f64 = expected.parse().expect("a number");
                let found = stats.get(name).expect(name);
                let near = (found - expected).abs() <= 1e-9 * expected.abs().max(1.0);
                assert!(near, "{curve} {name}: {found} is not {expected}");
            }
        }
    }
}

fn any_requests() -> impl Strategy<Value = Vec<(RequestRow, Vec<u64>)>> {
    let request =
        (0u64..60, 0u64..12, proptest::collection::vec(0u64..9, 0..5), 0u64..5, 1u32..9, 1u32..9, 0..4);
    let request = request.prop_map(|(start, ttft, gaps, tail, isl, osl, class)| {
        let mut row = row(start, ttft, &gaps, tail, [isl, osl]);
        if class == 0 {
            row.outcome = Outcome::Failed;
        }
        (row, gaps)
    });
    proptest::collection::vec(request, 1..12)
}

/// Of one request, at one tick: tokens a tick that come in prefill and in decode, and tokens that the server holds.
fn slow(row: &RequestRow, gaps: &[u64], tick: u64, even: bool) -> [f64; 3] {
    let (Some(first), Some(isl), Some(osl)) = (first(row), row.isl, row.osl) else { return [0.0; 3] };
    let (isl, osl, now) = (f64::from(isl), f64::from(osl), tick as f64 + 0.5);
    let within = |from: u64, to: u64| now > from as f64 && now < to as f64;
    let prefill = if within(row.start_ns, first) { isl / (first - row.start_ns) as f64 } else { 0.0 };
    let arrivals: Vec<u64> = gaps
        .iter()
        .scan(first, |at, gap| {
            *at += gap;
            Some(*at)
        })
        .collect();
    let parts = gaps.iter().filter(|gap| **gap > 0).count() as f64;
    let decode = if even {
        if within(first, row.end_ns) { (osl - 1.0) / (row.end_ns - first) as f64 } else { 0.0 }
    } else {
        let spans = gaps.iter().zip(&arrivals).filter(|(gap, at)| within(**at - **gap, **at));
        spans.map(|(gap, _)| (osl - 1.0) / parts / *gap as f64).sum()
    };
    let mut held = 0.0;
    if within(row.start_ns, row.end_ns) {
        let came = arrivals.iter().filter(|at| now > **at as f64).count() as f64;
        held += if first > row.start_ns { isl } else { 0.0 };
        held += match now > first as f64 {
            true if even || gaps.is_empty() => osl,
            true => 1.0 + (osl - 1.0) * came / gaps.len() as f64,
            false => 0.0,
        };
    }
    [prefill, decode, held]
}

proptest! {
    #[test]
    fn means_and_extremes_are_those_of_a_look_at_each_tick(
        requests in any_requests(), start in 0u64..40, length in 1u64..90, even: bool, is_short: bool,
    ) {
        let end = start + length;
        let (rows, column) = collected(&requests);
        let (gaps, short) = (if even { 0 } else { MAX_GAPS }, if is_short { SHORT } else { 0 });
        let of = OverTime::told(&rows, Some(&column), Window::new(start, end), gaps, short).expect("requests and time");
        let even = of.decode == Some(DecodeShape::Uniform);
        let ticks: Vec<[f64; 4]> = (start..end)
            .map(|tick| {
                let mut sum = [0.0; 4];
                for (row, gaps) in &requests {
                    let [a, b, c] = slow(row, gaps, tick, even);
                    let there = row.start_ns <= tick && tick < row.end_ns;
                    sum = [sum[0] + a, sum[1] + b, sum[2] + c, sum[3] + f64::from(u8::from(there))];
                }
                sum
            })
            .collect();
        for (curve, at, scale) in
            [(Curve::Prefill, 0, 1e9), (Curve::Decode, 1, 1e9), (Curve::TokensInFlight, 2, 1.0), (Curve::Concurrency, 3, 1.0)]
        {
            let Some(found) = of.get(curve) else {
                prop_assert!(ticks.iter().all(|t| t[at] == 0.0), "{curve:?}");
                continue;
            };
            let mean = ticks.iter().map(|t| t[at]).sum::<f64>() / length as f64 * scale;
            let most = ticks.iter().map(|t| t[at]).fold(0.0, f64::max) * scale;
            let near = |a: Option<f64>, b: f64| a.is_some_and(|a| (a - b).abs() <= 1e-6 * b.abs().max(1.0));
            prop_assert!(near(found.avg, mean), "{curve:?}: {found:?}, mean {mean}");
            prop_assert!(near(found.max, most), "{curve:?}: {found:?}, most {most}");
        }
    }
}
