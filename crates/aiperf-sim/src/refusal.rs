//! Refusals: HTTP errors with an error object in the form of the API that was asked.

use serde_json::json;

use crate::request::Api;

/// An HTTP error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    pub(crate) retry_after_s: Option<u64>,
    /// Whether it is told in Anthropic's form, not OpenAI's.
    anthropic: bool,
}

impl Refusal {
    pub(crate) fn new(status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), retry_after_s: None, anthropic: false }
    }

    /// A 400.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequestError", message)
    }

    /// A body that is no JSON of the right form.
    pub(crate) fn wrong(error: &serde_json::Error) -> Self {
        Self::bad(format!("the request body is wrong: {error}"))
    }

    /// A failure on purpose.
    pub(crate) fn simulated(status: u16) -> Self {
        Self::new(status, status_kind(status), format!("simulated failure {status}"))
    }

    /// The same, as `api` tells it.
    pub(crate) fn told_by(mut self, api: Api) -> Self {
        self.anthropic = api == Api::Messages;
        self
    }

    /// The error object.
    pub(crate) fn body(&self) -> String {
        if self.anthropic {
            return json!({"type": "error", "error": {"type": anthropic_kind(self.status), "message": self.message}})
                .to_string();
        }
        json!({"error": {"message": self.message, "type": self.kind, "param": null, "code": self.status}})
            .to_string()
    }
}

/// The error type that goes with a status, in vLLM's words.
fn status_kind(status: u16) -> &'static str {
    match status {
        401 => "AuthenticationError",
        404 => "NotFoundError",
        422 => "UnprocessableEntityError",
        429 => "RateLimitError",
        400..=499 => "BadRequestError",
        503 => "ServiceUnavailableError",
        _ => "InternalServerError",
    }
}

/// The same in Anthropic's.
fn anthropic_kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        503 | 529 => "overloaded_error",
        _ => "api_error",
    }
}

/// Refuses a model that is not served. Whoever names none means the one that is.
pub(crate) fn known_model(models: &[String], model: Option<&str>) -> Result<(), Refusal> {
    match model {
        Some(model) if !models.is_empty() && !models.iter().any(|m| m == model) => {
            Err(Refusal::new(404, "NotFoundError", format!("The model `{model}` does not exist.")))
        }
        _ => Ok(()),
    }
}

/// The refusal of a request that does not fit into the model, in vLLM's words.
pub(crate) fn too_long(max_model_len: u64, prompt: u64, output: u64, api: Api) -> Refusal {
    let place = match api {
        Api::Completions => "prompt",
        Api::Chat | Api::Messages => "messages",
        Api::Responses => "input",
        Api::Tgi { .. } => "inputs",
        Api::Sglang => "text",
        Api::Solido => "query",
    };
    let total = prompt.saturating_add(output);
    Refusal::bad(format!(
        "This model's maximum context length is {max_model_len} tokens. However, you requested {total} tokens ({prompt} in \
         the {place}, {output} in the completion). Please reduce the length of the {place} or completion."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_api_tells_errors_in_its_own_form() {
        let refusal = Refusal::simulated(429);
        let plain: serde_json::Value = serde_json::from_str(&refusal.body()).expect("JSON");
        assert_eq!(
            plain,
            json!({"error": {"message": "simulated failure 429", "type": "RateLimitError", "param": null, "code": 429}})
        );
        assert_eq!(refusal.clone().told_by(Api::Responses).body(), refusal.body());
        let told: serde_json::Value =
            serde_json::from_str(&refusal.told_by(Api::Messages).body()).expect("JSON");
        assert_eq!(
            told,
            json!({"type": "error", "error": {"type": "rate_limit_error", "message": "simulated failure 429"}})
        );
    }
}
