//! From the shards to the reader: ended requests, in batches, in the order they were handed over.
//!
//! Handing over never blocks and never drops.

use crossbeam_channel::{Receiver, Sender};

use crate::shard::Ended;

/// The shards' end; each has its own clone. The reader's work is over when the last one is gone.
#[derive(Debug, Clone)]
pub(crate) struct Handover {
    queue: Sender<Vec<Ended>>,
}

impl Handover {
    /// Hands over a batch, at once whatever the reader does.
    pub(crate) fn send(&self, batch: Vec<Ended>) {
        // The reader outlives every shard; were it gone, its panic is what the run reports.
        let _ = self.queue.send(batch);
    }
}

/// The reader's end.
#[derive(Debug)]
pub(crate) struct Incoming {
    queue: Receiver<Vec<Ended>>,
}

impl Incoming {
    /// Waits for the next batch; `None` once the last shard is gone and everything was taken.
    pub(crate) fn recv(&self) -> Option<Vec<Ended>> {
        self.queue.recv().ok()
    }

    /// Whether there is nothing to take right now.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// Both ends.
pub(crate) fn channel() -> (Handover, Incoming) {
    let (sender, receiver) = crossbeam_channel::unbounded();
    (Handover { queue: sender }, Incoming { queue: receiver })
}
