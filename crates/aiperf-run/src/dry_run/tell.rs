//! How far a dry run is, on stderr: a line that is drawn over itself on a terminal, and one now and then elsewhere.

use std::io::Write as _;
use std::time::{Duration, Instant};

use aiperf_core::plan::Ui;
use aiperf_core::text::{for_terminal, grouped};
use indicatif::{ProgressBar, ProgressDrawTarget};

use crate::job::Screen;

/// How often the line is drawn.
const TICK: Duration = Duration::from_millis(250);

/// See the module.
pub(super) struct Teller {
    bar: Option<ProgressBar>,
    every: Option<Duration>,
    last: Instant,
}

impl Teller {
    pub(super) fn new(ui: Ui, every_s: f64, screen: Screen) -> Self {
        let is_shown = ui != Ui::None;
        let bar = (is_shown && screen.progress_on_terminal)
            .then(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()));
        let every = match &bar {
            Some(_) => Some(TICK),
            None => (is_shown && every_s > 0.0).then(|| Duration::from_secs_f64(every_s)),
        };
        Self { bar, every, last: Instant::now() }
    }

    /// So many requests of a phase were looked at.
    pub(super) fn say(&mut self, phase: &str, requests: u64, of: Option<u64>) {
        let Some(every) = self.every else { return };
        // Looking at the clock costs less than a request, but not nothing.
        if !requests.is_multiple_of(64) || self.last.elapsed() < every {
            return;
        }
        self.last = Instant::now();
        let of = of.map_or_else(String::new, |of| format!(" of {}", grouped(of)));
        let line = format!("Dry run of {}: {}{of} requests", for_terminal(phase, 80), grouped(requests));
        match &self.bar {
            Some(bar) => {
                bar.set_message(line);
                bar.tick();
            }
            None => {
                let _ = writeln!(std::io::stderr().lock(), "{line}");
            }
        }
    }

    /// It is over.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
