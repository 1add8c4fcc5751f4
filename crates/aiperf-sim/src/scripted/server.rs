//! The server that plays scripts and keeps what it saw.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use aiperf_os::mono_ns;

use super::reply::{Reply, Step};
use super::signal::lock;

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenRequest {
    /// Order of arrival over all connections, from 0.
    pub index: usize,
    /// The connection, in order of acceptance, from 0.
    pub connection: usize,
    /// `GET`, `POST` …
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Header lines in order, names as sent.
    pub headers: Vec<(String, String)>,
    /// The body, transfer coding removed.
    pub body: Vec<u8>,
    /// Monotonic: the read that brought its first byte.
    pub first_byte_ns: u64,
    /// Monotonic: it was whole.
    pub whole_ns: u64,
}

impl SeenRequest {
    /// The value of a header, by name in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }
}

/// Which reply a request gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Request i gets reply i, requests beyond the last get the last.
    LastStays,
    /// Request i gets reply i modulo their number.
    Cycle,
}

/// How a scripted server behaves; [`ScriptedServer::start`] is the short way.
#[derive(Debug, Clone)]
pub struct Script {
    replies: Vec<Reply>,
    order: Order,
    greeting: Option<Reply>,
    chooser: Option<Chooser>,
}

/// Makes a reply from what was asked.
#[derive(Clone)]
struct Chooser(Arc<dyn Fn(&SeenRequest) -> Reply + Send + Sync>);

impl fmt::Debug for Chooser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Chooser")
    }
}

impl Script {
    /// Replies in order; the last stays.
    pub fn new(replies: Vec<Reply>) -> Self {
        Self { replies, order: Order::LastStays, greeting: None, chooser: None }
    }

    /// A reply to each request by what it asks for.
    pub fn by_request(choose: impl Fn(&SeenRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self { chooser: Some(Chooser(Arc::new(choose))), ..Self::new(Vec::new()) }
    }

    /// Replies over and over.
    #[must_use]
    pub fn cycle(mut self) -> Self {
        self.order = Order::Cycle;
        self
    }

    /// Played on every connection before anything is read: to close or reset at once, to talk out of turn.
    #[must_use]
    pub fn on_connect(mut self, greeting: Reply) -> Self {
        self.greeting = Some(greeting);
        self
    }

    /// Listens on a free port of 127.0.0.1.
    pub fn start(self) -> io::Result<ScriptedServer> {
        ScriptedServer::run(self)
    }

    fn reply(&self, request: &SeenRequest) -> Option<Reply> {
        if let Some(Chooser(choose)) = &self.chooser {
            return Some(choose(request));
        }
        let last = self.replies.len().checked_sub(1)?;
        let number = match self.order {
            Order::LastStays => request.index.min(last),
            Order::Cycle => request.index % self.replies.len(),
        };
        self.replies.get(number).cloned()
    }
}

/// To a client that looks before a run whether it could ask for counts of tokens.
const NOT_HERE: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[derive(Debug, Default)]
struct Seen {
    requests: Vec<SeenRequest>,
    connections: usize,
    /// Requests begun, so that numbers are given in order of arrival.
    open: Vec<Option<TcpStream>>,
}

#[derive(Debug)]
struct State {
    script: Script,
    seen: Mutex<Seen>,
    changed: Condvar,
    stopping: AtomicBool,
}

/// A server that plays a script. Dropped, it closes everything.
#[derive(Debug)]
pub struct ScriptedServer {
    addr: SocketAddr,
    state: Arc<State>,
    acceptor: Option<JoinHandle<()>>,
}

impl ScriptedServer {
    /// Replies in order; the last stays.
    pub fn start(replies: Vec<Reply>) -> io::Result<Self> {
        Script::new(replies).start()
    }

    fn run(script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let addr = listener.local_addr()?;
        let state = Arc::new(State {
            script,
            seen: Mutex::default(),
            changed: Condvar::new(),
            stopping: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        let acceptor = std::thread::Builder::new()
            .name("scripted".to_owned())
            .spawn(move || accept(&listener, &shared))?;
        Ok(Self { addr, state, acceptor: Some(acceptor) })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Base URL, `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<SeenRequest> {
        lock(&self.state.seen).requests.clone()
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        lock(&self.state.seen).connections
    }

    /// Waits until there are `count` requests and returns all of them.
    pub fn wait_requests(&self, count: usize) -> Vec<SeenRequest> {
        let mut seen = lock(&self.state.seen);
        while seen.requests.len() < count {
            seen = self.state.changed.wait(seen).unwrap_or_else(PoisonError::into_inner);
        }
        seen.requests.clone()
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.state.stopping.store(true, Ordering::SeqCst);
        for stream in lock(&self.state.seen).open.iter().flatten() {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the acceptor, which then sees the flag. Threads of scripts that wait for a signal are left to it.
        let _ = TcpStream::connect(self.addr);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    for stream in listener.incoming() {
        if state.stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let connection = {
            let mut seen = lock(&state.seen);
            let connection = seen.connections;
            seen.connections += 1;
            seen.open.push(stream.try_clone().ok());
            connection
        };
        let shared = Arc::clone(state);
        let spawned = std::thread::Builder::new().name("scripted-conn".to_owned()).spawn(move || {
            // An error is the client's end of the connection, which tests look at from their side.
            let end = converse(stream, connection, &shared);
            // The copy kept for stopping would hold the connection open. One that only asked what there is has lent its number to the next.
            if !matches!(end, Ok(End::Asked))
                && let Some(copy) = lock(&shared.seen).open.get_mut(connection)
            {
                *copy = None;
            }
        });
        if spawned.is_err() {
            lock(&state.seen).open[connection] = None;
        }
    }
}

/// What a connection was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The script.
    Played,
    /// A question before a run, which no script is about.
    Asked,
}

fn converse(mut stream: TcpStream, connection: usize, state: &State) -> io::Result<End> {
    stream.set_nodelay(true)?;
    if let Some(greeting) = &state.script.greeting
        && !play(&mut stream, greeting, connection, state)?
    {
        return Ok(End::Played);
    }
    let mut buffer = Vec::new();
    while let Some(mut request) = read_request(&mut stream, &mut buffer)? {
        let path = request.path.split('?').next().unwrap_or_default();
        if request.method == "GET" && path.ends_with("/tokenize") {
            let mut seen = lock(&state.seen);
            // It is the first and alone, or it is a connection like the others.
            if seen.connections == connection + 1 && seen.requests.is_empty() {
                seen.connections = connection;
                seen.open.truncate(connection);
            }
            drop(seen);
            stream.write_all(NOT_HERE)?;
            close_cleanly(&mut stream)?;
            return Ok(End::Asked);
        }
        {
            let mut seen = lock(&state.seen);
            request.index = seen.requests.len();
            request.connection = connection;
            seen.requests.push(request.clone());
        }
        state.changed.notify_all();
        let Some(reply) = state.script.reply(&request) else { return Ok(End::Played) };
        if !play(&mut stream, &reply, connection, state)? {
            return Ok(End::Played);
        }
    }
    Ok(End::Played)
}

/// Plays `reply`; `false` when the connection is over.
fn play(stream: &mut TcpStream, reply: &Reply, connection: usize, state: &State) -> io::Result<bool> {
    for step in &reply.steps {
        match step {
            Step::Send(bytes) => stream.write_all(bytes)?,
            Step::Pause(length) => std::thread::sleep(*length),
            Step::Await(signal) => signal.wait(),
            Step::Raise(signal) => signal.raise(),
            Step::Stall => {
                drain(stream);
                return Ok(false);
            }
            Step::Close => {
                close_cleanly(stream)?;
                return Ok(false);
            }
            Step::Reset => {
                // The kept copy must go first: only the last descriptor's close sends the reset.
                if let Some(copy) = lock(&state.seen).open.get_mut(connection) {
                    *copy = None;
                }
                socket2::SockRef::from(&*stream).set_linger(Some(Duration::ZERO))?;
                return Ok(false);
            }
            Step::HalfClose => {
                stream.shutdown(Shutdown::Write)?;
                drain(stream);
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Reads until the client closes.
fn drain(stream: &mut TcpStream) {
    let mut scratch = [0; 4096];
    while matches!(stream.read(&mut scratch), Ok(n) if n > 0) {}
}

/// A close with unread bytes would send a reset: what has come is read first, and the way out is closed before the way in.
fn close_cleanly(stream: &mut TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let mut scratch = [0; 4096];
    while matches!(stream.read(&mut scratch), Ok(n) if n > 0) {}
    stream.shutdown(Shutdown::Both)
}

/// Reads one request; `None` when the client is done. Bytes beyond it stay in `buffer`.
fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<SeenRequest>> {
    let mut first_byte_ns = if buffer.is_empty() { 0 } else { mono_ns() };
    let head_end = loop {
        if let Some(at) = find(buffer, b"\r\n\r\n") {
            break at;
        }
        if !fill(stream, buffer)? {
            return Ok(None);
        }
        if first_byte_ns == 0 {
            first_byte_ns = mono_ns();
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    buffer.drain(..head_end + 4);
    let mut lines = head.split("\r\n");
    let mut start = lines.next().unwrap_or_default().splitn(3, ' ');
    let method = start.next().unwrap_or_default().to_owned();
    let path = start.next().unwrap_or_default().to_owned();
    let headers: Vec<(String, String)> =
        lines.filter_map(|l| l.split_once(':')).map(|(n, v)| (n.to_owned(), v.trim().to_owned())).collect();
    let mut request = SeenRequest {
        index: 0,
        connection: 0,
        method,
        path,
        headers,
        body: Vec::new(),
        first_byte_ns,
        whole_ns: 0,
    };
    let chunked = request.header("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked"));
    let length = request.header("content-length").and_then(|v| v.parse::<usize>().ok()).unwrap_or(0);
    if chunked {
        loop {
            let line_end = need(stream, buffer, |b| find(b, b"\r\n"))?;
            let size = std::str::from_utf8(&buffer[..line_end])
                .ok()
                .and_then(|l| usize::from_str_radix(l.split(';').next().unwrap_or_default().trim(), 16).ok());
            let size = size.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "chunk size"))?;
            buffer.drain(..line_end + 2);
            need(stream, buffer, |b| (b.len() >= size.saturating_add(2)).then_some(0))?;
            request.body.extend_from_slice(&buffer[..size]);
            buffer.drain(..size + 2);
            if size == 0 {
                break;
            }
        }
    } else {
        need(stream, buffer, |b| (b.len() >= length).then_some(0))?;
        request.body = buffer.drain(..length).collect();
    }
    request.whole_ns = mono_ns();
    Ok(Some(request))
}

/// Reads until `is` finds what it wants.
fn need(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    is: impl Fn(&[u8]) -> Option<usize>,
) -> io::Result<usize> {
    loop {
        if let Some(found) = is(buffer) {
            return Ok(found);
        }
        if !fill(stream, buffer)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn fill(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<bool> {
    let mut scratch = [0; 16_384];
    let n = stream.read(&mut scratch)?;
    buffer.extend_from_slice(&scratch[..n]);
    Ok(n > 0)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}
