//! Failures counted by what they say.

use std::collections::HashMap;

use aiperf_core::outcome::{Failure, FailureKind, Stage};

use crate::alike::without_volatile;

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

/// Failures that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorGroup {
    /// The first of them.
    pub failure: Failure,
    /// How many.
    pub count: u64,
    /// How many of them might not fail when they are tried again.
    pub retryable: u64,
    /// Where they broke, in order of first sight, and how many there.
    pub stages: Vec<(Stage, u64)>,
    /// Whether their words differ in ids, times or numbers: `failure` is one example.
    pub varies: bool,
}

type Key = (FailureKind, Option<i64>, String, String);

/// Counts failures by kind, code, type and message, in order of first sight. What changes from request to request in a server's
/// own words does not tell them apart. Cancelled requests are in it too, worded as a failure, as in AIPerf's files.
#[derive(Debug, Clone, Default)]
pub struct ErrorSummary {
    groups: Vec<ErrorGroup>,
    index: HashMap<Key, usize>,
}

impl ErrorSummary {
    /// Counts one failure.
    pub fn add(&mut self, failure: &Failure) {
        let group = ErrorGroup {
            failure: failure.clone(),
            count: 1,
            retryable: u64::from(failure.retryable),
            stages: vec![(failure.stage, 1)],
            varies: false,
        };
        self.add_group(group);
    }

    /// Takes in what another reader counted; its groups come after ours.
    pub fn merge(&mut self, other: &Self) {
        for group in &other.groups {
            self.add_group(group.clone());
        }
    }

    /// The groups in order of first sight.
    pub fn groups(&self) -> &[ErrorGroup] {
        &self.groups
    }

    fn add_group(&mut self, mut group: ErrorGroup) {
        let failure = &group.failure;
        let mut key = (failure.kind, failure.code, failure.type_name.clone(), words(failure));
        if !self.index.contains_key(&key) {
            // The last tenth is for groups without a message of their own.
            if self.groups.len() >= MAX_GROUPS - MAX_GROUPS / 10 {
                OTHER_MESSAGES.clone_into(&mut key.3);
                OTHER_MESSAGES.clone_into(&mut group.failure.message);
            }
            if self.groups.len() >= MAX_GROUPS - 1 && !self.index.contains_key(&key) {
                key = (FailureKind::ServerError, None, OTHER_TYPES.to_owned(), OTHER_MESSAGES.to_owned());
                group.failure.kind = FailureKind::ServerError;
                group.failure.code = None;
                OTHER_TYPES.clone_into(&mut group.failure.type_name);
            }
        }
        let Some(at) = self.index.get(&key) else {
            self.index.insert(key, self.groups.len());
            self.groups.push(group);
            return;
        };
        let ours = &mut self.groups[*at];
        ours.count += group.count;
        ours.retryable += group.retryable;
        ours.varies |= group.varies || ours.failure.message != group.failure.message;
        for (stage, count) in group.stages {
            match ours.stages.iter_mut().find(|(known, _)| *known == stage) {
                Some((_, known)) => *known += count,
                None => ours.stages.push((stage, count)),
            }
        }
    }
}

/// What tells failures of one kind, code and type apart. Our own sentences hold nothing that changes, and addresses that do not.
fn words(failure: &Failure) -> String {
    match failure.kind {
        FailureKind::HttpStatus | FailureKind::ServerError | FailureKind::Malformed | FailureKind::Empty => {
            without_volatile(&failure.message)
        }
        _ => failure.message.clone(),
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

    fn failure(code: i64, message: &str) -> Failure {
        Failure {
            kind: FailureKind::HttpStatus,
            stage: Stage::Answer,
            code: Some(code),
            type_name: "Internal Server Error".to_owned(),
            message: message.to_owned(),
            retryable: code == 503,
            server_code: None,
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
    fn what_changes_from_request_to_request_makes_no_group() {
        let mut errors = ErrorSummary::default();
        for (id, stage) in
            [("1f2e3d4c5b", Stage::Answer), ("0a9b8c7d6e", Stage::InStream), ("aaaa1111bb", Stage::Answer)]
        {
            errors
                .add(&Failure { stage, ..failure(503, &format!("request {id} waited {} ms", id.len() * 7)) });
        }
        errors.add(&failure(503, "the model `llama-3-8b` is not there"));
        errors.add(&failure(503, "the model `llama-3-70b` is not there"));
        let groups = errors.groups();
        assert_eq!(groups.len(), 3);
        assert_eq!((groups[0].count, groups[0].retryable, groups[0].varies), (3, 3, true));
        assert_eq!(groups[0].failure.message, "request 1f2e3d4c5b waited 70 ms", "one example");
        assert_eq!(groups[0].stages, [(Stage::Answer, 2), (Stage::InStream, 1)]);
        assert!(!groups[1].varies);
        // Our own words name addresses: two servers that refuse are two matters.
        let refused = |port: u16| Failure {
            kind: FailureKind::Connect,
            ..failure(0, &format!("cannot connect to 127.0.0.1:{port}"))
        };
        let mut errors = ErrorSummary::default();
        errors.add(&refused(8001));
        errors.add(&refused(8002));
        assert_eq!(errors.groups().len(), 2);
        let mut both = errors.clone();
        both.merge(&errors);
        assert_eq!(both.groups().iter().map(|g| (g.count, g.varies)).collect::<Vec<_>>(), [(2, false); 2]);
    }

    /// A word of letters alone for each number.
    fn word(mut i: i64) -> String {
        let mut word = String::new();
        while i > 0 {
            word.push((b'a' + (i % 26) as u8) as char);
            i /= 26;
        }
        word
    }

    #[test]
    fn a_flood_of_messages_stays_bounded_and_adds_up() {
        let mut errors = ErrorSummary::default();
        for i in 0..5000 {
            errors.add(&failure(500 + i % 7, &format!("request {}", word(i))));
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
