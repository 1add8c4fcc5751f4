//! The JSON schema of a configuration file, made from the table, for editors.

use serde_json::{Map, Value as Json, json};

use crate::options::OPTIONS;
use crate::row::{Default, Kind, Row};

/// The schema of a configuration file in AIPerf's envelope. Keys stand in snake_case and camelCase; a text with a
/// template or a reference is allowed wherever a number is.
pub fn json_schema() -> Json {
    let mut root = section();
    for row in OPTIONS {
        for key in row.keys() {
            insert(&mut root, &key.split('.').collect::<Vec<_>>(), row);
        }
    }
    root["$defs"] = Json::Object(fold_forms(&mut root));
    add_camel(&mut root);
    let Json::Object(mut out) = root else { unreachable!("a section is an object") };
    out.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    out.insert("title".to_owned(), "aiperf configuration".into());
    Json::Object(out)
}

fn section() -> Json {
    json!({"type": "object", "properties": {}, "additionalProperties": false})
}

fn insert(node: &mut Json, path: &[&str], row: &Row) {
    let Some((first, rest)) = path.split_first() else { return };
    let Some(properties) = node.get_mut("properties").and_then(Json::as_object_mut) else { return };
    if rest.is_empty() {
        // `models` is a key and a section; the option's own form is added to the section's.
        match properties.get_mut(*first) {
            Some(old) => {
                let section = old.take();
                *old = json!({"anyOf": [value(row), section], "description": row.doc});
            }
            None => {
                properties.insert((*first).to_owned(), value(row));
            }
        }
        return;
    }
    let below = properties.entry((*first).to_owned()).or_insert_with(section);
    if below.get("properties").is_none() {
        *below = json!({"anyOf": [below.take(), section()]});
    }
    if let Some(Json::Array(forms)) = below.get_mut("anyOf") {
        if let Some(form) = forms.iter_mut().find(|f| f.get("properties").is_some()) {
            insert(form, rest, row);
        }
        return;
    }
    insert(below, rest, row);
}

/// The schema of one option's value.
fn value(row: &Row) -> Json {
    let template = json!({"type": "string", "pattern": r"\{\{|\{%|\$\{"});
    let form = match row.kind {
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Off => json!({"const": true}),
        Kind::Int { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
        Kind::Float { min, above: true, max } => {
            json!({"type": "number", "exclusiveMinimum": min, "maximum": max})
        }
        Kind::Float { min, above: false, max } => json!({"type": "number", "minimum": min, "maximum": max}),
        Kind::Bytes { min, .. } => {
            json!({"anyOf": [{"type": "integer", "minimum": min}, {"type": "string", "pattern": "^[0-9]+ *([kKmMgG]?i?[bB]?)$"}]})
        }
        Kind::Duration { zero, endless } => {
            let least = if zero { "minimum" } else { "exclusiveMinimum" };
            let endless = if endless { "|[iI][nN][fF]([iI][nN][iI][tT][yY])?" } else { "" };
            let pattern = format!(r"^([0-9]+(\.[0-9]+)? *([sSmMhH][a-zA-Z]*)?{endless})$");
            json!({"anyOf": [{"type": "number", least: 0}, {"type": "string", "pattern": pattern}]})
        }
        Kind::Choice { words, .. } => {
            let words = words.iter().flat_map(|w| w.split('|'));
            let mut all: Vec<Json> = Vec::new();
            for word in words {
                // A version may stand there as a number.
                let number = word.parse::<f64>().ok().map(Json::from);
                let spellings = [word.into(), word.replace('_', "-").into()];
                all.extend(spellings.into_iter().chain(number));
                all.dedup();
            }
            json!({"enum": all})
        }
        Kind::List => {
            json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]})
        }
        Kind::Extra => {
            json!({"anyOf": [{"type": "object"}, {"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
        }
        Kind::Objectives => {
            json!({"type": "object", "minProperties": 1, "additionalProperties": {"type": ["number", "string"]}})
        }
        Kind::Filters => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        Kind::Headers => {
            json!({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}})
        }
        Kind::Path | Kind::Text => json!({"type": "string"}),
        Kind::Lengths => json!({"type": "object", "properties": lengths_keys()}),
        Kind::Pairs => json!({"type": "array", "minItems": 1, "items": {
        "type": "object", "required": ["isl", "osl", "probability"], "additionalProperties": false,
        "properties": {
            "isl": {"type": ["number", "object"]}, "osl": {"type": ["number", "object"]},
            "probability": {"type": "number", "minimum": 0, "maximum": 100}
        }}}),
        Kind::Ratio => {
            let share = json!({"type": "number", "minimum": 0, "maximum": 1});
            json!({"anyOf": [share, {"type": "object", "required": ["input", "output"], "additionalProperties": false,
                "properties": {"input": share, "output": share}}]})
        }
        Kind::Series => {
            let points = json!({"type": "array", "minItems": 2, "items": {"type": "object",
                "required": ["qps"], "additionalProperties": false, "properties": {
                    "time_s": {"type": "number", "minimum": 0}, "qps": {"type": "number", "exclusiveMinimum": 0}}}});
            let one = json!({"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
                "properties": {"path": {"type": "string"}, "points": points}});
            json!({"anyOf": [{"type": "string"}, points, one]})
        }
        Kind::Weights => {
            json!({"type": "array", "minItems": 1, "items": {"type": "number", "exclusiveMinimum": 0}})
        }
    };
    let is_text = matches!(
        row.kind,
        Kind::Path
            | Kind::Text
            | Kind::List
            | Kind::Extra
            | Kind::Filters
            | Kind::Headers
            | Kind::Lengths
            | Kind::Objectives
    );
    let mut out = if is_text { form } else { json!({"anyOf": [form, template]}) };
    if let Some(map) = out.as_object_mut() {
        map.insert("description".to_owned(), row.doc.into());
        match (row.default, row.kind) {
            (
                Default::Is(text),
                Kind::Int { .. } | Kind::Float { .. } | Kind::Duration { .. } | Kind::Bool,
            ) => {
                map.insert("default".to_owned(), serde_json::from_str(text).unwrap_or_else(|_| text.into()));
            }
            (Default::Is(text), _) => {
                map.insert("default".to_owned(), text.into());
            }
            _ => {}
        }
    }
    out
}

/// The forms that are folded when a file is read: singular and plural, phase lists, numbers for lengths, what is off. Returns what
/// stands in several places and is referred to there.
fn fold_forms(root: &mut Json) -> Map<String, Json> {
    let mut shared = Map::new();
    let Some(top) = root.pointer_mut("/properties").and_then(Json::as_object_mut) else { return shared };
    top.insert("schema_version".to_owned(), json!({"const": "2.0"}));
    top.insert("variables".to_owned(), json!({"type": "object"}));
    let Some(body) =
        top.get_mut("benchmark").and_then(|b| b.pointer_mut("/properties")).and_then(Json::as_object_mut)
    else {
        return shared;
    };
    if let Some(models) = body.get_mut("models") {
        if let Some(forms) = models.get_mut("anyOf").and_then(Json::as_array_mut)
            && let Some(properties) =
                forms.iter_mut().find_map(|f| f.pointer_mut("/properties").and_then(Json::as_object_mut))
        {
            let name = json!({"type": "object", "properties": {
                "name": {"type": "string"}, "weight": {"type": ["number", "null"], "exclusiveMinimum": 0}
            }, "required": ["name"], "additionalProperties": false});
            properties.insert("items".to_owned(), json!({"type": "array", "minItems": 1, "items": name}));
        }
        let models = models.clone();
        body.insert("model".to_owned(), models);
    }
    for key in ["url", "urls"] {
        if let Some(urls) =
            body.get_mut("endpoint").and_then(|e| e.pointer_mut(&format!("/properties/{key}")))
        {
            let one = json!({"anyOf": [{"type": "string"}, {"type": "object", "required": ["url"], "additionalProperties": false,
                "properties": {"url": {"type": "string"}, "weight": {"type": "number", "exclusiveMinimum": 0}}}]});
            urls["anyOf"] = json!([{"type": "string"}, {"type": "array", "items": one, "minItems": 1}]);
        }
    }
    if let Some(dataset) = body.get_mut("dataset") {
        if let Some(properties) = dataset.pointer_mut("/properties").and_then(Json::as_object_mut) {
            properties.insert("name".to_owned(), json!({"type": "string"}));
            properties.insert("type".to_owned(), json!({"enum": ["synthetic", "file"]}));
            lengths(properties);
            for section in ["prompts", "rankings"] {
                if let Some(below) = properties.get_mut(section).and_then(|p| p.pointer_mut("/properties")) {
                    below.as_object_mut().map(lengths);
                }
            }
        }
        let dataset = dataset.clone();
        body.insert(
            "datasets".to_owned(),
            json!({"type": "array", "minItems": 1, "maxItems": 1, "items": dataset}),
        );
    }
    if let Some(phases) = body.remove("phases") {
        let mut forms = Vec::new();
        for kind in ["profiling", "warmup"] {
            if let Some(mut phase) = phases.pointer(&format!("/properties/{kind}")).cloned() {
                if let Some(properties) = phase.pointer_mut("/properties").and_then(Json::as_object_mut) {
                    properties.insert("name".to_owned(), json!({"type": "string"}));
                    properties.insert("kind".to_owned(), json!({"const": kind}));
                    properties.insert("exclude_from_results".to_owned(), json!({"type": "boolean"}));
                    if kind == "profiling" {
                        properties.insert("seamless".to_owned(), json!({"type": "boolean"}));
                    }
                    let modes = ["request_rate", "fixed_schedule", "user_centric_rate"];
                    properties.insert("timing_mode".to_owned(), json!({"enum": modes}));
                    ramps(properties);
                }
                let form = json!({"$ref": format!("#/$defs/{kind}")});
                shared.insert(kind.to_owned(), phase);
                body.insert(kind.to_owned(), form.clone());
                forms.push(form);
            }
        }
        let list = json!({"type": "array", "minItems": 1, "items": {"anyOf": forms}});
        body.insert("phases".to_owned(), json!({"anyOf": [list, forms.first()]}));
    }
    if let Some(artifacts) =
        body.get_mut("artifacts").and_then(|a| a.pointer_mut("/properties")).and_then(Json::as_object_mut)
    {
        artifacts.insert(
            "records".to_owned(),
            json!({"anyOf": [
                {"type": "boolean"},
                {"type": "array", "minItems": 1, "items": {"enum": ["jsonl", "parquet"]}},
            ]}),
        );
        artifacts.insert("raw".to_owned(), json!({"type": "boolean"}));
        artifacts.insert("summary".to_owned(), json!({"anyOf": [{"const": true}, {"const": ["json"]}]}));
    }
    for off in ["gpu_telemetry", "server_metrics"] {
        body.insert(
            off.to_owned(),
            json!({"anyOf": [{"const": false}, {"type": "object", "properties": {"enabled": {"const": false}}}]}),
        );
    }
    shared
}

/// A ramp may be its duration alone.
fn ramps(properties: &mut Map<String, Json>) {
    for (_, ramp) in properties.iter_mut().filter(|(key, _)| key.ends_with("_ramp")) {
        let duration = ramp.pointer("/properties/duration").cloned().unwrap_or_default();
        let doc = duration.get("description").cloned().unwrap_or_default();
        *ramp = json!({"anyOf": [duration, ramp.take()], "description": doc});
    }
}

/// The keys of distributions that a mean and a standard deviation do not make.
fn lengths_keys() -> Json {
    let number = json!({"type": "number", "minimum": 0});
    json!({
        "mean": number, "median": number, "min": number, "max": number, "stddev": number, "value": number,
        "type": {"enum": ["fixed", "normal", "lognormal", "multimodal", "empirical"]},
        "peaks": {"type": "array", "minItems": 2, "items": {"type": ["number", "object"]}},
        "points": {"type": "array", "minItems": 1, "items": {"type": ["number", "object"]}}
    })
}

/// What is drawn may be a number, a mapping whose mean is also called value, or, where the table says so, a distribution of
/// another form.
fn lengths(properties: &mut Map<String, Json>) {
    for key in ["isl", "osl", "turns", "turn_delay", "passages", "passage_tokens", "query_tokens"] {
        let Some(all) = properties.remove(key) else { continue };
        let is_section = |form: &&Json| form.pointer("/additionalProperties") == Some(&json!(false));
        let forms = all.get("anyOf").and_then(Json::as_array).cloned().unwrap_or_else(|| vec![all.clone()]);
        let Some(mut section) = forms.iter().find(is_section).cloned() else { continue };
        let Some(inner) = section.pointer_mut("/properties").and_then(Json::as_object_mut) else { continue };
        let mean = inner.get("mean").cloned().unwrap_or_default();
        inner.insert("value".to_owned(), mean.clone());
        inner.insert("type".to_owned(), json!({"enum": ["normal", "fixed"]}));
        let doc = all.get("description").or_else(|| mean.get("description")).cloned().unwrap_or_default();
        let shape = forms.iter().find(|form| !is_section(form)).cloned();
        let forms: Vec<Json> = [mean, section].into_iter().chain(shape).collect();
        properties.insert(key.to_owned(), json!({"anyOf": forms, "description": doc}));
    }
}

/// Beside each key in snake_case the same in camelCase.
fn add_camel(node: &mut Json) {
    match node {
        Json::Object(map) => {
            map.values_mut().for_each(add_camel);
            if let Some(properties) = map.get_mut("properties").and_then(Json::as_object_mut) {
                let more: Vec<(String, Json)> = properties
                    .iter()
                    .filter(|(k, _)| k.contains('_'))
                    .map(|(k, v)| (camel(k), v.clone()))
                    .collect();
                properties.extend(more);
            }
        }
        Json::Array(items) => items.iter_mut().for_each(add_camel),
        _ => {}
    }
}

fn camel(key: &str) -> String {
    let mut parts = key.split('_');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        out.extend(letters.next().map(|c| c.to_ascii_uppercase()));
        out.extend(letters);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The schema of a key in `root`, through `anyOf` and references.
    fn find<'a>(root: &'a Json, path: &[&str]) -> Option<&'a Json> {
        below(root, root, path)
    }

    fn below<'a>(root: &'a Json, node: &'a Json, path: &[&str]) -> Option<&'a Json> {
        if let Some(shared) = node.get("$ref").and_then(Json::as_str) {
            return below(root, root.pointer(shared.trim_start_matches('#'))?, path);
        }
        let Some((first, rest)) = path.split_first() else { return Some(node) };
        if let Some(next) = node.pointer("/properties").and_then(|p| p.get(*first)) {
            return below(root, next, rest);
        }
        let forms = node.get("anyOf").and_then(Json::as_array)?;
        forms.iter().find_map(|f| below(root, f, path))
    }

    #[test]
    fn the_schema_has_every_key_in_both_spellings() {
        let schema = json_schema();
        for row in OPTIONS {
            for key in row.keys() {
                let key = key.replace("benchmark.phases.", "benchmark.");
                let path: Vec<&str> = key.split('.').collect();
                let found = find(&schema, &path).unwrap_or_else(|| panic!("{key} is not in the schema"));
                assert!(found.to_string().contains("description"), "{key}");
                let spelled: Vec<String> = path.iter().map(|p| camel(p)).collect();
                assert!(
                    find(&schema, &spelled.iter().map(String::as_str).collect::<Vec<_>>()).is_some(),
                    "{key}"
                );
            }
        }
    }

    #[test]
    fn the_short_forms_are_in_it() {
        let schema = json_schema();
        for path in
            ["model", "models", "dataset", "datasets", "phases", "profiling", "warmup", "gpu_telemetry"]
        {
            assert!(find(&schema, &["benchmark", path]).is_some(), "{path}");
        }
        for drawn in ["isl", "turns", "turn_delay", "turnDelay"] {
            assert!(find(&schema, &["benchmark", "dataset", drawn, "value"]).is_some(), "{drawn}");
        }
        for drawn in ["passages", "passageTokens", "query_tokens"] {
            assert!(
                find(&schema, &["benchmark", "dataset", "rankings", drawn, "value"]).is_some(),
                "{drawn}"
            );
        }
        assert!(find(&schema, &["benchmark", "models", "items"]).is_some());
        for key in ["seamless", "timingMode", "concurrencyRamp"] {
            assert!(find(&schema, &["benchmark", "profiling", key]).is_some(), "{key}");
        }
        assert_eq!(find(&schema, &["benchmark", "warmup", "seamless"]), None);
        let ramp = find(&schema, &["benchmark", "warmup", "rate_ramp"]).expect("a ramp");
        assert!(ramp.pointer("/anyOf/0/anyOf").is_some() && find(ramp, &["strategy"]).is_some(), "{ramp}");
        let urls = find(&schema, &["benchmark", "endpoint", "urls"]).expect("servers");
        assert!(urls.to_string().contains("weight"), "{urls}");
        assert!(find(&schema, &["benchmark", "nope"]).is_none());
    }
}
