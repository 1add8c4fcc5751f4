//! Failures of answers that came whole as far as the wire shows: without content, or without an end.

use std::borrow::Cow;

use aiperf_core::exchange::Exchange;
use aiperf_core::outcome::Failure;
use aiperf_core::plan::EndpointKind;
use aiperf_core::text::for_terminal;
use serde_json::{Map, Value};

use super::{Reader, text_of};
use crate::endpoint::error;

impl Reader<'_> {
    /// The failure of a stream that ended on the wire as it should and does not say that the answer is over: neither a finish reason
    /// nor an end mark came, nor counts behind the last choice.
    pub(super) fn unfinished(&self, exchange: &Exchange) -> Option<Failure> {
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
    pub(super) fn emptiness(&self, exchange: &Exchange) -> Option<Failure> {
        if !self.answer.chunks.is_empty() {
            return None;
        }
        if let Some(failure) = error::compressed(&exchange.body, self.objects > 0) {
            return Some(failure);
        }
        if let Some(excerpt) = &self.first_malformed {
            let kind = exchange.content_type.as_deref();
            let is_object = !self.streamed
                && serde_json::from_str::<Map<String, Value>>(&text_of(&exchange.body)).is_ok();
            return Some(error::malformed(kind, self.streamed, is_object, excerpt));
        }
        if self.no_results.is_some() {
            return self.no_results.clone();
        }
        let what: Cow<'_, str> = if exchange.body.is_empty() {
            "the answer has no body".into()
        } else if self.objects == 0 {
            let body = exchange.body.trim_ascii_start();
            match body.first() {
                Some(b'{' | b'[' | b'<') => {
                    let begins = for_terminal(&String::from_utf8_lossy(&body[..body.len().min(400)]), 60);
                    format!("the answer is called a stream and has no events; it begins: {begins}").into()
                }
                _ => "the stream has no event with data".into(),
            }
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
        } else if let Some(rule) = self.rule.as_ref().and_then(|rule| rule.sole_expression()) {
            error::not_found(Some(rule), &String::from_utf8_lossy(&exchange.body)).into()
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
                    error::not_found(None, &body).into()
                }
                _ => "no chunk has text, reasoning or a tool call".into(),
            }
        };
        Some(error::empty(&what))
    }
}
