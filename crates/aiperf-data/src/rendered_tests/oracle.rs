//! The rules of lengths on the wire, worked out the slow way: by rendering whole requests and counting them.

use aiperf_core::conversation::{Conversation, Turn};
use aiperf_tokens::Tokenizer;
use serde_json::Value;

use super::kinds::{Kind, Wrap};
use super::{Beside, Wishes};
use crate::toys::context;

/// Contents that wraps are measured with.
const SAMPLE: &str = "words and more words";
/// Replies, as few templates would change them.
pub(super) const REPLIES: [&str; 4] =
    ["42 ZEBRAS.", "NO ZEBRA 7", "7 ZEBRAS X 6 IS 42, OF COURSE!", "A B ZEBRA C"];

/// Role and content.
pub(super) type Said<'a> = (&'a str, &'a str);

/// What a request with these messages is to the server.
pub(super) fn rendered(tokenizer: &dyn Tokenizer, messages: &[Said<'_>], generation: bool) -> String {
    let messages: Vec<Value> = messages
        .iter()
        .map(|(role, content)| serde_json::json!({"role": role, "content": content}))
        .collect();
    let template = tokenizer.chat_template().expect("a template");
    template.render(&messages.into(), None, generation, context().now).expect("it takes these messages")
}

/// The messages of a conversation's first request.
pub(super) fn first_request(conversation: &Conversation) -> Vec<Said<'_>> {
    let mut messages = before(conversation);
    messages.push(("user", text(&conversation.turns[0])));
    messages
}

fn before(conversation: &Conversation) -> Vec<Said<'_>> {
    let mut messages = Vec::new();
    messages.extend(conversation.system.as_deref().map(|text| ("system", text)));
    messages.extend(conversation.user_context.as_deref().map(|text| ("user", text)));
    messages
}

pub(super) fn text(turn: &Turn) -> &str {
    let [text] = turn.texts.as_slice() else { panic!("one text, not {:?}", turn.texts) };
    text
}

/// Tokens that system message and context add to a request beside their contents.
fn wraps(tokenizer: &dyn Tokenizer, kind: &Kind, conversation: &Conversation) -> isize {
    let count = |text: &str| tokenizer.count(text) as isize;
    let mut wraps = 0;
    let mut before: Vec<Said<'_>> = Vec::new();
    let roles = [("system", conversation.system.is_some()), ("user", conversation.user_context.is_some())];
    for (role, _) in roles.into_iter().filter(|(_, is_there)| *is_there) {
        wraps += match if role == "system" { kind.system } else { kind.user } {
            Wrap::Written(lead, trail) => count(&[lead, SAMPLE, trail].concat()) - count(SAMPLE),
            Wrap::Difference => {
                let without = [before.as_slice(), &[("user", SAMPLE)]].concat();
                let with = [before.as_slice(), &[(role, SAMPLE), ("user", SAMPLE)]].concat();
                let whole = |messages: &[Said<'_>]| count(&rendered(tokenizer, messages, true));
                whole(&with) - whole(&without) - count(SAMPLE)
            }
        };
        before.push((role, SAMPLE));
    }
    wraps
}

/// Tokens of a later turn's part of its request: from the end mark of the reply before it to its own.
pub(super) fn part(
    tokenizer: &dyn Tokenizer,
    kind: &Kind,
    conversation: &Conversation,
    turn: usize,
) -> usize {
    let mut talk = before(conversation);
    for (said, reply) in conversation.turns[..turn].iter().zip(REPLIES) {
        talk.extend([("user", text(said)), ("assistant", reply)]);
    }
    let own = text(&conversation.turns[turn]);
    talk.push(("user", own));
    let whole = rendered(tokenizer, &talk, true);
    let reply = REPLIES[turn - 1];
    let reply_ends = whole.rfind(reply).expect("the reply is there") + reply.len();
    let from = reply_ends
        + whole[reply_ends..].find(kind.reply_end).expect("the mark is there")
        + kind.reply_end.len();
    // The last of its kind, for contents may hold what looks like it.
    let end = if kind.user_end.is_empty() { own } else { kind.user_end };
    let to = whole.rfind(end).expect("the mark is there") + end.len();
    tokenizer.count(&whole[..to]) - tokenizer.count(&whole[..from])
}

/// Tokens of the first request that were asked for beside those of the system message, the context, and the prefix.
pub(super) fn asked_of_first(
    tokenizer: &dyn Tokenizer,
    kind: &Kind,
    wishes: Wishes,
    conversation: &Conversation,
) -> u64 {
    let asked = conversation.turns[0].length.expect("made to a length").asked;
    let prefix = match wishes.beside {
        Beside::Prefixes(tokens) => tokens,
        _ => 0,
    };
    if kind.rewrites && wishes.beside != Beside::Nothing {
        // What stands before it makes of the request what it makes of one with a short message.
        let count = |messages: &[Said<'_>]| tokenizer.count(&rendered(tokenizer, messages, true)) as u64;
        let before = before(conversation);
        let opening = count(&[before.as_slice(), &[("user", SAMPLE)]].concat()) - count(&[("user", SAMPLE)]);
        // A prefix is part of the message, so here it is not told apart.
        return if prefix > 0 { wishes.isl } else { asked - opening };
    }
    let own = |content: &str| tokenizer.count(if kind.trims { content.trim() } else { content });
    let beside: usize = before(conversation).iter().map(|(_, content)| own(content)).sum();
    asked - prefix - (beside as isize + wraps(tokenizer, kind, conversation)) as u64
}
