//! One table of options; command line, environment and configuration file merged into a validated
//! [`Plan`].
//!
//! The way of a value: [`OPTIONS`] says how an option is spelled and what it takes. The command line, the environment and
//! a file are each read by it into settings that remember where they were written. The layers are merged (flag over
//! environment over file over default), then the rules between options are checked and the plan is made. Whatever is
//! wrong on that way is collected and told together. Help, the reference page and the JSON schema come from the same rows.
//!
//! To add an option: one row in `options.rs`, and its meaning in `resolve/`.

mod aiperf;
mod cli_command;
mod environment;
mod error;
mod extra;
mod file;
mod flags;
mod help;
mod input_config;
mod lengths;
mod objectives;
mod options;
mod place;
mod rate_series;
mod redact;
mod reference;
mod resolve;
mod row;
mod schema;
mod settings;
mod value;
mod yaml;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;

use aiperf_core::plan::Plan;

pub use environment::switch_in_environment;
pub use error::{ConfigError, Rejected};
pub use file::{ExpandFormat, expand_file, validate_file};
pub use help::profile_command;
pub use options::{Id, OPTIONS};
pub use place::{Place, Position};
pub use reference::reference_markdown;
pub use row::{Default, Group, Kind, Row, row_by_flag, row_of};
pub use schema::json_schema;

use resolve::Resolver;
use settings::Settings;
use yaml::Structure;

/// A plan, and what the user should be told about how it came to be, one line each.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The plan.
    pub plan: Plan,
    /// Lines for stderr: variables used, forms read generously, options without effect.
    pub notes: Vec<String>,
    /// Leave to fetch the plan's tokenizer from the hub where it is not here. No part of the plan: it changes no number.
    pub download_tokenizer: bool,
    /// The same for its public data set.
    pub download_dataset: bool,
    /// Nothing is to be sent; what would be is told in this form.
    pub dry_run: Option<DryRunFormat>,
}

/// What a dry run prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DryRunFormat {
    /// A page to be read.
    Text,
    /// What `dry_run.json` holds.
    Json,
}

/// The plan that a command line makes.
///
/// `argv` holds the words after `profile`; `env` looks a variable up; `draw_seed` is asked for a seed when none is
/// given. [`Rejected`] is the help text, a wish for the version, or everything that is wrong.
pub fn resolve_profile(
    argv: &[OsString],
    env: &dyn Fn(&str) -> Option<String>,
    draw_seed: &dyn Fn() -> u64,
) -> Result<Resolved, Rejected> {
    let line = flags::parse(argv);
    if let Some(long) = line.help {
        let mut command = profile_command().bin_name("aiperf profile");
        let text = if long { command.render_long_help() } else { command.render_help() };
        return Err(Rejected::Help(text.to_string()));
    }
    if line.version {
        return Err(Rejected::Version);
    }
    let command = cli_command::cli_command(argv);
    resolve_layers(line.settings, line.config.as_deref(), env, draw_seed, command, line.errors)
}

fn dry_run(settings: &Settings) -> Option<DryRunFormat> {
    let is_json = settings.text_or_default(Id::DryRunFormat) == "json";
    settings.is_on(Id::DryRun).then_some(if is_json { DryRunFormat::Json } else { DryRunFormat::Text })
}

/// Merges the layers below `settings` and makes the plan.
fn resolve_layers(
    mut settings: Settings,
    config: Option<&Path>,
    env: &dyn Fn(&str) -> Option<String>,
    draw_seed: &dyn Fn() -> u64,
    cli_command: String,
    mut errors: Vec<ConfigError>,
) -> Result<Resolved, Rejected> {
    let mut notes = Vec::new();
    settings.merge(environment::read(env, &mut notes, &mut errors));
    let mut structure = Structure::default();
    if let Some(path) = config {
        match yaml::load(path, env).and_then(|source| yaml::lift(&source)) {
            Ok(lifted) => {
                settings.merge(lifted.settings);
                structure = lifted.structure;
                structure.give_lone_phases_to(&mut settings);
                notes.extend(lifted.notes);
            }
            Err(more) => errors.extend(more),
        }
    }
    // Rules between options are only worth telling when the options themselves could be read.
    let unread = !errors.is_empty();
    let public = resolve::public::find(&mut settings, &structure, &mut errors);
    let mut resolver =
        Resolver { settings: &settings, whole: &settings, structure: &structure, env, public, notes, errors };
    if unread && config.is_some() {
        return Err(Rejected::Invalid(resolver.errors));
    }
    match resolver.plan(draw_seed, cli_command) {
        Some(plan) if resolver.errors.is_empty() => Ok(Resolved {
            plan,
            notes: resolver.notes,
            download_tokenizer: settings.is_on(Id::TokenizerDownload),
            download_dataset: settings.is_on(Id::DatasetDownload),
            dry_run: dry_run(&settings),
        }),
        _ => Err(Rejected::Invalid(resolver.errors)),
    }
}
