//! Which headers are secrets, and what is written in their place: one rule for everything that reaches a file or a screen.

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
pub fn shown_header<'a>(name: &str, value: &'a str) -> &'a str {
    if is_sensitive_header(name) || is_credential(value) { REDACTED } else { value }
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
    }
}
