//! Ctrl-C, SIGTERM and a terminal that hangs up: the first asks the run to stop and write, a second Ctrl-C or SIGTERM ends the
//! process at once.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aiperf_run::Interrupt;

use crate::exit::INTERRUPTED;

/// Starts the thread that listens. From its return on no signal is lost, however soon it comes.
pub(crate) fn listen(interrupt: Arc<Interrupt>) -> io::Result<()> {
    start(move |mut signals| async move {
        signals.first().await;
        interrupt.fire();
        signals.next().await;
        kill();
    })
}

/// How long who was asked to stop may take to see it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The same for work that nobody waits for, and of which one step may take minutes: when that has not seen the first signal within a
/// second, `give_up` is called and the process ends.
pub(crate) fn listen_briefly(
    interrupt: Arc<Interrupt>,
    give_up: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    start(move |mut signals| async move {
        signals.first().await;
        interrupt.fire();
        if tokio::time::timeout(PATIENCE, signals.next()).await.is_err() {
            if interrupt.is_seen() {
                signals.next().await;
            } else {
                give_up();
            }
        }
        kill();
    })
}

/// From its return on the first signal ends the process, and removes `path`, a file that is not whole, before.
pub(crate) fn remove_when_stopped(path: PathBuf) -> io::Result<()> {
    start(move |mut signals| async move {
        signals.first().await;
        // It may be in its place, and whole, by now.
        let _ = std::fs::remove_file(path);
        kill();
    })
}

/// Starts a thread that does as `then` says with the signals.
fn start<F: Future<Output = ()>>(then: impl FnOnce(Signals) -> F + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let signals = {
        let _inside = runtime.enter();
        Signals::new()?
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || runtime.block_on(then(signals)))?;
    Ok(())
}

#[expect(clippy::exit, reason = "the user asked twice: nothing is to be waited for")]
fn kill() -> ! {
    std::process::exit(i32::from(INTERRUPTED))
}

/// The streams live as long as the thread: a stream made for one wait alone would miss what comes between two waits.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// `None` when hang-ups are ignored, as `nohup` wants it.
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let hangup = (!aiperf_os::signals::hangup_is_ignored()).then(|| signal(SignalKind::hangup()));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: hangup.transpose()?,
        })
    }

    /// Only the first hang-up counts: kernel and shell may both tell of the same one.
    async fn first(&mut self) {
        match self.hangup.take() {
            None => self.next().await,
            Some(mut hangup) => tokio::select! {
                _ = hangup.recv() => {}
                () = self.next() => {}
            },
        }
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn first(&mut self) {
        self.next().await;
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a listener there is nothing to wait for, and the run must not be taken for interrupted.
            std::future::pending().await
        }
    }
}
