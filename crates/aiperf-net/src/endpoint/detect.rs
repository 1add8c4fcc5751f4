//! Answers of APIs that nobody has described: content is where the user says it is, by a JMESPath expression, or where such
//! servers usually have it. What is looked for, and in which order, is AIPerf's choice.

use std::borrow::Cow;

use aiperf_core::text::for_terminal;
use serde_json::Value;

use super::EncodeError;
use super::chunk::Piece;
use super::error::says_something;
use super::event::Said;

/// Where an answer has its content.
#[derive(Debug)]
pub(crate) struct Extraction {
    expression: Option<jmespath::Expression<'static>>,
    /// Nothing is looked for elsewhere when the expression finds nothing.
    only: bool,
}

impl Extraction {
    /// By `expression`, which was written at `origin`; with `only`, by nothing else.
    pub(super) fn new(expression: Option<(&str, &str)>, only: bool) -> Result<Self, EncodeError> {
        let compile = |(text, origin): (&str, &str)| {
            jmespath::compile(text).map_err(|error| EncodeError::ResponseField {
                origin: origin.to_owned(),
                expression: for_terminal(text, 200),
                column: error.column + 1,
                problem: first_line(&error.to_string()),
            })
        };
        Ok(Self { expression: expression.map(compile).transpose()?, only })
    }

    /// The expression that alone says where content is.
    pub(super) fn sole_expression(&self) -> Option<&str> {
        self.expression.as_ref().filter(|_| self.only).map(jmespath::Expression::as_str)
    }

    /// What an answer, or the data of an event, says.
    pub(super) fn said(&self, json: &str) -> Result<Said<'static>, serde_json::Error> {
        let value: Value = match serde_json::from_str(json) {
            Ok(value) => value,
            // A body that is no JSON is its own text, unless it was to be looked into.
            Err(error) if self.expression.is_some() || json.trim().is_empty() => return Err(error),
            Err(_) => return Ok(Said::piece(Piece::prose(json.to_owned().into()))),
        };
        let mut content = self.expression.as_ref().and_then(|expression| {
            let found = expression.search(&value).ok()?;
            converted(&serde_json::to_value(&*found).ok()?)
        });
        if content.is_none() && !(self.only && self.expression.is_some()) {
            content = detected(&value);
        }
        let error = value.get("error").filter(|error| content.is_none() && says_something(error)).cloned();
        let text = |pointer: &str| {
            let text = value.pointer(pointer)?.as_str().filter(|t| !t.is_empty())?;
            Some(Cow::Owned(text.to_owned()))
        };
        Ok(Said {
            usage: value.get("usage").and_then(Value::as_object).filter(|u| !u.is_empty()).cloned(),
            model: text("/model"),
            finish_reason: text("/choices/0/finish_reason").or_else(|| text("/finish_reason")),
            error,
            bare: matches!(content, Some(Content::Bare)),
            piece: match content {
                Some(Content::Text(text)) => Some(Piece::prose(text.into())),
                _ => None,
            },
            ..Said::default()
        })
    }
}

/// The expression's own words, without the drawing below them.
fn first_line(said: &str) -> String {
    let line = said.lines().next().unwrap_or("");
    let line = line.strip_prefix("Parse error: ").unwrap_or(line);
    line.split(" (line ").next().unwrap_or(line).to_owned()
}

/// Content that was found.
#[derive(Debug, PartialEq, Eq)]
enum Content {
    Text(String),
    /// Vectors or scores: content that no tokens are made of.
    Bare,
}

/// A text, unless it is empty.
fn text(text: &str) -> Option<Content> {
    (!text.is_empty()).then(|| Content::Text(text.to_owned()))
}

/// A list of texts, joined; `None` for any other list.
fn joined(list: &[Value]) -> Option<Content> {
    let texts: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
    text(&texts?.concat())
}

/// What a value found by an expression is: a text, a vector or several, or ranked things.
fn converted(value: &Value) -> Option<Content> {
    match value {
        Value::String(s) => text(s),
        Value::Array(list) => match list.first()? {
            Value::Number(_) | Value::Object(_) => Some(Content::Bare),
            Value::Array(inner) => inner.first()?.is_number().then_some(Content::Bare),
            Value::String(_) => joined(list),
            _ => None,
        },
        _ => None,
    }
}

/// What an answer usually is: vectors, ranks, then text.
fn detected(value: &Value) -> Option<Content> {
    let Value::Object(fields) = value else { return converted(value) };
    let list = |name: &str| fields.get(name).and_then(Value::as_array);
    let is_embedding = |item: &Value| item["object"] == "embedding";
    if list("data").is_some_and(|data| {
        data.first().is_some_and(is_embedding) && data.iter().any(|item| item.get("embedding").is_some())
    }) {
        return Some(Content::Bare);
    }
    for vectors in ["embeddings", "embedding"].into_iter().filter_map(list) {
        if vectors.first().is_some_and(|first| first.is_number() || first.is_array()) {
            return Some(Content::Bare);
        }
    }
    if list("rankings").or_else(|| list("results")).is_some() {
        return Some(Content::Bare);
    }
    for found in ["text", "content", "response", "output", "result"].into_iter().filter_map(|f| fields.get(f))
    {
        match found {
            Value::String(s) => return text(s),
            Value::Array(list) if !list.is_empty() && list.iter().all(Value::is_string) => {
                return joined(list);
            }
            _ => {}
        }
    }
    let choice = list("choices")?.first()?;
    ["/text", "/message/content", "/delta/content"]
        .into_iter()
        .find_map(|place| text(choice.pointer(place)?.as_str()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn auto(value: &Value) -> Option<Content> {
        detected(value)
    }

    #[test]
    fn vectors_go_before_ranks_and_ranks_before_text() {
        let bare = [
            json!({"data": [{"object": "embedding", "embedding": [0.1]}], "text": "x"}),
            json!({"embeddings": [[0.1, 0.2]]}),
            json!({"embedding": [1, 2], "text": "x"}),
            json!({"rankings": [], "text": "x"}),
            json!({"results": [{"index": 0, "score": 0.9}], "text": "x"}),
            json!([{"index": 0, "score": 0.98}]),
            json!([0.1, 0.2]),
            json!([[0.1, 0.2]]),
        ];
        for value in bare {
            assert_eq!(auto(&value), Some(Content::Bare), "{value}");
        }
        let texts = [
            json!({"text": "hi", "content": "no"}),
            json!({"text": ["h", "i"]}),
            json!({"text": 7, "content": "hi"}),
            json!({"response": "hi"}),
            json!({"output": "hi"}),
            json!({"result": "hi", "choices": [{"text": "no"}]}),
            json!({"choices": [{"text": "hi"}]}),
            json!({"choices": [{"text": "", "message": {"content": "hi"}}]}),
            json!({"choices": [{"delta": {"content": "hi"}}]}),
            json!({"data": [{"object": "embedding"}], "text": "hi"}),
            json!({"embedding": [], "embeddings": ["x"], "text": "hi"}),
            json!("hi"),
        ];
        for value in texts {
            assert_eq!(auto(&value), Some(Content::Text("hi".into())), "{value}");
        }
        for value in [
            json!({}),
            json!([]),
            json!(7),
            json!(null),
            json!({"text": ""}),
            json!({"text": "", "content": "behind an empty one nothing is looked for"}),
            json!({"choices": []}),
            json!({"choices": [{"delta": {}}]}),
            json!({"choices": [7]}),
            json!([["x"]]),
            json!([null]),
        ] {
            assert_eq!(auto(&value), None, "{value}");
        }
    }

    #[test]
    fn an_expression_says_where_content_is() {
        let value = json!({"a": {"b": ["x", "y"]}, "v": [0.5], "n": 3, "text": "elsewhere", "s": "",
            "usage": {"prompt_tokens": 4}, "model": "m"});
        let said = |expression: &str, only| {
            let extraction = Extraction::new(Some((expression, "here")), only).expect("a good expression");
            let said = extraction.said(&value.to_string()).expect("JSON");
            (said.piece.map(|piece| piece.prose.into_owned()), said.bare)
        };
        let text = |text: &str| (Some(text.to_owned()), false);
        assert_eq!(said("a.b[0]", true), text("x"));
        assert_eq!(said("a.b", true), text("xy"));
        assert_eq!(said("join('-', a.b)", true), text("x-y"));
        assert_eq!(said("v", true), (None, true));
        for nothing in ["missing", "n", "a", "s", "to_number('x')", "length(n)"] {
            assert_eq!(said(nothing, true), (None, false), "{nothing}");
            assert_eq!(said(nothing, false), text("elsewhere"), "{nothing}");
        }
        let all =
            Extraction::new(None, true).expect("nothing to be wrong").said(&value.to_string()).expect("JSON");
        assert_eq!(all.usage.map(|u| u.len()), Some(1));
        assert_eq!(all.model.as_deref(), Some("m"));
    }

    #[test]
    fn a_bad_expression_is_told_with_its_column() {
        let error = Extraction::new(Some(("a.b[", "--response-field")), true).expect_err("bad").to_string();
        assert!(error.starts_with("--response-field: 'a.b[' is no JMESPath expression: "), "{error}");
        assert!(error.contains("(column ") && !error.contains('\n'), "{error}");
        assert!(
            Extraction::new(Some(("nothing_of_the_kind(a)", "x")), true).is_ok(),
            "unknown names are told by search"
        );
    }

    #[test]
    fn a_text_that_is_no_json_is_content_unless_it_was_to_be_looked_into() {
        let any = Extraction::new(None, false).expect("nothing to be wrong");
        let said = any.said("plain words").expect("a text");
        assert_eq!(said.piece.map(|p| p.prose.into_owned()).as_deref(), Some("plain words"));
        assert!(any.said(" \n").is_err());
        let path = Extraction::new(Some(("a", "x")), false).expect("a good expression");
        assert!(path.said("plain words").is_err());
    }
}
