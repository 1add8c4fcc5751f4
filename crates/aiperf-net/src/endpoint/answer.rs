//! From wire facts to an [`Answer`]: which bytes are events, which events have content, when each became readable.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use aiperf_core::exchange::Exchange;
use aiperf_core::outcome::{Disposition, Failure, Stage};
use aiperf_core::plan::EndpointKind;
use aiperf_core::usage::Usage;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::choice::ChoiceText;
use super::chunk::{CallPart, Channel, Envelope, Piece, with_object};
use super::detect::Extraction;
use super::event::Said;
use super::familiar::{Familiar, Holes, Meaning, Met};
use super::grown::Grown;
use super::scores::{self, Results};
use super::{Answer, AnswerChunk, chat, completions, error, generate, messages, responses, spec_decode};
use crate::sse::{SseEvent, SseScanner};
use crate::usage::{read_raw_usage, read_usage};

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
        if is_event_stream(exchange.content_type.as_deref()) {
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

fn is_event_stream(content_type: Option<&str>) -> bool {
    let kind = content_type.unwrap_or("").split(';').next().unwrap_or("");
    kind.trim().eq_ignore_ascii_case("text/event-stream")
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
            let (channel, choice, call) = (frame.channel, frame.choice, frame.call);
            self.objects += 1;
            self.choices = self.choices.saturating_add(1);
            self.ends_malformed = false;
            let said = &mut self.texts[choice];
            match channel {
                Channel::Text => said.text.push_str(text),
                Channel::Reasoning => said.reasoning.push_str(text),
                Channel::Call => said.arguments(call, text),
            }
            match channel {
                Channel::Reasoning => self.lengths.1 += text.len(),
                Channel::Text | Channel::Call => self.lengths.0 += text.len(),
            }
            self.chunk(at_ns);
            return;
        }
        let only = match self.meet(&data, at_ns) {
            Some(Found::Answer(only)) => only,
            _ => self.unframed(event, &data, at_ns),
        };
        // Once another call began, the same bytes may go on with that one.
        self.frame = self.frame.take().filter(|frame| frame.channel != Channel::Call);
        if let Some(Only { channel, place, choice, call }) = only
            && let Cow::Borrowed(data) = data
        {
            let (head, tail) = (&data[..place.start], &data[place.end..]);
            self.frame = Some(Frame { channel, choice, call, head, tail });
        }
    }

    /// Takes up what data says that is like data read before; `None` when it is like no other.
    fn meet(&mut self, data: &[u8], at_ns: u64) -> Option<Found> {
        let mut familiar = self.familiar.take()?;
        let found = familiar.meet(data).map(|met| Found::Answer(self.hear(&met, data, at_ns)));
        self.familiar = Some(familiar);
        found
    }

    /// As [`envelope`](Self::envelope) does with data that is read as JSON.
    fn hear(&mut self, met: &Met<'_, '_>, data: &[u8], at_ns: u64) -> Option<Only> {
        let Met { meaning: Meaning { model, choice, finish_reason }, text, usage } = met;
        self.objects += 1;
        self.ends_malformed = false;
        if let Some(model) = model.as_deref().filter(|_| self.answer.served_model.is_none()) {
            self.answer.served_model = Some(model.to_owned());
        }
        self.answer.usage = usage.or(self.answer.usage);
        let Some(index) = choice else {
            self.has_tail |= usage.is_some();
            return None;
        };
        self.choices = self.choices.saturating_add(1);
        let choice = self.choice(*index);
        if let Some(reason) = finish_reason {
            self.texts[choice].finish_reason = Some(reason.to_string());
        }
        let (text, channel) = (*text)?;
        let said = &mut self.texts[choice];
        if channel == Channel::Reasoning {
            said.reasoning.push_str(text);
            self.lengths.1 += text.len();
        } else {
            said.text.push_str(text);
            self.lengths.0 += text.len();
        }
        self.chunk_with(*usage, at_ns);
        let place = within(data, text.as_bytes()).filter(|_| finish_reason.is_none() && usage.is_none())?;
        Some(Only { channel, place, choice, call: 0 })
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

    /// Takes up what an object of chat or completions said. One that `is_own` is read from `json` itself, and is known from then on.
    fn envelope(&mut self, json: &str, envelope: Envelope<'_>, is_own: bool, at_ns: u64) -> Found {
        self.objects += 1;
        let model = Some(&*envelope.model.0).filter(|model| !model.is_empty());
        if let Some(model) = model.filter(|_| self.answer.served_model.is_none()) {
            self.answer.served_model = Some(model.to_owned());
        }
        let value = |raw: &serde_json::value::RawValue| serde_json::from_str::<Value>(raw.get()).ok();
        let usage = envelope.usage.and_then(read_raw_usage);
        if let Some(usage) = usage {
            self.answer.usage = Some(usage);
        }
        if let Some(stats) = envelope.metrics.and_then(|m| spec_decode::of(m.get())) {
            self.spec_decodes += 1;
            match stats {
                Ok(stats) => self.answer.spec_decode = Some(stats),
                Err(broken) => self.answer.spec_decode_problem = Some(broken.0),
            }
        }
        if let Some(tree) = envelope.error.and_then(value)
            && error::says_something(&tree)
        {
            return Found::Error(error::typed(tree, &envelope.error_type.0));
        }
        if envelope.object.0 == "error" {
            return Found::ErrorObject;
        }
        if envelope.choices.is_none()
            && let Some(tree) = envelope.detail.and_then(value)
            && error::says_something(&tree)
        {
            return Found::Error(tree);
        }
        let choices = envelope.choices.unwrap_or_default();
        self.has_tail |= choices.is_empty() && usage.is_some();
        let plain = choices.len() == 1
            && envelope.usage.is_none()
            && envelope.error.is_none()
            && envelope.metrics.is_none();
        self.choices = self.choices.saturating_add(choices.len() as u32);
        let before = self.lengths;
        let (mut only, mut found) = (None, None);
        // Like another of its kind an object is when all that it says is one text, counts, and what its other bytes say.
        let mut meaning = (is_own
            && self.familiar.is_some()
            && choices.len() <= 1
            && envelope.error.is_none()
            && envelope.metrics.is_none()
            && envelope.detail.is_none())
        .then(|| Meaning { model: model.map(Into::into), choice: None, finish_reason: None });
        let mut hole = None;
        for mut choice in choices {
            let index = choice.index();
            let at = self.choice(index);
            let reason = choice.finish_reason();
            let is_last = reason.is_some();
            if let Some(meaning) = &mut meaning {
                meaning.choice = Some(index);
                meaning.finish_reason = reason.as_deref().map(Into::into);
            }
            if let Some(reason) = reason {
                if matches!(&*reason, "abort" | "error") {
                    found = Some(Value::from(format!(
                        "the server gave the answer up: its finish reason is \"{reason}\""
                    )));
                }
                self.texts[at].finish_reason = Some(reason.into_owned());
            }
            if let Some(tree) = choice.error.and_then(value).filter(error::says_something) {
                found = Some(tree);
            }
            let piece = if self.kind == EndpointKind::Chat {
                chat::piece(&envelope.object.0, &mut choice)
            } else {
                completions::piece(&envelope.object.0, &mut choice)
            };
            match piece {
                Some(piece) if !piece.is_silent() => {
                    only = self.take(at, &piece, json);
                    hole = only.as_ref().map(|only| (only.place.clone(), only.channel));
                    meaning = meaning.filter(|_| hole.is_some() && piece.calls.is_empty());
                    only = only.filter(|_| !is_last);
                }
                Some(_) => {}
                None => {
                    self.foreign_object = Some(envelope.object.0.chars().take(80).collect());
                    meaning = None;
                }
            }
        }
        if self.lengths != before {
            self.chunk_with(usage, at_ns);
        }
        if let (Some(meaning), None, Some(familiar)) = (meaning, &found, &mut self.familiar) {
            let place = |raw: &RawValue| within(json.as_bytes(), raw.get().as_bytes());
            let holes = Holes {
                id: envelope.id.and_then(place).and_then(|place| inside_quotes(json, place)),
                created: envelope.created.and_then(place),
                text: hole,
                usage: envelope.usage.filter(|_| usage.is_some()).and_then(place),
            };
            familiar.learn(json.as_bytes(), holes, meaning);
        }
        found.map_or(Found::Answer(only.filter(|_| plain)), Found::Error)
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
        Some(Only { channel, place, choice, call })
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

    /// The failure of a stream that ended on the wire as it should and does not say that the answer is over: neither a finish reason
    /// nor an end mark came, nor counts behind the last choice.
    fn unfinished(&self, exchange: &Exchange) -> Option<Failure> {
        let is_over =
            self.answer.done || self.has_tail || self.texts.iter().any(|c| c.finish_reason.is_some());
        // The others have no mark of their end.
        let has_end = matches!(
            self.kind,
            EndpointKind::Chat | EndpointKind::Completions | EndpointKind::Responses | EndpointKind::Messages
        );
        if !self.streamed || !has_end || is_over {
            return None;
        }
        let broken = self.first_malformed.as_deref().filter(|_| self.ends_malformed);
        Some(match broken {
            Some(_) => error::broken_end(&exchange.body),
            None => error::unfinished(),
        })
    }

    /// The failure of an answer without content, in the most telling words there are.
    fn emptiness(&self, exchange: &Exchange) -> Option<Failure> {
        if !self.answer.chunks.is_empty() {
            return None;
        }
        let streamed = is_event_stream(exchange.content_type.as_deref());
        if let Some(excerpt) = &self.first_malformed {
            let kind = exchange.content_type.as_deref();
            return Some(error::malformed(kind, streamed, excerpt));
        }
        if self.no_results.is_some() {
            return self.no_results.clone();
        }
        let what: Cow<'_, str> = if exchange.body.is_empty() {
            "the answer has no body".into()
        } else if self.objects == 0 {
            "the stream has no event with data".into()
        } else if self.choices == 0 && matches!(self.kind, EndpointKind::Chat | EndpointKind::Completions) {
            "the answer has 0 choices".into()
        } else if let Some(object) = self.foreign_object.as_deref().filter(|o| !o.is_empty()) {
            format!(
                "the answer's object is \"{object}\", which the {} API does not answer with",
                self.kind.name()
            )
            .into()
        } else if self.choices == 0 {
            format!("nothing in the answer has a type that the {} API knows", self.kind.name()).into()
        } else if let Some(word) = self.texts.iter().find_map(|c| c.finish_reason.as_deref()) {
            let counted = self.answer.usage.as_ref().and_then(|usage| usage.completion_tokens);
            // An end token alone is no output that was held back.
            let held_back = counted
                .filter(|n| *n > 1)
                .map_or_else(String::new, |n| format!(", and the server counts {n} output tokens"));
            format!("no chunk has text, reasoning or a tool call; the finish reason is \"{word}\"{held_back}")
                .into()
        } else {
            match self.kind {
                EndpointKind::HuggingfaceGenerate => {
                    "neither 'generated_text' nor the text of a token says anything".into()
                }
                EndpointKind::SglangGenerate => "no 'text' says anything".into(),
                EndpointKind::SolidoRag => "no 'content' says anything".into(),
                EndpointKind::Template | EndpointKind::Raw => {
                    let body = String::from_utf8_lossy(&exchange.body);
                    let rule = self.rule.as_ref().and_then(|rule| rule.sole_expression());
                    error::not_found(rule, &body).into()
                }
                _ => "no chunk has text, reasoning or a tool call".into(),
            }
        };
        Some(error::empty(&what))
    }
}

/// Data that was read before, without the one text in it. Servers repeat every byte around the text from chunk to chunk, so
/// most chunks need no JSON reader: the same bytes around another plain string mean the same with another text.
#[derive(Debug)]
struct Frame<'b> {
    channel: Channel,
    /// Place of the choice that it is a part of, and of the call in it.
    choice: usize,
    call: usize,
    /// Up to the text, its opening quote included.
    head: &'b [u8],
    /// From its closing quote on.
    tail: &'b [u8],
}

impl Frame<'_> {
    /// The text of `data` if it stands in this frame and needs no unescaping. Not the empty one: without a text, other fields
    /// would be looked at.
    fn text<'d>(&self, data: &'d [u8]) -> Option<&'d str> {
        let text = data.strip_prefix(self.head)?.strip_suffix(self.tail)?;
        let plain = |b: &u8| !matches!(b, b'"' | b'\\' | 0..=0x1f);
        std::str::from_utf8(text).ok().filter(|t| !t.is_empty() && t.as_bytes().iter().all(plain))
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

/// Where `part` lies in `whole`; `None` for one that lies elsewhere.
fn within(whole: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let end = start + part.len();
    (end <= whole.len()).then_some(start..end)
}

/// Where `text` lies in `json`; `None` for a text that was put together elsewhere.
fn place(json: &str, text: &str) -> Option<Range<usize>> {
    let Range { start, end } = within(json.as_bytes(), text.as_bytes())?;
    // Quotes on both sides say that it is a string as it stands.
    let quoted = start > 0 && json.as_bytes()[start - 1] == b'"' && json.as_bytes().get(end) == Some(&b'"');
    quoted.then_some(start..end)
}

/// Of the place of a string that of its content.
fn inside_quotes(json: &str, place: Range<usize>) -> Option<Range<usize>> {
    let content = json.get(place.clone())?.strip_prefix('"')?.strip_suffix('"')?;
    Some(place.start + 1..place.start + 1 + content.len())
}

/// The one text of an object that says nothing else.
#[derive(Debug)]
pub(super) struct Only {
    channel: Channel,
    /// Where it lies in the object.
    place: Range<usize>,
    /// Place of the choice that it is a part of, and of the call in it.
    choice: usize,
    call: usize,
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
