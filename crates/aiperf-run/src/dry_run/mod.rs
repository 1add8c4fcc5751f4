//! What a run would send, without sending it: the run's own composer and schedules, walked through with nobody at the other end.

mod look;
mod reply;
mod tell;
mod walk;

use aiperf_core::plan::{PhasePlan, Saturation};
use aiperf_report::dry_run::{Bound, DryRun, PhaseForecast, json, text};
use aiperf_tokens::Tokenizer;

use crate::artifacts::{Folder, InputsFile, write_whole};
use crate::error::RunError;
use crate::interrupt::Interrupt;
use crate::job::{Job, Screen};
use crate::phase::Starts;
use crate::prefix_cache::PrefixCache;

use look::{Look, LookSetup};
use reply::Replies;
use tell::Teller;
use walk::Walk;

/// Columns of the page where no terminal says how many there are.
const WIDTH: usize = 120;

/// What came of a dry run.
#[derive(Debug)]
pub struct Foretold {
    /// The page for the screen.
    pub page: String,
    /// What `dry_run.json` holds.
    pub json: String,
    /// The user stopped it.
    pub interrupted: bool,
}

impl Job {
    /// Makes everything that a run would send, sends none of it, and writes `dry_run.json` and `dry_run_inputs.json`. No
    /// connection is made.
    ///
    /// # Errors
    /// What a run would meet when it makes its requests, and files that cannot be written.
    pub fn foretell(
        &self,
        folder: &Folder,
        interrupt: &Interrupt,
        screen: Screen,
    ) -> Result<Foretold, RunError> {
        let inputs = InputsFile::create(folder.dry_run_inputs_json())?;
        let plan = self.plan();
        let mut look = Look::new(LookSetup {
            composer: self.composer(Some(inputs)),
            counter: self.counter(),
            endpoint: self.endpoint().clone(),
            prompts: self.prompt_ids(),
            replies: self.tokenizer().and_then(Replies::of),
            cache: PrefixCache::new(plan.artifacts.cache_block),
            is_fixed: !self.workload().is_marked(),
        });
        let mut teller = Teller::new(plan.runtime.ui, plan.runtime.stats_interval_s, screen);
        let mut phases: Vec<PhaseForecast> = Vec::new();
        let mut notes = self.workload().describe().notes;
        notes.extend(self.notes());
        let mut base = 0;
        // Behind a phase of which answers decide how many sessions it uses up, conversations of other lengths may come.
        let facts = self.workload().describe();
        let varies = facts.turns != facts.entries as u64 * facts.most_turns as u64;
        let mut is_shifted = false;
        for (number, (phase, starts)) in plan.phases.iter().zip(self.starts()).enumerate() {
            look.begin_phase(phase, starts, base);
            let walk = Walk::of(phase, starts, number as u16, plan.seed, base, self.workload().len() as u64);
            let mut walked = walk.walk(&mut look, &mut |requests| {
                teller.say(&phase.name, requests, phase.requests);
                interrupt.fired()
            })?;
            base += walked.sessions;
            if is_shifted && varies && walked.bound == Bound::Exact && !walked.is_cut {
                walked.bound = Bound::About;
            }
            phases.push(look.end_phase(phase, &walked));
            let has_turns = phases.last().is_some_and(|told| told.later_turns > 0);
            notes.extend(notes_of(phase, starts, &walked, has_turns));
            let shifts = walked.bound != Bound::Exact || (has_turns && overlap(phase, starts, &walked));
            if shifts && number + 1 < plan.phases.len() {
                notes.push(format!(
                    "how many sessions phase {} uses up decides with which conversation the phase behind it begins",
                    phase.name
                ));
            }
            is_shifted |= shifts;
            if interrupt.fired() {
                break;
            }
        }
        teller.end();
        let unread = look.unread();
        if unread > 0 {
            notes.push(format!(
                "{unread} {} no prompt that can be read, for it holds no text or the chat template refuses it: left out of the prefix cache",
                if unread == 1 { "request has" } else { "requests have" }
            ));
        }
        let unsaid = phases.iter().map(|phase| phase.cache.unknown).sum::<u64>() - unread;
        if unsaid > 0 && plan.tokenizer.is_some() {
            notes.push(
                "prompts behind an answer of unknown length are left out of lengths and of the prefix cache: --osl, or an output length in \
                 the data, tells it"
                    .to_owned(),
            );
        }
        let run = DryRun {
            version: env!("CARGO_PKG_VERSION"),
            seed: plan.seed,
            cli_command: &plan.cli_command,
            is_complete: !interrupt.fired(),
            dataset: facts.kind.name(),
            conversations: facts.entries as u64,
            turns: facts.turns,
            tokenizer: self.tokenizer().map(Tokenizer::name),
            phases: &phases,
            notes: &notes,
        };
        let bytes = json(&run);
        write_whole(&folder.dry_run_json(), &bytes)?;
        if let Some(inputs) = look.finish().finish() {
            inputs.finish()?;
        }
        Ok(Foretold {
            page: text(&run, screen.width.unwrap_or(WIDTH)),
            json: String::from_utf8_lossy(&bytes).into_owned(),
            interrupted: interrupt.fired(),
        })
    }
}

/// Whether answers decide how many sessions have begun when a cap on requests is reached.
fn overlap(phase: &PhasePlan, starts: &Starts, walked: &walk::Walked) -> bool {
    let at_once = phase.concurrency.is_none_or(|places| places > 1);
    matches!(starts, Starts::Ticks) || (walked.is_cut && at_once)
}

/// What is not as exact as it looks, one sentence each.
fn notes_of(phase: &PhasePlan, starts: &Starts, walked: &walk::Walked, has_turns: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let name = &phase.name;
    if has_turns && walked.is_cut && matches!(starts, Starts::Schedule(_)) {
        notes.push(format!(
            "phase {name}: turns are taken at their planned times here; in the run one waits for the answer before it, which decides what \
             the last request is"
        ));
    } else if has_turns && overlap(phase, starts, walked) {
        notes.push(format!(
            "phase {name}: sessions are taken one after the other here; in the run they overlap, and answers decide how many of them \
             have begun when the last request is sent"
        ));
    }
    // Nothing but time ends it.
    if walked.bound == Bound::OnePass {
        notes.push(format!(
            "phase {name} is ended by time, and how many requests fit into it the server decides: looked at are as many sessions as there are conversations"
        ));
    }
    if has_turns && phase.cancellation.is_some() {
        notes.push(format!(
            "phase {name}: every turn is answered here; in the run those that are cancelled leave no reply to the turns behind them"
        ));
    }
    if phase.saturation == Saturation::Skip {
        notes.push(format!(
            "phase {name}: every start finds a place here; in the run answers decide which starts are skipped, and so when the last one comes"
        ));
    }
    notes
}
