//! What the user set, each with the place where it was written, and the merge of the layers.

use std::collections::BTreeMap;

use aiperf_core::plan::LengthPlan;
use serde_json::{Map, Value as Json};

use crate::lengths::{Pairs, Ratio};
use crate::options::Id;
use crate::place::Place;
use crate::row::{Default, row_of};
use crate::value::{Value, from_text};

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sourced {
    pub value: Value,
    pub place: Place,
}

/// Two forms of the same thing each.
const ALTERNATIVES: [(&[Id], &[Id]); 4] = [
    (&[Id::Isl, Id::IslStddev], &[Id::IslShape]),
    (&[Id::Osl, Id::OslStddev], &[Id::OslShape]),
    (&[Id::Turns, Id::TurnsStddev], &[Id::TurnsShape]),
    (&[Id::SystemPrompt], &[Id::SystemPromptFile]),
];

/// What the user set.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Settings(BTreeMap<Id, Sourced>);

impl Settings {
    pub(crate) fn get(&self, id: Id) -> Option<&Sourced> {
        self.0.get(&id)
    }

    /// Sets `id`, or adds to it where its kind collects values; the place of the first stays.
    pub(crate) fn add(&mut self, id: Id, value: Value, place: Place) {
        match self.0.get_mut(&id) {
            Some(old) => join(&mut old.value, value),
            None => {
                self.0.insert(id, Sourced { value, place });
            }
        }
    }

    /// Whether the input is a public data set that is looked for, not a file of the user's: its place is the one of the set's name.
    pub(crate) fn has_found_set(&self) -> bool {
        self.has(Id::PublicDataset) && self.place(Id::InputFile) == self.place(Id::PublicDataset)
    }

    /// Says what `id` says in other words.
    pub(crate) fn reword(&mut self, id: Id, value: Value) {
        if let Some(old) = self.0.get_mut(&id) {
            old.value = value;
        }
    }

    /// Adds the settings of a lower layer: they count where this one has none. Maps merge key by key. What this layer says in
    /// one form hides what the lower one says of the same thing in another.
    pub(crate) fn merge(&mut self, mut lower: Self) {
        for (one, other) in ALTERNATIVES {
            for (mine, theirs) in [(one, other), (other, one)] {
                if mine.iter().any(|id| self.has(*id)) {
                    lower.0.retain(|id, _| !theirs.contains(id));
                }
            }
        }
        // Weights belong to the servers and models that they were written for.
        for (named, weights) in [(Id::Url, Id::UrlWeights), (Id::Model, Id::ModelWeights)] {
            if self.has(named) {
                lower.0.remove(&weights);
            }
        }
        for (id, low) in lower.0 {
            match self.0.get_mut(&id) {
                None => {
                    self.0.insert(id, low);
                }
                Some(high) => {
                    let mut value = low.value;
                    if matches!(value, Value::Headers(_) | Value::Extra(_) | Value::Objectives(_)) {
                        join(&mut value, high.value.clone());
                        high.value = value;
                    }
                }
            }
        }
    }

    /// What is set.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> {
        self.0.keys().copied()
    }

    pub(crate) fn place(&self, id: Id) -> Option<&Place> {
        self.get(id).map(|s| &s.place)
    }

    pub(crate) fn has(&self, id: Id) -> bool {
        self.0.contains_key(&id)
    }

    pub(crate) fn int(&self, id: Id) -> Option<u64> {
        match self.get(id)?.value {
            Value::Int(n) => Some(n),
            _ => None,
        }
    }

    pub(crate) fn float(&self, id: Id) -> Option<f64> {
        match self.get(id)?.value {
            Value::Float(x) => Some(x),
            _ => None,
        }
    }

    pub(crate) fn text(&self, id: Id) -> Option<&str> {
        match &self.get(id)?.value {
            Value::Text(t) => Some(t),
            _ => None,
        }
    }

    pub(crate) fn list(&self, id: Id) -> Option<&[String]> {
        match &self.get(id)?.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn lengths(&self, id: Id) -> Option<&LengthPlan> {
        match &self.get(id)?.value {
            Value::Lengths(plan) => Some(plan),
            _ => None,
        }
    }

    pub(crate) fn pairs(&self, id: Id) -> Option<&Pairs> {
        match &self.get(id)?.value {
            Value::Pairs(pairs) => Some(pairs),
            _ => None,
        }
    }

    pub(crate) fn ratio(&self, id: Id) -> Option<Ratio> {
        match self.get(id)?.value {
            Value::Ratio(ratio) => Some(ratio),
            _ => None,
        }
    }

    pub(crate) fn weights(&self, id: Id) -> Option<&[f64]> {
        match &self.get(id)?.value {
            Value::Weights(weights) => Some(weights),
            _ => None,
        }
    }

    pub(crate) fn headers(&self) -> &[(String, String)] {
        match self.get(Id::Header).map(|s| &s.value) {
            Some(Value::Headers(headers)) => headers,
            _ => &[],
        }
    }

    /// Metrics with their bounds, in the order given.
    pub(crate) fn objectives(&self, id: Id) -> &[(String, f64)] {
        match self.get(id).map(|s| &s.value) {
            Some(Value::Objectives(pairs)) => pairs,
            _ => &[],
        }
    }

    pub(crate) fn extra(&self) -> Map<String, Json> {
        match self.get(Id::ExtraInputs).map(|s| &s.value) {
            Some(Value::Extra(map)) => map.clone(),
            _ => Map::new(),
        }
    }

    /// A [`crate::row::Kind::Bool`] option, if it is given.
    pub(crate) fn switch(&self, id: Id) -> Option<bool> {
        match self.get(id)?.value {
            Value::Bool(on) => Some(on),
            _ => None,
        }
    }

    /// Whether a [`crate::row::Kind::Bool`] option is on.
    pub(crate) fn is_on(&self, id: Id) -> bool {
        matches!(self.get(id).map(|s| &s.value), Some(Value::Bool(true)))
    }

    /// Whether a [`crate::row::Kind::Bool`] option is given as off, and is off without being given.
    pub(crate) fn is_left_off(&self, id: Id) -> bool {
        matches!(row_of(id).default, Default::Is("false")) && self.switch(id) == Some(false)
    }

    /// The value, else the default of the table.
    fn or_default(&self, id: Id) -> Value {
        self.get(id).map_or_else(|| default_of(id), |s| s.value.clone())
    }

    pub(crate) fn int_or_default(&self, id: Id) -> u64 {
        match self.or_default(id) {
            Value::Int(n) => n,
            other => unreachable!("{id:?} is no whole number: {other:?}"),
        }
    }

    pub(crate) fn float_or_default(&self, id: Id) -> f64 {
        match self.or_default(id) {
            Value::Float(x) => x,
            other => unreachable!("{id:?} is no number: {other:?}"),
        }
    }

    pub(crate) fn text_or_default(&self, id: Id) -> String {
        match self.or_default(id) {
            Value::Text(t) => t,
            other => unreachable!("{id:?} is no text: {other:?}"),
        }
    }
}

/// The default of the table, of an option that has one.
fn default_of(id: Id) -> Value {
    let row = row_of(id);
    let Default::Is(text) = row.default else { unreachable!("{id:?} has no default in the table") };
    from_text(row, text).expect("a test reads every default of the table")
}

/// `new` on top of `old`.
fn join(old: &mut Value, new: Value) {
    match (old, new) {
        (Value::List(old), Value::List(new)) => old.extend(new),
        (Value::Headers(old), Value::Headers(new)) => {
            for (name, value) in new {
                match old.iter_mut().find(|(n, _)| n.eq_ignore_ascii_case(&name)) {
                    Some(slot) => *slot = (name, value),
                    None => old.push((name, value)),
                }
            }
        }
        (Value::Extra(old), Value::Extra(new)) => merge_json(old, new),
        (Value::Objectives(old), Value::Objectives(new)) => {
            for (tag, bound) in new {
                match old.iter_mut().find(|(t, _)| *t == tag) {
                    Some(slot) => slot.1 = bound,
                    None => old.push((tag, bound)),
                }
            }
        }
        (old, new) => *old = new,
    }
}

fn merge_json(old: &mut Map<String, Json>, new: Map<String, Json>) {
    for (key, value) in new {
        match (old.get_mut(&key), value) {
            (Some(Json::Object(old)), Json::Object(new)) => merge_json(old, new),
            (Some(slot), value) => *slot = value,
            (None, value) => {
                old.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn extra(json: Json) -> Value {
        match json {
            Json::Object(map) => Value::Extra(map),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_higher_layer_wins_and_maps_merge_deeply() {
        let flag = || Place::Flag("--x".into());
        let env = || Place::Env("X".into());
        let mut high = Settings::default();
        high.add(Id::Concurrency, Value::Int(4), flag());
        high.add(Id::ExtraInputs, extra(json!({"a": {"b": 1}, "l": [1]})), flag());
        high.add(Id::Header, Value::Headers(vec![("x-a".into(), "new".into())]), flag());
        let mut low = Settings::default();
        low.add(Id::Concurrency, Value::Int(9), env());
        low.add(Id::ExtraInputs, extra(json!({"a": {"b": 0, "c": 2}, "l": [2, 3], "z": 1})), env());
        low.add(
            Id::Header,
            Value::Headers(vec![("X-A".into(), "old".into()), ("Y".into(), "y".into())]),
            env(),
        );
        low.add(Id::Isl, Value::Int(5), env());
        high.merge(low);
        assert_eq!(high.int(Id::Concurrency), Some(4));
        assert_eq!(high.place(Id::Concurrency), Some(&flag()));
        assert_eq!(high.int(Id::Isl), Some(5));
        assert_eq!(high.place(Id::Isl), Some(&env()));
        assert_eq!(Json::Object(high.extra()), json!({"a": {"b": 1, "c": 2}, "l": [1], "z": 1}));
        assert_eq!(high.headers(), [("x-a".into(), "new".into()), ("Y".into(), "y".into())]);
    }
}
