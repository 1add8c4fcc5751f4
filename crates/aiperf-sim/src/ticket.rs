//! The books of one request: filled while it is served, closed exactly once, whatever becomes of it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use aiperf_os::mono_ns;

use crate::desk::{Desk, Flow};
use crate::truth::{SimTotals, TruthOutcome, TruthRecord, TruthSink};

/// Where closed books go; one per server thread.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) totals: Arc<Mutex<SimTotals>>,
    sink: Arc<TruthSink>,
    log: Option<Sender<Option<TruthRecord>>>,
    keep: bool,
    stopping: Cell<bool>,
    /// Answers by finish reason (stop, length), for the metrics page.
    pub(crate) finished: [Cell<u64>; 2],
}

impl Ledger {
    pub(crate) fn new(totals: Arc<Mutex<SimTotals>>, sink: Arc<TruthSink>, keep: bool) -> Rc<Self> {
        let log = sink.sender();
        Rc::new(Self { totals, sink, log, keep, stopping: Cell::new(false), finished: Default::default() })
    }

    /// From now on an open request was cut by the stop, not left by its client.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
    }

    /// Whether chunk stamps are wanted.
    pub(crate) fn keeps_truth(&self) -> bool {
        self.keep
    }

    pub(crate) fn with_totals<T>(&self, f: impl FnOnce(&mut SimTotals) -> T) -> T {
        f(&mut self.totals.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The open books of a request. Dropped unfinished, they say that the client left (or the fault, or the stop).
#[derive(Debug)]
pub(crate) struct Ticket {
    desk: Rc<Desk>,
    ledger: Rc<Ledger>,
    record: RefCell<TruthRecord>,
    /// What the engine works on for it, by the names there.
    jobs: RefCell<Vec<(u64, Rc<Flow>)>>,
    /// Sequences of each prompt; they stand together among the jobs.
    choices: Cell<usize>,
    chunks: Cell<u64>,
    /// Chunks handed over and not known to be written, and the tokens that are out with them.
    in_flight: Cell<(u64, u64)>,
    closed: Cell<bool>,
}

impl Ticket {
    pub(crate) fn new(desk: Rc<Desk>, ledger: Rc<Ledger>, record: TruthRecord) -> Self {
        ledger.with_totals(|t| t.requests += 1);
        Self {
            desk,
            ledger,
            record: RefCell::new(record),
            jobs: RefCell::default(),
            choices: Cell::new(1),
            chunks: Cell::new(0),
            in_flight: Cell::new((0, 0)),
            closed: Cell::new(false),
        }
    }

    /// Changes the record.
    pub(crate) fn note(&self, f: impl FnOnce(&mut TruthRecord)) {
        f(&mut self.record.borrow_mut());
    }

    /// The engine works on this for it from now on.
    pub(crate) fn attach(&self, job: u64, flow: Rc<Flow>) {
        self.jobs.borrow_mut().push((job, flow));
    }

    /// Each prompt has so many sequences, at least one; its cached tokens are those of the first.
    pub(crate) fn of_choices(&self, choices: usize) {
        self.choices.set(choices.max(1));
    }

    /// A chunk with content was handed over; by its end so many tokens are out.
    pub(crate) fn chunk(&self, tokens_done: u64) {
        let (chunks, _) = self.in_flight.get();
        self.in_flight.set((chunks + 1, tokens_done));
    }

    /// The chunks handed over have been written, from `write_ns` on.
    pub(crate) fn landed(&self, write_ns: u64) {
        let (chunks, tokens_done) = self.in_flight.replace((0, 0));
        if chunks == 0 {
            return;
        }
        self.chunks.set(self.chunks.get() + chunks);
        let mut record = self.record.borrow_mut();
        record.completion_tokens = tokens_done;
        if self.ledger.keeps_truth() {
            record.chunks_ns.extend(std::iter::repeat_n(write_ns, chunks as usize));
        }
    }

    /// Closes the books at `end_ns`, with the outcome that was noted.
    pub(crate) fn finish(self, end_ns: u64) {
        self.landed(end_ns);
        self.close(end_ns);
    }

    fn close(&self, end_ns: u64) {
        if self.closed.replace(true) {
            return;
        }
        let mut record = self.record.borrow_mut();
        record.end_ns = end_ns;
        let jobs = self.jobs.take();
        record.prefill_start_ns = jobs.iter().filter_map(|(_, f)| f.prefill_start_ns.get()).min();
        record.prefill_end_ns = jobs.iter().filter_map(|(_, f)| f.prefill_end_ns.get()).min();
        record.cached_tokens = jobs.iter().step_by(self.choices.get()).map(|(_, f)| f.cached.get()).sum();
        for (job, _) in jobs {
            self.desk.cancel(job);
        }
        let chunks = self.chunks.get();
        let stats = self.desk.stats();
        self.ledger.with_totals(|t| {
            t.add(&record, chunks);
            t.peak_running = stats.peak_running;
            t.peak_waiting = stats.peak_waiting;
            t.late_max_ns = stats.late_max_ns;
            t.late_sum_ns = stats.late_sum_ns;
            t.late_count = stats.late_count;
        });
        if !self.ledger.keeps_truth() {
            return;
        }
        self.ledger.sink.remember(&record);
        if let Some(log) = &self.ledger.log {
            // The writer ends early only when its disk failed, which `stop` reports.
            let _ = log.send(Some(record.clone()));
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.closed.get() {
            return;
        }
        let stopping = self.ledger.stopping.get();
        self.note(|r| {
            r.outcome = if r.fault.is_some() && r.outcome == TruthOutcome::Fault {
                TruthOutcome::Fault
            } else if stopping {
                TruthOutcome::Stopped
            } else {
                TruthOutcome::ClientGone
            };
        });
        self.close(mono_ns());
    }
}
