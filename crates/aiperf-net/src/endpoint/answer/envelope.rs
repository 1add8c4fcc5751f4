//! Objects of chat and completions: read as JSON, or recognized by what is familiar.

use serde_json::Value;
use serde_json::value::RawValue;

use super::places::{Only, Spot, inside_quotes, within};
use super::{Found, Reader};
use crate::endpoint::chunk::Envelope;
use crate::endpoint::familiar::{Holes, Meaning, Met};
use crate::endpoint::{chat, completions, error, spec_decode};
use crate::usage::read_raw_usage;
use aiperf_core::plan::EndpointKind;

impl Reader<'_> {
    /// Takes up what data says that is like data read before; `None` when it is like no other.
    pub(super) fn meet(&mut self, data: &[u8], at_ns: u64) -> Option<Found> {
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
        let spot = Spot { channel, choice, call: 0 };
        self.grow(spot, text);
        self.chunk_with(*usage, at_ns);
        let place = within(data, text.as_bytes()).filter(|_| finish_reason.is_none() && usage.is_none())?;
        Some(Only { spot, place })
    }

    /// Takes up what an object of chat or completions said. One that `is_own` is read from `json` itself, and is known from then on.
    pub(super) fn envelope(&mut self, json: &str, envelope: Envelope<'_>, is_own: bool, at_ns: u64) -> Found {
        self.objects += 1;
        let model = Some(&*envelope.model.0).filter(|model| !model.is_empty());
        if let Some(model) = model.filter(|_| self.answer.served_model.is_none()) {
            self.answer.served_model = Some(model.to_owned());
        }
        let value = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
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
                    hole = only.as_ref().map(|only| (only.place.clone(), only.spot.channel));
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
}
