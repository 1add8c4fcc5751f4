//! Responses that were to be kept (`store`), for requests that go on from them (`previous_response_id`).

use std::collections::VecDeque;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

/// Most bytes of conversations kept. What a real server does when it has no more room is its own affair; here the oldest go.
const MOST_BYTES: usize = 256 << 20;

/// Conversations by the id of their last response.
#[derive(Debug)]
pub(crate) struct Shelf {
    most: usize,
    kept: FxHashMap<u128, Rc<str>>,
    order: VecDeque<u128>,
    bytes: usize,
}

impl Default for Shelf {
    fn default() -> Self {
        Self::new(MOST_BYTES)
    }
}

impl Shelf {
    /// Keeps so many bytes at most.
    fn new(most: usize) -> Self {
        Self { most, kept: FxHashMap::default(), order: VecDeque::new(), bytes: 0 }
    }

    /// The items of the conversation that ends with the response called `id`: JSON, without the brackets around them.
    pub(crate) fn get(&self, id: &str) -> Option<Rc<str>> {
        let digits = id.strip_prefix("resp_").filter(|digits| digits.len() == 32)?;
        self.kept.get(&u128::from_str_radix(digits, 16).ok()?).cloned()
    }

    /// Keeps the conversation of `input`, as the request has it, and the answer `reply`.
    pub(crate) fn keep(&mut self, id: u128, input: &str, reply: Option<&str>) {
        let Some(mut items) = items(input) else { return };
        if let Some(reply) = reply {
            items.push(',');
            items.push_str(&json!({"role": "assistant", "content": reply}).to_string());
        }
        self.bytes += items.len();
        if self.kept.insert(id, items.into()).is_none() {
            self.order.push_back(id);
        }
        while self.bytes > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.kept.remove(&oldest).map_or(0, |items| items.len());
        }
    }
}

/// The input of a request that goes on from the items `before`.
pub(crate) fn behind(before: &str, input: &str) -> String {
    // What is no input of messages is refused as it is.
    items(input).map_or_else(|| input.to_owned(), |own| format!("[{before},{own}]"))
}

/// The items of an input, without brackets around them: a text is a message of the user's. `None` of anything else.
fn items(input: &str) -> Option<String> {
    match input.trim().as_bytes() {
        [b'[', inner @ .., b']'] if !inner.trim_ascii().is_empty() => {
            Some(String::from_utf8_lossy(inner.trim_ascii()).into_owned())
        }
        [b'"', ..] => {
            let text: Value = serde_json::from_str(input).ok()?;
            Some(json!({"role": "user", "content": text}).to_string())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversations_grow_and_the_oldest_go() {
        let mut shelf = Shelf::new(200);
        shelf.keep(1, r#""hi""#, Some("oh"));
        let name = |id: u128| format!("resp_{id:032x}");
        let first = shelf.get(&name(1)).expect("it is kept");
        let next = behind(&first, r#" [ {"role":"user","content":"more"} ] "#);
        let wanted = json!([
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "oh"},
            {"role": "user", "content": "more"},
        ]);
        assert_eq!(serde_json::from_str::<Value>(&next).expect("JSON"), wanted);
        shelf.keep(2, &next, None);
        assert!(shelf.get(&name(1)).is_some() && shelf.get(&name(2)).is_some());
        shelf.keep(3, r#""again""#, Some("yes"));
        assert_eq!((shelf.get(&name(1)), shelf.get(&name(2)).is_some()), (None, true));
        assert_eq!(shelf.bytes, shelf.kept.values().map(|items| items.len()).sum::<usize>());
        for id in ["", "resp_1", "2", "resp_zz"] {
            assert_eq!(shelf.get(id), None, "{id}");
        }
        // What nobody could answer is refused by who counts it.
        for input in ["[]", "5", "null"] {
            assert_eq!(behind("x", input), input);
        }
    }
}
