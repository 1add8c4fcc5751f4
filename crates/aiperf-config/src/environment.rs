//! Options from the environment: `AIPERF_` and the flag's name in capitals. Each use is told, because a variable set
//! long ago is easily forgotten.

use aiperf_core::text::for_terminal;

use crate::error::ConfigError;
use crate::options::{Id, OPTIONS};
use crate::place::Place;
use crate::redact::redact_url;
use crate::row::row_of;
use crate::settings::Settings;
use crate::value::{Value, from_text, parse_bool};
use crate::yaml::Env;

/// AIPerf's own variable for certificate checks, the one of its kind that is honoured.
pub(crate) const SSL_VERIFY: &str = "AIPERF_HTTP_SSL_VERIFY";

/// What the environment sets. Empty variables count as absent.
pub(crate) fn read(env: &Env<'_>, notes: &mut Vec<String>, errors: &mut Vec<ConfigError>) -> Settings {
    let mut settings = Settings::default();
    for row in OPTIONS {
        let Some((name, text)) = row.env().and_then(|n| env(&n).map(|t| (n, t))) else { continue };
        if text.is_empty() {
            continue;
        }
        let shown = if row.id == Id::Url { redact_url(&text) } else { for_terminal(&text, 200) };
        notes.push(format!("{name}={shown} in the environment sets {}", row.flag()));
        let place = Place::Env(name);
        match from_text(row, &text) {
            Ok(value) => settings.add(row.id, value, place),
            Err(trouble) => errors.push(trouble.at(place)),
        }
    }
    settings
}

/// Whether the environment turns the switch `id` on, for commands that make no plan.
pub fn switch_in_environment(id: Id, env: &dyn Fn(&str) -> Option<String>) -> Result<bool, ConfigError> {
    let row = row_of(id);
    let Some(name) = row.env() else { return Ok(false) };
    let Some(text) = env(&name).filter(|text| !text.is_empty()) else { return Ok(false) };
    let value = from_text(row, &text).map_err(|trouble| trouble.at(Place::Env(name)))?;
    Ok(matches!(value, Value::Bool(true)))
}

/// Whether certificates are checked.
pub(crate) fn verify_tls(env: &Env<'_>, notes: &mut Vec<String>, errors: &mut Vec<ConfigError>) -> bool {
    let Some(text) = env(SSL_VERIFY).filter(|t| !t.is_empty()) else { return true };
    match parse_bool(text.trim()) {
        Some(true) => true,
        Some(false) => {
            notes.push(format!(
                "{SSL_VERIFY}={text} in the environment turns certificate checks off: the server is not authenticated"
            ));
            false
        }
        None => {
            errors.push(ConfigError::BadValue {
                place: Place::Env(SSL_VERIFY.to_owned()),
                found: format!("'{text}'"),
                allowed: "true or false".to_owned(),
                nearest: None,
            });
            true
        }
    }
}
