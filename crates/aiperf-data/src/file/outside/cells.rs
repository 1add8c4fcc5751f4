//! Images, audio and video inside a table, in the form of the hub: what a file holds (`bytes`) beside its name (`path`).
//!
//! The bytes of a cell are base64 in an entry, for that is how they are sent.

use std::path::Path;

use aiperf_core::conversation::MediaKind;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::Value;

use super::talk::LeftOut;
use crate::error::RowProblem;
use crate::file::row::shown;
use crate::sound::{self, Form};

/// Longest clip that is sent, seconds, as AIPerf has it and benchmarks of speech do.
const LONGEST: f64 = 30.0;
/// Characters of base64 by which a form is told: 24 bytes.
const HEAD: usize = 32;

/// Audio of a cell.
#[derive(Debug, PartialEq)]
pub(super) enum Sound {
    /// As it travels.
    Clip(String),
    TooLong,
}

/// A cell in the hub's form.
enum Cell {
    Empty,
    /// Base64 of a file, and its name.
    File(String, String),
    /// An address, or something that is encoded already.
    Text(String),
}

/// An image as it travels: the first, where there is a list of them.
pub(super) fn image(column: &str, cell: Value) -> Result<Option<String>, LeftOut> {
    let cell = match cell {
        Value::Array(list) => list.into_iter().find(|item| !item.is_null()).unwrap_or_default(),
        other => other,
    };
    match read(MediaKind::Image, column, cell)? {
        Cell::Empty => Ok(None),
        Cell::Text(text) => Ok(Some(text)),
        Cell::File(data, _) => {
            let head = head(MediaKind::Image, column, &data)?;
            let form = picture(&head).ok_or_else(|| {
                let what =
                    format!("begins with {}, which is none of PNG, JPEG, WebP, GIF, BMP, TIFF", hex(&head));
                bad(MediaKind::Image, column, &what)
            })?;
            Ok(Some(format!("data:image/{form};base64,{data}")))
        }
    }
}

/// A video as it travels.
pub(super) fn video(column: &str, cell: Value) -> Result<Option<String>, LeftOut> {
    match read(MediaKind::Video, column, cell)? {
        Cell::Empty => Ok(None),
        Cell::Text(text) => Ok(Some(text)),
        Cell::File(data, name) => {
            head(MediaKind::Video, column, &data)?;
            let end = Path::new(&name).extension().and_then(|end| end.to_str());
            let form = if end.is_some_and(|end| end.eq_ignore_ascii_case("webm")) { "webm" } else { "mp4" };
            Ok(Some(format!("data:video/{form};base64,{data}")))
        }
    }
}

/// Audio as it travels: WAV and MP3 as they are, FLAC unpacked into WAV.
pub(super) fn sound(column: &str, cell: Value) -> Result<Option<Sound>, LeftOut> {
    let kind = MediaKind::Audio;
    let (data, _) = match read(kind, column, cell)? {
        Cell::Empty => return Ok(None),
        Cell::Text(text) => {
            return Err(bad(
                kind,
                column,
                &format!("is {}, and audio is sent as a file", shown(&text.into())),
            ));
        }
        Cell::File(data, name) => (data, name),
    };
    let bytes = BASE64_STANDARD
        .decode(&data)
        .map_err(|error| bad(kind, column, &format!("is not base64: {error}")))?;
    let form = sound::form(&bytes).ok_or_else(|| {
        let what =
            format!("begins with {}, which is none of WAV, FLAC, MP3", hex(&bytes[..bytes.len().min(24)]));
        bad(kind, column, &what)
    })?;
    let broken = |problem: String| bad(kind, column, &format!("is {} that {problem}", form.name()));
    let clip = |seconds: f64, audio: String| {
        if seconds > LONGEST { Sound::TooLong } else { Sound::Clip(audio) }
    };
    Ok(Some(match form {
        Form::Wav => clip(sound::wav_seconds(&bytes, bytes.len()).map_err(broken)?, format!("wav,{data}")),
        Form::Mp3 => clip(sound::mp3_seconds(&bytes).map_err(broken)?, format!("mp3,{data}")),
        Form::Flac => match sound::flac_as_wav(&bytes, LONGEST).map_err(broken)? {
            Some(wav) => Sound::Clip(format!("wav,{}", BASE64_STANDARD.encode(wav))),
            None => Sound::TooLong,
        },
    }))
}

fn read(kind: MediaKind, column: &str, cell: Value) -> Result<Cell, LeftOut> {
    match cell {
        Value::Null => Ok(Cell::Empty),
        Value::String(text) if text.is_empty() => Ok(Cell::Empty),
        Value::String(text) => {
            // A path alone is of the machine that made the table; of a video it may lie beside the table.
            if kind != MediaKind::Video && !text.contains("://") && !text.starts_with("data:") {
                let what = format!("is {}, neither an address nor a file's own bytes", shown(&text.into()));
                return Err(bad(kind, column, &what));
            }
            Ok(Cell::Text(text))
        }
        Value::Object(mut cell) => {
            let name = match cell.remove("path") {
                Some(Value::String(name)) => name,
                _ => String::new(),
            };
            match cell.remove("bytes") {
                Some(Value::String(data)) if !data.is_empty() => Ok(Cell::File(data, name)),
                None | Some(Value::Null | Value::String(_)) if name.is_empty() => Ok(Cell::Empty),
                None | Some(Value::Null | Value::String(_)) => {
                    let what = format!("is the name {} without the file's bytes", shown(&name.into()));
                    Err(bad(kind, column, &what))
                }
                Some(other) => {
                    Err(bad(kind, column, &format!("has {} as its 'bytes', not base64", shown(&other))))
                }
            }
        }
        other => Err(bad(kind, column, &format!("is {}, not a file's 'bytes' and 'path'", shown(&other)))),
    }
}

/// The first bytes of what `data` encodes.
fn head(kind: MediaKind, column: &str, data: &str) -> Result<Vec<u8>, LeftOut> {
    let data = data.as_bytes();
    BASE64_STANDARD
        .decode(&data[..data.len().min(HEAD)])
        .map_err(|error| bad(kind, column, &format!("is not base64: {error}")))
}

/// What an image is, as the second part of its media type.
fn picture(head: &[u8]) -> Option<&'static str> {
    let is = |magic: &[u8]| head.starts_with(magic);
    Some(match head {
        _ if is(b"\x89PNG\r\n\x1a\n") => "png",
        _ if is(b"\xff\xd8\xff") => "jpeg",
        _ if is(b"RIFF") && head.get(8..12) == Some(b"WEBP") => "webp",
        _ if is(b"GIF87a") || is(b"GIF89a") => "gif",
        // The second is four bytes that are zero.
        _ if is(b"BM") && head.get(6..10) == Some(&[0; 4]) => "bmp",
        _ if is(b"II*\0") || is(b"MM\0*") => "tiff",
        _ => return None,
    })
}

fn hex(bytes: &[u8]) -> String {
    let shown: Vec<String> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    shown.join(" ")
}

fn bad(kind: MediaKind, column: &str, what: &str) -> LeftOut {
    LeftOut::BadCell(RowProblem::Media { problem: format!("{} in '{column}' {what}", kind.name()) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(bytes: &[u8]) -> Value {
        json!({"bytes": BASE64_STANDARD.encode(bytes), "path": "x"})
    }

    fn said(found: Result<Option<String>, LeftOut>) -> String {
        match found {
            Ok(found) => found.unwrap_or_else(|| "nothing".to_owned()),
            Err(LeftOut::BadCell(problem)) => problem.to_string(),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn images_travel_as_they_are() {
        for (bytes, url) in [
            (&b"\x89PNG\r\n\x1a\n."[..], "data:image/png;base64,iVBORw0KGgou"),
            (b"\xff\xd8\xff", "data:image/jpeg;base64,/9j/"),
            (b"RIFF....WEBP", "data:image/webp;base64,UklGRi4uLi5XRUJQ"),
            (b"GIF89a", "data:image/gif;base64,R0lGODlh"),
            (b"BM....\0\0\0\0", "data:image/bmp;base64,Qk0uLi4uAAAAAA=="),
            (b"II*\0", "data:image/tiff;base64,SUkqAA=="),
        ] {
            assert_eq!(said(image("i", file(bytes))), url);
            assert_eq!(said(image("i", json!([null, file(bytes), file(b"not looked at")]))), url);
        }
        assert_eq!(said(image("i", "https://h/i".into())), "https://h/i");
        for none in [json!(null), json!(""), json!([]), json!([null]), json!({"bytes": null, "path": null})] {
            assert_eq!(said(image("i", none.clone())), "nothing", "{none}");
        }
    }

    #[test]
    fn broken_cells_are_told() {
        for (cell, words) in [
            (
                file(b"BMx is a word"),
                "the image in 'i' begins with 42 4d 78 20 69 73 20 61, which is none of PNG",
            ),
            (json!({"bytes": "?", "path": null}), "the image in 'i' is not base64"),
            (json!({"bytes": null, "path": "a.png"}), "the image in 'i' is the name \"a.png\" without"),
            (json!({"bytes": [1], "path": null}), "the image in 'i' has [1] as its 'bytes', not base64"),
            (json!("/etc/hosts"), "the image in 'i' is \"/etc/hosts\", neither an address nor"),
            (json!(5), "the image in 'i' is 5, not a file's 'bytes' and 'path'"),
        ] {
            let told = said(image("i", cell));
            assert!(told.starts_with(words), "{told}");
        }
        let heard = |cell| said(sound("a", cell).map(|sound| sound.map(|sound| format!("{sound:?}"))));
        for (cell, words) in [
            (file(b"OggS, which nobody reads"), "the audio in 'a' begins with 4f 67 67 53"),
            (file(b"fLaC"), "the audio in 'a' is FLAC that cannot be unpacked"),
            (file(b"RIFF....WAVE"), "the audio in 'a' is WAV that has no samples"),
            (
                json!("https://h/a.wav"),
                "the audio in 'a' is \"https://h/a.wav\", and audio is sent as a file",
            ),
            (json!({"bytes": null, "path": null}), "nothing"),
        ] {
            let told = heard(cell);
            assert!(told.starts_with(words), "{told}");
        }
    }

    #[test]
    fn videos_travel_by_address_or_as_they_are() {
        assert_eq!(said(video("v", "https://h/v".into())), "https://h/v");
        assert_eq!(said(video("v", file(b"abc"))), "data:video/mp4;base64,YWJj");
        let webm = json!({"bytes": "YWJj", "path": "a/b.WebM"});
        assert_eq!(said(video("v", webm)), "data:video/webm;base64,YWJj");
    }
}
