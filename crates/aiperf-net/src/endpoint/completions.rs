//! OpenAI text completions.

use aiperf_core::conversation::Turn;

use super::body::{Field, Fields};
use super::chunk::{Choice, Piece};

/// The API's own fields of a request. A limit of 0 is left out, as in AIPerf.
pub(super) fn fields(turn: &Turn, streaming: bool) -> Fields<'_> {
    let mut fields = vec![
        ("prompt", Field::Prompt(turn)),
        ("model", Field::Text(&turn.model)),
        ("stream", Field::Flag(streaming)),
    ];
    if let Some(limit) = turn.max_tokens.filter(|l| *l > 0) {
        fields.push(("max_tokens", Field::Count(limit)));
    }
    Fields::new(fields)
}

/// What a choice of an answer object named `object` says. An object of another name says nothing, as in AIPerf; one without
/// a name is read.
pub(super) fn piece<'a>(object: &str, choice: &mut Choice<'a>) -> Option<Piece<'a>> {
    matches!(object, "text_completion" | "completion" | "")
        .then(|| Piece::prose(std::mem::take(&mut choice.text.0)))
}
