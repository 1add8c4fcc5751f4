//! What the environment says of the hub, by the variables of its own tools.

use std::fmt;

use aiperf_core::url::{BaseUrl, Scheme};
use http::HeaderValue;

use crate::error::HubError;

/// The public hub.
const PUBLIC: &str = "https://huggingface.co";
const ENDPOINT: &str = "HF_ENDPOINT";
const TOKEN: &str = "HF_TOKEN";
/// Variables by which a user keeps the hub's tools from the network.
const OFFLINE: [&str; 2] = ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"];
/// The one for data sets alone.
const OFFLINE_SETS: &str = "HF_DATASETS_OFFLINE";

/// Where the hub is, who asks, and whether it may be asked at all.
#[derive(Clone)]
pub struct Settings {
    /// `HF_ENDPOINT`, else the public hub.
    pub endpoint: BaseUrl,
    /// `Authorization` made from `HF_TOKEN`.
    pub(crate) authorization: Option<HeaderValue>,
    /// The variable that forbids the network.
    pub offline: Option<&'static str>,
    /// The variable that forbids it for data sets.
    pub(crate) offline_sets: Option<&'static str>,
}

impl Settings {
    /// Reads the variables; `env` looks one up.
    pub fn from_env(env: &dyn Fn(&str) -> Option<String>) -> Result<Self, HubError> {
        let get = |name: &str| env(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let bad = |variable, problem: String| HubError::Variable { variable, problem };
        let text = get(ENDPOINT).unwrap_or_else(|| PUBLIC.to_owned());
        let endpoint = BaseUrl::parse(&text).map_err(|e| bad(ENDPOINT, e.to_string()))?;
        let problem = match endpoint {
            BaseUrl { scheme: Scheme::Sim, .. } => Some("has the scheme 'sim'; http and https are spoken"),
            BaseUrl { userinfo: Some(_), .. } => {
                Some("has a user in it; HF_TOKEN is what the hub is asked with")
            }
            BaseUrl { query: Some(_), .. } => Some("has a query"),
            _ => None,
        };
        if let Some(problem) = problem {
            return Err(bad(ENDPOINT, problem.to_owned()));
        }
        let authorization = match get(TOKEN) {
            None => None,
            Some(token) => {
                let unfit =
                    |_| bad(TOKEN, "has a character that no token has (a line end, perhaps)".to_owned());
                let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(unfit)?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        // The hub's tools take 1, ON, YES and TRUE for yes. A word that is neither that nor a no is taken for yes as well: to
        // stay away from the network can be undone, to have used it cannot.
        let is_set = |name: &&str| {
            get(name).is_some_and(|text| !["0", "false", "no", "off"].contains(&text.to_lowercase().as_str()))
        };
        let offline = OFFLINE.into_iter().find(is_set);
        let offline_sets = offline.or_else(|| Some(OFFLINE_SETS).filter(is_set));
        Ok(Self { endpoint, authorization, offline, offline_sets })
    }
}

/// Without the token.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("endpoint", &self.endpoint)
            .field("has_token", &self.authorization.is_some())
            .field("offline", &self.offline)
            .field("offline_sets", &self.offline_sets)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Settings, String> {
        let env = |name: &str| variables.iter().find(|v| v.0 == name).map(|v| v.1.to_owned());
        Settings::from_env(&env).map_err(|e| e.to_string())
    }

    #[test]
    fn the_public_hub_is_asked_without_a_token_unless_the_environment_says_otherwise() {
        let default = settings(&[("HF_ENDPOINT", ""), ("HF_TOKEN", " ")]).expect("sound");
        assert_eq!((default.endpoint.to_string().as_str(), default.offline), (PUBLIC, None));
        assert!(default.authorization.is_none());
        let own =
            settings(&[("HF_ENDPOINT", "http://h:1/api/hf/"), ("HF_TOKEN", "hf_abc\n")]).expect("sound");
        assert_eq!(own.endpoint.to_string(), "http://h:1/api/hf");
        assert_eq!(own.authorization.as_ref().expect("a token"), "Bearer hf_abc");
        assert!(!format!("{own:?}").contains("hf_abc"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_without_showing_the_token() {
        for (name, value, words) in [
            ("HF_ENDPOINT", "ftp://h", "HF_ENDPOINT has the scheme 'ftp'"),
            ("HF_ENDPOINT", "sim://", "HF_ENDPOINT has the scheme 'sim'"),
            ("HF_ENDPOINT", "https://u:secret@h", "HF_ENDPOINT has a user in it"),
            ("HF_ENDPOINT", "https://h?secret", "HF_ENDPOINT has a query"),
            ("HF_TOKEN", "secret\nsecret", "HF_TOKEN has a character"),
        ] {
            let said = settings(&[(name, value)]).expect_err(value);
            assert!(said.contains(words) && !said.contains("secret"), "{said}");
        }
    }

    #[test]
    fn either_variable_keeps_away_from_the_network() {
        for (variables, offline) in [
            (&[("HF_HUB_OFFLINE", "1")][..], Some("HF_HUB_OFFLINE")),
            (&[("TRANSFORMERS_OFFLINE", "yes")], Some("TRANSFORMERS_OFFLINE")),
            (&[("HF_HUB_OFFLINE", "0"), ("TRANSFORMERS_OFFLINE", "2")], Some("TRANSFORMERS_OFFLINE")),
            (&[("HF_HUB_OFFLINE", ""), ("TRANSFORMERS_OFFLINE", "Off")], None),
        ] {
            let found = settings(variables).expect("sound");
            assert_eq!((found.offline, found.offline_sets), (offline, offline), "{variables:?}");
        }
        let sets = settings(&[("HF_DATASETS_OFFLINE", "1")]).expect("sound");
        assert_eq!((sets.offline, sets.offline_sets), (None, Some("HF_DATASETS_OFFLINE")));
    }
}
