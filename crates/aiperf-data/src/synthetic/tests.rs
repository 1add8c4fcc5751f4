//! Conversations that are made, at the hands of a toy tokenizer.

use std::collections::HashSet;

use crate::spread::MOST_TOKENS;
use aiperf_core::plan::{
    CacheBustPlan, DatasetPlan, EndpointKind, LengthPlan, LengthShape, MarkerTarget, ModelSelection, Weighted,
};
use serde_json::json;

use super::*;
use crate::corpus::SONNET;
use crate::toys::{Cut, Toy, context, plan};

fn set(entries: usize, mean: f64, stddev: f64) -> SyntheticPlan {
    let osl = Some(LengthPlan::normal(20.0, 5.0));
    SyntheticPlan::sonnet(entries, LengthPlan::normal(mean, stddev), osl)
}

fn open(plan: &Plan, tokenizer: Arc<dyn Tokenizer>) -> Arc<dyn Workload> {
    crate::open(plan, Some(tokenizer), context()).expect("a good plan")
}

#[test]
fn turns_are_counted_without_making_them() {
    let turns = TurnsPlan { count: LengthPlan::normal(3.0, 2.0), delay: None };
    let set = SyntheticPlan { turns, ..set(20, 30.0, 0.0) };
    let workload = open(&plan(DatasetPlan::Synthetic(set), EndpointKind::Chat), Toy::shared(Cut::Words));
    let counts: Vec<usize> = (0..20).map(|i| workload.turn_count(i)).collect();
    let made = |i| workload.conversation(i, Visit::default()).expect("a good plan").turns;
    assert!((0..20).all(|i| made(i).len() == counts[i] && made(i).iter().all(|t| t.at_ns.is_none())));
    assert!(counts.iter().collect::<HashSet<_>>().len() > 2, "{counts:?}");
    assert_eq!(counts.iter().sum::<usize>() as u64, workload.describe().turns);
    assert!(!workload.is_timed() && workload.start_ns(0).is_none());
}

#[test]
fn a_workload_of_more_conversations_than_anyone_makes_is_open_at_once() {
    let entries = 1_000_000_000_000;
    let open_with = |stddev| {
        let turns = TurnsPlan { count: LengthPlan::normal(3.0, stddev), delay: None };
        let set = SyntheticPlan { turns, ..set(entries, 30.0, stddev) };
        open(&plan(DatasetPlan::Synthetic(set), EndpointKind::Chat), Toy::shared(Cut::Words))
    };
    assert_eq!(open_with(0.0).describe().turns, 3 * entries as u64);
    // Drawn lengths are rounded up, so that the mean is half a turn above.
    let turns = open_with(0.5).describe().turns as f64 / entries as f64;
    assert!((turns - 3.5).abs() < 0.01, "{turns}");
}

/// Their texts are too many to be looked at before; numbers of turns are.
#[test]
fn no_conversation_has_more_turns_than_can_be_numbered() {
    let opened = |count: LengthPlan, entries| {
        let set = SyntheticPlan { turns: TurnsPlan { count, delay: None }, ..set(entries, 30.0, 5.0) };
        crate::open(
            &plan(DatasetPlan::Synthetic(set), EndpointKind::Chat),
            Some(Toy::shared(Cut::Words)),
            context(),
        )
    };
    let drawn = |entries| opened(LengthPlan::normal(60_000.0, 2_400.0), entries);
    let few = drawn(20).expect("few conversations stay below");
    assert!(few.describe().turns > 1 << 20, "texts of the last ones are not looked at");
    let error = drawn(2_000).expect_err("one of them has more").to_string();
    assert!(error.contains("and the most is 65535; a smaller --conversation-turn-mean"), "{error}");
    // So rare that none is among those looked at.
    let peak = |item: f64, weight: f64| Weighted { item, weight };
    let rare = LengthPlan {
        shape: LengthShape::Points(vec![peak(1.0, 1e7), peak(65_536.0, 1.0)]),
        least: None,
        most: None,
    };
    let rare = opened(rare, 1_000_000_000).expect("it is found when it is made");
    let at = (1 << 20..1_000_000_000).find(|at| rare.turn_count(*at) > 1).expect("one of ten million");
    let error = rare.conversation(at, Visit::default()).expect_err("it has too many").to_string();
    assert!(
        error.starts_with(&format!("conversation {at} draws 65536 turns, and the most is 65535")),
        "{error}"
    );
}

#[test]
fn a_marker_for_a_system_text_that_is_laid_over_is_on_no_text_of_ours() {
    let mut plan = plan(DatasetPlan::Synthetic(set(1, 60.0, 0.0)), EndpointKind::Responses);
    for target in MarkerTarget::ALL {
        plan.cache_bust = Some(CacheBustPlan { target, run_id: None });
        for (laid_over, is_laid_over) in
            [(json!({"instructions": "s"}), true), (json!({"system": "s"}), false)]
        {
            plan.endpoint.extra = laid_over.as_object().expect("an object").clone();
            let visit = Visit { session: 0, warmup: true };
            let got = open(&plan, Toy::shared(Cut::Words)).conversation(0, visit).expect("exists");
            let marker = got.marker.as_ref().expect("it has one");
            let text = &got.turns[0].texts[0];
            assert_eq!(marker.is_on(text), !(target.wants_system() && is_laid_over), "{target:?}");
            assert_eq!(Toy::shared(Cut::Words).count(text), 60);
        }
    }
}

#[test]
fn a_conversation_is_a_function_of_its_position() {
    let plan = plan(DatasetPlan::Synthetic(set(200, 60.0, 20.0)), EndpointKind::Chat);
    let workload = open(&plan, Toy::shared(Cut::Words));
    let forward: Vec<_> =
        (0..200).map(|i| workload.conversation(i, Visit::default()).expect("exists")).collect();
    // Another workload, read from two threads, one of them backwards.
    let other = open(&plan, Toy::shared(Cut::Words));
    std::thread::scope(|scope| {
        let back = scope.spawn(|| {
            (0..200).rev().all(|i| other.conversation(i, Visit::default()).ok().as_ref() == Some(&forward[i]))
        });
        assert!((0..200).all(|i| other.conversation(i, Visit::default()).ok().as_ref() == Some(&forward[i])));
        assert!(back.join().expect("no panic"));
    });
    let toy = Toy::shared(Cut::Words);
    for (i, conversation) in forward.iter().enumerate() {
        let turn = &conversation.turns[0];
        assert_eq!(conversation.id, format!("session_{i:06}"));
        assert_eq!(Some(toy.count(&turn.texts[0]) as u64), turn.length.map(|l| l.asked));
        assert_eq!(turn.model, ["a", "b"][i % 2]);
        assert!(turn.max_tokens.is_some_and(|n| n >= 1));
    }
    let lengths: HashSet<_> = forward.iter().map(|c| c.turns[0].length).collect();
    assert!(lengths.len() > 30, "lengths spread");
}

#[test]
fn seeds_make_other_prompts() {
    let mut plan = plan(DatasetPlan::Synthetic(set(50, 40.0, 0.0)), EndpointKind::Chat);
    let texts = |plan: &Plan| -> HashSet<String> {
        let workload = open(plan, Toy::shared(Cut::Words));
        (0..50)
            .map(|i| workload.conversation(i, Visit::default()).expect("exists").turns[0].texts[0].clone())
            .collect()
    };
    let first = texts(&plan);
    plan.seed += 1;
    assert!(first.is_disjoint(&texts(&plan)));
}

#[test]
fn prompts_are_distinct_beyond_the_words_of_the_corpus() {
    let entries = 3 * SONNET.pieces();
    let plan = plan(DatasetPlan::Synthetic(set(entries, 24.0, 0.0)), EndpointKind::Chat);
    let workload = open(&plan, Toy::shared(Cut::Words));
    let mut seen = HashSet::new();
    for i in (0..5000).chain(SONNET.pieces()..SONNET.pieces() + 5000).chain(entries - 5000..entries) {
        assert!(
            seen.insert(
                workload.conversation(i, Visit::default()).expect("exists").turns[0].texts[0].clone()
            ),
            "{i}"
        );
    }
}

#[test]
fn models_can_be_drawn() {
    let mut plan = plan(DatasetPlan::Synthetic(set(400, 5.0, 0.0)), EndpointKind::Chat);
    plan.model_selection = ModelSelection::Random;
    let workload = open(&plan, Toy::shared(Cut::Words));
    let firsts = (0..400)
        .filter(|i| workload.conversation(*i, Visit::default()).expect("exists").turns[0].model == "a")
        .count();
    assert!((160..240).contains(&firsts), "4 standard errors are 40: {firsts}");
}

#[test]
fn specials_are_inside_the_length_of_completions_only() {
    let toy = Toy::shared(Cut::Words);
    for (kind, isl, bare) in [
        (EndpointKind::Completions, 17, 16),
        (EndpointKind::Completions, 2, 1),
        (EndpointKind::Completions, 1, 1),
        (EndpointKind::Chat, 17, 17),
        (EndpointKind::Chat, 1, 1),
    ] {
        let plan = plan(DatasetPlan::Synthetic(set(6, f64::from(isl), 0.0)), kind);
        let workload = open(&plan, Arc::new(Toy { cut: Cut::Words, specials: 1 }));
        for i in 0..6 {
            let turn = &workload.conversation(i, Visit::default()).expect("exists").turns[0];
            assert_eq!((toy.count(&turn.texts[0]), turn.length.map(|l| l.asked)), (bare, Some(isl as u64)));
        }
        let notes = workload.describe().notes;
        assert_eq!(notes.len(), usize::from(kind == EndpointKind::Completions && isl == 1));
        for note in notes {
            let want = "6 of 6 prompts have an ISL below 2, the shortest input that is not empty: tokenizer 'toy' adds 1 \
                        of its own (BOS); 2 tokens are sent instead";
            assert_eq!(note, want);
        }
    }
}

#[test]
fn bad_plans_and_positions_are_refused() {
    let none = plan(DatasetPlan::Synthetic(set(0, 5.0, 0.0)), EndpointKind::Chat);
    assert!(matches!(
        crate::open(&none, Some(Toy::shared(Cut::Words)), context()),
        Err(DataError::NoEntries)
    ));
    let mut one = plan(DatasetPlan::Synthetic(set(1, 5.0, 0.0)), EndpointKind::Chat);
    assert!(matches!(crate::open(&one, None, context()), Err(DataError::NoTokenizer)));
    let workload = open(&one, Toy::shared(Cut::Words));
    assert!(matches!(
        workload.conversation(1, Visit::default()),
        Err(DataError::OutOfRange { index: 1, len: 1 })
    ));
    one.models.clear();
    assert!(matches!(crate::open(&one, Some(Toy::shared(Cut::Words)), context()), Err(DataError::NoModel)));
    let long = plan(DatasetPlan::Synthetic(set(1, 1e15, 0.0)), EndpointKind::Chat);
    let error = crate::open(&long, Some(Toy::shared(Cut::Words)), context())
        .expect_err("no memory should be spent on it");
    assert!(matches!(error, DataError::TooLong { asked: 1_000_000_000_000_000, most: MOST_TOKENS }));
    let wide = plan(DatasetPlan::Synthetic(set(1, 10.0, 1e15)), EndpointKind::Chat);
    let error = crate::open(&wide, Some(Toy::shared(Cut::Words)), context()).expect_err("nor on a drawn one");
    assert!(matches!(error, DataError::TooLong { .. }), "{error}");
    let odd = plan(DatasetPlan::Synthetic(set(1, 9.0, 0.0)), EndpointKind::Chat);
    let error =
        open(&odd, Toy::shared(Cut::Even)).conversation(0, Visit::default()).expect_err("no odd count");
    assert!(error.to_string().starts_with("tokenizer 'toy' makes no text of 9 tokens"), "{error}");
}
