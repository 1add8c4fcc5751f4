//! From wire facts to an [`Answer`]: which bytes are events, which events have content, when each became readable.

mod envelope;
mod lacks;
mod places;

use std::borrow::Cow;
use std::sync::Arc;

use aiperf_core::exchange::Exchange;
use aiperf_core::outcome::{Disposition, Failure, Stage};
use aiperf_core::plan::EndpointKind;
use aiperf_core::usage::Usage;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::choice::ChoiceText;
use super::chunk::{CallPart, Channel, Piece, with_object};
use super::detect::Extraction;
use super::event::Said;
use super::familiar::Familiar;
use super::grown::Grown;
use super::scores::{self, Results};
use super::{Answer, AnswerChunk, error, generate, messages, responses};
use crate::sse::{SseEvent, SseScanner};
use crate::usage::read_usage;
use places::{Frame, Only, Spot, place};

/// Reads `exchange` as an answer of the API `kind`; `rule` says where an API that has no form of its own has its content. Events
/// like those of other answers are recognized by what is `familiar`.
pub(super) fn read(
    kind: EndpointKind,
    rule: Option<&Arc<Extraction>>,
    exchange: &Exchange,
    familiar: &mut Familiar,
) -> Answer {
    let mut reader = Reader::new(kind, rule.cloned());
    if matches!(kind, EndpointKind::Chat | EndpointKind::Completions) {
        reader.familiar = Some(std::mem::take(familiar));
    }
    let status_is_good = exchange.status.is_some_and(|s| (200..300).contains(&s));
    if status_is_good {
        if exchange.is_event_stream() {
            reader.stream(exchange);
        } else {
            reader.whole(exchange);
        }
    }
    *familiar = reader.familiar.take().unwrap_or_default();
    let transport = match &exchange.disposition {
        Disposition::Finished => None,
        Disposition::Failed(failure) => Some(failure.clone()),
        Disposition::Cancelled { reason, .. } => Some(error::cancelled(*reason, exchange)),
    };
    let failure = match transport {
        Some(failure) => Some(failure),
        None if !status_is_good => Some(error::status(exchange)),
        None => reader
            .server_error
            .take()
            .or_else(|| reader.emptiness(exchange))
            .or_else(|| reader.unfinished(exchange)),
    };
    Answer { failure, ..reader.finish() }
}

/// What has been read so far of a body of lifetime `'b`.
pub(super) struct Reader<'b> {
    kind: EndpointKind,
    /// Where content is, for an API that has no form of its own.
    rule: Option<Arc<Extraction>>,
    pub(super) answer: Answer,
    server_error: Option<Failure>,
    /// Index of the choice that is followed, of an API whose choices are not read apart.
    followed: Option<i64>,
    /// Events come one by one.
    streamed: bool,
    /// What each choice says, in the order of their first sight.
    texts: Vec<ChoiceText>,
    /// Lengths of all texts and of all reasoning, bytes.
    lengths: (usize, usize),
    /// Something came that only comes at the end, although it is no end mark: counts without a choice.
    has_tail: bool,
    /// The last event with data was not JSON.
    ends_malformed: bool,
    /// Objects with counts of speculative decoding.
    spec_decodes: u32,
    /// JSON objects read, and choices seen in them (of APIs without choices, objects that the API knows): they tell one
    /// emptiness from another.
    objects: u32,
    choices: u32,
    /// The last `object` name that this API does not know.
    foreign_object: Option<String>,
    /// The first data that was not JSON.
    first_malformed: Option<String>,
    /// Data that was read and had nothing but one text.
    frame: Option<Frame<'b>>,
    /// Events of other answers, for APIs that repeat them.
    familiar: Option<Familiar>,
    /// Parts of the output that have been read, for APIs that tell them twice.
    parts: responses::Parts,
    /// Counts so far, for APIs that tell them in portions.
    usage: Map<String, Value>,
    /// Why an answer that was read has no vectors or scores.
    no_results: Option<Failure>,
    /// What events hold, for APIs that do not say it.
    pub(super) grown: Grown,
}

impl<'b> Reader<'b> {
    pub(super) fn new(kind: EndpointKind, rule: Option<Arc<Extraction>>) -> Self {
        Self {
            kind,
            rule,
            answer: Answer::default(),
            server_error: None,
            followed: None,
            streamed: false,
            texts: Vec::new(),
            lengths: (0, 0),
            has_tail: false,
            ends_malformed: false,
            spec_decodes: 0,
            objects: 0,
            choices: 0,
            foreign_object: None,
            first_malformed: None,
            frame: None,
            familiar: None,
            parts: responses::Parts::default(),
            usage: Map::new(),
            no_results: None,
            grown: Grown::default(),
        }
    }

    fn stream(&mut self, exchange: &'b Exchange) {
        self.streamed = true;
        let mut scanner = SseScanner::new();
        // A body cut by the transport may end inside an event: its rest is no event then, and no malformed one either.
        let at_end = exchange.disposition == Disposition::Finished;
        while let Some(event) = scanner.next(&exchange.body, at_end) {
            self.event(&event, exchange);
        }
    }

    fn event(&mut self, event: &SseEvent<'_, 'b>, exchange: &Exchange) {
        let Some(data) = self.data(event) else { return };
        let end = event.data_end().unwrap_or(0);
        let at_ns = exchange.arrival_ns(end.saturating_sub(1)).unwrap_or(exchange.stamps.end_ns);
        self.answer.first_event_ns.get_or_insert(at_ns);
        if let Some(frame) = &self.frame
            && let Some(text) = frame.text(&data)
        {
            let spot = frame.spot;
            self.objects += 1;
            self.choices = self.choices.saturating_add(1);
            self.ends_malformed = false;
            self.grow(spot, text);
            self.chunk(at_ns);
            return;
        }
        let only = match self.meet(&data, at_ns) {
            Some(Found::Answer(only)) => only,
            _ => self.unframed(event, &data, at_ns),
        };
        // Once another call began, the same bytes may go on with that one.
        self.frame = self.frame.take().filter(|frame| frame.spot.channel != Channel::Call);
        if let (Some(only), Cow::Borrowed(data)) = (only, data) {
            self.frame = Some(Frame::around(&only, data));
        }
    }

    /// The data of an event, if it has some to be read. The end mark and an error are taken up.
    pub(super) fn data<'d>(&mut self, event: &SseEvent<'_, 'd>) -> Option<Cow<'d, [u8]>> {
        if event.is_done() {
            self.answer.done = true;
            return None;
        }
        let data = event.data();
        if event.is_error() {
            let text = data.as_deref().map(String::from_utf8_lossy);
            let comment = event.comment().map(String::from_utf8_lossy);
            self.fail(error::event(text.as_deref(), comment.as_deref()));
            return None;
        }
        data.filter(|d| !d.trim_ascii().is_empty())
    }

    /// Reads the data of an event as JSON. Gives the place of its text in it when it says nothing else.
    pub(super) fn unframed(&mut self, event: &SseEvent<'_, '_>, data: &[u8], at_ns: u64) -> Option<Only> {
        let text = text_of(data);
        let name = event.kind().and_then(|name| std::str::from_utf8(name).ok()).map(str::trim);
        self.ends_malformed = false;
        if let Ok(place) = self.object(&text, name, at_ns) {
            return place.filter(|_| matches!(text, Cow::Borrowed(_)));
        }
        let mended = event.mended_data();
        let mended = mended.as_deref().map(String::from_utf8_lossy);
        if mended.is_none_or(|m| self.object(&m, name, at_ns).is_err()) {
            self.malformed(&text);
            self.ends_malformed = true;
        }
        None
    }

    /// Whether any content was read.
    pub(super) fn has_content(&self) -> bool {
        !self.answer.chunks.is_empty()
    }

    fn whole(&mut self, exchange: &Exchange) {
        if exchange.body.trim_ascii().is_empty() || exchange.disposition != Disposition::Finished {
            return;
        }
        let at_ns = exchange.stamps.last_byte_ns.unwrap_or(exchange.stamps.end_ns);
        if self.meet(&exchange.body, at_ns).is_some() {
            return;
        }
        let body = text_of(&exchange.body);
        // The standard forbids a mark in front of JSON, and some proxies write one all the same.
        let body = body.strip_prefix('\u{feff}').unwrap_or(&body);
        if self.object(body, None, at_ns).is_err() {
            self.first_malformed.get_or_insert_with(|| body.chars().take(500).collect());
        }
    }

    fn malformed(&mut self, data: &str) {
        self.answer.malformed_events = self.answer.malformed_events.saturating_add(1);
        self.first_malformed.get_or_insert_with(|| data.chars().take(500).collect());
    }

    fn fail(&mut self, failure: Failure) {
        let stage = if self.streamed { Stage::InStream } else { Stage::Answer };
        self.server_error.get_or_insert(Failure { stage, ..failure });
    }

    /// Reads one answer object, the data of an event called `name`; `Err` if `json` is none. Gives the place of its text when it
    /// says nothing else.
    fn object(
        &mut self,
        json: &str,
        name: Option<&str>,
        at_ns: u64,
    ) -> Result<Option<Only>, serde_json::Error> {
        if self.kind.is_embedding() || self.kind.is_ranking() {
            return self.scored(json, at_ns).map(|()| None);
        }
        if let Some(rule) = self.rule.clone() {
            let said = rule.said(json)?;
            if let Found::Error(tree) = self.said(json, said, false, at_ns) {
                self.fail(error::object(&tree));
            }
            return Ok(None);
        }
        if json.trim_start().starts_with('[') {
            // Google's form: the error in a list.
            let listed: Vec<Map<String, Value>> = serde_json::from_str(json).unwrap_or_default();
            let error = listed.first().and_then(|first| first.get("error"));
            if let Some(error) = error.filter(|error| error::says_something(error)) {
                self.fail(error::object(error));
                return Ok(None);
            }
        }
        // Two APIs answer a list of prompts with a list, and one of them a single prompt too.
        let one = match self.kind {
            EndpointKind::HuggingfaceGenerate | EndpointKind::SglangGenerate => first_of(json),
            _ => json,
        };
        let found = with_object(one, |text| {
            Ok(match self.kind {
                EndpointKind::Chat | EndpointKind::Completions => {
                    let envelope = serde_json::from_str(text)?;
                    // What was mended cannot be found in the data.
                    self.envelope(json, envelope, std::ptr::eq(text, json), at_ns)
                }
                EndpointKind::Responses => {
                    let event: responses::Event<'_> = serde_json::from_str(text)?;
                    let (typed, silent) = (event.is_typed(), self.answer.chunks.is_empty());
                    let said = responses::said(text, event, name, &mut self.parts, silent);
                    self.said(json, said, typed, at_ns)
                }
                EndpointKind::Messages => {
                    let event: messages::Event<'_> = serde_json::from_str(text)?;
                    let typed = event.is_typed();
                    self.said(json, messages::said(text, event, name), typed, at_ns)
                }
                EndpointKind::HuggingfaceGenerate => {
                    let said = generate::tgi_said(serde_json::from_str(text)?, self.answer.chunks.is_empty());
                    self.said(json, said, false, at_ns)
                }
                EndpointKind::SglangGenerate => {
                    let (said, index, news) = generate::sglang_said(serde_json::from_str(text)?);
                    if *self.followed.get_or_insert(index) == index {
                        self.grown(&news.0, at_ns);
                        self.said(json, said, false, at_ns)
                    } else {
                        Found::Answer(None)
                    }
                }
                EndpointKind::SolidoRag => {
                    let said = generate::solido_said(serde_json::from_str(text)?);
                    self.said(json, said, true, at_ns)
                }
                other => unreachable!("{} is refused by the configuration", other.name()),
            })
        })?;
        match found {
            // vLLM's form: the error is the object itself.
            Found::ErrorObject => {
                if let Ok(tree) = serde_json::from_str(json) {
                    self.fail(error::object(&tree));
                }
            }
            Found::Error(tree) => self.fail(error::object(&tree)),
            Found::Answer(only) => return Ok(only),
        }
        Ok(None)
    }

    /// Takes up what an object said. Only `typed` objects say it by themselves: the bytes of another may mean something else
    /// under another event's name.
    fn said(&mut self, json: &str, said: Said<'_>, typed: bool, at_ns: u64) -> Found {
        self.objects += 1;
        self.choices = self.choices.saturating_add(u32::from(said.foreign.is_none()));
        let plain = typed && said.is_plain();
        let choice = self.choice(0);
        let mut only = None;
        if let Some(piece) = &said.piece {
            let before = self.lengths;
            only = self.take(choice, piece, json).filter(|_| plain);
            if self.lengths != before {
                self.chunk(at_ns);
            }
        }
        if said.bare {
            self.chunk(at_ns);
        }
        if let Some(usage) = said.usage {
            self.usage.extend(usage);
            if let Some(usage) = read_usage(Value::Object(self.usage.clone())) {
                self.answer.usage = Some(usage);
            }
        }
        if let Some(model) = said.model.filter(|_| self.answer.served_model.is_none()) {
            self.answer.served_model = Some(model.into_owned());
        }
        if let Some(reason) = said.finish_reason {
            self.texts[choice].finish_reason = Some(reason.into_owned());
        }
        if let Some(id) = said.id {
            self.answer.id = Some(id.into_owned());
        }
        self.answer.done |= said.ends;
        if said.foreign.is_some() {
            self.foreign_object = said.foreign;
        }
        said.error.map_or(Found::Answer(only), Found::Error)
    }

    /// Reads an answer of vectors or scores. They are one chunk without text: that they are there is all a measurement needs.
    fn scored(&mut self, json: &str, at_ns: u64) -> Result<(), serde_json::Error> {
        let found = scores::read(self.kind, json)?;
        self.objects += 1;
        if self.answer.served_model.is_none() {
            self.answer.served_model = found.model;
        }
        self.answer.usage = found.usage.or(self.answer.usage);
        if let Some(tree) = found.error {
            self.fail(error::object(&tree));
            return Ok(());
        }
        match found.results {
            Results::Whole(count) => {
                *self.answer.results.get_or_insert(0) += count;
                self.answer.done = true;
                self.chunk(at_ns);
            }
            Results::None(words) => self.no_results = Some(error::empty(&words)),
            Results::Odd(words) => self.no_results = Some(error::odd(&words)),
        }
        Ok(())
    }

    /// Text of the one choice of an API without choices.
    pub(super) fn said_so_far(&mut self) -> &mut ChoiceText {
        let at = self.choice(0);
        &mut self.texts[at]
    }

    /// Adds a chunk of text alone.
    pub(super) fn add_text(&mut self, text: &str, at_ns: u64) {
        self.said_so_far().text.push_str(text);
        self.lengths.0 += text.len();
        self.chunk(at_ns);
    }

    /// Takes back all text, for it was read in the wrong way.
    pub(super) fn take_text(&mut self) -> String {
        self.lengths = (0, self.lengths.1);
        self.answer.chunks.clear();
        std::mem::take(&mut self.said_so_far().text)
    }

    /// Place of the choice with this number.
    fn choice(&mut self, index: i64) -> usize {
        self.texts.iter().position(|c| c.index == index).unwrap_or_else(|| {
            self.texts.push(ChoiceText { index, ..ChoiceText::default() });
            self.texts.len() - 1
        })
    }

    /// Adds what `piece` says to a choice. Gives the place of its text in `json` when it is one thing that stands there as it is.
    fn take(&mut self, choice: usize, piece: &Piece<'_>, json: &str) -> Option<Only> {
        let said = &mut self.texts[choice];
        let before = (said.text.len(), said.reasoning.len());
        said.add(piece);
        self.lengths.0 += said.text.len() - before.0;
        self.lengths.1 += said.reasoning.len() - before.1;
        let (channel, text) = piece.only()?;
        let place = place(json, text)?;
        let call = match piece.calls.as_slice() {
            [] => 0,
            // The same part again means the same call.
            [part, ..] => {
                said.slot(&CallPart { index: part.index, id: part.id.clone(), ..CallPart::default() })
            }
        };
        Some(Only { spot: Spot { channel, choice, call }, place })
    }

    /// Adds text where it belongs.
    fn grow(&mut self, spot: Spot, text: &str) {
        let said = &mut self.texts[spot.choice];
        match spot.channel {
            Channel::Text => said.text.push_str(text),
            Channel::Reasoning => said.reasoning.push_str(text),
            Channel::Call => said.arguments(spot.call, text),
        }
        match spot.channel {
            Channel::Reasoning => self.lengths.1 += text.len(),
            Channel::Text | Channel::Call => self.lengths.0 += text.len(),
        }
    }

    /// A chunk ends here, with which these counts came.
    fn chunk_with(&mut self, usage: Option<Usage>, at_ns: u64) {
        if self.answer.chunks.is_empty() {
            self.answer.first_chunk_tokens = usage.and_then(|u| u.completion_tokens);
        }
        self.chunk(at_ns);
    }

    /// A chunk ends here.
    fn chunk(&mut self, at_ns: u64) {
        let (text_end, reasoning_end) = self.lengths;
        self.answer.chunks.push(AnswerChunk { at_ns, text_end, reasoning_end });
    }

    /// The answer, with its choices in the order of their numbers.
    fn finish(mut self) -> Answer {
        self.texts.sort_by_key(|choice| choice.index);
        let mut texts = self.texts.into_iter();
        let ChoiceText { index: _, text, calls, reasoning, finish_reason } = texts.next().unwrap_or_default();
        let others: Vec<ChoiceText> = texts.collect();
        // Whose they are, nobody can tell.
        if self.spec_decodes > 1 || !others.is_empty() {
            self.answer.spec_decode = None;
        }
        Answer { text, calls, reasoning, others, finish_reason, ..self.answer }
    }
}

/// The first element of a list; anything else as it is.
fn first_of(json: &str) -> &str {
    if !json.trim_start().starts_with('[') {
        return json;
    }
    let list: Result<Vec<&RawValue>, _> = serde_json::from_str(json);
    list.ok().and_then(|list| list.first().map(|first| first.get())).unwrap_or(json)
}

/// The text that bytes are; what is not UTF-8 becomes U+FFFD.
fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    // The lenient reader goes byte by byte, which all but broken answers are spared.
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// What an answer object turned out to be.
enum Found {
    /// An answer; its text when it says nothing else.
    Answer(Option<Only>),
    /// It holds an error.
    Error(Value),
    /// It is an error.
    ErrorObject,
}
