//! What is left of URLs and configurations when their secrets are taken out.

use aiperf_core::secret::{REDACTED, is_sensitive_header, shown_header};
use serde_json::Value as Json;

use crate::extra::{self, Field};

/// Query parameters that carry credentials, with `-`, `_` and spaces dropped.
const SENSITIVE_PARAMETERS: &[&str] = &[
    "apikey",
    "key",
    "token",
    "accesstoken",
    "authtoken",
    "bearertoken",
    "idtoken",
    "refreshtoken",
    "secret",
    "clientsecret",
    "password",
    "passwd",
    "credential",
    "accesskeyid",
    "awsaccesskeyid",
    "sig",
    "signature",
    "xamzsignature",
    "xamzsecuritytoken",
    "xamzcredential",
    "xgoogsignature",
    "xgoogcredential",
];

/// A URL without user information and without the values of credential parameters.
pub(crate) fn redact_url(url: &str) -> String {
    let (scheme, rest) = match url.find("://") {
        Some(i) => url.split_at(i + 3),
        None => ("", url),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let host = match authority.rfind('@') {
        Some(i) => format!("{REDACTED}{}", &authority[i..]),
        None => authority.to_owned(),
    };
    format!("{scheme}{host}{}", redact_query(tail))
}

/// Several URLs in one text, separated by commas.
pub(crate) fn redact_url_list(text: &str) -> String {
    text.split(',').map(redact_url).collect::<Vec<_>>().join(",")
}

fn redact_query(tail: &str) -> String {
    let Some((path, query)) = tail.split_once('?') else { return tail.to_owned() };
    let (query, fragment) = match query.find('#') {
        Some(i) => query.split_at(i),
        None => (query, ""),
    };
    let parameters: Vec<String> = query
        .split('&')
        .map(|parameter| match parameter.split_once('=') {
            Some((name, _)) if is_sensitive_parameter(name) => format!("{name}={REDACTED}"),
            _ => parameter.to_owned(),
        })
        .collect();
    format!("{path}?{}{fragment}", parameters.join("&"))
}

pub(crate) fn is_sensitive_parameter(name: &str) -> bool {
    let plain: String = percent_decoded(name)
        .to_lowercase()
        .chars()
        .filter(|c| !matches!(c, '-' | '_' | ' ' | '+'))
        .collect();
    SENSITIVE_PARAMETERS.contains(&plain.as_str())
}

/// A server decodes a parameter's name before it looks at it, so `api%5Fkey` is `api_key`.
fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = bytes.get(i + 1..i + 3).and_then(|h| std::str::from_utf8(h).ok());
        if let Some(byte) = hex.filter(|_| bytes[i] == b'%').and_then(|h| u8::from_str_radix(h, 16).ok()) {
            out.push(byte);
            i += 3;
        } else {
            out.push(bytes[i]);
            i += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

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
    fn urls_lose_user_information_and_credential_parameters() {
        assert_eq!(redact_url("http://u:p@h/v1"), "http://<redacted>@h/v1");
        assert_eq!(redact_url("u:p@h:80"), "<redacted>@h:80");
        assert_eq!(redact_url("http://u:p@q@h"), "http://<redacted>@h");
        assert_eq!(redact_url("http://h/users@x?email=a@b"), "http://h/users@x?email=a@b");
        assert_eq!(
            redact_url("http://h?a=1&api%5Fkey=s&token_count=3#f"),
            "http://h?a=1&api%5Fkey=<redacted>&token_count=3#f"
        );
        assert_eq!(redact_url("sim://?ttft=20"), "sim://?ttft=20");
        assert_eq!(redact_url_list("http://u:p@h,v:q@i"), "http://<redacted>@h,<redacted>@i");
    }

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
