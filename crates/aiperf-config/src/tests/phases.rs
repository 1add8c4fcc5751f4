//! Files with any number of phases.

use aiperf_core::plan::{DatasetPlan, Pacing, PhaseKind};
use proptest::prelude::*;
use serde_json::json;

use super::{File, run_in};
use crate::Rejected;

/// A file with these phases, which asks for streams so that every option may stand in a phase.
fn with_phases(phases: &str) -> File {
    File::new(&format!("benchmark:\n  model: m\n  endpoint: {{streaming: true}}\n  phases:\n{phases}"))
}

const SEVERAL: &str = "
  - {name: warmup, type: concurrency, requests: 4, concurrency: 2}
  - {name: base, kind: profiling, type: constant, rate: 5, duration: 10s, gracePeriod: 1}
  - {name: between, kind: warmup, type: poisson, rate: 2, duration: 3}
  - {name: stress, kind: profiling, type: concurrency, concurrency: 9, sessions: 7, seamless: false, timingMode: request_rate}
  - {name: recovery, kind: profiling, seamless: true, requests: 20, cancellation: {rate: 10, delay: 2s}}
";

#[test]
fn a_file_has_any_number_of_phases_in_its_order() {
    let plan = with_phases(SEVERAL).run("").expect("sound").plan;
    let told: Vec<_> = plan
        .phases
        .iter()
        .map(|p| (p.name.as_str(), p.kind.name(), p.seamless, p.requests, p.sessions))
        .collect();
    assert_eq!(
        told,
        [
            ("warmup", "warmup", false, Some(4), None),
            ("base", "profiling", false, None, None),
            ("between", "warmup", false, None, None),
            ("stress", "profiling", false, None, Some(7)),
            ("recovery", "profiling", true, Some(20), None),
        ]
    );
    let limits: Vec<_> =
        plan.phases.iter().map(|p| (p.concurrency, p.grace_ns, p.cancellation.is_some())).collect();
    assert_eq!(
        limits,
        [
            (Some(2), None, false),
            (None, Some(1_000_000_000), false),
            (None, None, false),
            (Some(9), None, false),
            // One phase's cancellation is not another's.
            (Some(1), None, true),
        ]
    );
    assert_eq!(
        plan.input_config["phases"][4],
        json!({"name": "recovery", "kind": "profiling", "type": "concurrency", "requests": 20,
            "cancellation": {"rate": 10.0, "delay": 2.0}, "seamless": true})
    );
    assert_eq!(
        plan.artifacts.dir.file_name().and_then(|n| n.to_str()),
        Some("m-openai-chat-request_rate5.0")
    );
    // One of the phases does not say how many conversations it wants.
    let DatasetPlan::Synthetic(dataset) = &plan.dataset else { panic!("synthetic") };
    assert_eq!(dataset.entries, 100);
}

#[test]
fn several_measured_phases_need_the_conversations_of_all() {
    let file = with_phases(
        "  - {name: a, kind: profiling, requests: 30}\n  - {name: b, kind: profiling, sessions: 5}\n",
    );
    let plan = file.run("").expect("sound").plan;
    let DatasetPlan::Synthetic(dataset) = &plan.dataset else { panic!("synthetic") };
    assert_eq!(dataset.entries, 35);
    assert_eq!(plan.input_config["datasets"][0]["entries"], json!(35));
}

#[test]
fn the_short_forms_have_their_own_order_and_a_list_its_own() {
    let names = |file: &File| {
        file.run("").expect("sound").plan.phases.into_iter().map(|p| p.name).collect::<Vec<_>>()
    };
    let short = File::new("benchmark: {model: m, profiling: {requests: 3}, warmup: {requests: 2}}");
    assert_eq!(names(&short), ["warmup", "profiling"]);
    let list = with_phases("  - {name: profiling, requests: 3}\n  - {name: warmup, requests: 2}\n");
    assert_eq!(names(&list), ["profiling", "warmup"]);
}

#[test]
fn a_flag_means_the_only_phase_of_its_kind_and_no_other() {
    let file = with_phases(
        "  - {name: a, kind: profiling, requests: 3}\n  - {name: w, kind: warmup, requests: 2}\n",
    );
    let plan = file.run("--concurrency 4 --warmup-concurrency 3").expect("sound").plan;
    assert_eq!((plan.phases[0].concurrency, plan.phases[1].concurrency), (Some(4), Some(3)));

    let several = with_phases(SEVERAL);
    assert_eq!(
        several.wrong("--request-count 5 --warmup-request-rate 3 --isl 5"),
        [
            "--warmup-request-rate is for one warmup phase, and the file has several: warmup, between; say it in the phase that \
             is meant",
            "--request-count is for one profiling phase, and the file has several: base, stress, recovery; say it in the phase \
             that is meant",
        ]
    );
    let path = several.path().display().to_string();
    match run_in(&["-f", &path], &[("AIPERF_CONCURRENCY", "3")]) {
        Err(Rejected::Invalid(errors)) => {
            assert_eq!(errors.len(), 1);
            assert!(
                errors[0]
                    .to_string()
                    .starts_with("AIPERF_CONCURRENCY (environment) is for one profiling phase")
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn flags_still_make_a_warmup_before_several_phases() {
    let file = with_phases(
        "  - {name: a, kind: profiling, type: constant, rate: 3, requests: 3}\n  - {name: b, kind: profiling, requests: 3}\n",
    );
    let plan = file.run("--warmup-request-count 6").expect("sound").plan;
    assert_eq!(
        (plan.phases.len(), plan.phases[0].kind, plan.phases[0].requests),
        (3, PhaseKind::Warmup, Some(6))
    );
    // It takes after the first one.
    assert_eq!(plan.phases[0].pacing, plan.phases[1].pacing);
    let first = with_phases("  - {name: a, kind: profiling, requests: 3, seamless: true}\n");
    assert!(first.run("--warmup-request-count 6").expect("sound").plan.phases[1].seamless);
}

#[test]
fn what_is_wrong_with_a_list_of_phases_is_told_once_and_where_it_stands() {
    for (phases, expected) in [
        (
            "  - {name: w, kind: warmup, requests: 1}",
            "c.yaml:5:5: benchmark.phases needs a phase of kind profiling: a warmup alone",
        ),
        (
            "  - {name: a, requests: 1}",
            "c.yaml:5:5: benchmark.phases[0] needs a kind: a phase that is not named",
        ),
        (
            "  - {name: a, kind: profilng, requests: 1}",
            "c.yaml:5:21: benchmark.phases[0].kind: found 'profilng'; allowed: warmup, profiling; did you mean 'profiling'?",
        ),
        (
            "  - {name: 'a b', kind: profiling, requests: 1}",
            "c.yaml:5:12: benchmark.phases[0].name: found 'a b'; allowed: a letter",
        ),
        ("  - {name: lpt9, kind: profiling, requests: 1}", "found 'lpt9'; allowed: a letter or _"),
        (
            "  - {name: a, kind: profiling, requests: 1}\n  - {name: A, kind: profiling, requests: 1}",
            "c.yaml:6:12: benchmark.phases[1].name: found the name 'A' twice; allowed: a different name for each phase",
        ),
        (
            "  - {name: a, kind: profiling, requests: 1, seamless: true}",
            "c.yaml:5:55: benchmark.phases.a.seamless: found true for the first phase",
        ),
        (
            "  - {name: a, kind: profiling, requests: 1}\n  - {name: w, kind: warmup, requests: 1, seamless: true}",
            "c.yaml:6:52: benchmark.phases.w.seamless: found true for a warmup",
        ),
        (
            "  - {name: a, kind: profiling, requests: 1, seamless: 7x}",
            "a.seamless: found the text '7x'; expected true or false",
        ),
        (
            "  - {name: a, kind: profiling, reqests: 1}",
            "c.yaml:5:32: benchmark.phases.a: there is no key 'reqests' here",
        ),
        ("  - {name: a, kind: profiling, reqests: 1}", "did you mean 'requests'?"),
        (
            "  - {name: a, kind: profiling, requests: 1, exclude_from_results: true}",
            "benchmark.phases.a.exclude_from_results: found 'true'; allowed: true for a warmup, false for a profiling phase",
        ),
        (
            "  - {name: a, kind: profiling, requests: 1, timing_mode: fixed_schedule}",
            "benchmark.phases.a.timing_mode: found 'fixed_schedule'; allowed: 'request_rate', which is what the type says",
        ),
        (
            "  - {name: a, kind: profiling, requests: 1, timing_mode: agentic_replay}",
            "benchmark.phases.a.timing_mode 'agentic_replay' is an AIPerf value this version does not have yet",
        ),
        (
            "  - {name: a, kind: profiling, requests: 1, timing_mode: request-rates}",
            "did you mean 'request_rate'?",
        ),
        (
            "  - {name: a, kind: profiling, requests: 1}\n  - {name: w, kind: warmup, requests: 1, cancellation: {rate: 5}}",
            "c.yaml:6:42: benchmark.phases.w.cancellation needs a phase of kind profiling: a warmup drops no requests",
        ),
        (
            "  - {name: a, kind: profiling, requests: 1}\n  - {name: w, kind: warmup, requests: 1, type: user_centric}",
            "benchmark.phases.w.type: found 'user_centric'; allowed: poisson, constant, gamma, concurrency_burst",
        ),
        (
            "  - {name: a, kind: profiling, requests: 1, grace_period: 3}",
            "benchmark.phases.a.grace_period needs duration: the grace begins when the duration ends",
        ),
        ("  - {name: a, kind: profiling, requests: [1, 2]}", "benchmark.phases.a.requests: '1, 2' is a list"),
        ("  - 5", "benchmark.phases[0]: found the number 5; expected a mapping"),
    ] {
        let errors = with_phases(&format!("{phases}\n")).wrong("");
        assert!(errors[0].contains(expected), "{phases}:\n{}\n{expected}", errors.join("\n"));
        // A phase that is none has no kind either.
        assert!(errors.len() == 1 || phases == "  - 5", "{phases}:\n{}", errors.join("\n"));
    }
}

#[test]
fn a_list_without_phases_measures_nothing() {
    for list in ["[]", "[{name: warmup, requests: 2}]"] {
        let errors = File::new(&format!("benchmark: {{model: m, phases: {list}}}")).wrong("");
        assert_eq!(
            errors,
            [
                "c.yaml:1:31: benchmark.phases needs a phase of kind profiling: a warmup alone measures nothing"
            ]
        );
    }
}

#[test]
fn a_threshold_in_a_warmup_counts_nothing_and_says_so() {
    let file = with_phases(
        "  - {name: warmup, requests: 1, failed_request_threshold: 0.1}\n  - {name: profiling, requests: 1}\n",
    );
    let resolved = file.run("").expect("AIPerf writes such files itself");
    assert_eq!(resolved.plan.phases[0].failed_threshold, None);
    assert!(
        resolved.notes[0].ends_with("has no effect: it looks at measured requests alone"),
        "{:?}",
        resolved.notes
    );
}

/// Values of every kind that a key of a phase may meet.
fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(serde_json::Value::from),
        prop_oneof![Just(0.0), Just(0.5), Just(-1.0), 0.0..30.0, Just(1e300)]
            .prop_map(serde_json::Value::from),
        (0u64..12).prop_map(serde_json::Value::from),
        prop::sample::select(vec![
            "30s",
            "inf",
            "linear",
            "poisson",
            "gamma",
            "user_centric",
            "fixed_schedule",
            "warmup",
            "profiling",
            "skip",
            "x",
            "",
        ])
        .prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(serde_json::Value::from),
            prop::collection::btree_map(
                prop::sample::select(vec![
                    "duration", "strategy", "from", "rate", "delay", "points", "path", "time_s", "qps"
                ]),
                inner,
                0..3
            )
            .prop_map(|map| map
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect::<serde_json::Map<_, _>>()
                .into()),
        ]
    })
}

fn phase() -> impl Strategy<Value = serde_json::Value> {
    let keys = vec![
        "name",
        "kind",
        "type",
        "exclude_from_results",
        "seamless",
        "timing_mode",
        "requests",
        "duration",
        "sessions",
        "concurrency",
        "concurrencyRamp",
        "prefill_concurrency",
        "prefill_ramp",
        "rate",
        "rate_series",
        "rate_ramp",
        "smoothness",
        "users",
        "auto_offset",
        "start_offset",
        "endOffset",
        "cancellation",
        "grace_period",
        "failed_request_threshold",
        "max_in_flight",
        "saturation_policy",
        "adaptive_scale",
        "nonsense",
    ];
    // Phases that are sound so far, so that the rules behind the reading are met too.
    let start = (prop::sample::select(vec!["warmup", "profiling", "a", "b"]), any::<bool>(), 1u64..9);
    let more = prop::collection::btree_map(prop::sample::select(keys), value(), 0..4);
    (start, more).prop_map(|((name, warm, requests), more)| {
        let kind = if name == "warmup" || (name != "profiling" && warm) { "warmup" } else { "profiling" };
        let mut map = serde_json::Map::new();
        map.insert("name".to_owned(), name.into());
        map.insert("kind".to_owned(), kind.into());
        map.insert("requests".to_owned(), requests.into());
        map.extend(more.into_iter().map(|(key, value)| (key.to_owned(), value)));
        map.into()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_list_of_phases_is_a_plan_or_is_refused_with_reasons(
        phases in prop::collection::vec(prop_oneof![9 => phase(), 1 => value()], 0..4), streaming in any::<bool>()
    ) {
        let body = json!({"benchmark": {"model": "m", "endpoint": {"streaming": streaming}, "phases": phases}});
        match File::new(&crate::yaml::emit(&body)).run("") {
            Ok(resolved) => {
                let plans = &resolved.plan.phases;
                prop_assert!(plans.iter().any(|p| p.kind == PhaseKind::Profiling));
                prop_assert!(!plans[0].seamless);
                for plan in plans {
                    let ends = plan.requests.or(plan.sessions).or(plan.duration_ns).is_some();
                    let scheduled = matches!(plan.pacing, Pacing::FixedSchedule { .. });
                    prop_assert!(ends || scheduled);
                    prop_assert!(plan.concurrency.is_some() || !plan.pacing.is_closed_loop());
                    prop_assert!(plan.prefill_concurrency.is_none_or(|n| streaming && plan.concurrency.is_none_or(|c| n <= c)));
                    prop_assert!(plan.concurrency_ramp.is_none() || plan.concurrency.is_some());
                    prop_assert!(plan.prefill_ramp.is_none() || plan.prefill_concurrency.is_some());
                    prop_assert!(plan.kind == PhaseKind::Profiling || (!plan.seamless && plan.cancellation.is_none()));
                }
            }
            Err(Rejected::Invalid(errors)) => {
                prop_assert!(!errors.is_empty());
                for error in errors {
                    prop_assert!(error.to_string().contains("c.yaml:"), "{}", error);
                }
            }
            Err(other) => prop_assert!(false, "{other:?}"),
        }
    }
}
