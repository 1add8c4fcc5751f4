//! Response bodies: whole ones, and streams that give each event to the wire on its own, when the engine says so and the one
//! before has left.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use aiperf_os::mono_ns;
use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, SizeHint};

use crate::answer::Answer;
use crate::desk::{Desk, Flow, Sleep};
use crate::fault::{Chosen, FaultKind};
use crate::option::RoleChunk;
use crate::ticket::Ticket;
use crate::truth::TruthOutcome;
use crate::wire::{Kill, WireControl};
use crate::words::Words;

/// The body of any answer.
#[derive(Debug)]
pub(crate) enum SimBody {
    Full(Box<FullBody>),
    Stream(Box<StreamBody>),
}

impl Body for SimBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Full(body) => body.poll(cx).map(|b| b.map(|b| Ok(Frame::data(b)))),
            Self::Stream(body) => body.poll(cx).map(|b| b.map(|b| Ok(Frame::data(b)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(body) => body.bytes.is_none() && !body.cut,
            Self::Stream(body) => body.over,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(body) => SizeHint::with_exact(body.promised),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// A body with a length.
#[derive(Debug)]
pub(crate) struct FullBody {
    bytes: Option<Bytes>,
    promised: u64,
    /// The connection breaks once the bytes are out, which are fewer than promised.
    cut: bool,
    ticket: Option<Ticket>,
    control: Rc<WireControl>,
}

impl FullBody {
    pub(crate) fn new(bytes: Bytes, ticket: Option<Ticket>, control: Rc<WireControl>) -> Self {
        Self { promised: bytes.len() as u64, bytes: Some(bytes), cut: false, ticket, control }
    }

    /// The first half of `bytes`, then nothing: the connection is closed.
    pub(crate) fn cut(bytes: &Bytes, ticket: Ticket, control: Rc<WireControl>) -> Self {
        let half = bytes.slice(..bytes.len() / 2);
        Self { promised: bytes.len() as u64, bytes: Some(half), cut: true, ticket: Some(ticket), control }
    }

    fn poll(&mut self, cx: &Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(bytes) = self.bytes.take() {
            self.control.arm();
            if !self.cut
                && let Some(ticket) = self.ticket.take()
            {
                self.control.end_with_last_write(ticket);
            }
            return Poll::Ready(Some(bytes));
        }
        if self.cut {
            ready!(self.control.poll_drained(cx));
            if let Some(ticket) = self.ticket.take() {
                ticket.finish(self.control.write_ns.get());
            }
            self.control.kill(Kill::Close);
            return Poll::Pending;
        }
        Poll::Ready(None)
    }
}

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Role,
    Tokens,
}

/// A stream of events.
#[derive(Debug)]
pub(crate) struct StreamBody {
    form: StreamForm,
    answer: Answer,
    words: Rc<Words>,
    flow: Rc<Flow>,
    chosen: Chosen,
    control: Rc<WireControl>,
    desk: Rc<Desk>,
    ticket: Option<Ticket>,
    next: Next,
    /// Tokens handed over.
    sent: u64,
    /// Chunks with content handed over.
    chunks: u64,
    /// The role goes with the first token, or just before it.
    role_owed: bool,
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
        flow: Rc<Flow>,
        chosen: Chosen,
        control: Rc<WireControl>,
        desk: Rc<Desk>,
        ticket: Ticket,
    ) -> Self {
        let chat = answer.api == crate::request::Api::Chat;
        let mut chosen = chosen;
        if let Some(fault) = &mut chosen.main {
            // Half-way, when nothing else is said.
            let half = answer.tokens.div_ceil(form.tokens_per_chunk) / 2;
            fault.after = fault.after.or(Some(half));
        }
        Self {
            next: if chat && form.role == RoleChunk::Early { Next::Role } else { Next::Tokens },
            role_owed: chat && matches!(form.role, RoleChunk::FirstToken | RoleChunk::Joined),
            form,
            answer,
            words,
            flow,
            chosen,
            control,
            desk,
            ticket: Some(ticket),
            sent: 0,
            chunks: 0,
            held: BytesMut::new(),
            held_events: 0,
            rest: None,
            unnoted: false,
            stalled: false,
            over: false,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
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
                self.flow.watch(cx);
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
                    r.completion_tokens += self.answer.extra;
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

    /// The place where the chosen fault acts is reached.
    fn fault_is_due(&self) -> bool {
        self.chosen.main.as_ref().is_some_and(|f| {
            !matches!(f.kind, FaultKind::EmptyChoices | FaultKind::RoleOnly)
                && f.after.is_some_and(|after| self.chunks >= after)
        })
    }

    fn next_end(&self) -> u64 {
        (self.sent + self.form.tokens_per_chunk).min(self.answer.tokens)
    }

    fn has_event(&self) -> bool {
        if self.next == Next::Role {
            return true;
        }
        if self.fault_is_due() {
            // A fault at the very start waits for nothing; later ones come when the next chunk would.
            let waits = self.chosen.main.as_ref().is_some_and(|f| f.after != Some(0));
            return !waits || self.flow.done.get() >= self.next_end();
        }
        if self.sent < self.answer.tokens {
            return self.flow.done.get() >= self.next_end();
        }
        self.flow.ended.get()
    }

    /// The next event and whether it is the last; `None` when a fault ended or stopped the stream instead.
    fn make_event(&mut self) -> Option<(BytesMut, bool)> {
        let cached = self.flow.cached.get();
        let each = self.form.usage_each.then_some(cached);
        if self.next == Next::Role {
            self.next = Next::Tokens;
            return Some((self.answer.role_event(each), false));
        }
        if self.fault_is_due() {
            return self.fault_event();
        }
        if self.sent == self.answer.tokens {
            return Some((self.tail(), true));
        }
        if self.role_owed && self.form.role == RoleChunk::FirstToken {
            self.role_owed = false;
            return Some((self.answer.role_event(each), false));
        }
        let to = self.next_end();
        if self.chosen.main.as_ref().is_some_and(|f| f.kind == FaultKind::EmptyChoices) {
            self.sent = to;
            return Some((self.answer.choiceless_event(None), false));
        }
        let role = std::mem::take(&mut self.role_owed);
        let event = self.answer.token_event(&self.words, self.sent, to, role, each);
        self.sent = to;
        self.chunks += 1;
        if let Some(ticket) = &self.ticket {
            ticket.chunk(to);
        }
        Some((event, false))
    }

    /// Finish, usage and end marker leave in one write, as they are made at one moment.
    fn tail(&mut self) -> BytesMut {
        let cached = self.flow.cached.get();
        let choiceless = self.chosen.main.as_ref().is_some_and(|f| f.kind == FaultKind::EmptyChoices);
        let with_usage = self.form.usage_each || self.form.usage_at_finish;
        let mut tail = if choiceless {
            self.answer.choiceless_event(None)
        } else {
            self.answer.finish_event(with_usage.then_some(cached))
        };
        if self.form.usage_last {
            tail.extend_from_slice(&self.answer.choiceless_event(Some(cached)));
        }
        if self.form.done {
            tail.extend_from_slice(b"data: [DONE]\n\n");
        }
        tail
    }

    fn fault_event(&mut self) -> Option<(BytesMut, bool)> {
        let kind = self.chosen.main.as_ref().map(|f| f.kind)?;
        match kind {
            FaultKind::ErrorEvent => {
                let mut event = BytesMut::from(&b"event: error\n"[..]);
                event.extend_from_slice(&error_data());
                Some((event, true))
            }
            FaultKind::ErrorData => {
                let mut event = error_data();
                event.extend_from_slice(b"data: [DONE]\n\n");
                Some((event, true))
            }
            FaultKind::Malformed => {
                self.chosen.main = None;
                Some((
                    BytesMut::from(&b"data: {\"id\":\"broken\",\"choices\":[{\"index\":0,\"delta\":\n\n"[..]),
                    false,
                ))
            }
            FaultKind::HalfEvent => {
                let mut event = self.answer.token_event(&self.words, self.sent, self.next_end(), false, None);
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

/// An error object as a data event.
fn error_data() -> BytesMut {
    BytesMut::from(
        &b"data: {\"error\":{\"message\":\"simulated failure inside the stream\",\"type\":\"InternalServerError\",\"param\":null,\"code\":500}}\n\n"[..],
    )
}
