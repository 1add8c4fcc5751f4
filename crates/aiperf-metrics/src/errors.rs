//! Failures counted by what they say.

use std::collections::HashMap;

use aiperf_core::outcome::{CancelReason, Failure, FailureKind, Stage};

/// Code AIPerf gives to requests it dropped itself.
pub const CANCELLED_CODE: i64 = 499;
/// Type AIPerf gives to requests it dropped itself.
pub const CANCELLED_TYPE: &str = "RequestCancellationError";
/// Most groups kept; a server that words every failure differently must not fill the memory. Later ones are
/// counted by code and type alone, at the very end as other errors.
pub const MAX_GROUPS: usize = 1000;
const OTHER_MESSAGES: &str = "(other messages)";
const OTHER_TYPES: &str = "(other errors)";

/// One error as files show it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ErrorDetails {
    /// HTTP status or the server's own code.
    pub code: Option<i64>,
    /// The word scripts group by.
    pub type_name: String,
    /// The server's words, or ours.
    pub message: String,
    /// Kind, place and whether another try could help; absent for requests dropped on purpose.
    pub why: Option<(FailureKind, Stage, bool)>,
}

impl From<&Failure> for ErrorDetails {
    fn from(f: &Failure) -> Self {
        Self {
            code: f.code,
            type_name: f.type_name.clone(),
            message: f.message.clone(),
            why: Some((f.kind, f.stage, f.retryable)),
        }
    }
}

impl From<CancelReason> for ErrorDetails {
    /// AIPerf counts its own cancellations as errors 499 in files; so do we there.
    fn from(reason: CancelReason) -> Self {
        let message = match reason {
            CancelReason::GraceOver => "cancelled: the phase's grace period was over",
            CancelReason::Interrupted => "cancelled: the run was interrupted",
        };
        Self {
            code: Some(CANCELLED_CODE),
            type_name: CANCELLED_TYPE.to_owned(),
            message: message.to_owned(),
            why: None,
        }
    }
}

/// Equal errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorGroup {
    /// The first of them.
    pub error: ErrorDetails,
    /// How many.
    pub count: u64,
}

type Key = (Option<i64>, String, String);

/// Counts errors by code, type and message, in order of first sight.
#[derive(Debug, Clone, Default)]
pub struct ErrorSummary {
    groups: Vec<ErrorGroup>,
    index: HashMap<Key, usize>,
}

impl ErrorSummary {
    /// Counts one error.
    pub fn add(&mut self, error: ErrorDetails) {
        self.add_many(error, 1);
    }

    /// Takes in what another reader counted; its groups come after ours.
    pub fn merge(&mut self, other: Self) {
        for group in other.groups {
            self.add_many(group.error, group.count);
        }
    }

    /// The groups in order of first sight.
    pub fn groups(&self) -> &[ErrorGroup] {
        &self.groups
    }

    fn add_many(&mut self, mut error: ErrorDetails, count: u64) {
        if !self.knows(&error) {
            if self.groups.len() >= MAX_GROUPS - MAX_GROUPS / 10 {
                error = ErrorDetails { message: OTHER_MESSAGES.to_owned(), why: None, ..error };
            }
            if self.groups.len() >= MAX_GROUPS - 1 && !self.knows(&error) {
                error.code = None;
                OTHER_TYPES.clone_into(&mut error.type_name);
            }
        }
        let key = (error.code, error.type_name.clone(), error.message.clone());
        if let Some(at) = self.index.get(&key) {
            self.groups[*at].count += count;
        } else {
            self.index.insert(key, self.groups.len());
            self.groups.push(ErrorGroup { error, count });
        }
    }

    fn knows(&self, error: &ErrorDetails) -> bool {
        self.index.contains_key(&(error.code, error.type_name.clone(), error.message.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        errors.add((&failure(500, "b")).into());
        errors.add((&failure(500, "a")).into());
        errors.add((&failure(500, "b")).into());
        errors.add(CancelReason::GraceOver.into());
        let mut more = ErrorSummary::default();
        more.add((&failure(502, "a")).into());
        more.add((&failure(500, "a")).into());
        errors.merge(more);
        let seen: Vec<_> =
            errors.groups().iter().map(|g| (g.error.code, g.error.message.as_str(), g.count)).collect();
        let cancelled = "cancelled: the phase's grace period was over";
        assert_eq!(
            seen,
            [(Some(500), "b", 2), (Some(500), "a", 2), (Some(499), cancelled, 1), (Some(502), "a", 1)]
        );
    }

    #[test]
    fn a_flood_of_messages_stays_bounded_and_adds_up() {
        let mut errors = ErrorSummary::default();
        for i in 0..5000 {
            errors.add((&failure(500 + i % 7, &format!("request {i}"))).into());
        }
        for i in 0..5000 {
            errors.add((&failure(i, "x")).into());
        }
        assert!(errors.groups().len() <= MAX_GROUPS);
        assert_eq!(errors.groups().iter().map(|g| g.count).sum::<u64>(), 10_000);
        let others = errors.groups().iter().find(|g| g.error.message == OTHER_MESSAGES);
        assert!(others.is_some_and(|g| g.count > 500));
    }
}
