//! `aiperf profile`: the main job.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::sync::Arc;

use aiperf_config::{DryRunFormat, Rejected, Resolved};
use aiperf_core::plan::Plan;
use aiperf_run::{Download, Folder, Interrupt, Job, Leave, RunError, Said, Screen, Teller};

use crate::exit::{Exit, FAILED, INTERRUPTED, USAGE};
use crate::{logging, output, signals};

/// Runs a benchmark as `args` (those behind `profile`) ask.
pub(crate) fn run(args: &[OsString]) -> Exit {
    let env = |name: &str| std::env::var(name).ok();
    let resolved = match aiperf_config::resolve_profile(args, &env, &draw_seed) {
        Ok(resolved) => resolved,
        Err(rejected) => return reject(&rejected),
    };
    match benchmark(resolved) {
        Ok(exit) => exit,
        Err(error) => {
            output::fail(&error);
            // What a server did is nothing that could be mended on the command line.
            let by_server = matches!(error, RunError::NotReady { .. } | RunError::Reset { .. });
            Exit(if by_server { FAILED } else { USAGE })
        }
    }
}

/// Tells why a configuration was not taken, or gives the help that was asked for.
pub(crate) fn reject(rejected: &Rejected) -> Exit {
    match rejected {
        Rejected::Help(text) => output::data(text),
        Rejected::Version => output::data(concat!("aiperf ", env!("AIPERF_LONG_VERSION"), "\n")),
        Rejected::Invalid(_) => {
            output::say(&rejected.to_string());
            Exit(USAGE)
        }
    }
}

/// Everything that can be wrong before the first request is an error here; from then on the run writes what it has.
fn benchmark(resolved: Resolved) -> Result<Exit, RunError> {
    let Resolved { plan, notes, download_tokenizer, download_dataset, dry_run } = resolved;
    for note in &notes {
        output::say(note);
    }
    Folder::spares_input(&plan)?;
    let job = load(plan, download_tokenizer, download_dataset)?;
    if !job.plan().seed_given {
        let seed = job.plan().seed;
        output::say(&format!("Random seed drawn for this run: {seed} (give it back with --random-seed)"));
    }
    if let Some(format) = dry_run {
        return foretell(&job, format);
    }
    for warning in job.warnings() {
        output::say(&format!("warning: {warning}"));
    }
    let (folder, moved) = Folder::prepare(&job.plan().artifacts)?;
    if let Some(moved) = moved {
        output::say(&moved);
    }
    if let Err(error) = logging::start(&folder.log(), job.plan().runtime.log_level) {
        output::say(&format!("warning: no log file: {}: {error}", folder.log().display()));
    }
    let (interrupt, screen) = (interrupt(), screen());
    let end = job.run(&folder, &interrupt, screen)?;
    let shown = output::data(&end.console);
    for problem in &end.problems {
        output::fail(problem);
    }
    Ok(Exit(if end.interrupted {
        INTERRUPTED
    } else if end.completed == 0 || !end.problems.is_empty() {
        FAILED
    } else {
        return Ok(shown);
    }))
}

/// Opens what the plan names, fetching what may be fetched.
fn load(plan: Plan, tokenizer: bool, dataset: bool) -> Result<Job, RunError> {
    let fetching = output::Fetching::new(progress_on_terminal());
    let say = |said: Said<'_>| fetching.say(said);
    let when = |may: bool| {
        let teller = Teller { say: &say, is_drawn: fetching.is_drawn };
        if may { Download::WhenMissing(teller) } else { Download::Never }
    };
    Job::load(plan, Leave { tokenizer: when(tokenizer), dataset: when(dataset) })
}

/// Whether a line can be drawn over itself on stderr.
pub(super) fn progress_on_terminal() -> bool {
    std::io::stderr().is_terminal() && !is_dumb(&|name| std::env::var_os(name))
}

/// Tells what would be sent.
fn foretell(job: &Job, format: DryRunFormat) -> Result<Exit, RunError> {
    let folder = Folder::prepare_beside(&job.plan().artifacts)?;
    let interrupt = Arc::new(Interrupt::default());
    let part = folder.dry_run_part();
    let give_up = move || {
        // It may not have begun.
        let _ = std::fs::remove_file(part);
        output::say(
            "error: stopped in the middle of a request that takes long to make or to count; nothing is written",
        );
    };
    tell_unheard(signals::listen_briefly(interrupt.clone(), give_up));
    let told = match job.foretell(&folder, &interrupt, screen()) {
        // Nothing of the command line could mend it.
        Err(error @ RunError::Artifact { .. }) => {
            output::fail(&error);
            return Ok(Exit(FAILED));
        }
        told => told?,
    };
    let shown = output::data(match format {
        DryRunFormat::Text => &told.page,
        DryRunFormat::Json => &told.json,
    });
    Ok(if told.interrupted { Exit(INTERRUPTED) } else { shown })
}

/// Fired by the user's wish to stop.
fn interrupt() -> Arc<Interrupt> {
    let interrupt = Arc::new(Interrupt::default());
    tell_unheard(signals::listen(interrupt.clone()));
    interrupt
}

fn tell_unheard(listens: std::io::Result<()>) {
    if let Err(error) = listens {
        output::say(&format!("warning: Ctrl-C ends at once, without results: {error}"));
    }
}

/// The terminal, as far as it is one.
fn screen() -> Screen {
    let variable = |name: &str| std::env::var_os(name);
    Screen {
        progress_on_terminal: progress_on_terminal(),
        colour: std::io::stdout().is_terminal() && takes_colour(&variable),
        width: std::io::stdout().is_terminal().then(terminal_width).flatten(),
    }
}

/// Columns of the terminal, as far as the environment or the kernel tells.
pub(super) fn terminal_width() -> Option<usize> {
    aiperf_os::terminal::width().or_else(|| std::env::var("COLUMNS").ok()?.parse().ok()).filter(|w| *w >= 20)
}

/// A seed nobody chose: 63 bits, so that it fits every tool's integer.
fn draw_seed() -> u64 {
    aiperf_run::random_u64() >> 1
}

/// Whether the terminal only prints: it neither draws over a line nor knows colours.
fn is_dumb(variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
    variable("TERM").is_some_and(|term| term == "dumb")
}

/// Whether colours may be written to a terminal. An empty `NO_COLOR` does not count (no-color.org).
pub(super) fn takes_colour(variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
    !is_dumb(variable) && variable("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_left_out_where_they_are_not_wanted_or_not_known() {
        for (name, value, colour) in [
            ("TERM", "xterm", true),
            ("TERM", "dumb", false),
            ("NO_COLOR", "1", false),
            ("NO_COLOR", "", true),
        ] {
            let variable = |asked: &str| (asked == name).then(|| value.into());
            assert_eq!(takes_colour(&variable), colour, "{name}={value}");
        }
    }
}
