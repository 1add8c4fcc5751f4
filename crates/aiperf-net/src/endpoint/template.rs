//! Bodies that a template of the user's makes: Jinja, without HTML escaping, one rendering for each turn.

use aiperf_core::conversation::{Media, MediaKind, Turn};
use aiperf_core::plan::TemplatePlan;
use aiperf_core::text::{for_terminal, without_place};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde_json::{Map, Value, json};

use super::{EncodeError, Request};

/// Steps one rendering may take before its input is considered, and further ones for each byte of texts.
const FUEL: u64 = 2_000_000;
const FUEL_PER_BYTE: u64 = 32;
/// Most characters shown of what was rendered.
const SHOWN: usize = 120;

/// A template, compiled.
#[derive(Debug)]
pub(super) struct BodyTemplate {
    environment: Environment<'static>,
    /// Where it is written.
    origin: String,
}

impl BodyTemplate {
    pub(super) fn new(plan: &TemplatePlan) -> Result<Self, EncodeError> {
        let mut environment = Environment::new();
        // A template is a text of its own: a name that it does not know is a slip, and not nothing.
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        let syntax = SyntaxConfig::builder().build();
        environment.set_syntax(syntax.expect("the usual delimiters do not overlap"));
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        let mut template = Self { environment, origin: plan.origin.clone() };
        let added = template.environment.add_template_owned(NAME, plan.body.clone());
        added.map_err(|error| template.bad(&error))?;
        Ok(template)
    }

    /// What the template makes of `request`.
    pub(super) fn render(
        &self,
        request: &Request<'_>,
        streaming: bool,
    ) -> Result<Map<String, Value>, EncodeError> {
        let turn = request.turn;
        let bytes = turn.texts.iter().map(String::len).sum::<usize>() + turn.media_bytes();
        let mut bounded = self.environment.clone();
        bounded.set_fuel(Some(FUEL + FUEL_PER_BYTE * bytes as u64));
        let template = bounded.get_template(NAME).expect("added when it was compiled");
        let text = template.render(Serde(variables(request, streaming))).map_err(|error| self.bad(&error))?;
        match serde_json::from_str(&text) {
            Ok(Value::Object(fields)) => Ok(fields),
            Ok(other) => {
                let kind = match other {
                    Value::Array(_) => "a list",
                    Value::String(_) => "a text",
                    Value::Number(_) => "a number",
                    _ => "null, true or false",
                };
                Err(self.no_json(&format!("renders {kind} and not an object"), &text))
            }
            Err(error) => {
                let (line, column) = (error.line(), error.column());
                let said = error.to_string();
                let reason = without_place(&said);
                let shown = text.lines().nth(line.saturating_sub(1)).unwrap_or("");
                let problem =
                    format!("renders no JSON: {reason} at column {column} of line {line} of what it renders");
                Err(self.no_json(&problem, shown))
            }
        }
    }

    fn no_json(&self, problem: &str, shown: &str) -> EncodeError {
        let problem = format!("{problem}: {}", for_terminal(shown.trim(), SHOWN));
        EncodeError::Template { origin: self.origin.clone(), line: String::new(), problem }
    }

    fn bad(&self, error: &minijinja::Error) -> EncodeError {
        let line = error.line().map(|line| format!(" (line {line})")).unwrap_or_default();
        let mut problem = format!("cannot be rendered: {}", error.kind());
        if let Some(detail) = error.detail() {
            problem = format!("{problem}: {detail}");
        }
        if error.kind() == minijinja::ErrorKind::UndefinedError {
            problem = format!("{problem}; the names are {}", NAMES.join(", "));
        }
        EncodeError::Template { origin: self.origin.clone(), line, problem: for_terminal(&problem, 600) }
    }
}

const NAME: &str = "body";

/// What a template may name.
const NAMES: [&str; 23] = [
    "text",
    "texts",
    "image",
    "images",
    "audio",
    "audios",
    "video",
    "videos",
    "query",
    "queries",
    "passage",
    "passages",
    "texts_by_name",
    "images_by_name",
    "audios_by_name",
    "videos_by_name",
    "model",
    "max_tokens",
    "role",
    "stream",
    "turn",
    "turns",
    "request_info",
];

fn variables(request: &Request<'_>, streaming: bool) -> Map<String, Value> {
    let turn = request.turn;
    let filled = |texts: Vec<&str>| -> Vec<Value> { texts.into_iter().map(Value::from).collect() };
    let texts = filled(turn.texts.iter().map(String::as_str).collect());
    let named = |name: &str| filled(turn.texts_named(name).collect());
    let queries = named("query");
    let passages = Some(named("passages")).filter(|p| !p.is_empty()).unwrap_or_else(|| named("passage"));
    let first = |list: &[Value]| list.first().cloned().unwrap_or(Value::Null);
    let mut by_name = Map::new();
    for group in &turn.groups {
        by_name.entry(group.name.clone()).or_insert_with(|| named(&group.name).into());
    }
    let told = told(turn);
    let list = vec![told.clone()];
    let info = json!({
        "turns": list, "system_message": request.system, "user_context_message": request.user_context,
    });
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| {
        out.insert(name.to_owned(), value);
    };
    put("text", first(&texts));
    put("texts", texts.into());
    for kind in MediaKind::ALL {
        let all = filled(turn.media_of(kind).collect());
        let mut by_name = Map::new();
        for media in turn.media.iter().filter(|media| media.kind == kind && !media.name.is_empty()) {
            let of_name = by_name.entry(media.name.clone()).or_insert_with(|| json!([]));
            if let Value::Array(list) = of_name {
                list.extend(media.contents.iter().map(|content| content.as_str().into()));
            }
        }
        put(kind.name(), first(&all));
        put(kind.names(), all.into());
        put(&format!("{}_by_name", kind.names()), by_name.into());
    }
    put("query", first(&queries));
    put("queries", queries.into());
    put("passage", first(&passages));
    put("passages", passages.into());
    put("texts_by_name", by_name.into());
    put("model", turn.model.as_str().into());
    put("max_tokens", turn.max_tokens.into());
    put("role", turn.role.as_deref().into());
    put("stream", streaming.into());
    put("turn", told);
    put("turns", list.into());
    put("request_info", info);
    out
}

/// A turn in the form that AIPerf's templates see it in.
fn told(turn: &Turn) -> Value {
    let texts: Vec<Value> = if turn.groups.is_empty() {
        turn.texts.iter().map(|text| json!({"name": "", "contents": [text]})).collect()
    } else {
        let groups = turn.groups.iter().scan(0, |at, group| {
            let from = std::mem::replace(at, *at + group.count);
            Some(json!({"name": group.name, "contents": turn.texts.get(from..*at).unwrap_or_default()}))
        });
        groups.collect()
    };
    let media = |kind: MediaKind| -> Vec<Value> {
        let told = |media: &Media| match kind {
            MediaKind::Image => {
                json!({"name": media.name, "contents": media.contents, "uuids": media.uuids})
            }
            MediaKind::Audio | MediaKind::Video => json!({"name": media.name, "contents": media.contents}),
        };
        turn.media.iter().filter(|media| media.kind == kind).map(told).collect()
    };
    json!({
        "model": turn.model, "role": turn.role, "max_tokens": turn.max_tokens, "texts": texts,
        "images": media(MediaKind::Image), "audios": media(MediaKind::Audio), "videos": media(MediaKind::Video),
        "extra_body": turn.extra,
        "delay": turn.delay_ns.map(|ns| ns as f64 / 1e6), "timestamp": turn.at_ns.map(|ns| ns as f64 / 1e6),
    })
}
