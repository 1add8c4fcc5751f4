//! The server: one thread with its own runtime, keep-alive HTTP/1.1, the routes, and the life of a request from its first
//! byte to its closed books.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;

use aiperf_core::time::ClockAnchor;
use aiperf_os::mono_ns;
use aiperf_rng::Key;
use aiperf_tokens::Tokenizer;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::answer::{Answer, Finish};
use crate::body::{FullBody, SimBody, StreamBody, StreamForm};
use crate::desk::Desk;
use crate::engine::Job;
use crate::error::SimError;
use crate::fault::{Chosen, Fault, FaultKind, choose};
use crate::metrics::{Gauges, page};
use crate::option::{Head, SimConfig, UsageForm};
use crate::prompt::{Counter, Input, Prompt};
use crate::request::{Api, Ask, Refusal, too_long};
use crate::ticket::{Ledger, Ticket};
use crate::truth::{SimTotals, TruthOutcome, TruthRecord, TruthSink};
use crate::wire::{Kill, Shape, Wire, WireControl};
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
/// Largest request body taken.
const MAX_BODY: usize = 256 << 20;
/// Prompts longer than this many bytes are counted on another thread, so that no stream waits for them.
const COUNT_HERE: usize = 1_024;
/// Pause after a failed accept, when the process is out of descriptors.
const ACCEPT_PAUSE_NS: u64 = 10_000_000;
/// Name of the model that `/v1/models` and `/metrics` show when any name is served.
const ANY_MODEL: &str = "sim";

/// A running server. Dropped, it stops.
#[derive(Debug)]
pub struct SimHandle {
    addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    totals: Arc<Mutex<SimTotals>>,
    sink: Arc<TruthSink>,
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

    /// Stops it: connections are dropped, the truth log is complete when this returns.
    pub fn stop(mut self) -> SimTotals {
        self.halt();
        self.totals()
    }

    /// As [`Self::stop`], with the records in memory and whether the truth log could be written to its end.
    pub fn stop_with_truth(mut self) -> (SimTotals, Vec<TruthRecord>, io::Result<()>) {
        self.halt();
        let written = self.log_error.take().map_or(Ok(()), Err);
        (self.totals(), self.truth(), written)
    }

    /// Waits until the server ends by itself, which it does only when its thread fails.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }

    fn halt(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread is gone already when nobody receives.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed; the totals up to it still count.
            let _ = thread.join();
            self.log_error = self.sink.close().err();
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
    let totals = Arc::new(Mutex::new(SimTotals::default()));
    let (stop, stopped) = oneshot::channel();
    let shared = Shared { totals: Arc::clone(&totals), sink: Arc::clone(&sink), clock };
    let (ready, started) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new()
        .name("sim".to_owned())
        .spawn(move || run(config, words, tokenizer, shared, listener, stopped, &ready))
        .map_err(|source| SimError::Thread { source })?;
    let handle = SimHandle { addr, stop: Some(stop), thread: Some(thread), totals, sink, log_error: None };
    match started.recv() {
        Ok(Ok(())) => Ok(handle),
        Ok(Err(source)) => Err(SimError::Thread { source }),
        Err(_) => Err(SimError::Thread { source: io::Error::other("the thread ended at once") }),
    }
}

struct Shared {
    totals: Arc<Mutex<SimTotals>>,
    sink: Arc<TruthSink>,
    clock: ClockAnchor,
}

fn bind(addr: SocketAddr) -> io::Result<std::net::TcpListener> {
    let domain = socket2::Domain::for_address(addr);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
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
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Without it small events wait for acknowledgements; failing, the peer is gone already.
                let _ = stream.set_nodelay(true);
                tokio::task::spawn_local(connection(Rc::clone(&server), stream));
            }
            Err(_) => server.desk.sleep_until_ns(mono_ns() + ACCEPT_PAUSE_NS).await,
        }
    }
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

/// What all connections share.
struct Server {
    config: SimConfig,
    words: Rc<Words>,
    counter: Arc<Counter>,
    desk: Rc<Desk>,
    ledger: Rc<Ledger>,
    created_s: u64,
    ids: aiperf_rng::Stream,
    ends: aiperf_rng::Stream,
    /// Index of the next inference request.
    index: Cell<u64>,
    connections: Cell<u64>,
}

impl Server {
    async fn handle(&self, request: Request<Incoming>, control: Rc<WireControl>) -> Response<SimBody> {
        let arrival_ns = control.first_read_ns.get();
        let (head, body) = request.into_parts();
        let body = match read_body(body).await {
            Ok(body) => body,
            Err(refusal) => return self.refuse(&refusal, None, control),
        };
        let body_ns = mono_ns();
        // The next read begins the next request.
        control.first_read_ns.set(0);
        let arrival_ns = if arrival_ns == 0 { body_ns } else { arrival_ns };
        let path = head.uri.path().trim_end_matches('/');
        let api = match path {
            "/v1/chat/completions" => Api::Chat,
            "/v1/completions" => Api::Completions,
            _ => return self.page(&head.method, path, &head.headers, control),
        };
        if head.method != Method::POST {
            let refusal = Refusal::new(405, "MethodNotAllowedError", "use POST here");
            return self.refuse(&refusal, None, control);
        }
        let index = self.index.get();
        self.index.set(index + 1);
        let chosen = choose(&self.config.faults, self.config.seed, index);
        let ticket = Ticket::new(
            Rc::clone(&self.desk),
            Rc::clone(&self.ledger),
            TruthRecord {
                index,
                x_request_id: head
                    .headers
                    .get("x-request-id")
                    .map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned()),
                endpoint: api.name().to_owned(),
                stream: false,
                status: 0,
                outcome: if chosen.main.is_some() { TruthOutcome::Fault } else { TruthOutcome::ClientGone },
                fault: chosen.main.as_ref().or(chosen.delivery.as_ref()).map(|f| match f.kind {
                    FaultKind::Status(status) => status.to_string(),
                    kind => kind.name().to_owned(),
                }),
                arrival_ns,
                body_ns,
                queued_ns: None,
                prefill_start_ns: None,
                prefill_end_ns: None,
                chunks_ns: Vec::new(),
                end_ns: 0,
                prompt_tokens: 0,
                cached_tokens: 0,
                completion_tokens: 0,
                reasoning_tokens: 0,
                body_bytes: body.len() as u64,
            },
        );
        if let Some(refusal) = self.unauthorized(&head.headers) {
            return self.refuse(&refusal, Some(ticket), control);
        }
        let shape = match chosen.delivery.as_ref().map(|f| (f.kind, f.gap_ns)) {
            Some((FaultKind::Bytes | FaultKind::SlowLoris, gap_ns)) => Shape::Bytes(gap_ns),
            _ => Shape::Whole,
        };
        control.shape.set(shape);
        if let Some(fault) = &chosen.main
            && let Some(response) = self.fail_first(fault, &ticket, &control).await
        {
            return match response {
                Early::Refusal(refusal) => self.refuse(&refusal, Some(ticket), control),
                Early::Page(bytes) => {
                    ticket.note(|r| r.status = 200);
                    let mut response = Response::new(full(bytes, Some(ticket), control));
                    response
                        .headers_mut()
                        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
                    response
                }
            };
        }
        let ask = match Ask::parse(api, &body, &self.config) {
            Ok(ask) => ask,
            Err(refusal) => return self.refuse(&refusal, Some(ticket), control),
        };
        ticket.note(|r| r.stream = ask.stream);
        let prompt = match self.count(api, &ask).await {
            Ok(prompt) => prompt,
            Err(refusal) => return self.refuse(&refusal, Some(ticket), control),
        };
        self.answer(api, &ask, prompt, index, body_ns, chosen, ticket, control).await
    }

    /// Faults that come before there is an answer. Those of connections never return.
    async fn fail_first(&self, fault: &Fault, ticket: &Ticket, control: &WireControl) -> Option<Early> {
        let early = match fault.kind {
            FaultKind::Status(status) => {
                let mut refusal =
                    Refusal::new(status, status_kind(status), format!("simulated failure {status}"));
                refusal.retry_after_s = matches!(status, 429 | 503).then_some(fault.retry_after_s);
                Some(Early::Refusal(refusal))
            }
            FaultKind::Html => Some(Early::Page(Bytes::from_static(HTML))),
            FaultKind::Close | FaultKind::Garbage => None,
            FaultKind::Reset | FaultKind::Stall if fault.after.is_none() => None,
            _ => return None,
        };
        if fault.gap_ns > 0 {
            self.desk.sleep_until_ns(mono_ns() + fault.gap_ns).await;
        }
        if early.is_some() {
            return early;
        }
        match fault.kind {
            FaultKind::Reset => control.kill(Kill::Reset),
            FaultKind::Garbage => control.kill(Kill::Raw(Bytes::from_static(GARBAGE))),
            FaultKind::Close => control.kill(Kill::Close),
            _ => {}
        }
        ticket.note(|r| r.end_ns = mono_ns());
        std::future::pending().await
    }

    /// Counts a prompt: known ones and short ones here, others on the counting thread.
    async fn count(&self, api: Api, ask: &Ask<'_>) -> Result<Prompt, Refusal> {
        let key = Counter::key(api, ask);
        if let Some(prompt) = self.counter.recall(&key) {
            return Ok(prompt);
        }
        let input = Input::of(api, ask);
        if ask.input.len() <= COUNT_HERE {
            return self.counter.count(key, &input);
        }
        let counter = Arc::clone(&self.counter);
        tokio::task::spawn_blocking(move || counter.count(key, &input)).await.unwrap_or_else(|_| {
            Err(Refusal::new(500, "InternalServerError", "the tokenizer failed on this prompt"))
        })
    }

    /// Length and end of an answer.
    fn plan(
        &self,
        api: Api,
        ask: &Ask<'_>,
        prompt_tokens: u64,
        index: u64,
    ) -> Result<(u64, bool, Finish), Refusal> {
        let room = self.config.max_model_len.saturating_sub(prompt_tokens);
        if room == 0 || ask.limit.is_some_and(|l| l > room) {
            return Err(too_long(self.config.max_model_len, prompt_tokens, ask.limit.unwrap_or(1), api));
        }
        let most = if self.config.max_osl == 0 { room } else { room.min(self.config.max_osl) };
        // Without a limit the model itself ends, at its usual length, unless it must not.
        let (mut tokens, mut finish) = match ask.limit {
            Some(limit) => (limit.min(most), Finish::Length),
            None if ask.ignore_eos || self.config.osl.max(ask.min_tokens) > most => {
                (self.config.osl.max(ask.min_tokens).min(most), Finish::Length)
            }
            None => (self.config.osl.max(ask.min_tokens), Finish::Stop),
        };
        if self.config.eos > 0.0 && !ask.ignore_eos {
            let drawn = geometric(self.ends.at(index).unit_positive(), self.config.eos);
            let end = drawn.max(ask.min_tokens).max(1);
            if end < tokens {
                (tokens, finish) = (end, Finish::Stop);
            }
        }
        Ok((tokens, finish == Finish::Stop, finish))
    }

    #[expect(clippy::too_many_arguments, reason = "one call, all of them facts of the request")]
    async fn answer(
        &self,
        api: Api,
        ask: &Ask<'_>,
        prompt: Prompt,
        index: u64,
        ready_ns: u64,
        chosen: Chosen,
        ticket: Ticket,
        control: Rc<WireControl>,
    ) -> Response<SimBody> {
        let (mut tokens, by_itself, finish) = match self.plan(api, ask, prompt.tokens, index) {
            Ok(plan) => plan,
            Err(refusal) => return self.refuse(&refusal, Some(ticket), control),
        };
        let kind = chosen.main.as_ref().map(|f| f.kind);
        if kind == Some(FaultKind::RoleOnly) {
            tokens = 0;
        }
        // The end token takes a decode step like any other, whether usage counts it or not.
        let job = Job {
            id: index,
            prompt_tokens: prompt.tokens,
            blocks: prompt.blocks,
            output_tokens: tokens + u64::from(by_itself),
            chunks: ask.stream,
        };
        let extra = u64::from(by_itself && self.config.count_eos);
        let answer = Answer::new(
            &self.config,
            api,
            self.ids.at(index).next_u128(),
            self.created_s,
            &ask.model,
            ask.stream,
            prompt.tokens,
            (tokens, extra, finish),
        );
        ticket.note(|r| {
            r.queued_ns = Some(mono_ns());
            r.prompt_tokens = prompt.tokens;
            r.reasoning_tokens = answer.reasoning;
            r.status = 200;
        });
        let flow = self.desk.submit(ready_ns, job);
        ticket.attach(Rc::clone(&flow));
        if ask.stream {
            if self.config.head == Head::FirstToken {
                flow.first().await;
            }
            self.count_finish(finish);
            let form = self.stream_form(ask);
            let body = StreamBody::new(
                form,
                answer,
                Rc::clone(&self.words),
                flow,
                chosen,
                control,
                Rc::clone(&self.desk),
                ticket,
            );
            let mut response = Response::new(SimBody::Stream(Box::new(body)));
            let headers = response.headers_mut();
            headers
                .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            return response;
        }
        flow.end().await;
        self.count_finish(finish);
        self.whole(&answer, flow.cached.get(), kind, ticket, control).await
    }

    /// An answer that is not streamed, as its fault wants it.
    async fn whole(
        &self,
        answer: &Answer,
        cached: u64,
        kind: Option<FaultKind>,
        ticket: Ticket,
        control: Rc<WireControl>,
    ) -> Response<SimBody> {
        let body = match kind {
            Some(FaultKind::EmptyChoices) => answer.body(&self.words, cached, false, false),
            Some(FaultKind::RoleOnly) => answer.body(&self.words, cached, true, false),
            Some(FaultKind::ErrorEvent | FaultKind::ErrorData) => {
                let refusal = Refusal::new(500, "InternalServerError", "simulated failure inside the answer");
                Bytes::from(refusal.body())
            }
            Some(FaultKind::Malformed | FaultKind::HalfEvent | FaultKind::End) => {
                let whole = answer.body(&self.words, cached, true, true);
                whole.slice(..whole.len() / 2)
            }
            Some(FaultKind::Stall) => std::future::pending().await,
            Some(FaultKind::Reset) => {
                control.kill(Kill::Reset);
                std::future::pending().await
            }
            _ => {
                ticket.note(|r| r.completion_tokens = answer.tokens + answer.extra);
                answer.body(&self.words, cached, true, true)
            }
        };
        let mut response = if kind == Some(FaultKind::Cut) {
            Response::new(SimBody::Full(FullBody::cut(&body, ticket, control)))
        } else {
            if kind.is_none() {
                ticket.note(|r| r.outcome = TruthOutcome::Completed);
            }
            Response::new(full(body, Some(ticket), control))
        };
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    fn stream_form(&self, ask: &Ask<'_>) -> StreamForm {
        let form = self.config.usage;
        let asked = form == UsageForm::Asked && ask.include_usage;
        StreamForm {
            role: self.config.role_chunk,
            tokens_per_chunk: self.config.tokens_per_chunk,
            usage_each: form == UsageForm::Continuous || (asked && ask.continuous_usage),
            usage_at_finish: form == UsageForm::Finish,
            usage_last: asked || matches!(form, UsageForm::Always | UsageForm::Continuous),
            done: self.config.done,
        }
    }

    fn count_finish(&self, finish: Finish) {
        let counter = &self.ledger.finished[usize::from(finish == Finish::Length)];
        counter.set(counter.get() + 1);
    }

    fn unauthorized(&self, headers: &HeaderMap) -> Option<Refusal> {
        if self.config.api_key.is_empty() {
            return None;
        }
        let shown = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        if shown.and_then(|v| v.strip_prefix("Bearer ")) == Some(self.config.api_key.as_str()) {
            return None;
        }
        Some(Refusal::new(401, "AuthenticationError", "Unauthorized: the bearer token is missing or wrong"))
    }

    /// Everything that is not an inference request.
    fn page(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        control: Rc<WireControl>,
    ) -> Response<SimBody> {
        let known = matches!(path, "/v1/models" | "/health" | "/metrics");
        if known && method != Method::GET && method != Method::HEAD {
            let refusal = Refusal::new(405, "MethodNotAllowedError", "use GET here");
            return self.refuse(&refusal, None, control);
        }
        if path.starts_with("/v1/")
            && let Some(refusal) = self.unauthorized(headers)
        {
            return self.refuse(&refusal, None, control);
        }
        let (kind, text) = match path {
            "/health" => ("application/json", "{}".to_owned()),
            "/metrics" => ("text/plain; version=0.0.4; charset=utf-8", self.metrics()),
            "/v1/models" => ("application/json", self.models()),
            _ => {
                let refusal =
                    Refusal::new(404, "NotFoundError", format!("nothing is served at {method} {path}"));
                return self.refuse(&refusal, None, control);
            }
        };
        let mut response = Response::new(full(Bytes::from(text), None, control));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }

    fn models(&self) -> String {
        let any = [ANY_MODEL.to_owned()];
        let names: &[String] = if self.config.models.is_empty() { &any } else { &self.config.models };
        let list: Vec<_> = names
            .iter()
            .map(|name| {
                serde_json::json!({
                    "id": name, "object": "model", "created": self.created_s, "owned_by": "aiperf-sim",
                    "root": name, "parent": null, "max_model_len": self.config.max_model_len,
                })
            })
            .collect();
        serde_json::json!({"object": "list", "data": list}).to_string()
    }

    fn metrics(&self) -> String {
        let (running, waiting, cached_blocks) = self.desk.load();
        let totals = self.ledger.with_totals(|t| *t);
        let gauges = Gauges {
            running,
            waiting,
            cached_blocks,
            prompt_tokens: totals.prompt_tokens,
            generation_tokens: totals.completion_tokens,
            cache_queries: if self.config.prefix_cache { totals.prompt_tokens } else { 0 },
            cache_hits: totals.cached_tokens,
            finished_stop: self.ledger.finished[0].get(),
            finished_length: self.ledger.finished[1].get(),
        };
        page(self.config.models.first().map_or(ANY_MODEL, String::as_str), &gauges)
    }

    fn refuse(
        &self,
        refusal: &Refusal,
        ticket: Option<Ticket>,
        control: Rc<WireControl>,
    ) -> Response<SimBody> {
        if let Some(ticket) = &ticket {
            ticket.note(|r| {
                r.status = refusal.status;
                if r.outcome != TruthOutcome::Fault {
                    r.outcome = TruthOutcome::Rejected;
                }
            });
        }
        let mut response = Response::new(full(Bytes::from(refusal.body()), ticket, control));
        *response.status_mut() =
            StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = refusal.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// What a fault puts in place of an answer.
enum Early {
    Refusal(Refusal),
    Page(Bytes),
}

const HTML: &[u8] =
    b"<!DOCTYPE html><html><head><title>Bad gateway</title></head><body><h1>Bad gateway</h1></body></html>";
const GARBAGE: &[u8] = b"\x16\x03\x01\x00\xff this is not HTTP\r\n\r\n";

fn full(bytes: Bytes, ticket: Option<Ticket>, control: Rc<WireControl>) -> SimBody {
    SimBody::Full(FullBody::new(bytes, ticket, control))
}

/// The error type that goes with a status.
fn status_kind(status: u16) -> &'static str {
    match status {
        401 => "AuthenticationError",
        404 => "NotFoundError",
        422 => "UnprocessableEntityError",
        429 => "RateLimitError",
        400..=499 => "BadRequestError",
        503 => "ServiceUnavailableError",
        _ => "InternalServerError",
    }
}

/// A geometric draw, at least 1: how many tokens it takes until one is the end, each with chance `p`. By inversion.
fn geometric(unit_positive: f64, p: f64) -> u64 {
    if p >= 1.0 {
        return 1;
    }
    // The cast saturates, which is what an endless answer should do.
    (unit_positive.ln() / (1.0 - p).ln()).ceil().max(1.0) as u64
}

async fn read_body(body: Incoming) -> Result<Bytes, Refusal> {
    let mut body = pin!(body);
    let mut whole = Vec::new();
    let mut first: Option<Bytes> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Refusal::new(400, "BadRequestError", "the request body broke off"))?;
        let Ok(data) = frame.into_data() else { continue };
        let have = whole.len() + first.as_ref().map_or(0, Bytes::len);
        if have + data.len() > MAX_BODY {
            return Err(Refusal::new(413, "RequestTooLargeError", "the request body is larger than 256 MiB"));
        }
        // The usual body comes in one piece and is not copied.
        match first.take() {
            None if whole.is_empty() => first = Some(data),
            None => whole.extend_from_slice(&data),
            Some(start) => {
                whole.extend_from_slice(&start);
                whole.extend_from_slice(&data);
            }
        }
    }
    Ok(first.unwrap_or_else(|| Bytes::from(whole)))
}
