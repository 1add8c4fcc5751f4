//! What the wire showed of each stream of a connection.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use aiperf_core::exchange::ReadMark;
use aiperf_core::outcome::Stage;
use rustc_hash::FxHashMap;

use super::frames::{Frame, GOAWAY, HEAD_LEN, Part, Scanner};
use crate::wire::Socket;

/// Length of what a client says before its first frame.
const PREFACE_LEN: usize = 24;
/// How much of what a server says first is kept, to know a server of another protocol by it.
const GREETING_LEN: usize = 8;

/// What the wire showed of one stream. Times are monotonic nanoseconds, 0 for never.
///
/// Bytes are those of the stream's own frames with heads and bodies of messages, frame heads included. What a connection says
/// for all its streams, and what is said about a stream's flow, is of no request and is not counted.
#[derive(Debug, Default)]
pub(crate) struct StreamBook {
    /// The first write with bytes of the request was about to start.
    pub(crate) first_write_ns: Cell<u64>,
    /// The write with the end of its head had returned.
    pub(crate) head_sent_ns: Cell<u64>,
    /// Writes with something of its body, and how many bytes of it.
    pub(crate) writes: Cell<u32>,
    pub(crate) body_out: Cell<u64>,
    /// The last byte of the request was handed to the kernel.
    pub(crate) sent_ns: Cell<u64>,
    /// The head of the answer was whole.
    pub(crate) head_ns: Cell<u64>,
    /// The end of the answer, or its breaking off.
    pub(crate) end_ns: Cell<u64>,
    /// The last read with anything of the answer, when it returned.
    pub(crate) last_read_ns: Cell<u64>,
    /// Who is to be told when it is sent: the write is another task's.
    pub(crate) sent_waker: RefCell<Option<Waker>>,
    pub(crate) bytes_in: Cell<u64>,
    pub(crate) bytes_out: Cell<u64>,
    /// Bytes of the body that came in frames, and the reads that brought them.
    body_len: Cell<usize>,
    reads: RefCell<Vec<ReadMark>>,
    /// The socket's read count at the last mark.
    marked_read: Cell<u64>,
}

impl StreamBook {
    /// The reads that brought the first `body_len` bytes of the body: HTTP gives a frame out only when it is whole.
    pub(crate) fn reads(&self, body_len: usize) -> Vec<ReadMark> {
        let mut reads = self.reads.take();
        let covering = reads.iter().position(|mark| mark.body_len as usize >= body_len);
        if body_len == 0 {
            reads.clear();
        } else if let Some(last) = covering {
            reads.truncate(last + 1);
            reads[last].body_len = body_len as u32;
        }
        reads
    }

    /// How far the request came.
    pub(crate) fn stage(&self) -> Stage {
        match (self.bytes_in.get(), self.sent_ns.get()) {
            (1.., _) => Stage::InStream,
            (0, 1..) => Stage::BeforeFirstByte,
            (0, 0) => Stage::Send,
        }
    }

    /// `n` bytes of the body came with the last read of `socket`.
    fn body(&self, n: usize, socket: &Socket) {
        let body_len = self.body_len.get() + n;
        self.body_len.set(body_len);
        let mut reads = self.reads.borrow_mut();
        let read = socket.reads.get();
        match reads.last_mut() {
            // Several frames of one read are one mark.
            Some(last) if self.marked_read.get() == read => last.body_len = body_len as u32,
            _ => reads.push(socket.mark(body_len)),
        }
        self.marked_read.set(read);
    }
}

fn add(cell: &Cell<u64>, n: usize) {
    cell.set(cell.get() + n as u64);
}

/// The streams of one connection, and what is to be known of the connection itself.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) socket: Rc<Socket>,
    streams: RefCell<FxHashMap<u32, Rc<StreamBook>>>,
    incoming: RefCell<Scanner>,
    outgoing: RefCell<Scanner>,
    /// Requests whose last byte was written, with its place among all that was, until it is flushed.
    unflushed: RefCell<Vec<(u64, Rc<StreamBook>)>>,
    written: Cell<u64>,
    /// The server's settings came, so it speaks HTTP/2.
    pub(super) is_settled: Cell<bool>,
    /// The first bytes it said.
    greeting: RefCell<Vec<u8>>,
    /// The last stream the server took up before it said that it takes no more.
    last_taken: Cell<Option<u32>>,
}

impl Book {
    pub(super) fn new(socket: Rc<Socket>) -> Self {
        Self {
            socket,
            streams: RefCell::default(),
            incoming: RefCell::default(),
            outgoing: RefCell::new(Scanner::behind(PREFACE_LEN)),
            unflushed: RefCell::default(),
            written: Cell::new(0),
            is_settled: Cell::new(false),
            greeting: RefCell::default(),
            last_taken: Cell::new(None),
        }
    }

    /// A page for a stream of which nothing was written yet.
    pub(super) fn open(&self, stream: u32) -> Rc<StreamBook> {
        let book = Rc::<StreamBook>::default();
        self.streams.borrow_mut().insert(stream, Rc::clone(&book));
        book
    }

    /// Nobody is interested in a stream any more.
    pub(super) fn close(&self, stream: u32) {
        self.streams.borrow_mut().remove(&stream);
    }

    /// Whether the server said that it did not take up `stream`.
    pub(super) fn is_untaken(&self, stream: u32) -> bool {
        self.last_taken.get().is_some_and(|last| stream > last)
    }

    /// Whether the server answered in the words of HTTP/1.
    pub(super) fn speaks_http1(&self) -> bool {
        self.greeting.borrow().starts_with(b"HTTP/1.")
    }

    /// `bytes` were taken by the socket's layer, in a write that began at `began_ns`.
    pub(super) fn wrote(&self, bytes: &[u8], began_ns: u64) {
        let end = self.written.get() + bytes.len() as u64;
        self.written.set(end);
        let streams = self.streams.borrow();
        self.outgoing.borrow_mut().scan(bytes, |frame, part| {
            let Some(stream) = Self::page(&streams, frame) else { return };
            match part {
                _ if !frame.is_of_message() => {}
                Part::Head => {
                    add(&stream.bytes_out, HEAD_LEN);
                    if stream.first_write_ns.get() == 0 {
                        stream.first_write_ns.set(began_ns);
                    }
                }
                Part::Payload { bytes, body, .. } => {
                    add(&stream.bytes_out, bytes.len());
                    if *body > 0 {
                        stream.writes.set(stream.writes.get() + 1);
                        add(&stream.body_out, *body);
                    }
                }
                Part::End if frame.ends_head() && stream.head_sent_ns.get() == 0 => {
                    stream.head_sent_ns.set(self.socket.last_write_ns());
                    if frame.ends_stream() {
                        self.unflushed.borrow_mut().push((end, Rc::clone(stream)));
                    }
                }
                Part::End if frame.ends_stream() => {
                    self.unflushed.borrow_mut().push((end, Rc::clone(stream)));
                }
                Part::End => {}
            }
        });
    }

    /// All that was written has been handed to the kernel.
    pub(super) fn flushed(&self) {
        let mut unflushed = self.unflushed.borrow_mut();
        if unflushed.is_empty() {
            return;
        }
        unflushed.retain(|(place, stream)| match self.socket.sent_ns(*place) {
            Some(at_ns) => {
                stream.sent_ns.set(at_ns);
                if let Some(waker) = stream.sent_waker.take() {
                    waker.wake();
                }
                false
            }
            None => true,
        });
    }

    /// `bytes` came with the socket's last read.
    pub(super) fn read(&self, bytes: &[u8]) {
        if !self.is_settled.get() {
            let mut greeting = self.greeting.borrow_mut();
            let room = GREETING_LEN - greeting.len();
            greeting.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        let socket = &*self.socket;
        let streams = self.streams.borrow();
        self.incoming.borrow_mut().scan(bytes, |frame, part| {
            if frame.stream == 0 {
                self.of_connection(frame, part);
                return;
            }
            let Some(stream) = Self::page(&streams, frame) else { return };
            match part {
                Part::Head | Part::Payload { .. } if !frame.is_of_message() => {}
                Part::Head => {
                    stream.last_read_ns.set(socket.last_read_ns.get());
                    add(&stream.bytes_in, HEAD_LEN);
                }
                Part::Payload { bytes, body, .. } => {
                    stream.last_read_ns.set(socket.last_read_ns.get());
                    add(&stream.bytes_in, bytes.len());
                    if *body > 0 {
                        stream.body(*body, socket);
                    }
                }
                Part::End => {
                    // An interim head is followed by another; trailers by nothing, and the body is before them.
                    if frame.ends_head() && stream.body_len.get() == 0 {
                        stream.head_ns.set(socket.arrived_ns.get());
                    }
                    if frame.ends_stream() && stream.end_ns.get() == 0 {
                        stream.end_ns.set(socket.arrived_ns.get());
                    }
                }
            }
        });
    }

    /// The page of the stream that `frame` belongs to, if somebody keeps one and it is of a message or breaks it off.
    fn page<'a>(streams: &'a FxHashMap<u32, Rc<StreamBook>>, frame: &Frame) -> Option<&'a Rc<StreamBook>> {
        if frame.is_of_message() || frame.ends_stream() { streams.get(&frame.stream) } else { None }
    }

    fn of_connection(&self, frame: &Frame, part: &Part<'_>) {
        match part {
            Part::End if frame.is_settings() => self.is_settled.set(true),
            Part::Payload { bytes, at, .. } if frame.kind == GOAWAY => {
                let mut last = self.last_taken.get().filter(|_| *at > 0).unwrap_or(0);
                for byte in bytes.iter().take(4_usize.saturating_sub(*at)) {
                    last = last << 8 | u32::from(*byte);
                }
                self.last_taken.set(Some(last & 0x7fff_ffff));
            }
            _ => {}
        }
    }
}
