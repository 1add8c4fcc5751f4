//! Prefixes: shared by conversations, on top of the input length, joined to the text behind them as tokens.

use std::collections::BTreeSet;

use super::kinds::tokenizer;
use super::oracle::{first_request, rendered, text};
use super::{Beside, CORPORA, Wishes};
use crate::workload::Visit;

const BODY: u64 = 108;
const PREFIX: u64 = 20;

/// First texts of five conversations.
fn texts(wishes: Wishes, vocabulary: usize) -> Vec<String> {
    let workload = wishes.open(&tokenizer(vocabulary, 0)).expect("it can be");
    (0..5)
        .map(|entry| {
            text(&workload.conversation(entry, Visit::default()).expect("it can be").turns[0]).to_owned()
        })
        .collect()
}

#[test]
fn a_prefix_is_on_top_of_the_length_with_every_corpus() {
    // A byte-level vocabulary, one that merges over spaces, and one with a mark before each text.
    for vocabulary in [0, 2, 3] {
        let tokenizer = tokenizer(vocabulary, 0);
        for corpus in CORPORA {
            let wishes =
                Wishes { corpus, beside: Beside::Prefixes(PREFIX), template: false, ..Wishes::of(BODY) };
            for text in texts(wishes, vocabulary) {
                assert_eq!(tokenizer.count(&text) as u64, BODY + PREFIX, "{vocabulary} {corpus:?} {text:?}");
            }
            let workload = Wishes { template: true, ..wishes }.open(&tokenizer).expect("it can be");
            for entry in 0..5 {
                let made = workload.conversation(entry, Visit::default()).expect("it can be");
                let whole = rendered(&*tokenizer, &first_request(&made), true);
                assert_eq!(tokenizer.count(&whole) as u64, BODY + PREFIX, "{vocabulary} {corpus:?}");
            }
        }
    }
}

#[test]
fn a_prefix_is_shared_and_has_its_length_alone() {
    let tokenizer = tokenizer(0, 0);
    for corpus in CORPORA {
        let wishes = Wishes { corpus, beside: Beside::Prefixes(PREFIX), template: false, ..Wishes::of(BODY) };
        let texts = texts(wishes, 0);
        // Of each text the first tokens: those of one of the two prefixes.
        let beginnings: BTreeSet<Vec<u32>> = texts
            .iter()
            .map(|text| {
                let mut ids = Vec::new();
                tokenizer.encode(text, &mut ids);
                ids.truncate(PREFIX as usize);
                ids
            })
            .collect();
        assert_eq!(beginnings.len(), 2, "{corpus:?} {texts:#?}");
        assert_eq!(texts.iter().collect::<BTreeSet<_>>().len(), 5, "what follows is each one's own");
    }
}

/// A prefix takes nothing from the text behind it: the body is the one that would be there without.
#[test]
fn what_is_asked_for_is_the_body() {
    let tokenizer = tokenizer(0, 0);
    let of = |isl, beside| {
        let wishes = Wishes { beside, template: false, ..Wishes::of(isl) };
        let workload = wishes.open(&tokenizer).expect("it can be");
        let made = workload.conversation(3, Visit::default()).expect("it can be");
        (tokenizer.count(text(&made.turns[0])), made.turns[0].length.expect("made to a length").asked)
    };
    assert_eq!(of(128, Beside::Nothing), (128, 128));
    assert_eq!(of(128, Beside::Prefixes(20)), (148, 148));
    assert_eq!(of(108, Beside::Prefixes(20)), (128, 128), "for a total that stays, less is asked for");
}
