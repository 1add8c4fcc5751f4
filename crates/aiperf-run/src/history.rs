//! What a session has said and heard, so that its next turn can say it again.

use aiperf_net::{Answer, Endpoint};
use bytes::Bytes;

use crate::prepare::PreparedTurn;

/// What one session said and the server's own replies to it, as the elements of a request's list of messages. Its turns stay where they
/// were made, so that a session that thinks holds no more than the replies.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// All of them, one behind the other.
    replies: Vec<u8>,
    /// The turns that were said, each with the end of its reply.
    said: Vec<(u16, usize)>,
    /// The last answer as the server keeps it, where it keeps them. Without one all is said again.
    previous: Option<String>,
}

impl History {
    /// The body of turn number `turn` of `turns` as it goes out: behind all that was said before, if it is one that this belongs into.
    pub(crate) fn body(&self, turns: &[PreparedTurn], turn: usize) -> Bytes {
        let PreparedTurn { body, list, .. } = &turns[turn];
        match (list, &self.previous) {
            (Some(list), Some(previous)) => {
                let mut whole = Vec::new();
                Endpoint::chain(body, list.clone(), previous, &mut whole);
                whole.into()
            }
            (Some(list), None) if !self.said.is_empty() => {
                let mut whole = Vec::new();
                Endpoint::join(body, list.clone(), self.elements(turns), &mut whole);
                whole.into()
            }
            _ => body.clone(),
        }
    }

    /// Whether that body names the answer before it in the place of what was said.
    pub(crate) fn is_chained(&self, turns: &[PreparedTurn], turn: usize) -> bool {
        self.previous.is_some() && turns[turn].list.is_some()
    }

    /// Holds no more than what it has.
    pub(crate) fn shrink(&mut self) {
        self.replies.shrink_to_fit();
        self.said.shrink_to_fit();
    }

    /// All that was said and heard, in its order.
    fn elements<'a>(&'a self, turns: &'a [PreparedTurn]) -> impl Iterator<Item = &'a [u8]> + Clone {
        let mut from = 0;
        self.said.iter().flat_map(move |(turn, end)| {
            let reply = std::mem::replace(&mut from, *end)..*end;
            [turns[usize::from(*turn)].elements(), &self.replies[reply]]
        })
    }

    /// Adds turn number `turn` of `turns` and the reply in `answer`. Without one, for the request failed or the server said nothing, the
    /// next turn stands right behind it. A turn whose list of messages is its author's own belongs to no conversation.
    pub(crate) fn add(&mut self, turns: &[PreparedTurn], turn: usize, endpoint: &Endpoint, answer: &Answer) {
        if turns[turn].list.is_none() {
            return;
        }
        // What failed cannot be built on; the next turn then says all of it again.
        self.previous = answer.id.clone().filter(|_| endpoint.chains() && answer.failure.is_none());
        let before = self.replies.len();
        if !endpoint.encode_reply(answer, &mut self.replies) {
            self.replies.truncate(before);
        }
        self.said.push((turn as u16, self.replies.len()));
    }
}

#[cfg(test)]
mod tests {
    use aiperf_core::outcome::{Failure, FailureKind, Stage};
    use aiperf_core::plan::{EndpointKind, EndpointPlan};
    use aiperf_net::AnswerChunk;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::toys;

    fn answer(text: &str) -> Answer {
        let chunks = vec![AnswerChunk { at_ns: 1, text_end: text.len(), reasoning_end: 0 }];
        Answer { text: text.to_owned(), chunks, ..Answer::default() }
    }

    fn failure() -> Failure {
        Failure {
            kind: FailureKind::HttpStatus,
            stage: Stage::Answer,
            code: Some(500),
            type_name: "Internal Server Error".into(),
            message: String::new(),
            retryable: false,
            server_code: None,
        }
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
        assert_eq!(history.body(&prepared.turns, 0), prepared.turns[0].body);
        history.add(&prepared.turns, 0, &endpoint, &answer(" first \"reply\"\n"));
        let two = [("user", "one"), ("assistant", " first \"reply\"\n"), ("user", "two")];
        assert_eq!(said(&history.body(&prepared.turns, 1)), pairs(&two));
        history.add(&prepared.turns, 1, &endpoint, &answer("second"));
        let three = [&two[..], &[("assistant", "second"), ("user", "three")]].concat();
        assert_eq!(said(&history.body(&prepared.turns, 2)), pairs(&three));
    }

    #[test]
    fn where_the_server_keeps_answers_a_turn_goes_alone_and_names_the_one_before() {
        let plan = EndpointPlan { chains: true, ..toys::endpoint(EndpointKind::Responses) };
        let endpoint = Endpoint::new(&plan);
        let turns = toys::conversation(&["one", "two", "three", "four"]);
        let prepared = toys::prepared_for(&endpoint, turns);
        let kept = |text: &str, id: &str| Answer { id: Some(id.to_owned()), ..answer(text) };
        let texts = |body: &[u8]| -> Vec<String> {
            let body: Value = serde_json::from_slice(body).expect("JSON");
            let items = body["input"].as_array().expect("a list");
            items.iter().map(|item| item["content"].as_str().expect("a text").to_owned()).collect()
        };
        let mut history = History::default();
        history.add(&prepared.turns, 0, &endpoint, &kept("re one", "resp_\"1"));
        let second = history.body(&prepared.turns, 1);
        assert_eq!(texts(&second), ["two"]);
        assert_eq!([0, 1].map(|turn| History::default().is_chained(&prepared.turns, turn)), [false; 2]);
        assert!(history.is_chained(&prepared.turns, 1));
        let keys: Map<String, Value> = serde_json::from_slice(&second).expect("JSON");
        assert_eq!(
            keys.keys().collect::<Vec<_>>()[..4],
            ["input", "model", "stream", "previous_response_id"]
        );
        assert_eq!(keys["previous_response_id"], "resp_\"1");
        // What failed is no ground: all is said again, as if nothing were kept.
        let failed = Answer { failure: Some(failure()), ..kept("half", "resp_2") };
        history.add(&prepared.turns, 1, &endpoint, &failed);
        let third = history.body(&prepared.turns, 2);
        assert_eq!(texts(&third), ["one", "re one", "two", "three"]);
        assert!(!String::from_utf8_lossy(&third).contains("previous_response_id"));
        assert!(!history.is_chained(&prepared.turns, 2));
        history.add(&prepared.turns, 2, &endpoint, &kept("re three", "resp_3"));
        assert_eq!(texts(&history.body(&prepared.turns, 3)), ["four"]);
        // A server that was not asked to keep answers has ids as well.
        let plain = Endpoint::new(&toys::endpoint(EndpointKind::Responses));
        let mut history = History::default();
        history.add(&prepared.turns, 0, &plain, &kept("re one", "resp_1"));
        assert_eq!(texts(&history.body(&prepared.turns, 1)), ["one", "re one", "two"]);
    }

    #[test]
    fn a_failed_turn_has_no_reply() {
        let endpoint = Endpoint::new(&toys::endpoint(EndpointKind::Chat));
        let prepared = toys::prepared(toys::conversation(&["one", "two"]));
        for answer in [Answer { failure: Some(failure()), ..answer("cut off") }, Answer::default()] {
            let mut history = History::default();
            history.add(&prepared.turns, 0, &endpoint, &answer);
            assert_eq!(said(&history.body(&prepared.turns, 1)), pairs(&[("user", "one"), ("user", "two")]));
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
        history.add(&prepared.turns, 0, &endpoint, &answer("reply"));
        assert_eq!(said(&history.body(&prepared.turns, 1)), pairs(&[("user", "mine")]));
        history.add(&prepared.turns, 1, &endpoint, &answer("to mine"));
        let three = [("user", "one"), ("assistant", "reply"), ("user", "three")];
        assert_eq!(said(&history.body(&prepared.turns, 2)), pairs(&three));
    }
}
