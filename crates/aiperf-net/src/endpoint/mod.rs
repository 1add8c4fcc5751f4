//! Endpoints: what a request's meaning looks like in one API's JSON, and how its answer is read back. Pure.
//!
//! `body` and `message` write requests, `mark` puts markers into those whose messages are not ours, `answer` reads what the wire showed, `chunk` and `event` know the JSON of answers, `error` puts failures in
//! words, `texts` finds what a tokenizer has to count. What differs between APIs is in a file per API.

mod answer;
mod body;
mod chat;
mod choice;
mod chunk;
mod completions;
mod detect;
mod error;
mod event;
mod familiar;
mod first_content;
mod generate;
mod grown;
mod mark;
mod media;
mod message;
pub(crate) mod messages;
mod responses;
mod scores;
mod spec_decode;
mod template;
mod texts;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

pub use choice::{Call, ChoiceText};
pub(crate) use chunk::Text;
pub(crate) use detect::Extraction;
pub use familiar::Familiar;
pub(crate) use first_content::FirstContent;

use aiperf_core::conversation::{Marker, Media, MediaKind, Turn};
use aiperf_core::exchange::Exchange;
use aiperf_core::outcome::{Failure, Finish};
use aiperf_core::plan::{EndpointKind, EndpointPlan, MarkerTarget};
use aiperf_core::spec_decode::SpecDecode;
use aiperf_core::usage::Usage;
use serde_json::{Map, Value};

use self::body::{Field, Fields};
use self::template::BodyTemplate;
use crate::known::KnownSecrets;

/// Why a turn has no request body.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A value has no JSON form.
    #[error("the request body has no JSON form")]
    Json {
        /// What the serializer said.
        #[source]
        source: serde_json::Error,
    },
    /// Passages cannot be ranked by nothing.
    #[error("a request of type '{kind}' needs a text named 'query', and there is none")]
    NoQuery {
        /// The type of endpoint.
        kind: &'static str,
    },
    /// Fields that replace messages have no place for the session's marker.
    #[error("--cache-bust {target} has no place for its marker: '{field}' of {origin} {problem}", target = .target.name())]
    NoPlaceForMarker {
        /// Where the marker belongs.
        target: MarkerTarget,
        /// The field at fault.
        field: &'static str,
        /// Who brought the field.
        origin: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The user's template makes no body.
    #[error("{origin}: the template{line} {problem}")]
    Template {
        /// Where the template is written.
        origin: String,
        /// ` (line 3)`, where a line of it is to blame.
        line: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The path to the content of answers is none.
    #[error("{origin}: '{expression}' is no JMESPath expression: {problem} (column {column})")]
    ResponseField {
        /// Where it is written.
        origin: String,
        /// The text.
        expression: String,
        /// Where it goes wrong, from 1.
        column: usize,
        /// What is wrong there.
        problem: String,
    },
    /// Texts and images go in pairs.
    #[error(
        "a request of type 'nim_embeddings' has texts and images in pairs, and there are {texts} texts and {images} images"
    )]
    Unpaired {
        /// How many texts.
        texts: usize,
        /// How many images.
        images: usize,
    },
    /// Bodies come from the data set, and this turn has none.
    #[error(
        "the endpoint type raw sends the bodies of the data set, and the turn has none: give --input-file with --custom-dataset-type raw_payload"
    )]
    NoPayload,
}

/// One request's content, beside the API's form.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The conversation's system text; empty is none.
    pub system: Option<&'a str>,
    /// Text of the conversation's user message before its first turn; empty is none.
    pub user_context: Option<&'a str>,
    /// The turn that asks for an answer.
    pub turn: &'a Turn,
    /// Whether nothing of the conversation was sent before: what stands before the first turn is then part of this request.
    pub opens: bool,
    /// The session's marker, which the texts of the conversation have already where it belongs on them.
    pub marker: Option<&'a Marker>,
}

/// What an answer says, with the moments its content became readable.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Answer text of the first choice: prose and refusals as they came, and tool calls, each whole at the place where it began.
    pub text: String,
    /// The tool calls in `text`, in order.
    pub calls: Vec<Call>,
    /// Reasoning text of the first choice.
    pub reasoning: String,
    /// The other choices, where several were asked for.
    pub others: Vec<ChoiceText>,
    /// Chunks with content, in order. One for an answer that was not streamed.
    pub chunks: Vec<AnswerChunk>,
    /// When the first event with data was whole, be there content in it or not; absent in an answer without events.
    pub first_event_ns: Option<u64>,
    /// The last non-empty usage object.
    pub usage: Option<Usage>,
    /// Completion tokens so far, as the usage object says that came with the first chunk with content.
    pub first_chunk_tokens: Option<u64>,
    /// What the server tells of speculative decoding.
    pub spec_decode: Option<SpecDecode>,
    /// Why counts of speculative decoding that came are none.
    pub spec_decode_problem: Option<String>,
    /// The last `finish_reason` of the first choice, or what the API has in its place.
    pub finish_reason: Option<String>,
    /// The name under which the server keeps the answer, where the API has one (responses).
    pub id: Option<String>,
    /// Why this is no good answer. What could be read is kept beside it.
    pub failure: Option<Failure>,
    /// Events whose data was not JSON; they are skipped and do not fail the answer.
    pub malformed_events: u32,
    /// Whether the end mark came: `[DONE]`, or the last event of APIs that have one.
    pub done: bool,
    /// The model named by the server.
    pub served_model: Option<String>,
    /// How many vectors or scores there are; none of APIs that answer with text.
    pub results: Option<u64>,
}

impl Answer {
    /// All that the model wrote, in the order in which it came: reasoning, answer, tool calls.
    pub fn written(&self) -> Cow<'_, str> {
        if self.reasoning.is_empty() {
            return Cow::Borrowed(&self.text);
        }
        let mut all = String::with_capacity(self.reasoning.len() + self.text.len());
        let (mut reasoning, mut text) = (0, 0);
        for chunk in &self.chunks {
            all.push_str(self.reasoning.get(reasoning..chunk.reasoning_end).unwrap_or_default());
            all.push_str(self.text.get(text..chunk.text_end).unwrap_or_default());
            (reasoning, text) = (chunk.reasoning_end, chunk.text_end);
        }
        all.into()
    }

    /// The text without tool calls.
    pub(crate) fn prose(&self) -> Cow<'_, str> {
        choice::prose(&self.text, &self.calls)
    }

    /// Its tool calls, as a later request says them again.
    pub(crate) fn said_calls(&self) -> impl Iterator<Item = SaidCall<'_>> {
        self.calls.iter().enumerate().map(|(place, call)| SaidCall {
            id: if call.id.is_empty() { format!("call_{place}").into() } else { call.id.as_str().into() },
            name: self.text.get(call.name.clone()).unwrap_or_default(),
            arguments: self.text.get(call.arguments.clone()).unwrap_or_default(),
        })
    }

    /// Text and reasoning of each choice.
    pub fn choices(&self) -> impl Iterator<Item = (&str, &str)> {
        let others = self.others.iter().map(|c| (c.text.as_str(), c.reasoning.as_str()));
        std::iter::once((self.text.as_str(), self.reasoning.as_str())).chain(others)
    }

    /// Why the server stopped writing the first choice.
    pub fn finish(&self) -> Finish {
        match self.finish_reason.as_deref() {
            // The responses API has no other word for an answer that ends in calls.
            Some("completed") if !self.calls.is_empty() => Finish::ToolCalls,
            word => Finish::of_word(word.unwrap_or("")),
        }
    }
}

/// A tool call of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SaidCall<'a> {
    /// The server's name for it, or one that stands for it.
    pub(crate) id: Cow<'a, str>,
    pub(crate) name: &'a str,
    /// As the model wrote them.
    pub(crate) arguments: &'a str,
}

/// A chunk with content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerChunk {
    /// When its content was whole in user space: the stamp of the read that brought the last byte of the event's data
    /// (streamed), or of the last read of the body (not streamed). Monotonic.
    pub at_ns: u64,
    /// Length of the answer text of all choices with this chunk, bytes.
    pub text_end: usize,
    /// Length of the reasoning of all choices with this chunk, bytes.
    pub reasoning_end: usize,
}

/// One API of one server.
#[derive(Debug, Clone)]
pub struct Endpoint {
    kind: EndpointKind,
    target: String,
    streaming: bool,
    legacy_max_tokens: bool,
    asks_for_usage: bool,
    per_chunk_usage: bool,
    chains: bool,
    extra: Map<String, Value>,
    template: Option<Arc<BodyTemplate>>,
    rule: Option<Arc<Extraction>>,
    secrets: KnownSecrets,
}

impl Endpoint {
    /// The endpoint of `plan`.
    ///
    /// # Panics
    /// Where [`open`](Self::open) tells of an error.
    pub fn new(plan: &EndpointPlan) -> Self {
        Self::open(plan).expect("nothing of the user's is compiled for this plan")
    }

    /// The endpoint of `plan`, which may hold texts of the user's that are compiled.
    ///
    /// # Errors
    /// A template or a response field that cannot be compiled.
    pub fn open(plan: &EndpointPlan) -> Result<Self, EncodeError> {
        Ok(Self {
            template: match &plan.template {
                Some(template) if plan.kind == EndpointKind::Template => {
                    Some(Arc::new(BodyTemplate::new(template)?))
                }
                _ => None,
            },
            rule: rule(plan)?,
            kind: plan.kind,
            target: plan.url().join(path(plan)),
            streaming: plan.streaming,
            legacy_max_tokens: plan.legacy_max_tokens,
            asks_for_usage: match plan.kind {
                EndpointKind::Chat | EndpointKind::Completions => true,
                EndpointKind::Responses => plan.server_token_count,
                _ => false,
            },
            per_chunk_usage: plan.per_chunk_usage,
            chains: plan.chains,
            extra: plan.extra.clone(),
            secrets: KnownSecrets::of(plan),
        })
    }

    /// Whether the server keeps answers, so that a later turn names the one before it ([`Answer::id`]) in the place of the
    /// conversation until then.
    pub const fn chains(&self) -> bool {
        self.chains
    }

    /// Appends a whole body to `out`: `body`, whose list stands at `list`, naming the response `previous` behind the fields that
    /// AIPerf puts it behind, or, where extra fields changed these, behind the list.
    pub fn chain(body: &[u8], list: Range<usize>, previous: &str, out: &mut Vec<u8>) {
        let (list_end, fields) = (list.end + 1, ["model", "stream"]);
        let at = responses::behind(body, list_end, &fields).unwrap_or(list_end);
        out.reserve(body.len() + previous.len() + 32);
        out.extend_from_slice(&body[..at]);
        out.extend_from_slice(b",\"previous_response_id\":");
        serde_json::to_writer(&mut *out, previous)
            .expect("a text has a JSON form, and a vector takes all bytes");
        out.extend_from_slice(&body[at..]);
    }

    /// Which API it is.
    pub const fn kind(&self) -> EndpointKind {
        self.kind
    }

    /// Path and query of the request line.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Appends the JSON body of `request` to `out`; a body of the data set's as it is. Gives where the elements of its list of messages stand in `out`, brackets
    /// excluded, if there is a list that history can go into: not for completions, nor when extra fields replaced it.
    ///
    /// The API's own fields come first, then the plan's extra fields, then the turn's; a later field replaces an earlier one
    /// in its place. When the body then asks for a stream, usage is asked for too, unless the author said otherwise or the
    /// API gives it anyway (responses: only for a run that counts by it, as AIPerf does; messages: never). When extra fields stand
    /// in the place of messages or system text, the session's marker is put into them.
    pub fn encode(
        &self,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Range<usize>>, EncodeError> {
        if let Some(payload) = &request.turn.payload {
            out.extend_from_slice(payload);
            return Ok(None);
        }
        let rendered;
        let fields = match self.kind {
            EndpointKind::Chat => chat::fields(request, self.streaming, self.legacy_max_tokens),
            EndpointKind::Completions => completions::fields(request.turn, self.streaming),
            EndpointKind::Responses => responses::fields(request, self.streaming),
            EndpointKind::Messages => messages::fields(request, self.streaming),
            kind if kind.is_embedding() || kind.is_ranking() => scores::fields(kind, request)?,
            EndpointKind::HuggingfaceGenerate => generate::tgi_fields(request.turn, &self.extra),
            EndpointKind::SglangGenerate => {
                generate::sglang_fields(request.turn, &self.extra, self.streaming)
            }
            EndpointKind::SolidoRag => generate::solido_fields(request.turn),
            EndpointKind::Template => {
                let template = self.template.as_ref().expect("a template has its plan");
                rendered = template.render(request, self.streaming)?;
                Fields::new(
                    rendered.iter().map(|(name, value)| (name.as_str(), Field::Json(value))).collect(),
                )
            }
            EndpointKind::Raw => return Err(EncodeError::NoPayload),
            other => unreachable!("{} is refused by the configuration", other.name()),
        };
        // Those with parameters of their own have the plan's fields among them.
        let none = Map::new();
        let has_parameters =
            matches!(self.kind, EndpointKind::HuggingfaceGenerate | EndpointKind::SglangGenerate);
        let over_all = if has_parameters { &none } else { &self.extra };
        let fields = fields.merged(over_all, &request.turn.extra);
        let fields = if self.asks_for_usage { fields.with_usage(self.per_chunk_usage) } else { fields };
        let start = out.len();
        let list = fields.write(out).map_err(|source| EncodeError::Json { source })?;
        match request.marker {
            Some(marker) if self.loses(request, marker) => self.mark(request, marker, start, list, out),
            _ => Ok(list),
        }
    }

    /// How many vectors or scores should answer `turn`; `None` where answers are text, or where extra fields decide it.
    pub fn expected_results(&self, turn: &Turn) -> Option<u64> {
        scores::expected(self.kind, turn, &[&self.extra, &turn.extra])
    }

    /// The output limit, tokens, that the request of `turn` asks for: the turn's, unless extra fields say another.
    pub fn limit(&self, turn: &Turn) -> Option<u64> {
        if turn.payload.is_some() {
            return turn.max_tokens;
        }
        if !self.kind.has_limit() {
            return None;
        }
        let none = Map::new();
        let layers = [&turn.extra, &self.extra];
        let parameters = [&none, &self.extra];
        // Where an API has two names, the first goes before the second (vLLM, SGLang).
        let (names, layers): (&[&str], _) = match self.kind {
            EndpointKind::Chat => (&["max_completion_tokens", "max_tokens"], layers),
            EndpointKind::Completions | EndpointKind::Messages => (&["max_tokens"], layers),
            EndpointKind::Responses => (&["max_output_tokens"], layers),
            EndpointKind::HuggingfaceGenerate | EndpointKind::SglangGenerate => {
                (&["max_new_tokens"], parameters)
            }
            _ => return turn.max_tokens,
        };
        let own = names[usize::from(self.legacy_max_tokens && names.len() > 1)];
        let said = |name: &&str| match layers.iter().find_map(|layer| layer.get(*name)) {
            Some(value) => (!value.is_null()).then(|| value.as_u64()),
            None => (*name == own).then_some(turn.max_tokens).filter(Option::is_some),
        };
        names.iter().find_map(said).flatten()
    }

    /// Whether extra fields stand where `marker` belongs.
    fn loses(&self, request: &Request<'_>, marker: &Marker) -> bool {
        let layers = [&self.extra, &request.turn.extra];
        let is_laid_over =
            |field: Option<&str>| field.is_some_and(|f| layers.iter().any(|l| l.contains_key(f)));
        if is_laid_over(self.kind.messages_field()) {
            return true;
        }
        // A field that says nothing in the place of a marked text takes the marker away, and the first user message is left.
        let takes_away = || request.opens && request.system.is_some_and(|text| !text.is_empty());
        marker.target.wants_system()
            && is_laid_over(self.kind.system_field())
            && (self.kind.has_system_in(&layers) || takes_away())
    }

    /// Puts `marker` into the body that begins at `start`; gives where its `list` is then.
    fn mark(
        &self,
        request: &Request<'_>,
        marker: &Marker,
        start: usize,
        list: Option<Range<usize>>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Range<usize>>, EncodeError> {
        let body = std::str::from_utf8(&out[start..]).expect("JSON of strings is UTF-8");
        let found = mark::insertion(self.kind, body, marker).map_err(|no_place| {
            let is_turn_s = request.turn.extra.contains_key(no_place.field);
            EncodeError::NoPlaceForMarker {
                target: marker.target,
                field: no_place.field,
                origin: if is_turn_s { "the row's 'extra'" } else { "--extra-inputs" },
                problem: no_place.problem,
            }
        })?;
        let Some(mark::Insertion { at, bytes }) = found else { return Ok(list) };
        let (at, more) = (start + at, bytes.len());
        out.splice(at..at, bytes);
        let moved = |place: usize| if place >= at { place + more } else { place };
        Ok(list.map(|list| moved(list.start)..moved(list.end)))
    }

    /// Appends the assistant's message that a client puts into the history for `answer`: its prose, without reasoning and
    /// tool calls. `false`, with nothing appended, when there is none: the request failed, or the API knows no messages.
    pub fn encode_reply(&self, answer: &Answer, out: &mut Vec<u8>) -> bool {
        if answer.failure.is_some() || answer.chunks.is_empty() {
            return false;
        }
        match self.kind {
            EndpointKind::Chat => chat::reply(answer, out),
            EndpointKind::Responses => responses::reply(answer, out),
            EndpointKind::Messages => messages::reply(answer, out),
            _ => false,
        }
    }

    /// What a server that is asked through this may say again and nobody is to read.
    pub fn secrets(&self) -> &KnownSecrets {
        &self.secrets
    }

    /// Appends a whole body to `out`: `body` with `history` before the elements of its list, which stand at `list`. Each part
    /// of `history` is none, one or several elements with commas between them, as [`encode`](Self::encode) and
    /// [`encode_reply`](Self::encode_reply) write them; everything is copied once.
    pub fn join<'h>(
        body: &[u8],
        list: Range<usize>,
        history: impl Iterator<Item = &'h [u8]> + Clone,
        out: &mut Vec<u8>,
    ) {
        let (head, rest) = body.split_at(list.start);
        out.reserve(body.len() + history.clone().map(|part| part.len() + 1).sum::<usize>());
        out.extend_from_slice(head);
        let mut is_behind = false;
        for part in history.filter(|part| !part.is_empty()) {
            if is_behind {
                out.push(b',');
            }
            out.extend_from_slice(part);
            is_behind = true;
        }
        if is_behind && !list.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(rest);
    }

    /// How many images a request has: its turn's, or those of messages that stand in the place of its turn's.
    pub fn images(&self, turn: &Turn, body: &[u8]) -> u64 {
        let is_unformed = matches!(self.kind, EndpointKind::Template | EndpointKind::Raw);
        if is_unformed
            || turn.payload.is_some()
            || [&self.extra, &turn.extra].iter().any(|fields| self.kind.is_replaced_by(fields))
        {
            return media::images_in(body);
        }
        if !self.kind.has_messages() && self.kind != EndpointKind::NimEmbeddings {
            return 0;
        }
        let images = turn.media.iter().filter(|media| media.kind == MediaKind::Image).flat_map(Media::items);
        let has_ids = matches!(self.kind, EndpointKind::Chat | EndpointKind::ChatEmbeddings);
        images.filter(|(content, uuid)| !content.is_empty() || (has_ids && uuid.is_some())).count() as u64
    }

    /// The audio that the request of a turn has, each as it travels; none where the body is not made of the turn.
    pub fn audio<'t>(&self, turn: &'t Turn) -> impl Iterator<Item = &'t str> {
        let is_made =
            matches!(self.kind, EndpointKind::Chat | EndpointKind::ChatEmbeddings | EndpointKind::Responses)
                && turn.payload.is_none()
                && ![&self.extra, &turn.extra].iter().any(|fields| self.kind.is_replaced_by(fields));
        turn.media_of(MediaKind::Audio).filter(move |content| is_made && !content.is_empty())
    }

    /// Every text of a request body that a tokenizer should count as input, in the order AIPerf joins them (by one blank).
    /// A body that is not a JSON object has none.
    pub fn texts(&self, body: &[u8]) -> Vec<String> {
        texts::of(self.kind, body)
    }

    /// Reads what came back. Never panics, whatever the bytes.
    ///
    /// Failures are looked for in this order: the transport's, the status, an error the server put inside a good status, an
    /// answer that is not JSON, an answer without content, a stream that ends without a finish reason, an end mark (`[DONE]`, the
    /// last event of APIs that have one) and counts behind its last choice. Any of these three says that an answer is over.
    pub fn read(&self, exchange: &Exchange) -> Answer {
        self.read_with(exchange, &mut Familiar::new())
    }

    /// The same, faster for the second of many answers: what they have in common is read once. `familiar` serves one endpoint.
    pub fn read_with(&self, exchange: &Exchange, familiar: &mut Familiar) -> Answer {
        let mut answer = answer::read(self.kind, self.rule.as_ref(), exchange, familiar);
        if let Some(failure) = &mut answer.failure {
            self.secrets.hide_in(failure);
        }
        answer
    }
}

/// Where an API that has no form of its own has its content; `None` for all others.
pub(crate) fn rule(plan: &EndpointPlan) -> Result<Option<Arc<Extraction>>, EncodeError> {
    if !matches!(plan.kind, EndpointKind::Template | EndpointKind::Raw) {
        return Ok(None);
    }
    let field = plan.response_field.as_ref().map(|field| (field.expression.as_str(), field.origin.as_str()));
    // AIPerf looks elsewhere for what a raw answer's field does not have, and nowhere else for a template's.
    Ok(Some(Arc::new(Extraction::new(field, plan.kind == EndpointKind::Template)?)))
}

/// The path appended to the base URL.
pub(crate) fn path(plan: &EndpointPlan) -> &str {
    let traits = plan.kind.traits();
    let own = traits.streaming_path.filter(|_| plan.streaming).unwrap_or(traits.path);
    plan.path.as_deref().unwrap_or(own)
}

#[cfg(test)]
mod answer_tests;
#[cfg(test)]
mod event_tests;
#[cfg(test)]
mod familiar_tests;
#[cfg(test)]
mod generate_tests;
#[cfg(test)]
mod history_tests;
#[cfg(test)]
mod mark_tests;
#[cfg(test)]
mod scores_tests;

/// A plan that tests fill in.
#[cfg(test)]
pub(crate) fn test_plan(kind: EndpointKind) -> EndpointPlan {
    EndpointPlan {
        timeout_ns: 10_000_000_000,
        max_response_bytes: 1 << 20,
        ..EndpointPlan::new(kind, aiperf_core::url::BaseUrl::parse("http://127.0.0.1:1").expect("a URL"))
    }
}
