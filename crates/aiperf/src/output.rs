//! The two doors: data to stdout, everything said about it to stderr.

use std::error::Error;
use std::io::{self, Write};

use aiperf_core::text::for_terminal;

use crate::exit::{Exit, FAILED, SUCCESS};

/// Writes results to stdout. A reader that has gone (`| head`) wants no more and is no error; a full disk is one.
#[must_use]
pub(crate) fn data(text: &str) -> Exit {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            say(&format!("error: cannot write to stdout: {e}"));
            Exit(FAILED)
        }
        _ => Exit(SUCCESS),
    }
}

/// Says one thing on stderr.
pub(crate) fn say(text: &str) {
    // Nobody is left to tell when stderr itself is gone.
    let _ = writeln!(io::stderr().lock(), "{}", plain(text));
}

/// `text` without anything that drives a terminal but the ends of its lines: names and values in it come from elsewhere.
pub(crate) fn plain(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| for_terminal(line, usize::MAX)).collect();
    lines.join("\n")
}

/// Says an error with its causes, each once.
pub(crate) fn fail(error: &dyn Error) {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.ends_with(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    say(&format!("error: {text}"));
}
