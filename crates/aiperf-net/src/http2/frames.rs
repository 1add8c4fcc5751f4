//! The heads of HTTP/2 frames in a sequence of bytes, wherever it is cut.

/// Length of the head of a frame.
pub(super) const HEAD_LEN: usize = 9;

/// Types of frames.
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const GOAWAY: u8 = 7;
pub(super) const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;

/// The head of a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: u8,
    flags: u8,
    /// 0 is the connection itself.
    pub(super) stream: u32,
    /// Length of what follows.
    len: usize,
}

impl Frame {
    fn read(head: [u8; HEAD_LEN]) -> Self {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n, byte| n << 8 | u32::from(*byte));
        Self {
            len: number(&head[..3]) as usize,
            kind: head[3],
            flags: head[4],
            // The first bit is reserved.
            stream: number(&head[5..]) & 0x7fff_ffff,
        }
    }

    /// Part of a message: its head or its body.
    pub(super) fn is_of_message(&self) -> bool {
        matches!(self.kind, DATA | HEADERS | CONTINUATION)
    }

    /// With it, its stream ends on the side that sent it.
    pub(super) fn ends_stream(&self) -> bool {
        match self.kind {
            DATA | HEADERS => self.flags & END_STREAM != 0,
            RST_STREAM => true,
            _ => false,
        }
    }

    /// With it, a head is whole.
    pub(super) fn ends_head(&self) -> bool {
        matches!(self.kind, HEADERS | CONTINUATION) && self.flags & END_HEADERS != 0
    }

    /// SETTINGS that tell something, not that others were understood.
    pub(super) fn is_settings(&self) -> bool {
        self.kind == SETTINGS && self.flags & END_STREAM == 0
    }
}

/// What the scanner comes upon.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// The head of a frame is whole.
    Head,
    /// Some of what follows it.
    Payload {
        bytes: &'a [u8],
        /// How many of them are of a body: without padding. 0 unless it is DATA.
        body: usize,
        /// How many came before.
        at: usize,
    },
    /// The frame is whole.
    End,
}

/// Finds frames in bytes that come piece by piece.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    /// Bytes before the first frame.
    skip: usize,
    head: [u8; HEAD_LEN],
    have: usize,
    frame: Frame,
    /// How much of what follows the head came.
    at: usize,
    /// Length of the padding at the end, and of the byte that tells it.
    padding: usize,
    padding_head: usize,
}

impl Scanner {
    /// A scanner of bytes whose first `skip` are no frame.
    pub(super) fn behind(skip: usize) -> Self {
        Self { skip, ..Self::default() }
    }

    /// Goes through more bytes.
    pub(super) fn scan(&mut self, mut bytes: &[u8], mut tell: impl FnMut(&Frame, &Part<'_>)) {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        bytes = &bytes[skipped..];
        while !bytes.is_empty() {
            if self.have < HEAD_LEN {
                let n = bytes.len().min(HEAD_LEN - self.have);
                self.head[self.have..self.have + n].copy_from_slice(&bytes[..n]);
                self.have += n;
                bytes = &bytes[n..];
                if self.have < HEAD_LEN {
                    return;
                }
                self.frame = Frame::read(self.head);
                (self.at, self.padding, self.padding_head) = (0, 0, 0);
                tell(&self.frame, &Part::Head);
            } else {
                let n = bytes.len().min(self.frame.len - self.at);
                let payload = &bytes[..n];
                if self.at == 0 && self.frame.kind == DATA && self.frame.flags & PADDED != 0 {
                    (self.padding, self.padding_head) = (usize::from(payload[0]), 1);
                }
                let body = self.body_in(self.at, self.at + n);
                tell(&self.frame, &Part::Payload { bytes: payload, body, at: self.at });
                self.at += n;
                bytes = &bytes[n..];
            }
            if self.at == self.frame.len {
                self.have = 0;
                tell(&self.frame, &Part::End);
            }
        }
    }

    /// How many of the bytes from `start` to `end` are of a body.
    fn body_in(&self, start: usize, end: usize) -> usize {
        if self.frame.kind != DATA {
            return 0;
        }
        let last = self.frame.len.saturating_sub(self.padding);
        end.min(last).saturating_sub(start.max(self.padding_head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let len = (payload.len() as u32).to_be_bytes();
        [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    /// Everything that is told of `bytes` in pieces of `step`, summed up per frame: kind, stream, payload, length of body.
    fn told(bytes: &[u8], step: usize) -> Vec<(u8, u32, Vec<u8>, usize)> {
        let mut scanner = Scanner::behind(3);
        let (mut found, mut whole) = (Vec::new(), 0);
        for piece in bytes.chunks(step) {
            scanner.scan(piece, |frame, part| match part {
                Part::Head => found.push((frame.kind, frame.stream, Vec::new(), 0)),
                Part::Payload { bytes, body, at } => {
                    let last = found.last_mut().expect("a head came before");
                    assert_eq!(last.2.len(), *at);
                    last.2.extend_from_slice(bytes);
                    last.3 += body;
                }
                Part::End => whole += 1,
            });
        }
        assert_eq!(whole, found.len());
        found
    }

    #[test]
    fn frames_are_the_same_wherever_they_are_cut() {
        let bytes = [
            b"PRI".to_vec(),
            frame(SETTINGS, 0, 0, b"123456"),
            frame(SETTINGS, 1, 0, b""),
            frame(HEADERS, END_HEADERS, 1, b"head"),
            frame(DATA, 0, 1, b"body"),
            frame(DATA, 0, 3, b""),
            frame(DATA, PADDED | END_STREAM, 0x8000_0005, b"\x02body\0\0"),
            // More padding than there is room for is an error, which is not ours to find.
            frame(DATA, PADDED, 7, b"\xffx"),
        ]
        .concat();
        let expected = vec![
            (SETTINGS, 0, b"123456".to_vec(), 0),
            (SETTINGS, 0, Vec::new(), 0),
            (HEADERS, 1, b"head".to_vec(), 0),
            (DATA, 1, b"body".to_vec(), 4),
            (DATA, 3, Vec::new(), 0),
            (DATA, 5, b"\x02body\0\0".to_vec(), 4),
            (DATA, 7, b"\xffx".to_vec(), 0),
        ];
        for step in 1..=bytes.len() {
            assert_eq!(told(&bytes, step), expected, "{step} bytes at a time");
        }
    }

    #[test]
    fn what_ends_is_known_by_type_and_flag() {
        let read = |kind, flags| {
            let bytes = frame(kind, flags, 1, b"");
            Frame::read(bytes.try_into().expect("a head alone"))
        };
        assert!(read(DATA, END_STREAM).ends_stream() && read(HEADERS, END_STREAM).ends_stream());
        assert!(read(RST_STREAM, 0).ends_stream() && !read(SETTINGS, 1).ends_stream());
        assert!(read(HEADERS, END_HEADERS).ends_head() && read(CONTINUATION, END_HEADERS).ends_head());
        assert!(!read(HEADERS, END_STREAM).ends_head() && !read(DATA, END_HEADERS).ends_head());
        assert!(read(SETTINGS, 0).is_settings() && !read(SETTINGS, 1).is_settings());
    }
}
