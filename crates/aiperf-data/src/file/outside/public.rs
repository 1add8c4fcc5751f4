//! What an entry of a published data set says, as AIPerf sends it.

use aiperf_core::conversation::MediaKind;
use aiperf_core::plan::PublicShape;
use serde_json::Value;

use super::Entry;
use super::agents;
use super::cells::{self, Sound};
use super::talk::{LeftOut, Talk};

const CONVERSATIONS: &str = "conversations";
/// Code, and what is to be done to it.
const EDIT: [&str; 2] = ["code", "change_request"];
/// A question on a video, and the answers to choose from.
const WATCHED: [&str; 3] = ["question", "choices", "video"];
/// What is said with speech.
const WRITE_DOWN: &str = "Transcribe this audio.";
/// Stands in a text where an image belongs.
const IMAGE: &str = "<image>";

/// The names that are read.
pub(super) fn columns(shape: PublicShape) -> Vec<&'static str> {
    match shape {
        PublicShape::ShareGpt => vec![CONVERSATIONS],
        PublicShape::Edit => EDIT.to_vec(),
        PublicShape::Watched => WATCHED.to_vec(),
        PublicShape::Shown { prompt, image } => vec![prompt, image],
        PublicShape::FirstMessage { messages, image } => vec![messages, image],
        PublicShape::Agents(set) => agents::columns(set),
        PublicShape::Column(name)
        | PublicShape::Turns(name)
        | PublicShape::FirstTurn(name)
        | PublicShape::Speech(name) => vec![name],
    }
}

/// What is sent of an entry. Entries without a prompt are left out, as in AIPerf.
pub(super) fn talk(shape: PublicShape, entry: &mut Entry) -> Result<Talk, LeftOut> {
    let mut take = |name: &str| entry.get_mut(name).map(Value::take).unwrap_or_default();
    match shape {
        PublicShape::ShareGpt => Talk::of_pairs(take(CONVERSATIONS).as_array().map_or(&[], Vec::as_slice)),
        PublicShape::Column(name) => one(said(take(name)), None),
        PublicShape::Edit => {
            let [code, request] = EDIT.map(|name| said(take(name)));
            let text = format!(
                "Given a code file, please apply the change requests and generate the new file.\n\nOriginal file:\n```python\n{code}\n```\n\n\
                 Change request:\n{request}\n\nPlease generate the new code file in the \"New file\" section below."
            );
            one(text, None)
        }
        PublicShape::Turns(name) | PublicShape::FirstTurn(name) => {
            let Value::Array(turns) = take(name) else { return Err(LeftOut::NoPrompt) };
            let turns = turns.into_iter().map(|turn| said(turn).trim().to_owned());
            if matches!(shape, PublicShape::FirstTurn(_)) {
                return one(turns.into_iter().next().unwrap_or_default(), None);
            }
            Talk::of_turns(turns.filter(|turn| !turn.is_empty()))
        }
        PublicShape::Shown { prompt, image } => {
            let text = said(take(prompt));
            if text.trim().is_empty() {
                return Err(LeftOut::NoPrompt);
            }
            let image = cells::image(image, take(image))?;
            one(text, image.map(|image| (MediaKind::Image, image)))
        }
        PublicShape::Watched => {
            let [question, choices, video] = WATCHED.map(take);
            let text = asked(said(question).trim(), choices);
            if text.is_empty() {
                return Err(LeftOut::NoPrompt);
            }
            let video = cells::video(WATCHED[2], video)?.ok_or(LeftOut::NoMedia(MediaKind::Video))?;
            one(text, Some((MediaKind::Video, video)))
        }
        PublicShape::FirstMessage { messages, image } => {
            let Value::Array(messages) = take(messages) else { return Err(LeftOut::NoPrompt) };
            let text = first_of_user(&messages).unwrap_or_default();
            if text.is_empty() {
                return Err(LeftOut::NoPrompt);
            }
            let image = cells::image(image, take(image))?;
            one(text, image.map(|image| (MediaKind::Image, image)))
        }
        // They have a reader of their own.
        PublicShape::Agents(_) => Err(LeftOut::NoPrompt),
        PublicShape::Speech(name) => match cells::sound(name, take(name))? {
            None => Err(LeftOut::NoMedia(MediaKind::Audio)),
            Some(Sound::TooLong) => Err(LeftOut::LongAudio),
            Some(Sound::Clip(audio)) => one(WRITE_DOWN.to_owned(), Some((MediaKind::Audio, audio))),
        },
    }
}

fn one(text: String, media: Option<(MediaKind, String)>) -> Result<Talk, LeftOut> {
    let mut talk = Talk::of_prompt(text, String::new(), None, None)?;
    talk.turns[0].media.extend(media);
    Ok(talk)
}

fn said(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A question, and behind it its choices, each with its letter.
fn asked(question: &str, choices: Value) -> String {
    let Value::Object(choices) = choices else { return question.to_owned() };
    let choices = choices.into_iter().map(|(letter, choice)| (letter, said(choice)));
    let choices =
        choices.filter(|(_, choice)| !choice.is_empty()).map(|(letter, choice)| format!("{letter}.{choice}"));
    let parts: Vec<String> =
        std::iter::once(question.to_owned()).chain(choices).filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

/// The text of the first message that is the user's, or of the first where nobody is one. Each may be in a list by itself.
fn first_of_user(messages: &[Value]) -> Option<String> {
    let own = |message: &'_ Value| match message {
        Value::Array(list) => list.first().cloned(),
        other => Some(other.clone()),
    };
    let messages: Vec<Value> = messages
        .iter()
        .filter_map(own)
        .filter(|message| message.as_object().is_some_and(|fields| !fields.is_empty()))
        .collect();
    let field = |message: &Value, names: [&str; 2]| {
        names.iter().find_map(|name| message.get(*name)?.as_str().map(str::to_owned))
    };
    let is_user = |message: &&Value| {
        let role = field(message, ["role", "from"]).unwrap_or_default().to_lowercase();
        matches!(role.as_str(), "user" | "human")
    };
    let first = messages.iter().find(is_user).or(messages.first())?;
    Some(field(first, ["content", "value"])?.replace(IMAGE, "").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(shape: PublicShape, entry: Value) -> Result<(String, usize), LeftOut> {
        let Value::Object(mut entry) = entry else { panic!("an entry") };
        talk(shape, &mut entry).map(|talk| (talk.turns[0].text.clone(), talk.turns[0].media.len()))
    }

    #[test]
    fn the_first_message_of_the_user_is_sent() {
        let shape = PublicShape::FirstMessage { messages: "m", image: "i" };
        let sent = |messages: Value| of(shape, json!({"m": messages, "i": "https://h/i"}));
        let text = |text: &str| Ok((text.to_owned(), 1));
        assert_eq!(
            sent(
                json!([[{"role": "user", "content": " <image> a<image>b "}], [{"role": "assistant", "content": "no"}]])
            ),
            text("ab")
        );
        assert_eq!(
            sent(json!([{"from": "gpt", "value": "no"}, {"from": "Human", "value": "yes"}])),
            text("yes")
        );
        assert_eq!(sent(json!([[], {}, {"content": "nobody's"}, {"content": "no"}])), text("nobody's"));
        // A user who says nothing is not asked again, as in AIPerf.
        for none in [
            json!([{"role": "user", "content": "<image>"}, {"role": "user", "content": "late"}]),
            json!([]),
            json!("text"),
        ] {
            assert_eq!(sent(none), Err(LeftOut::NoPrompt));
        }
        assert_eq!(of(shape, json!({"m": [{"content": "a"}], "i": null})), Ok(("a".to_owned(), 0)));
    }

    #[test]
    fn choices_stand_behind_the_question() {
        let sent = |question: Value, choices: Value, video: Value| {
            of(PublicShape::Watched, json!({"question": question, "choices": choices, "video": video}))
        };
        let video = || json!("https://h/v");
        assert_eq!(
            sent(json!(" Why? "), json!({"A": "one", "B": "", "C": null, "D": "two"}), video()),
            Ok(("Why? A.one D.two".to_owned(), 1))
        );
        assert_eq!(sent(json!(null), json!({"A": "one"}), video()), Ok(("A.one".to_owned(), 1)));
        assert_eq!(sent(json!("Why?"), json!(null), video()), Ok(("Why?".to_owned(), 1)));
        assert_eq!(sent(json!(""), json!({}), video()), Err(LeftOut::NoPrompt));
        assert_eq!(sent(json!("Why?"), json!({}), json!(null)), Err(LeftOut::NoMedia(MediaKind::Video)));
    }
}
