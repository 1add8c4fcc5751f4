//! `aiperf tokenizer NAME`: what a user needs to know before trusting a tokenizer's counts.

use std::fmt::Write as _;
use std::sync::Arc;

use aiperf_core::plan::MarkerTarget;
use aiperf_core::text::for_terminal;
use aiperf_data::{LengthCheck, MarkerCost, check_lengths, marker_cost};
use aiperf_tokens::{CountError, Probe, TemplateClock, Tokenizer, probe};
use clap::{Arg, ArgMatches, Command, value_parser};
use serde_json::{Map, Value, json};

use super::download;
use crate::exit::{Exit, USAGE};
use crate::output;

/// Prompts measured unless told otherwise.
const PROMPTS: &str = "300";
/// Characters of the longest line; a template's own words can be of any length.
const LINE: usize = 1_000;

/// The command.
pub(crate) fn command() -> Command {
    Command::new("tokenizer")
        .about("Show what a tokenizer is and measure how exact its lengths are")
        .arg(Arg::new("name").required(true).value_name("NAME").help(
            "builtin or another built-in encoding, a folder with tokenizer.json or tekken.json, such a file, or a model in \
             the hub's cache (OWNER/NAME, OWNER/NAME@REVISION)",
        ))
        .arg(download::arg())
        .arg(
            Arg::new("samples")
                .long("samples")
                .value_name("N")
                .default_value(PROMPTS)
                .value_parser(value_parser!(u32).range(1..=1_000_000))
                .help("Prompts of all sizes up to 2,047 tokens that are made and counted again"),
        )
        .arg(
            Arg::new("format")
                .long("format")
                .short('f')
                .value_parser(["text", "json"])
                .default_value("text")
                .help("Form of the output"),
        )
}

/// Prints the findings.
pub(crate) fn run(matches: &ArgMatches) -> Exit {
    let name = matches.get_one::<String>("name").map_or("builtin", String::as_str);
    let Some(tokenizer) = download::open(name, matches) else { return Exit(USAGE) };
    let prompts = matches.get_one::<u32>("samples").map_or(0, |n| *n as usize);
    let findings = Findings::of(tokenizer, prompts);
    output::data(&match matches.get_one::<String>("format").map(String::as_str) {
        Some("json") => format!("{:#}\n", findings.json()),
        _ => findings.text(),
    })
}

/// All that is found out about a tokenizer.
struct Findings {
    tokenizer: Arc<dyn Tokenizer>,
    probe: Probe,
    markers: Vec<(MarkerTarget, MarkerCost)>,
    lengths: LengthCheck,
}

/// How texts of an asked length are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Sums,
    Search,
}

impl Findings {
    fn of(tokenizer: Arc<dyn Tokenizer>, prompts: usize) -> Self {
        let now = TemplateClock::from_wall_ns(aiperf_os::wall_ns());
        let probe = probe(&*tokenizer, now);
        let markers = MarkerTarget::ALL.map(|target| (target, marker_cost(&*tokenizer, target))).into();
        let lengths = check_lengths(&tokenizer, &probe, now, prompts);
        Self { tokenizer, probe, markers, lengths }
    }

    fn method(&self) -> Method {
        if self.lengths.by_sums > 0 { Method::Sums } else { Method::Search }
    }

    /// A special token and its id.
    fn token(&self, text: Option<&str>) -> Option<(String, Option<u32>)> {
        text.map(|text| (text.to_owned(), self.tokenizer.token_id(text)))
    }

    fn text(&self) -> String {
        let mut out = String::new();
        let mut row = |label: &str, text: String| {
            // Writing to a String cannot fail. Names and templates' words come from files that others made.
            let text = for_terminal(&text, LINE);
            let _ = writeln!(out, "{label:<16}{text}");
        };
        let tokenizer = &*self.tokenizer;
        let origin = tokenizer.origin();
        row("Tokenizer", tokenizer.name().to_owned());
        row("Kind", origin.kind.name().to_owned());
        if let Some(path) = &origin.path {
            row("File", path.display().to_string());
        }
        row("Vocabulary", format!("{} tokens", tokenizer.vocab_size()));
        for (label, text) in [("BOS", tokenizer.bos_token()), ("EOS", tokenizer.eos_token())] {
            row(label, self.token(text).map_or_else(|| "none".to_owned(), told_token));
        }
        row(
            "Added",
            match tokenizer.prompt_specials() {
                0 => "no special token is put around a completions prompt".to_owned(),
                1 => "1 special token is put around a completions prompt, inside its length".to_owned(),
                n => format!("{n} special tokens are put around a completions prompt, inside its length"),
            },
        );
        row(
            "Chat template",
            match (&origin.template, tokenizer.chat_template()) {
                (Some(path), Some(_)) => path.display().to_string(),
                (None, Some(_)) => "yes".to_owned(),
                (_, None) => "none: lengths are those of the bare text".to_owned(),
            },
        );
        if tokenizer.chat_template().is_some() {
            self.template_rows(&mut row);
        }
        self.marker_rows(&mut row);
        self.length_rows(&mut row);
        out
    }

    fn template_rows(&self, row: &mut impl FnMut(&str, String)) {
        let Probe { fixed, wrap, samples, problem, system, consecutive } = &self.probe;
        let specials = self.tokenizer.prompt_specials();
        match problem {
            Some(problem) => row("Template cost", format!("cannot be told: {problem}")),
            None => row(
                "Template cost",
                format!("{fixed} a request and {wrap} a message, tokens, by AIPerf's linear estimate"),
            ),
        }
        for s in samples {
            row(
                "",
                format!(
                    "fixed {:.1}, wrap {:.1}: {} bare, {} as one turn, {} as three ({:?})",
                    s.fixed(specials),
                    s.wrap(),
                    s.bare,
                    s.single,
                    s.triple,
                    s.text
                ),
            );
        }
        let accepted = |refused: &Option<CountError>| {
            refused.as_ref().map_or_else(|| "accepted".to_owned(), |error| format!("refused: {error}"))
        };
        row("System message", accepted(system));
        row("User twice", accepted(consecutive));
    }

    fn marker_rows(&self, row: &mut impl FnMut(&str, String)) {
        for (index, (target, cost)) in self.markers.iter().enumerate() {
            let least = cost.samples.iter().min().copied().unwrap_or(0);
            let most = cost.samples.iter().max().copied().unwrap_or(0);
            let words = if target.is_warmup_isolation() {
                format!("0, and {most} in warm-up requests")
            } else {
                format!("{} ({least} to {most})", cost.estimate)
            };
            row(if index == 0 { "Marker cost" } else { "" }, format!("{}: {words}", target.name()));
        }
    }

    fn length_rows(&self, row: &mut impl FnMut(&str, String)) {
        let LengthCheck { prompts, longest, exact, by_sums, restored, misses, first_guess } = &self.lengths;
        row(
            "Lengths",
            format!(
                "{} by {}: {exact} of {prompts} prompts of 1 to {longest} tokens",
                if exact == prompts { "exact" } else { "not always exact" },
                match self.method() {
                    Method::Sums => "prefix sums",
                    Method::Search => "search, whole texts counted",
                }
            ),
        );
        if self.method() == Method::Sums && by_sums < prompts {
            row("", format!("{by_sums} by sums alone, {} by search", prompts - by_sums));
        }
        for miss in misses {
            row("", format!("no text of {} tokens was found; the nearest has {}", miss.asked, miss.nearest));
        }
        if let Some(guess) = first_guess {
            row(
                "First guess",
                format!(
                    "bare text plus template cost is the rendered count in {} of {} prompts{}",
                    guess.exact,
                    guess.prompts,
                    if guess.exact == guess.prompts {
                        String::new()
                    } else {
                        format!(", off by {:+} to {:+}", guess.least, guess.most)
                    }
                ),
            );
        }
        let returned = exact.min(restored);
        row(
            "Round trip",
            if restored == prompts {
                "texts come back unchanged from their ids".to_owned()
            } else {
                format!(
                    "{returned} of {prompts} texts come back unchanged from their ids; lengths are counted on the text as it \
                     is sent"
                )
            },
        );
    }

    fn json(&self) -> Value {
        let tokenizer = &*self.tokenizer;
        let origin = tokenizer.origin();
        let specials = tokenizer.prompt_specials();
        let token = |text| self.token(text).map(|(text, id)| json!({"text": text, "id": id}));
        let told = |error: &Option<CountError>| error.as_ref().map(ToString::to_string);
        let samples: Vec<Value> = self
            .probe
            .samples
            .iter()
            .map(|s| {
                json!({"text": s.text, "bare": s.bare, "single": s.single, "triple": s.triple,
                       "fixed": s.fixed(specials), "wrap": s.wrap()})
            })
            .collect();
        let markers: Map<String, Value> = self
            .markers
            .iter()
            .map(|(target, cost)| {
                (target.name().to_owned(), json!({"estimate": cost.estimate, "samples": cost.samples}))
            })
            .collect();
        let lengths = &self.lengths;
        let template = tokenizer.chat_template().map(|_| {
            json!({
                "file": origin.template,
                "fixed": self.probe.fixed,
                "wrap": self.probe.wrap,
                "samples": samples,
                "problem": told(&self.probe.problem),
                "refuses_system": told(&self.probe.system),
                "refuses_consecutive_users": told(&self.probe.consecutive),
            })
        });
        json!({
            "name": tokenizer.name(),
            "kind": origin.kind.name(),
            "file": origin.path,
            "vocab_size": tokenizer.vocab_size(),
            "bos": token(tokenizer.bos_token()),
            "eos": token(tokenizer.eos_token()),
            "prompt_specials": specials,
            "chat_template": template,
            "markers": markers,
            "lengths": {
                "method": match self.method() { Method::Sums => "prefix_sums", Method::Search => "search" },
                "prompts": lengths.prompts,
                "longest": lengths.longest,
                "exact": lengths.exact,
                "by_sums": lengths.by_sums,
                "restored": lengths.restored,
                "misses": lengths.misses.iter().map(|m| json!({"asked": m.asked, "nearest": m.nearest}))
                    .collect::<Vec<_>>(),
                "first_guess": lengths.first_guess.map(|g| {
                    json!({"prompts": g.prompts, "exact": g.exact, "least_error": g.least, "most_error": g.most})
                }),
            },
        })
    }
}

fn told_token((text, id): (String, Option<u32>)) -> String {
    match id {
        Some(id) => format!("{text} ({id})"),
        None => format!("{text} (no token of the vocabulary)"),
    }
}
