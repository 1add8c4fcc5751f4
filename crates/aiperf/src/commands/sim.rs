//! `aiperf sim`: the simulated server as a process.

use std::net::{IpAddr, SocketAddr};

use aiperf_sim::{OPTIONS, SimConfig, SimError};
use clap::{Arg, ArgMatches, Command, value_parser};

use super::download;
use crate::exit::{Exit, FAILED, SUCCESS, USAGE};
use crate::output;

/// The command, made from the simulator's own table of options.
pub(crate) fn command() -> Command {
    let mut command = Command::new("sim")
        .about("Run a simulated OpenAI-compatible inference server")
        .after_help("The same options work as 'sim://?KEY=VALUE&…' in 'aiperf profile --url'.")
        .arg(
            Arg::new("host")
                .long("host")
                .default_value("127.0.0.1")
                .value_parser(value_parser!(IpAddr))
                .help("Address to listen on"),
        )
        .arg(
            Arg::new("port")
                .long("port")
                .default_value("8000")
                .value_parser(value_parser!(u16))
                .help("Port to listen on; 0 lets the system choose"),
        )
        .arg(
            Arg::new("tokenizer")
                .long("tokenizer")
                .default_value("builtin")
                .help("Tokenizer that counts prompts: builtin, a folder, a file or a model's name"),
        )
        .arg(download::arg());
    for option in OPTIONS {
        command = command.arg(
            Arg::new(option.key)
                .long(option.key)
                .value_name("VALUE")
                .help(format!("{} Allowed: {} [default: {}]", option.doc, option.range, option.default)),
        );
    }
    command
}

/// Serves until Ctrl-C.
pub(crate) fn run(matches: &ArgMatches) -> Exit {
    match serve(matches) {
        Ok(exit) => exit,
        Err(error) => {
            output::fail(&error);
            Exit(USAGE)
        }
    }
}

fn serve(matches: &ArgMatches) -> Result<Exit, SimError> {
    let mut config = SimConfig::from_query("")?;
    for option in OPTIONS {
        if let Some(value) = matches.get_one::<String>(option.key) {
            config.set(option.key, value)?;
        }
    }
    let name = matches.get_one::<String>("tokenizer").map_or("builtin", String::as_str);
    let Some(tokenizer) = download::open(name, matches) else { return Ok(Exit(USAGE)) };
    let host = matches.get_one::<IpAddr>("host").copied().unwrap_or(IpAddr::from([127, 0, 0, 1]));
    let port = matches.get_one::<u16>("port").copied().unwrap_or(8000);
    let handle = aiperf_sim::start(config, tokenizer, SocketAddr::new(host, port))?;
    let interrupt = std::sync::Arc::new(aiperf_run::Interrupt::default());
    if let Err(error) = crate::signals::listen(interrupt.clone()) {
        output::say(&format!("error: cannot listen for Ctrl-C: {error}"));
        return Ok(Exit(USAGE));
    }
    // Last, for who reads the line may send a signal at once.
    let told = output::data(&format!("Simulated server on http://{} (Ctrl-C stops it)\n", handle.addr()));
    if told != Exit(SUCCESS) {
        return Ok(told);
    }
    match tokio::runtime::Builder::new_current_thread().build() {
        Ok(runtime) => runtime.block_on(interrupt.wait()),
        Err(error) => output::say(&format!("error: cannot wait for Ctrl-C: {error}")),
    }
    let (totals, _, written) = handle.stop_with_truth();
    let told = output::data(&format!(
        "{} requests: {} answered, {} refused, {} faults, {} left by the client, {} cut by the stop\n",
        totals.requests, totals.completed, totals.rejected, totals.faults, totals.client_gone, totals.stopped
    ));
    if let Err(error) = written {
        output::say(&format!("error: the truth log or the capture is not whole: {error}"));
        return Ok(Exit(FAILED));
    }
    Ok(told)
}
