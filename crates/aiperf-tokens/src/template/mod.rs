//! Chat templates, rendered as `transformers` renders them.
//!
//! A template comes with the tokenizer, from whoever made the model, so it is input and not trusted: it is compiled once,
//! runs in an interpreter without any I/O, and each run is bounded in steps, depth and output.
//!
//! Where the interpreter differs from Jinja2 as `transformers` sets it up, the difference is closed here: whitespace rules,
//! Python's string and mapping methods, `raise_exception`, `strftime_now`, a `tojson` that writes what Python's
//! `json.dumps` writes, `{% generation %}` blocks, and `none` not being iterable.

mod fields;
mod generation;
mod json;

use std::collections::BTreeMap;
use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, State, Value as Jinja};
use serde_json::{Map, Value};

use crate::clock::TemplateClock;
use crate::error::TemplateError;

pub use fields::TemplateFields;

/// Steps one rendering may take before its input is considered. The longest public template needs some thousands for a
/// message.
const BASE_FUEL: u64 = 2_000_000;
/// Further steps for each byte of messages and tools: some templates go over a message character by character.
const FUEL_PER_BYTE: u64 = 32;
/// Bytes one rendering may write before its input is considered.
const BASE_OUTPUT: usize = 1 << 20;
/// Further bytes for each byte of input: tool schemas are spelled out with indents and escapes.
const OUTPUT_PER_BYTE: usize = 16;
/// The largest template text that is compiled; the largest public one has 30 kB.
const MAX_SOURCE: usize = 1 << 20;
const NAME: &str = "chat";
const TOOL_NAME: &str = "tool_use";

/// The special tokens that a template sees as variables, by the names Hugging Face gives them (`bos_token`, …).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpecialTokens(BTreeMap<String, String>);

impl SpecialTokens {
    /// Adds `name` (such as `bos_token`) with its text.
    pub fn insert(&mut self, name: impl Into<String>, text: impl Into<String>) {
        self.0.insert(name.into(), text.into());
    }

    /// The text of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Names and texts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }
}

/// What a template is given.
#[derive(Debug, Clone, Copy)]
pub struct Conversation<'a> {
    /// The messages, a list of objects in the form of the chat API.
    pub messages: &'a Value,
    /// Tool schemas, a list; absent ones are `none` in the template.
    pub tools: Option<&'a Value>,
    /// Documents, a list; absent ones are `none` in the template.
    pub documents: Option<&'a Value>,
    /// Whether the text ends where the assistant begins to speak.
    pub add_generation_prompt: bool,
    /// The request's `chat_template_kwargs`: further variables, which win over all others.
    pub kwargs: Option<&'a Map<String, Value>>,
    /// The moment that `strftime_now` sees.
    pub now: TemplateClock,
}

impl<'a> Conversation<'a> {
    /// Messages alone.
    pub fn new(messages: &'a Value, add_generation_prompt: bool, now: TemplateClock) -> Self {
        Self { messages, tools: None, documents: None, add_generation_prompt, kwargs: None, now }
    }
}

/// A chat template, compiled.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    /// Some models have a template of its own for conversations with tools.
    with_tools: bool,
    /// Special tokens by name, already in the interpreter's form.
    specials: Vec<(String, Jinja)>,
}

impl ChatTemplate {
    /// Compiles `source`; `specials` become variables of the template.
    pub fn parse(source: &str, specials: &SpecialTokens) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| syntax_error(&e))?);
        environment.set_unknown_method_callback(python_method);
        environment.add_filter("tojson", json::tojson);
        environment.add_function("raise_exception", raise_exception);
        // A null value answers an iteration with nothing in the interpreter, and is no iterable in Python; templates ask
        // `tools is iterable` of an absent `tools`.
        environment.add_test("iterable", |value: &Jinja| !value.is_none() && value.try_iter().is_ok());
        let mut template = Self {
            environment,
            source: source.to_owned(),
            with_tools: false,
            specials: specials.iter().map(|(name, text)| (name.to_owned(), Jinja::from(text))).collect(),
        };
        template.compile(NAME, source)?;
        Ok(template)
    }

    /// Adds a template that is used in place of the first one whenever tools are given, as `transformers` uses the template
    /// named `tool_use`.
    pub fn with_tool_template(mut self, source: &str) -> Result<Self, TemplateError> {
        self.compile(TOOL_NAME, source)?;
        self.with_tools = true;
        Ok(self)
    }

    fn compile(&mut self, name: &'static str, source: &str) -> Result<(), TemplateError> {
        if source.len() > MAX_SOURCE {
            return Err(TemplateError::TooMuch { what: "is larger than 1 MiB" });
        }
        let source = generation::as_scopes(source).into_owned();
        self.environment.add_template_owned(name, source).map_err(|e| syntax_error(&e))
    }

    /// The template's text as it came.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text that a server puts in front of the model for `messages` and `tools`.
    pub fn render(
        &self,
        messages: &Value,
        tools: Option<&Value>,
        add_generation_prompt: bool,
        now: TemplateClock,
    ) -> Result<String, TemplateError> {
        self.render_with(&Conversation { tools, ..Conversation::new(messages, add_generation_prompt, now) })
    }

    /// As [`Self::render`], with all that a request can say.
    pub fn render_with(&self, conversation: &Conversation<'_>) -> Result<String, TemplateError> {
        let now = conversation.now;
        let input_bytes = text_bytes(conversation.messages)
            + conversation.tools.map_or(0, text_bytes)
            + conversation.documents.map_or(0, text_bytes);
        let mut variables: Vec<(String, Jinja)> = self.specials.clone();
        let mut set = |name: &str, value: Jinja| variables.push((name.to_owned(), value));
        set("messages", Jinja::from(Serde(conversation.messages)));
        set("tools", Jinja::from(Serde(conversation.tools)));
        set("documents", Jinja::from(Serde(conversation.documents)));
        set("add_generation_prompt", Jinja::from(conversation.add_generation_prompt));
        set("strftime_now", Jinja::from_function(move |format: &str| now.strftime(format)));
        for (name, value) in conversation.kwargs.into_iter().flatten() {
            set(name, Jinja::from(Serde(value)));
        }

        // Fuel belongs to an environment, and the amount to a rendering; a clone shares the compiled template.
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(BASE_FUEL + FUEL_PER_BYTE * input_bytes as u64));
        let template = environment
            .get_template(if self.with_tools && conversation.tools.is_some() { TOOL_NAME } else { NAME })
            .map_err(|e| render_error(&e))?;
        let mut out = Bounded { bytes: Vec::new(), limit: BASE_OUTPUT + OUTPUT_PER_BYTE * input_bytes };
        template.render_captured_to(Jinja::from_pairs(variables), &mut out).map_err(|e| render_error(&e))?;
        String::from_utf8(out.bytes)
            .map_err(|e| TemplateError::Render { line: None, detail: e.utf8_error().to_string() })
    }
}

/// Python's methods. All of them pay for what they make but `format`, whose fields may ask for any width; sane ones have three
/// digits at most.
fn python_method(
    state: &mut State<'_, '_>,
    value: &Jinja,
    method: &str,
    args: &[Jinja],
) -> Result<Jinja, Error> {
    const DIGITS: usize = 4;
    let is_long = |text: &str| text.split(|c: char| !c.is_ascii_digit()).any(|run| run.len() > DIGITS);
    let is_wide = |text: &str| text.split('{').skip(1).any(|f| is_long(f.split('}').next().unwrap_or(f)));
    if method == "format" && value.as_str().is_some_and(is_wide) {
        return Err(Error::new(ErrorKind::OutOfFuel, "a format field asks for too great a width"));
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
}

/// Bytes of all texts and keys in `value`, and one for each node.
fn text_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => 1 + text.len(),
        Value::Array(items) => 1 + items.iter().map(text_bytes).sum::<usize>(),
        Value::Object(fields) => 1 + fields.iter().map(|(k, v)| k.len() + text_bytes(v)).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// A template's own refusal, carried through the interpreter's error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

fn raise_exception(message: &Jinja) -> Result<Jinja, Error> {
    let message = message.to_string();
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// Output that refuses to grow beyond its limit.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
}

/// Marks the error of a full [`Bounded`].
#[derive(Debug, thiserror::Error)]
#[error("output limit reached")]
struct Full;

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            return Err(io::Error::other(Full));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn syntax_error(error: &Error) -> TemplateError {
    TemplateError::Syntax { line: error.line(), detail: words(error) }
}

fn render_error(error: &Error) -> TemplateError {
    // The interpreter wraps an error in one more for each macro or block it passes through.
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(e) = cause {
        if let Some(Raised(message)) = e.downcast_ref() {
            return TemplateError::Raised { message: message.clone() };
        }
        let full = e.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if full.and_then(|inner| inner.downcast_ref::<Full>()).is_some() {
            return TemplateError::TooMuch { what: "wrote more than its output limit" };
        }
        if e.downcast_ref::<Error>().is_some_and(|e| e.kind() == ErrorKind::OutOfFuel) {
            return TemplateError::TooMuch { what: "took more steps than its limit" };
        }
        cause = e.source();
    }
    TemplateError::Render { line: error.line(), detail: words(error) }
}

/// What the interpreter has to say, without the position it appends.
fn words(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests;
