//! From the keys of a file to settings. The forms AIPerf allows for the same thing (`model` and `models`, `dataset` and
//! `datasets`, `profiling`, `warmup` and `phases`, a number for a distribution) are folded here into the keys of the
//! table; whatever is left is looked up there, refused by its AIPerf name, or unknown.

use std::collections::HashMap;

use aiperf_core::plan::PhaseKind;
use aiperf_core::text::nearest;

use super::phases::{PHASE_EXTRAS, PhaseSource};
use super::{Data, Entry, Node, Source};
use crate::aiperf;
use crate::error::ConfigError;
use crate::options::{Id, OPTIONS};
use crate::place::{Place, Position};
use crate::row::{Kind, Row};
use crate::settings::Settings;
use crate::value::{Value, from_node};

/// What a file says beside its settings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Structure {
    /// The phases in their order.
    pub phases: Vec<PhaseSource>,
    /// `synthetic`, `file` or `public`, where the file says which.
    pub dataset_type: Option<(&'static str, Place)>,
}

impl Structure {
    /// How many phases of a kind there are.
    pub(crate) fn count(&self, kind: PhaseKind) -> usize {
        self.phases.iter().filter(|phase| phase.kind == kind).count()
    }

    /// A phase that is the only one of its kind is what load flags and variables mean: its settings are merged below theirs.
    pub(crate) fn give_lone_phases_to(&mut self, settings: &mut Settings) {
        for kind in [PhaseKind::Warmup, PhaseKind::Profiling] {
            if self.count(kind) == 1
                && let Some(phase) = self.phases.iter_mut().find(|phase| phase.kind == kind)
            {
                settings.merge(std::mem::take(&mut phase.settings));
            }
        }
    }
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
/// Keys that make a length a distribution of another form.
const SHAPE: &[&str] = &["median", "peaks", "points", "min", "max"];
/// Sections of what this version does not have; a file may say that they are off.
const SWITCHED_OFF: &[&str] = &["gpu_telemetry", "server_metrics"];
/// The body's keys that are folded together before the look-up.
const BODY_FORMS: &[&str] =
    &["model", "models", "dataset", "datasets", "phases", "profiling", "warmup", "endpoint", "artifacts"];

/// Reads the settings of a file, or says everything that is wrong with it.
pub(crate) fn lift(source: &Source) -> Result<Lifted, Vec<ConfigError>> {
    let mut lifter = Lifter { source, out: Lifted::default(), errors: Vec::new(), renamed: None };
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

pub(super) struct Lifter<'a> {
    pub(super) source: &'a Source,
    pub(super) out: Lifted,
    pub(super) errors: Vec<ConfigError>,
    /// Inside a phase: its section in the table, and what an error calls it.
    pub(super) renamed: Option<(String, String)>,
}

impl<'a> Lifter<'a> {
    pub(super) fn place(&self, node: &Node, key: &str) -> Place {
        self.spot(node.position, key)
    }

    pub(super) fn spot(&self, position: Position, key: &str) -> Place {
        match &self.renamed {
            Some((folded, shown)) => self.source.place(position, &key.replacen(folded, shown, 1)),
            None => self.source.place(position, key),
        }
    }

    pub(super) fn wrong_type(&mut self, node: &Node, key: &str, expected: &str) {
        let place = self.place(node, key);
        self.errors.push(ConfigError::WrongType {
            place,
            found: node.describe(),
            expected: expected.to_owned(),
        });
    }

    pub(super) fn not_yet(&mut self, place: Place, what: impl Into<String>) {
        self.errors.push(ConfigError::NotYet { place, what: what.into() });
    }

    /// The entries of a mapping under their snake_case names; a second spelling of a key is a duplicate.
    pub(super) fn entries(&mut self, node: &'a Node, key: &str) -> Vec<(String, &'a Entry)> {
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
                    place: self.spot(entry.position, &below(key, &name)),
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
        let has_list = find("phases").is_some();
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
                "endpoint" => self.endpoint(node),
                "profiling" => self.phase(node, &path, Some(PhaseKind::Profiling)),
                "warmup" => self.phase(node, &path, Some(PhaseKind::Warmup)),
                "phases" => self.phases(node, &path),
                "artifacts" => self.artifacts(node),
                name if SWITCHED_OFF.contains(&name) => self.switched_off(node, &path),
                _ => self.key(&key, entry, "benchmark"),
            }
        }
        // The short forms have an order of their own.
        if !has_list {
            self.out.structure.phases.sort_by_key(|phase| phase.kind == PhaseKind::Profiling);
        }
    }

    /// Any other key: an option, a section, AIPerf's, or unknown. `parent` is the folded path.
    pub(super) fn key(&mut self, key: &str, entry: &'a Entry, parent: &str) {
        let path = below(parent, key);
        let node = &entry.node;
        let row = OPTIONS.iter().find(|r| r.keys().any(|k| k == path));
        // A plain mean, or a normal distribution, is what flags can say too; its parts are options of their own.
        if let Some(row) = row.filter(|row| row.kind != Kind::Lengths || is_shape(node)) {
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
                    match (name.as_str(), is_drawn(&path)) {
                        ("value", true) => self.key("mean", child, &path),
                        // Its other keys say so already.
                        ("type", true) => {}
                        _ => self.key(&name, child, &path),
                    }
                }
            }
            _ if node.is_null() => {}
            // A time for a ramp is how long it takes.
            Data::Scalar(_) if path.ends_with("_ramp") => self.key("duration", entry, &path),
            // A number for a distribution is its mean.
            Data::Scalar(_) | Data::List(_) if is_drawn(&path) => self.key("mean", entry, &path),
            _ => self.wrong_type(node, &path, "a mapping"),
        }
    }

    /// A key that is no option: AIPerf's own, which may say what is true anyway, or unknown.
    pub(super) fn stranger(&mut self, key: &str, entry: &Entry, parent: &str, also: &[&str]) {
        let path = below(parent, key);
        let place = self.spot(entry.position, &path);
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
        // The mistake that keys as this program writes them (benchmark.phases.profiling.rate) invite.
        if matches!(parent, "benchmark.phases.profiling" | "benchmark.phases.warmup")
            && matches!(entry.key.as_str(), "profiling" | "warmup")
        {
            self.errors.push(ConfigError::WrongType {
                place: self.spot(entry.position, "benchmark.phases"),
                found: format!("a mapping with '{}' in it", entry.key),
                expected: format!(
                    "a list of phases such as [{{name: {0}, …}}], or the mapping benchmark.{0} without 'phases'",
                    entry.key
                ),
            });
            return;
        }
        let mut allowed = children_of(parent);
        allowed.extend(also.iter().map(|s| (*s).to_owned()));
        match parent {
            "" => allowed.extend(ENVELOPE.iter().map(|s| (*s).to_owned())),
            "benchmark" => allowed.extend(BODY_FORMS.iter().chain(SWITCHED_OFF).map(|s| (*s).to_owned())),
            "benchmark.dataset" => allowed.extend(["name", "type"].map(str::to_owned)),
            "benchmark.phases.profiling" | "benchmark.phases.warmup" => {
                allowed.extend(PHASE_EXTRAS.iter().map(|s| (*s).to_owned()));
            }
            _ => {}
        }
        allowed.sort();
        allowed.dedup();
        let near = nearest(key, allowed.iter().map(String::as_str)).map(str::to_owned);
        self.errors.push(ConfigError::UnknownKey {
            place: self.spot(entry.position, parent),
            key: entry.key.clone(),
            allowed: allowed.join(", "),
            nearest: near,
        });
    }

    pub(super) fn read(&mut self, row: &Row, node: &Node, path: &str) {
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

    pub(super) fn text(&mut self, node: &Node, path: &str) {
        if !matches!(&node.data, Data::Scalar(s) if !s.is_null()) {
            self.wrong_type(node, path, "a text");
        }
    }
}

pub(super) fn below(parent: &str, key: &str) -> String {
    if parent.is_empty() { key.to_owned() } else { format!("{parent}.{key}") }
}

/// Whether the section is a quantity that is drawn: a number, or a mean and a standard deviation.
fn is_drawn(path: &str) -> bool {
    matches!(
        path.rsplit('.').next(),
        Some("isl" | "osl" | "turns" | "turn_delay" | "passages" | "passage_tokens" | "query_tokens")
    )
}

/// Whether a length is a distribution that a mean and a standard deviation do not make.
fn is_shape(node: &Node) -> bool {
    let Data::Map(entries) = &node.data else { return false };
    let plain_type = |entry: &Entry| match &entry.node.data {
        Data::Scalar(s) => s.is_null() || matches!(s.raw.as_str(), "normal" | "fixed"),
        _ => false,
    };
    entries.iter().any(|entry| {
        let key = snake(&entry.key);
        SHAPE.contains(&key.as_str()) || (key == "type" && !plain_type(entry))
    })
}

/// The names that the table has directly below a section.
pub(super) fn children_of(path: &str) -> Vec<String> {
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
