//! `aiperf doctor`: what this machine can do as a client.

mod words;

use std::process::Command as Process;
use std::sync::Arc;
use std::time::Duration;

use aiperf_run::Interrupt;
use aiperf_run::doctor::{self, DoctorError, Wish};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::exit::{Exit, FAILED, INTERRUPTED, SUCCESS};
use crate::{output, signals};

/// The flag that makes this process the server of another one.
const SERVE: &str = "serve";

/// The command.
pub(crate) fn command() -> Command {
    Command::new("doctor")
        .about("Measure what this machine can do as a client, in some seconds, without a server")
        .after_help(
            "The simulated server runs beside it, on the same machine: each figure says which of the two was the limit. Ctrl-C ends it with \
             what was measured.",
        )
        .arg(
            Arg::new("duration-seconds")
                .long("duration-seconds")
                .value_name("SECONDS")
                .default_value("8")
                .value_parser(seconds)
                .help("Time for all measurements together, about"),
        )
        .arg(
            Arg::new("rates")
                .long("rates")
                .value_name("RATES")
                .value_delimiter(',')
                .default_value("100,500,1000")
                .value_parser(rate)
                .help("Requests a second at which lags are measured; higher ones follow until one is not held"),
        )
        .arg(
            Arg::new("streams")
                .long("streams")
                .value_name("N")
                .value_delimiter(',')
                .default_value("1000,10000")
                .value_parser(value_parser!(u32).range(1..=1_000_000))
                .help("Streams at once, with a chunk every 100 ms each"),
        )
        .arg(
            Arg::new("workers-max")
                .long("workers-max")
                .value_name("N")
                .value_parser(value_parser!(u16).range(1..))
                .help("Most threads that send [default: one less than there are cores]"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print one JSON document"))
        .arg(Arg::new(SERVE).long(SERVE).action(ArgAction::SetTrue).hide(true))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wanted = text.parse().ok().filter(|s: &f64| (0.1..=3600.0).contains(s));
    wanted.map(Duration::from_secs_f64).ok_or_else(|| "seconds are from 0.1 to 3600".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    let wanted = text.parse().ok().filter(|r: &f64| (0.1..=1e6).contains(r));
    wanted.ok_or_else(|| "rates are from 0.1 to 1000000 a second".to_owned())
}

/// Measures, and tells.
pub(crate) fn run(matches: &ArgMatches) -> Exit {
    let done = if matches.get_flag(SERVE) { serve() } else { measure(matches) };
    done.unwrap_or_else(|error| {
        output::fail(&error);
        Exit(FAILED)
    })
}

fn serve() -> Result<Exit, DoctorError> {
    doctor::serve(std::io::stdin().lock(), std::io::stdout().lock())?;
    Ok(Exit(SUCCESS))
}

fn measure(matches: &ArgMatches) -> Result<Exit, DoctorError> {
    let wish = Wish {
        budget: matches.get_one("duration-seconds").copied().unwrap_or_default(),
        rates: matches.get_many("rates").map(|rates| rates.copied().collect()).unwrap_or_default(),
        streams: matches.get_many("streams").map(|streams| streams.copied().collect()).unwrap_or_default(),
        workers_max: matches.get_one::<u16>("workers-max").copied().map(usize::from),
    };
    let own = std::env::current_exe()
        .map_err(|source| DoctorError::Process { action: "find the program for", source })?;
    let mut server = Process::new(own);
    server.args(["doctor", "--serve"]);
    let interrupt = Arc::new(Interrupt::default());
    if let Err(error) = signals::listen(interrupt.clone()) {
        output::say(&format!("warning: Ctrl-C ends at once, without results: {error}"));
    }
    let found = doctor::examine(&wish, server, &interrupt, &mut output::say)?;
    let shown = if matches.get_flag("json") {
        match serde_json::to_string_pretty(&found) {
            Ok(text) => output::data(&format!("{text}\n")),
            Err(error) => {
                output::fail(&error);
                Exit(FAILED)
            }
        }
    } else {
        output::data(&words::page(&found))
    };
    Ok(if found.interrupted && shown == Exit(SUCCESS) { Exit(INTERRUPTED) } else { shown })
}
