//! Ways to pace and to limit, and how AIPerf writes them down.

use aiperf_core::plan::{
    Arrival, Cancellation, Pacing, Ramp, RampShape, RatePlan, RatePoint, RateShape, Saturation,
};
use serde_json::{Value as Json, json};

use super::{File, good, run_in, wrong};

/// A folder with a file, whose path stands for `{}` in lines.
fn with_file(text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("f.json");
    std::fs::write(&path, text).expect("written");
    let path = path.display().to_string();
    (dir, path)
}

fn phases(line: &str) -> Json {
    good(&format!("-m m {line}")).plan.input_config["phases"].clone()
}

fn folder(line: &str) -> String {
    good(&format!("-m m {line}")).plan.artifacts.dir.display().to_string()
}

const fn ramp(seconds: u64, shape: RampShape, from: Option<f64>) -> Ramp {
    Ramp { duration_ns: seconds * 1_000_000_000, shape, from }
}

/// Shapes and names taken from AIPerf 0.13.0 by resolving the same words with it.
#[test]
fn every_way_to_pace_is_written_as_the_reference_writes_it() {
    assert_eq!(
        phases("--concurrency 4 --concurrency-ramp-duration 30 --warmup-request-count 3"),
        json!([
            {"name": "warmup", "kind": "warmup", "type": "concurrency", "exclude_from_results": true, "requests": 3,
                "concurrency": 4, "concurrency_ramp": {"duration": 30.0}},
            {"name": "profiling", "kind": "profiling", "type": "concurrency", "requests": 10, "concurrency": 4,
                "concurrency_ramp": {"duration": 30.0}}])
    );
    let line = "--request-rate 5 --request-rate-ramp-duration 30 --streaming --concurrency 8 --prefill-concurrency 2 \
                --prefill-concurrency-ramp-duration 3 --warmup-request-count 3";
    assert_eq!(
        phases(line),
        json!([
            {"name": "warmup", "kind": "warmup", "type": "poisson", "exclude_from_results": true, "requests": 3,
                "concurrency": 8, "prefill_concurrency": 2, "prefill_ramp": {"duration": 3.0}, "rate": 5.0,
                "rate_ramp": {"duration": 30.0}},
            {"name": "profiling", "kind": "profiling", "type": "poisson", "requests": 10, "concurrency": 8,
                "prefill_concurrency": 2, "prefill_ramp": {"duration": 3.0}, "rate": 5.0, "rate_ramp": {"duration": 30.0}}])
    );
    assert_eq!(folder(line), "artifacts/m-openai-chat-concurrency8-request_rate5.0");
    assert_eq!(
        phases("--request-cancellation-rate 10 --request-cancellation-delay 2 --warmup-request-count 3"),
        json!([
            {"name": "warmup", "kind": "warmup", "type": "concurrency", "exclude_from_results": true, "requests": 3, "concurrency": 1},
            {"name": "profiling", "kind": "profiling", "type": "concurrency", "requests": 10,
                "cancellation": {"rate": 10.0, "delay": 2.0}}])
    );
    assert_eq!(
        phases("--request-cancellation-rate 7 --failed-request-threshold 0.1"),
        json!([{"name": "profiling", "kind": "profiling", "type": "concurrency", "requests": 10, "cancellation": {"rate": 7.0},
            "failed_request_threshold": 0.1}])
    );
    let users = "--user-centric-rate 5 --num-users 10 --session-turns-mean 4 --num-sessions 20";
    assert_eq!(
        phases(users),
        json!([{"name": "profiling", "kind": "profiling", "type": "user_centric", "sessions": 20, "rate": 5.0, "users": 10}])
    );
    assert_eq!(folder(users), "artifacts/m-openai-chat-user_centric-users10-qps5.0");
    assert_eq!(
        phases("--benchmark-duration inf"),
        json!([{"name": "profiling", "kind": "profiling", "type": "concurrency", "duration": "Infinity", "grace_period": 30.0}])
    );
}

#[test]
fn a_rate_series_comes_from_a_file_or_stands_in_one() {
    let (_dir, path) = with_file(r#"{"points": [{"time_s": 0, "qps": 1}, {"time_s": 5.5, "qps": 10}]}"#);
    let points =
        vec![RatePoint { at_ns: 0, per_second: 1.0 }, RatePoint { at_ns: 5_500_000_000, per_second: 10.0 }];
    let series = |arrival, ramp| Pacing::Rate {
        rate: RatePlan { shape: RateShape::Series(points.clone()), ramp },
        arrival,
    };
    let plan =
        good(&format!("-m m --request-rate-series {path} --warmup-request-count 2 --concurrency 3")).plan;
    assert_eq!(plan.phases[1].pacing, series(Arrival::Poisson, None));
    // A warm-up takes a steady rate over, not a course of rates.
    assert_eq!((plan.phases[0].pacing.clone(), plan.phases[0].concurrency), (Pacing::Concurrency, Some(3)));
    let line =
        format!("--request-rate-series {path} --arrival-pattern constant --request-rate-ramp-duration 3s");
    assert_eq!(
        good(&format!("-m m {line}")).plan.phases[0].pacing,
        series(Arrival::Constant, Some(ramp(3, RampShape::Linear, None)))
    );
    assert_eq!(
        phases(&line),
        json!([{"name": "profiling", "kind": "profiling", "type": "constant", "requests": 10, "rate_ramp": {"duration": 3.0},
            "rate_series": {"points": [{"time_s": 0.0, "qps": 1.0}, {"time_s": 5.5, "qps": 10.0}]}}])
    );
    assert_eq!(folder(&line), "artifacts/m-openai-chat-request_rate1.0");
    let own = good(&format!("-m m --warmup-request-count 3 --warmup-request-rate-series {path}")).plan;
    assert_eq!(own.phases[0].pacing, series(Arrival::Poisson, None));
    let inline = "[{timeS: 0, qps: 1}, {time_s: 5.5, qps: 10}]";
    for form in
        [inline.to_owned(), format!("{{points: {inline}}}"), path.clone(), format!("{{path: '{path}'}}")]
    {
        let file =
            File::new(&format!("benchmark: {{model: m, profiling: {{type: poisson, rateSeries: {form}}}}}"));
        let plan = file.run("").unwrap_or_else(|e| panic!("{form}: {e}")).plan;
        assert_eq!(plan.phases[0].pacing, series(Arrival::Poisson, None), "{form}");
        // A flag's rate wins over a file's series.
        let plan = file.run("--request-rate 4").expect("sound").plan;
        assert_eq!(plan.phases[0].pacing, Pacing::steady(4.0, Arrival::Poisson), "{form}");
    }
}

#[test]
fn a_broken_rate_series_is_told_with_its_file_and_the_point() {
    for (text, problem) in [
        ("[1,", "is not valid JSON: EOF while parsing a value at line 1 column 3"),
        ("7", "holds neither a list of points nor an object with 'points'"),
        (r#"{"points": [], "x": 1}"#, "holds an object with other keys than 'points' alone"),
        ("[]", "does not hold a rate series: found no points"),
        (
            r#"[{"time_s": 0, "qps": 1}, {"time_s": 0, "qps": 2}]"#,
            "does not hold a rate series: found points[1].time_s, which is not later than that of points[0]",
        ),
    ] {
        let (_dir, path) = with_file(text);
        assert_eq!(
            wrong(&format!("-m m --request-rate-series {path}")),
            [format!("--request-rate-series: the file {path} {problem}")]
        );
    }
    assert!(wrong("-m m --request-rate-series none.json")[0].contains("the file none.json cannot be read"));
    for (form, expected) in [
        (
            "[{time_s: 0, qps: 1}, {time_s: 1, qps: -1}]",
            "rate_series: found points[1].qps -1, which is not from",
        ),
        (
            "{path: a, points: []}",
            "rate_series: found both or neither of path and points; allowed: one of the two",
        ),
        ("{pints: []}", "rate_series: found the key 'pints'; allowed: path, points; did you mean 'points'?"),
        ("5", "rate_series: found the number 5; expected a path, a list of points"),
    ] {
        let errors =
            File::new(&format!("benchmark:\n  model: m\n  profiling:\n    rate_series: {form}\n")).wrong("");
        assert!(
            errors.len() == 1 && errors[0].starts_with("c.yaml:4:18: ") && errors[0].contains(expected),
            "{errors:?}"
        );
    }
}

#[test]
fn ramps_have_three_forms_and_any_start() {
    let line = "--concurrency 10 --concurrency-ramp-duration 2m --concurrency-ramp-strategy exponential --concurrency-ramp-from 20 \
                --streaming --prefill-concurrency 4 --prefill-concurrency-ramp-duration 5 --prefill-concurrency-ramp-strategy POISSON \
                --request-rate 8 --request-rate-ramp-duration 9 --request-rate-ramp-from 2.5";
    let plan = good(&format!("-m m {line}")).plan;
    let phase = &plan.phases[0];
    assert_eq!(phase.concurrency_ramp, Some(ramp(120, RampShape::Exponential, Some(20.0))));
    assert_eq!(phase.prefill_ramp, Some(ramp(5, RampShape::Poisson, None)));
    let rate = RatePlan { shape: RateShape::Steady(8.0), ramp: Some(ramp(9, RampShape::Linear, Some(2.5))) };
    assert_eq!(phase.pacing, Pacing::Rate { rate, arrival: Arrival::Poisson });
    assert_eq!(
        plan.input_config["phases"][0],
        json!({"name": "profiling", "kind": "profiling", "type": "poisson", "requests": 10, "concurrency": 10,
            "concurrency_ramp": {"duration": 120.0, "strategy": "exponential", "from": 20}, "prefill_concurrency": 4,
            "prefill_ramp": {"duration": 5.0, "strategy": "poisson"}, "rate": 8.0, "rate_ramp": {"duration": 9.0, "from": 2.5}})
    );
    for form in ["5", "5s", "{duration: 5}", "{duration: 5s, strategy: linear}"] {
        let file = File::new(&format!(
            "benchmark: {{model: m, profiling: {{concurrency: 3, concurrencyRamp: {form}}}}}"
        ));
        let plan = file.run("").unwrap_or_else(|e| panic!("{form}: {e}")).plan;
        assert_eq!(plan.phases[0].concurrency_ramp, Some(ramp(5, RampShape::Linear, None)), "{form}");
        // A flag changes its part and leaves the others.
        let plan = file.run("--concurrency-ramp-from 2 --concurrency-ramp-duration 7").expect("sound").plan;
        assert_eq!(plan.phases[0].concurrency_ramp, Some(ramp(7, RampShape::Linear, Some(2.0))), "{form}");
    }
    let file =
        File::new("benchmark: {model: m, profiling: {concurrency: 3, concurrency_ramp: {strategy: linear}}}");
    assert!(
        file.wrong("")[0]
            .ends_with("concurrency_ramp.strategy needs concurrency_ramp.duration: a ramp takes its time")
    );
    let file = File::new(
        "benchmark: {model: m, profiling: {concurrency: 3, concurrency_ramp: {duration: 4, form: 1}}}",
    );
    assert!(file.wrong("")[0].contains("there is no key 'form' here; allowed: duration, from, strategy"));
}

#[test]
fn a_warmup_takes_over_what_it_is_not_told() {
    let line = "--streaming --concurrency 8 --prefill-concurrency 4 --max-in-flight 6 --request-rate 9 --saturation-policy skip \
                --request-rate-ramp-duration 5 --request-rate-ramp-strategy poisson --warmup-duration 3 --warmup-concurrency 2 \
                --warmup-request-rate-ramp-duration 1 --request-cancellation-rate 5 --failed-request-threshold 0.5";
    let plan = good(&format!("-m m {line}")).plan;
    let (warmup, main) = (&plan.phases[0], &plan.phases[1]);
    // What is taken over fits its own limit; AIPerf refuses this.
    assert_eq!((warmup.concurrency, warmup.prefill_concurrency), (Some(2), Some(2)));
    assert_eq!((warmup.max_in_flight, warmup.saturation), (Some(6), Saturation::Skip));
    let rate = RatePlan { shape: RateShape::Steady(9.0), ramp: Some(ramp(1, RampShape::Poisson, None)) };
    assert_eq!(warmup.pacing, Pacing::Rate { rate, arrival: Arrival::Poisson });
    assert_eq!((warmup.cancellation, warmup.failed_threshold), (None, None));
    assert_eq!(
        (main.cancellation, main.failed_threshold),
        (Some(Cancellation { share: 0.05, delay_ns: 0 }), Some(0.5))
    );
    // Without a rate of its own or the main one's, a ramp that is taken over has nothing to lead to.
    let plan =
        good("-m m --user-centric-rate 2 --num-users 4 --conversation-turn-mean 3 --warmup-request-count 3")
            .plan;
    assert_eq!(plan.phases[0].pacing, Pacing::Concurrency);
    assert_eq!(
        wrong("-m m --warmup-request-rate-ramp-duration 3 --warmup-request-count 3"),
        [
            "--warmup-request-rate-ramp-duration needs a request rate: it is the way to a value, and there is none to come to"
        ]
    );
}

#[test]
fn users_have_a_rate_a_number_and_several_turns() {
    let users = "--user-centric-rate 2.5 --num-users 20 --conversation-turn-mean 3";
    let plan = good(&format!("-m m {users} --concurrency 5")).plan;
    assert_eq!(plan.phases[0].pacing, Pacing::UserCentric { per_second: 2.5, users: 20 });
    // Nobody asked for an end, and each user sends.
    assert_eq!(plan.phases[0].requests, Some(20));
    assert_eq!(plan.phases[0].concurrency, Some(5));
    let file = File::new(
        "benchmark: {model: m, dataset: {turns: 3}, profiling: {type: user_centric, rate: 2, users: 4, requests: 9}}",
    );
    let pacing =
        |line: &str| file.run(line).map(|r| r.plan.phases[0].pacing.clone()).map_err(|e| e.to_string());
    assert_eq!(pacing(""), Ok(Pacing::UserCentric { per_second: 2.0, users: 4 }));
    // A rate of a higher layer is that of the users.
    assert_eq!(
        pacing("--request-rate 7 --num-users 3"),
        Ok(Pacing::UserCentric { per_second: 7.0, users: 3 })
    );
    assert_eq!(pacing("--user-centric-rate 8"), Ok(Pacing::UserCentric { per_second: 8.0, users: 4 }));
    // Whether the conversations of a file have several turns is seen when it is opened.
    let (_dir, path) = with_file("{\"text\": \"a\", \"session_id\": \"s\"}\n");
    good(&format!("-m m --user-centric-rate 5 --num-users 3 --input-file {path}"));
    for (line, expected) in [
        (
            "--user-centric-rate 5 --num-users 3",
            "--user-centric-rate needs --conversation-turn-mean of at least 2: users come back",
        ),
        (
            "--user-centric-rate 5 --session-turns-mean 2",
            "--user-centric-rate needs --num-users: the rate is that of so many",
        ),
        (
            "--num-users 3",
            "--num-users needs --user-centric-rate: it is how many users send at that rate together",
        ),
        (
            "--user-centric-rate 5 --num-users 9 --session-turns-mean 2 --request-count 8",
            "--request-count: found '8'; allowed: a whole number from 9, one for each of the users",
        ),
        (
            "--user-centric-rate 5 --num-users 9 --session-turns-mean 2 --num-sessions 8",
            "--num-sessions: found '8'; allowed: a whole number from 9, one for each of the users",
        ),
        (
            "--user-centric-rate 5 --num-users 9 --session-turns-mean 2 --request-rate 3",
            "--request-rate and --user-centric-rate exclude each other: users send at a steady rate of their own",
        ),
        (
            "--user-centric-rate 5 --num-users 9 --session-turns-mean 2 --request-rate-ramp-duration 3",
            "--request-rate-ramp-duration and --user-centric-rate exclude each other",
        ),
        (
            "--user-centric-rate 5 --num-users 9 --session-turns-mean 2 --arrival-pattern constant",
            "--arrival-pattern and --user-centric-rate exclude each other",
        ),
        (
            "--user-centric-rate 5 --num-users 9 --session-turns-mean 2 --fixed-schedule-end-offset 3",
            "--fixed-schedule-end-offset needs --fixed-schedule: it is about the timestamps of a file",
        ),
    ] {
        let errors = wrong(&format!("-m m {line}"));
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{line}: {errors:?}");
    }
}

#[test]
fn a_fixed_schedule_follows_a_file_within_a_window() {
    let (_dir, path) = with_file("{\"text\": \"a\", \"timestamp\": 5}\n");
    let file = format!("-m m --input-file {path} --fixed-schedule");
    let pacing = |line: &str| good(&format!("{file} {line}")).plan.phases[0].pacing.clone();
    let schedule = |auto_offset, start: Option<u64>, end: Option<u64>| Pacing::FixedSchedule {
        auto_offset,
        start_offset_ns: start.map(|ms| ms * 1_000_000),
        end_offset_ns: end.map(|ms| ms * 1_000_000),
    };
    assert_eq!(pacing(""), schedule(true, None, None));
    assert_eq!(
        pacing("--fixed-schedule-auto-offset --fixed-schedule-end-offset 8"),
        schedule(true, None, Some(8))
    );
    assert_eq!(pacing("--no-fixed-schedule-auto-offset"), schedule(false, None, None));
    assert_eq!(
        pacing("--fixed-schedule-start-offset 5 --fixed-schedule-end-offset 5"),
        schedule(false, Some(5), Some(5))
    );
    let plan =
        good(&format!("{file} --fixed-schedule-start-offset 5 --concurrency 7 --warmup-request-count 2"))
            .plan;
    // It ends with its file; a warm-up does not follow it.
    assert_eq!((plan.phases[1].requests, plan.phases[1].concurrency), (None, Some(7)));
    assert_eq!((plan.phases[0].pacing.clone(), plan.phases[0].concurrency), (Pacing::Concurrency, Some(7)));
    assert_eq!(
        plan.input_config["phases"][1],
        json!({"name": "profiling", "kind": "profiling", "type": "fixed_schedule", "concurrency": 7, "auto_offset": false,
            "start_offset": 5})
    );
    assert_eq!(plan.artifacts.dir.display().to_string(), "artifacts/m-openai-chat-fixed_schedule");
    for (line, expected) in [
        (
            "--fixed-schedule-auto-offset --fixed-schedule-start-offset 3",
            "--fixed-schedule-auto-offset and --fixed-schedule-start-offset exclude each other",
        ),
        (
            "--fixed-schedule-start-offset 9 --fixed-schedule-end-offset 8",
            "--fixed-schedule-end-offset: found '8'; allowed: milliseconds from the start offset, 9",
        ),
        (
            "--request-rate 3",
            "--request-rate and --fixed-schedule exclude each other: the timestamps of the file are the schedule",
        ),
        ("--arrival-smoothness 3", "--arrival-smoothness and --fixed-schedule exclude each other"),
        ("--arrival-pattern constant", "--arrival-pattern and --fixed-schedule exclude each other"),
        (
            "--no-fixed-schedule",
            "--fixed-schedule and --no-fixed-schedule exclude each other: the one sends rows",
        ),
        (
            "--concurrency-ramp-duration 3",
            "--concurrency-ramp-duration needs --concurrency: it is the way to a value",
        ),
    ] {
        let errors = wrong(&format!("{file} {line}"));
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{line}: {errors:?}");
    }
    assert_eq!(
        wrong("-m m --fixed-schedule"),
        ["--fixed-schedule needs --input-file: the timestamps are those of its rows"]
    );
    assert!(
        wrong("-m m --fixed-schedule-start-offset 4")[0]
            .starts_with("--fixed-schedule-start-offset needs --fixed-schedule")
    );
}

#[test]
fn a_flag_changes_the_kind_of_a_files_phase() {
    let (_dir, path) = with_file("{\"text\": \"a\", \"timestamp\": 5}\n");
    let first = |text: &str, line: &str| {
        let file = File::new(&format!(
            "benchmark: {{model: m, dataset: {{type: file, path: '{path}'}}, profiling: {{{text}}}}}"
        ));
        file.run(line).map(|r| r.plan.phases[0].pacing.clone()).map_err(|e| e.to_string())
    };
    let schedule = Pacing::FixedSchedule { auto_offset: true, start_offset_ns: None, end_offset_ns: None };
    assert_eq!(first("type: fixed_schedule", ""), Ok(schedule.clone()));
    assert_eq!(
        first("type: fixed_schedule, auto_offset: false, start_offset: 4", "--request-rate 3"),
        Ok(Pacing::steady(3.0, Arrival::Poisson))
    );
    assert_eq!(first("type: gamma, rate: 3, smoothness: 2, rate_ramp: 4", "--fixed-schedule"), Ok(schedule));
    assert_eq!(
        first("type: gamma, rate: 3, smoothness: 2, rate_ramp: 4", "--arrival-pattern concurrency-burst"),
        Ok(Pacing::Concurrency)
    );
    let error = first("type: fixed_schedule, rate: 3", "").expect_err("two schedules");
    assert!(
        error.contains("profiling.rate and ") && error.contains("profiling.type exclude each other"),
        "{error}"
    );
}

#[test]
fn limits_are_held_to_what_they_limit() {
    let plan = good("-m m --streaming --request-rate 5 --prefill-concurrency 3 --max-in-flight 9 --saturation-policy abort").plan;
    let phase = &plan.phases[0];
    assert_eq!((phase.concurrency, phase.prefill_concurrency, phase.max_in_flight), (None, Some(3), Some(9)));
    assert_eq!(phase.saturation, Saturation::Abort);
    for (line, expected) in [
        (
            "--prefill-concurrency 1",
            "--prefill-concurrency needs --streaming: without a stream there is no first token to wait for",
        ),
        (
            "--streaming --prefill-concurrency 2",
            "--prefill-concurrency: found '2'; allowed: a whole number up to the concurrency, 1",
        ),
        (
            "--streaming --concurrency 3 --warmup-prefill-concurrency 4 --warmup-request-count 1",
            "--warmup-prefill-concurrency: found '4'; allowed: a whole number up to the concurrency, 3",
        ),
        (
            "--streaming --prefill-concurrency-ramp-duration 2",
            "--prefill-concurrency-ramp-duration needs --prefill-concurrency: it is the way to a value, and there is none",
        ),
        (
            "--request-rate 3 --concurrency-ramp-from 2",
            "--concurrency-ramp-from needs --concurrency: it is the way",
        ),
        (
            "--concurrency 3 --concurrency-ramp-from 2",
            "--concurrency-ramp-from needs --concurrency-ramp-duration: a ramp takes its time",
        ),
        (
            "--request-rate-ramp-duration 3",
            "--request-rate-ramp-duration needs a request rate: it is the way",
        ),
        ("--saturation-policy skip", "--saturation-policy needs --request-rate, --request-rate-series,"),
        (
            "--request-cancellation-delay 2",
            "--request-cancellation-delay needs --request-cancellation-rate: it says how many",
        ),
        (
            "--request-cancellation-rate 101",
            "--request-cancellation-rate: found '101'; allowed: a number from 0 to 100",
        ),
        (
            "--failed-request-threshold 1.5",
            "--failed-request-threshold: found '1.5'; allowed: a number from 0 to 1",
        ),
        (
            "--concurrency-ramp-strategy steep",
            "--concurrency-ramp-strategy: found 'steep'; allowed: linear, exponential, poisson",
        ),
        ("--saturation-policy drop", "--saturation-policy: found 'drop'; allowed: queue, skip, abort"),
        ("--max-in-flight 0", "--max-in-flight: found '0'; allowed: a whole number from 1"),
    ] {
        let errors = wrong(&format!("-m m {line}"));
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{line}: {errors:?}");
    }
    let unlimited = good("-m m --request-rate 5 --saturation-policy skip");
    assert!(
        unlimited.notes[0].starts_with("--saturation-policy has no effect: --concurrency,"),
        "{:?}",
        unlimited.notes
    );
    assert!(good("-m m --saturation-policy queue").notes.is_empty());
    assert_eq!(good("-m m --request-cancellation-rate 0").plan.phases[0].cancellation, None);
    let endless = good("-m m --benchmark-duration inf --warmup-duration inf").plan;
    assert_eq!(endless.phases[1].duration_ns, Some(1_000_000_000_000_000_000));
    assert_eq!(
        (endless.phases[1].requests, endless.phases[0].duration_ns),
        (None, endless.phases[1].duration_ns)
    );
}

#[test]
fn timing_variables_of_the_reference_are_told_to_do_nothing() {
    let vars = [("AIPERF_TIMING_MAX_CATCHUP_SECONDS", "0.5"), ("AIPERF_TIMING_HIGH_RES_TIMER", "false")];
    let notes = run_in(&["-m", "m"], &vars).expect("sound").notes;
    assert_eq!(
        notes,
        [
            "AIPERF_TIMING_MAX_CATCHUP_SECONDS, AIPERF_TIMING_HIGH_RES_TIMER in the environment has no effect: arrivals are computed, \
          none is moved, and ramps have no steps of time"
        ]
    );
}

#[test]
fn a_trace_that_is_named_brings_its_schedule() {
    let (_dir, path) =
        with_file("{\"chat_id\": 1, \"timestamp\": 5.5, \"input_length\": 4, \"output_length\": 2}\n");
    let pacing = |line: &str| good(&format!("-m m --input-file {path} {line}")).plan.phases[0].pacing.clone();
    let is_schedule = |line: &str| matches!(pacing(line), Pacing::FixedSchedule { .. });
    assert!(is_schedule("--custom-dataset-type bailian_trace"));
    // What the file shows of itself is no wish for its times, as in AIPerf.
    assert!(!is_schedule(""));
    assert!(!is_schedule("--custom-dataset-type bailian_trace --no-fixed-schedule"));
    let (_dir, table) = with_file("Timestamp,Request tokens,Response tokens\n1,2,3\n");
    let table = format!("-m m --input-file {table} --custom-dataset-type burst_gpt_trace");
    assert_eq!(good(&table).plan.phases[0].pacing, Pacing::Concurrency, "AIPerf does not look into tables");
    assert!(matches!(
        good(&format!("{table} --fixed-schedule")).plan.phases[0].pacing,
        Pacing::FixedSchedule { .. }
    ));
    let errors = wrong(&format!("{table} --isl-block-size 16 --prompt-corpus random"));
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].starts_with("--prompt-corpus: found 'random'"), "{errors:?}");
    assert!(
        errors[1].starts_with("--isl-block-size needs --custom-dataset-type mooncake_trace or bailian_trace"),
        "{errors:?}"
    );
}
