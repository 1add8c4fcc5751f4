//! The log: a file in the folder of the run, and stderr for what a person should see at once.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use aiperf_core::plan::LogLevel;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, fmt as layer};

/// Starts logging to `file` at `level`, and to stderr from warnings up (from `level` up when more than the usual is asked for).
pub(crate) fn start(file: &Path, level: LogLevel) -> io::Result<()> {
    let to_file = layer::layer()
        .with_ansi(false)
        // A log that cannot be written (full disk, terminal gone) would be told on stderr, by a macro that panics there.
        .log_internal_errors(false)
        .event_format(Lines)
        .with_writer(Mutex::new(File::create(file)?))
        .with_filter(filter(level));
    let screen = if level > LogLevel::Info { level } else { level.min(LogLevel::Warning) };
    let to_screen = layer::layer()
        .with_ansi(false)
        .log_internal_errors(false)
        .event_format(Lines)
        .with_writer(io::stderr)
        .with_filter(filter(screen));
    let subscriber = tracing_subscriber::registry().with(to_file).with(to_screen);
    // Set once per process; a second run of the same process keeps the first log.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Ok(())
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// Local time as log lines begin.
fn log_stamp() -> impl fmt::Display {
    // A u64 of nanoseconds ends in the year 2554, inside what a timestamp holds.
    let now = Timestamp::from_nanosecond(i128::from(aiperf_os::wall_ns())).unwrap_or(Timestamp::MAX);
    now.to_zoned_datetime(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S.%3f").to_string()
}

/// `YYYY-MM-DD HH:MM:SS.mmm - logger - LEVEL - message`, as AIPerf's log files.
struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let meta = event.metadata();
        let level = match *meta.level() {
            tracing::Level::WARN => "WARNING",
            ref other => other.as_str(),
        };
        write!(out, "{} - {} - {level} - ", log_stamp(), meta.target())?;
        ctx.field_format().format_fields(out.by_ref(), event)?;
        writeln!(out)
    }
}
