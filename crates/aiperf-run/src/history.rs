//! What a session has said and heard, so that its next turn can say it again.

use aiperf_net::{Answer, Endpoint};
use bytes::Bytes;

use crate::prepare::PreparedTurn;

/// The turns of one session and the server's own replies to them, as the elements of a request's list of messages.
#[derive(Debug, Default)]
pub(crate) struct History {
    elements: Vec<u8>,
}

impl History {
    /// The body of `turn` as it goes out: behind all that was said before, if it is one that this belongs into.
    pub(crate) fn body(&self, turn: &PreparedTurn) -> Bytes {
        match &turn.list {
            Some(list) if !self.elements.is_empty() => {
                let mut whole = Vec::new();
                Endpoint::join(&turn.body, list.clone(), &self.elements, &mut whole);
                whole.into()
            }
            _ => turn.body.clone(),
        }
    }

    /// Adds `turn` and the reply in `answer`. Without one, for the request failed or the server said nothing, the next turn
    /// stands right behind it. A turn whose list of messages is its author's own belongs to no conversation.
    pub(crate) fn add(&mut self, turn: &PreparedTurn, endpoint: &Endpoint, answer: &Answer) {
        let Some(list) = turn.list.clone() else { return };
        if !list.is_empty() {
            self.begin_element();
            self.elements.extend_from_slice(&turn.body[list]);
        }
        let end = self.elements.len();
        self.begin_element();
        if !endpoint.encode_reply(answer, &mut self.elements) {
            self.elements.truncate(end);
        }
    }

    fn begin_element(&mut self) {
        if !self.elements.is_empty() {
            self.elements.push(b',');
        }
    }
}

#[cfg(test)]
mod tests {
    use aiperf_core::outcome::{Failure, FailureKind, Stage};
    use aiperf_core::plan::EndpointKind;
    use aiperf_net::AnswerChunk;
    use serde_json::{Value, json};

    use super::*;
    use crate::toys;

    fn answer(text: &str) -> Answer {
        let chunks = vec![AnswerChunk { at_ns: 1, text_end: text.len(), reasoning_end: 0 }];
        Answer { text: text.to_owned(), chunks, ..Answer::default() }
    }

    /// Roles and contents of a body.
    fn said(body: &[u8]) -> Vec<(String, String)> {
        let body: Value = serde_json::from_slice(body).expect("JSON");
        let field = |message: &Value, name: &str| message[name].as_str().expect("a text").to_owned();
        let messages = body["messages"].as_array().expect("a list");
        messages.iter().map(|m| (field(m, "role"), field(m, "content"))).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(r, c)| ((*r).to_owned(), (*c).to_owned())).collect()
    }

    #[test]
    fn each_turn_says_again_what_was_said_and_heard() {
        let endpoint = Endpoint::new(&toys::endpoint(EndpointKind::Chat));
        let prepared = toys::prepared(toys::conversation(&["one", "two", "three"]));
        let mut history = History::default();
        assert_eq!(history.body(&prepared.turns[0]), prepared.turns[0].body);
        history.add(&prepared.turns[0], &endpoint, &answer(" first \"reply\"\n"));
        let two = [("user", "one"), ("assistant", " first \"reply\"\n"), ("user", "two")];
        assert_eq!(said(&history.body(&prepared.turns[1])), pairs(&two));
        history.add(&prepared.turns[1], &endpoint, &answer("second"));
        let three = [&two[..], &[("assistant", "second"), ("user", "three")]].concat();
        assert_eq!(said(&history.body(&prepared.turns[2])), pairs(&three));
    }

    #[test]
    fn a_failed_turn_has_no_reply() {
        let endpoint = Endpoint::new(&toys::endpoint(EndpointKind::Chat));
        let prepared = toys::prepared(toys::conversation(&["one", "two"]));
        let failure = Failure {
            kind: FailureKind::HttpStatus,
            stage: Stage::Answer,
            code: Some(500),
            type_name: "Internal Server Error".into(),
            message: String::new(),
            retryable: false,
        };
        for answer in [Answer { failure: Some(failure), ..answer("cut off") }, Answer::default()] {
            let mut history = History::default();
            history.add(&prepared.turns[0], &endpoint, &answer);
            assert_eq!(said(&history.body(&prepared.turns[1])), pairs(&[("user", "one"), ("user", "two")]));
        }
    }

    #[test]
    fn an_author_s_own_list_stays_as_it_is() {
        let endpoint = Endpoint::new(&toys::endpoint(EndpointKind::Chat));
        let mut conversation = toys::conversation(&["one", "two", "three"]);
        let own = json!([{"role": "user", "content": "mine"}]);
        conversation.turns[1].extra.insert("messages".into(), own);
        let prepared = toys::prepared(conversation);
        let mut history = History::default();
        history.add(&prepared.turns[0], &endpoint, &answer("reply"));
        assert_eq!(said(&history.body(&prepared.turns[1])), pairs(&[("user", "mine")]));
        history.add(&prepared.turns[1], &endpoint, &answer("to mine"));
        let three = [("user", "one"), ("assistant", "reply"), ("user", "three")];
        assert_eq!(said(&history.body(&prepared.turns[2])), pairs(&three));
    }
}
