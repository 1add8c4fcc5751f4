//! `aiperf explain METRIC`: what a metric is, what counts for it, where it stands, and what others call it.

use std::fmt::Write as _;
use std::io::IsTerminal;

use aiperf_core::text::nearest;
use aiperf_metrics::{Explanation, TOOLS, explain, find, public_metrics};
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Map, Value, json};

use super::profile::terminal_width;
use crate::exit::{Exit, USAGE};
use crate::output;

/// Lines are no longer than this where the screen is wider, or is none.
const WIDTH: usize = 110;
/// Column where the texts begin.
const INDENT: usize = 11;

/// The command.
pub(crate) fn command() -> Command {
    Command::new("explain")
        .about(
            "Say what a metric is: its rule, what counts, where it is exported, and what other tools call it",
        )
        .after_help("Without a metric it lists all of them.")
        .arg(
            Arg::new("metric")
                .value_name("METRIC")
                .num_args(0..)
                .action(ArgAction::Append)
                .help("Tag of a metric, such as time_to_first_token; one or several"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("As a JSON list"))
}

/// Prints the explanations, or the list.
pub(crate) fn run(matches: &ArgMatches) -> Exit {
    let asked: Vec<&str> =
        matches.get_many::<String>("metric").into_iter().flatten().map(String::as_str).collect();
    let mut found = Vec::new();
    let mut wrong = Vec::new();
    for tag in &asked {
        match explain(tag) {
            Some(words) => found.push(words),
            None => wrong.push(unknown(tag)),
        }
    }
    if !wrong.is_empty() {
        for text in &wrong {
            output::say(text);
        }
        return Exit(USAGE);
    }
    let is_list = asked.is_empty();
    if is_list {
        found = public_metrics().map(Explanation::of).collect();
    }
    let width =
        std::io::stdout().is_terminal().then(terminal_width).flatten().map_or(WIDTH, |w| w.min(WIDTH));
    output::data(&if matches.get_flag("json") {
        format!("{:#}\n", Value::Array(found.iter().map(as_json).collect()))
    } else if is_list {
        list()
    } else {
        found.iter().map(|words| as_text(words, width)).collect::<Vec<_>>().join("\n")
    })
}

fn unknown(tag: &str) -> String {
    if find(tag).is_some() {
        return format!("error: the metric '{tag}' is internal: others build on it, and no file has it.");
    }
    // Names as people say them: a header, or the short form.
    let said = |name: &str| name.eq_ignore_ascii_case(tag);
    let by_name = public_metrics().find(|m| said(m.short) || said(m.header)).map(|m| m.tag);
    let hint = by_name
        .or_else(|| nearest(&tag.to_lowercase().replace(['-', ' '], "_"), public_metrics().map(|m| m.tag)))
        .map(|n| format!(" Did you mean '{n}'?"))
        .unwrap_or_default();
    format!("error: there is no metric '{tag}'.{hint} 'aiperf explain' lists all of them.")
}

fn list() -> String {
    let widest = |of: fn(&aiperf_metrics::MetricSpec) -> &str| {
        public_metrics().map(|m| of(m).chars().count()).max().unwrap_or(0)
    };
    let (tags, units) = (widest(|m| m.tag), widest(|m| m.display.name()));
    let mut out = String::new();
    for metric in public_metrics() {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{:tags$}  {:units$}  {}", metric.tag, metric.display.name(), metric.header);
    }
    out
}

fn as_text(words: &Explanation, width: usize) -> String {
    let spec = words.spec;
    let mut out = format!("{}\n", spec.tag);
    let mut put = |label: &str, text: &str| {
        for (i, line) in wrap(text, width.saturating_sub(INDENT + 2).max(20)).iter().enumerate() {
            let _ = writeln!(out, "  {:INDENT$}{line}", if i == 0 { label } else { "" });
        }
    };
    put("name", &format!("{} ({})", spec.header, spec.short));
    put("unit", spec.display.name());
    put("rule", spec.formula);
    put("chunks", words.chunks);
    put("requests", words.requests);
    let flags = spec.flags.words();
    put("flags", &if flags.is_empty() { "none".to_owned() } else { flags.join(", ") });
    for (i, line) in words.exported.iter().enumerate() {
        put(if i == 0 { "exported" } else { "" }, line);
    }
    put("AIPerf", words.aiperf);
    out.push_str("  elsewhere\n");
    for ((tool, _), other) in TOOLS.iter().zip(words.elsewhere) {
        let text = match (other.fields.is_empty(), other.differs) {
            (true, _) => format!("{tool}: no such metric"),
            (false, "") => format!("{tool}: {}", other.fields.join(", ")),
            (false, differs) => format!("{tool}: {}. {differs}", other.fields.join(", ")),
        };
        for (i, line) in wrap(&text, width.saturating_sub(6).max(20)).iter().enumerate() {
            let _ = writeln!(out, "    {}{line}", if i == 0 { "" } else { "  " });
        }
    }
    out
}

/// Lines of at most `width` characters, broken at blanks; a longer word stays whole.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let room = lines.last().map_or(0, |line| line.chars().count());
        match lines.last_mut() {
            Some(line) if room == 0 => line.push_str(word),
            Some(line) if room + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn as_json(words: &Explanation) -> Value {
    let spec = words.spec;
    let elsewhere: Map<String, Value> = TOOLS
        .iter()
        .zip(words.elsewhere)
        .map(|((tool, version), other)| {
            let differs = Some(other.differs).filter(|d| !d.is_empty());
            ((*tool).to_owned(), json!({"version": version, "fields": other.fields, "differs": differs}))
        })
        .collect();
    json!({
        "tag": spec.tag,
        "header": spec.header,
        "short": spec.short,
        "unit": spec.display.name(),
        "kind": spec.compute.kind(),
        "rule": spec.formula,
        "chunks": words.chunks,
        "requests": words.requests,
        "flags": spec.flags.words(),
        "exported": words.exported,
        "aiperf": words.aiperf,
        "elsewhere": elsewhere,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_gets_the_nearest_metric() {
        for (said, meant) in [
            ("time_to_frist_token", "time_to_first_token"),
            ("TTFT", "time_to_first_token"),
            ("inter-token-latency", "inter_token_latency"),
            ("Request Latency", "request_latency"),
        ] {
            let text = unknown(said);
            assert!(text.contains(&format!("Did you mean '{meant}'?")), "{text}");
        }
        assert!(!unknown("qqqqqqqqqqqqqqqqqqqqqqq").contains("Did you mean"));
        assert!(unknown("min_request_timestamp").contains("internal"));
    }

    #[test]
    fn lines_break_at_blanks() {
        assert_eq!(wrap("a bb ccc dddd", 4), ["a bb", "ccc", "dddd"]);
        assert_eq!(wrap("aaaaaa b", 3), ["aaaaaa", "b"]);
        assert_eq!(wrap("", 3), [""]);
    }
}
