//! The two doors: data to stdout, everything said about it to stderr.

use std::cell::Cell;
use std::error::Error;
use std::io::{self, Write};

use aiperf_core::text::for_terminal;
use aiperf_run::Said;

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

/// Tells on stderr what is fetched.
#[derive(Default)]
pub(crate) struct Fetching {
    /// It is a terminal, and how far a file has come is drawn over itself.
    pub(crate) is_drawn: bool,
    /// Something is drawn that has no line end.
    is_open: Cell<bool>,
}

impl Fetching {
    pub(crate) fn new(is_drawn: bool) -> Self {
        Self { is_drawn, is_open: Cell::new(false) }
    }

    pub(crate) fn say(&self, said: Said<'_>) {
        match said {
            Said::Progress(text) if self.is_drawn => {
                // Nobody is left to tell when stderr itself is gone.
                let mut err = io::stderr().lock();
                let _ = write!(err, "\r\x1b[K{}", plain(text)).and_then(|()| err.flush());
                self.is_open.set(true);
            }
            Said::Progress(text) | Said::Line(text) => {
                self.wipe();
                say(text);
            }
        }
    }

    /// Takes away what was drawn.
    fn wipe(&self) {
        if self.is_open.take() {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.wipe();
    }
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
