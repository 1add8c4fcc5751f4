//! Slices against what a slow obvious way finds.

use super::*;
use crate::facts::ChunkFact;
use crate::unit::Unit;
use aiperf_core::usage::Usage;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const ALL: Capabilities = Capabilities {
    streaming: true,
    produces_tokens: true,
    tokenizes_input: true,
    reasoning: true,
    compares_usage: true,
};
const ANCHOR: ClockAnchor = ClockAnchor { mono_ns: 0, wall_ns: 1_700_000_000_000_000_000 };

/// Content at each of `gaps` behind the start, the end 1 ms behind the last.
fn request(outcome: Outcome, start_ms: u64, gaps: &[u64], tokens: u64) -> Facts {
    let start_ns = start_ms * MS;
    let mut at_ns = start_ns;
    let chunks: Vec<ChunkFact> = gaps
        .iter()
        .map(|ms| {
            at_ns += ms * MS;
            ChunkFact { at_ns, answer: true }
        })
        .collect();
    Facts {
        outcome,
        start_ns,
        end_ns: at_ns + MS,
        chunks,
        isl: Some(10),
        output_tokens: Some(tokens),
        requested_osl: Some(7),
        usage: (!start_ms.is_multiple_of(3)).then_some(Usage { prompt_tokens: Some(13), ..Usage::default() }),
        ..Facts::default()
    }
}

fn all(recorder: &Recorder, width_ns: u64) -> Vec<Slice> {
    let mut all = Vec::new();
    let slices = recorder.slices(width_ns).expect("not too many").expect("some");
    let is_whole = slices.for_each(|slice| {
        all.push(slice);
        Ok::<(), ()>(())
    });
    assert_eq!(is_whole, Ok(true));
    all
}

fn sliced(slice: &Slice, tag: &str, stat: &str) -> Option<f64> {
    slice.sliced.iter().find(|(spec, _)| spec.tag == tag).and_then(|(_, stats)| stats.get(stat))
}

fn avg(slice: &Slice, tag: &str) -> Option<f64> {
    slice.summary.as_ref()?.avg(tag)
}

/// Two users with requests of 400 ms, one behind the other, over 2 s: five completions a second and ten tokens each.
#[test]
fn a_worked_run() {
    let mut recorder = Recorder::new(ALL, ANCHOR).traced();
    for start in (100..1700).step_by(400) {
        for _user in 0..2 {
            recorder.record(&request(Outcome::Completed, start, &[100, 299], 10));
        }
    }
    recorder.record(&request(Outcome::Failed, 900, &[], 0));
    let slices = all(&recorder, 500 * MS);
    // Sent at 100, 500, 900 and 1300 ms, so the grid has 100–600, 600–1100, 1100–1600 and 1600–1700.
    let bounds: Vec<_> = slices.iter().map(|s| (s.start_ns / MS, s.end_ns / MS, s.is_complete)).collect();
    assert_eq!(bounds, [(100, 600, true), (600, 1100, true), (1100, 1600, true), (1600, 1700, false)]);
    let of = |tag: &str| slices.iter().map(|s| avg(s, tag)).collect::<Vec<_>>();
    assert_eq!(of("request_count"), [Some(4.0), Some(2.0), Some(2.0), None], "AIPerf's way");
    assert_eq!(of("request_throughput"), [Some(8.0), Some(4.0), Some(4.0), None]);
    assert_eq!(of("error_request_count"), [None, Some(1.0), None, None]);
    assert_eq!(of("unsent_request_count"), [None; 4]);
    let of = |tag: &str| slices.iter().map(|s| sliced(s, tag, "avg")).collect::<Vec<_>>();
    // Completed at 500, 900, 1300 and 1700.
    assert_eq!(of("sliced_request_count"), [2.0, 2.0, 2.0, 2.0].map(Some));
    assert_eq!(of("sliced_request_throughput"), [4.0, 4.0, 4.0, 20.0].map(Some));
    // First content at 200, 600, 1000 and 1400, half of the tokens there: 10 + 10 tokens with each pair of events.
    assert_eq!(of("sliced_output_token_throughput"), [40.0, 60.0, 40.0, 100.0].map(Some));
    assert_eq!(of("sliced_input_token_throughput"), [40.0, 80.0, 40.0, 0.0].map(Some));
    let concurrency: Vec<f64> = of("sliced_concurrency").into_iter().flatten().collect();
    assert!((concurrency[0] - 2.0).abs() < 1e-9 && (concurrency[1] - 2.002).abs() < 1e-9, "{concurrency:?}");
    assert_eq!(sliced(&slices[0], "sliced_request_latency", "p50"), Some(399.0));
    assert_eq!(sliced(&slices[0], "sliced_request_latency", "count"), Some(4.0));
    assert_eq!(slices[0].sliced[1].1.unit(), Unit::RequestsPerSecond);
}

#[test]
fn latencies_are_where_requests_were_to_be_sent() {
    let mut recorder = Recorder::new(ALL, ANCHOR).traced();
    recorder.record(&request(Outcome::Completed, 0, &[100], 1));
    // Wanted in the first slice, sent in the second.
    let late = Facts { scheduled_ns: Some(50 * MS), ..request(Outcome::Completed, 250, &[100], 1) };
    recorder.record(&late);
    let slices = all(&recorder, 200 * MS);
    assert_eq!(sliced(&slices[0], "sliced_request_latency", "max"), Some(300.0));
    assert_eq!(sliced(&slices[1], "sliced_request_latency", "max"), None);
    assert_eq!(avg(&slices[1], "request_latency"), Some(100.0));
}

#[test]
fn too_many_slices_are_an_error_and_none_are_none() {
    let mut recorder = Recorder::new(ALL, ANCHOR).traced();
    assert!(recorder.slices(MS).expect("none").is_none());
    recorder.record(&request(Outcome::Completed, 0, &[100_001], 1));
    assert_eq!(recorder.slices(MS).map(drop), Err(TooManySlices { slices: 100_003 }));
    assert_eq!(all(&recorder, 10_000 * MS).len(), 11, "in flight in all of them");
    let mut bare = Recorder::new(ALL, ANCHOR);
    bare.record(&request(Outcome::Completed, 0, &[1], 1));
    assert!(bare.slices(MS).expect("none").is_none());
}

fn requests() -> impl Strategy<Value = Vec<Facts>> {
    let outcome =
        prop_oneof![4 => Just(Outcome::Completed), 1 => Just(Outcome::Failed), 1 => Just(Outcome::Cancelled)];
    let gaps = proptest::collection::vec(0u64..60, 0..6);
    let one = (outcome, 0u64..400, gaps, 0u64..12, proptest::option::of(0u64..30));
    let request = one.prop_map(|(outcome, start, gaps, tokens, early)| {
        let scheduled_ns = early.map(|ms| (start * MS).saturating_sub(ms * MS));
        Facts { scheduled_ns, ..request(outcome, start, &gaps, tokens) }
    });
    proptest::collection::vec(request, 1..40)
}

proptest! {
    #[test]
    fn a_slice_is_what_a_recorder_of_its_requests_says(all_facts in requests(), width in 7u64..200, cut in 0usize..40) {
        let cut = cut.min(all_facts.len());
        let disk = Disk::new(tempfile::tempfile).sized(3, 5);
        let mut whole = Recorder::new(ALL, ANCHOR).on(&disk).traced();
        let mut rest = Recorder::new(ALL, ANCHOR).on(&disk).traced();
        all_facts[..cut].iter().for_each(|facts| drop(whole.record(facts)));
        all_facts[cut..].iter().for_each(|facts| drop(rest.record(facts)));
        whole.merge(rest);
        let origin = all_facts.iter().map(|f| f.start_ns).min().expect("some");
        let end = all_facts.iter().map(|f| f.end_ns).max().expect("some");
        let (mut completed, mut tokens) = (0, 0.0);
        for slice in all(&whole, width * MS) {
            prop_assert_eq!((slice.start_ns - origin) % (width * MS), 0);
            prop_assert_eq!(slice.end_ns, (slice.start_ns + width * MS).min(end));
            let mut own = Recorder::new(ALL, ANCHOR);
            let grid = slice.start_ns..slice.start_ns + width * MS;
            for facts in all_facts.iter().filter(|f| grid.contains(&f.start_ns)) {
                own.record(facts);
            }
            let expected = own.summarise(Window::new(slice.start_ns, slice.end_ns));
            let expected: Vec<_> = expected
                .rows
                .iter()
                .filter(|row| {
                    let unknown = ["scheduled_request", "unsent", "lost"];
                    !matches!(row.spec.compute, Compute::OverTime(_)) && !unknown.iter().any(|tag| row.spec.tag.starts_with(tag))
                })
                .map(|row| (row.spec.tag, row.stats))
                .collect();
            if let Some(summary) = &slice.summary {
                let found: Vec<_> = summary.rows.iter().map(|row| (row.spec.tag, row.stats)).collect();
                prop_assert_eq!(found, expected);
            } else {
                prop_assert_eq!(own.tally().ended(), 0);
            }
            let seconds = (slice.end_ns - slice.start_ns) as f64 * 1e-9;
            // At the very end, the slice that ends there.
            let inside = |at: u64| {
                let at = at.min(end - 1);
                (slice.start_ns..slice.end_ns).contains(&at)
            };
            let whole_ones = || all_facts.iter().filter(|f| f.outcome == Outcome::Completed);
            let n = whole_ones().filter(|f| inside(f.end_ns)).count();
            prop_assert_eq!(sliced(&slice, "sliced_request_count", "avg"), Some(n as f64));
            completed += n;
            tokens += sliced(&slice, "sliced_output_token_throughput", "avg").unwrap_or(0.0) * seconds;
            let mut latencies: Vec<f64> = whole_ones()
                .filter(|f| inside(f.scheduled_ns.unwrap_or(f.start_ns).max(origin)))
                .filter_map(|f| Some((f.chunks.last()?.at_ns - f.scheduled_ns.unwrap_or(f.start_ns)) as f64 * 1e-6))
                .collect();
            latencies.sort_unstable_by(f64::total_cmp);
            let max = sliced(&slice, "sliced_request_latency", "max");
            prop_assert_eq!(max.is_some(), !latencies.is_empty());
            prop_assert!((max.unwrap_or(0.0) - latencies.last().copied().unwrap_or(0.0)).abs() < 1e-9);
        }
        let all_tokens: u64 = all_facts
            .iter()
            .filter(|f| f.outcome == Outcome::Completed && !f.chunks.is_empty())
            .filter_map(|f| f.output_tokens)
            .sum();
        prop_assert_eq!(completed, all_facts.iter().filter(|f| f.outcome == Outcome::Completed).count());
        prop_assert!((tokens - all_tokens as f64).abs() < 1e-6, "{} {}", tokens, all_tokens);
    }
}

/// What the samples of AIPerf show: requests sent in bursts to a server that completes one every 50 ms look like a falling rate.
#[test]
fn a_server_at_a_flat_rate_has_a_flat_rate() {
    let mut recorder = Recorder::new(ALL, ANCHOR).traced();
    let starts =
        (0..26).map(|i| i * 38).chain((0..17).map(|i| 1000 + i * 58)).chain((0..11).map(|i| 2000 + i * 60));
    for (i, start) in starts.enumerate() {
        // The end is 1 ms behind the last content.
        let end = (50 * (i as u64 + 1) + 99).max(start + 2);
        recorder.record(&request(Outcome::Completed, start, &[1, end - start - 2], 20));
    }
    let slices = all(&recorder, 1000 * MS);
    let of = |tag: &str| slices.iter().map(|s| avg(s, tag).expect("measured").round()).collect::<Vec<_>>();
    assert_eq!(of("request_throughput"), [26.0, 17.0, 14.0]);
    let of: Vec<f64> = slices
        .iter()
        .map(|s| sliced(s, "sliced_request_throughput", "avg").expect("measured").round())
        .collect();
    assert_eq!(of, [18.0, 20.0, 20.0], "it begins when the first has been served");
}
