//! From the shards to the reader: ended requests, in batches, in the order they were handed over, in bounded memory.
//!
//! Handing over never blocks and never drops: a shard appends to a queue without end and takes no lock. When too many bytes wait for
//! the reader, a thread of low priority, the spooler, takes batches out of the queue into files; the reader finds them there, in
//! their place. What cannot be written stays in memory, and nothing more is written then.
//!
//! ```text
//!  shards ──▶ queue (newest) ──▶ line: memory, files (oldest) ──▶ reader
//! ```
//! The line is empty as long as the reader keeps up: then it takes from the queue itself. Whoever takes from the queue holds the lock
//! of the line, which keeps the order.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, Thread};

use aiperf_core::exchange::ReadMark;
use crossbeam_channel::{Receiver, Select, Sender, TryRecvError};

use crate::artifacts::Scratch;
use crate::error::RunError;
use crate::item::{Item, Needs};
use crate::shard::Ended;
use crate::spill::{Piece, SpillWriter};

/// Bytes that may wait in memory.
pub(crate) const MEMORY: u64 = 64 << 20;
/// Bytes a request takes beside its texts, about.
const REQUEST: usize = 640;

/// How far the reader was behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HandoverStats {
    /// Most requests that waited for the reader at one moment.
    pub most_requests: u64,
    /// Most bytes of them.
    pub most_bytes: u64,
    /// Requests that went through a file.
    pub spilled_requests: u64,
    /// Bytes written for them.
    pub spilled_bytes: u64,
    /// Why no more were written at some point.
    pub spill_error: Option<String>,
}

/// A batch in memory.
#[derive(Debug)]
struct Batch {
    requests: Vec<Ended>,
    bytes: u64,
}

/// A place in the line.
#[derive(Debug)]
enum Place {
    Memory {
        first: u64,
        batch: Batch,
    },
    /// On its way into a file.
    Moving,
    Filed {
        pieces: VecDeque<Piece>,
        bytes: u64,
    },
}

/// What waits behind the queue.
#[derive(Debug, Default)]
struct Line {
    places: VecDeque<Place>,
    /// Bytes in memory.
    memory: u64,
    /// Requests taken out of the queue so far.
    taken: u64,
    spilled_requests: u64,
    spilled_bytes: u64,
    failed: Option<String>,
}

/// What both ends see.
#[derive(Debug, Default)]
struct Shared {
    line: Mutex<Line>,
    /// A batch was moved.
    moved: Condvar,
    /// Bytes in memory, in queue and line.
    memory: AtomicU64,
    requests: AtomicU64,
    bytes: AtomicU64,
    most_requests: AtomicU64,
    most_bytes: AtomicU64,
    /// The reader takes no more.
    is_over: AtomicBool,
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, requests: u64, bytes: u64) {
        self.requests.fetch_sub(requests, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes that a request keeps in memory. Of a body that others share, all of it: it may be the last one to hold it.
fn bytes_of(ended: &Ended) -> u64 {
    let answer = ended.answer.as_ref().map_or(0, |a| a.text.len() + a.reasoning.len());
    let marks = ended.exchange.reads.len() * size_of::<ReadMark>();
    (REQUEST + ended.exchange.body.len() + marks + ended.body.len() + answer) as u64
}

/// The shards' end; each has its own clone. The reader's work is over when the last one is gone.
#[derive(Debug, Clone)]
pub(crate) struct Handover {
    queue: Sender<Batch>,
    shared: Arc<Shared>,
    limit: u64,
    spooler: Option<Thread>,
}

impl Handover {
    /// Hands over a batch, at once whatever the reader does.
    pub(crate) fn send(&self, batch: Vec<Ended>) {
        let bytes: u64 = batch.iter().map(bytes_of).sum();
        let shared = &self.shared;
        let requests = batch.len() as u64;
        let waiting = shared.requests.fetch_add(requests, Ordering::Relaxed) + requests;
        shared.most_requests.fetch_max(waiting, Ordering::Relaxed);
        let waiting = shared.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        shared.most_bytes.fetch_max(waiting, Ordering::Relaxed);
        let before = shared.memory.fetch_add(bytes, Ordering::Relaxed);
        // The reader outlives every shard; were it gone, its panic is what the run reports.
        let _ = self.queue.send(Batch { requests: batch, bytes });
        // Not only when the limit is passed: the spooler may have looked before the batch was in the queue. Awake, it costs nothing.
        if let Some(spooler) = self.spooler.as_ref().filter(|_| before + bytes >= self.limit) {
            spooler.unpark();
        }
    }
}

/// What the reader finds next.
#[derive(Debug)]
pub(crate) enum Taken {
    /// Requests, in order.
    Requests(Vec<Item>),
    /// So many were written to a file and cannot be read back.
    Unreadable(u64, io::Error),
    /// Nothing more will come.
    Over,
}

/// The reader's end.
#[derive(Debug)]
pub(crate) struct Incoming {
    queue: Receiver<Batch>,
    shared: Arc<Shared>,
    /// The spooler put something into the line.
    nudge: (Sender<()>, Receiver<()>),
    spooler: Option<JoinHandle<()>>,
}

impl Incoming {
    /// Waits for the next requests.
    pub(crate) fn take(&mut self) -> Taken {
        loop {
            let mut line = self.shared.line();
            while matches!(line.places.front(), Some(Place::Moving)) {
                line = self.shared.moved.wait(line).unwrap_or_else(PoisonError::into_inner);
            }
            match line.places.pop_front() {
                Some(Place::Memory { first, batch }) => {
                    line.memory -= batch.bytes;
                    drop(line);
                    return self.live(first, batch);
                }
                Some(Place::Filed { mut pieces, mut bytes }) => {
                    let piece = pieces.pop_front();
                    let share = if pieces.is_empty() { bytes } else { 0 };
                    bytes -= share;
                    if !pieces.is_empty() {
                        line.places.push_front(Place::Filed { pieces, bytes });
                    }
                    drop(line);
                    let Some(piece) = piece else { continue };
                    self.shared.read(piece.requests, share);
                    return piece
                        .read()
                        .map_or_else(|e| Taken::Unreadable(piece.requests, e), Taken::Requests);
                }
                Some(Place::Moving) | None => {}
            }
            match self.queue.try_recv() {
                Ok(batch) => {
                    let first = line.taken;
                    line.taken += batch.requests.len() as u64;
                    drop(line);
                    return self.live(first, batch);
                }
                Err(TryRecvError::Disconnected) => return Taken::Over,
                Err(TryRecvError::Empty) => drop(line),
            }
            // Waits without taking: what is taken is taken under the lock.
            let mut either = Select::new();
            either.recv(&self.queue);
            either.recv(&self.nudge.1);
            either.ready();
            let _ = self.nudge.1.try_recv();
        }
    }

    fn live(&self, first: u64, batch: Batch) -> Taken {
        self.shared.memory.fetch_sub(batch.bytes, Ordering::Relaxed);
        self.shared.read(batch.requests.len() as u64, batch.bytes);
        Taken::Requests(
            (first..).zip(batch.requests).map(|(number, ended)| Item::new(number, ended)).collect(),
        )
    }

    /// Whether there is nothing to take right now.
    pub(crate) fn is_empty(&self) -> bool {
        self.shared.requests.load(Ordering::Relaxed) == 0
    }

    /// Ends the spooler and tells how it was.
    pub(crate) fn finish(mut self) -> HandoverStats {
        self.end();
        let line = self.shared.line();
        HandoverStats {
            most_requests: self.shared.most_requests.load(Ordering::Relaxed),
            most_bytes: self.shared.most_bytes.load(Ordering::Relaxed),
            spilled_requests: line.spilled_requests,
            spilled_bytes: line.spilled_bytes,
            spill_error: line.failed.clone(),
        }
    }

    fn end(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        if let Some(spooler) = self.spooler.take() {
            spooler.thread().unpark();
            // Its panic put back what it had; nothing is lost with it.
            let _ = spooler.join();
        }
    }

    /// Waits for the next batch; `None` once the last shard is gone and everything was taken.
    #[cfg(test)]
    pub(crate) fn recv(&self) -> Option<Vec<Ended>> {
        self.queue.recv().ok().map(|batch| batch.requests)
    }

    /// Waits until the spooler moved what is too much.
    #[cfg(test)]
    pub(crate) fn settle(&self, limit: u64) {
        let mut line = self.shared.line();
        while self.shared.memory.load(Ordering::Relaxed) >= limit {
            line = self.shared.moved.wait(line).expect("nobody panicked");
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.end();
    }
}

/// Both ends, with `limit` bytes in memory and the rest in files of `scratch`, which hold what is needed.
pub(crate) fn spilling(limit: u64, scratch: Scratch, needs: Needs) -> Result<(Handover, Incoming), RunError> {
    let (mut handover, mut incoming) = unbounded(limit);
    let spooler = Spooler {
        queue: incoming.queue.clone(),
        shared: handover.shared.clone(),
        nudge: incoming.nudge.0.clone(),
        writer: SpillWriter::new(scratch, needs),
        limit,
    };
    let thread = std::thread::Builder::new()
        .name("spooler".into())
        .spawn(move || {
            aiperf_os::sched::lower_priority(10);
            spooler.work();
        })
        .map_err(RunError::Thread)?;
    handover.spooler = Some(thread.thread().clone());
    incoming.spooler = Some(thread);
    Ok((handover, incoming))
}

/// Both ends, with everything in memory.
#[cfg(test)]
pub(crate) fn channel() -> (Handover, Incoming) {
    unbounded(u64::MAX)
}

fn unbounded(limit: u64) -> (Handover, Incoming) {
    let (sender, queue) = crossbeam_channel::unbounded();
    let shared = Arc::new(Shared::default());
    let incoming =
        Incoming { queue, shared: shared.clone(), nudge: crossbeam_channel::bounded(1), spooler: None };
    (Handover { queue: sender, shared, limit, spooler: None }, incoming)
}

/// Moves what is too much for memory.
struct Spooler {
    queue: Receiver<Batch>,
    shared: Arc<Shared>,
    nudge: Sender<()>,
    writer: SpillWriter,
    limit: u64,
}

impl Spooler {
    fn work(mut self) {
        while !self.shared.is_over.load(Ordering::Acquire) {
            if self.shared.memory.load(Ordering::Relaxed) >= self.limit {
                while self.shared.memory.load(Ordering::Relaxed) > self.limit / 2 && self.move_one() {}
            }
            if self.shared.line().failed.is_some() {
                return;
            }
            // Whoever hands over beyond the limit wakes it.
            std::thread::park();
        }
    }

    /// Takes a batch out of the queue: into the line as it is while that is short, else into a file. Whether there was one, and it could
    /// be written.
    fn move_one(&mut self) -> bool {
        let mut line = self.shared.line();
        let Ok(batch) = self.queue.try_recv() else { return false };
        let first = line.taken;
        line.taken += batch.requests.len() as u64;
        let is_short = line.memory + batch.bytes <= self.limit / 4;
        line.places.push_back(Place::Moving);
        drop(line);
        let mut held = Held { shared: &self.shared, nudge: &self.nudge, first, batch: Some(batch) };
        if is_short {
            return true;
        }
        let Some(batch) = &mut held.batch else { return true };
        match self.writer.write(first, &mut batch.requests) {
            Ok(pieces) => {
                held.file(pieces);
                true
            }
            Err(error) => {
                tracing::warn!("waiting requests cannot be written to a file and stay in memory: {error}");
                self.shared.line().failed = Some(error.to_string());
                false
            }
        }
    }
}

/// A batch that left the queue. Dropped before it was filed, be it by a panic, it takes its place in the line as it is.
struct Held<'a> {
    shared: &'a Shared,
    nudge: &'a Sender<()>,
    first: u64,
    batch: Option<Batch>,
}

impl Held<'_> {
    fn file(mut self, pieces: Vec<Piece>) {
        let Some(Batch { requests, bytes }) = self.batch.take() else { return };
        self.shared.memory.fetch_sub(bytes, Ordering::Relaxed);
        let mut line = self.shared.line();
        line.spilled_requests += requests.len() as u64;
        line.spilled_bytes += pieces.iter().map(Piece::len).sum::<u64>();
        self.put(line, Place::Filed { pieces: pieces.into(), bytes });
    }

    /// Its place is the last one: only the spooler appends, and the reader waits in front of it.
    fn put(&self, mut line: MutexGuard<'_, Line>, place: Place) {
        if let Some(last) = line.places.back_mut() {
            *last = place;
        }
        drop(line);
        self.shared.moved.notify_all();
        // Full, it says the same already.
        let _ = self.nudge.try_send(());
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let Some(batch) = self.batch.take() else { return };
        let mut line = self.shared.line();
        line.memory += batch.bytes;
        self.put(line, Place::Memory { first: self.first, batch });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ended_toys as toys;
    use crate::item::Recounted;

    const NEEDS: Needs = Needs { raw: true, uncounted: true, recount: Some(Recounted::All) };

    /// Every number below `n` once, in batches of four.
    fn hand_over(handover: &Handover, n: u64) {
        for batch in (0..n).collect::<Vec<_>>().chunks(4) {
            handover.send(batch.iter().map(|number| toys::ended(*number)).collect());
        }
    }

    /// Takes until nothing more comes.
    fn take_all(incoming: &mut Incoming) -> Vec<Item> {
        let mut all = Vec::new();
        loop {
            match incoming.take() {
                Taken::Requests(items) => all.extend(items),
                Taken::Unreadable(_, error) => panic!("{error}"),
                Taken::Over => return all,
            }
        }
    }

    /// The order in which requests were handed over is that in which they were numbered and are taken.
    #[track_caller]
    fn in_order(items: &[Item], n: u64) {
        let numbers = items.iter().map(|item| (item.number, item.exchange.bytes_sent - 10));
        assert!(numbers.eq((0..n).map(|i| (i, i))));
    }

    #[test]
    fn what_is_too_much_for_memory_waits_in_a_file_in_its_place() {
        let tmp = tempfile::tempdir().expect("a folder");
        let limit = 40 * bytes_of(&toys::ended(0));
        let (handover, mut incoming) = spilling(limit, Scratch::new(tmp.path()), NEEDS).expect("a thread");
        hand_over(&handover, 400);
        incoming.settle(limit);
        assert!(!incoming.is_empty());
        drop(handover);
        in_order(&take_all(&mut incoming), 400);
        assert!(incoming.is_empty());
        let stats = incoming.finish();
        assert!(stats.spilled_requests >= 300, "{stats:?}");
        assert!(stats.spilled_bytes > 0 && stats.spill_error.is_none());
        assert_eq!(stats.most_requests, 400);
        assert!(stats.most_bytes > 9 * limit, "{stats:?}");
    }

    #[test]
    fn a_reader_that_keeps_up_sees_no_file() {
        let (handover, mut incoming) =
            spilling(MEMORY, Scratch::new("/nonexistent".as_ref()), NEEDS).expect("a thread");
        hand_over(&handover, 100);
        drop(handover);
        in_order(&take_all(&mut incoming), 100);
        let most_bytes = (0..100).map(|number| bytes_of(&toys::ended(number))).sum();
        assert_eq!(
            incoming.finish(),
            HandoverStats { most_requests: 100, most_bytes, ..HandoverStats::default() }
        );
    }

    #[test]
    fn without_a_disk_everything_stays_in_memory() {
        let (handover, mut incoming) =
            spilling(1, Scratch::new("/nonexistent".as_ref()), NEEDS).expect("a thread");
        hand_over(&handover, 100);
        // It gives up at its first try.
        incoming.spooler.take().expect("a thread").join().expect("no panic");
        drop(handover);
        in_order(&take_all(&mut incoming), 100);
        let stats = incoming.finish();
        assert_eq!((stats.spilled_requests, stats.spilled_bytes), (0, 0));
        assert!(stats.spill_error.is_some());
    }

    #[test]
    fn shards_and_reader_at_once_lose_nothing() {
        const EACH: u64 = 2000;
        let tmp = tempfile::tempdir().expect("a folder");
        let limit = 16 * bytes_of(&toys::ended(0));
        let (handover, mut incoming) =
            spilling(limit, Scratch::new(tmp.path()), Needs::default()).expect("a thread");
        let shards: Vec<_> = (0..2)
            .map(|_| {
                let handover = handover.clone();
                std::thread::spawn(move || hand_over(&handover, EACH))
            })
            .collect();
        drop(handover);
        let items = take_all(&mut incoming);
        for shard in shards {
            shard.join().expect("no panic");
        }
        assert!(items.iter().map(|item| item.number).eq(0..2 * EACH));
        let mut sent: Vec<u64> = items.iter().map(|item| item.exchange.bytes_sent - 10).collect();
        sent.sort_unstable();
        assert!(sent.into_iter().eq((0..EACH).flat_map(|n| [n, n])));
    }
}
