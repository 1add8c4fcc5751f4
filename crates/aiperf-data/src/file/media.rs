//! Images, audio and video of rows: addresses and encoded ones travel as they stand, local files are read when their turn is sent.

use std::collections::HashSet;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use aiperf_core::conversation::{Media, MediaKind};
use aiperf_core::text::for_terminal;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::Value;

use super::row::{string, wrong};
use crate::error::RowProblem;

/// Most characters of a content repeated in a message.
const SHOWN: usize = 80;
/// Files that are known to be there, at most.
const MOST_KNOWN: usize = 1 << 16;
/// The field with the ids of images.
const UUIDS: &str = "image_uuids";

/// The media fields of a row.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// By kind: what the singular holds, and what the plural.
    one: [Option<String>; 3],
    several: [Vec<Media>; 3],
    /// Some of the images are objects.
    has_objects: bool,
    uuids: Option<Vec<String>>,
}

impl Given {
    /// Takes a field of media; gives back the value of any other. An empty string and an empty list are none, as with texts.
    pub(super) fn take(&mut self, key: &str, value: Value) -> Result<Option<Value>, RowProblem> {
        if key == UUIDS {
            self.uuids = Some(strings(UUIDS, value)?);
            return Ok(None);
        }
        for (at, kind) in MediaKind::ALL.into_iter().enumerate() {
            if key == kind.name() {
                self.one[at] = Some(string(kind.name(), value)?).filter(|content| !content.is_empty());
                return Ok(None);
            }
            if key == kind.names() {
                self.several[at] = self.list(kind, value)?;
                return Ok(None);
            }
        }
        Ok(Some(value))
    }

    /// Strings, which go together, or objects with a list of `contents` and perhaps a `name`, and of images `uuids`.
    fn list(&mut self, kind: MediaKind, value: Value) -> Result<Vec<Media>, RowProblem> {
        const WANTED: &str =
            "a list of strings or of objects with a list of strings named 'contents' and perhaps a 'name'";
        let (field, is_image) = (kind.names(), kind == MediaKind::Image);
        let Value::Array(items) = value else { return Err(wrong(field, WANTED, &value)) };
        let plain = |contents| Media { kind, name: String::new(), contents, uuids: Vec::new() };
        let mut all = Vec::new();
        let mut loose = Vec::new();
        for item in items {
            let Value::Object(mut object) = item else {
                match item {
                    Value::String(content) => loose.push(content),
                    other => return Err(wrong(field, WANTED, &other)),
                }
                continue;
            };
            self.has_objects |= is_image;
            if !loose.is_empty() {
                all.push(plain(std::mem::take(&mut loose)));
            }
            let name = match object.remove("name") {
                None | Some(Value::Null) => String::new(),
                Some(name) => string(field, name)?,
            };
            let mut part = |name: &str| object.remove(name).filter(|value| !value.is_null());
            let uuids =
                part("uuids").filter(|_| is_image).map(|value| strings("uuids", value)).transpose()?;
            let contents = part("contents").map(|value| strings("contents", value)).transpose()?;
            let mut media = Media { name, ..plain(Vec::new()) };
            match (contents, uuids) {
                (None, None) => return Err(wrong(field, WANTED, &Value::Object(object))),
                (contents, None) => media.contents = contents.unwrap_or_default(),
                (contents, Some(uuids)) => {
                    media.contents = contents.unwrap_or_default();
                    name_images(&mut media, uuids, "uuids", "contents")?;
                }
            }
            all.push(media);
        }
        if !loose.is_empty() {
            all.push(plain(loose));
        }
        Ok(all)
    }

    /// All media, in the order they are sent.
    pub(super) fn finish(self) -> Result<Vec<Media>, RowProblem> {
        let Self { one, mut several, has_objects, uuids } = self;
        if let Some(uuids) = uuids {
            if one[0].is_some() {
                return Err(RowProblem::Uuids {
                    problem: "'image_uuids' go with 'images', not with 'image'".to_owned(),
                });
            }
            if has_objects {
                let problem =
                    "'image_uuids' go with 'images' that are strings; an object has 'uuids' of its own";
                return Err(RowProblem::Uuids { problem: problem.to_owned() });
            }
            let images = &mut several[0];
            if images.is_empty() {
                images.push(Media {
                    kind: MediaKind::Image,
                    name: String::new(),
                    contents: Vec::new(),
                    uuids: Vec::new(),
                });
            }
            name_images(&mut images[0], uuids, UUIDS, "images")?;
        }
        let mut all = Vec::new();
        for (kind, (one, several)) in MediaKind::ALL.into_iter().zip(one.into_iter().zip(several)) {
            let is_there = several.iter().any(|media| !media.contents.is_empty());
            if one.is_some() && is_there {
                return Err(RowProblem::Both { one: kind.name(), several: kind.names() });
            }
            let one = one.map(|content| Media {
                kind,
                name: String::new(),
                contents: vec![content],
                uuids: Vec::new(),
            });
            all.extend(one);
            all.extend(several.into_iter().filter(|media| !media.contents.is_empty()));
        }
        Ok(all)
    }
}

/// Gives images their ids, one each; ids alone are of images that the server is to have already.
fn name_images(media: &mut Media, uuids: Vec<String>, field: &str, images: &str) -> Result<(), RowProblem> {
    if uuids.iter().any(String::is_empty) {
        return Err(RowProblem::Uuids { problem: format!("'{field}' holds an empty string") });
    }
    if media.contents.is_empty() {
        media.contents = vec![String::new(); uuids.len()];
    }
    if !uuids.is_empty() && uuids.len() != media.contents.len() {
        let (ids, all) = (uuids.len(), media.contents.len());
        let problem = format!("'{field}' has {ids} where '{images}' has {all}; each image has one");
        return Err(RowProblem::Uuids { problem });
    }
    media.uuids = uuids;
    Ok(())
}

fn strings(field: &'static str, value: Value) -> Result<Vec<String>, RowProblem> {
    const WANTED: &str = "a list of strings";
    let Value::Array(items) = value else { return Err(wrong(field, WANTED, &value)) };
    let text = |item| match item {
        Value::String(text) => Ok(text),
        other => Err(wrong(field, WANTED, &other)),
    };
    items.into_iter().map(text).collect()
}

/// How a content travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As it stands: it is encoded already.
    Encoded,
    /// As it stands: whoever wants it fetches it there.
    Address,
    /// It is the path of a file.
    Local,
}

fn way(kind: MediaKind, content: &str) -> Result<Way, RowProblem> {
    let scheme = scheme(content);
    let is_data = scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("data"));
    let is_named_audio = || {
        let format = content.split_once(',').map(|(format, _)| format);
        format.is_some_and(|f| ["wav", "mp3"].iter().any(|known| f.eq_ignore_ascii_case(known)))
    };
    if is_data || (kind == MediaKind::Audio && scheme.is_none() && is_named_audio()) {
        return Ok(Way::Encoded);
    }
    if !content.contains("://") {
        return Ok(Way::Local);
    }
    let rest = scheme.map_or(content, |scheme| &content[scheme.len() + 1..]);
    let host = rest.strip_prefix("//").map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    match (scheme, host.filter(|host| !host.is_empty())) {
        (Some(_), Some(_)) => Ok(Way::Address),
        (None, None) => Ok(Way::Local),
        (Some(scheme), None) if scheme.eq_ignore_ascii_case("file") => Err(bad(
            kind,
            content,
            "is no address that a server can fetch; a local file is given by its path",
        )),
        (Some(_), None) => {
            Err(bad(kind, content, "has no host, which an address has; a local file is given by its path"))
        }
        (None, Some(_)) => Err(bad(kind, content, "has no scheme, such as https, which an address has")),
    }
}

/// What stands before the first colon, if it is a scheme.
fn scheme(content: &str) -> Option<&str> {
    let (scheme, _) = content.split_once(':')?;
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    (scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_known)).then_some(scheme)
}

pub(super) fn bad(kind: MediaKind, content: &str, problem: &str) -> RowProblem {
    RowProblem::Media { problem: format!("{} '{}' {problem}", kind.name(), for_terminal(content, SHOWN)) }
}

/// Finds local files: where the program was started, as AIPerf does, or else beside the file with the rows.
#[derive(Debug)]
pub(super) struct Files {
    beside: PathBuf,
}

impl Files {
    /// Beside the file of that name, or in the folder.
    pub(super) fn of(path: &Path) -> Self {
        let folder = if path.is_dir() { Some(path) } else { path.parent() };
        Self { beside: folder.map(Path::to_owned).unwrap_or_default() }
    }

    fn open(&self, kind: MediaKind, content: &str) -> Result<File, RowProblem> {
        let open = |path: &Path| {
            // Looked at first: opening a pipe would wait for whoever writes it.
            if std::fs::metadata(path)?.is_file() {
                File::open(path)
            } else {
                Err(ErrorKind::IsADirectory.into())
            }
        };
        let path = Path::new(content);
        let found = open(path).or_else(|error: std::io::Error| {
            if error.kind() == ErrorKind::NotFound { open(&self.beside.join(path)) } else { Err(error) }
        });
        found.map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                let beside = self.beside.join(path);
                let other = if beside == path {
                    String::new()
                } else {
                    format!(", and neither does {}", for_terminal(&beside.to_string_lossy(), SHOWN))
                };
                bad(kind, content, &format!("does not exist{other}"))
            }
            _ => bad(kind, content, &format!("cannot be read: {error}")),
        })
    }

    /// Whether all of it can be sent; local files are looked for once.
    pub(super) fn check(&self, media: &Media, known: &mut HashSet<String>) -> Result<(), RowProblem> {
        for (content, uuid) in media.items() {
            if content.is_empty() {
                // An image with an id is one that the server has.
                if uuid.is_none() {
                    return Err(bad(media.kind, content, "is empty"));
                }
                continue;
            }
            if way(media.kind, content)? == Way::Local && !known.contains(content) {
                let mut file = self.open(media.kind, content)?;
                let mut head = Vec::new();
                file.by_ref()
                    .take(8)
                    .read_to_end(&mut head)
                    .map_err(|e| bad(media.kind, content, &format!("cannot be read: {e}")))?;
                format(media.kind, content, &head)?;
                if known.len() < MOST_KNOWN {
                    known.insert(content.to_owned());
                }
            }
        }
        Ok(())
    }

    /// A content as it travels.
    pub(super) fn content(&self, kind: MediaKind, content: String) -> Result<String, RowProblem> {
        if content.is_empty() || way(kind, &content)? != Way::Local {
            return Ok(content);
        }
        let mut bytes = Vec::new();
        let read = self.open(kind, &content)?.read_to_end(&mut bytes);
        read.map_err(|error| bad(kind, &content, &format!("cannot be read: {error}")))?;
        let format = format(kind, &content, &bytes)?;
        let mut out = match kind {
            MediaKind::Audio => format!("{format},"),
            MediaKind::Image | MediaKind::Video => format!("data:{}/{format};base64,", kind.name()),
        };
        BASE64_STANDARD.encode_string(&bytes, &mut out);
        Ok(out)
    }
}

/// The format of a local file: of an image by its first bytes, else by the end of its name, as in AIPerf.
fn format(kind: MediaKind, content: &str, bytes: &[u8]) -> Result<&'static str, RowProblem> {
    let by_name = |known: [&'static str; 2]| {
        let end = Path::new(content).extension().and_then(|end| end.to_str()).unwrap_or_default();
        known.into_iter().find(|format| end.eq_ignore_ascii_case(format))
    };
    let found = match kind {
        MediaKind::Image if bytes.starts_with(b"\x89PNG\r\n\x1a\n") => Some("png"),
        MediaKind::Image if bytes.starts_with(b"\xff\xd8\xff") => Some("jpeg"),
        MediaKind::Image => None,
        MediaKind::Audio => by_name(["wav", "mp3"]),
        MediaKind::Video => by_name(["mp4", "webm"]),
    };
    let wanted = match kind {
        MediaKind::Image => "is neither a PNG nor a JPEG, which images are",
        MediaKind::Audio => "does not end in .wav or .mp3, which audio is",
        MediaKind::Video => "does not end in .mp4 or .webm, which video is",
    };
    found.ok_or_else(|| bad(kind, content, wanted))
}

/// Whether a content of audio is an address.
pub(super) fn is_address(kind: MediaKind, content: &str) -> bool {
    way(kind, content) == Ok(Way::Address)
}

/// Images that a session has shown already: those keep their id alone (`--uuid-and-strip`).
#[derive(Debug, Default)]
pub(super) struct Shown(HashSet<String>);

impl Shown {
    /// The next request of the session. What it shows twice it keeps, for the server looks for all of it first.
    pub(super) fn strip(&mut self, media: &mut [Media]) {
        let mut new = HashSet::new();
        for image in media.iter_mut().filter(|media| media.kind == MediaKind::Image) {
            for (content, uuid) in image.contents.iter_mut().zip(&image.uuids) {
                if self.0.contains(uuid) {
                    content.clear();
                } else if !content.is_empty() {
                    new.insert(uuid.clone());
                }
            }
        }
        self.0.extend(new);
    }
}

#[cfg(test)]
mod tests {
    use aiperf_core::plan::{DatasetPlan, EndpointKind, FileFormat};
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::row::Row;
    use super::*;
    use crate::toys;
    use crate::workload::Visit;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";
    const JPEG: &[u8] = b"\xff\xd8\xff\xe0rest";

    fn row(value: &Value) -> Result<Vec<Media>, String> {
        let row = Row::parse(value.to_string().as_bytes()).map_err(|(_, problem)| problem.to_string())?;
        Ok(row.media)
    }

    fn media(kind: MediaKind, name: &str, contents: &[&str], uuids: &[&str]) -> Media {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        Media { kind, name: name.to_owned(), contents: owned(contents), uuids: owned(uuids) }
    }

    #[test]
    fn all_forms_of_media_are_read() {
        let (image, audio, video) = (MediaKind::Image, MediaKind::Audio, MediaKind::Video);
        assert_eq!(
            row(&json!({"video": "v", "image": "i"})),
            Ok(vec![media(image, "", &["i"], &[]), media(video, "", &["v"], &[])])
        );
        assert_eq!(
            row(&json!({"text": "a", "audios": ["x", "y"], "images": []})),
            Ok(vec![media(audio, "", &["x", "y"], &[])])
        );
        let objects = json!({"images": [{"name": "n", "contents": ["x"], "uuids": ["u"]}, {"uuids": ["v", "w"]}], "image": null});
        assert_eq!(
            row(&objects),
            Ok(vec![media(image, "n", &["x"], &["u"]), media(image, "", &["", ""], &["v", "w"])])
        );
        assert_eq!(
            row(&json!({"images": ["x", ""], "image_uuids": ["u", "v"]})),
            Ok(vec![media(image, "", &["x", ""], &["u", "v"])])
        );
        assert_eq!(row(&json!({"image_uuids": ["u"]})), Ok(vec![media(image, "", &[""], &["u"])]));
        assert_eq!(row(&json!({"text": "a", "image": "", "videos": [], "audio": null})), Ok(vec![]));
        for (value, said) in [
            (json!({"image": "a", "images": ["b"]}), "'image' and 'images' cannot be set together"),
            (json!({"image": "a", "image_uuids": ["u"]}), "not with 'image'"),
            (
                json!({"images": [{"contents": ["a"]}], "image_uuids": ["u"]}),
                "an object has 'uuids' of its own",
            ),
            (json!({"images": ["a", "b"], "image_uuids": ["u"]}), "'image_uuids' has 1 where 'images' has 2"),
            (json!({"images": ["a"], "image_uuids": [""]}), "holds an empty string"),
            (
                json!({"images": [{"contents": ["a"], "uuids": ["u", "v"]}]}),
                "'uuids' has 2 where 'contents' has 1",
            ),
            (json!({"image_uuids": []}), "holds nothing to send"),
            (json!({"images": "a"}), "'images' must be a list of strings"),
            (json!({"audios": [3]}), "'audios' must be"),
            (json!({"videos": [{"name": "n"}]}), "'videos' must be"),
            (json!({"video": 3}), "'video' must be a string"),
        ] {
            let problem = row(&value).expect_err("a bad row");
            assert!(problem.contains(said), "{value}: {problem}");
        }
    }

    #[test]
    fn addresses_and_encoded_ones_are_told_from_files() {
        let (image, audio) = (MediaKind::Image, MediaKind::Audio);
        for (kind, content, found) in [
            (image, "data:image/png;base64,QQ==", Way::Encoded),
            (image, "DATA:,x", Way::Encoded),
            (audio, "data:audio/wav;base64,QQ==", Way::Encoded),
            (audio, "WAV,QQ==", Way::Encoded),
            (audio, "ogg,QQ==", Way::Local),
            (image, "wav,QQ==", Way::Local),
            (image, "https://h/a.png", Way::Address),
            (image, "s3://bucket/a.png", Way::Address),
            (image, "a/b.png", Way::Local),
            (image, "C:\\a.png", Way::Local),
            (image, "://x", Way::Local),
        ] {
            assert_eq!(way(kind, content), Ok(found), "{content}");
        }
        for (content, said) in [
            ("http:///a.png", "no host"),
            ("//h/x://y", "no scheme"),
            ("file:///a.png", "no address that a server can fetch"),
        ] {
            assert!(way(image, content).expect_err("no address").to_string().contains(said), "{content}");
        }
    }

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, bytes) in files {
            std::fs::write(folder.path().join(name), bytes).expect("written");
        }
        folder
    }

    #[test]
    fn files_are_encoded_by_what_they_are() {
        let files = [
            ("a.jpg", PNG),
            ("b.png", JPEG),
            ("c.wav", b"RIFF"),
            ("d.MP3", b"ID3"),
            ("e.webm", b"v"),
            ("f.mp4", b"v"),
            ("g.gif", b"GIF89a"),
        ];
        let folder = folder(&files);
        let here = Files::of(&folder.path().join("rows.jsonl"));
        let content =
            |kind, name: &str| here.content(kind, name.to_owned()).map_err(|problem| problem.to_string());
        let of = |kind, name| {
            let (content, checked) =
                (content(kind, name), here.check(&media(kind, "", &[name], &[]), &mut HashSet::new()));
            assert_eq!(content.is_ok(), checked.is_ok(), "{name}");
            content
        };
        let base64 = |bytes: &[u8]| BASE64_STANDARD.encode(bytes);
        assert_eq!(of(MediaKind::Image, "a.jpg"), Ok(format!("data:image/png;base64,{}", base64(PNG))));
        assert_eq!(of(MediaKind::Image, "b.png"), Ok(format!("data:image/jpeg;base64,{}", base64(JPEG))));
        assert_eq!(of(MediaKind::Audio, "c.wav"), Ok("wav,UklGRg==".to_owned()));
        assert_eq!(of(MediaKind::Audio, "d.MP3"), Ok("mp3,SUQz".to_owned()));
        assert_eq!(of(MediaKind::Video, "e.webm"), Ok("data:video/webm;base64,dg==".to_owned()));
        assert_eq!(of(MediaKind::Video, "f.mp4"), Ok("data:video/mp4;base64,dg==".to_owned()));
        for (kind, name, said) in [
            (MediaKind::Image, "g.gif", "the image 'g.gif' is neither a PNG nor a JPEG"),
            (MediaKind::Audio, "e.webm", "does not end in .wav or .mp3"),
            (MediaKind::Video, "c.wav", "does not end in .mp4 or .webm"),
            (MediaKind::Video, "h.mp4", "does not exist, and neither does "),
            (MediaKind::Image, ".", "cannot be read"),
        ] {
            let problem = of(kind, name).expect_err("it cannot be sent");
            assert!(problem.contains(said), "{problem}");
        }
        assert!(here.check(&media(MediaKind::Image, "", &["a.jpg", ""], &[]), &mut HashSet::new()).is_err());
        assert!(
            here.check(&media(MediaKind::Image, "", &["a.jpg", ""], &["u", "v"]), &mut HashSet::new())
                .is_ok()
        );
    }

    #[test]
    fn images_that_were_shown_keep_their_ids() {
        let rows = [
            json!({"session_id": "s", "text": "1", "images": ["a.png", "a.png"], "image_uuids": ["u", "u"]}),
            json!({"session_id": "s", "text": "2", "images": ["a.png", "http://h/b"], "image_uuids": ["u", "v"]}),
            json!({"session_id": "s", "text": "3", "image_uuids": ["w"]}),
            json!({"session_id": "s", "text": "4", "images": ["a.png", "http://h/b", "a.png"], "image_uuids": ["w", "v", "x"]}),
            json!({"session_id": "t", "text": "5", "images": ["a.png"], "image_uuids": ["u"]}),
        ];
        let folder = folder(&[("a.png", PNG)]);
        let path = folder.path().join("rows.jsonl");
        std::fs::write(&path, rows.map(|row| row.to_string()).join("\n")).expect("written");
        let of = |strips_images, format| {
            let set = aiperf_core::plan::FilePlan { strips_images, ..toys::file(&path, format) };
            crate::open(&toys::plan(DatasetPlan::File(set), EndpointKind::Chat), None, toys::context())
        };
        let sent = |strips| -> Vec<Vec<bool>> {
            let workload = of(strips, FileFormat::SingleTurn).expect("a good file");
            let all = (0..workload.len())
                .flat_map(|i| workload.conversation(i, Visit::default()).expect("it is made").turns);
            all.map(|turn| turn.media_of(MediaKind::Image).map(|content| !content.is_empty()).collect())
                .collect()
        };
        let whole = [vec![true, true], vec![true, true], vec![false], vec![true, true, true], vec![true]];
        assert_eq!(sent(false), whole);
        let stripped =
            [vec![true, true], vec![false, true], vec![false], vec![true, false, true], vec![true]];
        assert_eq!(sent(true), stripped);
        let message = of(true, FileFormat::MultiTurn).expect_err("another form").to_string();
        assert!(message.contains("--uuid-and-strip"), "{message}");
    }

    #[test]
    fn each_api_has_the_media_that_it_has_a_form_for() {
        let problem = |kind: EndpointKind, row: &Value| {
            let folder = folder(&[]);
            let path = folder.path().join("rows.jsonl");
            std::fs::write(&path, row.to_string()).expect("written");
            let set = toys::file(&path, FileFormat::SingleTurn);
            let opened = crate::open(&toys::plan(DatasetPlan::File(set), kind), None, toys::context());
            opened
                .map(|workload| {
                    (
                        workload.describe().notes,
                        workload.conversation(0, Visit::default()).expect("it is made").turns[0].media.len(),
                    )
                })
                .map_err(|error| error.to_string())
        };
        let row = |field: &str, content: &str| json!({"text": "a", field: content});
        let video = row("video", "http://h/v");
        assert!(problem(EndpointKind::Chat, &video).is_ok());
        for kind in [EndpointKind::Responses, EndpointKind::Messages] {
            let said = problem(kind, &video).expect_err("no form");
            assert!(
                said.contains(&format!("requests of type '{}' hold no videos; chat do", kind.name())),
                "{said}"
            );
        }
        assert!(problem(EndpointKind::Messages, &row("audio", "wav,QQ==")).is_err());
        assert!(problem(EndpointKind::Responses, &row("audio", "wav,QQ==")).is_ok());
        assert!(
            problem(EndpointKind::Chat, &row("audio", "http://h/a.wav"))
                .expect_err("far")
                .contains("is an address")
        );
        let (notes, media) =
            problem(EndpointKind::Completions, &row("image", "nowhere.png")).expect("its text is sent");
        assert!(notes[0].contains("with images, audio or video, which are not sent"), "{notes:?}");
        assert_eq!(media, 0);
        assert!(problem(EndpointKind::Completions, &json!({"image": "http://h/i"})).is_err());
        let named = json!({"text": "a", "images": ["http://h/i"], "image_uuids": ["u"]});
        assert!(problem(EndpointKind::Responses, &named).expect("it is sent").0[0].contains("ids of images"));
        let uneven = json!({"texts": ["a", "b"], "images": ["http://h/i"]});
        assert!(
            problem(EndpointKind::NimEmbeddings, &uneven)
                .expect_err("uneven")
                .contains("2 texts and 1 images")
        );
    }

    proptest! {
        /// What stands there as an address or encoded stays as it is, and nothing panics.
        #[test]
        fn contents_stay(content in "\\PC{0,40}", kind in 0usize..3) {
            let kind = MediaKind::ALL[kind];
            let files = Files::of(Path::new("/nowhere/rows.jsonl"));
            if matches!(way(kind, &content), Ok(Way::Encoded | Way::Address)) {
                prop_assert_eq!(files.content(kind, content.clone()), Ok(content));
            }
        }

        /// As slow as it is plain: an image keeps its content unless an earlier request had one of its id.
        #[test]
        fn stripping_is_by_earlier_requests(requests in prop::collection::vec(prop::collection::vec((0u8..4, any::<bool>()), 0..5), 0..6)) {
            let mut shown = Shown::default();
            for (at, request) in requests.iter().enumerate() {
                let contents: Vec<&str> = request.iter().map(|(_, full)| if *full { "x" } else { "" }).collect();
                let uuids: Vec<String> = request.iter().map(|(id, _)| id.to_string()).collect();
                let mut images = [Media { uuids, ..media(MediaKind::Image, "", &contents, &[]) }];
                shown.strip(&mut images);
                for (i, (id, full)) in request.iter().enumerate() {
                    let earlier = requests[..at].iter().flatten().any(|(other, full)| other == id && *full);
                    prop_assert_eq!(!images[0].contents[i].is_empty(), *full && !earlier);
                }
            }
        }
    }
}
