//! The bytes of answers, streamed and whole, each API in a file: what is known of an answer here, its form there.
//!
//! A stream is: an opening, for each text its chunks and its finish, and a closing. Which of them has what is the API's affair.

mod generate;
mod messages;
mod openai;
mod responses;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::json;

use crate::option::{SimConfig, UsageDetails, UsageForm};
use crate::request::{Api, Ask};
use crate::words::Words;

/// Why a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    Stop,
    Length,
}

impl Finish {
    const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
        }
    }
}

/// One text being made, for one prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) prompt_tokens: u64,
    /// Tokens of text, reasoning included.
    pub(crate) tokens: u64,
    /// Of them, the first so many are reasoning.
    pub(crate) reasoning: u64,
    /// Tokens counted in usage beside those of text: the end token.
    pub(crate) extra: u64,
    pub(crate) finish: Finish,
    /// Where in the cycle of words the text starts.
    pub(crate) start: u64,
}

impl Text {
    /// All of it but the reasoning.
    pub(crate) fn content(&self, words: &Words) -> Option<String> {
        self.parts(words, 0, self.tokens).1
    }

    /// Tokens `from..to` as text, those of reasoning and those of content, each none when there are none.
    fn parts(&self, words: &Words, from: u64, to: u64) -> (Option<String>, Option<String>) {
        let part = |from: u64, to: u64| {
            (from < to).then(|| {
                let mut text = String::with_capacity(16);
                words.write(self.start, from, to, &mut text);
                text
            })
        };
        let border = self.reasoning;
        (part(from, to.min(border)), part(from.max(border) - border, to.max(border) - border))
    }
}

/// Counts to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt: u64,
    pub(crate) cached: u64,
    pub(crate) completion: u64,
    pub(crate) reasoning: u64,
}

/// How a stream goes wrong in its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failed {
    /// An event that is called an error.
    Event,
    /// An error in the data of an event of the usual kind.
    Data,
}

/// Words of a failure inside an answer.
const FAILURE: &str = "simulated failure inside the stream";

/// Everything about an answer that is known once its prompts are counted.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) api: Api,
    /// Those of a prompt stand together.
    pub(crate) texts: Vec<Text>,
    /// Texts of each prompt.
    pub(crate) choices: usize,
    details: UsageDetails,
    usage: UsageForm,
    reasoning_field: &'static str,
    incomplete_event: bool,
    sglang_pieces: bool,
    /// Whether streams have an end mark.
    done: bool,
    id: u128,
    /// What each event of chat and completions begins with; what a response or message says of itself.
    head: String,
    /// What a response says of its request.
    tail: String,
    /// Capacity that fits an event.
    room: usize,
    /// Number of the next event of a response.
    event: u64,
}

/// Text is made of plain words, yet a vocabulary of our own choosing could hold anything: quoted as JSON when needed.
fn push_text(out: &mut BytesMut, text: &str) {
    if text.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\' && b < 0x80) {
        out.put_u8(b'"');
        out.put_slice(text.as_bytes());
        out.put_u8(b'"');
    } else {
        out.put_slice(json!(text).to_string().as_bytes());
    }
}

impl Answer {
    pub(crate) fn new(
        config: &SimConfig,
        api: Api,
        id: u128,
        created_s: u64,
        ask: &Ask<'_>,
        texts: Vec<Text>,
    ) -> Self {
        let model = json!(ask.model);
        let (head, tail) = match api {
            Api::Chat | Api::Completions => {
                (openai::head(api, ask.stream, id, created_s, &model), String::new())
            }
            Api::Responses => responses::head(ask, id, created_s, &model),
            Api::Messages => (messages::head(id, &model), String::new()),
            Api::Tgi { .. } | Api::Sglang | Api::Solido => Default::default(),
        };
        Self {
            api,
            texts,
            choices: ask.choices,
            details: config.usage_details,
            usage: config.usage,
            reasoning_field: config.reasoning_field,
            incomplete_event: config.incomplete_event,
            sglang_pieces: config.sglang_pieces,
            done: config.done,
            id,
            room: head.len() + 192,
            head,
            tail,
            event: 0,
        }
    }

    /// Tokens of all texts.
    pub(crate) fn tokens(&self) -> u64 {
        self.texts.iter().map(|t| t.tokens).sum()
    }

    /// End tokens counted beside them.
    pub(crate) fn extra(&self) -> u64 {
        self.texts.iter().map(|t| t.extra).sum()
    }

    /// Reasoning in all texts.
    pub(crate) fn reasoning(&self) -> u64 {
        self.texts.iter().map(|t| t.reasoning).sum()
    }

    /// Counts of one text that has got to `done` tokens.
    pub(crate) fn usage_of(&self, text: usize, done: u64, cached: u64) -> Usage {
        let text = &self.texts[text];
        Usage { prompt: text.prompt_tokens, cached, completion: done, reasoning: done.min(text.reasoning) }
    }

    /// Counts of the whole answer. A prompt counts once, however many texts were made for it.
    pub(crate) fn usage_whole(&self, cached: u64) -> Usage {
        Usage {
            prompt: self.texts.iter().step_by(self.choices).map(|t| t.prompt_tokens).sum(),
            cached,
            completion: self.tokens() + self.extra(),
            reasoning: self.reasoning(),
        }
    }

    fn buffer(&self) -> BytesMut {
        BytesMut::with_capacity(self.room)
    }

    /// What comes before any text; completions have nothing to say there. `usage` is told where each event has it.
    pub(crate) fn opening(&mut self, usage: Option<Usage>, prompt: Usage) -> BytesMut {
        let mut out = self.buffer();
        match self.api {
            Api::Chat | Api::Completions => self.openai_role(&mut out, usage),
            Api::Responses => self.responses_opening(&mut out),
            Api::Messages => self.messages_opening(&mut out, prompt),
            Api::Tgi { .. } | Api::Sglang | Api::Solido => {}
        }
        out
    }

    /// Tokens `from..to` of a text. `role` joins the role of chat to them.
    pub(crate) fn chunk(
        &mut self,
        words: &Words,
        text: usize,
        (from, to): (u64, u64),
        role: bool,
        usage: Option<Usage>,
    ) -> BytesMut {
        let mut out = self.buffer();
        match self.api {
            Api::Chat | Api::Completions => self.openai_chunk(&mut out, words, text, (from, to), role, usage),
            Api::Responses => self.responses_chunk(&mut out, words, (from, to)),
            Api::Messages => self.messages_chunk(&mut out, words, (from, to)),
            Api::Tgi { .. } | Api::Sglang | Api::Solido => {
                self.generate_chunk(&mut out, words, (from, to), usage);
            }
        }
        out
    }

    /// The end of a text.
    pub(crate) fn finish(&mut self, out: &mut BytesMut, words: &Words, text: usize, usage: Option<Usage>) {
        match self.api {
            Api::Chat | Api::Completions => self.openai_finish(out, text, usage),
            Api::Responses => self.responses_finish(out, words),
            Api::Messages => self.messages_finish(out),
            Api::Tgi { .. } | Api::Sglang | Api::Solido => self.generate_finish(out, words, usage),
        }
    }

    /// An event of chat or completions without choices, with or without usage; the others have no such thing.
    pub(crate) fn choiceless(&self, out: &mut BytesMut, usage: Option<Usage>) {
        self.openai_choiceless(out, usage);
    }

    /// The end of a response or message, `whole` or without any content.
    pub(crate) fn closing(&mut self, out: &mut BytesMut, words: &Words, usage: Usage, whole: bool) {
        match self.api {
            Api::Chat | Api::Completions => {}
            Api::Responses => self.responses_closing(out, words, usage, whole),
            Api::Messages => self.messages_closing(out, usage),
            Api::Tgi { .. } | Api::Sglang | Api::Solido => self.generate_closing(out, whole),
        }
    }

    /// The event of a failure.
    pub(crate) fn failure(&mut self, how: Failed) -> BytesMut {
        let mut out = self.buffer();
        match self.api {
            Api::Tgi { .. } => generate::failure(&mut out),
            Api::Chat | Api::Completions | Api::Sglang | Api::Solido => openai::failure(&mut out, how),
            Api::Responses => self.responses_failure(&mut out, how),
            Api::Messages => messages::failure(&mut out, how),
        }
        out
    }

    /// The start of an event that never becomes JSON.
    pub(crate) fn malformed(&self) -> BytesMut {
        let text: &[u8] = match self.api {
            Api::Chat | Api::Completions => b"data: {\"id\":\"broken\",\"choices\":[{\"index\":0,\"delta\":\n\n",
            Api::Responses => {
                b"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\n\n"
            }
            Api::Messages => b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":\n\n",
            Api::Tgi { .. } => b"data: {\"index\":1,\"token\":\n\n",
            Api::Sglang => b"data: {\"text\":\n\n",
            Api::Solido => b"data: {\"content\":\n\n",
        };
        BytesMut::from(text)
    }

    /// The body of an answer that is not streamed. `content` off leaves out choices, output or blocks, `text` off leaves the
    /// text empty.
    pub(crate) fn body(&self, words: &Words, cached: u64, content: bool, text: bool) -> Bytes {
        let mut out = BytesMut::with_capacity(self.room + self.tokens() as usize * 6);
        let usage = self.usage_whole(cached);
        match self.api {
            Api::Chat | Api::Completions => self.openai_body(&mut out, words, usage, content, text),
            Api::Responses => self.responses_body(&mut out, words, usage, content, text),
            Api::Messages => self.messages_body(&mut out, words, usage, content, text),
            Api::Tgi { .. } | Api::Sglang | Api::Solido => {
                self.generate_body(&mut out, words, usage, content && text);
            }
        }
        out.freeze()
    }

    /// The body of an answer that failed within a 200.
    pub(crate) fn failed_body(&self) -> Bytes {
        match self.api {
            Api::Tgi { .. } => generate::failed_body(),
            Api::Chat | Api::Completions | Api::Sglang | Api::Solido => openai::failed_body(),
            Api::Responses => self.responses_failed_body(),
            Api::Messages => messages::failed_body(),
        }
    }
}
