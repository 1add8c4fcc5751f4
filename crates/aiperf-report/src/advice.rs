//! What to try when requests failed in a way that is known: one sentence for each cause, with the options that help.

use aiperf_core::outcome::{Failure, FailureKind, Stage};
use aiperf_metrics::ErrorGroup;

/// Fields of ours, or usual ones, that strict servers do not know.
const FIELDS: [&str; 7] = [
    "max_completion_tokens",
    "stream_options",
    "continuous_usage_stats",
    "ignore_eos",
    "min_tokens",
    "max_tokens",
    "temperature",
];
/// How servers word that they do not know a field.
const UNKNOWN_FIELD: [&str; 6] = [
    "extra inputs are not permitted",
    "extra_forbidden",
    "unrecognized request argument",
    "unexpected keyword argument",
    "unsupported parameter",
    "unexpected fields",
];
/// How servers word that a request is longer than what the model can take.
const TOO_LONG: [&str; 6] = [
    "maximum context length",
    "context_length_exceeded",
    "context length",
    "max_model_len",
    "maximum allowed length",
    "prompt is too long",
];

/// Advice on these failures, each said once, that of the first failure first.
pub(crate) fn advice(errors: &[ErrorGroup]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for text in errors.iter().filter_map(|group| advice_on(&group.failure)) {
        if !out.contains(&text) {
            out.push(text);
        }
    }
    out
}

fn advice_on(failure: &Failure) -> Option<String> {
    let said = failure.message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let text = match (failure.kind, failure.code) {
        (FailureKind::HttpStatus | FailureKind::ServerError, Some(400 | 422)) if says(&UNKNOWN_FIELD) => {
            let named = FIELDS.into_iter().filter(|field| says(&[field])).collect::<Vec<_>>();
            return Some(unknown_fields(&named));
        }
        (FailureKind::HttpStatus | FailureKind::ServerError, Some(400 | 413 | 422)) if says(&TOO_LONG) => {
            "The server says that a request is longer than its context. Lower --isl or --osl (both must fit together), or serve the model \
             with a longer context."
        }
        (FailureKind::HttpStatus | FailureKind::ServerError, Some(404)) if says(&["model"]) => {
            "The server does not know the model. --model must be a name that its /v1/models lists."
        }
        (FailureKind::HttpStatus, Some(404 | 405)) => {
            "The server has nothing at this path. Look at --url, --endpoint-type and --custom-endpoint."
        }
        (FailureKind::HttpStatus, Some(401 | 403)) => {
            "The server wants to know who asks. Give a key with --api-key-file or --api-key-env, or a header with --header."
        }
        (FailureKind::HttpStatus | FailureKind::ServerError, Some(429)) => {
            "The server limits how much is asked of it. Lower --concurrency or --request-rate, or raise its limit: what was measured is the \
             limit, not the model."
        }
        (FailureKind::Connect, _) if failure.type_name == "ClientConnectorError" => {
            "Nothing takes connections at this address. Is the server up, and does it listen on this host and port?"
        }
        (FailureKind::Resolve, _) => "The name of the server has no address here. Look at --url.",
        (FailureKind::Tls, _) if failure.type_name == "ClientConnectorCertificateError" => {
            "The server's certificate is not trusted here. --ca-file takes the certificate of whoever signed it."
        }
        (FailureKind::Timeout, _) if failure.stage == Stage::Connect => {
            "Connections took too long. Is the address right, and can the server keep up with so many of them at once?"
        }
        (FailureKind::Timeout, _) => {
            "Answers took longer than a limit of this run: --request-timeout-seconds, --first-token-timeout-seconds and \
             --idle-timeout-seconds set them."
        }
        (FailureKind::Empty, _) => {
            "Answers came without any content. Look at the model, at --osl, and at what --export-level raw keeps of them."
        }
        _ => return None,
    };
    Some(text.to_owned())
}

fn unknown_fields(named: &[&str]) -> String {
    match named {
        ["max_completion_tokens", ..] => {
            "The server does not know the field max_completion_tokens. --use-legacy-max-tokens sends max_tokens in its place.".to_owned()
        }
        [] => "The server refuses a field that it does not know. Look at --extra-inputs.".to_owned(),
        _ => format!(
            "The server does not know the field {}. Leave it out of --extra-inputs, or set it to what the server takes.",
            named.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(kind: FailureKind, code: Option<i64>, type_name: &str, message: &str) -> ErrorGroup {
        let failure = Failure {
            kind,
            stage: Stage::Answer,
            code,
            type_name: type_name.to_owned(),
            message: message.to_owned(),
            retryable: false,
            server_code: None,
        };
        ErrorGroup { failure, count: 1, retryable: 0, stages: vec![(Stage::Answer, 1)], varies: false }
    }

    #[test]
    fn known_failures_have_advice_and_others_none() {
        use FailureKind::{Connect, Empty, HttpStatus, Malformed, Resolve, ServerError, Timeout, Tls};
        let forbidden = r#"{"detail":[{"type":"extra_forbidden","loc":["body","max_completion_tokens"]}]}"#;
        for (kind, code, type_name, message, expected) in [
            (HttpStatus, Some(422), "", forbidden, "--use-legacy-max-tokens"),
            (
                HttpStatus,
                Some(400),
                "",
                "Unrecognized request argument supplied: ignore_eos",
                "field ignore_eos",
            ),
            (HttpStatus, Some(400), "", "got an unexpected keyword argument 'foo'", "Look at --extra-inputs"),
            (HttpStatus, Some(400), "", "This model's maximum context length is 4096", "Lower --isl"),
            (ServerError, Some(404), "", "The model `x` does not exist.", "/v1/models"),
            (HttpStatus, Some(404), "Not Found", "", "--custom-endpoint"),
            (HttpStatus, Some(401), "Unauthorized", "", "--api-key-file"),
            (HttpStatus, Some(429), "", "slow down", "--request-rate"),
            (Connect, None, "ClientConnectorError", "cannot connect", "Is the server up"),
            (Resolve, None, "ClientConnectorDNSError", "", "--url"),
            (Tls, None, "ClientConnectorCertificateError", "", "--ca-file"),
            (Timeout, None, "TimeoutError", "", "--request-timeout-seconds"),
            (Empty, None, "InvalidInferenceResultError", "", "--export-level raw"),
        ] {
            let told = advice(&[group(kind, code, type_name, message)]);
            assert!(told.len() == 1 && told[0].contains(expected), "{code:?} {message}: {told:?}");
        }
        assert_eq!(
            advice(&[
                group(HttpStatus, Some(500), "", "model crashed"),
                group(Malformed, None, "", ""),
                group(HttpStatus, Some(400), "", "bad"),
                group(Connect, None, "LocalPortShortage", ""),
            ]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn advice_is_given_once_in_the_order_of_the_errors() {
        let errors = [
            group(FailureKind::HttpStatus, Some(429), "", "a"),
            group(FailureKind::HttpStatus, Some(401), "", ""),
            group(FailureKind::HttpStatus, Some(429), "", "b"),
        ];
        let told = advice(&errors);
        assert!(told.len() == 2 && told[0].contains("limits") && told[1].contains("who asks"), "{told:?}");
    }
}
