//! `aiperf schema [NAME]`: the form of every file, for programs that read or check them.

use aiperf_core::text::nearest;
use clap::{Arg, ArgMatches, Command};
use serde_json::Value;

use crate::exit::{Exit, USAGE};
use crate::output;

/// Short name, what has the form, and how its schema is made.
type Form = (&'static str, &'static str, fn() -> Value);

/// Every form there is.
pub(crate) fn forms() -> Vec<Form> {
    let files = aiperf_report::FILE_SCHEMAS.iter().map(|schema| (schema.name, schema.file, schema.make));
    let others: [Form; 2] = [
        ("run", "profile_export_run.json", aiperf_run::run_file_schema),
        ("config", "a configuration file (YAML)", aiperf_config::json_schema),
    ];
    files.chain(others).collect()
}

/// The command.
pub(crate) fn command() -> Command {
    Command::new("schema")
        .about("Print the JSON Schema (draft 2020-12) of a file; without a name, list them")
        .arg(Arg::new("name").help("Which form, as the list has it"))
}

/// Prints the schema that was asked for, or the list.
pub(crate) fn run(matches: &ArgMatches) -> Exit {
    let forms = forms();
    let Some(name) = matches.get_one::<String>("name") else {
        let width = forms.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
        let list: Vec<String> =
            forms.iter().map(|(name, file, _)| format!("{name:width$}  {file}\n")).collect();
        return output::data(&list.concat());
    };
    if let Some((.., make)) = forms.iter().find(|(known, ..)| known == name) {
        return output::data(&text(&make()));
    }
    let names: Vec<&str> = forms.iter().map(|(name, ..)| *name).collect();
    let hint = nearest(name, names.iter().copied()).map(|n| format!(" Did you mean '{n}'?"));
    let names = names.join(", ");
    output::say(&format!(
        "error: there is no schema '{name}'.{} Schemas are {names}.",
        hint.unwrap_or_default()
    ));
    Exit(USAGE)
}

fn text(schema: &Value) -> String {
    // A value is always writable.
    let mut text = serde_json::to_string_pretty(schema).unwrap_or_default();
    text.push('\n');
    text
}
