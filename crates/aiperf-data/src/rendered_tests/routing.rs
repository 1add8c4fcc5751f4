//! Where a marker lands, and whose length it is inside of: every target, with a system message and without.

use std::sync::{Arc, Mutex};

use aiperf_core::plan::{DatasetPlan, MarkerTarget};
use aiperf_tokens::{ChatTemplate, Tokenizer};

use super::kinds::tokenizer;
use super::oracle::{first_request, rendered, text};
use super::{Beside, Wishes};
use crate::marker;
use crate::toys::context;
use crate::workload::Visit;

const VISIT: Visit = Visit { session: 3, warmup: false };

/// The first request with a marker and without, everything else being the same.
fn both(target: MarkerTarget, beside: Beside, template: bool) -> [(Option<String>, String, u64); 2] {
    [Some(target), None].map(|target| {
        let tokenizer = tokenizer(0, 0);
        let wishes = Wishes { target, beside, template, ..Wishes::of(120) };
        let made = wishes.open(&tokenizer).expect("it can be").conversation(1, VISIT).expect("it can be");
        let length = made.turns[0].length.expect("made to a length").asked;
        if template {
            let whole = tokenizer.count(&rendered(&*tokenizer, &first_request(&made), true));
            assert_eq!(whole as u64, length);
        }
        (made.system.clone(), text(&made.turns[0]).to_owned(), length)
    })
}

/// The rest of a text that has the marker of `target` where it belongs.
fn unmarked(target: MarkerTarget, text: &str) -> Option<&str> {
    let marker = marker(target, "run", 3, 3, "session_000001");
    if target.is_suffix() { text.strip_suffix(marker.as_str()) } else { text.strip_prefix(marker.as_str()) }
}

#[track_caller]
fn lands_on_the_user(target: MarkerTarget, beside: Beside) {
    let count = |text: &str| tokenizer(0, 0).count(text);
    for template in [true, false] {
        let [(system, user, length), (plain_system, plain, plain_length)] = both(target, beside, template);
        assert_eq!((&system, length), (&plain_system, plain_length), "the system message and the whole stay");
        assert!(unmarked(target, &plain).is_none());
        let own = unmarked(target, &user).expect("the marker is on the user message");
        assert_eq!(count(&user), count(&plain), "it is inside the length");
        assert!(count(own) < count(&plain), "so it takes room from the text");
    }
}

#[track_caller]
fn lands_on_the_system(target: MarkerTarget) {
    let count = |text: &str| tokenizer(0, 0).count(text);
    for template in [true, false] {
        let [(system, user, length), (plain_system, plain, plain_length)] =
            both(target, Beside::System(40), template);
        let (system, plain_system) = (system.expect("asked for"), plain_system.expect("asked for"));
        assert_eq!((user, length), (plain, plain_length), "the user message and the whole stay");
        assert!(unmarked(target, &plain_system).is_none());
        let own = unmarked(target, &system).expect("the marker is on the system message");
        assert_eq!((count(&system), count(&plain_system)), (40, 40), "it is inside the length");
        assert!(count(own) < 40, "so it takes room from the text");
    }
}

#[test]
fn first_turn_prefix_lands_on_the_user_message() {
    lands_on_the_user(MarkerTarget::FirstTurnPrefix, Beside::Nothing);
}

#[test]
fn first_turn_suffix_lands_on_the_user_message() {
    lands_on_the_user(MarkerTarget::FirstTurnSuffix, Beside::Nothing);
}

#[test]
fn first_turn_prefix_leaves_the_system_message_alone() {
    lands_on_the_user(MarkerTarget::FirstTurnPrefix, Beside::System(40));
}

#[test]
fn first_turn_suffix_leaves_the_system_message_alone() {
    lands_on_the_user(MarkerTarget::FirstTurnSuffix, Beside::System(40));
}

#[test]
fn system_prefix_lands_on_the_system_message() {
    lands_on_the_system(MarkerTarget::SystemPrefix);
}

#[test]
fn system_suffix_lands_on_the_system_message() {
    lands_on_the_system(MarkerTarget::SystemSuffix);
}

#[test]
fn system_prefix_without_a_system_message_lands_on_the_user_message() {
    lands_on_the_user(MarkerTarget::SystemPrefix, Beside::Nothing);
}

#[test]
fn system_suffix_without_a_system_message_lands_on_the_user_message() {
    lands_on_the_user(MarkerTarget::SystemSuffix, Beside::Nothing);
}

#[test]
fn without_a_target_nothing_is_marked_and_nothing_is_shorter() {
    let tokenizer = tokenizer(0, 0);
    for beside in [Beside::Nothing, Beside::System(40)] {
        let wishes = Wishes { beside, template: false, ..Wishes::of(120) };
        let made = wishes.open(&tokenizer).expect("it can be").conversation(1, VISIT).expect("it can be");
        assert_eq!(tokenizer.count(text(&made.turns[0])), 120);
        let texts = made.system.iter().map(String::as_str).chain([text(&made.turns[0])]);
        assert!(texts.into_iter().all(|text| !text.contains("[rid:") && !text.contains("[warmup]")));
    }
}

#[test]
fn warm_up_isolation_marks_warm_up_alone() {
    let tokenizer = tokenizer(0, 0);
    for (target, beside, on_system) in [
        (MarkerTarget::WarmupIsolationSystem, Beside::System(40), true),
        (MarkerTarget::WarmupIsolationSystem, Beside::Nothing, false),
        (MarkerTarget::WarmupIsolationFirstTurn, Beside::System(40), false),
        (MarkerTarget::WarmupIsolationFirstTurn, Beside::Nothing, false),
    ] {
        let workload =
            Wishes { target: Some(target), beside, ..Wishes::of(120) }.open(&tokenizer).expect("it can be");
        for warmup in [false, true] {
            let made = workload.conversation(1, Visit { session: 3, warmup }).expect("it can be");
            let is_marked = |text: &str| text.starts_with("[warmup]\n\n");
            let system = made.system.as_deref();
            assert_eq!(system.is_some_and(is_marked), warmup && on_system, "{target:?} {beside:?}");
            assert_eq!(is_marked(text(&made.turns[0])), warmup && !on_system, "{target:?} {beside:?}");
            let whole = tokenizer.count(&rendered(&*tokenizer, &first_request(&made), true)) as u64;
            assert_eq!(made.turns[0].length.map(|length| length.asked), Some(whole));
        }
    }
}

/// Special tokens keep this template's contents apart from it, so a message costs the same whatever it says. AIPerf's estimate
/// takes the mean of a user's and an assistant's wrap for both, and each turn would be one or two tokens short.
#[test]
fn turns_leave_room_for_template_and_marker() {
    let tokenizer = tokenizer(0, 0);
    let probe = aiperf_tokens::probe(&*tokenizer, context().now);
    let costs: Vec<usize> = probe.samples.iter().map(|sample| sample.single - sample.bare).collect();
    assert_eq!((costs, probe.first_turn_adjustment(0)), (vec![13; 3], 14), "{probe:?}");
    let wrap = tokenizer.count("<|turn|>user\n<|end|>\n");
    assert_eq!((wrap, probe.later_turn_adjustment()), (6, 8));
    for target in [None, Some(MarkerTarget::FirstTurnPrefix), Some(MarkerTarget::SystemSuffix)] {
        let workload = Wishes { target, turns: 3, ..Wishes::of(60) }.open(&tokenizer).expect("it can be");
        for session in 0..20 {
            let made = workload.conversation(2, Visit { session, warmup: false }).expect("it can be");
            let marker =
                target.map(|target| marker(target, "run", session, session, &made.id)).unwrap_or_default();
            let first = text(&made.turns[0]);
            assert!(first.contains(marker.as_str()));
            assert_eq!(tokenizer.count(first) + 13, 60, "the marker is among its tokens: {first:?}");
            for turn in &made.turns[1..] {
                assert_eq!(tokenizer.count(text(turn)) + wrap, 60);
            }
        }
    }
}

#[test]
fn a_plan_is_left_as_it_was_and_read_once() {
    let tokenizer = tokenizer(0, 0);
    let wishes =
        Wishes { target: Some(MarkerTarget::SystemPrefix), beside: Beside::System(40), ..Wishes::of(120) };
    let mut plan = wishes.plan();
    let workload = crate::open(&plan, Some(tokenizer.clone()), context()).expect("it can be");
    let before = workload.conversation(0, VISIT).expect("it can be");
    let DatasetPlan::Synthetic(set) = &mut plan.dataset else { panic!("a synthetic plan") };
    assert_eq!(set.system_tokens, Some(40), "what the user typed, not what is left beside the marker");
    (set.system_tokens, set.entries, plan.cache_bust) = (Some(9), 1, None);
    assert_eq!(workload.conversation(0, VISIT).expect("it can be"), before);
    assert_eq!(workload.len(), 5);
}

/// A tokenizer that keeps the texts it counted.
#[derive(Debug)]
struct Listening {
    inner: Arc<dyn Tokenizer>,
    heard: Mutex<Vec<String>>,
}

impl Tokenizer for Listening {
    fn name(&self) -> &'static str {
        "listening"
    }

    fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        self.heard.lock().expect("nobody panics with it").push(text.to_owned());
        self.inner.encode(text, ids);
    }

    fn decode(&self, ids: &[u32]) -> String {
        self.inner.decode(ids)
    }

    fn vocab_size(&self) -> usize {
        self.inner.vocab_size()
    }

    fn token_ids(&self) -> Vec<u32> {
        self.inner.token_ids()
    }

    fn is_special(&self, id: u32) -> bool {
        self.inner.is_special(id)
    }

    fn is_control(&self, id: u32) -> bool {
        self.inner.is_control(id)
    }

    fn prompt_specials(&self) -> usize {
        self.inner.prompt_specials()
    }

    fn chat_template(&self) -> Option<&ChatTemplate> {
        None
    }

    fn bos_token(&self) -> Option<&str> {
        self.inner.bos_token()
    }

    fn eos_token(&self) -> Option<&str> {
        self.inner.eos_token()
    }

    fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_id(token)
    }
}

#[test]
fn markers_are_counted_only_where_there_are_any() {
    for (target, beside) in [
        (None, Beside::Nothing),
        (None, Beside::System(40)),
        (Some(MarkerTarget::FirstTurnPrefix), Beside::Nothing),
        (Some(MarkerTarget::SystemSuffix), Beside::System(40)),
    ] {
        let listening = Arc::new(Listening { inner: tokenizer(0, 0), heard: Mutex::default() });
        let shared: Arc<dyn Tokenizer> = Arc::clone(&listening) as _;
        let wishes = Wishes { target, beside, template: false, ..Wishes::of(120) };
        wishes.open(&shared).expect("it can be").conversation(0, VISIT).expect("it can be");
        let heard = listening.heard.lock().expect("nobody panics with it");
        assert!(!heard.is_empty());
        assert_eq!(heard.iter().any(|text| text.contains("[rid:")), target.is_some(), "{target:?}");
    }
}

/// A later turn has its own part alone: the request's fixed part and the marker are the first one's.
#[test]
fn the_marker_is_inside_the_first_turn_and_no_other() {
    let tokenizer = tokenizer(0, 0);
    let of = |target| {
        let wishes = Wishes { target, turns: 3, ..Wishes::of(60) };
        wishes.open(&tokenizer).expect("it can be").conversation(0, VISIT).expect("it can be")
    };
    let (marked, plain) = (of(Some(MarkerTarget::FirstTurnSuffix)), of(None));
    assert!(unmarked_of(&marked).is_some() && unmarked_of(&plain).is_none());
    assert_eq!(marked.turns[1..], plain.turns[1..]);
    // Two tokens of the template's mark and name fewer than a first one, which has the beginning of the answer besides.
    let bare = |turn: usize| tokenizer.count(text(&plain.turns[turn]));
    assert!(bare(1) > bare(0) && bare(1) == bare(2), "{} {} {}", bare(0), bare(1), bare(2));
}

fn unmarked_of(conversation: &aiperf_core::conversation::Conversation) -> Option<&str> {
    let marker = marker(MarkerTarget::FirstTurnSuffix, "run", 3, 3, &conversation.id);
    text(&conversation.turns[0]).strip_suffix(marker.as_str())
}
