//! The forms in which AIPerf takes models, data sets, phases and artifact levels, folded into the keys of the table.

use aiperf_core::plan::PhaseKind;
use aiperf_core::text::nearest;

use super::lift::{Lifter, PHASE_EXTRAS, below};
use super::{Data, Node};
use crate::aiperf;
use crate::error::ConfigError;
use crate::options::Id;
use crate::row::{Kind, Row, row_of};
use crate::value::{Value, from_node};

impl<'a> Lifter<'a> {
    /// A text, a list of texts, or `{strategy, items: [{name}]}`.
    pub(super) fn models(&mut self, node: &'a Node, path: &str) {
        let Data::Map(_) = &node.data else {
            self.read(row_of(Id::Model), node, path);
            return;
        };
        for (key, entry) in self.entries(node, path) {
            let path = below(path, &key);
            match key.as_str() {
                "strategy" => self.read(row_of(Id::ModelSelection), &entry.node, &path),
                "items" => {
                    let Data::List(items) = &entry.node.data else {
                        self.wrong_type(&entry.node, &path, "a list of mappings with a name");
                        continue;
                    };
                    for (i, item) in items.iter().enumerate() {
                        self.model(item, &format!("{path}[{i}]"));
                    }
                }
                _ => self.stranger(&key, entry, "benchmark.models", &["strategy", "items"]),
            }
        }
    }

    fn model(&mut self, node: &'a Node, path: &str) {
        for (key, entry) in self.entries(node, path) {
            match key.as_str() {
                "name" => self.read(row_of(Id::Model), &entry.node, &below(path, "name")),
                _ => self.stranger(&key, entry, "benchmark.models.items", &["name"]),
            }
        }
    }

    pub(super) fn dataset(&mut self, node: &'a Node, path: &str) {
        for (key, entry) in self.entries(node, path) {
            let below_path = below(path, &key);
            match key.as_str() {
                "name" => self.text(&entry.node, &below_path),
                "type" => {
                    let words = Kind::Choice { words: &["synthetic", "file"], later: &["public"] };
                    let row = Row { kind: words, sweepable: false, ..*row_of(Id::InputFile) };
                    let place = self.place(&entry.node, &below_path);
                    match from_node(&row, &entry.node) {
                        Ok(Value::Text(t)) if t == "file" => {
                            self.out.structure.dataset_type = Some(("file", place));
                        }
                        Ok(_) => self.out.structure.dataset_type = Some(("synthetic", place)),
                        Err(trouble) => self.errors.push(trouble.at(place)),
                    }
                }
                _ => self.key(&key, entry, "benchmark.dataset"),
            }
        }
    }

    pub(super) fn phases(&mut self, node: &'a Node, path: &str) {
        match &node.data {
            Data::Map(_) => self.phase(node, path, Some(PhaseKind::Profiling)),
            Data::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    self.phase(item, &format!("{path}[{i}]"), None);
                }
            }
            Data::Scalar(_) => self.wrong_type(node, path, "a list of phases"),
        }
    }

    pub(super) fn phase(&mut self, node: &'a Node, path: &str, known: Option<PhaseKind>) {
        let entries = self.entries(node, path);
        let raw = |name: &str| {
            entries.iter().find(|(k, _)| k == name).and_then(|(_, e)| match &e.node.data {
                Data::Scalar(s) if !s.is_null() => Some((s.raw.clone(), &e.node)),
                _ => None,
            })
        };
        let of_word = |word: &str| match word {
            "warmup" => Some(PhaseKind::Warmup),
            "profiling" => Some(PhaseKind::Profiling),
            _ => None,
        };
        let named = raw("name");
        let by_name = named.as_ref().and_then(|(name, _)| of_word(name));
        let said = raw("kind");
        let by_kind = said.as_ref().and_then(|(kind, _)| of_word(&kind.to_lowercase()));
        if let (Some((found, at)), None) = (&said, by_kind) {
            let place = self.place(at, &below(path, "kind"));
            self.errors.push(ConfigError::BadValue {
                place,
                found: format!("'{found}'"),
                allowed: "warmup, profiling".to_owned(),
                nearest: nearest(found, ["warmup", "profiling"]).map(str::to_owned),
            });
            return;
        }
        let Some(kind) = known.or(by_kind).or(by_name) else {
            let place = self.place(node, path);
            self.errors.push(ConfigError::Needs {
                place,
                needs: "a kind",
                why: "a phase that is not named warmup or profiling says 'kind: warmup' or 'kind: profiling'",
            });
            return;
        };
        if [by_name, by_kind].into_iter().flatten().any(|k| k != kind) {
            let place = self.place(node, path);
            self.errors.push(ConfigError::BadValue {
                place,
                found: "a phase whose name and kind differ".to_owned(),
                allowed: "the names warmup and profiling for phases of that kind".to_owned(),
                nearest: None,
            });
            return;
        }
        let name = match named {
            Some((name, at)) => {
                if !is_phase_name(&name) {
                    let place = self.place(at, &below(path, "name"));
                    self.errors.push(ConfigError::BadValue {
                        place,
                        found: format!("'{name}'"),
                        allowed: "a letter or _, then letters, digits, _ and -; no device name of Windows"
                            .to_owned(),
                        nearest: None,
                    });
                }
                name
            }
            None => kind.name().to_owned(),
        };
        if !self.open_phase(node, path, kind, name) {
            return;
        }
        for (key, entry) in entries {
            if !PHASE_EXTRAS.contains(&key.as_str()) {
                self.key(&key, entry, &format!("benchmark.phases.{}", kind.name()));
            } else if key == "exclude_from_results" && !entry.node.is_null() {
                let excluded = matches!(&entry.node.data, Data::Scalar(s) if s.as_bool() == Some(true));
                let included = matches!(&entry.node.data, Data::Scalar(s) if s.as_bool() == Some(false));
                // AIPerf writes false for a profiling phase and true for a warmup; a plain false is its default.
                if !(excluded || included) || (excluded && kind == PhaseKind::Profiling) {
                    let place = self.place(&entry.node, &below(path, &key));
                    self.errors.push(ConfigError::BadValue {
                        place,
                        found: format!("'{}'", entry.node.brief()),
                        allowed: "true for a warmup, false for a profiling phase".to_owned(),
                        nearest: None,
                    });
                }
            }
        }
    }

    /// Notes the phase; `false` when there already is one of its kind or it stands in the wrong order.
    fn open_phase(&mut self, node: &Node, path: &str, kind: PhaseKind, name: String) -> bool {
        let place = self.place(node, path);
        let structure = &mut self.out.structure;
        let slot = match kind {
            PhaseKind::Warmup => &mut structure.warmup_name,
            PhaseKind::Profiling => &mut structure.profiling_name,
        };
        if slot.is_some() {
            self.not_yet(
                place,
                format!("is a second {} phase; several phases of a kind come later, which", kind.name()),
            );
            return false;
        }
        *slot = Some(name);
        if kind == PhaseKind::Warmup {
            if structure.profiling_name.is_some() && !path.ends_with("warmup") {
                self.not_yet(place, "is a warmup after the profiling phase, an order which");
                return false;
            }
            structure.warmup = Some(place);
            structure.warmup_is_typed =
                matches!(&node.data, Data::Map(entries) if entries.iter().any(|e| e.key == "type"));
        }
        true
    }

    /// AIPerf says with `records` and `raw` what `level` says in one word.
    pub(super) fn artifacts(&mut self, node: &'a Node) {
        let on = |node: &Node, word: &str| match &node.data {
            Data::Scalar(s) => s.as_bool(),
            Data::List(items) => items
                .iter()
                .all(|i| matches!(&i.data, Data::Scalar(s) if s.raw.eq_ignore_ascii_case(word)))
                .then_some(!items.is_empty()),
            Data::Map(_) => None,
        };
        let (mut records, mut raw) = (None, None);
        for (key, entry) in self.entries(node, "benchmark.artifacts") {
            let path = below("benchmark.artifacts", &key);
            match key.as_str() {
                _ if entry.node.is_null() => {}
                "records" => match on(&entry.node, "jsonl") {
                    Some(yes) => records = Some((yes, &entry.node)),
                    None => self.wrong_type(&entry.node, &path, "[jsonl], true or false"),
                },
                "raw" => match on(&entry.node, "jsonl") {
                    Some(yes) => raw = Some((yes, &entry.node)),
                    None => self.wrong_type(&entry.node, &path, "true or false"),
                },
                "summary" => match on(&entry.node, "json") {
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

fn is_phase_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_device = matches!(upper.as_str(), "CON" | "PRN" | "AUX" | "NUL")
        || (upper.len() == 4
            && (upper.starts_with("COM") || upper.starts_with("LPT"))
            && upper.ends_with(|c: char| ('1'..='9').contains(&c)));
    !is_device
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}
