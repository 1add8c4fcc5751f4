use proptest::prelude::*;

use super::*;
use crate::schema_check::valid;

fn counts(lengths: &[u64]) -> LengthCounts {
    let mut out = LengthCounts::default();
    for length in lengths {
        out.add(*length);
    }
    out
}

fn curve(at: &[u64]) -> ArrivalCurve {
    let mut out = ArrivalCurve::default();
    for at in at {
        out.add(*at);
    }
    out
}

fn phase() -> PhaseForecast {
    PhaseForecast {
        name: "profiling".into(),
        is_warmup: false,
        pacing: "poisson",
        bound: Bound::Exact,
        sessions: 4,
        requests: 6,
        later_turns: 2,
        isl_asked: counts(&[10, 10, 20, 40, 40, 40]),
        isl_sent: counts(&[10, 10, 20, 40, 41, 40]),
        exact: 5,
        osl_asked: counts(&[]),
        body_bytes: 3_000,
        arrivals: curve(&[0, 500_000_000, 1_000_000_000, 3_000_000_000]),
        sending_ns: Some(3_000_000_000),
        repeats: Repeats { requests: 4, distinct: 2, most: 3, in_warmup: 1 },
        cache: CacheForecast {
            block_tokens: 16,
            requests: 5,
            unknown: 1,
            prompt_tokens: 1_000,
            cached_tokens: 480,
            warmup_tokens: 160,
            with_replies_tokens: 640,
            is_least: false,
        },
    }
}

fn of<'a>(phases: &'a [PhaseForecast], notes: &'a [String]) -> DryRun<'a> {
    DryRun {
        version: "1.2.3",
        seed: 7,
        cli_command: "aiperf profile",
        is_complete: true,
        dataset: "synthetic",
        conversations: 4,
        turns: 6,
        tokenizer: Some("builtin"),
        phases,
        notes,
    }
}

#[test]
fn the_page_says_it_all() {
    let warmup = PhaseForecast {
        name: "warmup".into(),
        is_warmup: true,
        pacing: "concurrency",
        bound: Bound::OnePass,
        later_turns: 0,
        isl_asked: counts(&[]),
        arrivals: ArrivalCurve::default(),
        sending_ns: None,
        repeats: Repeats { requests: 6, distinct: 6, most: 1, in_warmup: 0 },
        cache: CacheForecast::default(),
        ..phase()
    };
    let (phases, notes) = ([warmup, phase()], ["something".to_owned()]);
    let page = text(&of(&phases, &notes), 100);
    for said in [
        "Dataset             synthetic, 4 conversations with 6 turns\n",
        "Phase               warmup (warm-up, concurrency)\n",
        "the answers decide how many; these numbers are of as many sessions as there are",
        "Arrivals            whenever a place is free; the answers decide how long that takes\n",
        "Identical           none: no two requests are the same\n",
        "Requests            6 requests of 4 sessions; 2 behind the first turn\n",
        "Arrivals            4 planned within 3.000 s, 1.000/s in the mean; sending lasts 3.000 s\n",
        "                    2 more when the turn before is answered\n",
        "Bytes up            2.9 KiB of bodies\n",
        "ISL asked           min 10, mean 26.7, p50 30.0, p99 40.0, max 40 tokens (6 requests)\n",
        "                    5 of 6 made to a length have exactly that\n",
        "OSL asked           none: the server decides\n",
        "Identical           4 requests are 2 different ones; one is sent up to 3 times; the warm-up has sent\n",
        "                    1 of the different ones\n",
        "Prefix cache        48.0 % of 1,000 prompt tokens found, in blocks of 16 tokens\n",
        "                    64.0 % where the server also keeps the blocks that it decoded\n",
        "                    16.0 % of the prompt tokens are in it from the warm-up\n",
        "                    without 1 request whose prompt is not known beforehand\n",
        "Note                something\n",
    ] {
        assert!(page.contains(said), "{said:?} is not in\n{page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
    assert!(page.contains('█') && page.contains('·'), "{page}");
}

#[test]
fn the_file_fits_its_schema() {
    let mut bare = phase();
    bare.isl_asked = counts(&[]);
    bare.isl_sent = counts(&[]);
    bare.arrivals = ArrivalCurve::default();
    bare.sending_ns = None;
    bare.repeats = Repeats::default();
    bare.cache = CacheForecast { unknown: 6, ..CacheForecast::default() };
    let phases = [bare, phase()];
    let bytes = json(&of(&phases, &[]));
    assert_eq!(valid(&dry_run_schema(), &bytes), Ok(()));
    let read: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    for absent in
        ["isl_asked", "exact_lengths", "isl_sent", "osl_asked", "arrivals", "sending_s", "repeats", "cache"]
    {
        assert!(read["phases"][0].get(absent).is_none(), "{absent}");
    }
    let told = &read["phases"][1];
    assert_eq!((&told["cache"]["hit_rate"], &told["exact_lengths"]), (&0.48.into(), &5.into()));
    assert_eq!(told["isl_asked"]["histogram"].as_array().map(Vec::len), Some(31));
}

#[test]
fn bins_become_wider_and_lose_nothing() {
    let at: Vec<u64> = (0..10_000).map(|i| i * 7_000_000).collect();
    let curve = curve(&at);
    assert_eq!(curve.width_ns(), 1_024_000_000, "70 s in 128 bins, in doublings of a millisecond");
    let slow = |bin: u64| at.iter().filter(|at| **at / curve.width_ns() == bin).count() as u64;
    let expected: Vec<u64> = (0..curve.bins().len() as u64).map(slow).collect();
    assert_eq!(curve.bins(), expected);
    assert_eq!(curve.narrowed(20).iter().sum::<u64>(), 10_000);
    assert!(curve.narrowed(20).len() <= 20);
}

proptest! {
    #[test]
    fn counted_lengths_have_the_statistics_of_a_list(lengths in prop::collection::vec(1u64..60, 1..80)) {
        let spread = counts(&lengths).spread().expect("there are some");
        let mut sorted: Vec<f64> = lengths.iter().map(|l| *l as f64).collect();
        sorted.sort_by(f64::total_cmp);
        let percentile = |q| aiperf_metrics::percentile_of_sorted(&sorted, q).expect("there are some");
        prop_assert!((spread.p50 - percentile(50.0)).abs() < 1e-9);
        prop_assert!((spread.p99 - percentile(99.0)).abs() < 1e-9);
        prop_assert_eq!(spread.sum, lengths.iter().sum::<u64>());
        prop_assert_eq!(spread.count, lengths.len() as u64);
        let bins = counts(&lengths).bins(7);
        prop_assert_eq!(bins.iter().sum::<u64>(), lengths.len() as u64);
        prop_assert!(bins[0] > 0);
    }
}
