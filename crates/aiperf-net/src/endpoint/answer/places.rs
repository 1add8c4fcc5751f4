//! Where texts stand in the data of events, so that data like it need not be read as JSON.

use std::ops::Range;

use crate::endpoint::chunk::Channel;

/// Where a text belongs in the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    pub(super) channel: Channel,
    /// Place of the choice that it is a part of, and of the call in it.
    pub(super) choice: usize,
    pub(super) call: usize,
}

/// The one text of an object that says nothing else.
#[derive(Debug)]
pub(in crate::endpoint) struct Only {
    pub(super) spot: Spot,
    /// Where it lies in the object.
    pub(super) place: Range<usize>,
}

/// Data that was read before, without the one text in it. Servers repeat every byte around the text from chunk to chunk, so
/// most chunks need no JSON reader: the same bytes around another plain string mean the same with another text.
#[derive(Debug)]
pub(super) struct Frame<'b> {
    pub(super) spot: Spot,
    /// Up to the text, its opening quote included.
    head: &'b [u8],
    /// From its closing quote on.
    tail: &'b [u8],
}

impl<'b> Frame<'b> {
    /// Of data with one text.
    pub(super) fn around(only: &Only, data: &'b [u8]) -> Self {
        Self { spot: only.spot, head: &data[..only.place.start], tail: &data[only.place.end..] }
    }

    /// The text of `data` if it stands in this frame and needs no unescaping. Not the empty one: without a text, other fields
    /// would be looked at.
    pub(super) fn text<'d>(&self, data: &'d [u8]) -> Option<&'d str> {
        let text = data.strip_prefix(self.head)?.strip_suffix(self.tail)?;
        let plain = |b: &u8| !matches!(b, b'"' | b'\\' | 0..=0x1f);
        std::str::from_utf8(text).ok().filter(|t| !t.is_empty() && t.as_bytes().iter().all(plain))
    }
}

/// Where `part` lies in `whole`; `None` for one that lies elsewhere.
pub(super) fn within(whole: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let end = start + part.len();
    (end <= whole.len()).then_some(start..end)
}

/// Where `text` lies in `json`; `None` for a text that was put together elsewhere.
pub(super) fn place(json: &str, text: &str) -> Option<Range<usize>> {
    let Range { start, end } = within(json.as_bytes(), text.as_bytes())?;
    // Quotes on both sides say that it is a string as it stands.
    let quoted = start > 0 && json.as_bytes()[start - 1] == b'"' && json.as_bytes().get(end) == Some(&b'"');
    quoted.then_some(start..end)
}

/// Of the place of a string that of its content.
pub(super) fn inside_quotes(json: &str, place: Range<usize>) -> Option<Range<usize>> {
    let content = json.get(place.clone())?.strip_prefix('"')?.strip_suffix('"')?;
    Some(place.start + 1..place.start + 1 + content.len())
}
