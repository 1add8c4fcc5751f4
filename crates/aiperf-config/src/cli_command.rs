//! The command line as it is recorded: AIPerf's quoting (texts in single quotes, flags and numbers bare), secrets replaced.

use std::ffi::OsString;

use aiperf_core::secret::{REDACTED, is_credential, is_sensitive_header, redact_url_list};

use crate::flags::{Word, classify};
use crate::options::Id;
use crate::redact::{redact_fields, redact_template};

/// `aiperf profile …` for the words after `profile`.
pub(crate) fn cli_command(argv: &[OsString]) -> String {
    let mut out = String::from("aiperf profile");
    let mut current = None;
    let mut awaits_value = false;
    for word in argv {
        let word = word.to_string_lossy();
        out.push(' ');
        match classify(&word) {
            Word::Known { row, spelling, inline, .. } => {
                current = Some(row.id);
                awaits_value = inline.is_none() && !row.kind.is_switch();
                match inline {
                    // What stands between flag and value, `=` or nothing, stays as it was typed.
                    Some(value) => {
                        out.push_str(spelling);
                        out.push_str(&word[spelling.len()..word.len() - value.len()]);
                        out.push_str(&redacted(row.id, value));
                    }
                    None => out.push_str(&word),
                }
            }
            // The value of a flag may start with a dash, and a key that does must not be taken for a flag.
            Word::Unknown(_) if !awaits_value => {
                current = None;
                out.push_str(&word);
            }
            Word::Unknown(_) | Word::Plain => {
                awaits_value = false;
                let safe = current.map_or_else(|| word.to_string(), |id| redacted(id, &word));
                out.push_str(&quoted(&safe));
            }
        }
    }
    out
}

fn redacted(id: Id, value: &str) -> String {
    match id {
        Id::ApiKey => REDACTED.to_owned(),
        Id::ExtraInputs => redact_fields(value),
        Id::PayloadTemplate => redact_template(value),
        Id::Url => redact_url_list(value),
        Id::Header if is_sensitive_header(value.split(':').next().unwrap_or(value)) => {
            match value.split_once(':') {
                Some((name, _)) => format!("{name}:{REDACTED}"),
                None => REDACTED.to_owned(),
            }
        }
        // Several headers in one word, or JSON: if a credential's name is anywhere in it, none of it is shown.
        Id::Header if is_sensitive_header(value) || is_credential(value) => REDACTED.to_owned(),
        _ => value.to_owned(),
    }
}

fn quoted(text: &str) -> String {
    let is_number = text.parse::<f64>().is_ok_and(f64::is_finite)
        && text.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'-');
    if is_number { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(words: &[&str]) -> String {
        cli_command(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn quotes_as_the_reference_does() {
        assert_eq!(
            recorded(&[
                "--model",
                "mock-model",
                "--url",
                "http://h:8000",
                "--streaming",
                "--isl",
                "50",
                "--ui",
                "none"
            ]),
            "aiperf profile --model 'mock-model' --url 'http://h:8000' --streaming --isl 50 --ui 'none'"
        );
        assert_eq!(recorded(&["--extra-inputs", "a:it's"]), r"aiperf profile --extra-inputs 'a:it'\''s'");
        assert_eq!(recorded(&["--request-rate=2.5", "-m=x"]), "aiperf profile --request-rate=2.5 -m=x");
    }

    #[test]
    fn no_secret_gets_through() {
        for words in [
            &["--api-key", "s3cret"][..],
            &["--api-key=s3cret"],
            &["--api_key", "s3cret"],
            &["--api-key", "-s3cret"],
            &["--extra-inputs", "a:1,api_key:s3cret"],
            &["--extra-inputs={\"api_key\": \"s3cret\"}"],
            &["--payload-template", "{\"q\": {{ text|tojson }}, \"api_key\": \"s3cret\"}"],
            &["-H", "X-Plain:Bearer s3cret"],
            &["-H", "Authorization:Bearer s3cret"],
            &["-HX-Api-Key:s3cret"],
            &["--header=X-Auth-Token: s3cret"],
            &["--header", "a:b", "Cookie:s3cret"],
            &["--header", "a:b,Cookie:s3cret"],
            &["-H", r#"{"Authorization": "s3cret"}"#],
            &["--url", "http://u:s3cret@h"],
            &["--url", "http://a", "u:s3cret@h"],
            &["-uhttp://u:s3cret@h"],
            &["-u=http://u:s3cret@h"],
            &["--url=http://h?api_key=s3cret"],
        ] {
            let text = recorded(words);
            assert!(!text.contains("s3cret"), "{text}");
            assert!(text.contains("<redacted>"), "{text}");
        }
    }
}
