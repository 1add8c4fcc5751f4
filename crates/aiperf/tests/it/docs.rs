//! The reference pages and schemas below `docs/reference` are what the code says. `AIPERF_BLESS=1` writes them anew.

use std::path::PathBuf;

use serde_json::Value;

/// Demands that the file holds `text`, or writes it when asked to.
#[track_caller]
fn same(name: &str, text: &str) {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "docs", "reference", name].iter().collect();
    if std::env::var_os("AIPERF_BLESS").is_some_and(|v| v == "1") {
        std::fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("the folder");
        std::fs::write(&path, text).expect("the page");
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let line = found.lines().zip(text.lines()).position(|(a, b)| a != b);
    assert!(
        found == text,
        "docs/reference/{name} is not what the code says (first at line {}); write it with AIPERF_BLESS=1",
        line.map_or(found.lines().count().min(text.lines().count()), |n| n) + 1
    );
}

fn json(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("JSON can be written");
    text.push('\n');
    text
}

#[test]
fn options() {
    same("options.md", &aiperf_config::reference_markdown());
}

#[test]
fn configuration_schema() {
    same("config.schema.json", &json(&aiperf_config::json_schema()));
}

#[test]
fn metrics() {
    same("metrics.md", &aiperf_metrics::reference_markdown());
}

#[test]
fn file_schemas() {
    for schema in aiperf_report::FILE_SCHEMAS {
        same(&format!("{}.schema.json", schema.name), &json(&(schema.make)()));
    }
    same("run.schema.json", &json(&aiperf_run::run_file_schema()));
}

#[test]
fn simulator() {
    same("simulator.md", &aiperf_sim::reference_markdown());
}
