//! Where a marker lands, and whose length it is inside of: every target, with a system message and without.

use aiperf_core::plan::MarkerTarget;

use super::kinds::tokenizer;
use super::oracle::{first_request, rendered, text};
use super::{Beside, Wishes};
use crate::marker;
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
