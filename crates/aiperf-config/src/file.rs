//! `aiperf config validate` and `aiperf config expand`: a file looked at without a run.

use std::path::Path;

use serde_json::json;

use crate::error::Rejected;
use crate::redact::redact_json;
use crate::yaml::{emit, load};
use crate::{Resolved, resolve_layers};

/// Form of what [`expand_file`] prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpandFormat {
    /// For people.
    Text,
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

/// The plan a file makes alone, with the environment for its references and `AIPERF_*` options.
pub fn validate_file(path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Resolved, Rejected> {
    let command = format!("aiperf profile --config '{}'", path.display());
    resolve_layers(crate::settings::Settings::default(), Some(path), env, &|| 0, command, Vec::new())
}

/// The variations a file makes, in AIPerf's shape: without a sweep one, `base`. The body is the file's after its
/// substitutions and templates, secrets replaced. The file must be sound in itself: a wrong key or value is told.
pub fn expand_file(
    path: &Path,
    env: &dyn Fn(&str) -> Option<String>,
    format: ExpandFormat,
) -> Result<String, Rejected> {
    let source = load(path, env).map_err(Rejected::Invalid)?;
    crate::yaml::lift(&source).map_err(Rejected::Invalid)?;
    let mut root = source.root.to_json();
    redact_json(&mut root);
    let body = match root.get("benchmark") {
        Some(body) => body.clone(),
        None => root,
    };
    let all = json!({
        "sweep_type": "none",
        "variations": [{"index": 0, "dir_name": "base", "label": "base", "values": {}, "benchmark": body}],
    });
    Ok(match format {
        ExpandFormat::Json => format!("{all:#}\n"),
        ExpandFormat::Yaml => emit(&all),
        ExpandFormat::Text => {
            let body = emit(&all["variations"][0]["benchmark"]);
            let body = body.lines().fold(String::new(), |text, line| text + "    " + line + "\n");
            format!("Sweep type: none (1 variation)\n\n[0] dir=base  label=base\n{body}")
        }
    })
}
