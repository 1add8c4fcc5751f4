//! What scripted hubs answer, and what is in the cache behind a run.

use std::path::PathBuf;

use aiperf_sim::scripted::{Reply, ScriptedServer};

use crate::support::{Done, tree};

/// An answer with headers.
pub(crate) fn answer(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    let lines: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{}\r\n", body.len(), lines.concat());
    Reply::new().send([head.as_bytes(), body].concat())
}

/// A hub's word for what it has not.
pub(crate) fn missing(code: &str) -> Reply {
    answer("404 Not Found", &[("X-Error-Code", code)], b"")
}

pub(crate) fn paths(server: &ScriptedServer) -> Vec<String> {
    server.requests().into_iter().map(|request| request.path).collect()
}

/// What is in the cache that is no folder, links with their targets.
pub(crate) fn cached(done: &Done) -> Vec<String> {
    let cache = done.home.path().join("cache");
    if !cache.exists() {
        return Vec::new();
    }
    let shown = |path: &PathBuf| match std::fs::read_link(cache.join(path)) {
        Ok(target) => format!("{} -> {}", path.display(), target.display()),
        Err(_) => path.display().to_string(),
    };
    tree(&cache).iter().filter(|path| !cache.join(path).is_dir()).map(shown).collect()
}
