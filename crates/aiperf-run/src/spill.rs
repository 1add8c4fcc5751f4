//! Ended requests in files, until the reader comes to them.
//!
//! A request is written as what the reader needs of it and nothing else: the bytes that came, the facts of its turn, and of bodies
//! only those that somebody will look at. Files are scratch files: the disk has their space back once their requests were read.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use aiperf_core::exchange::Exchange;
use aiperf_core::ticket::Ticket;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::artifacts::Scratch;
use crate::item::{Item, Needs, OwnBody, TurnFacts, turn_of};
use crate::shard::Ended;

/// Bytes from which on a piece is written.
const PIECE: usize = 1 << 20;
/// Bytes from which on a new file is begun.
const FILE: u64 = 256 << 20;

/// A piece of a file with some requests in it.
#[derive(Debug)]
pub(crate) struct Piece {
    file: Arc<Mutex<File>>,
    bytes: Range<u64>,
    /// Requests in it.
    pub requests: u64,
}

impl Piece {
    /// The requests, in order.
    pub(crate) fn read(&self) -> io::Result<Vec<Item>> {
        let mut bytes = vec![0; (self.bytes.end - self.bytes.start) as usize];
        {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start(self.bytes.start))?;
            file.read_exact(&mut bytes)?;
        }
        let mut rest = &bytes[..];
        (0..self.requests)
            .map(|_| {
                let (item, behind) =
                    decode(rest).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
                rest = behind;
                Ok(item)
            })
            .collect()
    }

    /// Bytes on disk.
    pub(crate) fn len(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }
}

/// Writes requests behind each other.
#[derive(Debug)]
pub(crate) struct SpillWriter {
    scratch: Scratch,
    needs: Needs,
    file: Option<(Arc<Mutex<File>>, u64)>,
    buffer: Vec<u8>,
}

impl SpillWriter {
    pub(crate) fn new(scratch: Scratch, needs: Needs) -> Self {
        Self { scratch, needs, file: None, buffer: Vec::new() }
    }

    /// Writes requests of which the first is number `first`. On an error they all are as they were.
    pub(crate) fn write(&mut self, first: u64, requests: &mut [Ended]) -> io::Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        self.buffer.clear();
        let mut gathered = 0;
        for (number, ended) in (first..).zip(requests) {
            encode(number, ended, self.needs, &mut self.buffer)?;
            gathered += 1;
            if self.buffer.len() >= PIECE {
                pieces.push(self.piece(gathered)?);
                gathered = 0;
            }
        }
        if gathered > 0 {
            pieces.push(self.piece(gathered)?);
        }
        Ok(pieces)
    }

    fn piece(&mut self, requests: u64) -> io::Result<Piece> {
        let (file, end) = match self.file.take().filter(|(_, end)| *end < FILE) {
            Some(file) => file,
            None => (Arc::new(Mutex::new(self.scratch.file()?)), 0),
        };
        {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start(end))?;
            file.write_all(&self.buffer)?;
        }
        let bytes = end..end + self.buffer.len() as u64;
        self.buffer.clear();
        // A big answer's buffer is not kept for small ones.
        self.buffer.shrink_to(2 * PIECE);
        self.file = Some((file.clone(), bytes.end));
        Ok(Piece { file, bytes, requests })
    }
}

/// What stands in front of the bytes of a request.
#[derive(Serialize, Deserialize)]
struct Head<T, X, F> {
    number: u64,
    ticket: T,
    exchange: X,
    turn: F,
    list: Option<Range<usize>>,
    /// Lengths of what follows: answer, body as sent, turn alone.
    lengths: [usize; 3],
}

fn encode(number: u64, ended: &mut Ended, needs: Needs, out: &mut Vec<u8>) -> io::Result<()> {
    let turn = turn_of(ended);
    // The answer's bytes are written as they are, behind the rest.
    let answer = std::mem::take(&mut ended.exchange.body);
    let own = needs.own(number, ended, &turn);
    let parts = [&answer[..], needs.body(ended, &turn), &own.body[..]];
    let lengths = parts.map(<[u8]>::len);
    let list = own.list.clone();
    let head = Head { number, ticket: &ended.ticket, exchange: &ended.exchange, turn: &turn, list, lengths };
    let written = postcard::to_io(&head, &mut *out).map(|_| ());
    for part in parts {
        out.extend_from_slice(part);
    }
    ended.exchange.body = answer;
    written.map_err(io::Error::other)
}

/// The first request of `bytes`, and what stands behind it.
fn decode(bytes: &[u8]) -> Option<(Item, &[u8])> {
    let (head, rest) = postcard::take_from_bytes::<Head<Ticket, Exchange, TurnFacts>>(bytes).ok()?;
    let Head { number, ticket, mut exchange, turn, list, lengths } = head;
    let (answer, rest) = rest.split_at_checked(lengths[0])?;
    let (body, rest) = rest.split_at_checked(lengths[1])?;
    let (own, rest) = rest.split_at_checked(lengths[2])?;
    exchange.body = answer.to_vec();
    let own = OwnBody { body: Bytes::copy_from_slice(own), list };
    let body = Bytes::copy_from_slice(body);
    // What the shard read in the answer is read again in the same bytes.
    Some((Item { number, ticket, exchange, turn, body, answer: None, own }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ended_toys as toys;
    use crate::item::Recounted;

    const ALL: Needs = Needs { raw: true, uncounted: true, recount: Some(Recounted::All) };

    fn written(needs: Needs, mut requests: Vec<Ended>) -> Vec<Item> {
        let tmp = tempfile::tempdir().expect("a folder");
        let mut writer = SpillWriter::new(Scratch::new(tmp.path()), needs);
        let pieces = writer.write(40, &mut requests).expect("it writes");
        pieces.iter().flat_map(|piece| piece.read().expect("it is there")).collect()
    }

    #[test]
    fn everything_of_a_request_comes_back() {
        let requests = || vec![toys::ended(0), toys::ended(1), toys::failed(2), toys::cancelled(3)];
        let items = written(ALL, requests());
        assert_eq!(items.len(), 4);
        for (number, (item, ended)) in (40..).zip(items.into_iter().zip(requests())) {
            let live = Item::new(number, ended);
            assert_eq!((item.number, &item.ticket), (number, &live.ticket));
            assert_eq!(item.exchange, live.exchange);
            assert_eq!(item.turn, live.turn);
            assert_eq!(item.body, live.body);
            // Nobody counts again what was not made to a length.
            assert_eq!(item.own, if live.turn.made.is_some() { live.own } else { OwnBody::default() });
        }
    }

    #[test]
    fn bodies_that_nobody_looks_at_are_left_out() {
        let items = written(Needs::default(), vec![toys::ended(0), toys::ended(1)]);
        assert!(items.iter().all(|item| item.body.is_empty() && item.own == OwnBody::default()));
        assert!(items.iter().all(|item| !item.exchange.body.is_empty()));
        // The second turn of the toy repeats the first, and was not counted before it was sent.
        let items =
            written(Needs { uncounted: true, ..Needs::default() }, vec![toys::ended(0), toys::ended(1)]);
        assert_eq!(items.iter().map(|item| item.body.is_empty()).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn big_answers_become_pieces_of_their_own() {
        let tmp = tempfile::tempdir().expect("a folder");
        let mut writer = SpillWriter::new(Scratch::new(tmp.path()), ALL);
        let mut requests: Vec<Ended> = (0..5).map(toys::ended).collect();
        for ended in &mut requests {
            ended.exchange.body = vec![b'x'; PIECE * 2 / 3];
        }
        let pieces = writer.write(0, &mut requests).expect("it writes");
        assert_eq!(pieces.iter().map(|p| p.requests).collect::<Vec<_>>(), [2, 2, 1]);
        let numbers = pieces.iter().flat_map(|p| p.read().expect("there")).map(|item| item.number);
        assert_eq!(numbers.collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(std::fs::read_dir(tmp.path()).expect("a folder").count(), 0, "the files have no name");
    }

    #[test]
    fn what_cannot_be_written_is_as_it_was() {
        let mut writer = SpillWriter::new(Scratch::new("/nonexistent/folder".as_ref()), ALL);
        let mut requests = vec![toys::ended(0)];
        writer.write(0, &mut requests).expect_err("there is no such folder");
        assert_eq!(requests[0].exchange, toys::ended(0).exchange);
    }

    #[test]
    fn what_is_not_whole_is_no_request() {
        let mut bytes = Vec::new();
        encode(7, &mut toys::ended(0), ALL, &mut bytes).expect("it encodes");
        assert!(decode(&bytes).is_some_and(|(item, rest)| item.number == 7 && rest.is_empty()));
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_none(), "{cut} bytes");
        }
    }
}
