//! A conversation of a foreign data set: what the user said, and how long the replies were.

use std::fmt;

use aiperf_core::conversation::MediaKind;
use aiperf_tokens::Tokenizer;
use serde_json::Value;

use crate::error::RowProblem;

/// Lengths that vLLM's benchmark takes of ShareGPT, and AIPerf after it: tokens of a prompt, of a reply, and of both.
const PROMPT: std::ops::RangeInclusive<u64> = 4..=1024;
const SHORTEST_REPLY: u64 = 4;
const MOST_TOGETHER: u64 = 2048;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Talk {
    pub(super) system: Option<String>,
    /// At least one, unless there are rows.
    pub(super) turns: Vec<Turn>,
    /// Rows of `multi_turn` that are ready.
    pub(super) rows: Vec<String>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) text: String,
    /// What is shown or played with it, each with its kind.
    pub(super) media: Vec<(MediaKind, String)>,
    /// What was answered.
    pub(super) reply: String,
    /// Tokens of the text, once it was counted.
    pub(super) prompt: u64,
    /// Tokens of the answer: said by the data set, or counted.
    pub(super) output: Option<u64>,
}

/// Why an entry is not sent.
#[derive(Debug, PartialEq)]
pub(super) enum LeftOut {
    /// Nothing that the user says.
    NoPrompt,
    /// No request that was answered, of an agent's session.
    NoRequest,
    /// No answer to it, where an answer gives the length.
    NoPair,
    /// A length that is not taken.
    Length,
    /// A role that is neither of the two sides.
    Role(String),
    /// A system message between turns.
    LateSystem,
    /// Contents that no request has a form for, or what is shown by somebody else than the user.
    Media(String),
    /// Nothing to be seen or heard, where that is the matter.
    NoMedia(MediaKind),
    /// A clip that is longer than any that is sent.
    LongAudio,
    /// What stands under a name is not what belongs there.
    BadCell(RowProblem),
    /// A session that the user's filters do not take; whose it is.
    Unwanted(String),
    /// It cannot be read at all.
    Broken,
}

impl LeftOut {
    /// Whether they are told together.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |text: &str| aiperf_core::text::for_terminal(text, 40);
        match self {
            Self::NoPrompt => f.write_str("without a prompt"),
            Self::NoRequest => f.write_str("without a request that was answered"),
            Self::NoPair => f.write_str("without a prompt that was answered"),
            Self::Length => {
                write!(
                    f,
                    "with a prompt that is not {} to {} tokens long, a reply below {SHORTEST_REPLY}, or more than {MOST_TOGETHER} together",
                    PROMPT.start(),
                    PROMPT.end()
                )
            }
            Self::Role(role) => write!(f, "with messages of neither side, such as of '{}'", short(role)),
            Self::Broken => f.write_str("that cannot be read"),
            Self::NoMedia(kind) => {
                write!(f, "without {}", if *kind == MediaKind::Audio { "audio" } else { "a video" })
            }
            Self::LongAudio => f.write_str("with a clip of more than 30 s"),
            Self::BadCell(problem) => write!(f, "in which {problem}"),
            Self::Unwanted(whose) => {
                write!(f, "that --dataset-filter does not take, such as of {}", short(whose))
            }
            Self::LateSystem => f.write_str("with a system message between turns"),
            Self::Media(kind) => write!(f, "with contents that are no text, such as '{}'", short(kind)),
        }
    }
}

/// Who says a message.
enum Side {
    User,
    Assistant,
    System,
}

impl Side {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "user" | "human" | "prompter" => Self::User,
            "assistant" | "gpt" | "chatgpt" | "bard" | "bing" | "model" | "bot" => Self::Assistant,
            "system" | "developer" => Self::System,
            _ => return None,
        })
    }
}

/// A text under one of `keys`.
fn text<'a>(message: &'a Value, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| message.get(*key)).and_then(Value::as_str)
}

/// The text of contents, which may be in parts, and the media among them.
fn contents(message: &Value) -> Result<(String, Vec<(MediaKind, String)>), LeftOut> {
    match ["content", "value", "text"].iter().find_map(|key| message.get(*key)) {
        Some(Value::String(text)) => Ok((text.clone(), Vec::new())),
        Some(Value::Array(parts)) => {
            let (mut texts, mut media) = (Vec::new(), Vec::new());
            for part in parts {
                match part.as_str().or_else(|| text(part, &["text"])) {
                    Some(text) => texts.push(text),
                    None => media.push(shown(part).ok_or_else(|| {
                        LeftOut::Media(text(part, &["type"]).unwrap_or("unknown").to_owned())
                    })?),
                }
            }
            Ok((texts.join("\n"), media))
        }
        _ => Ok((String::new(), Vec::new())),
    }
}

/// A part in OpenAI's form that is no text.
fn shown(part: &Value) -> Option<(MediaKind, String)> {
    let address = |field: &str| {
        let value = part.get(field)?;
        Some(value.as_str().or_else(|| value.get("url")?.as_str())?.to_owned())
    };
    match part.get("type")?.as_str()? {
        "image_url" | "input_image" => Some((MediaKind::Image, address("image_url")?)),
        "video_url" => Some((MediaKind::Video, address("video_url")?)),
        "input_audio" => {
            let audio = part.get("input_audio")?;
            let (format, data) = (text(audio, &["format"])?, text(audio, &["data"])?);
            Some((MediaKind::Audio, format!("data:audio/{format};base64,{data}")))
        }
        _ => None,
    }
}

impl Talk {
    /// A prompt alone, or with its answer.
    pub(super) fn of_prompt(
        prompt: String,
        reply: String,
        output: Option<u64>,
        system: Option<String>,
    ) -> Result<Self, LeftOut> {
        if prompt.trim().is_empty() {
            return Err(LeftOut::NoPrompt);
        }
        Ok(Self {
            system,
            turns: vec![Turn { text: prompt, reply, output, ..Turn::default() }],
            ..Self::default()
        })
    }

    /// What the user says, turn by turn.
    pub(super) fn of_turns(turns: impl Iterator<Item = String>) -> Result<Self, LeftOut> {
        let turns: Vec<Turn> = turns.map(|text| Turn { text, ..Turn::default() }).collect();
        if turns.is_empty() { Err(LeftOut::NoPrompt) } else { Ok(Self { turns, ..Self::default() }) }
    }

    /// Messages with roles: what the user says in a row is one turn, what is answered gives its length.
    pub(super) fn of_messages(messages: &[Value]) -> Result<Self, LeftOut> {
        let mut talk = Self::default();
        let mut answered = false;
        for message in messages {
            let role = text(message, &["role", "from"]).unwrap_or_default();
            let side = Side::of(role).ok_or_else(|| LeftOut::Role(role.to_owned()))?;
            let (said, media) = contents(message)?;
            if said.trim().is_empty() && media.is_empty() {
                continue;
            }
            if let (Side::Assistant | Side::System, Some((kind, _))) = (&side, media.first()) {
                return Err(LeftOut::Media(format!("{} of '{role}'", kind.name())));
            }
            match (side, talk.turns.last_mut()) {
                (Side::System, None) => join(talk.system.get_or_insert_default(), &said),
                (Side::System, Some(_)) => return Err(LeftOut::LateSystem),
                (Side::User, Some(turn)) if !answered => {
                    join(&mut turn.text, &said);
                    turn.media.extend(media);
                }
                (Side::User, _) => {
                    talk.turns.push(Turn { text: said, media, ..Turn::default() });
                    answered = false;
                }
                // What is said before the user says anything is a greeting.
                (Side::Assistant, None) => {}
                (Side::Assistant, Some(turn)) => {
                    join(&mut turn.reply, &said);
                    answered = true;
                }
            }
        }
        if talk.turns.is_empty() { Err(LeftOut::NoPrompt) } else { Ok(talk) }
    }

    /// ShareGPT: each `human` with the `gpt` right behind it; the first two where nobody has such a name.
    pub(super) fn of_pairs(messages: &[Value]) -> Result<Self, LeftOut> {
        let from = |message: &Value| text(message, &["from", "role"]).unwrap_or_default().to_owned();
        let is_side = |name: &str| matches!(name, "human" | "gpt");
        let messages: Vec<&Value> = messages.iter().filter(|message| message.is_object()).collect();
        let mut turns = Vec::new();
        let mut pair = |prompt: &Value, reply: &Value| {
            let (prompt, reply) = (text(prompt, &["value", "content"]), text(reply, &["value", "content"]));
            if let (Some(prompt), Some(reply)) = (prompt, reply)
                && !prompt.is_empty()
                && !reply.is_empty()
            {
                turns.push(Turn { text: prompt.to_owned(), reply: reply.to_owned(), ..Turn::default() });
            }
        };
        if messages.iter().any(|message| is_side(&from(message))) {
            let sides: Vec<(String, &Value)> =
                messages.into_iter().map(|m| (from(m), m)).filter(|(name, _)| is_side(name)).collect();
            let mut at = 0;
            while let Some([(first, prompt), (second, reply)]) = sides.get(at..at + 2) {
                let is_pair = first == "human" && second == "gpt";
                if is_pair {
                    pair(prompt, reply);
                }
                at += if is_pair { 2 } else { 1 };
            }
        } else if let [prompt, reply, ..] = messages[..] {
            pair(prompt, reply);
        }
        if turns.is_empty() { Err(LeftOut::NoPair) } else { Ok(Self { turns, ..Self::default() }) }
    }

    /// Bytes of all its texts.
    pub(super) fn bytes(&self) -> usize {
        let media = |turn: &Turn| turn.media.iter().map(|(_, content)| content.len()).sum::<usize>();
        let turns = self.turns.iter().map(|turn| turn.text.len() + turn.reply.len() + media(turn));
        turns.chain(self.rows.iter().map(String::len)).sum()
    }

    /// Counts the replies whose lengths are not known, and `prompts`.
    pub(super) fn count(&mut self, tokenizer: &dyn Tokenizer, prompts: bool) {
        for turn in &mut self.turns {
            if prompts {
                turn.prompt = tokenizer.count(&turn.text) as u64;
            }
            if turn.output.is_none() && !turn.reply.is_empty() {
                turn.output = Some(tokenizer.count(&turn.reply) as u64);
            }
            // Nobody needs it any more.
            turn.reply = String::new();
            if prompts && turn.check(true).is_err() {
                // One is enough to leave it out.
                return;
            }
        }
    }

    /// Whether all lengths are taken, once they are counted; short replies where `takes_short`.
    pub(super) fn check_lengths(&self, takes_short: bool) -> Result<(), LeftOut> {
        self.turns.iter().try_for_each(|turn| turn.check(takes_short))
    }
}

impl Turn {
    fn check(&self, takes_short: bool) -> Result<(), LeftOut> {
        let output = self.output.unwrap_or(0);
        let is_taken = PROMPT.contains(&self.prompt)
            && (takes_short || output >= SHORTEST_REPLY)
            && self.prompt + output <= MOST_TOGETHER;
        if is_taken { Ok(()) } else { Err(LeftOut::Length) }
    }
}

fn join(all: &mut String, more: &str) {
    if !all.is_empty() && !more.is_empty() {
        all.push_str("\n\n");
    }
    all.push_str(more);
}
