//! Options from the environment: `AIPERF_` and the flag's name in capitals. Each use is told, because a variable set
//! long ago is easily forgotten.

use aiperf_core::plan::IpVersion;
use aiperf_core::secret::redact_url_list;
use aiperf_core::text::for_terminal;

use crate::error::ConfigError;
use crate::options::{Id, OPTIONS};
use crate::place::Place;
use crate::row::row_of;
use crate::settings::Settings;
use crate::value::{Value, from_text, parse_bool};
use crate::yaml::Env;

/// AIPerf's own variable for certificate checks, the one of its kind that is honoured.
pub(crate) const SSL_VERIFY: &str = "AIPERF_HTTP_SSL_VERIFY";

/// AIPerf's own variable for proxies.
pub(crate) const TRUST_ENV: &str = "AIPERF_HTTP_TRUST_ENV";

/// AIPerf's own variable for the addresses that a name may have.
pub(crate) const IP_VERSION: &str = "AIPERF_HTTP_IP_VERSION";
/// AIPerf's own variable for the column that names the sessions of a `baseten_trace`.
const SESSION_COLUMN: &str = "AIPERF_DATASET_BASETEN_SESSION_COLUMN";
/// AIPerf's variables about its timer, which has no counterpart here.
const TIMING: &[&str] = &[
    "AIPERF_TIMING_MAX_CATCHUP_SECONDS",
    "AIPERF_TIMING_HIGH_RES_TIMER",
    "AIPERF_TIMING_RATE_RAMP_UPDATE_INTERVAL",
];

/// What the environment sets. Empty variables count as absent.
pub(crate) fn read(env: &Env<'_>, notes: &mut Vec<String>, errors: &mut Vec<ConfigError>) -> Settings {
    let mut settings = Settings::default();
    for row in OPTIONS {
        let Some((name, text)) = row.env().and_then(|n| env(&n).map(|t| (n, t))) else { continue };
        if text.is_empty() {
            continue;
        }
        let shown = if row.id == Id::Url { redact_url_list(&text) } else { for_terminal(&text, 200) };
        notes.push(format!("{name}={shown} in the environment sets {}", row.flag()));
        let place = Place::Env(name);
        match from_text(row, &text) {
            Ok(value) => settings.add(row.id, value, place),
            Err(trouble) => errors.push(trouble.at(place)),
        }
    }
    let idle: Vec<&str> =
        TIMING.iter().copied().filter(|name| env(name).is_some_and(|t| !t.is_empty())).collect();
    if !idle.is_empty() {
        notes.push(format!(
            "{} in the environment has no effect: arrivals are computed, none is moved, and ramps have no steps of time",
            idle.join(", ")
        ));
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

/// One of AIPerf's own variables, if it is set to true or false.
fn told(env: &Env<'_>, name: &str, errors: &mut Vec<ConfigError>) -> Option<bool> {
    let text = env(name).filter(|t| !t.is_empty())?;
    let value = parse_bool(text.trim());
    if value.is_none() {
        errors.push(ConfigError::BadValue {
            place: Place::Env(name.to_owned()),
            found: format!("'{}'", for_terminal(&text, 60)),
            allowed: "true or false".to_owned(),
            nearest: None,
        });
    }
    value
}

/// Whether certificates are checked.
pub(crate) fn verify_tls(env: &Env<'_>, notes: &mut Vec<String>, errors: &mut Vec<ConfigError>) -> bool {
    let verify = told(env, SSL_VERIFY, errors).unwrap_or(true);
    if !verify {
        notes.push(format!(
            "{SSL_VERIFY}=false in the environment turns certificate checks off: the server is not authenticated"
        ));
    }
    verify
}

/// Which addresses of a server's name are used: both kinds, unless AIPerf's variable says otherwise.
pub(crate) fn ip_version(env: &Env<'_>, notes: &mut Vec<String>, errors: &mut Vec<ConfigError>) -> IpVersion {
    let Some(text) = env(IP_VERSION).filter(|t| !t.is_empty()) else { return IpVersion::Any };
    let (version, which) = match text.trim().to_ascii_lowercase().as_str() {
        "4" => (IpVersion::Four, "IPv4 addresses alone"),
        "6" => (IpVersion::Six, "IPv6 addresses alone"),
        "auto" => return IpVersion::Any,
        _ => {
            errors.push(ConfigError::BadValue {
                place: Place::Env(IP_VERSION.to_owned()),
                found: format!("'{}'", for_terminal(&text, 60)),
                allowed: "4, 6 or auto".to_owned(),
                nearest: None,
            });
            return IpVersion::Any;
        }
    };
    notes.push(format!("{IP_VERSION}={} in the environment has servers reached by {which}", text.trim()));
    version
}

/// Whether AIPerf's variable wants the sessions of a `baseten_trace` told by their derived column.
pub(crate) fn derived_sessions(
    env: &Env<'_>,
    notes: &mut Vec<String>,
    errors: &mut Vec<ConfigError>,
) -> bool {
    const WORDS: [&str; 2] = ["provided_session_id", "poor_man_session_id"];
    let Some(text) = env(SESSION_COLUMN).filter(|t| !t.is_empty()) else { return false };
    let Some(at) = WORDS.iter().position(|word| *word == text.trim()) else {
        errors.push(ConfigError::BadValue {
            place: Place::Env(SESSION_COLUMN.to_owned()),
            found: format!("'{}'", for_terminal(&text, 60)),
            allowed: WORDS.join(" or "),
            nearest: None,
        });
        return false;
    };
    notes.push(format!("{SESSION_COLUMN} in the environment has sessions told by {}", WORDS[at]));
    at == 1
}

/// Whether AIPerf's variable asks for the proxies of the environment.
pub(crate) fn trust_env(env: &Env<'_>, errors: &mut Vec<ConfigError>) -> bool {
    told(env, TRUST_ENV, errors).unwrap_or(false)
}
