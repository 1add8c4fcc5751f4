//! One measurement: a run of one phase against a server that was started for it.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use aiperf_core::plan::{
    Arrival, ArtifactsPlan, DatasetPlan, EndpointKind, EndpointPlan, ExportLevel, LengthPlan, LogLevel,
    ModelSelection, OnTurnError, Pacing, PhaseKind, PhasePlan, Plan, RuntimePlan, Sampling, SyntheticPlan,
    TokenizerPlan, Ui, VerifyLengths,
};
use aiperf_core::url::BaseUrl;
use aiperf_metrics::{PhaseHealth, Summary};
use aiperf_os::usage::resident_bytes;
use serde_json::Value;

use super::error::DoctorError;
use super::server::{Served, Server};
use crate::artifacts::Folder;
use crate::error::RunError;
use crate::interrupt::Interrupt;
use crate::job::{Job, Leave, Screen};
use crate::pooled::Pooled;

/// Different prompts; they are made once.
const PROMPTS: usize = 64;
/// Tokens of each prompt.
const PROMPT_TOKENS: f64 = 16.0;
/// Time between two looks at the memory.
const LOOK: Duration = Duration::from_millis(20);

/// What is asked of the client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial {
    /// Options of the server.
    pub server: &'static str,
    /// Answers are streams.
    pub streaming: bool,
    /// Tokens of each answer: with the server's options, a chunk each.
    pub tokens: u32,
    /// Arrivals a second; `None` sends when a place is free.
    pub rate: Option<f64>,
    /// Places, where there is no rate.
    pub places: u32,
    /// Time to send in.
    pub sending_ns: u64,
    /// Time for answers beyond that.
    pub grace_ns: u64,
    /// Most threads that send.
    pub workers_max: Option<usize>,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Measured {
    pub health: PhaseHealth,
    pub summary: Summary,
    pub served: Served,
    /// Most memory that was resident at a time.
    pub resident: Option<u64>,
}

impl Trial {
    /// Runs it. `None` when the user stopped it: what is cut off in the middle tells nothing.
    pub(super) fn run(
        self,
        server: &mut Server,
        interrupt: &Arc<Interrupt>,
    ) -> Result<Option<Measured>, DoctorError> {
        let url = server.start(self.server)?;
        let plan = self.plan(url);
        let phase = plan.phases[0].clone();
        let job = Job::load(plan, Leave::default())?;
        let folder = Folder::unkept(std::env::temp_dir());
        let (driven, resident) = watching_memory(|| job.drive(&folder, None, interrupt, Screen::default()));
        let mut driven = driven?;
        let served = server.stop()?;
        if let Some(problem) = driven.problems.pop() {
            return Err(problem.into());
        }
        let (Some(results), Some(end)) = (driven.collected.phases.pop(), driven.ends.pop()) else {
            return Ok(None);
        };
        if interrupt.fired() {
            return Ok(None);
        }
        let (pooled, health) = Pooled::of(&phase, results, end);
        Ok(Some(Measured { health, summary: pooled.numbers().summary, served, resident }))
    }

    fn plan(self, url: BaseUrl) -> Plan {
        let pacing = match self.rate {
            Some(rate) => Pacing::steady(rate, Arrival::Constant),
            None => Pacing::Concurrency,
        };
        let phase = PhasePlan {
            concurrency: self.rate.is_none().then_some(self.places),
            duration_ns: Some(self.sending_ns),
            grace_ns: Some(self.grace_ns),
            ..PhasePlan::new("profiling", PhaseKind::Profiling, pacing)
        };
        let prompt = LengthPlan::normal(PROMPT_TOKENS, 0.0);
        let answer = LengthPlan::normal(f64::from(self.tokens), 0.0);
        Plan {
            sampling: Sampling::Sequential,
            on_turn_error: OnTurnError::Continue,
            models: vec!["simulated".to_owned()],
            model_selection: ModelSelection::RoundRobin,
            endpoint: EndpointPlan {
                streaming: self.streaming,
                ..EndpointPlan::new(EndpointKind::Chat, url)
            },
            dataset: DatasetPlan::Synthetic(SyntheticPlan::sonnet(PROMPTS, prompt, Some(answer))),
            tokenizer: Some(TokenizerPlan { name: "builtin".to_owned() }),
            chat_template: false,
            system_prompt: None,
            cache_bust: None,
            verify_lengths: VerifyLengths::Off,
            slos: Vec::new(),
            phases: vec![phase],
            network: None,
            artifacts: ArtifactsPlan::new(std::env::temp_dir(), ExportLevel::Summary),
            runtime: RuntimePlan {
                max_shards: self.workers_max,
                ui: Ui::None,
                stats_interval_s: 0.0,
                log_level: LogLevel::Error,
            },
            seed: 1,
            seed_given: true,
            cli_command: String::new(),
            input_config: Value::Null,
        }
    }
}

/// Does `work`, and looks at the memory meanwhile.
fn watching_memory<T>(work: impl FnOnce() -> Result<T, RunError>) -> (Result<T, RunError>, Option<u64>) {
    let (done, end) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let watcher = std::thread::Builder::new().name("memory".into()).spawn_scoped(scope, move || {
            let mut most = resident_bytes();
            while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(LOOK) {
                most = most.max(resident_bytes());
            }
            most
        });
        let result = work();
        drop(done);
        // Without a thread for it, memory is not measured.
        (result, watcher.ok().and_then(|watcher| watcher.join().ok()).flatten())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_while_it_runs_is_seen() {
        let before = resident_bytes();
        let (done, most) = watching_memory(|| Ok(vec![1u8; 32 << 20].len()));
        assert_eq!(done.expect("no error"), 32 << 20);
        assert_eq!(most.is_some(), before.is_some());
    }
}
