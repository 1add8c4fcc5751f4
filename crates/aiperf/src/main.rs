//! `aiperf`: load generator and measuring instrument for LLM inference servers.
//!
//! This binary is arguments, commands and exit codes; everything else lives in the crates below it.

mod cli;
mod commands;
mod exit;
mod logging;
mod output;
mod signals;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    cli::dispatch(&args).into()
}
