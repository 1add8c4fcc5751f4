//! The phases of a file: a list, one mapping, or AIPerf's short forms `profiling` and `warmup`. Each keeps its own settings, so
//! that a file may have any number of them.

use aiperf_core::plan::PhaseKind;
use aiperf_core::text::{for_terminal, nearest};

use super::lift::{Lifter, below};
use super::{Data, Entry, Node};
use crate::aiperf;
use crate::error::ConfigError;
use crate::place::Place;
use crate::settings::Settings;
use crate::value::parse_bool;

/// One phase of a file.
#[derive(Debug, Clone)]
pub(crate) struct PhaseSource {
    /// Whether it is measured.
    pub kind: PhaseKind,
    /// Its name, given or its kind's.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// Its options, under the ids of its kind.
    pub settings: Settings,
    /// Whether it gives its type: it then stands for itself and takes nothing from another one.
    pub is_typed: bool,
    /// Where it says that it starts before the phase before it has ended.
    pub seamless: Option<Place>,
    /// AIPerf's other word for the type, and where it stands.
    pub timing_mode: Option<(&'static str, Place)>,
}

/// Keys of a phase that are no options.
pub(super) const PHASE_EXTRAS: &[&str] = &["name", "kind", "exclude_from_results", "seamless", "timing_mode"];
/// What a warmup never has, and why.
const NOT_IN_A_WARMUP: &[&str] =
    &["cancellation", "users", "auto_offset", "start_offset", "end_offset", "failed_request_threshold"];
/// The words of `timing_mode` that only say what the type says.
const TIMING_MODES: &[&str] = &["request_rate", "fixed_schedule", "user_centric_rate"];
/// Those that mean something this version does not have.
const LATER_TIMING_MODES: &[&str] = &["adaptive_scale", "agentic_replay"];

fn kind_of(word: &str) -> Option<PhaseKind> {
    [PhaseKind::Warmup, PhaseKind::Profiling].into_iter().find(|kind| kind.name() == word)
}

impl<'a> Lifter<'a> {
    pub(super) fn phases(&mut self, node: &'a Node, path: &str) {
        let before = self.errors.len();
        match &node.data {
            Data::Map(_) => self.phase(node, path, Some(PhaseKind::Profiling)),
            Data::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    self.phase(item, &format!("{path}[{i}]"), None);
                }
            }
            Data::Scalar(_) => self.wrong_type(node, path, "a list of phases"),
        }
        let measures = self.out.structure.phases.iter().any(|phase| phase.kind == PhaseKind::Profiling);
        if !measures && self.errors.len() == before {
            let place = self.place(node, path);
            self.errors.push(ConfigError::Needs {
                place,
                needs: "a phase of kind profiling".into(),
                why: "a warmup alone measures nothing",
            });
        }
    }

    /// Reads one phase; `known` is the kind that its key says.
    pub(super) fn phase(&mut self, node: &'a Node, path: &str, known: Option<PhaseKind>) {
        let entries = self.entries(node, path);
        let raw = |name: &str| {
            entries.iter().find(|(k, _)| k == name).and_then(|(_, e)| match &e.node.data {
                Data::Scalar(s) if !s.is_null() => Some((s.raw.clone(), &e.node)),
                _ => None,
            })
        };
        let named = raw("name");
        let by_name = named.as_ref().and_then(|(name, _)| kind_of(name));
        let said = raw("kind");
        let by_kind = said.as_ref().and_then(|(kind, _)| kind_of(&kind.to_lowercase()));
        if let (Some((found, at)), None) = (&said, by_kind) {
            let place = self.place(at, &below(path, "kind"));
            self.errors.push(ConfigError::BadValue {
                place,
                found: format!("'{}'", for_terminal(found, 60)),
                allowed: "warmup, profiling".to_owned(),
                nearest: nearest(found, ["warmup", "profiling"]).map(str::to_owned),
            });
            return;
        }
        let place = self.place(node, path);
        let Some(kind) = known.or(by_kind).or(by_name) else {
            self.errors.push(ConfigError::Needs {
                place,
                needs: "a kind".into(),
                why: "a phase that is not named warmup or profiling says 'kind: warmup' or 'kind: profiling'",
            });
            return;
        };
        if [by_name, by_kind].into_iter().flatten().any(|k| k != kind) {
            self.errors.push(ConfigError::BadValue {
                place,
                found: "a phase whose name and kind differ".to_owned(),
                allowed: "the names warmup and profiling for phases of that kind".to_owned(),
                nearest: None,
            });
            return;
        }
        let Some(name) = self.phase_name(path, kind, named, &place) else { return };
        let folded = format!("benchmark.phases.{}", kind.name());
        let outer = std::mem::take(&mut self.out.settings);
        self.renamed = Some((folded.clone(), format!("benchmark.phases.{name}")));
        let mut phase = PhaseSource {
            kind,
            name,
            place,
            settings: Settings::default(),
            is_typed: false,
            seamless: None,
            timing_mode: None,
        };
        for (key, entry) in entries {
            match key.as_str() {
                "name" | "kind" => {}
                name if entry.node.is_null() && [PHASE_EXTRAS, NOT_IN_A_WARMUP].concat().contains(&name) => {}
                "exclude_from_results" => self.excluded(entry, &below(&folded, &key), kind),
                "seamless" => phase.seamless = self.seamless(entry, &below(&folded, &key)),
                "timing_mode" => phase.timing_mode = self.timing_mode(entry, &below(&folded, &key)),
                _ if kind == PhaseKind::Warmup && NOT_IN_A_WARMUP.contains(&key.as_str()) => {
                    self.not_in_a_warmup(&key, entry, &folded);
                }
                _ => {
                    phase.is_typed |= key == "type";
                    self.key(&key, entry, &folded);
                }
            }
        }
        self.renamed = None;
        phase.settings = std::mem::replace(&mut self.out.settings, outer);
        self.out.structure.phases.push(phase);
    }

    /// The name of a phase: its own if it is one that no other has, otherwise its kind's.
    fn phase_name(
        &mut self,
        path: &str,
        kind: PhaseKind,
        named: Option<(String, &Node)>,
        place: &Place,
    ) -> Option<String> {
        let (name, at) = match named {
            Some((name, at)) => (name, self.place(at, &below(path, "name"))),
            None => (kind.name().to_owned(), place.clone()),
        };
        let problem = if !is_phase_name(&name) {
            (
                format!("'{}'", for_terminal(&name, 60)),
                "a letter or _, then letters, digits, _ and -; no device name of Windows",
            )
        } else if self.out.structure.phases.iter().any(|p| p.name.eq_ignore_ascii_case(&name)) {
            (format!("the name '{name}' twice"), "a different name for each phase")
        } else {
            return Some(name);
        };
        self.errors.push(ConfigError::BadValue {
            place: at,
            found: problem.0,
            allowed: problem.1.to_owned(),
            nearest: None,
        });
        None
    }

    /// AIPerf writes false for a profiling phase and true for a warmup; a plain false is its default.
    fn excluded(&mut self, entry: &Entry, path: &str, kind: PhaseKind) {
        let said = match &entry.node.data {
            Data::Scalar(s) => s.as_bool(),
            Data::List(_) | Data::Map(_) => None,
        };
        if said.is_none() || (said == Some(true) && kind == PhaseKind::Profiling) {
            let place = self.place(&entry.node, path);
            self.errors.push(ConfigError::BadValue {
                place,
                found: format!("'{}'", entry.node.brief()),
                allowed: "true for a warmup, false for a profiling phase".to_owned(),
                nearest: None,
            });
        }
    }

    fn seamless(&mut self, entry: &Entry, path: &str) -> Option<Place> {
        let said = match &entry.node.data {
            Data::Scalar(s) => s.as_bool().or_else(|| parse_bool(&s.raw)),
            Data::List(_) | Data::Map(_) => None,
        };
        let Some(said) = said else {
            self.wrong_type(&entry.node, path, "true or false");
            return None;
        };
        said.then(|| self.place(&entry.node, path))
    }

    fn timing_mode(&mut self, entry: &Entry, path: &str) -> Option<(&'static str, Place)> {
        let place = self.place(&entry.node, path);
        let Data::Scalar(word) = &entry.node.data else {
            self.wrong_type(&entry.node, path, "a word");
            return None;
        };
        let word = word.raw.to_lowercase().replace('-', "_");
        if let Some(known) = TIMING_MODES.iter().find(|known| **known == word) {
            return Some((known, place));
        }
        if LATER_TIMING_MODES.contains(&word.as_str()) {
            self.not_yet(place, format!("'{word}' is an AIPerf value"));
            return None;
        }
        self.errors.push(ConfigError::BadValue {
            place,
            found: format!("'{}'", for_terminal(&word, 60)),
            allowed: TIMING_MODES.join(", "),
            nearest: nearest(&word, TIMING_MODES.iter().copied()).map(str::to_owned),
        });
        None
    }

    fn not_in_a_warmup(&mut self, key: &str, entry: &Entry, folded: &str) {
        let place = self.spot(entry.position, &below(folded, key));
        let said = entry.node.to_json();
        if aiperf::default_of_key(&below("benchmark.phases", key)) == Some(said) {
            return;
        }
        // AIPerf writes it into warmups itself, where it counts nothing.
        if key == "failed_request_threshold" {
            self.out.notes.push(format!("{place} has no effect: it looks at measured requests alone"));
            return;
        }
        self.errors.push(ConfigError::Needs {
            place,
            needs: "a phase of kind profiling".into(),
            why: "a warmup drops no requests, has no users and follows no schedule",
        });
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
