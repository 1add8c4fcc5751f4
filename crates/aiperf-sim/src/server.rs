//! Starting and stopping: one thread with its own runtime, the listener, keep-alive HTTP/1.1 connections.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;

use aiperf_core::time::ClockAnchor;
use aiperf_os::mono_ns;
use aiperf_rng::Key;
use aiperf_tokens::Tokenizer;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::capture::{self, Capture, Seen};
use crate::desk::Desk;
use crate::error::SimError;
use crate::lines::LineLog;
use crate::option::SimConfig;
use crate::prompt::Counter;
use crate::service::Server;
use crate::ticket::Ledger;
use crate::truth::{SimTotals, TruthRecord, TruthSink};
use crate::wire::{Wire, WireControl};
use crate::words::Words;

/// Where to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Listen {
    /// TCP; port 0 lets the system choose.
    Tcp(SocketAddr),
}

impl Listen {
    /// Some free port on 127.0.0.1.
    pub fn loopback() -> Self {
        Self::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)))
    }
}

impl From<SocketAddr> for Listen {
    fn from(addr: SocketAddr) -> Self {
        Self::Tcp(addr)
    }
}

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 4_096;
/// Pause after a failed accept, when the process is out of descriptors.
const ACCEPT_PAUSE_NS: u64 = 10_000_000;

/// A running server. Dropped, it stops.
#[derive(Debug)]
pub struct SimHandle {
    addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    totals: Arc<Mutex<SimTotals>>,
    sink: Arc<TruthSink>,
    capture: Option<LineLog<Seen>>,
    log_error: Option<io::Error>,
}

impl SimHandle {
    /// The address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What it has done so far.
    pub fn totals(&self) -> SimTotals {
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The records of the requests that have ended, in order of ending. Empty unless the option `truth` is on.
    pub fn truth(&self) -> Vec<TruthRecord> {
        self.sink.records()
    }

    /// Stops it: connections are dropped, truth log and capture are complete when this returns.
    pub fn stop(mut self) -> SimTotals {
        self.halt();
        self.totals()
    }

    /// As [`Self::stop`], with the records in memory and whether truth log and capture could be written to their ends.
    pub fn stop_with_truth(mut self) -> (SimTotals, Vec<TruthRecord>, io::Result<()>) {
        self.halt();
        let written = self.log_error.take().map_or(Ok(()), Err);
        (self.totals(), self.truth(), written)
    }

    fn halt(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread is gone already when nobody receives.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed; the totals up to it still count.
            let _ = thread.join();
            let truth = self.sink.close();
            let capture = self.capture.take().map_or(Ok(()), LineLog::close);
            self.log_error = truth.and(capture).err();
        }
    }
}

impl Drop for SimHandle {
    fn drop(&mut self) {
        self.halt();
    }
}

/// Starts a server on its own thread; it listens when this returns.
pub fn start(
    config: SimConfig,
    tokenizer: Arc<dyn Tokenizer>,
    listen: impl Into<Listen>,
) -> Result<SimHandle, SimError> {
    let Listen::Tcp(addr) = listen.into();
    let words = Words::find(&*tokenizer)?;
    let clock = aiperf_os::anchor();
    let listener = bind(addr).map_err(|source| SimError::Listen { addr, source })?;
    let addr = listener.local_addr().map_err(|source| SimError::Listen { addr, source })?;
    let sink = TruthSink::open(config.truth, config.truth_log.as_deref(), clock).map_err(|source| {
        SimError::TruthLog { path: config.truth_log.clone().unwrap_or_default(), source }
    })?;
    let capture = config.capture.as_deref().map(|path| {
        capture::open(path).map_err(|source| SimError::Capture { path: path.to_owned(), source })
    });
    let capture = capture.transpose()?;
    let totals = Arc::new(Mutex::new(SimTotals::default()));
    let (stop, stopped) = oneshot::channel();
    let shared = Shared {
        totals: Arc::clone(&totals),
        sink: Arc::clone(&sink),
        capture: capture.as_ref().map(|log| Capture::new(log, clock)),
        clock,
    };
    let (ready, started) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new()
        .name("sim".to_owned())
        .spawn(move || run(config, words, tokenizer, shared, listener, stopped, &ready))
        .map_err(|source| SimError::Thread { source })?;
    let handle =
        SimHandle { addr, stop: Some(stop), thread: Some(thread), totals, sink, capture, log_error: None };
    match started.recv() {
        Ok(Ok(())) => Ok(handle),
        Ok(Err(source)) => Err(SimError::Thread { source }),
        Err(_) => Err(SimError::Thread { source: io::Error::other("the thread ended at once") }),
    }
}

struct Shared {
    totals: Arc<Mutex<SimTotals>>,
    sink: Arc<TruthSink>,
    capture: Option<Capture>,
    clock: ClockAnchor,
}

fn bind(addr: SocketAddr) -> io::Result<std::net::TcpListener> {
    let bound = |addr: SocketAddr| {
        let domain = socket2::Domain::for_address(addr);
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&addr.into())?;
        Ok::<_, io::Error>(socket)
    };
    let mut socket = bound(addr)?;
    if addr.port() == 0 {
        // A port that the system chose is not kept when the queue is reset; one that was asked for is.
        let chosen = socket.local_addr()?.as_socket();
        if let Some(Ok(same)) = chosen.map(bound) {
            socket = same;
        }
    }
    socket.listen(BACKLOG as i32)?;
    Ok(socket.into())
}

/// The server's thread.
fn run(
    config: SimConfig,
    words: Words,
    tokenizer: Arc<dyn Tokenizer>,
    shared: Shared,
    listener: std::net::TcpListener,
    stopped: oneshot::Receiver<()>,
    ready: &std::sync::mpsc::Sender<io::Result<()>>,
) {
    // Wake-ups as near to their deadlines as the kernel can; without the grant they are 50 µs later.
    aiperf_os::sched::set_timer_slack(1);
    let built = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(1)
        .build_local(tokio::runtime::LocalOptions::default());
    let runtime = match built {
        Ok(runtime) => runtime,
        Err(error) => {
            // Without a receiver there is nobody left to tell.
            let _ = ready.send(Err(error));
            return;
        }
    };
    let keep = config.keeps_truth();
    let ledger = Ledger::new(shared.totals, shared.sink, keep);
    let books = Rc::clone(&ledger);
    runtime.block_on(async move {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let server = Rc::new(Server {
            desk: Desk::new(config.engine()),
            counter: Arc::new(Counter::new(tokenizer, shared.clock.wall_ns, config.prefix_cache)),
            words: Rc::new(words),
            created_s: shared.clock.wall_ns / 1_000_000_000,
            ids: Key::new(config.seed).purpose("sim.answer.id"),
            ends: Key::new(config.seed).purpose("sim.answer.end"),
            index: Cell::new(0),
            connections: Cell::new(0),
            capture: shared.capture,
            shelf: RefCell::default(),
            config,
            ledger: books,
        });
        let _ = ready.send(Ok(()));
        tokio::task::spawn_local(Rc::clone(&server.desk).drive());
        tokio::select! {
            () = accept(server, listener) => {}
            // An error means that the handle is gone, which is a stop as well.
            _ = stopped => {}
        }
    });
    ledger.stop();
    drop(runtime);
}

async fn accept(server: Rc<Server>, listener: TcpListener) {
    let mut spare = spare(&listener);
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            // Without it small events wait for acknowledgements; failing, the peer is gone already.
            let _ = stream.set_nodelay(true);
            tokio::task::spawn_local(connection(Rc::clone(&server), stream));
            continue;
        }
        // Out of descriptors, most likely. A peer that is turned away knows it; in the queue it would wait for good.
        let polled = match spare.take() {
            Some(_) => Some(poll_fn(|cx| Poll::Ready(listener.poll_accept(cx))).await),
            None => None,
        };
        match polled {
            Some(Poll::Ready(Ok(_))) => server.ledger.with_totals(|t| t.turned_away += 1),
            Some(Poll::Pending) => {}
            // Another thread of the process was faster, and waits for an answer now: nobody would give one back.
            Some(Poll::Ready(Err(_))) | None => {
                if reset_queue(&listener).is_ok() {
                    server.ledger.with_totals(|t| t.turned_away += 1);
                }
                server.desk.sleep_until_ns(mono_ns() + ACCEPT_PAUSE_NS).await;
            }
        }
        spare = self::spare(&listener);
    }
}

/// Ends all connections that wait to be accepted, which takes no descriptor. Only Linux lets a listener do so.
fn reset_queue(listener: &TcpListener) -> io::Result<()> {
    let socket = socket2::SockRef::from(listener);
    socket.shutdown(std::net::Shutdown::Both)?;
    socket.listen(BACKLOG as i32)
}

/// A descriptor to be given up when there is none for a connection; `None` when there is none left.
fn spare(listener: &TcpListener) -> Option<OwnedFd> {
    listener.as_fd().try_clone_to_owned().ok()
}

/// Counts a connection as long as it lives.
struct Alive(Rc<Server>);

impl Alive {
    fn new(server: Rc<Server>) -> Self {
        let alive = server.connections.get() + 1;
        server.connections.set(alive);
        server.ledger.with_totals(|t| {
            t.connections += 1;
            t.peak_connections = t.peak_connections.max(alive);
        });
        Self(server)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
    }
}

async fn connection(server: Rc<Server>, stream: TcpStream) {
    let alive = Alive::new(server);
    let control = WireControl::new();
    let wire = Wire::new(stream, Rc::clone(&control), Rc::clone(&alive.0.desk));
    let service = service_fn(|request| {
        let server = Rc::clone(&alive.0);
        let control = Rc::clone(&control);
        async move { Ok::<_, std::convert::Infallible>(server.handle(request, control).await) }
    });
    let mut http = http1::Builder::new().writev(false).serve_connection(wire, service);
    let broken = std::future::poll_fn(|cx| {
        let polled = Pin::new(&mut http).poll(cx);
        if control.killed() {
            return Poll::Ready(true);
        }
        // An error here is the client's or the network's; the books of its request say so.
        polled.map(|_| false)
    })
    .await;
    if broken {
        http.into_parts().io.break_off();
    }
}
