//! How far a file on its way has come, told now and then.

use std::time::{Duration, Instant};

/// Longest silence about a file that is on its way, in lines and where one line is drawn over itself.
const TELL_EVERY: Duration = Duration::from_secs(5);
const DRAW_EVERY: Duration = Duration::from_millis(200);

/// What a file's way is told by.
pub(crate) struct Progress<'a> {
    file: Option<&'a str>,
    told: Instant,
    every: Duration,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(file: Option<&'a str>, is_drawn: bool) -> Self {
        Self { file, told: Instant::now(), every: if is_drawn { DRAW_EVERY } else { TELL_EVERY } }
    }

    /// A line when it is time for one.
    pub(crate) fn line(&mut self, received: u64, total: Option<u64>, now: Instant) -> Option<String> {
        let file = self.file?;
        if now.saturating_duration_since(self.told) < self.every {
            return None;
        }
        self.told = now;
        let of = total.map(|total| format!(" of {}", size(total))).unwrap_or_default();
        Some(format!("  {file}: {}{of} so far", size(received)))
    }
}

/// A size as people read it.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..100_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_way_is_told_of_now_and_then() {
        let start = Instant::now();
        // Where it can be drawn over itself, it moves.
        assert!(Progress::new(None, true).every * 10 < Progress::new(None, false).every);
        let mut progress = Progress { file: Some("tokenizer.json"), told: start, every: TELL_EVERY };
        assert_eq!(progress.line(1, None, start), None);
        let later = start + TELL_EVERY;
        let line = progress.line(4_200_000, Some(11_400_000), later).expect("it is time");
        assert_eq!(line, "  tokenizer.json: 4.2 MB of 11.4 MB so far");
        assert_eq!(progress.line(5_000_000, None, later), None);
        assert_eq!(
            progress.line(900, None, later + TELL_EVERY).expect("it is time"),
            "  tokenizer.json: 900 bytes so far"
        );
        assert_eq!(Progress { file: None, told: start, every: TELL_EVERY }.line(1, None, later), None);
    }
}
