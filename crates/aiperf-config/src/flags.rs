//! The command line, read by the table. Written here and not with clap's parser, because every mistake is to be told at
//! once, AIPerf's flags are refused by name, and a list option takes values until the next flag as AIPerf's do; clap
//! makes the help and the completions from the same rows.

use std::ffi::OsString;
use std::path::PathBuf;

use aiperf_core::text::{for_terminal, nearest};

use crate::aiperf;
use crate::error::ConfigError;
use crate::options::{Id, OPTIONS};
use crate::place::Place;
use crate::row::{Kind, Row, row_by_flag};
use crate::settings::Settings;
use crate::value::{Value, from_text, parse_bool};

/// What a command line says.
#[derive(Debug, Default)]
pub(crate) struct CommandLine {
    pub settings: Settings,
    pub config: Option<PathBuf>,
    /// `-h` (false) or `--help` (true).
    pub help: Option<bool>,
    pub version: bool,
    pub errors: Vec<ConfigError>,
}

/// A word of the command line that starts like a flag.
pub(crate) enum Word<'a> {
    /// A flag of the table, how it was spelled, and its value behind `=` or glued to a short flag.
    Known { row: &'static Row, spelling: &'a str, inline: Option<&'a str>, negated: bool },
    /// Another flag; dashes included, without its value.
    Unknown(&'a str),
    /// A value.
    Plain,
}

/// What a word is.
pub(crate) fn classify(word: &str) -> Word<'_> {
    if let Some(body) = word.strip_prefix("--") {
        let (name, inline) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        let spelling = &word[..2 + name.len()];
        if let Some(row) = row_by_flag(name) {
            return Word::Known { row, spelling, inline, negated: false };
        }
        let positive = name.replace('_', "-").strip_prefix("no-").and_then(row_by_flag);
        return match positive.filter(|r| r.kind == Kind::Bool) {
            Some(row) => Word::Known { row, spelling, inline, negated: true },
            None => Word::Unknown(spelling),
        };
    }
    let Some(body) = word.strip_prefix('-').filter(|b| !b.is_empty()) else { return Word::Plain };
    let by_short = |name: &str| OPTIONS.iter().find(|r| r.shorts.contains(&name));
    let name = body.split_once('=').map_or(body, |(n, _)| n);
    if let Some(row) = by_short(name) {
        let inline = body.split_once('=').map(|(_, v)| v);
        return Word::Known { row, spelling: &word[..=name.len()], inline, negated: false };
    }
    let first = body.chars().next().map_or(0, char::len_utf8);
    match by_short(&body[..first]) {
        Some(row) if !row.kind.is_switch() => {
            Word::Known { row, spelling: &word[..=first], inline: Some(&body[first..]), negated: false }
        }
        _ if body.starts_with(|c: char| c.is_ascii_digit() || c == '.') => Word::Plain,
        _ => Word::Unknown(word),
    }
}

/// Stands for a word that is no text, as none that is does.
const NO_TEXT: &str = "\0";

/// Reads the words after `profile`.
pub(crate) fn parse(argv: &[OsString]) -> CommandLine {
    let mut out = CommandLine::default();
    let mut words = Vec::with_capacity(argv.len());
    for word in argv {
        if word.to_str().is_none() {
            out.errors.push(ConfigError::NotUtf8 { text: for_terminal(&word.to_string_lossy(), 120) });
        }
        words.push(word.to_str().unwrap_or(NO_TEXT));
    }
    let mut i = 0;
    while i < words.len() {
        let word = words[i];
        i += 1;
        match classify(word) {
            Word::Plain if word == NO_TEXT => {}
            Word::Plain => {
                // Only a flag's own name without its dashes is worth a hint; a stray value resembles flags by chance.
                let nearest = row_by_flag(word).map(Row::flag);
                out.errors.push(ConfigError::Unexpected { text: word.to_owned(), nearest });
            }
            Word::Unknown("--help") => out.help = Some(true),
            Word::Unknown("-h") => out.help = out.help.or(Some(false)),
            Word::Unknown("--version" | "-V") => out.version = true,
            Word::Unknown(flag) => {
                out.errors.push(unknown(flag));
                // Its values belong to it and are no mistakes of their own.
                while i < words.len() && matches!(classify(words[i]), Word::Plain) {
                    i += 1;
                }
            }
            Word::Known { row, spelling, inline, negated } => {
                let mut values = Vec::new();
                if let Some(value) = inline {
                    values.push(value);
                } else if !row.kind.is_switch() {
                    // A text may start with a dash (`--isl -4` is a wrong value, not a flag), a flag of ours may not be eaten.
                    if i < words.len()
                        && !matches!(classify(words[i]), Word::Known { .. })
                        && !words[i].starts_with("--")
                    {
                        values.push(words[i]);
                        i += 1;
                    }
                    let takes_more = row.kind.is_repeatable() && row.id != Id::Model;
                    while takes_more && i < words.len() && matches!(classify(words[i]), Word::Plain) {
                        values.push(words[i]);
                        i += 1;
                    }
                }
                // That it is no text was told.
                if !values.contains(&NO_TEXT) {
                    out.set(row, spelling, &values, negated);
                }
            }
        }
    }
    out
}

impl CommandLine {
    fn set(&mut self, row: &'static Row, spelling: &str, values: &[&str], negated: bool) {
        let place = Place::Flag(spelling.to_owned());
        if row.kind.is_switch() {
            let value = match values.first() {
                None => true,
                Some(text) => match parse_bool(text) {
                    Some(value) => value,
                    None => {
                        return self.errors.push(ConfigError::BadValue {
                            place,
                            found: format!("'{text}'"),
                            allowed: row.kind.allowed(),
                            nearest: None,
                        });
                    }
                },
            };
            if row.kind == Kind::Off && !value {
                return self.errors.push(ConfigError::NotYet {
                    place: Place::Flag(format!("{spelling}=false")),
                    what: "asks for an AIPerf feature that".to_owned(),
                });
            }
            if row.kind != Kind::Off && self.settings.has(row.id) {
                return self.errors.push(ConfigError::Repeated { flag: spelling.to_owned() });
            }
            return self.settings.add(row.id, Value::Bool(value != negated), place);
        }
        if values.is_empty() {
            return self
                .errors
                .push(ConfigError::MissingValue { flag: spelling.to_owned(), allowed: row.kind.allowed() });
        }
        if !row.kind.is_repeatable()
            && (self.settings.has(row.id) || (row.id == Id::Config && self.config.is_some()))
        {
            return self.errors.push(ConfigError::Repeated { flag: spelling.to_owned() });
        }
        for text in values {
            match from_text(row, text) {
                Ok(Value::Text(path)) if row.id == Id::Config => self.config = Some(path.into()),
                Ok(value) => self.settings.add(row.id, value, place.clone()),
                Err(trouble) => self.errors.push(trouble.at(place.clone())),
            }
        }
    }
}

fn unknown(flag: &str) -> ConfigError {
    if aiperf::has_flag(flag) {
        return ConfigError::NotYet {
            place: Place::Flag(flag.to_owned()),
            what: "is an AIPerf option".to_owned(),
        };
    }
    ConfigError::UnknownFlag { flag: flag.to_owned(), nearest: near_flag(flag) }
}

fn near_flag(flag: &str) -> Option<String> {
    let all: Vec<String> = OPTIONS.iter().flat_map(|r| r.flags).map(|f| format!("--{f}")).collect();
    nearest(&flag.replace('_', "-"), all.iter().map(String::as_str)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> CommandLine {
        parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    fn errors(line: &str) -> Vec<String> {
        read(line).errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_flag_of_the_reference_is_accepted_or_refused_by_its_name() {
        for flag in aiperf::flags().flatten() {
            let said = errors(&format!("{flag} 1")).join("\n");
            let refused = said.contains("is an AIPerf option this version does not have yet");
            let known = matches!(classify(flag), Word::Known { .. });
            assert!(refused != known, "{flag}: {said}");
            if refused {
                assert_eq!(said, format!("{flag} is an AIPerf option this version does not have yet"));
            }
            if flag.starts_with("--") {
                assert_eq!(aiperf::is_accepted(flag), known, "{flag}");
            }
        }
    }

    #[test]
    fn values_come_as_the_reference_takes_them() {
        let line = read(
            "-m a,b --model=c --url http://x http://y -uhttp://z,w --concurrency=4 --request_rate 2.5 -vv",
        );
        assert!(line.errors.is_empty(), "{:?}", line.errors);
        let s = &line.settings;
        assert_eq!(s.list(Id::Model).map(<[_]>::to_vec), Some(vec!["a".into(), "b".into(), "c".into()]));
        assert_eq!(s.list(Id::Url).map(<[_]>::len), Some(4));
        assert_eq!((s.int(Id::Concurrency), s.float(Id::RequestRate)), (Some(4), Some(2.5)));
        assert!(s.is_on(Id::ExtraVerbose) && !s.is_on(Id::Verbose));
        assert_eq!(s.place(Id::RequestRate), Some(&Place::Flag("--request_rate".into())));
    }

    #[test]
    fn switches_take_a_value_only_behind_an_equals_sign() {
        assert!(read("--streaming").settings.is_on(Id::Streaming));
        assert!(read("--streaming=yes").settings.is_on(Id::Streaming));
        for off in ["--streaming=false", "--no-streaming", "--streaming=0"] {
            let line = read(off);
            assert!(line.settings.has(Id::Streaming) && !line.settings.is_on(Id::Streaming), "{off}");
        }
        assert_eq!(errors("--streaming true"), ["'true' belongs to no flag"]);
        assert_eq!(errors("--streaming=abc"), ["--streaming: found 'abc'; allowed: true or false"]);
        assert_eq!(
            errors("--no-gpu-telemetry=false"),
            ["--no-gpu-telemetry=false asks for an AIPerf feature that this version does not have yet"]
        );
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        assert_eq!(
            errors(
                "--isl 0 --isl-stddev -1 --osl abc --concurency 4 --scenario --concurrency 1,2 --url --random-seed 1 --random-seed 2"
            ),
            [
                "--isl: found '0'; allowed: a whole number from 1 to 10000000",
                "--isl-stddev: found '-1'; allowed: a number from 0 to 10000000",
                "--osl: found 'abc'; allowed: a whole number from 0 to 10000000",
                "--concurency is not an option; did you mean '--concurrency'?",
                "--scenario is an AIPerf option this version does not have yet",
                "--concurrency: '1,2' is a list; a list of values asks for a sweep; sweeps come later",
                "--url needs a value: one or more texts",
                "--random-seed is given more than once; it takes one value",
            ]
        );
    }

    #[test]
    fn a_negative_number_is_a_wrong_value_and_not_a_flag() {
        assert_eq!(errors("--isl -4"), ["--isl: found '-4'; allowed: a whole number from 1 to 10000000"]);
        assert_eq!(errors("--isl --osl 3"), ["--isl needs a value: a whole number from 1 to 10000000"]);
    }

    #[test]
    fn help_and_version_are_no_mistakes() {
        let line = read("--help");
        assert_eq!((line.help, line.errors.len()), (Some(true), 0));
        assert_eq!(read("-h").help, Some(false));
        assert!(read("--version").version);
    }

    #[cfg(unix)]
    #[test]
    fn a_word_that_is_no_text_is_told() {
        use std::os::unix::ffi::OsStringExt as _;
        let line = parse(&[OsString::from_vec(vec![b'-', b'-', 0xff])]);
        assert!(line.errors[0].to_string().contains("not UTF-8"), "{}", line.errors[0]);
        let path = OsString::from_vec(b"\xff.jsonl".to_vec());
        for argv in [vec!["--input-file".into(), path.clone()], vec!["--url".into(), "a".into(), path]] {
            let errors: Vec<String> = parse(&argv).errors.iter().map(ToString::to_string).collect();
            assert_eq!(
                errors,
                [
                    "'\u{fffd}.jsonl' on the command line is not UTF-8, and flags, values and paths must be; rename the file, or go by another \
                  path"
                ]
            );
        }
    }
}
