//! Streams: each event is given to the wire on its own, when the engine says so and the one before has left. An answer with
//! several texts brings their events in the order in which they are done, each text in its turn.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use aiperf_os::mono_ns;
use bytes::{Bytes, BytesMut};

use crate::answer::{Answer, Failed, Usage};
use crate::desk::{Desk, Flow, Sleep};
use crate::fault::{Chosen, FaultKind};
use crate::option::RoleChunk;
use crate::request::Api;
use crate::ticket::Ticket;
use crate::truth::TruthOutcome;
use crate::wire::{Kill, WireControl};
use crate::words::Words;

/// Which events have usage, and what ends the stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamForm {
    pub(crate) role: RoleChunk,
    pub(crate) tokens_per_chunk: u64,
    /// Usage in every event.
    pub(crate) usage_each: bool,
    /// Usage in the event with the finish reason.
    pub(crate) usage_at_finish: bool,
    /// Usage in a last event without choices.
    pub(crate) usage_last: bool,
    pub(crate) done: bool,
}

/// When the opening goes, which says whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// Before the prefill.
    Now,
    /// As an event of its own before the first token.
    BeforeFirst,
    /// With the first token.
    WithFirst,
    Gone,
}

/// How far a text is.
#[derive(Debug)]
struct Progress {
    flow: Rc<Flow>,
    /// Tokens handed over.
    sent: u64,
    finished: bool,
}

/// A stream of events.
#[derive(Debug)]
pub(crate) struct StreamBody {
    form: StreamForm,
    answer: Answer,
    words: Rc<Words>,
    texts: Vec<Progress>,
    /// The text whose turn it is to be looked at first.
    turn: usize,
    chosen: Chosen,
    control: Rc<WireControl>,
    desk: Rc<Desk>,
    ticket: Option<Ticket>,
    opening: Opening,
    /// Chunks with content handed over.
    chunks: u64,
    /// Joined delivery: events that wait for more.
    held: BytesMut,
    held_events: u64,
    /// Split delivery: the second part of an event, and when it may go.
    rest: Option<(Bytes, Pin<Box<Sleep>>, bool)>,
    /// A frame is on its way whose write is not noted yet.
    unnoted: bool,
    stalled: bool,
    over: bool,
}

impl StreamBody {
    #[expect(clippy::too_many_arguments, reason = "one call, all of them parts of the stream")]
    pub(crate) fn new(
        form: StreamForm,
        answer: Answer,
        words: Rc<Words>,
        flows: Vec<Rc<Flow>>,
        mut chosen: Chosen,
        control: Rc<WireControl>,
        desk: Rc<Desk>,
        ticket: Ticket,
    ) -> Self {
        if let Some(fault) = &mut chosen.main {
            // Half-way, when nothing else is said.
            let chunks: u64 = answer.texts.iter().map(|t| t.tokens.div_ceil(form.tokens_per_chunk)).sum();
            fault.after = fault.after.or(Some(chunks / 2));
        }
        let opening = match (answer.api, form.role) {
            (Api::Completions | Api::Tgi { .. } | Api::Sglang | Api::Solido, _)
            | (Api::Chat, RoleChunk::Off) => Opening::Gone,
            (_, RoleChunk::Early) => Opening::Now,
            (_, RoleChunk::FirstToken) => Opening::BeforeFirst,
            // Responses and messages cannot do without their opening.
            (_, RoleChunk::Joined | RoleChunk::Off) => Opening::WithFirst,
        };
        let mut body = Self {
            opening,
            texts: flows.into_iter().map(|flow| Progress { flow, sent: 0, finished: false }).collect(),
            turn: 0,
            form,
            answer,
            words,
            chosen,
            control,
            desk,
            ticket: Some(ticket),
            chunks: 0,
            held: BytesMut::new(),
            held_events: 0,
            rest: None,
            unnoted: false,
            stalled: false,
            over: false,
        };
        if body.is_empty_answer() && !matches!(body.answer.api, Api::Chat | Api::Completions) {
            // They have no event without content: nothing comes until the end.
            for (text, progress) in body.answer.texts.iter().zip(&mut body.texts) {
                progress.sent = text.tokens;
            }
        }
        body
    }

    /// Whether the last event has been handed over.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.over {
            return Poll::Ready(None);
        }
        if let Some((_, pause, _)) = &mut self.rest {
            ready!(self.control.poll_drained(cx));
            ready!(pause.as_mut().poll(cx));
            let (bytes, _, last) = self.rest.take().expect("it was there a moment ago");
            return Poll::Ready(Some(self.hand_over(bytes, last)));
        }
        loop {
            if self.stalled {
                return Poll::Pending;
            }
            if !self.has_event() {
                for text in &self.texts {
                    text.flow.watch(cx);
                }
                return Poll::Pending;
            }
            ready!(self.control.poll_drained(cx));
            self.note_landed();
            if self.held_events > 0 && self.fault_is_due() {
                // What was held back for company goes before the stream breaks.
                return Poll::Ready(Some(self.release_held(false)));
            }
            let Some((event, last)) = self.make_event() else {
                // A fault has broken or stopped the stream.
                return if self.over { Poll::Ready(None) } else { Poll::Pending };
            };
            match self.chosen.delivery.as_ref().map(|f| (f.kind, f.size, f.gap_ns)) {
                Some((FaultKind::Join, size, _)) => {
                    self.held.extend_from_slice(&event);
                    self.held_events += 1;
                    if !last && self.held_events < size.unwrap_or(4) {
                        continue;
                    }
                    return Poll::Ready(Some(self.release_held(last)));
                }
                Some((FaultKind::Split, size, gap_ns)) if event.len() > 1 => {
                    let half = event.len() as u64 / 2;
                    let at = size.unwrap_or(half).clamp(1, event.len() as u64 - 1) as usize;
                    let mut event = event.freeze();
                    let first = event.split_to(at);
                    let pause = Box::pin(self.desk.sleep_until_ns(mono_ns() + gap_ns));
                    self.rest = Some((event, pause, last));
                    return Poll::Ready(Some(self.hand_over(first, false)));
                }
                _ => return Poll::Ready(Some(self.hand_over(event.freeze(), last))),
            }
        }
    }

    /// Gives bytes to hyper.
    fn hand_over(&mut self, bytes: Bytes, last: bool) -> Bytes {
        self.control.arm();
        self.unnoted = true;
        if last {
            self.end();
        }
        bytes
    }

    /// Gives the joined events to hyper.
    fn release_held(&mut self, last: bool) -> Bytes {
        self.held_events = 0;
        let joined = self.held.split().freeze();
        self.hand_over(joined, last)
    }

    /// The stream is over as far as it is ours to say.
    fn end(&mut self) {
        self.over = true;
        if let Some(ticket) = self.ticket.take() {
            ticket.note(|r| {
                if r.outcome != TruthOutcome::Fault {
                    r.outcome = TruthOutcome::Completed;
                    r.completion_tokens += self.answer.extra();
                }
            });
            self.control.end_with_last_write(ticket);
        }
    }

    /// Notes the write of the frame before, which is out.
    fn note_landed(&mut self) {
        if std::mem::take(&mut self.unnoted)
            && let Some(ticket) = &self.ticket
        {
            ticket.landed(self.control.write_ns.get());
        }
    }

    /// The answer has no choices, no output, no blocks.
    fn is_empty_answer(&self) -> bool {
        self.chosen.main.as_ref().is_some_and(|f| f.kind == FaultKind::EmptyChoices)
    }

    /// The place where the chosen fault acts is reached.
    fn fault_is_due(&self) -> bool {
        self.chosen.main.as_ref().is_some_and(|f| {
            !matches!(f.kind, FaultKind::EmptyChoices | FaultKind::RoleOnly)
                && f.after.is_some_and(|after| self.chunks >= after)
        })
    }

    /// Where the next chunk of a text ends.
    fn next_end(&self, text: usize) -> u64 {
        (self.texts[text].sent + self.form.tokens_per_chunk).min(self.answer.texts[text].tokens)
    }

    /// Whether a text's next chunk is done, or its end is reached and not told.
    fn is_ready(&self, text: usize) -> bool {
        let progress = &self.texts[text];
        if progress.sent < self.answer.texts[text].tokens {
            return progress.flow.done.get() >= self.next_end(text);
        }
        !progress.finished && progress.flow.ended.get()
    }

    /// The next text with something to tell.
    fn ready_text(&self) -> Option<usize> {
        let count = self.texts.len();
        (self.turn..self.turn + count).map(|i| i % count).find(|text| self.is_ready(*text))
    }

    fn has_event(&self) -> bool {
        if self.opening == Opening::Now {
            // A message begins with the counts of its prompt, which are known when it leaves the queue.
            let flow = &self.texts[0].flow;
            return self.answer.api != Api::Messages
                || flow.prefill_start_ns.get().is_some()
                || flow.ended.get();
        }
        if self.fault_is_due() {
            // A fault at the very start waits for nothing; later ones come when the next chunk would.
            let waits = self.chosen.main.as_ref().is_some_and(|f| f.after != Some(0));
            return !waits || self.ready_text().is_some();
        }
        self.ready_text().is_some()
    }

    /// Cached tokens of all prompts, of each as its first choice found it.
    fn cached(&self) -> u64 {
        self.texts.iter().step_by(self.answer.choices).map(|t| t.flow.cached.get()).sum()
    }

    /// Usage of a text that has got to `done` tokens, where each event has usage.
    fn each(&self, text: usize, done: u64) -> Option<Usage> {
        let cached = self.texts[text].flow.cached.get();
        self.form.usage_each.then(|| self.answer.usage_of(text, done, cached))
    }

    fn open(&mut self) -> BytesMut {
        self.opening = Opening::Gone;
        let prompt = self.answer.usage_of(0, 0, self.texts[0].flow.cached.get());
        let usage = self.each(0, 0);
        self.answer.opening(usage, prompt)
    }

    /// The next event and whether it is the last; `None` when a fault ended or stopped the stream instead.
    fn make_event(&mut self) -> Option<(BytesMut, bool)> {
        if self.opening == Opening::Now {
            return Some((self.open(), false));
        }
        if self.fault_is_due() {
            return self.fault_event();
        }
        let text = self.ready_text()?;
        if self.opening == Opening::BeforeFirst && self.texts[text].sent < self.answer.texts[text].tokens {
            return Some((self.open(), false));
        }
        self.turn = (text + 1) % self.texts.len();
        if self.texts[text].sent == self.answer.texts[text].tokens {
            return Some(self.finish(text));
        }
        let to = self.next_end(text);
        let from = std::mem::replace(&mut self.texts[text].sent, to);
        let mut event = BytesMut::new();
        if self.is_empty_answer() {
            self.answer.choiceless(&mut event, None);
            return Some((event, false));
        }
        event = self.chunk(text, (from, to));
        self.chunks += 1;
        if let Some(ticket) = &self.ticket {
            ticket.chunk(self.texts.iter().map(|t| t.sent).sum());
        }
        if to == self.answer.texts[text].tokens && self.answer.ends_with_token(text) {
            self.texts[text].finished = true;
            return Some((event, true));
        }
        Some((event, false))
    }

    /// A chunk, with the opening where they go together.
    fn chunk(&mut self, text: usize, (from, to): (u64, u64)) -> BytesMut {
        let each = self.each(text, to);
        let joined = self.opening == Opening::WithFirst;
        if joined && self.answer.api != Api::Chat {
            let mut event = self.open();
            event.extend_from_slice(&self.answer.chunk(&self.words, text, (from, to), false, each));
            return event;
        }
        if joined {
            self.opening = Opening::Gone;
        }
        // Each choice has its own.
        let role = self.answer.api == Api::Chat && self.form.role == RoleChunk::Joined && from == 0;
        self.answer.chunk(&self.words, text, (from, to), role, each)
    }

    /// The end of a text and, after the last of them, of the stream. What is made at one moment leaves in one write.
    fn finish(&mut self, text: usize) -> (BytesMut, bool) {
        self.texts[text].finished = true;
        let last = self.texts.iter().all(|t| t.finished);
        let whole = self.answer.usage_whole(self.cached());
        let openai = matches!(self.answer.api, Api::Chat | Api::Completions);
        // A stream without any token has not been opened yet.
        let mut tail = if !openai && self.opening != Opening::Gone { self.open() } else { BytesMut::new() };
        if self.is_empty_answer() {
            if openai {
                self.answer.choiceless(&mut tail, None);
            }
        } else {
            let usage = if last && self.form.usage_at_finish {
                Some(whole)
            } else {
                self.form.usage_each.then(|| self.own(text))
            };
            self.answer.finish(&mut tail, &self.words, text, usage);
        }
        if !last {
            return (tail, false);
        }
        if openai {
            if self.form.usage_last {
                self.answer.choiceless(&mut tail, Some(whole));
            }
            if self.form.done {
                tail.extend_from_slice(b"data: [DONE]\n\n");
            }
        } else {
            let content = !self.is_empty_answer();
            self.answer.closing(&mut tail, &self.words, whole, content);
        }
        (tail, true)
    }

    /// Usage of a text that is whole.
    fn own(&self, text: usize) -> Usage {
        let whole = &self.answer.texts[text];
        self.answer.usage_of(text, whole.tokens + whole.extra, self.texts[text].flow.cached.get())
    }

    fn fault_event(&mut self) -> Option<(BytesMut, bool)> {
        let kind = self.chosen.main.as_ref().map(|f| f.kind)?;
        match kind {
            FaultKind::ErrorEvent => Some((self.answer.failure(Failed::Event), true)),
            FaultKind::ErrorData => {
                let mut event = self.answer.failure(Failed::Data);
                if matches!(self.answer.api, Api::Chat | Api::Completions) {
                    event.extend_from_slice(b"data: [DONE]\n\n");
                }
                Some((event, true))
            }
            FaultKind::Malformed => {
                self.chosen.main = None;
                Some((self.answer.malformed(), false))
            }
            FaultKind::HalfEvent => {
                let text = self.ready_text().unwrap_or(0);
                let sent = self.texts[text].sent;
                let to = self.next_end(text);
                let mut event = self.answer.chunk(&self.words, text, (sent, to), false, None);
                if event.is_empty() {
                    // There was no chunk left to halve.
                    event = self.answer.malformed();
                }
                event.truncate(event.len() / 2);
                Some((event, true))
            }
            FaultKind::End => {
                self.end();
                None
            }
            FaultKind::Stall => {
                self.stalled = true;
                None
            }
            FaultKind::Reset => {
                self.break_off(Kill::Reset);
                None
            }
            // Cut, and kinds that act before there is a stream.
            _ => {
                self.break_off(Kill::Close);
                None
            }
        }
    }

    fn break_off(&mut self, how: Kill) {
        if let Some(ticket) = self.ticket.take() {
            ticket.finish(mono_ns());
        }
        self.stalled = true;
        self.control.kill(how);
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        if self.control.is_drained() {
            self.note_landed();
        }
    }
}
