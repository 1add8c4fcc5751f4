//! The page on the screen.

use std::fmt::Write as _;

use aiperf_core::text::{for_terminal, grouped};
use aiperf_core::time::ns_to_seconds;

use super::{ArrivalCurve, Bound, CacheForecast, DryRun, LengthCounts, PhaseForecast};

/// Columns in front of what a line says.
const LABEL: usize = 20;
/// Most columns of a plot.
const PLOT: usize = 60;
/// Characters of a name or text that came from elsewhere.
const NAME: usize = 200;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The page, no wider than `width` columns where its lines can be broken.
pub fn text(run: &DryRun<'_>, width: usize) -> String {
    let mut page = Page { out: String::new(), width: width.max(40) };
    page.line("Dry run", "nothing was sent");
    let dataset = format!(
        "{}, {} with {}",
        run.dataset,
        many(run.conversations, "conversation"),
        many(run.turns, "turn")
    );
    page.line("Dataset", &dataset);
    page.line("Tokenizer", &for_terminal(run.tokenizer.unwrap_or("none: lengths are not counted"), NAME));
    page.line("Random seed", &run.seed.to_string());
    for phase in run.phases {
        page.phase(phase);
    }
    if !run.is_complete || !run.notes.is_empty() {
        page.out.push('\n');
    }
    if !run.is_complete {
        page.line("Stopped", "the user stopped it: these numbers are of what was looked at until then");
    }
    for note in run.notes {
        page.line("Note", &for_terminal(note, usize::MAX));
    }
    page.out
}

struct Page {
    out: String,
    width: usize,
}

impl Page {
    /// A line with its label; what is too long goes on below, behind the same margin.
    fn line(&mut self, label: &str, said: &str) {
        let room = self.width.saturating_sub(LABEL).max(20);
        let mut line = String::new();
        let mut label = label;
        for word in said.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
                self.whole(label, &line);
                label = "";
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.whole(label, &line);
    }

    fn whole(&mut self, label: &str, said: &str) {
        let line = format!("{label:<LABEL$}{said}");
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn plot(&mut self, bins: &[u64], from: &str, to: &str) {
        self.whole("", &format!("{from} {} {to}", bars(bins)));
    }

    /// Columns of a plot.
    fn room(&self) -> usize {
        self.width.saturating_sub(LABEL + 24).clamp(8, PLOT)
    }

    fn phase(&mut self, phase: &PhaseForecast) {
        self.out.push('\n');
        let kind = if phase.is_warmup { "warm-up" } else { "profiling" };
        let name = for_terminal(&phase.name, NAME);
        self.line("Phase", &format!("{name} ({kind}, {})", phase.pacing));
        let requests = format!(
            "{}{} of {}{}",
            match phase.bound {
                Bound::Most => "at most ",
                Bound::About => "about ",
                Bound::Exact | Bound::OnePass => "",
            },
            many(phase.requests, "request"),
            many(phase.sessions, "session"),
            match phase.later_turns {
                0 => String::new(),
                n => format!("; {} behind the first turn", grouped(n)),
            }
        );
        self.line("Requests", &requests);
        if phase.bound == Bound::OnePass {
            self.line("", "the answers decide how many; these numbers are of as many sessions as there are conversations");
        }
        self.arrivals(phase);
        self.line("Bytes up", &format!("{} of bodies", bytes(phase.body_bytes)));
        let asked = phase.isl_asked.count();
        self.lengths("ISL asked", &phase.isl_asked);
        if asked > 0 {
            self.line(
                "",
                &format!("{} of {} made to a length have exactly that", grouped(phase.exact), grouped(asked)),
            );
        }
        self.lengths("ISL sent", &phase.isl_sent);
        self.lengths("OSL asked", &phase.osl_asked);
        if phase.osl_asked.count() == 0 {
            self.line("OSL asked", "none: the server decides");
        }
        self.repeats(phase);
        self.cache(&phase.cache, phase.is_warmup);
    }

    fn arrivals(&mut self, phase: &PhaseForecast) {
        let arrivals: &ArrivalCurve = &phase.arrivals;
        if arrivals.requests() == 0 {
            let until = match phase.sending_ns {
                Some(ns) => format!("whenever a place is free, for {}", time(ns)),
                None => "whenever a place is free; the answers decide how long that takes".to_owned(),
            };
            return self.line("Arrivals", &until);
        }
        let last_ns = arrivals.last_ns();
        let rate = match arrivals.requests() - 1 {
            gaps if gaps > 0 && last_ns > 0 => {
                format!(", {:.3}/s in the mean", gaps as f64 / ns_to_seconds(last_ns))
            }
            _ => String::new(),
        };
        let sending = phase.sending_ns.map_or_else(String::new, |ns| format!("; sending lasts {}", time(ns)));
        self.line(
            "Arrivals",
            &format!("{} planned within {}{rate}{sending}", grouped(arrivals.requests()), time(last_ns)),
        );
        let bins = arrivals.narrowed(self.room());
        if bins.len() > 1 {
            self.plot(&bins, "0 s", &time(last_ns));
        }
        let untimed = phase.requests - arrivals.requests().min(phase.requests);
        if untimed > 0 {
            self.line("", &format!("{} more when the turn before is answered", grouped(untimed)));
        }
    }

    fn lengths(&mut self, label: &str, counts: &LengthCounts) {
        let Some(s) = counts.spread() else { return };
        self.line(
            label,
            &format!(
                "min {}, mean {:.1}, p50 {:.1}, p99 {:.1}, max {} tokens ({})",
                grouped(s.min),
                s.mean,
                s.p50,
                s.p99,
                grouped(s.max),
                many(s.count, "request"),
            ),
        );
        if s.max > s.min {
            let bins = (s.max - s.min + 1).min(self.room() as u64) as usize;
            self.plot(&counts.bins(bins), &grouped(s.min), &grouped(s.max));
        }
    }

    fn repeats(&mut self, phase: &PhaseForecast) {
        let repeats = &phase.repeats;
        if repeats.requests == 0 {
            return;
        }
        let mut said = if repeats.distinct == repeats.requests {
            "none: no two requests are the same".to_owned()
        } else {
            format!(
                "{} are {} different ones; one is sent up to {} times",
                many(repeats.requests, "request"),
                grouped(repeats.distinct),
                grouped(repeats.most)
            )
        };
        if repeats.in_warmup > 0 {
            // Writing to a String cannot fail.
            let _ =
                write!(said, "; the warm-up has sent {} of the different ones", grouped(repeats.in_warmup));
        }
        self.line("Identical", &said);
    }

    fn cache(&mut self, cache: &CacheForecast, is_warmup: bool) {
        let (Some(rate), Some(with_replies)) = (cache.hit_rate(), cache.hit_rate_with_replies()) else {
            return;
        };
        let least = if cache.is_least { "at least " } else { "" };
        self.line(
            "Prefix cache",
            &format!(
                "{least}{} of {} prompt tokens found, in blocks of {} tokens",
                share(rate),
                grouped(cache.prompt_tokens),
                cache.block_tokens
            ),
        );
        if cache.with_replies_tokens != cache.cached_tokens {
            self.line(
                "",
                &format!(
                    "{least}{} where the server also keeps the blocks that it decoded",
                    share(with_replies)
                ),
            );
        }
        if cache.warmup_tokens > 0 && !is_warmup {
            let of_warmup = cache.warmup_tokens as f64 / cache.prompt_tokens as f64;
            self.line("", &format!("{} of the prompt tokens are in it from the warm-up", share(of_warmup)));
        }
        if cache.unknown > 0 {
            self.line(
                "",
                &format!("without {} whose prompt is not known beforehand", many(cache.unknown, "request")),
            );
        }
    }
}

fn many(count: u64, word: &str) -> String {
    format!("{} {word}{}", grouped(count), if count == 1 { "" } else { "s" })
}

fn share(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A row of bars; what is none is a dot.
fn bars(bins: &[u64]) -> String {
    let most = bins.iter().copied().max().unwrap_or(0).max(1);
    let bar = |n: u64| BARS[((u128::from(n) * BARS.len() as u128).div_ceil(u128::from(most)) - 1) as usize];
    bins.iter().map(|n| if *n == 0 { '·' } else { bar(*n) }).collect()
}

fn time(ns: u64) -> String {
    let seconds = ns_to_seconds(ns);
    match seconds {
        ..120.0 => format!("{seconds:.3} s"),
        ..7_200.0 => format!("{:.1} min", seconds / 60.0),
        ..172_800.0 => format!("{:.1} hours", seconds / 3_600.0),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}

fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = "bytes";
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "bytes" { many(bytes, "byte") } else { format!("{value:.1} {unit}") }
}
