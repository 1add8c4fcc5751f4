//! From the keys of a file to settings. The forms AIPerf allows for the same thing (`model` and `models`, `dataset` and
//! `datasets`, `profiling`, `warmup` and `phases`, a number for a distribution) are folded here into the keys of the
//! table; whatever is left is looked up there, refused by its AIPerf name, or unknown.

use std::collections::HashMap;

use aiperf_core::plan::PhaseKind;
use aiperf_core::text::nearest;

use super::{Data, Entry, Node, Source};
use crate::aiperf;
use crate::error::ConfigError;
use crate::options::{Id, OPTIONS};
use crate::place::Place;
use crate::row::{Kind, Row, row_of};
use crate::settings::Settings;
use crate::value::{Value, from_node};

/// What a file says beside its settings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Structure {
    /// Name of the profiling phase, if the file names one.
    pub profiling_name: Option<String>,
    /// Name of the warmup phase, if the file has one.
    pub warmup_name: Option<String>,
    /// Where the file has a warmup phase.
    pub warmup: Option<Place>,
    /// Whether the file gives the warmup's type: it then stands for itself and takes nothing from the profiling phase.
    pub warmup_is_typed: bool,
    /// `synthetic` or `file`, where the file says which.
    pub dataset_type: Option<(&'static str, Place)>,
}

/// The settings of a file.
#[derive(Debug, Default)]
pub(crate) struct Lifted {
    pub settings: Settings,
    pub structure: Structure,
    pub notes: Vec<String>,
}

/// Keys of the envelope that are no options.
const ENVELOPE: &[&str] = &["schema_version", "benchmark", "variables"];
/// Keys of a phase that are no options.
const PHASE_EXTRAS: &[&str] = &["name", "kind", "exclude_from_results"];
/// Sections of what this version does not have; a file may say that they are off.
const SWITCHED_OFF: &[&str] = &["gpu_telemetry", "server_metrics", "network_latency"];
/// The body's keys that are folded together before the look-up.
const BODY_FORMS: &[&str] =
    &["model", "models", "dataset", "datasets", "phases", "profiling", "warmup", "endpoint", "artifacts"];

/// Reads the settings of a file, or says everything that is wrong with it.
pub(crate) fn lift(source: &Source) -> Result<Lifted, Vec<ConfigError>> {
    let mut lifter = Lifter { source, out: Lifted::default(), errors: Vec::new() };
    lifter.envelope();
    if lifter.errors.is_empty() { Ok(lifter.out) } else { Err(lifter.errors) }
}

/// `maxIslTokens` and `max-isl` as `max_isl_tokens` and `max-isl`: AIPerf reads snake_case and camelCase alike.
fn snake(key: &str) -> String {
    let mut out = String::with_capacity(key.len() + 4);
    let mut before = '_';
    for c in key.chars() {
        if c.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
        before = c;
    }
    out
}

struct Lifter<'a> {
    source: &'a Source,
    out: Lifted,
    errors: Vec<ConfigError>,
}

impl<'a> Lifter<'a> {
    fn place(&self, node: &Node, key: &str) -> Place {
        self.source.place(node.position, key)
    }

    fn wrong_type(&mut self, node: &Node, key: &str, expected: &str) {
        let place = self.place(node, key);
        self.errors.push(ConfigError::WrongType {
            place,
            found: node.describe(),
            expected: expected.to_owned(),
        });
    }

    fn not_yet(&mut self, place: Place, what: impl Into<String>) {
        self.errors.push(ConfigError::NotYet { place, what: what.into() });
    }

    /// The entries of a mapping under their snake_case names; a second spelling of a key is a duplicate.
    fn entries(&mut self, node: &'a Node, key: &str) -> Vec<(String, &'a Entry)> {
        let Data::Map(entries) = &node.data else {
            if !node.is_null() {
                self.wrong_type(node, key, "a mapping");
            }
            return Vec::new();
        };
        let mut seen: HashMap<String, &Entry> = HashMap::new();
        let mut out = Vec::new();
        for entry in entries {
            let name = snake(&entry.key);
            if let Some(first) = seen.get(&name) {
                self.errors.push(ConfigError::DuplicateKey {
                    place: self.source.place(entry.position, &below(key, &name)),
                    line: first.position.line,
                    column: first.position.column,
                });
                continue;
            }
            seen.insert(name.clone(), entry);
            out.push((name, entry));
        }
        out
    }

    fn envelope(&mut self) {
        let root = &self.source.root;
        let entries = self.entries(root, "");
        let has_body = entries.iter().any(|(k, _)| k == "benchmark");
        let mut flat = Vec::new();
        for (key, entry) in entries {
            match key.as_str() {
                "benchmark" => {
                    let body = self.entries(&entry.node, "benchmark");
                    self.body(body);
                }
                "schema_version" => match &entry.node.data {
                    Data::Scalar(s) if s.is_null() || s.raw == "2.0" => {}
                    _ => {
                        let place = self.place(&entry.node, &key);
                        let found = format!("'{}'", entry.node.brief());
                        self.errors.push(ConfigError::BadValue {
                            place,
                            found,
                            allowed: "\"2.0\"".to_owned(),
                            nearest: None,
                        });
                    }
                },
                "variables" => {
                    if !matches!(entry.node.data, Data::Map(_)) && !entry.node.is_null() {
                        self.wrong_type(&entry.node, &key, "a mapping");
                    }
                }
                _ if !has_body && is_body_key(&key) => flat.push((key, entry)),
                _ => self.key(&key, entry, ""),
            }
        }
        if !flat.is_empty() {
            self.out.notes.push(format!(
                "{}: its keys stand at the top; they are read as if they stood below 'benchmark:'",
                self.source.file
            ));
            self.body(flat);
        }
    }

    fn body(&mut self, entries: Vec<(String, &'a Entry)>) {
        let find = |name: &str| entries.iter().find(|(k, _)| k == name).map(|(_, e)| *e);
        for (one, other) in
            [("model", "models"), ("dataset", "datasets"), ("profiling", "phases"), ("warmup", "phases")]
        {
            if let (Some(a), Some(b)) = (find(one), find(other)) {
                self.errors.push(ConfigError::Conflict {
                    first: self.source.place(a.position, &below("benchmark", one)),
                    second: self.source.place(b.position, &below("benchmark", other)),
                    why: "they say the same thing; keep one",
                });
            }
        }
        for (key, entry) in entries {
            let node = &entry.node;
            let path = below("benchmark", &key);
            match key.as_str() {
                _ if node.is_null() => {}
                "model" | "models" => self.models(node, &path),
                "dataset" => self.dataset(node, &path),
                "datasets" => match &node.data {
                    Data::List(items) if items.len() == 1 => self.dataset(&items[0], "benchmark.datasets[0]"),
                    Data::List(items) if items.len() > 1 => {
                        let place = self.place(&items[1], "benchmark.datasets[1]");
                        self.not_yet(place, "is a second data set, which");
                    }
                    _ => self.wrong_type(node, &path, "a list of one mapping"),
                },
                "profiling" => self.phase(node, &path, Some(PhaseKind::Profiling)),
                "warmup" => self.phase(node, &path, Some(PhaseKind::Warmup)),
                "phases" => self.phases(node, &path),
                "artifacts" => self.artifacts(node),
                name if SWITCHED_OFF.contains(&name) => self.switched_off(node, &path),
                _ => self.key(&key, entry, "benchmark"),
            }
        }
    }

    /// A text, a list of texts, or `{strategy, items: [{name}]}`.
    fn models(&mut self, node: &'a Node, path: &str) {
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

    fn dataset(&mut self, node: &'a Node, path: &str) {
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

    fn phases(&mut self, node: &'a Node, path: &str) {
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

    fn phase(&mut self, node: &'a Node, path: &str, known: Option<PhaseKind>) {
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
    fn artifacts(&mut self, node: &'a Node) {
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
    fn switched_off(&mut self, node: &'a Node, path: &str) {
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

    /// Any other key: an option, a section, AIPerf's, or unknown. `parent` is the folded path.
    fn key(&mut self, key: &str, entry: &'a Entry, parent: &str) {
        let path = below(parent, key);
        let node = &entry.node;
        if let Some(row) = OPTIONS.iter().find(|r| r.keys().any(|k| k == path)) {
            if !node.is_null() {
                self.read(row, node, &path);
            }
            return;
        }
        let children = children_of(&path);
        if children.is_empty() {
            return self.stranger(key, entry, parent, &[]);
        }
        match &node.data {
            Data::Map(_) => {
                for (name, child) in self.entries(node, &path) {
                    match (name.as_str(), is_length(&path)) {
                        ("value", true) => self.key("mean", child, &path),
                        ("type", true) => self.length_type(&child.node, &below(&path, "type")),
                        _ => self.key(&name, child, &path),
                    }
                }
            }
            _ if node.is_null() => {}
            // A number for a distribution is its mean.
            Data::Scalar(_) | Data::List(_) if is_length(&path) => self.key("mean", entry, &path),
            _ => self.wrong_type(node, &path, "a mapping"),
        }
    }

    fn length_type(&mut self, node: &Node, path: &str) {
        match &node.data {
            Data::Scalar(s) if matches!(s.raw.as_str(), "normal" | "fixed") => {}
            _ => {
                let place = self.place(node, path);
                self.not_yet(place, format!("asks for a distribution '{}', which", node.brief()));
            }
        }
    }

    /// A key that is no option: AIPerf's own, which may say what is true anyway, or unknown.
    fn stranger(&mut self, key: &str, entry: &Entry, parent: &str, also: &[&str]) {
        let path = below(parent, key);
        let place = self.source.place(entry.position, &path);
        // AIPerf's keys are listed once for phases of every kind.
        let path = path.replacen("benchmark.phases.profiling.", "benchmark.phases.", 1).replacen(
            "benchmark.phases.warmup.",
            "benchmark.phases.",
            1,
        );
        if aiperf::has_key(&path) {
            let asked = entry.node.to_json();
            let asks_nothing = asked.is_null()
                || asked.as_object().is_some_and(serde_json::Map::is_empty)
                || asked.as_array().is_some_and(Vec::is_empty)
                || aiperf::default_of_key(&path) == Some(asked);
            if !asks_nothing {
                self.not_yet(place, "is an AIPerf key");
            }
            return;
        }
        let mut allowed = children_of(parent);
        allowed.extend(also.iter().map(|s| (*s).to_owned()));
        match parent {
            "" => allowed.extend(ENVELOPE.iter().map(|s| (*s).to_owned())),
            "benchmark" => allowed.extend(BODY_FORMS.iter().chain(SWITCHED_OFF).map(|s| (*s).to_owned())),
            "benchmark.dataset" => allowed.extend(["name", "type"].map(str::to_owned)),
            _ if parent.starts_with("benchmark.phases.") => {
                allowed.extend(PHASE_EXTRAS.iter().map(|s| (*s).to_owned()));
            }
            _ => {}
        }
        allowed.sort();
        allowed.dedup();
        let near = nearest(key, allowed.iter().map(String::as_str)).map(str::to_owned);
        self.errors.push(ConfigError::UnknownKey {
            place: self.source.place(entry.position, parent),
            key: entry.key.clone(),
            allowed: allowed.join(", "),
            nearest: near,
        });
    }

    fn read(&mut self, row: &Row, node: &Node, path: &str) {
        let place = self.place(node, path);
        match from_node(row, node) {
            // Off switches only exist to be refused when they ask for more.
            Ok(Value::Bool(_)) if row.kind == Kind::Off => {}
            Ok(value) => {
                if let (Some(first), false) = (self.out.settings.place(row.id), row.id == Id::Model) {
                    self.errors.push(ConfigError::Conflict {
                        first: first.clone(),
                        second: place,
                        why: "they say the same thing; keep one",
                    });
                    return;
                }
                self.out.settings.add(row.id, value, place);
            }
            Err(trouble) => self.errors.push(trouble.at(place)),
        }
    }

    fn text(&mut self, node: &Node, path: &str) {
        if !matches!(&node.data, Data::Scalar(s) if !s.is_null()) {
            self.wrong_type(node, path, "a text");
        }
    }
}

fn below(parent: &str, key: &str) -> String {
    if parent.is_empty() { key.to_owned() } else { format!("{parent}.{key}") }
}

/// Whether the section is a length: a number, or a mean and a standard deviation.
fn is_length(path: &str) -> bool {
    path.ends_with(".isl") || path.ends_with(".osl")
}

/// The names that the table has directly below a section.
fn children_of(path: &str) -> Vec<String> {
    let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
    let mut names: Vec<String> = OPTIONS
        .iter()
        .flat_map(Row::keys)
        .filter_map(|key| key.strip_prefix(&prefix).and_then(|r| r.split('.').next()).map(str::to_owned))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Whether a key at the top of a flat file belongs into the body.
fn is_body_key(key: &str) -> bool {
    BODY_FORMS.contains(&key)
        || SWITCHED_OFF.contains(&key)
        || children_of("benchmark").iter().any(|k| k == key)
        || aiperf::has_key(&format!("benchmark.{key}"))
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
