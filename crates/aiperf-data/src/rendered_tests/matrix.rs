//! The rule of each part of a request, over drawn cells of the whole matrix.

use std::collections::BTreeSet;

use aiperf_core::conversation::Conversation;
use aiperf_core::plan::{CorpusPlan, MarkerTarget};
use aiperf_rng::{Draws, Key};
use aiperf_tokens::Tokenizer;

use super::kinds::{KINDS, Kind, VOCABULARIES, tokenizer};
use super::oracle::{asked_of_first, first_request, part, rendered, text};
use super::{Beside, CORPORA, Form, VERBATIM, Wishes};
use crate::error::DataError;
use crate::markers::marker;
use crate::workload::Visit;

/// Some of each template.
const CASES: u64 = 20 * KINDS.len() as u64;

fn drawn(draw: &mut Draws, template: bool, case: u64) -> Wishes {
    let tokens = 1 + draw.below(40);
    Wishes {
        corpus: CORPORA[draw.position(CORPORA.len())],
        target: MarkerTarget::ALL.get(draw.position(MarkerTarget::ALL.len() + 1)).copied(),
        beside: [
            Beside::Nothing,
            // Room for the longest marker.
            Beside::System(24 + tokens),
            Beside::Verbatim,
            Beside::Context(tokens),
            Beside::Both(24 + tokens),
            Beside::Prefixes(tokens),
        ][draw.position(6)],
        turns: 1 + draw.below(5),
        form: [Form::Fixed, Form::Spread, Form::Pair, Form::Range][draw.position(4)],
        isl: [0, 1, 2, draw.below(60), draw.below(300), draw.below(900)][draw.position(6)],
        template,
        seed: case % 3,
    }
}

/// Raises what is asked for to what can be.
fn possible(mut wishes: Wishes, least: u64) -> Wishes {
    wishes.isl += least;
    if wishes.form == Form::Range {
        // Three quarters of it are the least that is drawn.
        wishes.isl = wishes.isl * 4 / 3 + 4;
    }
    wishes
}

/// Lengths that are not as asked for.
#[derive(Default)]
struct Wrong {
    checked: usize,
    found: Vec<String>,
}

impl Wrong {
    fn check(&mut self, counted: u64, asked: u64, cell: impl FnOnce() -> String) {
        self.checked += 1;
        if counted != asked {
            self.found.push(format!("{counted} in place of {asked}: {}", cell()));
        }
    }

    #[track_caller]
    fn none(self) {
        let Self { checked, found } = self;
        let shown: Vec<&str> = found.iter().take(1000).map(|one| one.get(..460).unwrap_or(one)).collect();
        assert!(found.is_empty(), "{} of {checked} are wrong:\n{}", found.len(), shown.join("\n"));
        assert!(checked > 400, "{checked}");
    }
}

/// The marker that a visit's requests carry.
fn marker_of(wishes: Wishes, visit: Visit, conversation: &Conversation) -> Option<String> {
    let target = wishes.target.filter(|target| !target.is_warmup_isolation() || visit.warmup)?;
    Some(marker(target, "run", visit.session, visit.session, &conversation.id))
}

/// Everything about contents that does not depend on a template.
fn check_contents(wishes: Wishes, tokenizer: &dyn Tokenizer, visit: Visit, conversation: &Conversation) {
    let marker = marker_of(wishes, visit, conversation);
    let on_system = wishes.beside.has_system() && wishes.target.is_some_and(MarkerTarget::wants_system);
    let has_marker = |text: &str, wanted: bool| match &marker {
        Some(marker) if wanted => {
            let suffix = wishes.target.is_some_and(MarkerTarget::is_suffix);
            if suffix { text.ends_with(marker.as_str()) } else { text.starts_with(marker.as_str()) }
        }
        _ => !text.contains("[rid:") && !text.contains("[warmup]"),
    };
    if let Some(system) = &conversation.system {
        assert!(has_marker(system, on_system), "{system:?}");
        match wishes.beside {
            Beside::System(tokens) | Beside::Both(tokens) => {
                assert_eq!(tokenizer.count(system) as u64, tokens, "{system:?}");
            }
            _ => assert!(system.contains(VERBATIM)),
        }
    }
    if let Some(context) = &conversation.user_context {
        let tokens = match wishes.beside {
            Beside::Context(tokens) => tokens,
            Beside::Both(tokens) => tokens + 3,
            other => panic!("no context among {other:?}"),
        };
        assert!(has_marker(context, false), "{context:?}");
        assert_eq!(tokenizer.count(context) as u64, tokens, "{context:?}");
    }
    for (at, turn) in conversation.turns.iter().enumerate() {
        assert!(has_marker(text(turn), at == 0 && !on_system), "{:?}", text(turn));
        assert!(!text(turn).is_empty());
    }
}

/// Lengths that a form of asking can give.
fn check_asked(wishes: Wishes, specials: u64, asked: u64) {
    let Wishes { isl, form, .. } = wishes;
    match form {
        Form::Fixed => assert_eq!(asked, isl),
        Form::Spread => assert!(asked >= 1),
        Form::Pair => assert!([isl, isl + 9].contains(&asked), "{asked}"),
        Form::Range => {
            let low = (isl - specials) as f64 * 0.75;
            assert!((low.floor() as u64..=(isl as f64 * 1.25).ceil() as u64).contains(&asked), "{asked}");
        }
    }
}

#[test]
fn every_part_of_a_request_has_its_length_as_rendered() {
    let draws = Key::new(1).purpose("test.rendered");
    let mut seen = BTreeSet::new();
    let mut lengths = BTreeSet::new();
    let mut wrong = Wrong::default();
    let mut doubled = 0;
    for case in 0..CASES {
        let mut draw = draws.at(case);
        let (vocabulary, at) = (draw.position(VOCABULARIES.len()), case as usize % KINDS.len());
        let kind: &Kind = &KINDS[at];
        let tokenizer = tokenizer(vocabulary, at);
        let mut wishes = drawn(&mut draw, true, case);
        if kind.name == "echoes" {
            // Every other length is looked for in vain, the longer the text the longer.
            wishes.isl %= 40;
        }
        let cell = format!("case {case}: {}, '{}', {wishes:?}", VOCABULARIES[vocabulary], kind.name);
        let refused = kind
            .refuses_system
            .filter(|_| wishes.beside.has_system())
            .or_else(|| kind.refuses_consecutive.filter(|_| wishes.beside.has_context()));
        let least = match (wishes.least(&tokenizer), refused) {
            (Ok(least), None) => least,
            (Err(error @ DataError::Template { .. }), Some(words)) => {
                assert!(error.to_string().contains(words), "{cell}: {error}");
                continue;
            }
            (other, _) => panic!("{cell}: {other:?}"),
        };
        let wishes = possible(wishes, least);
        let workload = wishes.open(&tokenizer).unwrap_or_else(|error| panic!("{cell}: {error}"));
        for (entry, warmup) in [(0, false), (1, true), (4, false)] {
            let visit = Visit { session: 100 * case + entry as u64, warmup };
            let conversation = match workload.conversation(entry, visit) {
                Ok(conversation) => conversation,
                // What is said twice cannot have every length, nor a marker's digits be one token each.
                Err(DataError::NoTextOfLength { .. }) if kind.name == "echoes" => {
                    doubled += 1;
                    continue;
                }
                Err(error) => {
                    wrong.found.push(format!("{error} in place of a text: {cell}, entry {entry}"));
                    continue;
                }
            };
            check_contents(wishes, &*tokenizer, visit, &conversation);
            let lengths_of = |turn: usize| conversation.turns[turn].length.expect("made to a length");
            let first = tokenizer.count(&rendered(&*tokenizer, &first_request(&conversation), true)) as u64;
            let asked = asked_of_first(&*tokenizer, kind, wishes, &conversation);
            let specials = tokenizer.prompt_specials() as u64;
            wrong.check(first, lengths_of(0).asked, || format!("{cell}, entry {entry}: {conversation:?}"));
            check_asked(wishes, specials, asked);
            for turn in 1..conversation.turns.len() {
                let length = lengths_of(turn);
                let part = part(&*tokenizer, kind, &conversation, turn) as u64;
                wrong.check(part, length.asked, || {
                    format!("{cell}, entry {entry}, turn {turn}: {conversation:?}")
                });
                check_asked(wishes, specials, length.asked);
            }
            assert!(conversation.turns.iter().all(|t| t.length.is_some_and(|l| l.asked == l.made)), "{cell}");
            assert_eq!(conversation.turns.len() as u64, wishes.turns);
            lengths.insert(asked);
        }
        let word =
            |wishes: Wishes| format!("{:?} {:?}", wishes.target.map(MarkerTarget::name), wishes.corpus);
        seen.insert((kind.name, word(wishes)));
    }
    wrong.none();
    assert!(doubled < 40, "{doubled}");
    // Draws reach most of the matrix: 13 templates with 7 markers and 3 corpora.
    assert!(seen.len() > 120 && lengths.len() > 150, "{} cells, {} lengths", seen.len(), lengths.len());
}

#[test]
fn contents_have_their_bare_lengths_without_a_template() {
    let draws = Key::new(2).purpose("test.rendered");
    let mut wrong = Wrong::default();
    for case in 0..CASES / 2 {
        let mut draw = draws.at(case);
        let vocabulary = draw.position(VOCABULARIES.len());
        let tokenizer = tokenizer(vocabulary, 0);
        let wishes = drawn(&mut draw, false, case);
        let cell = format!("case {case}: {}, {wishes:?}", VOCABULARIES[vocabulary]);
        let wishes =
            possible(wishes, wishes.least(&tokenizer).unwrap_or_else(|error| panic!("{cell}: {error}")));
        let workload = wishes.open(&tokenizer).unwrap_or_else(|error| panic!("{cell}: {error}"));
        for (entry, warmup) in [(0, false), (1, true), (4, false)] {
            let visit = Visit { session: 100 * case + entry as u64, warmup };
            let conversation =
                workload.conversation(entry, visit).unwrap_or_else(|error| panic!("{cell}: {error}"));
            let prefix = match wishes.beside {
                Beside::Prefixes(tokens) => tokens,
                _ => 0,
            };
            // Random prompts with a range are another tool's, whose loop leaves some at another length.
            let is_exact = |turn: usize| {
                wishes.corpus != CorpusPlan::Random
                    || wishes.form != Form::Range
                    || (turn == 0
                        && marker_of(wishes, visit, &conversation).is_some()
                        && !wishes.beside.has_system())
            };
            for (at, turn) in conversation.turns.iter().enumerate() {
                let own = tokenizer.count(text(turn)) as u64 - if at == 0 { prefix } else { 0 };
                let beside: usize = [&conversation.system, &conversation.user_context]
                    .into_iter()
                    .flatten()
                    .map(|content| tokenizer.count(content))
                    .sum();
                let asked = turn.length.expect("made to a length").asked
                    - if at == 0 { beside as u64 + prefix } else { 0 };
                if is_exact(at) {
                    check_contents(wishes, &*tokenizer, visit, &conversation);
                    wrong.check(own, asked, || format!("{cell}, entry {entry}, turn {at}: {conversation:?}"));
                }
                check_asked(wishes, tokenizer.prompt_specials() as u64, asked);
            }
        }
    }
    wrong.none();
}

#[test]
fn what_is_sent_is_a_function_of_plan_and_position() {
    let draws = Key::new(3).purpose("test.rendered");
    for case in 0..20 {
        let mut draw = draws.at(case);
        let tokenizer = tokenizer(draw.position(VOCABULARIES.len()), [0, 4, 5][draw.position(3)]);
        let wishes = drawn(&mut draw, true, case);
        let wishes = possible(wishes, wishes.least(&tokenizer).expect("these templates take everything"));
        let visit = Visit { session: case, warmup: false };
        let of = |order: &[usize]| {
            let workload = wishes.open(&tokenizer).expect("it is possible");
            let mut made: Vec<_> = order
                .iter()
                .map(|&i| (i, workload.conversation(i, visit).expect("it is possible")))
                .collect();
            made.sort_by_key(|(i, _)| *i);
            made
        };
        assert_eq!(of(&[0, 1, 2, 3, 4]), of(&[3, 1, 4, 0, 2]), "{wishes:?}");
    }
}
