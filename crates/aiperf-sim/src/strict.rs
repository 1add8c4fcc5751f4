//! The fields that each API knows, for servers that refuse all others.

use serde_json::{Map, Value};

use crate::refusal::Refusal;
use crate::request::Api;

/// Fields of chat and completions in OpenAI's reference.
const COMMON: [&str; 16] = [
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_tokens",
    "metadata",
    "model",
    "n",
    "presence_penalty",
    "prompt_cache_key",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "temperature",
    "top_p",
    "user",
];
/// Fields of chat alone.
const CHAT: [&str; 19] = [
    "audio",
    "function_call",
    "functions",
    "max_completion_tokens",
    "messages",
    "modalities",
    "parallel_tool_calls",
    "prediction",
    "prompt_cache_retention",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "service_tier",
    "store",
    "tool_choice",
    "tools",
    "top_logprobs",
    "verbosity",
    "web_search_options",
];
/// Fields of completions alone.
const COMPLETIONS: [&str; 4] = ["best_of", "echo", "prompt", "suffix"];
/// Fields of responses in OpenAI's reference.
const RESPONSES: [&str; 28] = [
    "background",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];
/// Fields of messages in Anthropic's reference.
const MESSAGES: [&str; 17] = [
    "cache_control",
    "container",
    "context_management",
    "max_tokens",
    "mcp_servers",
    "messages",
    "metadata",
    "model",
    "service_tier",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
];

/// Fields of TGI's reference.
const TGI: [&str; 3] = ["inputs", "parameters", "stream"];
/// Fields of SGLang's reference for texts.
const SGLANG: [&str; 12] = [
    "image_data",
    "input_embeds",
    "input_ids",
    "logprob_start_len",
    "lora_path",
    "return_logprob",
    "return_text_in_logprobs",
    "rid",
    "sampling_params",
    "stream",
    "text",
    "top_logprobs_num",
];
/// Fields that AIPerf sends to Solido.
const SOLIDO: [&str; 3] = ["filters", "inference_model", "query"];

/// Refuses a body with fields that its API does not know.
pub(crate) fn refuse_unknown(api: Api, body: &[u8]) -> Result<(), Refusal> {
    let fields: Map<String, Value> = serde_json::from_slice(body).map_err(|e| Refusal::wrong(&e))?;
    let (common, own): (&[&str], &[&str]) = match api {
        Api::Chat => (&COMMON, &CHAT),
        Api::Completions => (&COMMON, &COMPLETIONS),
        Api::Responses => (&[], &RESPONSES),
        Api::Messages => (&["top_p"], &MESSAGES),
        Api::Tgi { .. } => (&[], &TGI),
        Api::Sglang => (&[], &SGLANG),
        Api::Solido => (&["stream"], &SOLIDO),
    };
    refuse_others(&fields, &[common, own])
}

/// Refuses fields that are in none of the lists.
pub(crate) fn refuse_others(fields: &Map<String, Value>, known: &[&[&str]]) -> Result<(), Refusal> {
    let mut unknown: Vec<&str> =
        fields.keys().map(String::as_str).filter(|k| !known.iter().any(|list| list.contains(k))).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    unknown.sort_unstable();
    Err(Refusal::new(
        422,
        "UnprocessableEntityError",
        format!("unexpected fields in the request: {}", unknown.join(", ")),
    ))
}
