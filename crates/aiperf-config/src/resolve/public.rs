//! Data sets that others publish: which one is meant. Its files are looked for when the run is loaded.

use aiperf_core::plan::agents::{AgentFilter, AgentSet, BENCHMARKS, HARNESSES, source_model};
use aiperf_core::plan::{PUBLIC, PublicName, PublicPlan, PublicSet, PublicShape, PublicSource, public_named};
use aiperf_core::text::{for_terminal, nearest};

use super::how;
use crate::error::ConfigError;
use crate::options::Id;
use crate::place::Place;
use crate::settings::Settings;
use crate::value::Value;
use crate::yaml::Structure;

/// What a data set's own columns and form leave no room for.
const TAKEN: &[(Id, &str)] = &[
    (Id::DatasetFormat, "a public data set has a form of its own; keep one of the two"),
    (Id::PromptColumn, "a public data set has columns of its own; keep one of the two"),
    (Id::ResponseColumn, "a public data set has columns of its own; keep one of the two"),
    (Id::MessagesColumn, "a public data set has columns of its own; keep one of the two"),
    (Id::SystemColumn, "a public data set has columns of its own; keep one of the two"),
    (Id::OutputLengthColumn, "a public data set has columns of its own; keep one of the two"),
];

/// Puts the form of the public data set that `settings` name, and its name in the place of a file where none is given, into
/// `settings`; gives which set it is.
pub(crate) fn find(
    settings: &mut Settings,
    structure: &Structure,
    errors: &mut Vec<ConfigError>,
) -> Option<PublicPlan> {
    let declared = structure.dataset_type.as_ref();
    let Some((name, place)) =
        settings.text(Id::PublicDataset).map(str::to_owned).zip(settings.place(Id::PublicDataset).cloned())
    else {
        if declared.is_some_and(|(kind, _)| *kind == "public") {
            errors.push(ConfigError::Missing {
                what: "the name of the public data set",
                how: how(Id::PublicDataset),
            });
        }
        if let Some(place) = settings.place(Id::HfSubset).cloned() {
            let why = "it says which part of a public data set is sent";
            errors.push(ConfigError::Needs { place, needs: "--public-dataset".into(), why });
        }
        if let Some(place) = settings.place(Id::DatasetFilter).cloned() {
            let why = "it says which sessions of a public data set are sent";
            errors.push(ConfigError::Needs { place, needs: "--public-dataset".into(), why });
        }
        // A variable is set for all runs.
        let place = settings.place(Id::DatasetDownload).filter(|place| !matches!(place, Place::Env(_)));
        if let Some(place) = place.filter(|_| settings.is_on(Id::DatasetDownload)).cloned() {
            let why = "it is leave to fetch a public data set";
            errors.push(ConfigError::Needs { place, needs: "--public-dataset".into(), why });
        }
        return None;
    };
    if let Some((_, second)) = declared.filter(|(kind, _)| *kind != "public") {
        let why = "a public data set is of the type public; change the type or drop the data set";
        errors.push(ConfigError::Conflict { first: place, second: second.clone(), why });
        return None;
    }
    let set = match public_named(&name) {
        PublicName::Here(set) => set,
        PublicName::Later(what) => {
            let name = for_terminal(&name, 60);
            let what = format!("'{name}' is a data set of AIPerf ({what}) that");
            errors.push(ConfigError::NotYet { place, what });
            return None;
        }
        PublicName::Unknown => {
            let names: Vec<&str> = PUBLIC.iter().map(|set| set.name).collect();
            errors.push(ConfigError::BadValue {
                place,
                found: format!("'{}'", for_terminal(&name, 60)),
                allowed: names.join(", "),
                nearest: nearest(&name, names.iter().copied()).map(str::to_owned),
            });
            return None;
        }
    };
    // However it is spelled, it is one.
    settings.reword(Id::PublicDataset, Value::Text(set.name.to_owned()));
    let before = errors.len();
    for (id, why) in TAKEN {
        if let Some(second) = settings.place(*id).cloned() {
            errors.push(ConfigError::Conflict { first: place.clone(), second, why });
        }
    }
    let subset = settings.text(Id::HfSubset).map(str::to_owned);
    if let (Some(place), PublicSource::File { .. }) = (settings.place(Id::HfSubset).cloned(), set.source) {
        let found = format!("a part of '{}'", set.name);
        let allowed = "nothing: this data set is one file without parts".to_owned();
        errors.push(ConfigError::BadValue { place, found, allowed, nearest: None });
    }
    let filter = filter(settings, set, errors);
    let is_given = settings.has(Id::InputFile);
    if !is_given {
        settings.add(Id::InputFile, Value::Text(set.name.to_owned()), place.clone());
    }
    if errors.len() > before {
        return None;
    }
    let form = if set.shape == PublicShape::ShareGpt { "sharegpt" } else { "chat" };
    settings.add(Id::DatasetFormat, Value::Text(form.to_owned()), place);
    // The file is what it is.
    let subset = subset.filter(|_| !is_given);
    Some(PublicPlan { set, subset, is_given, entries: settings.int(Id::Entries), filter })
}

/// Which sessions of a data set of agents are wanted; no other has any to choose from.
fn filter(settings: &Settings, set: &PublicSet, errors: &mut Vec<ConfigError>) -> AgentFilter {
    let mut filter = AgentFilter::default();
    let given = settings.list(Id::DatasetFilter).unwrap_or_default();
    let Some(place) = settings.place(Id::DatasetFilter) else { return filter };
    let mut bad = |found: String, allowed: String, near: Option<&str>| {
        let nearest = near.map(str::to_owned);
        errors.push(ConfigError::BadValue { place: place.clone(), found, allowed, nearest });
    };
    let PublicShape::Agents(agents) = set.shape else {
        let allowed = "nothing: the data sets of agents, exgentic and exgentic_v2, have filters".to_owned();
        bad(format!("a filter of '{}'", set.name), allowed, None);
        return filter;
    };
    for (key, value) in given.iter().filter_map(|pair| pair.split_once('=')) {
        let keys = [("harness", true), ("source_model", true), ("benchmark", agents.has_benchmarks)];
        let known: Vec<&str> = keys.iter().filter(|(_, is_here)| *is_here).map(|(key, _)| *key).collect();
        let (place, words, value) = match key {
            "harness" => (&mut filter.harness, HARNESSES.to_vec(), value),
            "source_model" => (&mut filter.source_model, agents.models(None), source_model(value)),
            "benchmark" if agents.has_benchmarks => (&mut filter.benchmark, BENCHMARKS.to_vec(), value),
            _ => {
                let allowed = format!("the filters of {}: {}", set.name, known.join(", "));
                bad(format!("'{}'", for_terminal(key, 40)), allowed, nearest(key, known));
                continue;
            }
        };
        match words.iter().find(|word| word.eq_ignore_ascii_case(value)) {
            Some(_) if place.is_some() => bad(format!("'{key}' twice"), "each filter once".to_owned(), None),
            Some(word) => *place = Some(word),
            None => {
                let found = format!("'{key}={}'", for_terminal(value, 60));
                bad(found, format!("{key}= and one of {}", words.join(", ")), nearest(value, words));
            }
        }
    }
    if let Some((harness, models)) = never_together(agents, &filter) {
        let found =
            format!("harness={harness} with source_model={}", filter.source_model.unwrap_or_default());
        bad(found, format!("models that {} has with it: {}", set.name, models.join(", ")), None);
    }
    filter
}

/// A harness that the data set does not have with the model that is wanted, and the models that it has.
fn never_together(agents: &AgentSet, filter: &AgentFilter) -> Option<(&'static str, Vec<&'static str>)> {
    let (harness, model) = filter.harness.zip(filter.source_model)?;
    let models = agents.models(Some(harness));
    (!models.contains(&model)).then_some((harness, models))
}
