//! Failures counted by what they say.

use std::collections::HashMap;

use aiperf_core::outcome::Failure;

/// Most groups kept; a server that words every failure differently must not fill the memory. Late ones are counted by code and type alone,
/// the very last together.
pub const MAX_GROUPS: usize = 1000;
const OTHER_MESSAGES: &str = "(other messages)";
const OTHER_TYPES: &str = "(other errors)";

/// What servers say of a prompt that is longer than the model's context, AIPerf's list.
const OVERFLOWS: [&str; 4] =
    ["context length", "maximum context", "context_length_exceeded", "prompt is too long"];

/// Whether a failure says that the context is too long.
pub fn is_context_overflow(failure: &Failure) -> bool {
    let message = failure.message.to_lowercase();
    OVERFLOWS.iter().any(|words| message.contains(words))
}

/// Equal failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorGroup {
    /// The first of them.
    pub failure: Failure,
    /// How many.
    pub count: u64,
}

type Key = (Option<i64>, String, String);

/// Counts failures by code, type and message, in order of first sight. Cancelled requests are in it too, worded as a
/// failure, as in AIPerf's files.
#[derive(Debug, Clone, Default)]
pub struct ErrorSummary {
    groups: Vec<ErrorGroup>,
    index: HashMap<Key, usize>,
}

impl ErrorSummary {
    /// Counts one failure.
    pub fn add(&mut self, failure: &Failure) {
        self.add_many(failure, 1);
    }

    /// Takes in what another reader counted; its groups come after ours.
    pub fn merge(&mut self, other: &Self) {
        for group in &other.groups {
            self.add_many(&group.failure, group.count);
        }
    }

    /// The groups in order of first sight.
    pub fn groups(&self) -> &[ErrorGroup] {
        &self.groups
    }

    fn add_many(&mut self, failure: &Failure, count: u64) {
        let mut key = (failure.code, failure.type_name.clone(), failure.message.clone());
        if !self.index.contains_key(&key) {
            // The last tenth is for groups without a message of their own.
            if self.groups.len() >= MAX_GROUPS - MAX_GROUPS / 10 {
                OTHER_MESSAGES.clone_into(&mut key.2);
            }
            if self.groups.len() >= MAX_GROUPS - 1 && !self.index.contains_key(&key) {
                key = (None, OTHER_TYPES.to_owned(), OTHER_MESSAGES.to_owned());
            }
        }
        if let Some(at) = self.index.get(&key) {
            self.groups[*at].count += count;
        } else {
            let (code, type_name, message) = key.clone();
            self.index.insert(key, self.groups.len());
            let failure = Failure { code, type_name, message, ..*failure };
            self.groups.push(ErrorGroup { failure, count });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_that_is_too_long_is_known_by_its_words() {
        let says =
            |message: &str| is_context_overflow(&Failure { message: message.into(), ..failure(400, "") });
        assert!(says("{\"error\":{\"code\":\"context_length_exceeded\"}}"));
        assert!(says("This model's Maximum Context length is 4096 tokens"));
        assert!(says("Prompt is too long: 9 > 8"));
        assert!(!says("the text is too long") && !says(""));
    }
    use aiperf_core::outcome::{FailureKind, Stage};

    fn failure(code: i64, message: &str) -> Failure {
        Failure {
            kind: FailureKind::HttpStatus,
            stage: Stage::Answer,
            code: Some(code),
            type_name: "Internal Server Error".to_owned(),
            message: message.to_owned(),
            retryable: false,
        }
    }

    #[test]
    fn equal_errors_are_one_group_in_order_of_first_sight() {
        let mut errors = ErrorSummary::default();
        for (code, message) in [(500, "b"), (500, "a"), (500, "b")] {
            errors.add(&failure(code, message));
        }
        let mut more = ErrorSummary::default();
        for (code, message) in [(502, "a"), (500, "a")] {
            more.add(&failure(code, message));
        }
        errors.merge(&more);
        let seen: Vec<_> =
            errors.groups().iter().map(|g| (g.failure.code, g.failure.message.as_str(), g.count)).collect();
        assert_eq!(seen, [(Some(500), "b", 2), (Some(500), "a", 2), (Some(502), "a", 1)]);
    }

    #[test]
    fn a_flood_of_messages_stays_bounded_and_adds_up() {
        let mut errors = ErrorSummary::default();
        for i in 0..5000 {
            errors.add(&failure(500 + i % 7, &format!("request {i}")));
        }
        for i in 0..5000 {
            errors.add(&failure(i, "x"));
        }
        assert!(errors.groups().len() <= MAX_GROUPS);
        assert_eq!(errors.groups().iter().map(|g| g.count).sum::<u64>(), 10_000);
        let others = |f: &Failure| f.code == Some(503) && f.message == OTHER_MESSAGES;
        assert!(errors.groups().iter().any(|g| others(&g.failure) && g.count > 500));
    }
}
