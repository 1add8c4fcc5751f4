//! The leave to fetch a tokenizer, for the commands that have no plan: `--tokenizer-download`, or its variable, as for a run.

use std::sync::Arc;

use aiperf_config::{Id, switch_in_environment};
use aiperf_core::plan::TokenizerPlan;
use aiperf_hub::{Download, Said, Teller};
use aiperf_tokens::Tokenizer;
use clap::{Arg, ArgAction, ArgMatches};

use super::profile::progress_on_terminal;
use crate::output;

const FLAG: &str = "tokenizer-download";

/// The flag.
pub(crate) fn arg() -> Arg {
    Arg::new(FLAG)
        .long(FLAG)
        .action(ArgAction::SetTrue)
        .help("Fetch a tokenizer that is not here from the hub into the hub's cache [env: AIPERF_TOKENIZER_DOWNLOAD]")
}

/// Opens the tokenizer `name`. What is wrong with it is told, and nothing is given back.
pub(crate) fn open(name: &str, matches: &ArgMatches) -> Option<Arc<dyn Tokenizer>> {
    let in_environment = match switch_in_environment(Id::TokenizerDownload, &|name| std::env::var(name).ok())
    {
        Ok(is_on) => is_on,
        Err(error) => {
            output::fail(&error);
            return None;
        }
    };
    let fetching = output::Fetching::new(progress_on_terminal());
    let say = |said: Said<'_>| fetching.say(said);
    let download = if in_environment || matches.get_flag(FLAG) {
        Download::WhenMissing(Teller { say: &say, is_drawn: fetching.is_drawn })
    } else {
        Download::Never
    };
    aiperf_hub::open(&TokenizerPlan { name: name.to_owned() }, download)
        .inspect_err(|error| output::fail(error))
        .ok()
}
