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

use mimalloc::MiMalloc;

/// What one thread allocates another one frees, with every request. An allocator that locks for that makes the thread that keeps
/// time wait for one of low priority, which may have been put aside with the lock in its hand.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    aiperf_os::memory::give_back_soon();
    aiperf_os::signals::survive_file_size_limit();
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    cli::dispatch(&args).into()
}
