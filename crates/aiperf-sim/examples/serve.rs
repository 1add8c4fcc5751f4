//! Serves until its standard input ends: `serve 'ttft=0&itl=0' [address [tokenizer]]`. For measuring the server by itself.

use std::io::{Read, Write};
use std::net::SocketAddr;

use aiperf_core::plan::TokenizerPlan;
use aiperf_sim::{SimConfig, start};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let config = SimConfig::from_query(&args.next().unwrap_or_default())?;
    let addr: SocketAddr = args.next().unwrap_or_else(|| "127.0.0.1:8000".to_owned()).parse()?;
    let name = args.next().unwrap_or_else(|| "builtin".to_owned());
    let before = std::time::Instant::now();
    let tokenizer = aiperf_tokens::open(&TokenizerPlan { name })?;
    let opened = before.elapsed();
    let server = start(config, tokenizer, addr)?;
    let mut out = std::io::stdout();
    writeln!(out, "ready on {} (tokenizer {opened:?}, all {:?})", server.addr(), before.elapsed())?;
    let mut end = Vec::new();
    std::io::stdin().read_to_end(&mut end)?;
    writeln!(out, "{}", serde_json::to_string_pretty(&server.stop())?)?;
    Ok(())
}
