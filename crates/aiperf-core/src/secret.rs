//! Which headers and parameters are secrets, and what is written in their place: one rule for everything that reaches a file or a screen.

use std::borrow::Cow;

/// Written in place of a secret; AIPerf's word.
pub const REDACTED: &str = "<redacted>";

/// Parts of a header name that tell of a credential, or of an id that servers route sessions by. A wrong guess costs
/// readability, a missed one a leak.
const SENSITIVE_PARTS: [&str; 12] = [
    "auth",
    "cookie",
    "credential",
    "csrf",
    "key",
    "passwd",
    "password",
    "secret",
    "session",
    "signature",
    "token",
    "xsrf",
];

/// Whether a header of this name carries a secret.
pub fn is_sensitive_header(name: &str) -> bool {
    let name = name.to_lowercase();
    SENSITIVE_PARTS.iter().any(|part| name.contains(part))
}

/// Whether a header's value tells of a credential although its name does not.
pub fn is_credential(value: &str) -> bool {
    let value = value.to_lowercase();
    ["bearer ", "basic "].iter().any(|scheme| value.contains(scheme))
}

/// What is shown of a header's value.
pub fn shown_header<'a>(name: &str, value: &'a str) -> Cow<'a, str> {
    if is_sensitive_header(name) || is_credential(value) {
        REDACTED.into()
    } else if name.eq_ignore_ascii_case("location") {
        redact_url(value).into()
    } else {
        value.into()
    }
}

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
pub fn redact_url(url: &str) -> String {
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
pub fn redact_url_list(text: &str) -> String {
    text.split(',').map(redact_url).collect::<Vec<_>>().join(",")
}

/// Path and query without the values of credential parameters.
pub(crate) fn redact_query(tail: &str) -> String {
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

/// Whether a query parameter or a field of a body of this name carries a credential.
pub fn is_sensitive_parameter(name: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_names() {
        for name in [
            "authorization",
            "X-API-Key",
            "api-key",
            "Ocp-Apim-Subscription-Key",
            "Cookie",
            "X-Acme-Token",
            "X-Session-Affinity",
        ] {
            assert_eq!(shown_header(name, "v"), REDACTED, "{name}");
        }
        for name in
            ["Accept", "Content-Type", "User-Agent", "X-Request-ID", "X-Correlation-ID", "Host", "X-Team"]
        {
            assert_eq!(shown_header(name, "v"), "v", "{name}");
        }
    }

    #[test]
    fn credentials_are_known_under_any_name() {
        assert_eq!(shown_header("X-Upstream", "Bearer abc"), REDACTED);
        assert_eq!(shown_header("X-Upstream", "basic YTpi"), REDACTED);
        assert_eq!(
            shown_header("Location", "http://u:p@h/x?token=s"),
            "http://<redacted>@h/x?token=<redacted>"
        );
    }

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
}
