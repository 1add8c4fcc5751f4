use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Kind, Severity, analyze};

/// Conversations of AIPerf 0.13.0 with their configurations.
const GOLDENS: &str = include_str!("../../testdata/agentic_code.json");
/// A run of it with conversations that are cut in two: what went in and the files that came out.
const CONFIG: &str = include_str!("../../testdata/restarts.config.json");
const DATASET: &str = include_str!("../../testdata/restarts.dataset.jsonl");
const QUALITY: &str = include_str!("../../testdata/restarts.quality.json");
const MANIFEST: &str = include_str!("../../testdata/restarts.manifest.json");

fn read(text: &str) -> Config {
    let (config, unknown) = Config::read(text).expect("a configuration");
    assert_eq!(unknown, Vec::<String>::new());
    config
}

fn number(value: &Value) -> f64 {
    value.as_str().and_then(|text| text.parse().ok()).expect("a number as a string")
}

#[test]
fn conversations_are_the_references() {
    let goldens: Value = serde_json::from_str(GOLDENS).expect("JSON");
    let cases = goldens["cases"].as_array().expect("cases");
    let (mut sessions, mut turns) = (0, 0);
    for case in cases {
        let config = read(&case["config"].to_string());
        let made = conversations(
            &config,
            case["num_sessions"].as_u64().expect("a number"),
            case["seed"].as_u64().expect("a seed"),
        );
        let made = made.expect("they can be made");
        let layout = Layout::new(&config);
        let wanted = case["sessions"].as_array().expect("sessions");
        assert_eq!(made.len(), wanted.len(), "{}", case["id"]);
        for (got, want) in made.iter().zip(wanted) {
            let told = json!({"session_id": got.id, "group_id": got.group, "end_reason": got.end.name(), "restart": got.is_restart, "n_turns": got.turns.len()});
            for (key, value) in told.as_object().expect("an object") {
                assert_eq!(value, &want[key], "{} {key}", case["id"]);
            }
            let mut at_ms = 0.0;
            for (turn, want) in got.turns.iter().zip(want["first_turns"].as_array().expect("turns")) {
                let ids: Vec<u64> = layout.ids(got.index, got.group, turn.input).collect();
                let told = json!({"in": turn.input, "out": turn.output, "new": turn.new, "n_hash": ids.len(), "hash_head": ids[..2], "hash_tail": ids[ids.len() - 2..]});
                for (key, value) in told.as_object().expect("an object") {
                    assert_eq!(value, &want[key], "{} {key}", case["id"]);
                }
                at_ms += turn.delay_ms;
                for (got, want) in [(turn.delay_ms, number(&want["delay_ms"])), (at_ms, number(&want["ts"]))]
                {
                    assert!((got - want).abs() <= 1e-14 * want, "{got} for {want}");
                }
                turns += 1;
            }
            sessions += 1;
        }
    }
    assert_eq!((cases.len(), sessions, turns > 100), (7, 28, true));
}

#[test]
fn files_are_the_references() {
    let config = read(CONFIG);
    let made = conversations(&config, 12, 5).expect("they can be made");
    let mut rows = Vec::new();
    let written = write_rows(&made, Layout::new(&config), Rows::Added, &mut rows).expect("memory takes all");
    assert_eq!((written, made.len()), (86, 19));
    assert_eq!(String::from_utf8(rows).expect("text"), DATASET);
    let quality = format!("{:#}", Quality::of(&made, &config).json());
    assert_eq!(quality, QUALITY);
    let whole = format!(
        "{:#}",
        json!({"seed": 5, "num_sessions": 19, "config_name": "cfg", "generation_params": config.whole()})
    );
    // The last digit of a logarithm may differ between platforms.
    let (got, want): (Value, Value) =
        (serde_json::from_str(&whole).expect("ours"), serde_json::from_str(MANIFEST).expect("theirs"));
    let lines = |text: &str| text.lines().map(|l| l.split(':').next().map(str::to_owned)).collect::<Vec<_>>();
    assert_eq!(lines(&whole), lines(MANIFEST));
    assert_eq!(
        got["generation_params"]["restart_turn_range"],
        want["generation_params"]["restart_turn_range"]
    );
    let sigma = |v: &Value| v["generation_params"]["cache"]["layer2"]["sigma"].as_f64().expect("a number");
    assert!((sigma(&got) - sigma(&want)).abs() < 1e-15);
    // A manifest is a configuration.
    let again = conversations(&read(MANIFEST), 12, 5).expect("they can be made");
    let mut rows = Vec::new();
    write_rows(&again, Layout::new(&config), Rows::Added, &mut rows).expect("memory takes all");
    assert_eq!(String::from_utf8(rows).expect("text"), DATASET);
}

#[test]
fn bounds_from_the_command_line() {
    let config = Config::default().bounded(Some(80_000), Some(20)).expect("sound");
    assert_eq!(
        (config.max_prompt_tokens, config.generation_length.max, config.least_output()),
        (80_000, Some(20.0), 20)
    );
    for session in conversations(&config, 20, 1).expect("they can be made") {
        assert!(session.turns.iter().all(|turn| turn.output == 20 && turn.input < 80_000));
    }
    let bundled = Config::bundled("default").expect("it is there");
    assert_ne!(bundled, Config::default());
    assert_eq!(Config::bundled("none"), None);
}

#[test]
fn configurations_that_are_none() {
    let told = |text: &str| Config::read(text).expect_err("it is none").to_string();
    for (text, words) in [
        ("{", "line 1, column 1: EOF while parsing an object"),
        ("{\n \"block_size\": \"x\"}", "line 2, column 18: invalid type: string \"x\", expected u64"),
        (
            r#"{"generation_length": {"mean": 5, "median": 7}, "block_size": 0}"#,
            "generation_length: the mean, 5, must be at least the median, 7; block_size: must be above 0",
        ),
        (r#"{"turns": {"mean": 6, "median": 5, "min": 2, "max": 12}, "reset": {}}"#, "turns: excludes reset"),
        (
            r#"{"turns": {"mean": 600, "median": 500, "min": 400, "max": 800}, "max_prompt_tokens": 60000}"#,
            "turns: so many do not fit into max_prompt_tokens",
        ),
        (
            r#"{"restart_turn_range": [5, 5], "cache": {"layer1_5_tokens": 200000}}"#,
            "cache.layer1_5_tokens: must be at most 200 blocks; restart_turn_range: must be two turns from 1 up, the first below the second",
        ),
        (r#"{"max_prompt_tokens": 1}"#, "max_prompt_tokens: must be from 2 to 1099511627776"),
        (
            r#"{"max_prompt_tokens": 18446744073709551615, "cache": {"layer1_tokens": 18446744073709551615}, "reset": null,
                "turns": {"mean": 2, "median": 2, "min": 2, "max": 2}, "new_tokens_per_turn": {"mean": 2, "median": 1, "min": 1e30}}"#,
            "max_prompt_tokens: must be from 2 to 1099511627776; cache.layer1_tokens: must be at most 1099511627776; \
             turns: so many do not fit into max_prompt_tokens",
        ),
        (
            r#"{"restart_fraction": 0.5, "restart_initial_probability": 0.4}"#,
            "restart_fraction: the older name of restart_initial_probability; give that one alone",
        ),
        (
            r#"{"inter_turn_delay": {"human_delay": {"mean": 5, "median": 4, "mu": 3, "sigma": 2000}}}"#,
            "inter_turn_delay.human_delay: mu, 3, must be from -100 to 100, and sigma, 2000, from 0 to 20: they are the mean and the \
             deviation of the logarithm",
        ),
        (
            r#"{"generation_length": {"mean": 5, "median": 4, "mu": -101, "sigma": 0}}"#,
            "generation_length: mu, -101, must be from -100 to 100, and sigma, 0, from 0 to 20: they are the mean and the deviation of the \
             logarithm",
        ),
        (
            r#"{"generation_length": {"mean": 1e300, "median": 1e300}}"#,
            "generation_length: mean and median, 1e300 and 1e300, are further from 1 or from each other than any length or time",
        ),
        (
            r#"{"turns": {"mean": 6, "median": 5, "min": 2, "max": 65536}, "reset": null}"#,
            "turns.max: must be at most 65535, the most turns that a replay takes",
        ),
    ] {
        assert_eq!(told(text), words);
    }
    let (config, unknown) = Config::read(
        r#"{"mood": 1, "cache": {"layer3": 2, "layer2": {"mean": 5, "median": 5}}, "restart_fraction": 0.5}"#,
    )
    .expect("keys that mean nothing do no harm");
    assert_eq!(
        (unknown, config.restart_initial_probability),
        (vec!["mood".to_owned(), "cache.layer3".to_owned()], 0.5)
    );
    let tight = read(
        r#"{"turns": {"mean": 6, "median": 6, "min": 6, "max": 6, "max_session_attempts": 3}, "max_prompt_tokens": 53450}"#,
    );
    assert_eq!(
        conversations(&tight, 1, 0).expect_err("they do not fit").to_string(),
        "no conversation of 6 turns fitted into 53450 tokens in 3 attempts; fewer turns, a larger max_prompt_tokens, or \
         turns.allow_truncation make it possible"
    );
    let fine = read(r#"{"block_size": 2, "cache": {"layer1_5_tokens": 0}}"#);
    assert!(matches!(conversations(&fine, 9, 0), Err(Impossible::Blocks { .. })));
}

/// What no replay takes, and what memory does not hold, is told before anything is written.
#[test]
fn conversations_without_measure() {
    let wrong =
        |text: &str, n| conversations(&read(text), n, 7).expect_err("they cannot be made").to_string();
    let long = r#"{"inter_turn_delay": {"human_delay": {"mean": 5, "median": 4, "mu": 50, "sigma": 20}, "agentic_fraction": 0}}"#;
    let error = wrong(long, 9);
    assert!(error.starts_with("a delay of ") && error.contains("inter_turn_delay.max"), "{error}");
    let bounded = long.replace(r#""agentic_fraction""#, r#""max": 1e9, "agentic_fraction""#);
    let made = conversations(&read(&bounded), 9, 7).expect("they can be made");
    assert!(made.iter().flat_map(|s| &s.turns).all(|turn| turn.delay_ms <= 1e9));
    let endless = r#"{"max_prompt_tokens": 1000000000, "block_size": 1000000, "reset": null}"#;
    let error = wrong(endless, 1);
    assert!(error.starts_with("a conversation has more than 65535 turns"), "{error}");
    let error = wrong("{}", 10_000_000);
    assert!(error.starts_with("10000000 conversations have about "), "{error}");
    assert!(
        error.ends_with(
            "up to 10000000 are made, for memory holds them all; make fewer conversations (--num-sessions)"
        ),
        "{error}"
    );
}

/// Values at the end of what numbers hold make conversations, or an error, and no wrong sums.
#[test]
fn values_without_measure() {
    let huge = |more: &Value| {
        let mut text = json!({"block_size": 1u64 << 63, "generation_length": {"mean": 1e40, "median": 1e40}, "max_prompt_tokens": 1u64 << 40});
        text.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let config = read(&text.to_string());
        let made = conversations(&config, 3, 1).expect("they can be made");
        let quality = Quality::of(&made, &config).json();
        assert_eq!(quality["session_end_stats"]["total_sessions"], made.len());
        assert!(made.iter().flat_map(|s| &s.turns).all(|turn| (1..1 << 40).contains(&turn.input)));
        made
    };
    let cache = json!({"cache": {"layer1_tokens": 1u64 << 40, "layer1_5_tokens": u64::MAX}});
    let made = huge(&cache);
    assert!(made.iter().all(|s| s.end == End::ForcedRetire && s.turns[0].output == u64::MAX));
    // A half goes on from a context with an answer that no number holds.
    let cut = json!({"restart_initial_probability": 1.0, "restart_turn_range": [1, 2], "cache": {"layer1_tokens": 5}});
    assert!(huge(&cut).iter().any(|s| s.is_restart));
    let least = read(r#"{"max_prompt_tokens": 2}"#);
    let made = conversations(&least, 3, 1).expect("they can be made");
    assert!(made.iter().flat_map(|s| &s.turns).all(|turn| turn.input == 1));
}

/// Whole rows share what the conversation shares, turn by turn, and a replay takes them for what they are.
#[test]
fn whole_rows_hold_their_history() {
    let config = read(CONFIG);
    let made = conversations(&config, 12, 5).expect("they can be made");
    let mut rows = Vec::new();
    write_rows(&made, Layout::new(&config), Rows::Whole, &mut rows).expect("memory takes all");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), &rows).expect("it is written");
    let whole = analyze(file.path(), config.block_size).expect("a trace");
    let several = made.iter().filter(|s| s.turns.len() > 1).count() as u64;
    let holds = whole.findings.list();
    assert_eq!(holds[0].kind, Kind::HoldsHistory, "{holds:?}");
    assert_eq!((holds[0].count, whole.conversations), (several, 19));
    assert_eq!(whole.findings.worst(), Some(Severity::Note));
    std::fs::write(file.path(), DATASET).expect("it is written");
    let added = analyze(file.path(), config.block_size).expect("a trace");
    let adds: Vec<_> = added.findings.list().iter().map(|found| (found.kind, found.count)).collect();
    assert!(adds.contains(&(Kind::AddsUp, several)), "{adds:?}");
    assert!(added.prefix_cache_hit_rate < whole.prefix_cache_hit_rate);
}

proptest! {
    /// Contexts grow by answer and new tokens, stay below the limit, and their ids begin with those before.
    #[test]
    fn conversations_hang_together(seed in any::<u64>(), max in 3_000..30_000u64, restart in 0.0..=1.0f64, base in 0.0..0.3f64) {
        let text = json!({
            "max_prompt_tokens": max, "block_size": 64, "restart_initial_probability": restart, "restart_turn_range": [1, 6],
            "reset": {"base_probability": base, "context_scaling": 2.0},
            "cache": {"layer1_tokens": 700, "layer1_5_tokens": 300, "layer2": {"mean": 500, "median": 400}},
        });
        let config = read(&text.to_string());
        let layout = Layout::new(&config);
        let made = conversations(&config, 8, seed).expect("they can be made");
        prop_assert_eq!(made.iter().filter(|s| s.is_restart).count(), made.iter().filter(|s| s.end == End::RestartSplit).count());
        prop_assert_eq!(made.iter().filter(|s| !s.is_restart).count(), 8);
        for session in &made {
            let ids = |turn: &Turn| layout.ids(session.index, session.group, turn.input).collect::<Vec<_>>();
            prop_assert!(session.turns[0].input < max && session.turns[0].new == session.turns[0].input);
            for pair in session.turns.windows(2) {
                prop_assert_eq!(pair[1].input, pair[0].input + pair[0].output + pair[1].new);
                prop_assert!(pair[1].input < max && pair[1].new > 0 && pair[1].output >= 30 && pair[1].delay_ms > 0.0);
                prop_assert!(ids(&pair[1]).starts_with(&ids(&pair[0])));
            }
            prop_assert_eq!(ids(&session.turns[0]).len() as u64, session.turns[0].input.div_ceil(64));
        }
    }
}
