//! The forms in which AIPerf takes models, servers, data sets and artifact levels, folded into the keys of the table.

use super::lift::{Lifter, below};
use super::{Data, Node};
use crate::aiperf;
use crate::error::ConfigError;
use crate::options::Id;
use crate::row::{Kind, Row, row_of};
use crate::value::{Value, from_node, weight};

impl<'a> Lifter<'a> {
    /// A text, a list of texts, or `{strategy, items: [{name, weight}]}`.
    pub(super) fn models(&mut self, node: &'a Node, path: &str) {
        let Data::Map(_) = &node.data else {
            self.read(row_of(Id::Model), node, path);
            return;
        };
        for (key, entry) in self.entries(node, path) {
            let path = below(path, &key);
            match key.as_str() {
                "strategy" => self.read(row_of(Id::ModelSelection), &entry.node, &path),
                "weights" => self.read(row_of(Id::ModelWeights), &entry.node, &path),
                "items" => {
                    let Data::List(items) = &entry.node.data else {
                        self.wrong_type(&entry.node, &path, "a list of mappings with a name");
                        continue;
                    };
                    let weights: Vec<Option<f64>> = items
                        .iter()
                        .enumerate()
                        .map(|(i, item)| self.model(item, &format!("{path}[{i}]")))
                        .collect();
                    self.model_weights(&entry.node, &path, items, &weights);
                }
                _ => self.stranger(&key, entry, "benchmark.models", &["strategy", "items", "weights"]),
            }
        }
    }

    /// Its weight, where one is said.
    fn model(&mut self, node: &'a Node, path: &str) -> Option<f64> {
        let mut share = None;
        for (key, entry) in self.entries(node, path) {
            let at = below(path, &key);
            match key.as_str() {
                "name" => self.read(row_of(Id::Model), &entry.node, &at),
                "weight" if entry.node.is_null() => {}
                "weight" => {
                    share = match &entry.node.data {
                        Data::Scalar(s) => weight(&s.raw),
                        Data::List(_) | Data::Map(_) => None,
                    };
                    if share.is_none() {
                        self.wrong_type(
                            &entry.node,
                            &at,
                            "a number above 0; leave out a model that gets no requests",
                        );
                    }
                }
                _ => self.stranger(&key, entry, "benchmark.models.items", &["name", "weight"]),
            }
        }
        share
    }

    /// Each model has a weight, or none has.
    fn model_weights(&mut self, list: &Node, path: &str, items: &[Node], weights: &[Option<f64>]) {
        let given: Vec<f64> = weights.iter().copied().flatten().collect();
        if given.is_empty() || !self.errors.is_empty() {
            return;
        }
        if let Some(without) = weights.iter().position(Option::is_none) {
            return self.wrong_type(
                &items[without],
                &format!("{path}[{without}]"),
                "a weight, as other models have one",
            );
        }
        let place = self.place(list, path);
        match self.out.settings.place(Id::ModelWeights).cloned() {
            Some(first) => self.errors.push(ConfigError::Conflict {
                first,
                second: place,
                why: "they say the same thing; keep one",
            }),
            None => self.out.settings.add(Id::ModelWeights, Value::Weights(given), place),
        }
    }

    pub(super) fn endpoint(&mut self, node: &'a Node) {
        for (key, entry) in self.entries(node, "benchmark.endpoint") {
            match &entry.node.data {
                Data::List(items)
                    if matches!(key.as_str(), "url" | "urls")
                        && items.iter().any(|item| matches!(item.data, Data::Map(_))) =>
                {
                    self.servers(&entry.node, items, &below("benchmark.endpoint", &key));
                }
                Data::Map(_) if matches!(key.as_str(), "reset_kv_cache" | "server_profiler") => {
                    self.hook(&key, &entry.node);
                }
                _ => self.key(&key, entry, "benchmark.endpoint"),
            }
        }
    }

    /// A mapping asks for it, even an empty one.
    fn hook(&mut self, key: &str, node: &'a Node) {
        let path = below("benchmark.endpoint", key);
        let id = if key == "reset_kv_cache" { Id::ResetKvCache } else { Id::ServerProfiler };
        let place = self.place(node, &path);
        self.out.settings.add(id, Value::Bool(true), place);
        for (name, entry) in self.entries(node, &path) {
            self.key(&name, entry, &path);
        }
    }

    /// Servers with weights: a list of `{url, weight}`; one that is a plain text weighs 1.
    fn servers(&mut self, list: &Node, items: &'a [Node], path: &str) {
        let (mut urls, mut weights) = (Vec::new(), Vec::new());
        for (i, item) in items.iter().enumerate() {
            let path = format!("{path}[{i}]");
            let (mut url, mut share) = (None, 1.0);
            if let Data::Map(_) = item.data {
                for (key, entry) in self.entries(item, &path) {
                    let at = below(&path, &key);
                    let text = match &entry.node.data {
                        Data::Scalar(s) if !s.is_null() => Some(s.raw.trim()),
                        _ => None,
                    };
                    match key.as_str() {
                        "url" => match text.filter(|t| !t.is_empty()) {
                            Some(text) => url = Some(text.to_owned()),
                            None => return self.wrong_type(&entry.node, &at, "a URL"),
                        },
                        "weight" => match text.and_then(weight) {
                            Some(given) => share = given,
                            None => return self.wrong_type(&entry.node, &at, "a number above 0"),
                        },
                        _ => {
                            self.stranger(&key, entry, "benchmark.endpoint.urls", &["url", "weight"]);
                            return;
                        }
                    }
                }
            } else if let Data::Scalar(s) = &item.data {
                url = Some(s.raw.trim().to_owned()).filter(|text| !s.is_null() && !text.is_empty());
            }
            let Some(url) = url else {
                return self.wrong_type(item, &path, "a URL, or a mapping with url and weight");
            };
            urls.push(url);
            weights.push(share);
        }
        let place = self.place(list, path);
        for (id, value) in [(Id::Url, Value::List(urls)), (Id::UrlWeights, Value::Weights(weights))] {
            match self.out.settings.place(id).cloned() {
                Some(first) => self.errors.push(ConfigError::Conflict {
                    first,
                    second: place.clone(),
                    why: "they say the same thing; keep one",
                }),
                None => self.out.settings.add(id, value, place.clone()),
            }
        }
    }

    pub(super) fn dataset(&mut self, node: &'a Node, path: &str) {
        for (key, entry) in self.entries(node, path) {
            let below_path = below(path, &key);
            match key.as_str() {
                "name" => self.text(&entry.node, &below_path),
                "type" => {
                    let words = Kind::Choice { words: &["synthetic", "file", "public"], later: &[] };
                    let row = Row { kind: words, sweepable: false, ..*row_of(Id::InputFile) };
                    let place = self.place(&entry.node, &below_path);
                    match from_node(&row, &entry.node) {
                        Ok(Value::Text(t)) if t == "file" => {
                            self.out.structure.dataset_type = Some(("file", place));
                        }
                        Ok(Value::Text(t)) if t == "public" => {
                            self.out.structure.dataset_type = Some(("public", place));
                        }
                        Ok(_) => self.out.structure.dataset_type = Some(("synthetic", place)),
                        Err(trouble) => self.errors.push(trouble.at(place)),
                    }
                }
                _ => self.key(&key, entry, "benchmark.dataset"),
            }
        }
    }

    /// AIPerf says with `records` and `raw` what `level` says in one word.
    pub(super) fn artifacts(&mut self, node: &'a Node) {
        let on = |node: &Node, words: &[&str]| match &node.data {
            Data::Scalar(s) => s.as_bool(),
            Data::List(items) => items
                .iter()
                .all(|item| words.iter().any(|word| is_word(item, word)))
                .then_some(!items.is_empty()),
            Data::Map(_) => None,
        };
        let (mut records, mut raw) = (None, None);
        for (key, entry) in self.entries(node, "benchmark.artifacts") {
            let path = below("benchmark.artifacts", &key);
            match key.as_str() {
                _ if entry.node.is_null() => {}
                "records" => match on(&entry.node, &["jsonl", "parquet"]) {
                    Some(yes) => {
                        records = Some((yes, &entry.node));
                        self.records_as_columns(&entry.node, &path);
                    }
                    None => self.wrong_type(&entry.node, &path, "[jsonl], [jsonl, parquet], true or false"),
                },
                "raw" => match on(&entry.node, &["jsonl"]) {
                    Some(yes) => raw = Some((yes, &entry.node)),
                    None => self.wrong_type(&entry.node, &path, "true or false"),
                },
                "summary" => match on(&entry.node, &["json"]) {
                    Some(true) => {}
                    Some(false) => {
                        let place = self.place(&entry.node, &path);
                        self.not_yet(place, "asks for a run without summary JSON, which");
                    }
                    None => self.wrong_type(&entry.node, &path, "[json]"),
                },
                _ => self.key(&key, entry, "benchmark.artifacts"),
            }
        }
        let level = match (records, raw) {
            (Some((false, node)), Some((true, _))) => {
                let place = self.place(node, "benchmark.artifacts.records");
                self.not_yet(place, "asks for raw records without records, which");
                return;
            }
            (_, Some((true, node))) => Some(("raw", node, "raw")),
            (Some((true, node)), _) => Some(("records", node, "records")),
            (Some((false, node)), _) => Some(("summary", node, "records")),
            (None, _) => None,
        };
        if let Some((level, node, key)) = level {
            let place = self.place(node, &below("benchmark.artifacts", key));
            if let Some(first) = self.out.settings.place(Id::ExportLevel) {
                self.errors.push(ConfigError::Conflict {
                    first: first.clone(),
                    second: place,
                    why: "they say the same thing; keep one",
                });
            } else {
                self.out.settings.add(Id::ExportLevel, Value::Text(level.to_owned()), place);
            }
        }
    }

    /// What `parquet` in the list of formats asks for.
    fn records_as_columns(&mut self, node: &Node, path: &str) {
        let Data::List(items) = &node.data else { return };
        if !items.iter().any(|item| is_word(item, "parquet")) {
            return;
        }
        let place = self.place(node, path);
        match self.out.settings.place(Id::ExportParquet).cloned() {
            Some(first) => self.errors.push(ConfigError::Conflict {
                first,
                second: place,
                why: "they say the same thing; keep one",
            }),
            None => self.out.settings.add(Id::ExportParquet, Value::Bool(true), place),
        }
    }

    /// A section that may only say that it is off.
    pub(super) fn switched_off(&mut self, node: &'a Node, path: &str) {
        match &node.data {
            Data::Scalar(s) if s.as_bool() == Some(false) => return,
            Data::Map(entries) if entries.is_empty() => return,
            Data::Map(_) => {
                let entries = self.entries(node, path);
                let off = entries.iter().any(|(k, e)| {
                    k == "enabled" && matches!(&e.node.data, Data::Scalar(s) if s.as_bool() == Some(false))
                });
                for (key, entry) in &entries {
                    if !aiperf::has_key(&below(path, key)) {
                        self.stranger(key, entry, path, &["enabled"]);
                    }
                }
                if off {
                    return;
                }
            }
            _ => {}
        }
        let place = self.place(node, path);
        self.not_yet(place, "asks for an AIPerf feature that (unless it says 'enabled: false')");
    }
}

/// Whether a node is this word, in any case.
fn is_word(node: &Node, word: &str) -> bool {
    matches!(&node.data, Data::Scalar(s) if s.raw.eq_ignore_ascii_case(word))
}
