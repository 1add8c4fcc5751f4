//! The texts of one choice of an answer, put together from its pieces.

use std::borrow::Cow;
use std::ops::Range;

use super::chunk::{CallPart, Piece};

/// A call of a tool in an answer: where its parts lie in the text of its choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub name: Range<usize>,
    /// Its arguments as the model wrote them, right behind the name.
    pub arguments: Range<usize>,
    /// Its place in the server's list, where the server says it.
    pub index: Option<i64>,
    /// The server's name for it; empty where there is none.
    pub id: String,
}

impl Call {
    /// All that the model wrote of it.
    pub fn whole(&self) -> Range<usize> {
        self.name.start..self.arguments.end
    }

    /// Makes room for `len` bytes that were put in at `at`, before it.
    fn shift(&mut self, len: usize) {
        for end in [&mut self.name, &mut self.arguments] {
            *end = end.start + len..end.end + len;
        }
    }
}

/// What one choice says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChoiceText {
    /// Its number at the server.
    pub index: i64,
    /// Prose and refusals as they came, and tool calls, each whole at the place where it began.
    pub text: String,
    /// Which parts of `text` are tool calls, in order.
    pub calls: Vec<Call>,
    /// Reasoning text, kept apart.
    pub reasoning: String,
    /// The server's own word for why it stopped.
    pub finish_reason: Option<String>,
}

impl ChoiceText {
    /// Adds what a piece says.
    pub(super) fn add(&mut self, piece: &Piece<'_>) {
        self.reasoning.push_str(&piece.reasoning);
        self.text.push_str(&piece.prose);
        for part in &piece.calls {
            let slot = self.slot(part);
            self.name(slot, &part.name);
            self.arguments(slot, &part.arguments);
        }
    }

    /// The call that `part` belongs to: of the same id, else of the same index; one that says neither goes on with the last, unless it
    /// has a name.
    pub(super) fn slot(&mut self, part: &CallPart<'_>) -> usize {
        let is_it = |call: &Call| match (part.id.is_empty() || call.id.is_empty(), part.index) {
            (false, _) => call.id == part.id,
            (true, Some(index)) => call.index == Some(index),
            (true, None) => false,
        };
        let found = if part.is_whole {
            None
        } else if part.id.is_empty() && part.index.is_none() {
            self.calls.len().checked_sub(1).filter(|_| part.name.is_empty())
        } else {
            // Servers that number all calls alike tell them apart by their ids: the last one goes on.
            self.calls.iter().rposition(is_it)
        };
        let slot = found.unwrap_or_else(|| {
            let end = self.text.len();
            self.calls.push(Call {
                name: end..end,
                arguments: end..end,
                index: part.index,
                id: String::new(),
            });
            self.calls.len() - 1
        });
        if self.calls[slot].id.is_empty() {
            self.calls[slot].id.push_str(&part.id);
        }
        slot
    }

    /// Adds to the name of a call. Some servers say it again with each piece of the arguments.
    fn name(&mut self, slot: usize, name: &str) {
        let call = &self.calls[slot];
        if name.is_empty() || self.text[call.name.clone()] == *name {
            return;
        }
        let at = call.name.end;
        self.insert(slot, at, name);
        let call = &mut self.calls[slot];
        call.name.end += name.len();
        call.arguments = call.arguments.start + name.len()..call.arguments.end + name.len();
    }

    /// Adds to the arguments of a call.
    pub(super) fn arguments(&mut self, slot: usize, text: &str) {
        let at = self.calls[slot].arguments.end;
        self.insert(slot, at, text);
        self.calls[slot].arguments.end += text.len();
    }

    /// Puts `text` into the call at `slot`; what stands behind it moves.
    fn insert(&mut self, slot: usize, at: usize, text: &str) {
        if at == self.text.len() {
            self.text.push_str(text);
            return;
        }
        self.text.insert_str(at, text);
        self.calls[slot + 1..].iter_mut().for_each(|call| call.shift(text.len()));
    }
}

/// `text` without the calls in it.
pub(super) fn prose<'a>(text: &'a str, calls: &[Call]) -> Cow<'a, str> {
    if calls.is_empty() {
        return Cow::Borrowed(text);
    }
    let starts = std::iter::once(0).chain(calls.iter().map(|c| c.arguments.end));
    let ends = calls.iter().map(|c| c.name.start).chain([text.len()]);
    starts.zip(ends).filter_map(|(start, end)| text.get(start..end)).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part<'a>(index: Option<i64>, id: &'a str, name: &'a str, arguments: &'a str) -> CallPart<'a> {
        CallPart { index, id: id.into(), name: name.into(), arguments: arguments.into(), is_whole: false }
    }

    fn read<'a>(parts: impl IntoIterator<Item = CallPart<'a>>) -> Vec<(String, String)> {
        let mut choice = ChoiceText::default();
        choice.add(&Piece::prose("So: ".into()));
        for part in parts {
            choice.add(&Piece::call(part));
        }
        choice.add(&Piece::prose(" done".into()));
        assert_eq!(prose(&choice.text, &choice.calls), "So:  done");
        choice
            .calls
            .iter()
            .map(|c| (choice.text[c.name.clone()].to_owned(), choice.text[c.arguments.clone()].to_owned()))
            .collect()
    }

    #[test]
    fn calls_in_turns_are_whole_to_the_byte() {
        let calls = read([
            part(Some(0), "a", "look", ""),
            part(Some(1), "b", "find", ""),
            part(Some(0), "", "", "{\"q\":"),
            part(Some(1), "", "", "{\"é\":\"🙂"),
            part(Some(0), "", "", " 1}"),
            part(Some(1), "", "", "\"}"),
        ]);
        let expected = [("look", "{\"q\": 1}"), ("find", "{\"é\":\"🙂\"}")];
        assert_eq!(calls, expected.map(|(n, a)| (n.to_owned(), a.to_owned())));
    }

    #[test]
    fn ids_tell_calls_apart_that_have_one_number() {
        let calls =
            read([part(Some(0), "a", "f", "{}"), part(Some(0), "b", "f", "{1}"), part(Some(0), "", "", "2")]);
        assert_eq!(calls, [("f", "{}"), ("f", "{1}2")].map(|(n, a)| (n.to_owned(), a.to_owned())));
    }

    #[test]
    fn a_name_said_again_and_a_name_in_pieces() {
        let calls = read([part(Some(0), "a", "look", "{"), part(Some(0), "a", "look", "}")]);
        assert_eq!(calls, [("look".to_owned(), "{}".to_owned())]);
        let calls = read([part(Some(0), "a", "lo", ""), part(Some(0), "", "ok", "{}")]);
        assert_eq!(calls, [("look".to_owned(), "{}".to_owned())]);
    }

    #[test]
    fn without_number_and_id_a_name_begins_a_call() {
        let calls = read([
            part(None, "", "old", ""),
            part(None, "", "", "(1"),
            part(None, "", "", ")"),
            part(None, "", "new", ""),
        ]);
        assert_eq!(calls, [("old", "(1)"), ("new", "")].map(|(n, a)| (n.to_owned(), a.to_owned())));
    }
}
