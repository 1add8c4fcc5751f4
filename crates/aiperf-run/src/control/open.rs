//! A phase from its start to its end, as the control sees it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use aiperf_metrics::{CpuShare, ShardHealth};
use aiperf_os::mono_ns;

use crate::health::ProcessMeter;
use crate::limit::Limit;
use crate::phase::Phase;

/// What became of a phase.
#[derive(Debug, Clone)]
pub(crate) struct PhaseEnd {
    /// Arrival 0.
    pub start_ns: u64,
    /// All shards were done.
    pub end_ns: u64,
    /// Requests that came due.
    pub scheduled: u64,
    /// Of these, never sent.
    pub unsent: u64,
    /// Of the unsent, left out for want of a place.
    pub skipped: u64,
    /// What each shard measured of itself.
    pub shards: Vec<ShardHealth>,
    /// CPU time of the whole process.
    pub process: CpuShare,
}

impl PhaseEnd {
    /// A phase that the run never came to.
    pub(crate) fn unstarted() -> Self {
        let now = mono_ns();
        Self {
            start_ns: now,
            end_ns: now,
            scheduled: 0,
            unsent: 0,
            skipped: 0,
            shards: Vec::new(),
            process: CpuShare::default(),
        }
    }
}

/// A phase on its way.
pub(super) struct Open {
    pub(super) phase: Arc<Phase>,
    /// Shards that may still send, and shards that are not done.
    pub(super) sending: usize,
    pub(super) running: BTreeSet<u16>,
    /// Limits that change, with their next change.
    pub(super) ramps: Vec<LimitRamp>,
    pub(super) end_ns: Option<u64>,
    /// What each shard measured of itself.
    pub(super) shards: Vec<ShardHealth>,
    pub(super) process: ProcessMeter,
    /// What the process used until the end.
    pub(super) used: Option<CpuShare>,
}

/// A limit on its way to its value.
pub(super) struct LimitRamp {
    pub(super) limit: Arc<Limit>,
    /// Changes ahead, latest first: offset from the phase's start and the new value.
    pub(super) ahead: Vec<(u64, u32)>,
}

impl Open {
    /// Whether nothing more of it will be sent.
    pub(super) fn has_sent(&self) -> bool {
        let sent = self.phase.counters.sent.load(Ordering::Relaxed);
        self.sending == 0 || self.running.is_empty() || !self.phase.window.may_send(sent, mono_ns())
    }

    /// When something of it is due: a change of a limit, or the end of sending.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let start_ns = self.phase.window.start_ns;
        let ramps =
            self.ramps.iter().filter_map(|r| r.ahead.last()).map(|(at, _)| start_ns.saturating_add(*at));
        let sending_end =
            Some(self.phase.window.sending_end_ns).filter(|at| *at > mono_ns() && *at < u64::MAX);
        ramps.chain(sending_end).min()
    }

    pub(super) fn change_limits(&mut self) {
        let elapsed_ns = mono_ns().saturating_sub(self.phase.window.start_ns);
        for ramp in &mut self.ramps {
            while let Some((_, places)) = ramp.ahead.pop_if(|(at_ns, _)| *at_ns <= elapsed_ns) {
                ramp.limit.set(places);
            }
        }
    }

    /// What became of it; takes what the shards measured.
    pub(super) fn end(&mut self) -> PhaseEnd {
        let counters = &self.phase.counters;
        let start_ns = self.phase.window.start_ns;
        // They came as they ended.
        self.shards.sort_by_key(|shard| shard.shard);
        PhaseEnd {
            start_ns,
            // Stopped in the instant before its arrival 0, a phase has no length; it has no negative one either.
            end_ns: self.end_ns.unwrap_or_else(mono_ns).max(start_ns),
            scheduled: counters.scheduled.load(Ordering::Relaxed),
            unsent: counters.unsent.load(Ordering::Relaxed),
            skipped: counters.skipped.load(Ordering::Relaxed),
            shards: std::mem::take(&mut self.shards),
            process: self.used.unwrap_or_else(|| self.process.share()),
        }
    }
}
