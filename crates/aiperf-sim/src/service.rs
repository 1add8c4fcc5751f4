//! The life of a request from its first byte to its answer: read, understood, counted, given to the engine, answered as its
//! fault wants it.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use aiperf_os::mono_ns;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::answer::{Answer, Finish, Text};
use crate::body::{FullBody, SimBody};
use crate::capture::{Capture, Entry};
use crate::desk::{Desk, Flow};
use crate::engine::Job;
use crate::fault::{Chosen, Fault, FaultKind, choose};
use crate::option::{Head, SimConfig, UsageForm};
use crate::page::{full, refuse};
use crate::prompt::{Counter, Input, Prompt};
use crate::refusal::{Refusal, too_long};
use crate::request::{Api, Ask};
use crate::scores::{ScoreApi, ScoreAsk};
use crate::shelf::{Shelf, behind};
use crate::stream::{StreamBody, StreamForm};
use crate::ticket::{Ledger, Ticket};
use crate::truth::{TruthOutcome, TruthRecord};
use crate::wire::{Kill, Shape, WireControl};
use crate::words::Words;

/// Largest request body taken.
const MAX_BODY: usize = 256 << 20;
/// Prompts longer than this many bytes are counted on another thread, so that no stream waits for them.
pub(crate) const COUNT_HERE: usize = 1_024;

/// Where in a job's name the place of its prompt stands, above the number of its request.
const PLACE_SHIFT: u32 = 40;

/// What all connections share.
pub(crate) struct Server {
    pub(crate) config: SimConfig,
    pub(crate) words: Rc<Words>,
    pub(crate) counter: Arc<Counter>,
    pub(crate) desk: Rc<Desk>,
    pub(crate) ledger: Rc<Ledger>,
    pub(crate) created_s: u64,
    pub(crate) ids: aiperf_rng::Stream,
    pub(crate) ends: aiperf_rng::Stream,
    /// Index of the next inference request.
    pub(crate) index: Cell<u64>,
    pub(crate) connections: Cell<u64>,
    pub(crate) capture: Option<Capture>,
    pub(crate) shelf: RefCell<Shelf>,
}

impl Server {
    /// The whole life of a request: read, understood, counted, answered.
    pub(crate) async fn handle(
        &self,
        request: Request<Incoming>,
        control: Rc<WireControl>,
    ) -> Response<SimBody> {
        let arrival_ns = control.first_read_ns.get();
        let (head, body) = request.into_parts();
        let body = match read_body(body).await {
            Ok(body) => body,
            Err(refusal) => return refuse(&refusal, None, control),
        };
        let body_ns = mono_ns();
        // The next read begins the next request.
        control.first_read_ns.set(0);
        let arrival_ns = if arrival_ns == 0 { body_ns } else { arrival_ns };
        let mut entry = self.capture.as_ref().map(|c| c.take(&head, &body, arrival_ns));
        let path = head.uri.path().trim_end_matches('/');
        let asked = Api::at(path, &body).map(Asked::Text).or_else(|| ScoreApi::at(path).map(Asked::Scores));
        let Some(asked) = asked else {
            if self.tokenizes(path) {
                return self.tokenize(&head.method, path, body, entry, control).await;
            }
            return self.page(&head.method, path, &head.headers, control);
        };
        if head.method != Method::POST {
            let refusal = Refusal::new(405, "MethodNotAllowedError", "use POST here");
            return refuse(&asked.tells(refusal), None, control);
        }
        let index = self.index.get();
        self.index.set(index + 1);
        if let Some(entry) = &mut entry {
            entry.number(index);
        }
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
                endpoint: asked.name().to_owned(),
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
            return refuse(&asked.tells(refusal), Some(ticket), control);
        }
        let shape = match chosen.delivery.as_ref().map(|f| (f.kind, f.gap_ns)) {
            Some((FaultKind::Bytes | FaultKind::SlowLoris, gap_ns)) => Shape::Bytes(gap_ns),
            _ => Shape::Whole,
        };
        control.shape.set(shape);
        if let Some(fault) = &chosen.main
            && acts_first(fault)
        {
            // Its prompt is never counted, and a fault may last: the capture goes on without it.
            drop(entry);
            return match self.fail_first(fault, &ticket, &control).await {
                Early::Refusal(refusal) => refuse(&asked.tells(refusal), Some(ticket), control),
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
        let api = match asked {
            Asked::Text(api) => api,
            Asked::Scores(api) => {
                return self.score(api, body, index, body_ns, &chosen, ticket, entry, control).await;
            }
        };
        if self.config.strict && api == Api::Messages && !head.headers.contains_key("anthropic-version") {
            let refusal = Refusal::bad("the header 'anthropic-version' is missing");
            return refuse(&refusal.told_by(api), Some(ticket), control);
        }
        let mut ask = match Ask::parse(api, &body, &self.config) {
            Ok(ask) => ask,
            Err(refusal) => return refuse(&refusal.told_by(api), Some(ticket), control),
        };
        // Its body has no word for it.
        ask.stream |= api == Api::Solido && wants_events(&head.headers);
        ticket.note(|r| r.stream = ask.stream);
        let whole;
        if let Some(id) = &ask.previous {
            let Some(before) = self.shelf.borrow().get(id) else {
                let message = format!("Response with id '{id}' not found.");
                let refusal = Refusal::new(404, "NotFoundError", message);
                return refuse(&refusal.told_by(api), Some(ticket), control);
            };
            whole = behind(&before, ask.input);
            ask.input = &whole;
        }
        let prompts = match self.count(api, &ask).await {
            Ok(prompts) => prompts,
            Err(refusal) => return refuse(&refusal.told_by(api), Some(ticket), control),
        };
        if let Some(mut entry) = entry {
            entry.counted(prompts.iter().map(|p| p.tokens).sum());
        }
        let texts: Result<Vec<Text>, Refusal> = prompts
            .iter()
            .flat_map(|prompt| std::iter::repeat_n(prompt, ask.choices))
            .enumerate()
            .map(|(place, prompt)| self.plan(api, &ask, prompt, (index, place as u64), &chosen))
            .collect();
        match texts {
            Ok(texts) => {
                self.answer(api, &ask, &prompts, texts, index, body_ns, chosen, ticket, control).await
            }
            Err(refusal) => refuse(&refusal.told_by(api), Some(ticket), control),
        }
    }

    /// A fault that comes before there is an answer. Those of connections never return.
    async fn fail_first(&self, fault: &Fault, ticket: &Ticket, control: &WireControl) -> Early {
        if fault.gap_ns > 0 {
            self.desk.sleep_until_ns(mono_ns() + fault.gap_ns).await;
        }
        match fault.kind {
            FaultKind::Status(status) => {
                let mut refusal = Refusal::simulated(status);
                refusal.retry_after_s = matches!(status, 429 | 503).then_some(fault.retry_after_s);
                return Early::Refusal(refusal);
            }
            FaultKind::Html => return Early::Page(Bytes::from_static(HTML)),
            FaultKind::Reset => control.kill(Kill::Reset),
            FaultKind::Garbage => control.kill(Kill::Raw(Bytes::from_static(GARBAGE))),
            FaultKind::Close => control.kill(Kill::Close),
            _ => {}
        }
        ticket.note(|r| r.end_ns = mono_ns());
        std::future::pending().await
    }

    /// Counts the prompts: known ones and short ones here, others on the counting thread.
    async fn count(&self, api: Api, ask: &Ask<'_>) -> Result<Arc<[Prompt]>, Refusal> {
        let key = Counter::key(api, ask);
        if let Some(prompts) = self.counter.recall(&key) {
            return Ok(prompts);
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

    /// Length and end of the text at this place of this request.
    fn plan(
        &self,
        api: Api,
        ask: &Ask<'_>,
        prompt: &Prompt,
        (index, place): (u64, u64),
        chosen: &Chosen,
    ) -> Result<Text, Refusal> {
        let room = self.config.max_model_len.saturating_sub(prompt.tokens);
        if room == 0 || ask.limit.is_some_and(|l| l > room) {
            return Err(too_long(self.config.max_model_len, prompt.tokens, ask.limit.unwrap_or(1), api));
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
            let ends = if place == 0 { self.ends } else { self.ends.lane(place) };
            let drawn = geometric(ends.at(index).unit_positive(), self.config.eos);
            let end = drawn.max(ask.min_tokens).max(1);
            if end < tokens {
                (tokens, finish) = (end, Finish::Stop);
            }
        }
        if chosen.main.as_ref().is_some_and(|f| f.kind == FaultKind::RoleOnly) {
            tokens = 0;
        }
        Ok(Text {
            prompt_tokens: prompt.tokens,
            tokens,
            reasoning: if api.reasons() { self.config.reasoning.min(tokens) } else { 0 },
            extra: u64::from(finish == Finish::Stop && self.config.count_eos),
            finish,
            // Neighbours shall not say the same.
            start: ((self.ids.at(index).next_u128() >> 64) as u64).wrapping_add(place),
        })
    }

    #[expect(clippy::too_many_arguments, reason = "one call, all of them facts of the request")]
    async fn answer(
        &self,
        api: Api,
        ask: &Ask<'_>,
        prompts: &[Prompt],
        texts: Vec<Text>,
        index: u64,
        ready_ns: u64,
        chosen: Chosen,
        ticket: Ticket,
        control: Rc<WireControl>,
    ) -> Response<SimBody> {
        let kind = chosen.main.as_ref().map(|f| f.kind);
        let id = self.ids.at(index).next_u128();
        if ask.store && kind.is_none() {
            // Nobody can ask for it before its end. What was thought is not shown to the model again.
            let reply = texts.first().and_then(|text| text.content(&self.words));
            self.shelf.borrow_mut().keep(id, ask.input, reply.as_deref());
        }
        let answer = Answer::new(&self.config, api, id, self.created_s, ask, texts);
        ticket.note(|r| {
            r.queued_ns = Some(mono_ns());
            r.prompt_tokens = prompts.iter().map(|p| p.tokens).sum();
            r.reasoning_tokens = answer.reasoning();
            r.status = 200;
        });
        ticket.of_choices(answer.choices);
        let mut flows = Vec::with_capacity(answer.texts.len());
        let prompts = prompts.iter().flat_map(|prompt| std::iter::repeat_n(prompt, answer.choices));
        for (place, (prompt, text)) in prompts.zip(&answer.texts).enumerate() {
            let job = Job {
                // Each choice of each prompt is a sequence of its own.
                id: index + ((place as u64) << PLACE_SHIFT),
                prompt_tokens: prompt.tokens,
                blocks: prompt.blocks.clone(),
                // The end token takes a decode step like any other, whether usage counts it or not.
                output_tokens: text.tokens + u64::from(text.finish == Finish::Stop),
                chunks: ask.stream,
            };
            let name = job.id;
            let flow = self.desk.submit(ready_ns, job);
            ticket.attach(name, Rc::clone(&flow));
            flows.push(flow);
        }
        if ask.stream {
            if self.config.head == Head::FirstToken {
                Flow::first(&flows).await;
            }
            self.count_finishes(&answer);
            let body = StreamBody::new(
                self.stream_form(api, ask),
                answer,
                Rc::clone(&self.words),
                flows,
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
        for flow in &flows {
            flow.end().await;
        }
        self.count_finishes(&answer);
        let cached = flows.iter().step_by(answer.choices).map(|f| f.cached.get()).sum();
        let body = |part| match part {
            Part::Whole => answer.body(&self.words, cached, true, true),
            Part::NoText => answer.body(&self.words, cached, true, false),
            Part::Nothing => answer.body(&self.words, cached, false, false),
            Part::Failed => answer.failed_body(),
        };
        Self::whole(body, answer.tokens() + answer.extra(), kind, ticket, control).await
    }

    /// Vectors or scores: each input, or each passage with the query, is a prefill of its own.
    #[expect(clippy::too_many_arguments, reason = "one call, all of them facts of the request")]
    async fn score(
        &self,
        api: ScoreApi,
        body: Bytes,
        index: u64,
        ready_ns: u64,
        chosen: &Chosen,
        ticket: Ticket,
        entry: Option<Entry>,
        control: Rc<WireControl>,
    ) -> Response<SimBody> {
        let counted = match ScoreAsk::parse(api, &body, &self.config) {
            Ok(ask) if body.len() <= COUNT_HERE => ask.count(&self.counter).map(|prompts| (ask, prompts)),
            Ok(ask) => {
                let counter = Arc::clone(&self.counter);
                let count = move || ask.count(&counter).map(|prompts| (ask, prompts));
                tokio::task::spawn_blocking(count).await.unwrap_or_else(|_| {
                    Err(Refusal::new(500, "InternalServerError", "the tokenizer failed on this input"))
                })
            }
            Err(refusal) => Err(refusal),
        };
        let (ask, prompts) = match counted {
            Ok(counted) => counted,
            Err(refusal) => return refuse(&refusal, Some(ticket), control),
        };
        let tokens = prompts.iter().map(|p| p.tokens).sum();
        if let Some(mut entry) = entry {
            entry.counted(tokens);
        }
        let most = self.config.max_model_len;
        if let Some(long) = prompts.iter().find(|p| p.tokens > most) {
            let message = format!(
                "This model's maximum context length is {most} tokens, and one input has {}.",
                long.tokens
            );
            return refuse(&Refusal::bad(message), Some(ticket), control);
        }
        ticket.note(|r| {
            r.queued_ns = Some(mono_ns());
            r.prompt_tokens = tokens;
            r.status = 200;
        });
        let mut flows = Vec::with_capacity(prompts.len());
        for (place, prompt) in prompts.into_iter().enumerate() {
            let id = index + ((place as u64) << PLACE_SHIFT);
            let job = Job {
                id,
                prompt_tokens: prompt.tokens,
                blocks: prompt.blocks,
                output_tokens: 0,
                chunks: false,
            };
            let flow = self.desk.submit(ready_ns, job);
            ticket.attach(id, Rc::clone(&flow));
            flows.push(flow);
        }
        for flow in &flows {
            flow.end().await;
        }
        let id = self.ids.at(index).next_u128();
        let kind = chosen.main.as_ref().map(|f| f.kind);
        Self::whole(|part| ask.body(&self.config, id, tokens, part), 0, kind, ticket, control).await
    }

    /// An answer that is not streamed, as its fault wants it.
    async fn whole(
        body: impl Fn(Part) -> Bytes,
        tokens: u64,
        kind: Option<FaultKind>,
        ticket: Ticket,
        control: Rc<WireControl>,
    ) -> Response<SimBody> {
        let body = match kind {
            Some(FaultKind::EmptyChoices) => body(Part::Nothing),
            Some(FaultKind::RoleOnly) => body(Part::NoText),
            Some(FaultKind::ErrorEvent | FaultKind::ErrorData) => body(Part::Failed),
            Some(FaultKind::Malformed | FaultKind::HalfEvent | FaultKind::End) => {
                let whole = body(Part::Whole);
                whole.slice(..whole.len() / 2)
            }
            Some(FaultKind::Stall) => std::future::pending().await,
            Some(FaultKind::Reset) => {
                control.kill(Kill::Reset);
                std::future::pending().await
            }
            _ => {
                ticket.note(|r| r.completion_tokens = tokens);
                body(Part::Whole)
            }
        };
        let mut response = if kind == Some(FaultKind::Cut) {
            Response::new(SimBody::Full(Box::new(FullBody::cut(&body, ticket, control))))
        } else {
            if kind.is_none() {
                ticket.note(|r| r.outcome = TruthOutcome::Completed);
            }
            Response::new(full(body, Some(ticket), control))
        };
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    fn stream_form(&self, api: Api, ask: &Ask<'_>) -> StreamForm {
        let form = self.config.usage;
        let asked = form == UsageForm::Asked && ask.include_usage;
        StreamForm {
            role: self.config.role_chunk,
            tokens_per_chunk: self.config.tokens_per_chunk,
            usage_each: form == UsageForm::Continuous
                || (asked && ask.continuous_usage)
                // It has counts in every event, asked or not.
                || (api == Api::Sglang && form != UsageForm::None),
            usage_at_finish: form == UsageForm::Finish,
            usage_last: asked || matches!(form, UsageForm::Always | UsageForm::Continuous),
            done: self.config.done,
        }
    }

    fn count_finishes(&self, answer: &Answer) {
        for text in &answer.texts {
            let counter = &self.ledger.finished[usize::from(text.finish == Finish::Length)];
            counter.set(counter.get() + 1);
        }
    }
}

/// What was asked for.
#[derive(Debug, Clone, Copy)]
enum Asked {
    Text(Api),
    Scores(ScoreApi),
}

impl Asked {
    const fn name(self) -> &'static str {
        match self {
            Self::Text(api) => api.name(),
            Self::Scores(api) => api.name(),
        }
    }

    /// A refusal as the API tells it.
    fn tells(self, refusal: Refusal) -> Refusal {
        match self {
            Self::Text(api) => refusal.told_by(api),
            Self::Scores(_) => refusal,
        }
    }
}

/// How much of an answer its body has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    /// No text in its choices; no vectors or scores in its list.
    NoText,
    /// Nothing in its list.
    Nothing,
    /// An error in its place.
    Failed,
}

/// Whether the client takes server-sent events alone.
fn wants_events(headers: &http::HeaderMap) -> bool {
    headers.get(header::ACCEPT).is_some_and(|accept| accept.as_bytes() == b"text/event-stream")
}

/// Whether a fault comes before there is an answer.
fn acts_first(fault: &Fault) -> bool {
    match fault.kind {
        FaultKind::Status(_) | FaultKind::Html | FaultKind::Close | FaultKind::Garbage => true,
        FaultKind::Reset | FaultKind::Stall => fault.after.is_none(),
        _ => false,
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
