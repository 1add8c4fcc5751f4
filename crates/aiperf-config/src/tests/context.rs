//! What stands around prompts: templates, markers, prefixes, system messages, turns.

use std::path::PathBuf;

use aiperf_core::plan::{
    CacheBustPlan, DatasetPlan, DelayPlan, LengthPlan, LengthShape, MarkerTarget, Plan, PrefixPlan,
    SyntheticPlan, TurnsPlan, VerifyLengths,
};
use serde_json::{Value as Json, json};

use super::{File, good, run_in, wrong};
use crate::Resolved;

fn dataset(plan: &Plan) -> &SyntheticPlan {
    match &plan.dataset {
        DatasetPlan::Synthetic(dataset) => dataset,
        DatasetPlan::File(file) => panic!("{file:?}"),
    }
}

fn recorded(plan: &Plan) -> &Json {
    &plan.input_config["datasets"][0]
}

/// The plan of a file with `yaml` below the data set.
fn in_file(yaml: &str) -> Plan {
    File::new(&format!("benchmark:\n  model: m\n  dataset: {yaml}\n"))
        .run("")
        .unwrap_or_else(|e| panic!("{yaml}: {e}"))
        .plan
}

/// A file of text whose path has no symbolic link in it, wherever the system keeps temporary files.
fn text_file(text: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().canonicalize().expect("its real path").join("text");
    std::fs::write(&path, text).expect("written");
    (dir, path)
}

#[test]
fn without_options_nothing_stands_around_prompts() {
    let plan = good("-m m").plan;
    assert!(!plan.chat_template && plan.system_prompt.is_none() && plan.cache_bust.is_none());
    assert_eq!(plan.verify_lengths, VerifyLengths::Sample);
    let set = dataset(&plan);
    assert_eq!(set.turns, TurnsPlan::one());
    assert_eq!((set.prefixes, set.system_tokens, set.user_context_tokens), (None, None, None));
    assert!(!set.floor);
}

#[test]
fn the_template_is_for_endpoints_that_send_messages() {
    let plan = good("-m m --apply-chat-template").plan;
    assert!(plan.chat_template);
    assert_eq!(plan.input_config["tokenizer"], json!({"apply_chat_template": true}));
    assert!(!good("-m m --apply-chat-template=false --endpoint-type completions").plan.chat_template);
    assert_eq!(
        wrong("-m m --apply-chat-template --endpoint-type completions"),
        [
            "--apply-chat-template: found the endpoint type 'completions', whose requests are bare text without messages; allowed: \
          endpoint types that send messages: chat, responses, messages, \
             chat_embeddings"
        ]
    );
    let file = tempfile::NamedTempFile::new().expect("a file");
    let line = format!("-m m --input-file {} --apply-chat-template", file.path().display());
    assert!(good(&line).plan.chat_template, "what a file's requests are is counted so");
    let Resolved { plan, notes, .. } = good(&format!("{line} --use-server-token-count"));
    assert!(!plan.chat_template);
    assert_eq!(
        notes,
        [
            "--apply-chat-template has no effect: the prompts are a file's and their tokens are counted by the server"
        ]
    );
}

#[test]
fn every_target_has_a_word() {
    for target in MarkerTarget::ALL {
        for spelled in [target.name().to_owned(), target.name().to_uppercase().replace('_', "-")] {
            let line = format!(
                "-m m --cache-bust {spelled} --shared-system-prompt-length 9 --warmup-request-count 1"
            );
            let Resolved { plan, notes, .. } = good(&line);
            assert_eq!(plan.cache_bust, Some(CacheBustPlan { target, run_id: None }), "{spelled}");
            assert!(notes.is_empty(), "{notes:?}");
            assert_eq!(recorded(&plan)["prompts"]["cache_bust"], json!({"target": target.name()}));
        }
    }
    let none = good("-m m --cache-bust NONE --endpoint-type completions").plan;
    assert_eq!(none.cache_bust, None);
    assert_eq!(recorded(&none)["prompts"]["cache_bust"], json!({"target": "none"}));
}

#[test]
fn extra_inputs_may_bring_the_system_text_that_is_marked() {
    let line = "-m m --cache-bust warmup-isolation-system --warmup-request-count 1 --endpoint-type messages --extra-inputs";
    let target = MarkerTarget::WarmupIsolationSystem;
    for field in ["system:brief", r#"{"messages":[]}"#] {
        assert_eq!(
            good(&format!("{line} {field}")).plan.cache_bust,
            Some(CacheBustPlan { target, run_id: None })
        );
    }
    let [error] = &wrong(&format!("{line} instructions:another-api's"))[..] else { panic!("one error") };
    assert!(error.starts_with("--cache-bust needs --shared-system-prompt-length"), "{error}");
}

#[test]
fn markers_are_pinned_by_a_text() {
    let pinned = Some(CacheBustPlan { target: MarkerTarget::FirstTurnSuffix, run_id: Some("a 1".into()) });
    let words = ["-m", "m", "--cache-bust", "first-turn-suffix", "--cache-bust-run-id", "a 1"];
    let plan = run_in(&words, &[]).expect("sound").plan;
    assert_eq!(plan.cache_bust, pinned);
    let written = json!({"target": "first_turn_suffix", "run_id": "a 1"});
    assert_eq!(recorded(&plan)["prompts"]["cache_bust"], written);
    let plan = in_file("{prompts: {cacheBust: {target: first-turn-suffix, runId: a 1}}}");
    assert_eq!(plan.cache_bust, pinned);

    let file = tempfile::NamedTempFile::new().expect("a file");
    let plan = in_file(&format!(
        "{{type: file, path: '{}', cache_bust: {{target: first_turn_suffix, run_id: a 1}}}}",
        file.path().display()
    ));
    assert_eq!(plan.cache_bust, pinned);
    assert_eq!(recorded(&plan)["cache_bust"], written, "a file's stand beside its path");
}

#[test]
fn markers_are_refused_where_they_could_not_do_their_work() {
    for (line, expected) in [
        (
            "-m m --cache-bust system-prefix --endpoint-type completions",
            "--cache-bust: found the endpoint type 'completions', whose requests are bare text without messages; allowed: endpoint \
             types that send messages: chat, responses, messages, \
             chat_embeddings",
        ),
        (
            "-m m --cache-bust first_turn_prefx",
            "--cache-bust: found 'first_turn_prefx'; allowed: none, system_prefix, system_suffix, first_turn_prefix, \
             first_turn_suffix, warmup_isolation_system, warmup_isolation_first_turn; did you mean 'first_turn_prefix'?",
        ),
        (
            "-m m --cache-bust warmup-isolation-system --warmup-request-count 1 --user-context-prompt-length 5",
            "--cache-bust needs --shared-system-prompt-length, --system-prompt or --system-prompt-file: there is no system message \
             to mark; warmup_isolation_first_turn marks the first user message",
        ),
        (
            "-m m --cache-bust-run-id x",
            "--cache-bust-run-id needs --cache-bust with a target: markers are made from it, and without a target there are none",
        ),
        (
            "-m m --cache-bust none --cache-bust-run-id x",
            "--cache-bust-run-id needs --cache-bust with a target: markers are made from it, and without a target there are none",
        ),
        (
            "-m m --cache-bust system_prefix --cache-bust-run-id=",
            "--cache-bust-run-id: found ''; allowed: a text that is not blank",
        ),
    ] {
        assert_eq!(wrong(line), [expected], "{line}");
    }
    let notes = good("-m m --cache-bust warmup-isolation-first-turn --cache-bust-run-id x").notes;
    assert_eq!(
        notes,
        [
            "--cache-bust has no effect: it marks warmup requests, and there is no warmup",
            "--cache-bust-run-id has no effect: the marker of warmup requests is always the same"
        ]
    );
    let file = tempfile::NamedTempFile::new().expect("a file");
    let line = format!(
        "-m m --cache-bust warmup_isolation_system --warmup-request-count 1 --input-file {}",
        file.path().display()
    );
    assert!(good(&line).plan.cache_bust.is_some(), "a file's rows may bring a system message");
}

#[test]
fn prefixes_have_a_pool_and_a_length() {
    let prefixes = |line: &str| dataset(&good(&format!("-m m {line}")).plan).prefixes;
    let plan = PrefixPlan { pool: 3, tokens: 10 };
    for pool in ["--num-prefix-prompts", "--prompt-prefix-pool-size", "--prefix-prompt-pool-size"] {
        for length in ["--prompt-prefix-length", "--prefix_prompt_length"] {
            assert_eq!(prefixes(&format!("{pool} 3 {length} 10")), Some(plan));
        }
    }
    assert_eq!(prefixes("--prompt-prefix-length 10"), Some(PrefixPlan { pool: 1, tokens: 10 }));
    let by_file = in_file("{prefix_prompts: {pool_size: 3, length: 10}}");
    assert_eq!(dataset(&by_file).prefixes, Some(plan));
    assert_eq!(recorded(&by_file)["prefix_prompts"], json!({"pool_size": 3, "length": 10}));
    let camel = in_file("{prefixPrompts: {poolSize: 3, length: 10}}");
    assert_eq!(dataset(&camel).prefixes, Some(plan));

    let off = good("-m m --num-prefix-prompts 0");
    assert_eq!((dataset(&off.plan).prefixes, off.notes.len()), (None, 0));
    assert!(recorded(&off.plan).get("prefix_prompts").is_none(), "AIPerf would not read a 0 back");
    let off = good("-m m --num-prefix-prompts 0 --prompt-prefix-length 10");
    assert_eq!(dataset(&off.plan).prefixes, None);
    assert_eq!(
        off.notes,
        ["--prompt-prefix-length has no effect: --num-prefix-prompts is 0, which turns prefixes off"]
    );
    let off = good("-m m --num-prefix-prompts 4 --prefix-prompt-length 0");
    assert_eq!(dataset(&off.plan).prefixes, None);
    assert_eq!(
        off.notes,
        ["--num-prefix-prompts has no effect: --prefix-prompt-length is 0, which turns prefixes off"]
    );
    assert_eq!(
        wrong("-m m --prefix-prompt-pool-size 4"),
        [
            "--prefix-prompt-pool-size needs --prompt-prefix-length: it says how many tokens each of the prefixes has"
        ]
    );
    // Prefixes are part of the text, so they go with an endpoint without messages.
    assert!(prefixes("--endpoint-type completions --prompt-prefix-length 3").is_some());
}

#[test]
fn generated_messages_have_a_length() {
    let plan = good("-m m --shared-system-prompt-length 50 --user-context-prompt-length 20").plan;
    assert_eq!((dataset(&plan).system_tokens, dataset(&plan).user_context_tokens), (Some(50), Some(20)));
    let written = json!({"shared_system_length": 50, "user_context_length": 20});
    assert_eq!(recorded(&plan)["prefix_prompts"], written);
    let by_file = in_file("{prefix_prompts: {sharedSystemLength: 50, user_context_length: 20}}");
    assert_eq!(dataset(&by_file), dataset(&plan));
    for (line, expected) in [
        (
            "--shared-system-prompt-length 0",
            "--shared-system-prompt-length: found '0'; allowed: a whole number from 1 to 10000000",
        ),
        (
            "--user-context-prompt-length 3 --endpoint-type completions",
            "--user-context-prompt-length: found the endpoint type 'completions', whose requests are bare text without messages; \
             allowed: endpoint types that send messages: chat, responses, messages, \
             chat_embeddings",
        ),
        (
            "--shared-system-prompt-length 3 --prompt-prefix-length 3",
            "--prompt-prefix-length and --shared-system-prompt-length exclude each other: prefixes are for prompts without messages \
             before them; keep one of the two",
        ),
        (
            "--user-context-prompt-length 3 --num-prefix-prompts 2 --prompt-prefix-length 3",
            "--num-prefix-prompts and --user-context-prompt-length exclude each other: prefixes are for prompts without messages \
             before them; keep one of the two",
        ),
    ] {
        assert_eq!(wrong(&format!("-m m {line}")), [expected], "{line}");
    }
}

#[test]
fn a_system_prompt_is_taken_word_for_word() {
    let text = "  You are kind.\nAnd 'brief'.\n";
    let plan = run_in(&["-m", "m", "--system-prompt", text], &[]).expect("sound").plan;
    assert_eq!(plan.system_prompt.as_deref(), Some(text));
    assert_eq!(recorded(&plan)["system_prompt"], json!(text));
    assert!(plan.cli_command.ends_with("--system-prompt '  You are kind.\nAnd '\\''brief'\\''.\n'"));

    let (_dir, path) = text_file(text.as_bytes());
    let path = path.display();
    for flag in ["--system-prompt-file", "--system_prompt_file"] {
        let plan = good(&format!("-m m {flag} {path}")).plan;
        assert_eq!(plan.system_prompt.as_deref(), Some(text));
        assert_eq!(recorded(&plan)["system_prompt_file"], json!(path.to_string()));
        assert!(recorded(&plan).get("system_prompt").is_none());
    }
    let prompts = tempfile::NamedTempFile::new().expect("a file");
    let of_file =
        good(&format!("-m m --system-prompt-file {path} --input-file {}", prompts.path().display())).plan;
    assert_eq!(of_file.system_prompt.as_deref(), Some(text), "for a file of prompts too");
    assert_eq!(in_file("{system_prompt: be brief}").system_prompt.as_deref(), Some("be brief"));
    let by_file = File::new(&format!("benchmark: {{model: m, dataset: {{systemPromptFile: '{path}'}}}}"));
    assert_eq!(by_file.run("").expect("sound").plan.system_prompt.as_deref(), Some(text));
    // A higher layer says it in its own way.
    assert_eq!(by_file.run("--system-prompt x").expect("sound").plan.system_prompt.as_deref(), Some("x"));
    // Beside a message that each conversation has for itself it is nothing but the system message.
    assert!(good("-m m --system-prompt x --user-context-prompt-length 5").plan.system_prompt.is_some());

    for (line, expected) in [
        (
            "--system-prompt=",
            "--system-prompt: found ''; allowed: a text; without the option no system message is sent",
        ),
        (
            "--system-prompt x --endpoint-type completions",
            "--system-prompt: found the endpoint type 'completions', whose requests are bare text without messages; allowed: \
             endpoint types that send messages: chat, responses, messages, \
             chat_embeddings",
        ),
        (
            "--system-prompt x --shared-system-prompt-length 5",
            "--system-prompt and --shared-system-prompt-length exclude each other: both are the system message: the one word for \
             word, the other of a length; keep one",
        ),
        (
            "--system-prompt x --prompt-prefix-length 5",
            "--prompt-prefix-length and --system-prompt exclude each other: prefixes are for prompts without messages before them; \
             keep one of the two",
        ),
    ] {
        assert_eq!(wrong(&format!("-m m {line}")), [expected], "{line}");
    }
    let both = wrong(&format!("-m m --system-prompt x --system-prompt-file {path}"));
    assert_eq!(
        both,
        [
            "--system-prompt and --system-prompt-file exclude each other: both are the system message; keep one"
        ]
    );
}

#[test]
fn a_file_that_is_no_system_prompt_is_told() {
    let told = |path: &std::path::Path| {
        let shown = path.display().to_string();
        wrong(&format!("-m m --system-prompt-file {shown}")).join("\n").replace(&shown, "FILE")
    };
    let (dir, path) = text_file(b" \n\t");
    assert_eq!(
        told(&path),
        "--system-prompt-file: the file FILE is blank; without the option no system message is sent"
    );
    std::fs::write(&path, b"a\nb\xff").expect("written");
    assert_eq!(told(&path), "--system-prompt-file: the file FILE is not UTF-8 (line 2)");
    std::fs::write(&path, vec![b'a'; (4 << 20) + 1]).expect("written");
    assert_eq!(
        told(&path),
        "--system-prompt-file: the file FILE has more than the 4194304 bytes that are read at most"
    );
    assert_eq!(told(&path.with_file_name("none")), "--system-prompt-file: the file FILE does not exist");
    let folder = dir.path().canonicalize().expect("its real path");
    assert_eq!(told(&folder), "--system-prompt-file: the file FILE is a folder; a text file is expected");
    #[cfg(unix)]
    {
        assert_eq!(told("/dev/null".as_ref()), "--system-prompt-file: the file FILE is no regular file");
        std::fs::write(&path, b"text").expect("written");
        let link = path.with_file_name("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        assert_eq!(
            told(&link),
            "--system-prompt-file: the file FILE is reached through the symbolic link FILE; name the file itself"
        );
        let way = path.with_file_name("way");
        std::os::unix::fs::symlink(&folder, &way).expect("a link");
        let behind = told(&way.join("text"));
        assert!(
            behind.ends_with(&format!("through the symbolic link {}; name the file itself", way.display()))
        );
    }
}

#[test]
fn turns_are_a_number_or_drawn() {
    let turns = |line: &str| dataset(&good(&format!("-m m {line}")).plan).turns.clone();
    let plain = |mean, stddev| TurnsPlan { count: LengthPlan::normal(mean, stddev), delay: None };
    for (mean, stddev) in [
        ("--conversation-turn-mean", "--conversation-turn-stddev"),
        ("--session-turns-mean", "--session-turns-stddev"),
    ] {
        assert_eq!(turns(&format!("{mean} 3 {stddev} 0.9")), plain(3.0, 0.9));
    }
    assert_eq!(turns("--conversation-turn-stddev 2"), plain(1.0, 2.0));
    for yaml in ["{turns: 3}", "{turns: {value: 3}}", "{turns: {mean: 3, type: normal}}"] {
        assert_eq!(dataset(&in_file(yaml)).turns, plain(3.0, 0.0), "{yaml}");
    }
    assert_eq!(dataset(&in_file("{turns: {mean: 2.7, stddev: 0.9}}")).turns, plain(2.7, 0.9));
    let shape = json!({"points": [{"value": 1.0, "weight": 3.0}, {"value": 5.0, "weight": 1.0}]});
    let by_flag = run_in(&["-m", "m", "--conversation-turn-distribution", &shape.to_string()], &[]);
    let by_flag = by_flag.expect("sound").plan;
    let by_file = in_file("{turns: {points: [{value: 1, weight: 3}, {value: 5}]}}");
    assert!(matches!(dataset(&by_flag).turns.count.shape, LengthShape::Points(_)));
    assert_eq!(dataset(&by_flag), dataset(&by_file));
    assert_eq!(recorded(&by_file)["turns"], shape);
    // What AIPerf writes when one of the two is given.
    let written = recorded(&good("-m m --conversation-turn-mean 3").plan)["turns"].clone();
    assert_eq!(written, json!({"mean": 3.0, "stddev": 0.0}));

    let told = good("-m m --conversation-turn-mean 2.5").notes;
    assert_eq!(
        told,
        ["--conversation-turn-mean: without --conversation-turn-stddev 2.5 turns are 2 turns each"]
    );
    for (line, expected) in [
        (
            "--conversation-turn-mean 0",
            "--conversation-turn-mean: found '0'; allowed: a number from 1 to 65535",
        ),
        (
            "--session-turns-mean 1,2",
            "--session-turns-mean: '1,2' is a list; a list of values asks for a sweep; sweeps come later",
        ),
        (
            "--conversation-turn-distribution 0.5",
            "--conversation-turn-distribution: found a distribution around 0.5 turns; allowed: 1 to 65535 turns",
        ),
        (
            "--conversation-turn-distribution {\"mean\":9,\"median\":5} --conversation-turn-mean 3",
            "--conversation-turn-distribution and --conversation-turn-mean exclude each other: both say the number of turns; keep one",
        ),
        (
            "--conversation-turn-stddev 1 --endpoint-type completions",
            "--conversation-turn-stddev: found the endpoint type 'completions', whose requests are bare text without messages; \
             allowed: endpoint types that send messages: chat, responses, messages, \
             chat_embeddings",
        ),
    ] {
        assert_eq!(wrong(&format!("-m m {line}")), [expected], "{line}");
    }
    let one = turns("--conversation-turn-mean 1 --endpoint-type completions");
    assert_eq!(one, TurnsPlan::one());
}

#[test]
fn think_time_keeps_its_fractions() {
    let delay = |line: &str| dataset(&good(&format!("-m m --session-turns-mean 2 {line}")).plan).turns.delay;
    let plan = |mean_ms, stddev_ms, ratio| Some(DelayPlan { mean_ms, stddev_ms, ratio });
    for (mean, stddev, ratio) in [
        (
            "--conversation-turn-delay-mean",
            "--conversation-turn-delay-stddev",
            "--conversation-turn-delay-ratio",
        ),
        ("--session-turn-delay-mean", "--session-turn-delay-stddev", "--session-delay-ratio"),
    ] {
        assert_eq!(delay(&format!("{mean} 0.6 {stddev} 0.25 {ratio} 1.5")), plan(0.6, 0.25, 1.5));
    }
    assert_eq!(delay("--session-turn-delay-mean 5"), plan(5.0, 0.0, 1.0));
    assert_eq!(delay("--session-turn-delay-mean 5 --session-delay-ratio 0"), None);
    let by_file = in_file("{turns: 2, turnDelay: {mean: 5, stddev: 0.5}, turn_delay_ratio: 2}");
    assert_eq!(dataset(&by_file).turns.delay, plan(5.0, 0.5, 2.0));
    assert_eq!(recorded(&by_file)["turn_delay"], json!({"mean": 5.0, "stddev": 0.5}));
    assert_eq!(recorded(&by_file)["turn_delay_ratio"], json!(2.0));
    assert_eq!(dataset(&in_file("{turns: 2, turn_delay: 1.5}")).turns.delay, plan(1.5, 0.0, 1.0));
    let shaped = File::new("benchmark: {model: m, dataset: {turns: 2, turn_delay: {mean: 5, median: 3}}}");
    assert_eq!(
        shaped.wrong(""),
        ["c.yaml:1:65: benchmark.dataset.turn_delay.median is an AIPerf key this version does not have yet"]
    );
    assert_eq!(
        wrong("-m m --session-turns-mean 2 --session-delay-ratio 2"),
        [
            "--session-delay-ratio needs --conversation-turn-delay-mean above 0: it is a factor on think times; without a mean there \
          are none"
        ]
    );
    assert_eq!(delay("--session-delay-ratio 0"), None);
    assert_eq!(
        wrong("-m m --session-turns-mean 2 --session-turn-delay-stddev 1"),
        [
            "--session-turn-delay-stddev needs --conversation-turn-delay-mean above 0: a standard deviation needs its mean; without \
          one there is no think time"
        ]
    );
    assert_eq!(
        good("-m m --session-turn-delay-mean 5").notes,
        [
            "--session-turn-delay-mean has no effect: conversations have one turn; --conversation-turn-mean gives them more"
        ]
    );
}

#[test]
fn what_is_too_short_is_refused_or_floored() {
    assert!(dataset(&good("-m m --isl-below-minimum floor").plan).floor);
    assert!(!dataset(&good("-m m --isl-below-minimum REFUSE").plan).floor);
    let by_file = in_file("{prompts: {isl_below_minimum: floor}}");
    assert!(dataset(&by_file).floor);
    assert_eq!(recorded(&by_file)["prompts"]["isl_below_minimum"], json!("floor"));
}

#[test]
fn lengths_are_verified_as_much_as_wanted() {
    for (word, wanted) in
        [("all", VerifyLengths::All), ("sample", VerifyLengths::Sample), ("off", VerifyLengths::Off)]
    {
        assert_eq!(good(&format!("-m m --verify-lengths {word}")).plan.verify_lengths, wanted);
        let yaml = format!("benchmark: {{model: m, tokenizer: {{verifyLengths: {word}}}}}");
        let plan = File::new(&yaml).run("").expect("sound").plan;
        assert_eq!(plan.verify_lengths, wanted);
        assert_eq!(plan.input_config["tokenizer"], json!({"verify_lengths": word}));
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    let with_file =
        |word: &str| good(&format!("-m m --verify-lengths {word} --input-file {}", file.path().display()));
    for word in ["all", "sample"] {
        assert_eq!(
            with_file(word).notes,
            [
                "--verify-lengths counts nothing again: the prompts of a file have no length to be held to; a server that answers \
                 /tokenize is asked how it counts the first one"
            ]
        );
    }
    // Off is off for a file as well: nobody is asked.
    let off = with_file("off");
    assert_eq!((off.notes, off.plan.verify_lengths), (Vec::<String>::new(), VerifyLengths::Off));
}

#[test]
fn a_file_of_prompts_is_not_shaped() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().display();
    for more in [
        "--conversation-turn-mean 2",
        "--session-turns-stddev 1",
        "--conversation-turn-distribution 3",
        "--session-turn-delay-mean 3",
        "--session-turn-delay-stddev 3",
        "--session-delay-ratio 3",
        "--shared-system-prompt-length 3",
        "--user-context-prompt-length 3",
        "--num-prefix-prompts 3",
        "--prompt-prefix-length 3",
        "--isl-below-minimum floor",
    ] {
        let errors = wrong(&format!("-m m --input-file {path} {more}"));
        let flag = more.split(' ').next().unwrap_or_default();
        assert_eq!(
            errors,
            [format!(
                "{flag} and --input-file exclude each other: the prompts of a file are sent as they are; drop one of the two"
            )]
        );
    }
}

#[test]
fn the_order_of_the_record_is_that_of_the_reference() {
    let plan = good(
        "-m m --system-prompt hi --random-seed 1 --conversation-turn-mean 3 --conversation-turn-delay-mean 5 \
         --conversation-turn-delay-ratio 2 --cache-bust system_prefix --user-context-prompt-length 3 --num-dataset-entries 4 \
         --batch-size 2 --prompt-corpus random --osl 3",
    )
    .plan;
    assert_eq!(
        recorded(&plan).to_string(),
        "{\"system_prompt\":\"hi\",\"name\":\"main\",\"type\":\"synthetic\",\"entries\":4,\"random_seed\":1,\
         \"prompts\":{\"isl\":{\"mean\":550.0},\"osl\":{\"mean\":3.0},\"batch_size\":2,\
         \"cache_bust\":{\"target\":\"system_prefix\"},\"corpus\":\"random\"},\"prefix_prompts\":{\"user_context_length\":3},\
         \"turns\":{\"mean\":3.0,\"stddev\":0.0},\"turn_delay\":{\"mean\":5.0,\"stddev\":0.0},\"turn_delay_ratio\":2.0}"
    );
    let artifacts = good(
        "-m m --artifact-dir /a --export-outputs-json --slice-duration 2 --show-trace-timing --export-http-trace --export-level raw \
         --profile-export-prefix p --export-schema 2",
    )
    .plan
    .input_config["artifacts"]
        .clone();
    let keys: Vec<&String> = artifacts.as_object().expect("an object").keys().collect();
    assert_eq!(
        keys.iter()
            .skip_while(|key| **key != "records")
            .map(|key| key.as_str())
            .collect::<Vec<_>>()
            .join(" "),
        "records raw trace slice_duration show_trace_timing auto_plot plot_required export_outputs_json schema"
    );
    let keys = |json: &serde_json::Value| {
        json.as_object().expect("an object").keys().map(String::as_str).collect::<Vec<_>>().join(" ")
    };
    let endpoint = good(
        "-m m --wait-for-model-mode models --wait-for-model-interval 1 --wait-for-model-timeout 5 --session-header X --extra-inputs a:1 \
         -H X:y --per-chunk-usage --use-server-token-count --use-legacy-max-tokens --connection-reuse-strategy never --transport http \
         --streaming --request-timeout-seconds 5 --api-key k --endpoint /p --endpoint-type chat --url a --url b --url-strategy round_robin",
    )
    .plan
    .input_config["endpoint"]
        .clone();
    assert_eq!(
        keys(&endpoint),
        "urls url_strategy type path api_key timeout streaming transport connection_reuse use_legacy_max_tokens use_server_token_count \
         per_chunk_usage headers extra session_header wait_for_model_timeout wait_for_model_interval wait_for_model_mode"
    );
    let scores =
        good("-m m --endpoint-type nim_rankings --rankings-passages-mean 3 --conversation-turn-mean 1").plan;
    assert_eq!(keys(recorded(&scores)), "name type prompts turns rankings");
    let pairs = good("-m m --prompt-corpus random --seq-dist 8,8:100 --random-corpus-style sglang").plan;
    assert_eq!(keys(&recorded(&pairs)["prompts"]), "isl corpus sequence_distribution random_corpus_style");
    let rate = good(
        "-m m --request-rate 5 --request-rate-ramp-duration 2 --arrival-pattern gamma --arrival-smoothness 2",
    )
    .plan;
    assert_eq!(keys(&rate.input_config["phases"][0]), "name kind type requests rate rate_ramp smoothness");
}
