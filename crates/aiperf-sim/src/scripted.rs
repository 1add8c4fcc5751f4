//! Scripted servers: byte for byte what a test wants on the wire, at the moment it wants it, and what the client sent.
//!
//! A [`ScriptedServer`] reads one request, plays the [`Reply`] for its number, and so on. A reply is a list of [`Step`]s:
//! bytes, pauses, waiting for a [`Signal`] of the test, closing, resetting. Each connection has its own thread, so a script
//! may block. Nothing depends on time unless the script says so.
//!
//! ```
//! use std::io::{Read, Write};
//! use aiperf_sim::scripted::{Reply, ScriptedServer};
//!
//! let server = ScriptedServer::start(vec![Reply::json(503, "{}"), Reply::new().reset()])?;
//! let mut client = std::net::TcpStream::connect(server.addr())?;
//! client.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")?;
//! let mut first = [0; 12];
//! client.read_exact(&mut first)?;
//! assert_eq!(&first, b"HTTP/1.1 503");
//! assert_eq!(server.wait_requests(1)[0].path, "/health");
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use aiperf_os::mono_ns;
use bytes::Bytes;

/// Something that happens once and stays so; tests and scripts wait for each other with it.
#[derive(Debug, Clone, Default)]
pub struct Signal(Arc<(Mutex<bool>, Condvar)>);

impl Signal {
    /// Not raised yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises it and wakes all that wait.
    pub fn raise(&self) {
        *lock(&self.0.0) = true;
        self.0.1.notify_all();
    }

    /// Whether it was raised.
    pub fn is_raised(&self) -> bool {
        *lock(&self.0.0)
    }

    /// Waits until it is raised.
    pub fn wait(&self) {
        let mut raised = lock(&self.0.0);
        while !*raised {
            raised = self.0.1.wait(raised).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// One thing that a script does.
#[derive(Debug, Clone)]
pub enum Step {
    /// One write.
    Send(Bytes),
    /// A pause.
    Pause(Duration),
    /// Waits until the test raises the signal.
    Await(Signal),
    /// Raises a signal: the test knows that the script is here.
    Raise(Signal),
    /// Nothing more until the client closes or the server stops.
    Stall,
    /// Closes both ways; unread bytes of the client are read first, so that it sees an end and no reset.
    Close,
    /// Closes with a reset (RST).
    Reset,
    /// Closes the way out; the way in stays open until the client closes.
    HalfClose,
}

/// What is played for one request (or at once after a connection was accepted).
#[derive(Debug, Clone, Default)]
pub struct Reply {
    steps: Vec<Step>,
}

impl Reply {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds any step.
    #[must_use]
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds one write.
    #[must_use]
    pub fn send(self, bytes: impl AsRef<[u8]>) -> Self {
        self.step(Step::Send(Bytes::copy_from_slice(bytes.as_ref())))
    }

    /// Adds `bytes` cut at the positions `at` (ascending; those outside are ignored), with a pause between the parts.
    #[must_use]
    pub fn send_split(mut self, bytes: impl AsRef<[u8]>, at: &[usize], pause: Duration) -> Self {
        let bytes = bytes.as_ref();
        let mut from = 0;
        for &cut in at.iter().filter(|c| **c > 0 && **c < bytes.len()) {
            if cut > from {
                self = self.send(&bytes[from..cut]).step(Step::Pause(pause));
                from = cut;
            }
        }
        self.send(&bytes[from..])
    }

    /// Adds `bytes`, each byte its own write.
    #[must_use]
    pub fn send_bytewise(mut self, bytes: impl AsRef<[u8]>, pause: Duration) -> Self {
        for byte in bytes.as_ref() {
            self = self.send([*byte]);
            if !pause.is_zero() {
                self = self.step(Step::Pause(pause));
            }
        }
        self
    }

    /// Adds a pause.
    #[must_use]
    pub fn pause(self, length: Duration) -> Self {
        self.step(Step::Pause(length))
    }

    /// Adds a wait for the test.
    #[must_use]
    pub fn wait_for(self, signal: &Signal) -> Self {
        self.step(Step::Await(signal.clone()))
    }

    /// Adds a word to the test.
    #[must_use]
    pub fn raise(self, signal: &Signal) -> Self {
        self.step(Step::Raise(signal.clone()))
    }

    /// Ends in silence.
    #[must_use]
    pub fn stall(self) -> Self {
        self.step(Step::Stall)
    }

    /// Ends by closing.
    #[must_use]
    pub fn close(self) -> Self {
        self.step(Step::Close)
    }

    /// Ends with a reset.
    #[must_use]
    pub fn reset(self) -> Self {
        self.step(Step::Reset)
    }

    /// Ends by closing the way out.
    #[must_use]
    pub fn half_close(self) -> Self {
        self.step(Step::HalfClose)
    }

    /// A whole answer with a length, in one write.
    pub fn text(status: u16, content_type: &str, body: &str) -> Self {
        Self::new().send(format!(
            "HTTP/1.1 {status} {}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
            reason(status),
            body.len()
        ))
    }

    /// A whole JSON answer.
    pub fn json(status: u16, body: &str) -> Self {
        Self::text(status, "application/json", body)
    }

    /// A whole page of HTML with status 200.
    pub fn html() -> Self {
        Self::text(200, "text/html", "<html><body>It works!</body></html>")
    }

    /// A chat answer that is not streamed, with `content` and a usage of `prompt` and `completion` tokens.
    pub fn chat(content: &str, prompt: u64, completion: u64) -> Self {
        let body = serde_json::json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion},
        });
        Self::json(200, &body.to_string())
    }

    /// The head of an event stream in chunked coding.
    pub fn sse_head() -> Self {
        Self::new()
            .send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    }

    /// Adds `data` as one HTTP chunk in one write.
    #[must_use]
    pub fn chunk(self, data: impl AsRef<[u8]>) -> Self {
        self.send(http_chunk(data.as_ref()))
    }

    /// Adds `data: …` with its blank line as one HTTP chunk.
    #[must_use]
    pub fn event(self, data: &str) -> Self {
        self.chunk(format!("data: {data}\n\n"))
    }

    /// Adds a chat event with `content`.
    #[must_use]
    pub fn chat_event(self, content: &str) -> Self {
        self.event(&chat_chunk(content))
    }

    /// Adds the last HTTP chunk.
    #[must_use]
    pub fn end_chunks(self) -> Self {
        self.send("0\r\n\r\n")
    }

    /// A whole stream: a chat event for each text, a finish reason, the end marker.
    pub fn chat_stream(texts: &[&str]) -> Self {
        texts
            .iter()
            .fold(Self::sse_head(), |reply, text| reply.chat_event(text))
            .event(r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#)
            .event("[DONE]")
            .end_chunks()
    }

    /// A stream that breaks inside an event after `texts`: half the bytes of the next event, then an end that is well-formed
    /// HTTP.
    pub fn half_event(texts: &[&str]) -> Self {
        let event = format!("data: {}\n\n", chat_chunk("never whole"));
        texts
            .iter()
            .fold(Self::sse_head(), |reply, text| reply.chat_event(text))
            .chunk(&event.as_bytes()[..event.len() / 2])
            .end_chunks()
    }

    /// A chat answer with no choices.
    pub fn no_choices() -> Self {
        Self::json(200, r#"{"id":"c","object":"chat.completion","choices":[]}"#)
    }

    /// Bytes that are not HTTP, then the end.
    pub fn garbage() -> Self {
        Self::new().send(b"\x16\x03\x01\x00\xff not HTTP\r\n\r\n").close()
    }

    /// Nothing but the end.
    pub fn close_before_answer() -> Self {
        Self::new().close()
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// `data` in HTTP's chunked coding.
pub fn http_chunk(data: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", data.len()).into_bytes();
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
    out
}

/// The JSON of a chat event with `content`.
pub fn chat_chunk(content: &str) -> String {
    serde_json::json!({
        "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": null}],
    })
    .to_string()
}

fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|s| s.canonical_reason()).unwrap_or("Status")
}

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
}

impl Script {
    /// Replies in order; the last stays.
    pub fn new(replies: Vec<Reply>) -> Self {
        Self { replies, order: Order::LastStays, greeting: None }
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

    fn reply(&self, index: usize) -> Option<&Reply> {
        let last = self.replies.len().checked_sub(1)?;
        match self.order {
            Order::LastStays => self.replies.get(index.min(last)),
            Order::Cycle => self.replies.get(index % self.replies.len()),
        }
    }
}

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
            let _ = converse(stream, connection, &shared);
            // The copy kept for stopping would hold the connection open.
            if let Some(copy) = lock(&shared.seen).open.get_mut(connection) {
                *copy = None;
            }
        });
        if spawned.is_err() {
            lock(&state.seen).open[connection] = None;
        }
    }
}

fn converse(mut stream: TcpStream, connection: usize, state: &State) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if let Some(greeting) = &state.script.greeting
        && !play(&mut stream, greeting, connection, state)?
    {
        return Ok(());
    }
    let mut buffer = Vec::new();
    while let Some(mut request) = read_request(&mut stream, &mut buffer)? {
        let index = {
            let mut seen = lock(&state.seen);
            request.index = seen.requests.len();
            request.connection = connection;
            let index = request.index;
            seen.requests.push(request);
            index
        };
        state.changed.notify_all();
        let Some(reply) = state.script.reply(index) else { return Ok(()) };
        if !play(&mut stream, reply, connection, state)? {
            return Ok(());
        }
    }
    Ok(())
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
