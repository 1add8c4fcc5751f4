//! Files of lines that are written beside the server: its thread hands things over and never waits for a disk.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;

/// How long something may wait in the buffer while nothing else comes.
const IDLE_FLUSH: Duration = Duration::from_millis(100);

/// The buffered file.
pub(crate) type Out = BufWriter<File>;

/// A file and the thread that writes it. The channel to the thread has no bound: a server that waited for a disk would bend the
/// times it is there to show, and what waits is what its clients have sent.
#[derive(Debug)]
pub(crate) struct LineLog<T> {
    sender: Sender<Option<T>>,
    writer: JoinHandle<io::Result<()>>,
}

impl<T: Send + 'static> LineLog<T> {
    /// Creates the file, lets `begin` write its start here and now, and `write` all else on the thread called `name`.
    pub(crate) fn open(
        path: &Path,
        name: &str,
        begin: impl FnOnce(&mut Out) -> io::Result<()>,
        write: impl FnMut(T, &mut Out) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(1 << 18, File::create(path)?);
        begin(&mut out)?;
        out.flush()?;
        let (sender, receiver) = mpsc::channel();
        let writer =
            std::thread::Builder::new().name(name.to_owned()).spawn(move || drain(&receiver, out, write))?;
        Ok(Self { sender, writer })
    }

    /// A sender of its own for the server's thread, so that no lock is taken per request. `None` ends the log.
    pub(crate) fn sender(&self) -> Sender<Option<T>> {
        self.sender.clone()
    }

    /// Waits until everything handed over is in the file.
    pub(crate) fn close(self) -> io::Result<()> {
        // A writer that is gone already tells why when it is joined.
        let _ = self.sender.send(None);
        self.writer.join().unwrap_or_else(|_| Err(io::Error::other("the writer's thread failed")))
    }
}

/// Writes what comes until `None` or the last sender's end.
fn drain<T>(
    receiver: &mpsc::Receiver<Option<T>>,
    mut out: Out,
    mut write: impl FnMut(T, &mut Out) -> io::Result<()>,
) -> io::Result<()> {
    // An idle server costs no wake-ups: only with something in the buffer is there a time limit.
    while let Ok(Some(item)) = receiver.recv() {
        write(item, &mut out)?;
        loop {
            match receiver.recv_timeout(IDLE_FLUSH) {
                Ok(Some(item)) => write(item, &mut out)?,
                Err(RecvTimeoutError::Timeout) => break out.flush()?,
                Ok(None) | Err(RecvTimeoutError::Disconnected) => return out.flush(),
            }
        }
    }
    out.flush()
}

/// One value as one line of JSON.
pub(crate) fn write_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}
