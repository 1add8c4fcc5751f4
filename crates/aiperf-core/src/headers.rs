//! What may be said in a header of a request.

/// Headers that frame the message: a value of the user's would break it.
const FRAMING: [&str; 3] = ["content-length", "transfer-encoding", "te"];
/// Headers that tell requests and sessions apart, which are ours.
const OURS: [&str; 2] = ["x-request-id", "x-session-affinity"];

fn is_one_of(names: &[&str], name: &str) -> bool {
    names.iter().any(|other| other.eq_ignore_ascii_case(name))
}

/// Whether a header says how long a message is, so that nobody else may say it.
pub fn is_framing(name: &str) -> bool {
    is_one_of(&FRAMING, name)
}

/// Whether a text can be the name of a header (RFC 9110, 5.6.2).
pub fn is_token(text: &str) -> bool {
    let is_mark = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte))
}

/// Whether one request alone may have a header of this name.
pub fn is_own_name(name: &str) -> bool {
    is_token(name) && !is_framing(name) && !is_one_of(&OURS, name) && !name.eq_ignore_ascii_case("host")
}

/// Whether a text can be the value of a header: nothing in it ends the line or drives a terminal (RFC 9110, 5.5).
pub fn is_value(text: &str) -> bool {
    text.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_tokens_and_values_are_one_line() {
        assert!(is_own_name("X-Tenant") && is_own_name("authorization"));
        let wrong = ["", "a b", "a:", "h\u{e9}", "Content-Length", "te", "HOST", "X-Request-Id"];
        assert!(!wrong.into_iter().any(is_own_name));
        assert!(is_value("a\tb \u{e9}") && is_value(""));
        assert!(!["a\nb", "a\rb", "\0", "\u{7f}"].into_iter().any(is_value));
    }
}
