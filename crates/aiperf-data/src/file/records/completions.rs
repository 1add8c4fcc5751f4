//! Recorded completions: which sessions there are, what is sent with their prompts, and when.

use aiperf_core::conversation::{ContextMode, Conversation, Turn};
use aiperf_core::plan::{BadRows, CompletionsPlan, CorpusPlan, DatasetPlan, FileFormat, PhaseKind};
use serde_json::json;

use super::*;
use crate::toys::{self, context, plan};
use crate::workload::{Visit, Workload};

/// A trace of two sessions and a row of none, in no order. Times of the rows from the first, in milliseconds: 0, 100, 250, 400, 1000.
fn trace() -> Vec<Value> {
    let row = |at: u64, prompt: &str, output: u64, session: Value, took: u64| {
        json!({"timestamp_start_unix_ms": 1_700_000_000_000 + at, "prompt": prompt, "input_tokens": prompt.len(), "output_tokens": output,
            "provided_session_id": session, "duration_e2e_ms": took, "total_hashes": [at, 7], "block_size": 64})
    };
    vec![
        row(400, "b1", 4, "b".into(), 10),
        row(100, "a1", 8, "a".into(), 60),
        row(1_000, "a3 long", 5, "a".into(), 10),
        row(0, "lone", 0, Value::Null, 5),
        row(250, "a2", 2, "a".into(), 100),
    ]
}

fn lines(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect::<Vec<_>>().concat()
}

fn opened(text: &str, change: impl FnOnce(&mut Plan, &mut FilePlan)) -> Result<Arc<dyn Workload>, String> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("t.jsonl");
    std::fs::write(&path, text).expect("written");
    let mut set = toys::file(&path, FileFormat::Baseten);
    let mut plan = plan(DatasetPlan::File(set.clone()), EndpointKind::Completions);
    change(&mut plan, &mut set);
    plan.dataset = DatasetPlan::File(set);
    let place = format!("{}/", dir.path().display());
    crate::open(&plan, None, context()).map_err(|error| error.to_string().replace(&place, ""))
}

fn good(change: impl FnOnce(&mut Plan, &mut FilePlan)) -> Arc<dyn Workload> {
    opened(&lines(&trace()), change).expect("a good trace")
}

fn all(workload: &dyn Workload) -> Vec<Conversation> {
    (0..workload.len()).map(|i| workload.conversation(i, Visit::default()).expect("a checked row")).collect()
}

/// Of each conversation its name, when it begins, and of its turns the prompt, their own time and pause. Milliseconds of the replay.
type Told = Vec<(String, u64, Vec<(String, Option<u64>, Option<u64>)>)>;

fn told(workload: &dyn Workload) -> Told {
    let ms = |ns: u64| ns / 1_000_000;
    let turn = |turn: &Turn| (turn.texts[0].clone(), turn.at_ns.map(ms), turn.delay_ns.map(ms));
    let of = |(at, talk): (usize, &Conversation)| {
        let begins = ms(workload.start_ns(at).expect("it has a time"));
        (talk.id.clone(), begins, talk.turns.iter().map(turn).collect())
    };
    all(workload).iter().enumerate().map(of).collect()
}

fn turns(of: &[(&str, Option<u64>, Option<u64>)]) -> Vec<(String, Option<u64>, Option<u64>)> {
    of.iter().map(|(text, at, pause)| ((*text).to_owned(), *at, *pause)).collect()
}

#[test]
fn sessions_are_told_and_sent_in_the_order_of_their_times() {
    let workload = good(|_, _| {});
    let wanted = [
        ("session_000000".to_owned(), 0, turns(&[("lone", Some(0), None)])),
        (
            "a".to_owned(),
            100,
            turns(&[("a1", Some(100), None), ("a2", Some(250), None), ("a3 long", Some(1_000), None)]),
        ),
        ("b".to_owned(), 400, turns(&[("b1", Some(400), None)])),
    ];
    assert_eq!(told(&*workload), wanted);
    assert_eq!([0, 1, 2].map(|i| workload.turn_count(i)), [1, 3, 1]);
    let sent = all(&*workload);
    assert!(sent.iter().all(|talk| talk.context == ContextMode::SelfContained));
    let extra = |talk: usize, turn: usize| Value::Object(sent[talk].turns[turn].extra.clone());
    assert_eq!(extra(0, 0), json!({"min_tokens": 1, "hash_ids": [0, 7], "block_size": 64}));
    assert_eq!((sent[1].turns[0].max_tokens, extra(1, 0)["min_tokens"].as_u64()), (Some(8), Some(8)));
    let facts = workload.describe();
    assert_eq!((facts.kind.name(), facts.entries, facts.turns, facts.most_turns), ("baseten_trace", 3, 5, 3));
    assert!(
        facts.notes.iter().any(|note| note.contains("the row in line 4 with a length of 0 tokens")),
        "{:?}",
        facts.notes
    );
    let first = told(&*good(|_, set| set.entries = Some(2)));
    assert_eq!(first, wanted[..2]);
    assert!(good(|_, set| set.ignore_timestamps = true).start_ns(0).is_none());
}

#[test]
fn limits_and_hints_are_what_the_plan_wants() {
    let workload = good(|_, set| {
        set.replay.max_osl = Some(3);
        set.replay.times.output = 2.0;
        set.replay.max_isl = Some(4);
    });
    let facts = workload.describe().rows.expect("it is a file");
    assert_eq!((facts.read, facts.too_long, facts.capped_outputs), (5, 1, 3));
    let sent = all(&*workload);
    let limits = |talk: &Conversation| {
        let of = |turn: &Turn| (turn.max_tokens, turn.extra["min_tokens"].as_u64());
        talk.turns.iter().map(of).collect::<Vec<_>>()
    };
    let three = (Some(3), Some(3));
    assert_eq!(
        sent.iter().map(limits).collect::<Vec<_>>(),
        [vec![(Some(2), Some(2))], vec![three, three], vec![three]]
    );
    let plain = good(|_, set| {
        set.completions =
            CompletionsPlan { min_tokens: Some(false), omits_blocks: Some(true), ..set.completions };
    });
    assert!(all(&*plain).iter().all(|talk| talk.turns.iter().all(|turn| turn.extra.is_empty())));
}

#[test]
fn later_turns_follow_answers_in_a_closed_loop() {
    let workload = good(|_, set| {
        set.replay.turn_times = TurnTimes::BehindAnswers;
        set.replay.speedup = 2.0;
        set.replay.delay_cap_ns = Some(200_000_000);
    });
    // (250 − 100 − 60) / 2; (1000 − 250 − 100) / 2, which is more than it may be.
    let a = turns(&[("a1", Some(50), None), ("a2", None, Some(45)), ("a3 long", None, Some(200))]);
    assert_eq!(told(&*workload)[1], ("a".to_owned(), 50, a));
}

#[test]
fn silences_are_cut_between_all_rows_or_between_starts() {
    let begins = |turn_times: TurnTimes| {
        let workload = good(|_, set| {
            set.replay.idle_cap_ns = Some(120_000_000);
            set.replay.turn_times = turn_times;
        });
        let facts = workload.describe().rows.expect("it is a file");
        let starts = told(&*workload).into_iter().map(|(_, at, turns)| (at, turns.last().expect("one").1));
        (starts.collect::<Vec<_>>(), facts.cut_silences)
    };
    // Rows at 0, 100, 250, 400, 1000 become 0, 100, 220, 340, 460.
    let open = vec![(0, Some(0)), (100, Some(460)), (340, Some(340))];
    assert_eq!(begins(TurnTimes::Recorded), (open, 3));
    // Starts at 0, 100, 400.
    let closed = vec![(0, Some(0)), (100, None), (220, Some(220))];
    assert_eq!(begins(TurnTimes::BehindAnswers), (closed, 1));
}

#[test]
fn strict_replay_makes_a_session_of_each_row() {
    let workload = good(|_, set| set.replay.turn_times = TurnTimes::Alone);
    let mut ids: Vec<(String, u64)> = told(&*workload).into_iter().map(|(id, at, _)| (id, at)).collect();
    ids.sort_by_key(|(_, at)| *at);
    let wanted = [("session_000000#0", 0), ("a#0", 100), ("a#1", 250), ("b#0", 400), ("a#2", 1_000)];
    assert_eq!(ids, wanted.map(|(id, at)| (id.to_owned(), at)));
}

#[test]
fn rows_outside_of_the_schedule_are_left_out() {
    let phase = |start: u64, end: u64| {
        let ns = |ms: u64| Some(ms * 1_000_000);
        let pacing =
            Pacing::FixedSchedule { auto_offset: false, start_offset_ns: ns(start), end_offset_ns: ns(end) };
        PhasePlan::new("profiling", PhaseKind::Profiling, pacing)
    };
    let workload = good(|plan, _| plan.phases.push(phase(200, 400)));
    let a = ("a".to_owned(), 250, turns(&[("a2", Some(250), None)]));
    assert_eq!(told(&*workload), [a, ("b".to_owned(), 400, turns(&[("b1", Some(400), None)]))]);
    let facts = workload.describe();
    assert_eq!(facts.rows.expect("it is a file").outside, 3);
    let said = "t.jsonl: 3 of 5 rows lie outside of the schedule's offsets and are left out";
    assert!(facts.notes.iter().any(|note| note.ends_with(said)), "{:?}", facts.notes);
    let none = opened(&lines(&trace()), |plan, _| plan.phases.push(phase(300, 390))).map(|_| ());
    assert_eq!(
        none,
        Err("t.jsonl: none of its 5 rows lies between --fixed-schedule-start-offset and --fixed-schedule-end-offset (milliseconds; a baseten_trace \
             counts them from its first row)"
            .to_owned())
    );
    // Two phases that want different parts of it.
    let both = good(|plan, _| plan.phases.extend([phase(0, 100), phase(200, 400)]));
    assert_eq!((both.len(), both.turn_count(1)), (3, 3));
}

#[test]
fn a_share_of_sessions_is_kept_whole() {
    let rows: Vec<Value> = (0..400)
        .map(|i| {
            let mut row = trace().swap_remove(1);
            row["provided_session_id"] = if i % 2 == 0 { format!("s{}", i / 4).into() } else { Value::Null };
            row["timestamp_start_unix_ms"] = (5_000 - i).into();
            row
        })
        .collect();
    let kept = |share: f64, seed: u64| {
        let workload = opened(&lines(&rows), |plan, set| {
            set.replay.session_share = share;
            plan.seed = seed;
        });
        workload.expect("a good trace")
    };
    let (tenth, half) = (kept(0.1, 1), kept(0.5, 1));
    let ids = |of: &dyn Workload| {
        all(of).into_iter().map(|talk| talk.id).collect::<std::collections::BTreeSet<_>>()
    };
    let named = |of: &dyn Workload| {
        ids(of)
            .into_iter()
            .filter(|id| id.starts_with('s') && !id.starts_with("session"))
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert!(named(&*tenth).is_subset(&named(&*half)), "what a share keeps, a larger one keeps");
    // Six standard deviations around half of a hundred.
    assert!((20..=80).contains(&named(&*half).len()), "{:?}", named(&*half));
    let facts = half.describe().rows.expect("it is a file");
    assert_eq!(facts.read - facts.not_drawn, half.describe().turns);
    let whole = (0..half.len()).filter(|at| half.turn_count(*at) == 2).count();
    assert_eq!(whole, named(&*half).len(), "no session is cut");
    assert_ne!(ids(&*half), ids(&*kept(0.5, 2)));
    let one = kept(1e-12, 1);
    assert_eq!((one.len(), one.describe().rows.expect("it is a file").read), (1, 400));
    // Times count from the first row of the file, whoever is kept.
    assert!(one.start_ns(0).expect("a time") < 400_000_000);
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |change: fn(&mut Plan, &mut FilePlan)| {
        opened(&lines(&trace()), change).map(|_| ()).expect_err("it is refused")
    };
    assert_eq!(
        refused(|plan, _| {
            plan.endpoint.extra.insert("min_tokens".into(), 3.into());
        }),
        "--extra-inputs says 'min_tokens', and so does each row of t.jsonl; drop it there, or leave it out of the rows: --no-force-min-tokens"
    );
    assert_eq!(
        refused(|_, set| set.replay.times.prompt = 2.0),
        "--synthesis-prompt-len-multiplier changes prompts, and those of t.jsonl (baseten_trace) are sent as they were; drop it"
    );
    assert_eq!(
        refused(|_, set| set.block = Some(16)),
        "--isl-block-size is for traces with blocks, and t.jsonl is read as baseten_trace; drop it"
    );
    assert_eq!(
        refused(|_, set| set.corpus = Some(CorpusPlan::Coding)),
        "--prompt-corpus is for traces whose rows give lengths, and t.jsonl is read as baseten_trace: its prompts are sent as they \
         are; drop one of the two"
    );
    let fine = opened(&lines(&trace()), |plan, set| {
        plan.endpoint.extra.insert("block_size".into(), 3.into());
        set.completions.omits_blocks = Some(true);
    });
    assert!(fine.is_ok());
    let text = |change: fn(&mut FilePlan)| {
        let change = move |_: &mut Plan, set: &mut FilePlan| {
            set.format = FileFormat::SingleTurn;
            change(set);
        };
        opened("{\"text\":\"a\"}\n", change).map(|_| ()).expect_err("it is refused")
    };
    assert_eq!(
        text(|set| set.completions.min_tokens = Some(true)),
        "--force-min-tokens is for baseten_trace, and t.jsonl is read as single_turn; drop it"
    );
}

#[test]
fn broken_rows_stop_it_or_are_counted() {
    let mut rows = trace();
    rows[2]["output_tokens"] = "many".into();
    let said = "t.jsonl:3: 'output_tokens' must be a whole number from 0, not \"many\"";
    assert_eq!(opened(&lines(&rows), |_, _| {}).map(|_| ()), Err(said.to_owned()));
    let workload = opened(&lines(&rows), |_, set| set.bad_rows = BadRows::Skip).expect("others are good");
    let facts = workload.describe();
    assert_eq!((facts.turns, facts.rows.expect("it is a file").broken), (4, 1));
}

#[test]
fn it_is_known_by_its_keys() {
    let detected = |text: &str| opened(text, |_, set| set.format = FileFormat::Detect).expect("a good trace");
    for text in [lines(&trace()), Value::Array(trace()).to_string()] {
        let facts = detected(&text).describe();
        assert_eq!((facts.kind.name(), facts.turns), ("baseten_trace", 5));
        assert!(facts.notes[0].contains("read as baseten_trace, for there "), "{:?}", facts.notes);
        assert!(facts.notes.iter().any(|note| note.contains("--fixed-schedule sends them at their times")));
    }
    let table = "timestamp_start_unix_ms,prompt,input_tokens,output_tokens\n1,a,1,1\n";
    assert_eq!(
        opened(table, |_, _| {}).map(|_| ()),
        Err("t.jsonl: baseten_trace is read from Parquet, JSONL or a JSON list; CSV has no lists, which it needs".to_owned())
    );
    assert_eq!(
        opened("[{\"prompt\":\"a\"}]", |_, _| {}).map(|_| ()),
        Err("t.jsonl: no column is called 'timestamp_start_unix_ms', which baseten_trace has; there are 'prompt'".to_owned())
    );
    let arrow = opened("ARROW1\0\0 and more", |_, set| set.format = FileFormat::Detect).map(|_| ());
    assert!(
        arrow
            .expect_err("it is refused")
            .starts_with("t.jsonl: is an Arrow IPC file, which is not read; write it as Parquet: python")
    );
}
