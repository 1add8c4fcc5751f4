//! An examination as a page of text. Every figure of it is in the JSON, too, under the same value.

use aiperf_core::text::grouped;
use std::fmt::Write as _;

use aiperf_run::doctor::{Cost, Examination, Lag, Machine, Peak, RateStep, StreamStep};

/// Columns of a line of advice.
const WIDTH: usize = 100;

/// The page.
pub(super) fn page(found: &Examination) -> String {
    let mut out = String::new();
    machine(&mut out, &found.machine);
    if let Some(peak) = &found.requests {
        peak_lines(&mut out, "Highest rate of requests (closed loop, short answers)", "request", peak);
    }
    if let Some(peak) = &found.chunks {
        peak_lines(&mut out, "Highest rate of chunks (streams as fast as they come)", "chunk", peak);
    }
    if !found.rates.is_empty() {
        head(&mut out, "Sends at a rate (ms from due to first byte out)");
        line(&mut out, "asked/s   sent/s     lag p50 / p99 / max          loop lag p50 / p99 / max     held");
        found.rates.iter().for_each(|step| rate_lines(&mut out, step));
    }
    if !found.streams.is_empty() {
        head(&mut out, "Streams at once (a chunk every 100 ms; ms off that, p50 / p99 / max)");
        found.streams.iter().for_each(|step| stream_lines(&mut out, step));
    }
    if let Some(bytes) = found.bytes_per_stream {
        line(&mut out, &format!("memory: {:.1} KiB for each further stream", bytes as f64 / 1024.0));
    }
    if !found.left_out.is_empty() {
        head(&mut out, "Not measured");
        for left in &found.left_out {
            line(&mut out, &format!("{}: {}", left.what, left.reason));
        }
    }
    if !found.advice.is_empty() {
        head(&mut out, "Advice");
        for advice in &found.advice {
            paragraph(&mut out, advice);
        }
    }
    if found.interrupted {
        head(&mut out, "Stopped by the user; what is missing was not measured");
    }
    out
}

fn head(out: &mut String, text: &str) {
    let gap = if out.is_empty() { "" } else { "\n" };
    let _ = writeln!(out, "{gap}{text}");
}

fn line(out: &mut String, text: &str) {
    let _ = writeln!(out, "  {}", text.trim_end());
}

/// With a dash before it, broken at blanks.
fn paragraph(out: &mut String, text: &str) {
    let mut row = String::from("-");
    for word in text.split(' ') {
        if row.chars().count() + 1 + word.chars().count() > WIDTH {
            line(out, &row);
            row = String::from(" ");
        }
        row.push(' ');
        row.push_str(word);
    }
    line(out, &row);
}

fn machine(out: &mut String, machine: &Machine) {
    head(out, "This machine");
    let unknown = || "not told by the system".to_owned();
    let mut row = |name: &str, value: String| line(out, &format!("{name:<22}{value}"));
    row("cores allowed", machine.cores.to_string());
    let source = machine.clock_source.clone().unwrap_or_else(unknown);
    let step = machine.clock_step_ns.map(|ns| format!(", steps of {ns} ns")).unwrap_or_default();
    row("clock", format!("{source}{step}"));
    row(
        "exact timers",
        if machine.timer_slack_granted { "granted (slack 1 ns)" } else { "not granted" }.into(),
    );
    row(
        "open files",
        machine.descriptors.map_or_else(unknown, |d| {
            format!(
                "{} allowed (soft limit {}, hard limit {})",
                grouped(d.used),
                grouped(d.soft),
                grouped(d.hard)
            )
        }),
    );
    row(
        "local ports",
        machine.ports.map_or_else(unknown, |p| {
            format!("{} to {}: {} connections to one address", p.first, p.last, grouped(p.connections))
        }),
    );
    row("kernel receive stamps", if machine.receive_stamps { "work" } else { "do not work" }.into());
    let pressure = machine.cpu_pressure_percent.map_or_else(unknown, |percent| {
        format!("{percent:.1} % of the 10 s before, something waited for a core")
    });
    row("CPU pressure", pressure);
    row("load", machine.load_average.map_or_else(unknown, |load| format!("{load:.2} in the minute before")));
}

fn peak_lines(out: &mut String, title: &str, each: &str, peak: &Peak) {
    head(out, title);
    line(
        out,
        &format!(
            "{} {each}s a second: {} in {:.2} s, {} at once, {}",
            grouped(peak.per_second.round() as u64),
            grouped(peak.count),
            peak.seconds,
            peak.at_once,
            threads(peak.workers)
        ),
    );
    line(out, &cost(each, &peak.cost));
    if let Some(alone) = peak.per_worker_per_second {
        let told = format!(
            "by its CPU time, a sending thread with a core of its own could do {} a second",
            grouped(alone.round() as u64)
        );
        line(out, &told);
    }
    line(out, &peak.reason);
}

fn threads(workers: usize) -> String {
    if workers == 1 { "1 sending thread".to_owned() } else { format!("{workers} sending threads") }
}

fn rate_lines(out: &mut String, step: &RateStep) {
    let held = if step.held { "yes".to_owned() } else { format!("no, {} of {} late", step.late, step.sent) };
    let achieved = step.achieved.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    let row = format!(
        "{:<9} {achieved:<10} {:<28} {:<28} {held}",
        step.asked,
        spread(step.send_lag),
        spread(step.loop_lag)
    );
    line(out, &row);
    if !step.held {
        line(out, &format!("          {}", step.reason));
    }
}

fn stream_lines(out: &mut String, step: &StreamStep) {
    let failed = if step.failed > 0 { format!(", {} not completed", step.failed) } else { String::new() };
    line(out, &format!("{} asked, {} held at once{failed}", grouped(step.asked), grouped(step.held)));
    line(out, &format!("  gap error {}", spread(step.gap_error)));
    if let Some(late) = step.server_late_mean_ms {
        line(out, &format!("  the server itself wrote late by {late:.3} in the mean"));
    }
    line(out, &format!("  read lag {}; loop lag {}", spread(step.read_lag), spread(step.loop_lag)));
    line(out, &format!("  {}", cost("chunk", &step.cost)));
    line(out, &format!("  {}", step.reason));
}

fn spread(lag: Option<Lag>) -> String {
    lag.map_or_else(
        || "not measured".to_owned(),
        |lag| format!("{:.3} / {:.3} / {:.3}", lag.p50_ms, lag.p99_ms, lag.max_ms),
    )
}

fn cost(each: &str, cost: &Cost) -> String {
    let us = |us: Option<f64>| us.map_or_else(|| "unknown".to_owned(), |us| format!("{us:.2}"));
    format!(
        "CPU us a {each}: sending threads {}, all of the client {}, server {}",
        us(cost.sending_us),
        us(cost.client_us),
        us(cost.server_us)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use aiperf_run::doctor::{Descriptors, LeftOut, Limit, Ports};
    use serde_json::Value;

    const LAG: Lag = Lag { p50_ms: 0.041, p99_ms: 0.125, max_ms: 7.5 };
    const COST: Cost = Cost {
        sending_us: Some(12.25),
        client_us: Some(21.5),
        server_us: Some(31.75),
        client_busy: Some(0.5),
        client_waited: Some(0.01),
        server_busy: Some(0.95),
        server_waited: None,
    };

    fn peak(per_second: f64) -> Peak {
        Peak {
            at_once: 64,
            workers: 1,
            count: 876,
            seconds: 0.75,
            per_second,
            per_worker_per_second: Some(81_632.0),
            cost: COST,
            limit: Limit::Server,
            reason: "the simulated server was the limit".into(),
        }
    }

    fn whole() -> Examination {
        Examination {
            aiperf_doctor: 1,
            seconds: 8.0,
            interrupted: false,
            machine: Machine {
                cores: 2,
                clock_source: Some("tsc".into()),
                clock_step_ns: Some(19),
                timer_slack_granted: true,
                descriptors: Some(Descriptors { soft: 256, hard: 4096, used: 4096 }),
                ports: Some(Ports { first: 32_768, last: 60_999, connections: 28_232 }),
                receive_stamps: true,
                cpu_pressure_percent: Some(12.5),
                load_average: Some(3.25),
            },
            requests: Some(peak(15_321.0)),
            chunks: Some(peak(271_828.0)),
            rates: vec![RateStep {
                asked: 500.0,
                achieved: Some(499.5),
                sent: 350,
                late: 17,
                send_lag: Some(LAG),
                loop_lag: Some(LAG),
                held: false,
                cost: COST,
                limit: Limit::Machine,
                reason: "threads had to wait for a core".into(),
            }],
            streams: vec![StreamStep {
                asked: 4032,
                held: 4001,
                gap_ms: 100.0,
                gap_error: Some(LAG),
                server_late_mean_ms: Some(0.375),
                read_lag: Some(LAG),
                loop_lag: None,
                completed: 4000,
                failed: 31,
                cost: COST,
                limit: Limit::None,
                reason: "client thread ran 50 % of the time".into(),
            }],
            bytes_per_stream: Some(20_480),
            left_out: vec![LeftOut { what: "10000 streams".into(), reason: "open files are limited".into() }],
            advice: vec!["Raise the limit.".into()],
        }
    }

    /// The one line that holds `text`.
    #[track_caller]
    fn line_of<'a>(page: &'a str, text: &str) -> &'a str {
        let lines: Vec<&str> = page.lines().filter(|line| line.contains(text)).collect();
        let [line] = lines[..] else { panic!("{text:?} is in {lines:?} of\n{page}") };
        line
    }

    #[test]
    fn the_page_holds_what_the_document_holds() {
        let found = whole();
        let page = page(&found);
        let json: Value = serde_json::to_value(&found).expect("JSON");
        let number = |pointer: &str| json.pointer(pointer).and_then(Value::as_f64).expect("a number");
        for (text, pointer, shown) in [
            ("cores allowed", "/machine/cores", "2"),
            ("clock", "/machine/clock_step_ns", "19 ns"),
            ("open files  ", "/machine/descriptors/used", "4,096 allowed"),
            ("open files  ", "/machine/descriptors/soft", "soft limit 256"),
            ("local ports", "/machine/ports/connections", "28,232 connections"),
            ("CPU pressure", "/machine/cpu_pressure_percent", "12.5 %"),
            ("load  ", "/machine/load_average", "3.25"),
            ("requests a second", "/requests/per_second", "15,321 requests"),
            ("chunks a second", "/chunks/per_second", "271,828 chunks"),
            ("chunks a second", "/chunks/at_once", "64 at once"),
            ("of 350 late", "/rates/0/asked", "  500 "),
            ("of 350 late", "/rates/0/achieved", "499.5"),
            ("of 350 late", "/rates/0/late", "17 of"),
            ("held at once", "/streams/0/asked", "4,032 asked"),
            ("held at once", "/streams/0/held", "4,001 held"),
            ("wrote late", "/streams/0/server_late_mean_ms", "0.375"),
        ] {
            assert!(line_of(&page, text).contains(shown), "{text}: {shown}\n{page}");
            let digits: String = shown.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
            assert!((digits.parse::<f64>().expect("a number") - number(pointer)).abs() < 1e-9, "{pointer}");
        }
        assert_eq!(page.matches("0.041 / 0.125 / 7.500").count(), 4, "{page}");
        assert_eq!(page.matches("sending threads 12.25, all of the client 21.50, server 31.75").count(), 3);
        assert!(page.contains("20.0 KiB") && page.contains("10000 streams: open files are limited"));
        assert!(page.contains("- Raise the limit."));
    }

    #[test]
    fn what_was_not_measured_has_no_section() {
        let mut found = whole();
        (found.requests, found.chunks, found.bytes_per_stream) = (None, None, None);
        (found.rates, found.streams, found.left_out, found.advice) = Default::default();
        found.interrupted = true;
        let page = page(&found);
        let heads: Vec<&str> = page.lines().filter(|l| !l.starts_with(' ') && !l.is_empty()).collect();
        assert_eq!(heads, ["This machine", "Stopped by the user; what is missing was not measured"]);
    }

    #[test]
    fn a_long_advice_is_broken_at_blanks() {
        let found = Examination { advice: vec!["word ".repeat(60).trim_end().to_owned()], ..whole() };
        let page = page(&found);
        let lines: Vec<&str> = page.lines().skip_while(|l| *l != "Advice").skip(1).collect();
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines.iter().all(|l| l.len() <= WIDTH + 2));
        assert_eq!(lines.concat().matches("word").count(), 60);
    }
}
