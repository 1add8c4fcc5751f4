//! What is left of URLs and configurations when their secrets are taken out.

use aiperf_core::secret::{
    REDACTED, is_sensitive_header, is_sensitive_parameter, redact_url_list, shown_header,
};
use serde_json::Value as Json;

use crate::extra::{self, Field};

/// Fields for a request body as a user types them, a JSON object or a list of `key:value` and `key:=json`, without the values of credential fields.
pub(crate) fn redact_fields(text: &str) -> String {
    if let Ok(mut json @ Json::Object(_)) = serde_json::from_str(text) {
        let before = json.clone();
        redact_json(&mut json);
        return if json == before { text.to_owned() } else { json.to_string() };
    }
    // What cannot be read is not known to hold no secret.
    let Ok(fields) = extra::fields(text) else { return REDACTED.to_owned() };
    let shown = fields.into_iter().map(|field| {
        let Field { key, mut value, is_json, written } = field;
        let sign = if is_json { ":=" } else { ":" };
        if is_sensitive_parameter(key) {
            return format!("{key}{sign}{REDACTED}");
        }
        let before = value.clone();
        redact_json(&mut value);
        if value == before { written.to_owned() } else { format!("{key}{sign}{value}") }
    });
    shown.collect::<Vec<_>>().join(",")
}

/// A template of a body, or what is not quite JSON, without the values of credential fields: a slip in one field is no reason to show
/// another.
pub(crate) fn redact_template(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(colon) = rest.find(':') {
        let (before, value) = rest.split_at(colon + 1);
        out.push_str(before);
        let name = before[..colon].rsplit([',', '{', '}']).next().unwrap_or_default();
        rest = value;
        if is_sensitive_parameter(name.trim().trim_matches(['"', '\''])) {
            out.push_str(REDACTED);
            rest = &value[value_end(value)..];
        }
    }
    out + rest
}

/// Where the value at the beginning of `text` ends: behind its closing quote or bracket, else before what separates fields. What is
/// not closed has no end.
fn value_end(text: &str) -> usize {
    let (mut depth, mut quote, mut is_escaped) = (0_usize, None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(open), _) => quote = quote.filter(|_| c != open),
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') if depth > 0 => depth -= 1,
            (None, ',' | '}') if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

/// Replaces, in a configuration as JSON, what must not be shown: keys, credential headers, URL credentials.
pub(crate) fn redact_json(value: &mut Json) {
    match value {
        Json::Object(map) => {
            for (key, value) in map.iter_mut() {
                match (key.to_lowercase().as_str(), &mut *value) {
                    (key, Json::String(s)) if is_sensitive_parameter(key) => REDACTED.clone_into(s),
                    ("headers", Json::Object(headers)) => {
                        for (name, value) in headers.iter_mut() {
                            *value = match value.as_str() {
                                Some(text) => Json::from(shown_header(name, text)),
                                None if is_sensitive_header(name) => Json::from(REDACTED),
                                None => value.clone(),
                            };
                        }
                    }
                    ("body", Json::String(template)) => *template = redact_template(template),
                    ("url" | "urls", value) => redact_urls(value),
                    ("extra", Json::String(fields)) => *fields = redact_fields(fields),
                    ("extra", Json::Array(items)) => {
                        for item in items {
                            match item {
                                Json::String(fields) => *fields = redact_fields(fields),
                                other => redact_json(other),
                            }
                        }
                    }
                    _ => redact_json(value),
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(redact_json),
        _ => {}
    }
}

fn redact_urls(value: &mut Json) {
    match value {
        Json::String(url) => *url = redact_url_list(url),
        Json::Array(items) => items.iter_mut().for_each(redact_urls),
        // A server with its weight.
        other => redact_json(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_lose_the_values_of_credentials_alone() {
        assert_eq!(
            redact_fields("ignore_eos:true,api_key:s,max_tokens:3"),
            "ignore_eos:true,api_key:<redacted>,max_tokens:3"
        );
        assert_eq!(
            redact_fields(r#"{"a": 1, "b": {"Token": "s"}}"#),
            r#"{"a":1,"b":{"Token":"<redacted>"}}"#
        );
        assert_eq!(redact_fields(r#"{"a":  1}"#), r#"{"a":  1}"#);
        assert_eq!(
            redact_fields(r#"api_key:="s,t", stop:=["a", "b"],m:={"token":"s"}"#),
            r#"api_key:=<redacted>, stop:=["a", "b"],m:={"token":"<redacted>"}"#
        );
        assert_eq!(redact_fields("api_key:a,b"), "<redacted>");
    }

    #[test]
    fn templates_lose_the_values_of_credentials_wherever_they_stand() {
        assert_eq!(
            redact_template(r#"{"auth": {"token": "s"}, "q": {{ text|tojson }}, "api_key": "s""#),
            r#"{"auth": {"token":<redacted>}, "q": {{ text|tojson }}, "api_key":<redacted>"#
        );
        assert_eq!(
            redact_template(
                r#"{"api_key": "s3,c}r\"e{t", "n": 1, "tokens": ["a"], "token": ["b", {"c": "}"}], 'password': 's,' , "token": "#
            ),
            r#"{"api_key":<redacted>, "n": 1, "tokens": ["a"], "token":<redacted>, 'password':<redacted>, "token":<redacted>"#
        );
        assert_eq!(
            redact_template(r#"{"url": "http://h:1", "token": "cut off, "#),
            r#"{"url": "http://h:1", "token":<redacted>"#
        );
    }

    #[test]
    fn a_configuration_loses_its_secrets_at_any_depth() {
        let mut extra = json!([{"extra": "token:k,a:1"}, {"extra": ["a:1", "token:=\"k\""]}]);
        redact_json(&mut extra);
        assert_eq!(
            extra,
            json!([{"extra": "token:<redacted>,a:1"}, {"extra": ["a:1", "token:=<redacted>"]}])
        );
        let mut value = json!({"benchmark": {"endpoint": {"apiKey": "k", "headers": {"Authorization": "x", "n": "y"},
            "urls": ["http://u:p@h", {"url": "http://u:p@i", "weight": 2}]}}, "list": [{"api_key": "k"}]});
        redact_json(&mut value);
        assert_eq!(
            value,
            json!({"benchmark": {"endpoint": {"apiKey": "<redacted>", "headers": {"Authorization": "<redacted>", "n": "y"},
                "urls": ["http://<redacted>@h", {"url": "http://<redacted>@i", "weight": 2}]}}, "list": [{"api_key": "<redacted>"}]})
        );
    }
}
