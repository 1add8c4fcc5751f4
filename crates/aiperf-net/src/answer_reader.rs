//! Answers of HTTP/1.1 out of the bytes that reads bring: head, then a body of a told length, in chunks, or until the
//! connection closes (RFC 9112, sections 4 to 7). Pure: it is fed bytes and gives pieces.
//!
//! Lenient where aiohttp is: what matters is the answer, not its headers' manners. Where a body ends is no matter of manners, so
//! what is ambiguous there is refused. Nothing is copied but a head or a line that a read cut in two, so a stream that waits for
//! its next chunk holds no buffer.

use std::mem::MaybeUninit;

/// Most bytes of a head.
const HEAD_LIMIT: usize = 256 << 10;
/// Most bytes of a line of the chunked coding, and of all trailers together.
const LINE_LIMIT: usize = 16 << 10;
/// Most headers of an answer.
const HEADERS: usize = 100;

/// The head of an answer.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    pub(crate) status: u16,
    /// The words behind the status, as they came.
    pub(crate) reason: &'a str,
    /// How long the body is, if that is told.
    pub(crate) length: Option<u64>,
    headers: &'a [httparse::Header<'a>],
}

impl<'a> Head<'a> {
    /// Names and values in order, as they came.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.headers.iter().map(|header| (header.name, header.value))
    }

    /// The values of `name`.
    fn all(&self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        self.headers().filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The elements of the lists that the values of `name` are.
    fn elements(&self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        self.all(name).flat_map(|value| value.split(|b| *b == b',')).map(<[u8]>::trim_ascii)
    }

    /// The one length that all its `Content-Length`s tell.
    fn content_length(&self) -> Result<Option<u64>, Malformed> {
        let mut told = None;
        for element in self.elements("content-length") {
            let digits = std::str::from_utf8(element).ok().filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
            let length = digits.and_then(|d| d.parse::<u64>().ok());
            match (told, length) {
                (_, None) => return Err(Malformed::Head("its Content-Length is no length")),
                (Some(one), Some(other)) if one != other => {
                    return Err(Malformed::Head("it has two lengths"));
                }
                _ => told = length,
            }
        }
        Ok(told)
    }
}

/// Who takes the pieces.
pub(crate) trait Takes {
    /// The head is whole.
    fn head(&mut self, head: &Head<'_>);
    /// Some of the body; `false` when it wants no more.
    fn data(&mut self, data: &[u8]) -> bool;
}

/// Why an answer is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// Its head: what is wrong there.
    Head(&'static str),
    /// Its body: what is wrong there.
    Body(&'static str),
    /// More of the body than was wanted.
    TooLarge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Head,
    /// So many bytes of the body are to come.
    Length(u64),
    ToClose,
    ChunkSize,
    /// So many bytes of the chunk are to come.
    Chunk(u64),
    ChunkEnd,
    Trailers,
    Over,
}

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    part: Part,
    /// What earlier reads brought of a head or a line that is not whole.
    begun: Vec<u8>,
    /// Bytes of trailers so far.
    trailers: usize,
    keeps: bool,
}

impl AnswerReader {
    pub(crate) fn new() -> Self {
        Self { part: Part::Head, begun: Vec::new(), trailers: 0, keeps: false }
    }

    /// Whether all of it has come.
    pub(crate) fn is_over(&self) -> bool {
        self.part == Part::Over
    }

    /// Whether its head has come.
    pub(crate) fn has_head(&self) -> bool {
        self.part != Part::Head
    }

    /// Whether the connection can carry another request behind it.
    pub(crate) fn keeps_connection(&self) -> bool {
        self.keeps
    }

    /// The connection closed; whether that is the end of the answer.
    pub(crate) fn close(&mut self) -> bool {
        if self.part == Part::ToClose {
            self.part = Part::Over;
        }
        self.is_over()
    }

    /// Takes what a read brought, up to the end of the answer; what is behind that is returned.
    pub(crate) fn feed<'a>(
        &mut self,
        mut bytes: &'a [u8],
        taker: &mut impl Takes,
    ) -> Result<&'a [u8], Malformed> {
        while !bytes.is_empty() && !self.is_over() {
            match self.part {
                Part::Head => bytes = self.head(bytes, taker)?,
                Part::Length(left) => {
                    let (data, rest) = split(bytes, left);
                    bytes = rest;
                    let left = left - data.len() as u64;
                    self.part = if left == 0 { Part::Over } else { Part::Length(left) };
                    give(data, taker)?;
                }
                Part::ToClose => {
                    give(bytes, taker)?;
                    bytes = &[];
                }
                Part::ChunkSize => {
                    let Some((line, rest)) = self.line(bytes)? else { return Ok(&[]) };
                    bytes = rest;
                    let size = chunk_size(line.of(&self.begun))?;
                    self.begun.clear();
                    self.part = if size == 0 { Part::Trailers } else { Part::Chunk(size) };
                }
                Part::Chunk(left) => {
                    let (data, rest) = split(bytes, left);
                    bytes = rest;
                    let left = left - data.len() as u64;
                    self.part = if left == 0 { Part::ChunkEnd } else { Part::Chunk(left) };
                    give(data, taker)?;
                }
                Part::ChunkEnd => {
                    let Some((line, rest)) = self.line(bytes)? else { return Ok(&[]) };
                    bytes = rest;
                    if !line.of(&self.begun).is_empty() {
                        return Err(Malformed::Body("a chunk is longer than it says"));
                    }
                    self.begun.clear();
                    self.part = Part::ChunkSize;
                }
                Part::Trailers => {
                    let Some((line, rest)) = self.line(bytes)? else { return Ok(&[]) };
                    bytes = rest;
                    self.trailers += line.whole(&self.begun).len();
                    if line.of(&self.begun).is_empty() {
                        self.part = Part::Over;
                    } else if self.trailers > LINE_LIMIT {
                        return Err(Malformed::Body("its trailers have no end"));
                    }
                    self.begun.clear();
                }
                Part::Over => {}
            }
        }
        Ok(bytes)
    }

    /// Takes bytes of the head, and gives the head when it is whole; what is behind it is returned.
    fn head<'a>(&mut self, bytes: &'a [u8], taker: &mut impl Takes) -> Result<&'a [u8], Malformed> {
        let mut begun = std::mem::take(&mut self.begun);
        let before = begun.len();
        let text = if begun.is_empty() {
            bytes
        } else {
            begun.extend_from_slice(bytes);
            &begun
        };
        if let Some(len) = self.parse(text, taker)? {
            return Ok(&bytes[len - before..]);
        }
        if text.len() > HEAD_LIMIT {
            return Err(Malformed::Head("its head has no end"));
        }
        if before == 0 {
            begun.extend_from_slice(bytes);
        }
        self.begun = begun;
        Ok(&[])
    }

    /// The head at the start of `text`, if it is whole there: how long it is.
    fn parse(&mut self, text: &[u8], taker: &mut impl Takes) -> Result<Option<usize>, Malformed> {
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS];
        let mut answer = httparse::Response::new(&mut []);
        let mut parser = httparse::ParserConfig::default();
        parser
            .allow_spaces_after_header_name_in_responses(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .ignore_invalid_headers_in_responses(true);
        let len = match parser.parse_response_with_uninit_headers(&mut answer, text, &mut headers) {
            Ok(httparse::Status::Complete(len)) => len,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(Malformed::Head("it has too many headers")),
            Err(httparse::Error::Version) => return Err(Malformed::Head("it does not begin with HTTP/1")),
            Err(httparse::Error::Status) => return Err(Malformed::Head("it has no status")),
            Err(_) => return Err(Malformed::Head("its head is broken")),
        };
        let status = answer.code.unwrap_or(0);
        if (100..200).contains(&status) && status != 101 {
            // A word on the way; the answer is behind it.
            return Ok(Some(len));
        }
        let reason = answer.reason.unwrap_or("");
        let mut head = Head { status, reason, length: None, headers: answer.headers };
        let is_1_0 = answer.version == Some(0);
        let said = |word: &[u8]| head.elements("connection").any(|e| e.eq_ignore_ascii_case(word));
        let keeps = !said(b"close") && (!is_1_0 || said(b"keep-alive"));
        let coded = head.elements("transfer-encoding").last();
        self.part = match (status, coded) {
            (101 | 204 | 304, _) => Part::Over,
            (_, Some(_)) if is_1_0 => {
                return Err(Malformed::Head("HTTP/1.0 has no Transfer-Encoding"));
            }
            (_, Some(last)) if last.eq_ignore_ascii_case(b"chunked") => Part::ChunkSize,
            (_, Some(_)) => Part::ToClose,
            (_, None) => match head.content_length()? {
                Some(0) => Part::Over,
                Some(length) => Part::Length(length),
                None => Part::ToClose,
            },
        };
        self.keeps = keeps && self.part != Part::ToClose && status != 101;
        head.length = match self.part {
            Part::Length(length) => Some(length),
            _ => None,
        };
        taker.head(&head);
        Ok(Some(len))
    }

    /// The line that `bytes` begin with or end, without its end, and what is behind it. `None`, and kept, when it is not whole.
    fn line<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<(Line<'a>, &'a [u8])>, Malformed> {
        let end = memchr::memchr(b'\n', bytes);
        let part = &bytes[..end.map_or(bytes.len(), |at| at + 1)];
        if self.begun.len() + part.len() > LINE_LIMIT {
            return Err(Malformed::Body("a line between its chunks has no end"));
        }
        let Some(end) = end else {
            self.begun.extend_from_slice(part);
            return Ok(None);
        };
        let line = if self.begun.is_empty() {
            Line::InOne(part)
        } else {
            self.begun.extend_from_slice(part);
            Line::Begun
        };
        if !line.whole(&self.begun).ends_with(b"\r\n") {
            return Err(Malformed::Body("a line between its chunks ends without a carriage return"));
        }
        Ok(Some((line, &bytes[end + 1..])))
    }
}

/// Where a line is.
#[derive(Debug, Clone, Copy)]
enum Line<'a> {
    /// In what one read brought.
    InOne(&'a [u8]),
    /// In what was kept of earlier reads.
    Begun,
}

impl<'a> Line<'a> {
    fn whole(self, begun: &'a [u8]) -> &'a [u8] {
        match self {
            Self::InOne(line) => line,
            Self::Begun => begun,
        }
    }

    /// Without its end.
    fn of(self, begun: &'a [u8]) -> &'a [u8] {
        let whole = self.whole(begun);
        &whole[..whole.len() - 2]
    }
}

fn split(bytes: &[u8], left: u64) -> (&[u8], &[u8]) {
    bytes.split_at(usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len())))
}

fn give(data: &[u8], taker: &mut impl Takes) -> Result<(), Malformed> {
    if taker.data(data) { Ok(()) } else { Err(Malformed::TooLarge) }
}

/// The number a chunk begins with; what an extension says is passed over.
fn chunk_size(line: &[u8]) -> Result<u64, Malformed> {
    let digits = line.split(|b| *b == b';').next().unwrap_or(&[]).trim_ascii();
    if digits.is_empty() || digits.len() > 16 {
        return Err(Malformed::Body("a chunk has no size"));
    }
    digits.iter().try_fold(0, |size: u64, digit| {
        let digit =
            char::from(*digit).to_digit(16).ok_or(Malformed::Body("the size of a chunk is no number"))?;
        Ok(size << 4 | u64::from(digit))
    })
}

#[cfg(test)]
#[path = "answer_reader_tests.rs"]
mod tests;
