//! Delays as other tools write them: `NaN`, `Infinity` or a number beyond all floats, which JSON does not have.

use std::borrow::Cow;

/// Texts that stand for delays which are none.
const ENDLESS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// Whether the text in the place of a delay says that there is none, since it is no number or never ends.
pub fn is_endless_delay(text: &str) -> bool {
    ENDLESS.contains(&text)
}

/// The text for a delay that JSON cannot say.
pub(crate) fn name(token: &str) -> Option<&str> {
    match token {
        _ if is_endless_delay(token) => Some(token),
        _ if token.parse::<f64>().is_ok_and(f64::is_infinite) => Some("Infinity"),
        _ => None,
    }
}

/// The line with a text for each delay that JSON cannot say.
pub fn with_named_delays(line: &str) -> Cow<'_, str> {
    const KEY: &str = "\"delay\"";
    let (mut out, mut done) = (String::new(), 0);
    for (at, _) in line.match_indices(KEY) {
        // Inside of a text the quotes would be escaped.
        let is_key = !line[..at].ends_with('\\');
        let behind = &line[at + KEY.len()..];
        let Some(value) = behind.trim_start().strip_prefix(':').map(str::trim_start).filter(|_| is_key)
        else {
            continue;
        };
        let token = &value[..value.find([',', '}']).unwrap_or(value.len())];
        let token = token.trim_end();
        let Some(endless) = name(token) else { continue };
        let from = line.len() - value.len();
        out.push_str(&line[done..from]);
        out.extend(["\"", endless, "\""]);
        done = from + token.len();
    }
    if done == 0 {
        return Cow::Borrowed(line);
    }
    out.push_str(&line[done..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_delays_get_names() {
        for (line, wanted) in [
            (r#"{"delay":NaN}"#, r#"{"delay":"NaN"}"#),
            (r#"{"delay" : -Infinity , "a":NaN}"#, r#"{"delay" : "-Infinity" , "a":NaN}"#),
            (r#"{"a":{"delay":1e999},"delay":-1e999}"#, r#"{"a":{"delay":"Infinity"},"delay":"Infinity"}"#),
        ] {
            assert_eq!(with_named_delays(line), wanted);
        }
        for line in [r#"{"delay":5}"#, r#"{"t":"\"delay\": NaN"}"#, r#"{"delay":NaNs}"#, r#"{"delay""#, ""] {
            assert!(matches!(with_named_delays(line), Cow::Borrowed(same) if same == line), "{line}");
        }
    }
}
