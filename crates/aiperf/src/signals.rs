//! Ctrl-C and SIGTERM: the first asks the run to stop and write, the second ends the process at once.

use std::io;
use std::sync::Arc;

use aiperf_run::Interrupt;

use crate::exit::INTERRUPTED;

/// Starts the thread that listens.
pub(crate) fn listen(interrupt: Arc<Interrupt>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            if next().await.is_ok() {
                interrupt.fire();
            }
            if next().await.is_ok() {
                kill();
            }
        });
    })?;
    Ok(())
}

#[expect(clippy::exit, reason = "the user asked twice: nothing is to be waited for")]
fn kill() -> ! {
    std::process::exit(i32::from(INTERRUPTED))
}

#[cfg(unix)]
async fn next() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

#[cfg(not(unix))]
async fn next() -> io::Result<()> {
    tokio::signal::ctrl_c().await
}
