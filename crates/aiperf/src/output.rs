//! The two doors: data to stdout, everything said about it to stderr.

use std::io::{self, Write};

/// Writes results to stdout. A reader that has gone (`| head`) is no error.
pub(crate) fn data(text: &str) {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            say(&format!("error: cannot write to stdout: {e}"));
        }
        _ => {}
    }
}

/// Says one thing on stderr.
pub(crate) fn say(text: &str) {
    // Nobody is left to tell when stderr itself is gone.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
