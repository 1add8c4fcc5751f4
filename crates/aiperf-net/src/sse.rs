//! Framing of server-sent events (the "event stream" grammar of the HTML standard), over bytes.
//!
//! [`SseScanner`] looks at a buffer that only grows: call [`SseScanner::next`] whenever bytes were appended, or once with the
//! whole body. It keeps offsets, copies nothing, and gives the same events however the bytes were cut. The grammar is taken
//! whole: CR, LF and CRLF line ends, a byte order mark, comments, fields without a colon or without the blank after it,
//! several `data` lines. Three things are kinder than the standard, because servers need it and the reference client does
//! it too: an event without its closing blank line counts at the end of the stream, blanks around a field name are ignored,
//! and a JSON text broken over several lines can be mended ([`SseEvent::mended_data`]).

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Id,
    Retry,
    Comment,
    /// A name the grammar does not know; often the rest of a JSON text that was broken by a raw line end.
    Other,
}

/// A line of the event being read: offsets into the buffer.
#[derive(Debug, Clone)]
struct Line {
    field: Field,
    value: Range<usize>,
    whole: Range<usize>,
}

/// Finds events in a buffer that grows. Give it the same buffer, with more at the end, each time.
#[derive(Debug, Clone, Default)]
pub struct SseScanner {
    /// First byte not yet searched for a line end.
    pos: usize,
    /// First byte of the line being searched.
    line_start: usize,
    /// The last line ended in CR: an LF right behind it belongs to that line end.
    after_cr: bool,
    /// The byte order mark has been dealt with.
    begun: bool,
    /// The lines held belong to an event already given out.
    given: bool,
    lines: Vec<Line>,
}

impl SseScanner {
    /// A scanner at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next whole event in `bytes`, or `None` until more bytes come. With `at_end` set there will be no more, and an
    /// event without its blank line is given out too.
    pub fn next<'b>(&mut self, bytes: &'b [u8], at_end: bool) -> Option<SseEvent<'_, 'b>> {
        if self.given {
            self.lines.clear();
            self.given = false;
        }
        if !self.begun {
            if bytes.starts_with(BYTE_ORDER_MARK) {
                self.pos = BYTE_ORDER_MARK.len();
                self.line_start = self.pos;
            } else if !at_end && BYTE_ORDER_MARK.starts_with(bytes) {
                return None;
            }
            self.begun = true;
        }
        if self.scan(bytes, at_end) {
            self.given = true;
            return Some(SseEvent { lines: &self.lines, bytes });
        }
        None
    }

    /// Reads lines until an event is whole.
    fn scan(&mut self, bytes: &[u8], at_end: bool) -> bool {
        while self.pos < bytes.len() {
            if self.after_cr {
                self.after_cr = false;
                if bytes[self.pos] == b'\n' {
                    self.pos += 1;
                    self.line_start = self.pos;
                    continue;
                }
            }
            let Some(found) = memchr2(b'\n', b'\r', &bytes[self.pos..]) else {
                self.pos = bytes.len();
                break;
            };
            let end = self.pos + found;
            let line = self.line_start..end;
            self.after_cr = bytes[end] == b'\r';
            self.pos = end + 1;
            self.line_start = self.pos;
            if !line.is_empty() {
                self.lines.push(parse_line(bytes, line));
            } else if !self.lines.is_empty() {
                return true;
            }
        }
        if !at_end {
            return false;
        }
        let rest = self.line_start.min(bytes.len())..bytes.len();
        self.line_start = bytes.len();
        if !rest.is_empty() {
            self.lines.push(parse_line(bytes, rest));
        }
        !self.lines.is_empty()
    }
}

fn parse_line(bytes: &[u8], whole: Range<usize>) -> Line {
    let line = &bytes[whole.clone()];
    let colon = memchr::memchr(b':', line);
    let name = line[..colon.unwrap_or(line.len())].trim_ascii();
    let field = match name {
        b"data" => Field::Data,
        b"event" => Field::Event,
        b"id" => Field::Id,
        b"retry" => Field::Retry,
        b"" if colon.is_some() => Field::Comment,
        _ => Field::Other,
    };
    let mut start = colon.map_or(whole.end, |c| whole.start + c + 1);
    if bytes.get(start) == Some(&b' ') && start < whole.end {
        start += 1;
    }
    Line { field, value: start..whole.end, whole }
}

/// One event: a view into the scanner and the buffer.
#[derive(Debug)]
pub struct SseEvent<'s, 'b> {
    lines: &'s [Line],
    bytes: &'b [u8],
}

impl<'b> SseEvent<'_, 'b> {
    /// The data, its lines joined by LF; `None` when the event has no `data` field (a comment, for example).
    pub fn data(&self) -> Option<Cow<'b, [u8]>> {
        let mut lines = self.lines.iter().filter(|l| l.field == Field::Data);
        let first = lines.next()?;
        let Some(second) = lines.next() else {
            return Some(Cow::Borrowed(&self.bytes[first.value.clone()]));
        };
        let mut joined = self.bytes[first.value.clone()].to_vec();
        for line in std::iter::once(second).chain(lines) {
            joined.push(b'\n');
            joined.extend_from_slice(&self.bytes[line.value.clone()]);
        }
        Some(Cow::Owned(joined))
    }

    /// For data that is not JSON as it stands: its lines, and lines of no known field behind them, joined by the two
    /// characters `\n`, as if the server had escaped a line end inside a JSON string. `None` when there is nothing to join.
    pub fn mended_data(&self) -> Option<Vec<u8>> {
        let first = self.lines.iter().position(|l| l.field == Field::Data)?;
        let mut mended = self.bytes[self.lines[first].value.clone()].to_vec();
        let mut joined = false;
        for line in &self.lines[first + 1..] {
            let part = match line.field {
                Field::Data => line.value.clone(),
                Field::Other => line.whole.clone(),
                _ => continue,
            };
            mended.extend_from_slice(b"\\n");
            mended.extend_from_slice(&self.bytes[part]);
            joined = true;
        }
        joined.then_some(mended)
    }

    /// Offset just past the last byte of the data: once it is in, the event's content is. `None` without data.
    pub fn data_end(&self) -> Option<usize> {
        let last = self.lines.iter().rev().find(|l| l.field == Field::Data)?;
        Some(last.whole.end)
    }

    /// The `event` field; the last one counts.
    pub fn kind(&self) -> Option<&'b [u8]> {
        self.last(Field::Event)
    }

    /// The `id` field; the last one counts.
    pub fn id(&self) -> Option<&'b [u8]> {
        self.last(Field::Id)
    }

    /// The `retry` field, milliseconds, if it is a number.
    pub fn retry_ms(&self) -> Option<u64> {
        std::str::from_utf8(self.last(Field::Retry)?).ok()?.parse().ok()
    }

    /// The first comment.
    pub fn comment(&self) -> Option<&'b [u8]> {
        let line = self.lines.iter().find(|l| l.field == Field::Comment)?;
        Some(&self.bytes[line.value.clone()])
    }

    /// Every field as it came, in order: its name (`comment` for a comment) and its value.
    pub fn fields(&self) -> impl Iterator<Item = (&'b [u8], &'b [u8])> {
        self.lines.iter().map(|line| {
            let name: &'b [u8] = match line.field {
                Field::Data => b"data",
                Field::Event => b"event",
                Field::Id => b"id",
                Field::Retry => b"retry",
                Field::Comment => b"comment",
                Field::Other => {
                    let whole = &self.bytes[line.whole.clone()];
                    whole[..whole.iter().position(|b| *b == b':').unwrap_or(whole.len())].trim_ascii()
                }
            };
            (name, &self.bytes[line.value.clone()])
        })
    }

    /// Offset of the first byte of the event.
    pub fn start(&self) -> usize {
        self.lines.first().map_or(0, |line| line.whole.start)
    }

    /// Whether this is the end mark of OpenAI streams: `[DONE]`, blanks around it and letter case ignored.
    pub fn is_done(&self) -> bool {
        let mut data = self.lines.iter().filter(|l| l.field == Field::Data);
        let first = data.next();
        let is = |l: &Line| self.bytes[l.value.clone()].trim_ascii().eq_ignore_ascii_case(b"[DONE]");
        data.next().is_none() && first.is_some_and(is)
    }

    /// Whether the server named this event `error`, in any letter case.
    pub fn is_error(&self) -> bool {
        self.kind().is_some_and(|k| k.trim_ascii().eq_ignore_ascii_case(b"error"))
    }

    fn last(&self, field: Field) -> Option<&'b [u8]> {
        let line = self.lines.iter().rev().find(|l| l.field == field)?;
        Some(&self.bytes[line.value.clone()])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An event with everything it says, owned.
    type Seen = (Option<Vec<u8>>, Option<Vec<u8>>, Option<Vec<u8>>, Option<usize>, bool);

    fn owned(event: &SseEvent<'_, '_>) -> Seen {
        (
            event.data().map(Cow::into_owned),
            event.kind().map(<[u8]>::to_vec),
            event.comment().map(<[u8]>::to_vec),
            event.data_end(),
            event.is_done(),
        )
    }

    fn whole(bytes: &[u8]) -> Vec<Seen> {
        let mut scanner = SseScanner::new();
        std::iter::from_fn(|| scanner.next(bytes, true).map(|e| owned(&e))).collect()
    }

    fn in_steps(bytes: &[u8], cuts: &[usize]) -> Vec<Seen> {
        let mut scanner = SseScanner::new();
        let mut seen = Vec::new();
        for &cut in cuts {
            while let Some(event) = scanner.next(&bytes[..cut.min(bytes.len())], false) {
                seen.push(owned(&event));
            }
        }
        while let Some(event) = scanner.next(bytes, true) {
            seen.push(owned(&event));
        }
        seen
    }

    fn data(bytes: &[u8]) -> Vec<String> {
        whole(bytes)
            .into_iter()
            .filter_map(|e| e.0)
            .map(|d| String::from_utf8(d).expect("tests use UTF-8"))
            .collect()
    }

    #[test]
    fn every_line_end_closes_a_line_and_an_event() {
        for (end, name) in [("\n", "LF"), ("\r\n", "CRLF"), ("\r", "CR")] {
            let text = format!("data: a{end}{end}data: b{end}{end}");
            assert_eq!(data(text.as_bytes()), ["a", "b"], "{name}");
        }
        assert_eq!(data(b"data: a\n\r\ndata: b\r\n\ndata: c\r\r"), ["a", "b", "c"], "mixed");
    }

    #[test]
    fn the_whole_grammar_is_read() {
        let text =
            b"\xef\xbb\xbf: hello\nevent: e\nid: 7\nretry: 250\ndata:no blank\ndata:  two blanks\ndata\n\n";
        let mut scanner = SseScanner::new();
        let event = scanner.next(text, false).expect("an event");
        assert_eq!(event.comment(), Some(&b"hello"[..]));
        assert_eq!(event.kind(), Some(&b"e"[..]));
        assert_eq!(event.id(), Some(&b"7"[..]));
        assert_eq!(event.retry_ms(), Some(250));
        assert_eq!(event.data().as_deref(), Some(&b"no blank\n two blanks\n"[..]));
        assert_eq!(event.data_end(), Some(text.len() - 2));
        assert!(scanner.next(text, true).is_none());
    }

    #[test]
    fn an_event_without_its_blank_line_counts_at_the_end() {
        assert_eq!(data(b"data: a\n\ndata: b\n"), ["a", "b"]);
        assert_eq!(data(b"data: a\n\ndata: b"), ["a", "b"]);
        assert_eq!(in_steps(b"data: b", &[7]).len(), 1);
        let mut scanner = SseScanner::new();
        assert!(scanner.next(b"data: b\n", false).is_none());
    }

    #[test]
    fn comments_and_blank_lines_carry_no_data() {
        assert_eq!(whole(b"\n\n: still here\n\n:\n\n\n").iter().filter(|e| e.0.is_some()).count(), 0);
        assert_eq!(whole(b"").len(), 0);
    }

    #[test]
    fn done_is_known_in_all_its_spellings() {
        for text in ["data: [DONE]", "data:[DONE]\n\n", "data:  [done] \r\n\r\n", " data : [DONE]\n\n"] {
            assert!(whole(text.as_bytes())[0].4, "{text:?}");
        }
        assert!(!whole(b"data: [DONE]\ndata: x\n\n")[0].4);
        assert!(!whole(b"data: done\n\n")[0].4);
    }

    #[test]
    fn error_events_are_known_by_name() {
        let mut scanner = SseScanner::new();
        assert!(scanner.next(b"event: Error\ndata: x\n\n", true).is_some_and(|e| e.is_error()));
        let mut scanner = SseScanner::new();
        assert!(scanner.next(b"event: errors\ndata: x\n\n", true).is_some_and(|e| !e.is_error()));
    }

    #[test]
    fn json_broken_by_a_raw_line_end_is_mended() {
        let text = b"data: {\"a\":\"x\ny: z\"}\n\n";
        let mut scanner = SseScanner::new();
        let event = scanner.next(text, true).expect("an event");
        assert_eq!(event.mended_data().as_deref(), Some(&b"{\"a\":\"x\\ny: z\"}"[..]));
        let mut scanner = SseScanner::new();
        assert!(scanner.next(b"data: {}\n: c\n\n", true).is_some_and(|e| e.mended_data().is_none()));
    }

    /// The standard's own words, line by line, for comparison: slow and plain.
    fn by_the_book(bytes: &[u8]) -> Vec<Vec<u8>> {
        let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        let mut lines: Vec<Vec<u8>> = vec![Vec::new()];
        let mut i = 0;
        while i < bytes.len() {
            match bytes[i] {
                b'\r' | b'\n' => {
                    if bytes[i] == b'\r' && bytes.get(i + 1) == Some(&b'\n') {
                        i += 1;
                    }
                    lines.push(Vec::new());
                }
                b => lines.last_mut().expect("never empty").push(b),
            }
            i += 1;
        }
        // Both ends of the last event: closed by a blank line, or by the end of the stream.
        lines.push(Vec::new());
        let mut events = Vec::new();
        let mut data: Option<Vec<u8>> = None;
        for line in lines {
            if line.is_empty() {
                events.extend(data.take());
                continue;
            }
            let (name, value) = match line.iter().position(|b| *b == b':') {
                Some(c) => (line[..c].to_vec(), line[c + 1..].to_vec()),
                None => (line, Vec::new()),
            };
            if name.trim_ascii() == b"data" {
                let value = value.strip_prefix(b" ").unwrap_or(&value).to_vec();
                data = Some(match data {
                    None => value,
                    Some(mut d) => {
                        d.push(b'\n');
                        d.extend(value);
                        d
                    }
                });
            }
        }
        events
    }

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"data: ".to_vec()),
            Just(b"data:".to_vec()),
            Just(b"event: x".to_vec()),
            Just(b"\n".to_vec()),
            Just(b"\r".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"\n\n".to_vec()),
            Just(b": c".to_vec()),
            Just(b"[DONE]".to_vec()),
            Just(BYTE_ORDER_MARK.to_vec()),
            Just("é🙂".as_bytes().to_vec()),
            proptest::collection::vec(any::<u8>(), 0..6),
        ];
        proptest::collection::vec(piece, 0..40).prop_map(|p| p.concat())
    }

    /// Forms that servers and proxies send, beside those of the tests above.
    const FORMS: [&[u8]; 14] = [
        b"data: a\n\ndata: b\n\ndata: [DONE]\n\n",
        b"data: a\r\n\r\ndata: b\r\n\r\ndata: [DONE]\r\n\r\n",
        b"data: a\r\rdata: b\r\rdata: [DONE]\r\r",
        b"\xef\xbb\xbfdata: a\r\n\ndata: b\n\r\n",
        b"\xef\xbbdata: a\n\n",
        b": ping\n\n:\n\n: OPENROUTER PROCESSING\n\ndata: a\n\n",
        b"event: error\r\ndata: {\"a\":1}\r\nid: 7\r\nretry: 10\r\n\r\ndata: b",
        b"data: {\"a\":\ndata: 1}\n\ndata:\ndata\ndata: \n\n",
        b"data:{\"t\":\"x\ny\"}\n\n\n\n\ndata: [done]",
        b"id\ndata\nevent\n\n",
        b"data: a\n\ndata: half of an ev",
        b"data: \xff\xfe\n\ndata: \xe6\xb2\xb3\n\n",
        b"\r\n\r\n\r\n",
        b"",
    ];

    #[test]
    fn every_form_is_the_same_cut_at_every_byte_or_at_any_two() {
        for form in FORMS {
            let expected = whole(form);
            let each: Vec<usize> = (1..=form.len()).collect();
            assert_eq!(in_steps(form, &each), expected, "{form:?} byte by byte");
            for first in 0..=form.len() {
                for second in first..=form.len() {
                    assert_eq!(
                        in_steps(form, &[first, second]),
                        expected,
                        "{form:?} cut at {first} and {second}"
                    );
                }
            }
            let texts: Vec<Vec<u8>> = expected.into_iter().filter_map(|e| e.0).collect();
            assert_eq!(texts, by_the_book(form), "{form:?}");
        }
    }

    #[test]
    fn a_gigantic_event_is_one_event_and_is_looked_at_once() {
        let text = "x".repeat(8 << 20);
        let stream = format!("data: {text}\n\ndata: [DONE]\n\n").into_bytes();
        let mut scanner = SseScanner::new();
        let mut seen = Vec::new();
        // Pieces so small that a scanner that began anew each time would look at 64 GiB.
        for end in (0..stream.len()).step_by(1 << 10).chain([stream.len()]) {
            let before = scanner.pos;
            while let Some(event) = scanner.next(&stream[..end], false) {
                seen.push((event.data().map(|d| d.len()), event.is_done()));
            }
            assert!(scanner.pos >= before, "it never goes back");
        }
        assert_eq!(seen, [(Some(text.len()), false), (Some(6), true)]);
        let lines = "data: y\n".repeat(100_000) + "\n";
        let mut scanner = SseScanner::new();
        let event = scanner.next(lines.as_bytes(), true).expect("an event");
        assert_eq!(event.data().map(|d| d.len()), Some(199_999));
    }

    proptest! {
        #[test]
        fn events_do_not_depend_on_the_cuts(bytes in stream(), cuts in proptest::collection::vec(0usize..200, 0..12)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            prop_assert_eq!(in_steps(&bytes, &cuts), whole(&bytes));
            let every: Vec<usize> = (0..=bytes.len()).collect();
            prop_assert_eq!(in_steps(&bytes, &every), whole(&bytes));
        }

        #[test]
        fn data_is_what_the_standard_says(bytes in stream()) {
            let ours: Vec<Vec<u8>> = whole(&bytes).into_iter().filter_map(|e| e.0).collect();
            prop_assert_eq!(ours, by_the_book(&bytes));
        }
    }
}
