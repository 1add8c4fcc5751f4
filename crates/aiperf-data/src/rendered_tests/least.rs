//! The least that can be asked for: it is had by every session, and one less is refused with its number.

use aiperf_core::plan::{DatasetPlan, MarkerTarget};

use super::kinds::{KINDS, VOCABULARIES, path_of, tokenizer};
use super::oracle::{first_request, part, rendered};
use super::{Beside, CORPORA, Wishes};
use crate::error::DataError;
use crate::workload::Visit;

#[test]
fn the_least_is_had_by_every_session_and_less_is_refused_with_its_number() {
    let targets = [None, Some(MarkerTarget::FirstTurnPrefix), Some(MarkerTarget::FirstTurnSuffix)];
    // The first messages alone, and with what stands before them.
    for (at, kind) in KINDS.iter().enumerate().filter(|(_, kind)| kind.name != "echoes") {
        let vocabulary = at % VOCABULARIES.len();
        let tokenizer = tokenizer(vocabulary, at);
        for (target, corpus) in targets.into_iter().zip(CORPORA) {
            let beside = if kind.refuses_system.is_some() { Beside::Nothing } else { Beside::System(20) };
            let wishes = Wishes { target, corpus, beside, turns: 2, ..Wishes::of(1) };
            let least = wishes.least(&tokenizer).expect("there is a least");
            let cell = format!("{} '{}' {wishes:?}", VOCABULARIES[vocabulary], kind.name);
            assert!(least > 1, "{cell}: a template is never nothing");

            let less = Wishes { isl: least - 1, ..wishes }.open(&tokenizer).expect_err("it cannot be");
            let said = less.to_string();
            assert!(
                matches!(less, DataError::BelowLeast { asked, .. } if asked == least - 1),
                "{cell}: {said}"
            );
            let number = format!("the least possible is {least} (the chat template");
            assert!(said.contains(&number) && said.contains("--isl-below-minimum floor"), "{cell}: {said}");

            let workload = Wishes { isl: least, ..wishes }.open(&tokenizer).expect("it can be");
            for session in 0..60 {
                let visit = Visit { session, warmup: false };
                let conversation = workload
                    .conversation(session as usize % 5, visit)
                    .unwrap_or_else(|e| panic!("{cell}: {e}"));
                let asked =
                    |turn: usize| conversation.turns[turn].length.expect("made to a length").asked as usize;
                let first = rendered(&*tokenizer, &first_request(&conversation), true);
                assert_eq!(tokenizer.count(&first), asked(0), "{cell}, session {session}");
                assert_eq!(part(&*tokenizer, kind, &conversation, 1), asked(1), "{cell}, session {session}");
            }
        }
    }
}

#[test]
fn a_system_message_with_no_room_for_its_marker_is_refused() {
    let tokenizer = tokenizer(0, 0);
    let of =
        |tokens, target| Wishes { target: Some(target), beside: Beside::System(tokens), ..Wishes::of(100) };
    for target in [MarkerTarget::SystemPrefix, MarkerTarget::SystemSuffix] {
        let Err(DataError::SystemBelowLeast { asked: 3, least }) = of(3, target).open(&tokenizer) else {
            panic!("no room for a marker");
        };
        let error = of(least - 1, target).open(&tokenizer).expect_err("one less");
        assert!(error.to_string().contains(&format!("the least possible is {least}")), "{error}");
        let workload = of(least, target).open(&tokenizer).expect("it can be");
        for session in 0..200 {
            let visit = Visit { session, warmup: false };
            let conversation = workload.conversation(0, visit).expect("whatever the digest is cut into");
            let system = conversation.system.expect("asked for");
            assert_eq!(tokenizer.count(&system) as u64, least, "{system:?}");
        }
    }
    // On the first turn it takes nothing from the system message, of which one token is one.
    let short = of(1, MarkerTarget::FirstTurnPrefix).open(&tokenizer).expect("no marker on it");
    let system = short.conversation(0, Visit::default()).expect("it can be").system.expect("asked for");
    assert_eq!(tokenizer.count(&system), 1);
}

#[test]
fn what_is_below_the_least_is_the_shortest_where_that_is_wanted() {
    let tokenizer = tokenizer(0, 0);
    for target in [None, Some(MarkerTarget::FirstTurnPrefix)] {
        let wishes = Wishes { target, turns: 2, ..Wishes::of(5) };
        let least = wishes.least(&tokenizer).expect("there is a least");
        assert!(wishes.open(&tokenizer).is_err());
        let mut plan = wishes.plan();
        let DatasetPlan::Synthetic(set) = &mut plan.dataset else { panic!("a synthetic plan") };
        set.floor = true;
        let workload =
            crate::open(&plan, Some(tokenizer.clone()), crate::toys::context()).expect("nothing is refused");
        let notes = workload.describe().notes;
        assert!(
            notes.len() == 1 && notes[0].contains("have an ISL below the least that can be"),
            "{notes:?}"
        );
        for session in 0..40 {
            let visit = Visit { session, warmup: false };
            let conversation = workload.conversation(0, visit).expect("it can be");
            let length = conversation.turns[0].length.expect("made to a length");
            assert_eq!((length.asked, length.made), (5, least), "{conversation:?}");
            let first = rendered(&*tokenizer, &first_request(&conversation), true);
            assert_eq!(tokenizer.count(&first) as u64, least);
        }
    }
}

#[test]
fn without_a_template_one_token_can_be_and_none_is_never_sent() {
    for (at, _) in VOCABULARIES.iter().enumerate() {
        let name = path_of(at).display().to_string();
        let tokenizer =
            aiperf_tokens::open(&aiperf_core::plan::TokenizerPlan { name }).expect("a vocabulary");
        for corpus in CORPORA {
            let workload =
                Wishes { corpus, template: false, ..Wishes::of(1) }.open(&tokenizer).expect("one can be");
            for entry in 0..5 {
                let made = workload.conversation(entry, Visit::default()).expect("one can be");
                let text = &made.turns[0].texts[0];
                assert_eq!(tokenizer.count(text), 1, "{} {corpus:?} {text:?}", VOCABULARIES[at]);
            }
        }
    }
}
