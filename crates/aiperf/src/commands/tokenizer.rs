//! `aiperf tokenizer NAME`: what a user needs to know before trusting a tokenizer's counts.

use std::fmt::Write as _;
use std::sync::Arc;

use aiperf_config::Rejected;
use aiperf_core::plan::{MarkerTarget, Plan};
use aiperf_core::text::for_terminal;
use aiperf_data::{
    DataError, LengthCheck, LengthMiss, MarkerCost, RenderedCheck, RequestShape, ShapeCheck, check_lengths,
    check_rendered, marker_cost,
};
use aiperf_tokens::{CountError, Probe, TemplateClock, Tokenizer, probe};
use clap::{Arg, ArgMatches, Command, value_parser};
use serde_json::{Map, Value, json};

use super::download;
use crate::exit::{Exit, USAGE};
use crate::output;

/// Prompts measured unless told otherwise.
const PROMPTS: &str = "300";
/// The run whose requests are measured with the chat template; they are not sent.
const RUN: &str =
    "--model demo --tokenizer builtin --url http://localhost --apply-chat-template --random-seed 0";
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
                .help(
                    "Prompts of all sizes up to 2,047 tokens that are made and counted again; as many conversations with the chat template",
                ),
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
    let findings = match Findings::of(tokenizer, prompts) {
        Ok(findings) => findings,
        Err(rejected) => return super::profile::reject(&rejected),
    };
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
    /// With the chat template, where there is one.
    rendered: Option<Result<RenderedCheck, DataError>>,
}

/// How texts of an asked length are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Sums,
    Search,
}

impl Findings {
    fn of(tokenizer: Arc<dyn Tokenizer>, prompts: usize) -> Result<Self, Rejected> {
        let now = TemplateClock::from_wall_ns(aiperf_os::wall_ns());
        let probe = probe(&*tokenizer, now);
        let markers = MarkerTarget::ALL.map(|target| (target, marker_cost(&*tokenizer, target))).into();
        let lengths = check_lengths(&tokenizer, &probe, now, prompts);
        let rendered = match tokenizer.chat_template() {
            Some(_) => Some(check_rendered(&tokenizer, &plan()?, now, prompts)),
            None => None,
        };
        Ok(Self { tokenizer, probe, markers, lengths, rendered })
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
        match &self.rendered {
            Some(Ok(check)) => rendered_rows(check, &mut row),
            // The probe has told why.
            Some(Err(_)) => row("Rendered", "no request can be made with the chat template".to_owned()),
            None => {}
        }
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
        if problem.is_none() {
            row("", self.taken_off());
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

    /// What the estimate takes off, beside what the template really costs.
    fn taken_off(&self) -> String {
        let off = self.probe.first_turn_adjustment(0);
        let marker = self.markers.iter().find(|(target, _)| *target == MarkerTarget::FirstTurnPrefix);
        let marked = self.probe.first_turn_adjustment(marker.map_or(0, |(_, cost)| cost.estimate));
        let later = self.probe.later_turn_adjustment();
        let mut words = format!(
            "it would take {off} off a first turn, {marked} with a marker, and {later} off a later one"
        );
        if let Some((least, most)) = self.first_turn_cost() {
            let really = if least == most { least.to_string() } else { format!("{least} to {most}") };
            let _ = write!(words, "; a first turn really costs {really}");
        }
        words
    }

    /// What the template adds to a first turn, least and most of the prompts measured; the tokenizer's own specials taken off.
    fn first_turn_cost(&self) -> Option<(i64, i64)> {
        let estimate = self.probe.first_turn_adjustment(0) as i64;
        self.lengths.first_guess.map(|guess| (estimate + guess.least, estimate + guess.most))
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
        let LengthCheck { prompts, longest, exact, by_sums, whole, restored, misses, first_guess } =
            &self.lengths;
        row(
            "Lengths",
            format!(
                "{} by {}: {exact} of {prompts} prompts of 1 to {longest} tokens",
                if exact == prompts { "exact" } else { "not always exact" },
                match self.method() {
                    Method::Sums if *whole => "prefix sums, whole texts counted",
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
                let off = self.probe.first_turn_adjustment(cost.estimate);
                let found =
                    json!({"estimate": cost.estimate, "samples": cost.samples, "first_turn_adjustment": off});
                (target.name().to_owned(), found)
            })
            .collect();
        let lengths = &self.lengths;
        let template = tokenizer.chat_template().map(|_| {
            json!({
                "file": origin.template,
                "fixed": self.probe.fixed,
                "wrap": self.probe.wrap,
                "first_turn_adjustment": self.probe.first_turn_adjustment(0),
                "later_turn_adjustment": self.probe.later_turn_adjustment(),
                "first_turn_cost": self.first_turn_cost().map(|(least, most)| json!({"least": least, "most": most})),
                "samples": samples,
                "problem": told(&self.probe.problem),
                "refuses_system": told(&self.probe.system),
                "refuses_consecutive_users": told(&self.probe.consecutive),
                "rendered": self.rendered.as_ref().and_then(|check| check.as_ref().ok()).map(rendered_json),
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
                "whole_texts_counted": lengths.whole,
                "misses": misses(&lengths.misses),
                "first_guess": lengths.first_guess.map(|g| {
                    json!({"prompts": g.prompts, "exact": g.exact, "least_error": g.least, "most_error": g.most})
                }),
            },
        })
    }
}

/// The plan of an ordinary run.
fn plan() -> Result<Plan, Rejected> {
    let words: Vec<_> = RUN.split(' ').map(Into::into).collect();
    aiperf_config::resolve_profile(&words, &|_| None, &|| 0).map(|resolved| resolved.plan)
}

fn rendered_rows(check: &RenderedCheck, row: &mut impl FnMut(&str, String)) {
    let (requests, exact) = (check.requests(), check.exact());
    row(
        "Rendered",
        format!(
            "{} by {}: {exact} of {requests} requests, rendered and counted whole",
            if exact == requests { "exact" } else { "not always exact" },
            if check.whole { "whole requests rendered" } else { "walls and seams" },
        ),
    );
    for shape in &check.shapes {
        row("", format!("{}: {}", shape_words(shape.shape), shape_result(shape)));
        for miss in &shape.misses {
            row("", format!("  {} asked for, {} found", miss.asked, miss.nearest));
        }
    }
}

const fn shape_words(shape: RequestShape) -> &'static str {
    match shape {
        RequestShape::First => "first request",
        RequestShape::Marked => "with a marker",
        RequestShape::System => "with a system message, marker on it",
        RequestShape::Context => "with a user context",
        RequestShape::Later => "later turns",
    }
}

fn shape_result(check: &ShapeCheck) -> String {
    let ShapeCheck { shape, refused, least, requests, exact, .. } = check;
    if let Some(words) = refused {
        return format!("refused: {words}");
    }
    if *requests == 0 {
        return "cannot be told apart in what the template writes".to_owned();
    }
    match least {
        // Turns behind the first have a least of their own.
        Some(least) if *shape != RequestShape::Later => {
            format!("{exact} of {requests}, the least possible ISL is {least}")
        }
        _ => format!("{exact} of {requests}"),
    }
}

fn rendered_json(check: &RenderedCheck) -> Value {
    let shapes: Map<String, Value> = check
        .shapes
        .iter()
        .map(|shape| {
            let told = json!({
                "refused": shape.refused,
                "least_isl": shape.least,
                "requests": shape.requests,
                "exact": shape.exact,
                "misses": misses(&shape.misses),
            });
            (shape.shape.name().to_owned(), told)
        })
        .collect();
    json!({
        "method": if check.whole { "whole_requests" } else { "walls_and_seams" },
        "requests": check.requests(),
        "exact": check.exact(),
        "shapes": shapes,
    })
}

fn misses(misses: &[LengthMiss]) -> Vec<Value> {
    misses.iter().map(|m| json!({"asked": m.asked, "nearest": m.nearest})).collect()
}

fn told_token((text, id): (String, Option<u32>)) -> String {
    match id {
        Some(id) => format!("{text} ({id})"),
        None => format!("{text} (no token of the vocabulary)"),
    }
}
