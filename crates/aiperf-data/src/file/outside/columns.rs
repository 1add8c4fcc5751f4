//! Which names of a data set hold what: as the user says, or as many data sets have it.

use aiperf_core::plan::{ColumnsPlan, PublicSet, PublicShape};
use aiperf_core::text::for_terminal;
use aiperf_files::Input;
use serde_json::Value;

use super::talk::{LeftOut, Talk};
use super::{Entry, Form, agents, public};
use crate::error::{DataError, RowProblem};
use crate::file::row::{length, shown};

const MESSAGES: [&str; 3] = ["messages", "conversations", "conversation"];
const PROMPT: [&str; 6] = ["prompt", "question", "instruction", "problem", "query", "text"];
const REPLY: [&str; 2] = ["response", "completion"];
const SYSTEM: [&str; 2] = ["system", "system_prompt"];
const OUTPUT: [&str; 2] = ["output_length", "output_tokens"];
/// Most names of a file that are told.
const TOLD: usize = 20;

/// What is read of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    /// A list of messages.
    Messages { messages: String, system: Option<String> },
    /// A prompt, and how long its answer was.
    Prompt { prompt: String, reply: Option<String>, system: Option<String>, output: Option<String> },
    /// What a data set of AIPerf's list has.
    Public(PublicShape),
}

impl Chosen {
    /// Conversations of ShareGPT.
    pub(super) fn talks(columns: &ColumnsPlan, first: &Entry, input: &Input) -> Result<Self, DataError> {
        let messages = match &columns.messages {
            Some(named) => named_in(named, "--dataset-messages-column", first, input)?,
            None if first.contains_key(MESSAGES[1]) => MESSAGES[1].to_owned(),
            None => return Err(DataError::NoTalks { path: input.name.clone(), columns: names(first) }),
        };
        Ok(Self::Messages { messages, system: None })
    }

    /// What a published data set has.
    pub(super) fn public(set: &'static PublicSet, first: &Entry, input: &Input) -> Result<Self, DataError> {
        let chosen = Self::Public(set.shape);
        let missing = chosen
            .columns()
            .into_iter()
            .find(|name| *name != agents::BENCHMARK && !first.contains_key(*name));
        match missing {
            None => Ok(chosen),
            Some(column) => Err(DataError::NoPublicColumn {
                path: input.name.clone(),
                set: set.name,
                column: column.to_owned(),
                columns: names(first),
            }),
        }
    }

    /// What the user names, and what the first entry has of usual names; a line for the user where something was guessed.
    pub(super) fn of(
        columns: &ColumnsPlan,
        first: &Entry,
        input: &Input,
    ) -> Result<(Self, Option<String>), DataError> {
        let mut guessed = Vec::new();
        let mut guess = |what: &str, given: &Option<String>, flag: &'static str, usual: &[&str]| {
            if let Some(name) = given {
                return named_in(name, flag, first, input).map(Some);
            }
            let found = usual.iter().find(|name| first.contains_key(**name));
            if let Some(name) = found {
                guessed.push(format!("{what} from '{name}'"));
            }
            Ok(found.map(|name| (*name).to_owned()))
        };
        let by_prompt = columns.prompt.is_some() || columns.reply.is_some() || columns.output.is_some();
        let messages = if by_prompt {
            None
        } else {
            let is_list = |name: &str| first.get(name).is_some_and(|v| v.is_array() || v.is_null());
            let lists: Vec<&str> = MESSAGES.iter().copied().filter(|name| is_list(name)).collect();
            guess("messages", &columns.messages, "--dataset-messages-column", &lists)?
        };
        let chosen = if let Some(messages) = messages {
            let system = guess("system messages", &columns.system, "--dataset-system-column", &SYSTEM)?;
            Self::Messages { messages, system }
        } else {
            let Some(prompt) = guess("prompts", &columns.prompt, "--dataset-prompt-column", &PROMPT)? else {
                return Err(DataError::NoPromptColumn { path: input.name.clone(), columns: names(first) });
            };
            Self::Prompt {
                prompt,
                reply: guess("replies", &columns.reply, "--dataset-response-column", &REPLY)?,
                output: guess("output lengths", &columns.output, "--dataset-output-length-column", &OUTPUT)?,
                system: guess("system messages", &columns.system, "--dataset-system-column", &SYSTEM)?,
            }
        };
        let file = input.name.display();
        let note = (!guessed.is_empty()).then(|| {
            format!(
                "{file}: read as chat, {}; --dataset-prompt-column and the like say otherwise",
                guessed.join(", ")
            )
        });
        Ok((chosen, note))
    }

    /// The names that are read.
    pub(super) fn columns(&self) -> Vec<&str> {
        let all = match self {
            Self::Messages { messages, system } => vec![Some(messages), system.as_ref()],
            Self::Prompt { prompt, reply, system, output } => {
                vec![Some(prompt), reply.as_ref(), system.as_ref(), output.as_ref()]
            }
            Self::Public(shape) => {
                return public::columns(*shape);
            }
        };
        all.into_iter().flatten().map(String::as_str).collect()
    }

    /// A line for the user on what the first entry has and nobody reads.
    pub(super) fn unread(&self, first: &Entry, input: &Input) -> Option<String> {
        let read = self.columns();
        // What an entry is called by says nothing that could be sent.
        let unread = first.iter().filter(|(name, _)| !read.contains(&name.as_str()) && *name != "id");
        let unread: Entry = unread.map(|(name, _)| (name.clone(), Value::Null)).collect();
        let said = || format!("{}: names that are not read: {}", input.name.display(), names(&unread));
        (!unread.is_empty()).then(said)
    }

    /// The output length that an entry says, if it says one.
    pub(super) fn output(&self, entry: &Entry) -> Result<Option<u64>, RowProblem> {
        let Self::Prompt { output: Some(column), .. } = self else { return Ok(None) };
        let value = entry.get(column).unwrap_or(&Value::Null);
        // Cells of CSV are texts, and empty where there is nothing.
        let number = match value {
            Value::Null => return Ok(None),
            Value::String(text) if text.trim().is_empty() => return Ok(None),
            Value::String(text) => serde_json::from_str(text.trim()).unwrap_or_default(),
            other => other.clone(),
        };
        let bad = |_| RowProblem::OutputLength { column: for_terminal(column, 40), found: shown(value) };
        length("", &number).map(Some).map_err(bad)
    }

    /// What an entry says, whose answer has `output` tokens, if it says so.
    pub(super) fn talk(&self, form: Form, mut entry: Entry, output: Option<u64>) -> Result<Talk, LeftOut> {
        let mut text = |name: &Option<String>| match entry.get_mut(name.as_deref()?).map(Value::take) {
            Some(Value::String(text)) => Some(text).filter(|text| !text.trim().is_empty()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        match self {
            Self::Public(shape) => public::talk(*shape, &mut entry),
            Self::Messages { messages, system } => {
                let own = text(system);
                let list = match entry.get_mut(messages).map(Value::take) {
                    Some(Value::Array(list)) => list,
                    // A column of CSV has texts alone.
                    Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or_default(),
                    _ => Vec::new(),
                };
                if form == Form::ShareGpt {
                    return Talk::of_pairs(&list);
                }
                let mut talk = Talk::of_messages(&list)?;
                talk.system = talk.system.or(own);
                Ok(talk)
            }
            Self::Prompt { prompt, reply, system, output: _ } => {
                let system = text(system);
                let reply = text(reply).unwrap_or_default();
                let prompt = text(&Some(prompt.clone())).unwrap_or_default();
                Talk::of_prompt(prompt, reply, output, system)
            }
        }
    }
}

/// A name that the user says; the data set must have it.
fn named_in(name: &str, flag: &'static str, first: &Entry, input: &Input) -> Result<String, DataError> {
    if first.contains_key(name) {
        return Ok(name.to_owned());
    }
    Err(DataError::NoColumn {
        path: input.name.clone(),
        column: for_terminal(name, 40),
        flag,
        columns: names(first),
    })
}

/// The names that there are, for an error.
pub(super) fn names(first: &Entry) -> String {
    let all: Vec<String> =
        first.keys().take(TOLD).map(|name| format!("'{}'", for_terminal(name, 40))).collect();
    let more = if first.len() > TOLD { " and more" } else { "" };
    if all.is_empty() { "nothing".to_owned() } else { format!("{}{more}", all.join(", ")) }
}
