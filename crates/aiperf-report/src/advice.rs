//! What to try when requests failed in a way that is known: one sentence for each cause, with the options that help.

use aiperf_core::outcome::{Failure, FailureKind, Stage};
use aiperf_core::text::for_terminal;
use aiperf_metrics::ErrorGroup;

/// Fields that options other than `--extra-inputs` put into a body, each with what says so and what helps.
const OWN_FIELDS: [(&str, &str); 7] = [
    (
        "max_completion_tokens",
        "an output length (--osl) puts into the body. --use-legacy-max-tokens sends max_tokens in its place",
    ),
    ("max_tokens", "an output length (--osl) puts into the body"),
    ("max_output_tokens", "an output length (--osl) puts into the body"),
    ("max_new_tokens", "an output length (--osl) puts into the body"),
    ("continuous_usage_stats", "--per-chunk-usage puts into the body"),
    ("stream_options", "--streaming puts into the body, to ask for the server's counts"),
    ("include_usage", "--streaming puts into stream_options, to ask for the server's counts"),
];
/// Most fields of one refusal that are told.
const MOST_FIELDS: usize = 8;
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

/// What a run tells beside its failures.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Around<'a> {
    /// Names of the fields that the user lays over every body.
    pub extra: &'a [&'a str],
    /// Some requests were answered.
    pub any_answered: bool,
}

/// Advice on these failures, each said once, that of the first failure first.
pub(crate) fn advice(errors: &[ErrorGroup], around: Around<'_>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for text in errors.iter().flat_map(|group| advice_on(&group.failure, around)) {
        if !out.contains(&text) {
            out.push(text);
        }
    }
    out
}

fn advice_on(failure: &Failure, around: Around<'_>) -> Vec<String> {
    let extra = around.extra;
    let said = failure.message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let is_refusal = matches!(failure.kind, FailureKind::HttpStatus | FailureKind::ServerError)
        && matches!(failure.code, Some(400 | 422));
    if is_refusal && says(&UNKNOWN_FIELD) {
        return unknown_fields(&failure.message, extra);
    }
    known(failure, &says, around.any_answered)
        .map(str::to_owned)
        .or_else(|| bad_value(failure, extra).filter(|_| is_refusal))
        .into_iter()
        .collect()
}

fn known(failure: &Failure, says: &dyn Fn(&[&str]) -> bool, any_answered: bool) -> Option<&'static str> {
    let has_counts = says(&["and the server counts"]);
    let reached_its_limit = says(&["reason is \"length\"", "reason is \"max_"]);
    let said_nothing = !has_counts && says(&["reason is \"stop\"", "reason is \"end_turn\""]);
    let text = match (failure.kind, failure.code) {
        (FailureKind::HttpStatus | FailureKind::ServerError, Some(400 | 413 | 422)) if says(&TOO_LONG) => {
            "The server says that a request is longer than its context. Lower --isl or --osl (both must fit together), or serve the model \
             with a longer context."
        }
        (FailureKind::HttpStatus | FailureKind::ServerError, Some(400 | 404))
            if says(&["previous_response", "previous response", "response with id"]) =>
        {
            "The server does not keep the responses that later turns go on from (store:true in --extra-inputs), or not so long. Let it keep \
             them (vLLM: VLLM_ENABLE_RESPONSES_API_STORE=1), or leave store:true out: each turn then holds the whole conversation."
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
        (FailureKind::Connect, _) if failure.type_name == "ClientConnectorError" && any_answered => {
            "A server answered requests of this run and then, or now and then, took no connection. Did it end or start anew? Its log may tell."
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
        (FailureKind::Empty, _) if says(&["(--response-field) finds no"]) => {
            "Nothing is where --response-field says that content is. The message shows how an answer begins; --export-level raw keeps whole \
             ones."
        }
        (FailureKind::Empty, _) if has_counts && reached_its_limit => {
            "The server counts tokens that it did not send. Many servers hold back a tool call or a thought until it is whole, and the limit \
             cut it off: raise --osl."
        }
        (FailureKind::Empty, _) if said_nothing => {
            "The model ended answers before it wrote anything. --extra-inputs ignore_eos:true (vLLM, SGLang, TensorRT-LLM) or \
             min_tokens:N makes it write."
        }
        (FailureKind::Empty, _) => {
            "Answers came without any content. Look at the model, at --osl, and at what --export-level raw keeps of them."
        }
        _ => return None,
    };
    Some(text)
}

/// Which fields a server does not know, and what put each into the body.
fn unknown_fields(message: &str, extra: &[&str]) -> Vec<String> {
    let does_not_know = "The server does not know the field";
    let mut out = Vec::new();
    let theirs: Vec<&str> = extra.iter().copied().filter(|field| names(message, field)).collect();
    if !theirs.is_empty() {
        let (s, puts, it) = if theirs.len() == 1 { ("", "puts", "it") } else { ("s", "put", "them") };
        let list = listed(&theirs);
        out.push(format!(
            "{does_not_know}{s} {list}, which --extra-inputs {puts} into the body. Leave {it} out, or give what this server has in {} place.",
            if theirs.len() == 1 { "its" } else { "their" },
        ));
    }
    for (field, origin) in OWN_FIELDS {
        if !theirs.contains(&field) && names(message, field) {
            out.push(format!("{does_not_know} {field}, which {origin}."));
        }
    }
    if out.is_empty() {
        out.push(
            "The server refuses a field that it does not know. Look at --extra-inputs, and at extra in the rows of a file.".to_owned(),
        );
    }
    out
}

/// That the server's words name a field which the user laid over the body.
fn bad_value(failure: &Failure, extra: &[&str]) -> Option<String> {
    let theirs: Vec<&str> = extra.iter().copied().filter(|field| names(&failure.message, field)).collect();
    (!theirs.is_empty()).then(|| {
        let what = if theirs.len() == 1 { "puts" } else { "put" };
        format!("The server's words name {}, which --extra-inputs {what} into the body.", listed(&theirs))
    })
}

fn listed(fields: &[&str]) -> String {
    let shown: Vec<String> = fields.iter().take(MOST_FIELDS).map(|f| for_terminal(f, 60)).collect();
    shown.join(", ")
}

/// Whether `message` has `field` as a word of its own: between quotes of any kind, or, where it is long enough to be no word of a sentence,
/// between anything that no name has.
fn names(message: &str, field: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    message.match_indices(field).any(|(at, _)| {
        let before = message[..at].chars().next_back();
        let after = message[at + field.len()..].chars().next();
        let quoted = matches!((before, after), (Some(a), Some(b)) if a == b && matches!(a, '\'' | '"' | '`'));
        quoted || (field.contains('_') && !before.is_some_and(in_name) && !after.is_some_and(in_name))
    })
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
            (HttpStatus, Some(404), "Not Found", "Response with id 'resp_1' not found.", "store:true"),
            (
                Empty,
                None,
                "",
                "no content: the response field 'a.b' (--response-field) finds no text, vector or ranking in the answer, which begins: \
                 {\"reason is \\\"length\\\", and the server counts\"}",
                "Nothing is where --response-field says",
            ),
            (HttpStatus, Some(401), "Unauthorized", "", "--api-key-file"),
            (HttpStatus, Some(429), "", "slow down", "--request-rate"),
            (Connect, None, "ClientConnectorError", "cannot connect", "Is the server up"),
            (Resolve, None, "ClientConnectorDNSError", "", "--url"),
            (Tls, None, "ClientConnectorCertificateError", "", "--ca-file"),
            (Timeout, None, "TimeoutError", "", "--request-timeout-seconds"),
            (Empty, None, "InvalidInferenceResultError", "", "--export-level raw"),
            (Empty, None, "", "no content: …; the finish reason is \"stop\"", "min_tokens:N"),
            (
                Empty,
                None,
                "",
                "…; the finish reason is \"length\", and the server counts 16 output tokens",
                "raise --osl",
            ),
        ] {
            let told = advice(
                &[group(kind, code, type_name, message)],
                Around { extra: &["ignore_eos"], ..Around::default() },
            );
            assert!(told.len() == 1 && told[0].contains(expected), "{code:?} {message}: {told:?}");
        }
        assert_eq!(
            advice(
                &[
                    group(HttpStatus, Some(500), "", "model crashed"),
                    group(Malformed, None, "", ""),
                    group(HttpStatus, Some(400), "", "bad"),
                    group(Connect, None, "LocalPortShortage", ""),
                ],
                Around { extra: &["bad"], ..Around::default() },
            ),
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
        let told = advice(&errors, Around::default());
        assert!(told.len() == 2 && told[0].contains("limits") && told[1].contains("who asks"), "{told:?}");
    }

    #[test]
    fn a_refused_field_is_told_with_what_sent_it() {
        let told = |code, message: &str, extra: &[&str]| {
            advice(
                &[group(FailureKind::HttpStatus, Some(code), "Unprocessable Entity", message)],
                Around { extra, ..Around::default() },
            )
        };
        // transformers serve: a set, as Python writes it.
        let set = r#"{"detail":"Unexpected fields in the request: {'ignore_eos', 'min_tokens'}"}"#;
        let both = "The server does not know the fields min_tokens, ignore_eos, which --extra-inputs put into the body. Leave them out, or \
                    give what this server has in their place.";
        assert_eq!(told(422, set, &["min_tokens", "temperature", "ignore_eos"]), [both]);
        let one = told(422, set, &["ignore_eos"]);
        assert!(one.len() == 1 && one[0].contains("field ignore_eos, which --extra-inputs puts"), "{one:?}");
        // Nothing of the command line has it: a row of a file has.
        assert!(told(422, set, &["top_p"])[0].contains("rows of a file"));
        // What options of ours send is told by their names, and each field for itself.
        let ours = r#"{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"]},
            {"type":"extra_forbidden","loc":["body","max_completion_tokens"]}]}"#;
        let told_ours = told(422, ours, &[]);
        assert_eq!(told_ours.len(), 2, "{told_ours:?}");
        assert!(told_ours[0].contains("max_completion_tokens, which an output length (--osl)"));
        assert!(told_ours[1].contains("stream_options, which --streaming"));
        let laid_over = told(422, ours, &["stream_options"]);
        assert!(laid_over[0].contains("stream_options, which --extra-inputs") && laid_over.len() == 2);
    }

    #[test]
    fn a_field_is_a_word_of_its_own() {
        for (message, field, expected) in [
            ("{'n'}", "n", true),
            (r#"{"param":"temperature"}"#, "temperature", true),
            ("the argument `seed` is", "seed", true),
            ("supplied: ignore_eos", "ignore_eos", true),
            ("ignore_eos_token", "ignore_eos", false),
            ("another line\nhere", "n", false),
            ("the temperature of the room", "temperature", false),
            ("", "n", false),
        ] {
            assert_eq!(names(message, field), expected, "{message}: {field}");
        }
    }

    #[test]
    fn a_value_that_the_server_refuses_is_told_with_its_option() {
        let message = r#"{"error":{"message":"temperature must be non-negative, got -3.0.","param":"temperature","code":400}}"#;
        let told = |extra: &[&str]| {
            advice(
                &[group(FailureKind::HttpStatus, Some(400), "Bad Request", message)],
                Around { extra, ..Around::default() },
            )
        };
        assert_eq!(
            told(&["seed", "temperature"]),
            ["The server's words name temperature, which --extra-inputs puts into the body."]
        );
        assert_eq!(told(&["seed"]), Vec::<String>::new());
    }

    #[test]
    fn a_server_that_answered_before_is_no_wrong_address() {
        let errors = [group(FailureKind::Connect, None, "ClientConnectorError", "cannot connect")];
        let told = |any_answered| advice(&errors, Around { any_answered, ..Around::default() });
        assert!(told(false)[0].contains("Is the server up"));
        assert!(told(true)[0].contains("end or start anew"));
    }
}
