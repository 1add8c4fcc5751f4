//! Images, audio and video as parts of a message, in the forms the APIs want them. An API that has no form for a kind leaves it out;
//! who reads the data set tells of it or refuses it.

use aiperf_core::conversation::{MediaKind, Turn};
use serde::Serialize;

use super::message::Form;

/// The start of audio as a data URL.
const AUDIO_URL: &str = "data:audio/";

/// A part in one API's form.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum MediaPart<'a> {
    /// Of chat. The id stands beside it, as vLLM reads it.
    Image {
        #[serde(rename = "type")]
        tag: &'static str,
        image_url: Address<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        uuid: Option<&'a str>,
    },
    /// Of responses.
    PlainImage {
        #[serde(rename = "type")]
        tag: &'static str,
        image_url: &'a str,
    },
    /// Of Anthropic's messages.
    SourcedImage {
        #[serde(rename = "type")]
        tag: &'static str,
        source: Source<'a>,
    },
    Audio {
        #[serde(rename = "type")]
        tag: &'static str,
        input_audio: Audio<'a>,
    },
    Video {
        #[serde(rename = "type")]
        tag: &'static str,
        video_url: Address<'a>,
    },
}

#[derive(Debug, Serialize)]
pub(super) struct Address<'a> {
    url: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct Audio<'a> {
    data: &'a str,
    format: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
}

/// The parts of a turn's media, in order.
pub(super) fn parts(form: Form, turn: &Turn) -> impl Iterator<Item = MediaPart<'_>> {
    let of_kind = move |kind| turn.media.iter().filter(move |media| media.kind == kind);
    let all = MediaKind::ALL.into_iter().flat_map(of_kind);
    all.flat_map(|media| media.items().map(|(content, uuid)| (media.kind, content, uuid)))
        .filter_map(move |(kind, content, uuid)| part(form, kind, content, uuid))
}

fn part<'a>(form: Form, kind: MediaKind, content: &'a str, uuid: Option<&'a str>) -> Option<MediaPart<'a>> {
    // An image that the server is to have already is its id.
    if content.is_empty() && (uuid.is_none() || form != Form::Chat) {
        return None;
    }
    Some(match (kind, form) {
        (MediaKind::Image, Form::Chat) => {
            MediaPart::Image { tag: "image_url", image_url: Address { url: content }, uuid }
        }
        (MediaKind::Image, Form::Responses) => {
            MediaPart::PlainImage { tag: "input_image", image_url: content }
        }
        (MediaKind::Image, Form::Messages) => {
            MediaPart::SourcedImage { tag: "image", source: source(content) }
        }
        (MediaKind::Audio, Form::Chat | Form::Responses) => {
            let (format, data) = audio(content)?;
            MediaPart::Audio { tag: "input_audio", input_audio: Audio { data, format } }
        }
        (MediaKind::Video, Form::Chat) => {
            MediaPart::Video { tag: "video_url", video_url: Address { url: content } }
        }
        (MediaKind::Audio | MediaKind::Video, _) => return None,
    })
}

/// A data URL is taken apart; anything else is an address.
fn source(content: &str) -> Source<'_> {
    let Some(rest) = content.strip_prefix("data:") else { return Source::Url { url: content } };
    let (head, data) = rest.split_once(',').unwrap_or((rest, ""));
    let media_type = head.split(';').next().filter(|kind| !kind.is_empty()).unwrap_or("image/png");
    Source::Base64 { media_type, data }
}

/// Format and base64 of audio, which is `wav,…` or a data URL.
fn audio(content: &str) -> Option<(&str, &str)> {
    let (head, data) = content.split_once(',')?;
    let format = match head.strip_prefix(AUDIO_URL) {
        Some(kind) => kind.split(';').next().filter(|kind| !kind.is_empty()).unwrap_or("wav"),
        None => head,
    };
    Some((format, data))
}

/// How many images the messages of a body have, whoever wrote them.
pub(super) fn images_in(body: &[u8]) -> u64 {
    use serde_json::Value;
    // Nearly no body has any, and to read one whole costs more than all else that is done with it.
    if memchr::memmem::find(body, b"image").is_none() {
        return 0;
    }
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return 0 };
    let lists = ["messages", "input"].into_iter().filter_map(|name| body.get(name)?.as_array());
    let parts = lists.flatten().filter_map(|item| item.get("content")?.as_array()).flatten();
    let is_image =
        |part: &&Value| matches!(part["type"].as_str(), Some("image_url" | "input_image" | "image"));
    parts.filter(is_image).count() as u64
}

#[cfg(test)]
mod tests {
    use aiperf_core::conversation::Media;
    use serde_json::{Value, json};

    use super::super::test_plan;
    use super::super::{Endpoint, EndpointKind, Request};
    use super::*;

    fn media(kind: MediaKind, contents: &[&str], uuids: &[&str]) -> Media {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        Media { kind, name: String::new(), contents: owned(contents), uuids: owned(uuids) }
    }

    fn turn(texts: &[&str], media: Vec<Media>) -> Turn {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        Turn { model: "m".into(), texts, media, ..Turn::default() }
    }

    fn body(kind: EndpointKind, turn: &Turn, system: Option<&str>) -> Value {
        let mut out = Vec::new();
        let request = Request { system, user_context: None, turn, opens: true, marker: None };
        Endpoint::new(&test_plan(kind)).encode(&request, &mut out).expect("it encodes");
        let body: Value = serde_json::from_slice(&out).expect("JSON");
        let images = images_in(&out);
        let own = turn.media_of(MediaKind::Image).count() as u64;
        assert!(images <= own, "{images} of {own}");
        body
    }

    /// What AIPerf 0.13.0 sent for this turn.
    #[test]
    fn parts_are_the_reference_s() {
        let turn = turn(
            &["a", "b"],
            vec![
                media(MediaKind::Video, &["http://h/v.mp4"], &[]),
                media(MediaKind::Image, &["data:image/png;base64,QQ==", "", "http://h/i"], &[]),
                media(MediaKind::Audio, &["wav,Ukk=", "data:audio/mp3;base64,SUQz"], &[]),
            ],
        );
        let content = |kind| body(kind, &turn, None)["messages"][0]["content"].clone();
        let sound =
            |data, format| json!({"type": "input_audio", "input_audio": {"data": data, "format": format}});
        let chat = json!([
            {"type": "text", "text": "a"}, {"type": "text", "text": "b"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}},
            {"type": "image_url", "image_url": {"url": "http://h/i"}},
            sound("Ukk=", "wav"), sound("SUQz", "mp3"),
            {"type": "video_url", "video_url": {"url": "http://h/v.mp4"}},
        ]);
        assert_eq!(content(EndpointKind::Chat).to_string(), chat.to_string());
        assert_eq!(content(EndpointKind::ChatEmbeddings), chat);
        let responses = json!([{"role": "user", "content": [
            {"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"},
            {"type": "input_image", "image_url": "data:image/png;base64,QQ=="},
            {"type": "input_image", "image_url": "http://h/i"}, sound("Ukk=", "wav"), sound("SUQz", "mp3"),
        ], "type": "message"}]);
        assert_eq!(body(EndpointKind::Responses, &turn, None)["input"].to_string(), responses.to_string());
        let messages = json!([
            {"type": "text", "text": "a"}, {"type": "text", "text": "b"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}},
            {"type": "image", "source": {"type": "url", "url": "http://h/i"}},
        ]);
        assert_eq!(content(EndpointKind::Messages).to_string(), messages.to_string());
    }

    #[test]
    fn one_text_with_an_image_is_a_list_and_an_image_needs_no_text() {
        let image = || vec![media(MediaKind::Image, &["http://h/i"], &[])];
        let part = json!({"type": "image_url", "image_url": {"url": "http://h/i"}});
        let content = |turn: &Turn, at: usize, system| {
            body(EndpointKind::Chat, turn, system)["messages"][at]["content"].clone()
        };
        let text = |text| json!({"type": "text", "text": text});
        assert_eq!(content(&turn(&["a"], image()), 0, None), json!([text("a"), part]));
        assert_eq!(content(&turn(&[], image()), 0, None), json!([part]));
        assert_eq!(content(&turn(&["a"], image()), 1, Some("s")), json!([text("a"), part]));
        let system = Turn { role: Some("system".into()), ..turn(&["a"], image()) };
        assert_eq!(content(&system, 0, Some("s")), json!([text("s"), text("a"), part]));
        let nothing = turn(&["a"], vec![media(MediaKind::Image, &[""], &[])]);
        assert_eq!(content(&nothing, 0, None), json!("a"));
    }

    #[test]
    fn images_have_their_ids_in_chat_alone() {
        let turn = turn(&["a"], vec![media(MediaKind::Image, &["http://h/i", ""], &["u", "v"])]);
        assert_eq!(
            body(EndpointKind::Chat, &turn, None)["messages"][0]["content"],
            json!([{"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": "http://h/i"}, "uuid": "u"},
                {"type": "image_url", "image_url": {"url": ""}, "uuid": "v"}])
        );
        assert_eq!(
            body(EndpointKind::Responses, &turn, None)["input"][0]["content"],
            json!([{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "http://h/i"}])
        );
    }

    #[test]
    fn images_of_any_author_are_counted() {
        let chat = json!({"messages": [{"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "image"}]},
            {"role": "user", "content": "image"}, {"role": "user", "content": [{"type": "image"}]}]});
        assert_eq!(images_in(chat.to_string().as_bytes()), 2);
        let responses = json!({"input": [{"role": "user", "content": [{"type": "input_image"}]}]});
        assert_eq!(images_in(responses.to_string().as_bytes()), 1);
        for none in [&b"{\"prompt\":\"image_url\"}"[..], b"image", b"{}", b"[\"image\"]"] {
            assert_eq!(images_in(none), 0);
        }
    }
}
