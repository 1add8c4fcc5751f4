//! Secrets of a run, found again in what a server says: some repeat the key they refuse, and a proxy may print a whole request.

use aiperf_core::outcome::Failure;
use aiperf_core::plan::EndpointPlan;
use aiperf_core::secret::{REDACTED, is_credential, is_sensitive_header, is_sensitive_parameter};
use serde_json::Value;

use crate::headers::basic_authorization;

/// A shorter text is in too many words that are no secret (`EMPTY`, `none`, `test`).
const LEAST_CHARS: usize = 8;

/// What must not be shown of a server's words. Debug shows none of it.
#[derive(Clone, Default)]
pub struct KnownSecrets {
    /// Longest first, so that no part of one stays behind.
    texts: Vec<String>,
}

impl std::fmt::Debug for KnownSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KnownSecrets({})", self.texts.len())
    }
}

impl KnownSecrets {
    /// The key, credential headers, URL credentials, and credential fields of bodies.
    pub fn of(plan: &EndpointPlan) -> Self {
        let mut texts = Vec::new();
        if let Some(key) = &plan.api_key {
            texts.push(key.expose().to_owned());
        }
        for (name, value) in &plan.headers {
            header(name, value.expose(), &mut texts);
        }
        for target in &plan.targets {
            let url = &target.url;
            if let Some(userinfo) = &url.userinfo {
                texts.extend(userinfo.split_once(':').map(|(_, password)| password.to_owned()));
                texts
                    .extend(basic_authorization(userinfo).split_once(' ').map(|(_, coded)| coded.to_owned()));
                texts.push(userinfo.clone());
            }
            let parameters = url.query.as_deref().unwrap_or("").split('&');
            for (name, value) in parameters.filter_map(|parameter| parameter.split_once('=')) {
                if is_sensitive_parameter(name) {
                    texts.push(value.to_owned());
                }
            }
        }
        for (name, value) in &plan.extra {
            fields(name, value, &mut texts);
        }
        Self::new(texts)
    }

    /// These, and the credential headers that one request has of its own.
    #[must_use]
    pub fn with(&self, headers: &[(String, String)]) -> Self {
        let mut texts = self.texts.clone();
        for (name, value) in headers {
            header(name, value, &mut texts);
        }
        Self::new(texts)
    }

    fn new(mut texts: Vec<String>) -> Self {
        texts.retain(|text| text.chars().count() >= LEAST_CHARS);
        texts.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        texts.dedup();
        Self { texts }
    }

    /// `text` without any of them.
    pub fn hide(&self, text: &mut String) {
        for secret in &self.texts {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), REDACTED);
            }
        }
    }

    /// The same for all words of a failure.
    pub fn hide_in(&self, failure: &mut Failure) {
        self.hide(&mut failure.message);
        self.hide(&mut failure.type_name);
        if let Some(code) = &mut failure.server_code {
            self.hide(code);
        }
    }
}

/// A header's value, and what is behind the scheme in it.
fn header(name: &str, value: &str, texts: &mut Vec<String>) {
    if is_sensitive_header(name) || is_credential(value) {
        let value = value.trim();
        texts.push(value.to_owned());
        texts.extend(value.split_once(' ').map(|(_, credential)| credential.trim().to_owned()));
    }
}

/// Texts under a credential's name, at any depth.
fn fields(name: &str, value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) if is_sensitive_parameter(name) => texts.push(text.clone()),
        Value::Object(inner) => inner.iter().for_each(|(name, value)| fields(name, value, texts)),
        Value::Array(items) => items.iter().for_each(|value| fields(name, value, texts)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use aiperf_core::plan::{EndpointKind, Secret};
    use aiperf_core::url::BaseUrl;
    use serde_json::json;

    use super::*;

    #[test]
    fn all_that_is_sent_in_secret_is_known_again() {
        let url = BaseUrl::parse("http://user:passw0rd@h/v1?api_key=inTheQuery&x=plainValue").expect("a URL");
        let mut plan = EndpointPlan::new(EndpointKind::Chat, url);
        plan.api_key = Some(Secret::new("sk-123456789"));
        plan.headers = [("X-Token", "headerSecret"), ("X-Up", "Bearer upstreamKey"), ("X-Team", "plainTeam")]
            .map(|(n, v)| (n.to_owned(), Secret::new(v)))
            .into();
        let extra = json!({"auth": {"token": ["nestedToken"]}, "password": "none", "stop": "plainStop"});
        plan.extra = extra.as_object().expect("an object").clone();
        let known = KnownSecrets::of(&plan);
        let mut said = "no: sk-123456789 headerSecret upstreamKey passw0rd dXNlcjpwYXNzdzByZA== inTheQuery nestedToken, \
                        but plainValue plainTeam plainStop none"
            .to_owned();
        known.hide(&mut said);
        let r = REDACTED;
        assert_eq!(said, format!("no: {r} {r} {r} {r} {r} {r} {r}, but plainValue plainTeam plainStop none"));
        assert!(!format!("{known:?}").contains("sk-"));
    }

    #[test]
    fn what_one_request_sends_in_secret_is_known_beside_the_rest() {
        let mut plan = EndpointPlan::new(EndpointKind::Chat, BaseUrl::parse("http://h").expect("a URL"));
        plan.api_key = Some(Secret::new("abcdefgh"));
        let own = [("authorization", "Bearer abcdefgh-row"), ("X-Team", "plainTeam")];
        let known = KnownSecrets::of(&plan).with(&own.map(|(n, v)| (n.to_owned(), v.to_owned())));
        let mut said = "abcdefgh-row of plainTeam, or abcdefgh".to_owned();
        known.hide(&mut said);
        assert_eq!(said, format!("{REDACTED} of plainTeam, or {REDACTED}"));
    }

    #[test]
    fn no_part_of_a_longer_one_stays_behind() {
        let mut plan = EndpointPlan::new(EndpointKind::Chat, BaseUrl::parse("http://h").expect("a URL"));
        plan.api_key = Some(Secret::new("abcdefgh"));
        plan.headers = vec![("X-Key".to_owned(), Secret::new("abcdefgh-more"))];
        let mut said = "abcdefgh-more".to_owned();
        KnownSecrets::of(&plan).hide(&mut said);
        assert_eq!(said, REDACTED);
    }
}
