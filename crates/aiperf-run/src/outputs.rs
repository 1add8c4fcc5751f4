//! `outputs.json`: answers come back in any order and stand in that of their sessions. They wait in a scratch file; in memory is where
//! each of them is.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use aiperf_core::ticket::Ticket;
use aiperf_metrics::RecordValues;
use aiperf_report::jsonl::Meta;
use aiperf_report::outputs;

use crate::artifacts::{Scratch, Spool, artifact, beside};
use crate::error::RunError;

/// Bytes gathered before they are written.
const BUFFER: usize = 256 << 10;

/// Where an entry is, and what it is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Spot {
    session: u64,
    turn: u16,
    phase: u16,
    len: u32,
    offset: u64,
}

/// Entries on their way. See the module.
#[derive(Debug)]
pub(crate) struct Outputs {
    path: PathBuf,
    waiting: File,
    buffer: Vec<u8>,
    written: u64,
    spots: Vec<Spot>,
    failed: Option<io::Error>,
}

impl Outputs {
    /// For the file at `path`.
    pub(crate) fn create(path: PathBuf, scratch: &Scratch) -> Result<Self, RunError> {
        let waiting = scratch.file().map_err(|e| {
            artifact("make a file for answers that wait for their place in", scratch.dir(), e)
        })?;
        Ok(Self { path, waiting, buffer: Vec::new(), written: 0, spots: Vec::new(), failed: None })
    }

    /// Takes in a request that ended.
    pub(crate) fn add(&mut self, ticket: &Ticket, meta: &Meta<'_>, values: &RecordValues, text: &str) {
        if self.failed.is_some() {
            return;
        }
        let start = self.buffer.len();
        outputs::entry(&mut self.buffer, meta, values, Some(text).filter(|text| !text.is_empty()));
        self.spots.push(Spot {
            session: ticket.session,
            turn: ticket.turn,
            phase: ticket.phase,
            // Answers are far shorter: the limit of `--max-response-bytes` keeps them so.
            len: u32::try_from(self.buffer.len() - start).unwrap_or(u32::MAX),
            offset: self.written + start as u64,
        });
        if self.buffer.len() >= BUFFER {
            self.flush();
        }
    }

    fn flush(&mut self) {
        match self.waiting.write_all(&self.buffer) {
            Ok(()) => self.written += self.buffer.len() as u64,
            Err(error) => {
                tracing::error!("cannot keep answers for {}: {error}", self.path.display());
                self.failed = Some(error);
            }
        }
        self.buffer.clear();
        // A long answer's buffer is not kept for short ones.
        self.buffer.shrink_to(2 * BUFFER);
    }

    /// Writes the file, in order.
    pub(crate) fn finish(mut self) -> Result<PathBuf, RunError> {
        self.flush();
        let Self { path, waiting, mut spots, failed, .. } = self;
        let unreadable = |e| artifact("keep the answers for", &path, e);
        failed.map_or(Ok(()), Err).map_err(unreadable)?;
        spots.sort_unstable();
        let mut file = Spool::create(beside(&path), true)?;
        file.append(outputs::begin);
        let mut waiting = BufReader::with_capacity(BUFFER, waiting);
        let mut at = waiting.seek(SeekFrom::Start(0)).map_err(unreadable)?;
        let mut entry = Vec::new();
        for (i, spot) in spots.iter().enumerate() {
            entry.resize(spot.len as usize, 0);
            // Most answers come nearly in order: what is near is in the reader's buffer.
            waiting
                .seek_relative(spot.offset.wrapping_sub(at) as i64)
                .and_then(|()| waiting.read_exact(&mut entry))
                .map_err(unreadable)?;
            at = spot.offset + u64::from(spot.len);
            file.append(|out| outputs::place(out, &entry, i == 0));
        }
        file.append(|out| outputs::end(out, spots.len()));
        file.finish_as(&path)?;
        Ok(path)
    }
}
