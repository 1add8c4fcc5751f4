//! `POST /tokenize` and `POST /detokenize`, as vLLM serves them: what a client asks that wants to know how this server counts.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, header};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::body::SimBody;
use crate::capture::Entry;
use crate::dialogue;
use crate::page::{full, refuse};
use crate::prompt::{Counter, Given};
use crate::refusal::{Refusal, known_model};
use crate::request::Api;
use crate::service::{COUNT_HERE, Server};
use crate::wire::WireControl;

/// A request of `/tokenize`: `prompt` or `messages`.
#[derive(Deserialize)]
struct Tokenize<'a> {
    model: Option<String>,
    prompt: Option<String>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    chat_template_kwargs: Option<&'a RawValue>,
    /// By default on for a prompt and off for messages, whose template has its own.
    add_special_tokens: Option<bool>,
    add_generation_prompt: Option<bool>,
    continue_final_message: Option<bool>,
    return_token_strs: Option<bool>,
}

/// A request of `/detokenize`.
#[derive(Deserialize)]
struct Detokenize {
    model: Option<String>,
    tokens: Vec<u32>,
}

/// An answer and, of `/tokenize`, its count.
type Answered = Result<(String, Option<u64>), Refusal>;

impl Server {
    /// Whether this is one of the two paths, and they are served.
    pub(crate) fn tokenizes(&self, path: &str) -> bool {
        self.config.tokenize_endpoint && matches!(path, "/tokenize" | "/detokenize")
    }

    /// Answers one of the two.
    pub(crate) async fn tokenize(
        &self,
        method: &Method,
        path: &str,
        body: Bytes,
        entry: Option<Entry>,
        control: Rc<WireControl>,
    ) -> Response<SimBody> {
        if method != Method::POST {
            return refuse(&Refusal::new(405, "MethodNotAllowedError", "use POST here"), None, control);
        }
        let counter = Arc::clone(&self.counter);
        let models = Arc::clone(&self.config.models);
        let most = self.config.max_model_len;
        let back = path == "/detokenize";
        let work = {
            let body = body.clone();
            move || {
                if back {
                    detokenize(&counter, &models, &body)
                } else {
                    tokenize(&counter, &models, most, &body)
                }
            }
        };
        let answered = if body.len() <= COUNT_HERE {
            work()
        } else {
            tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
                Err(Refusal::new(500, "InternalServerError", "the tokenizer failed on this request"))
            })
        };
        match answered {
            Ok((text, count)) => {
                if let (Some(mut entry), Some(count)) = (entry, count) {
                    entry.counted(count);
                }
                let mut response = Response::new(full(Bytes::from(text), None, control));
                response
                    .headers_mut()
                    .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                response
            }
            Err(refusal) => refuse(&refusal, None, control),
        }
    }
}

fn tokenize<'a>(counter: &Counter, models: &[String], max_model_len: u64, body: &'a [u8]) -> Answered {
    let ask: Tokenize<'a> = parse(body)?;
    known_model(models, ask.model.as_deref())?;
    for (asked, field) in
        [(ask.return_token_strs, "return_token_strs"), (ask.continue_final_message, "continue_final_message")]
    {
        if asked == Some(true) {
            return Err(Refusal::bad(format!("{field} is not served here")));
        }
    }
    let mut tokens = Vec::new();
    match (&ask.prompt, ask.messages) {
        (Some(prompt), None) => {
            counter.encode(prompt, ask.add_special_tokens.unwrap_or(true), &mut tokens);
        }
        (None, Some(messages)) => {
            let text = |raw: Option<&'a RawValue>| raw.map(RawValue::get).filter(|t| *t != "null");
            let messages = dialogue::messages(Api::Chat, messages.get(), None)?;
            let tools = dialogue::tools(Api::Chat, text(ask.tools))?;
            let kwargs = text(ask.chat_template_kwargs).map(dialogue::parse).transpose()?;
            let texts = counter.render(&Given {
                messages: &messages,
                tools: tools.as_ref(),
                documents: None,
                kwargs: kwargs.as_ref(),
                generation: ask.add_generation_prompt.unwrap_or(true),
            })?;
            for text in texts {
                counter.encode(&text, ask.add_special_tokens.unwrap_or(false), &mut tokens);
            }
        }
        _ => return Err(Refusal::bad("either 'prompt' or 'messages' must be given")),
    }
    let count = tokens.len() as u64;
    let answer =
        json!({"count": count, "max_model_len": max_model_len, "tokens": tokens, "token_strs": null});
    Ok((answer.to_string(), Some(count)))
}

fn detokenize(counter: &Counter, models: &[String], body: &[u8]) -> Answered {
    let ask: Detokenize = parse(body)?;
    known_model(models, ask.model.as_deref())?;
    Ok((json!({"prompt": counter.decode(&ask.tokens)}).to_string(), None))
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|e| Refusal::wrong(&e))
}
