//! A line of `profile_export.jsonl` read back: the facts of a request, as far as its record holds them.
//!
//! A record has values in display units; times in it are milliseconds with all the digits of their nanoseconds, so the stamps behind
//! them come back exactly, and with them every value that the formulas made of them.

use std::borrow::Cow;
use std::collections::HashMap;

use aiperf_core::outcome::{Failure, FailureKind, Finish, Outcome, Stage};
use aiperf_core::spec_decode::SpecDecode;
use aiperf_core::usage::Usage;
use aiperf_metrics::{
    CacheFacts, ChunkFact, Facts, LengthFacts, Place, TrafficFacts, WireFacts, find, is_context_overflow,
};
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, de};

/// One request of a run that is over. Stamps are wall-clock nanoseconds.
#[derive(Debug)]
pub(crate) struct Record {
    /// Position of the phase in the plan.
    pub phase: usize,
    /// When it was to be sent, or was.
    pub begun_ns: u64,
    pub facts: Facts,
    /// The model it asked for, where there were several.
    pub model: Option<String>,
    /// The server it went to, where there were several.
    pub url: Option<String>,
    pub lengths: LengthFacts,
    pub failure: Option<Failure>,
    /// Hash of the request's id.
    pub request: u64,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    metrics: HashMap<Cow<'a, str>, Metric>,
    #[serde(borrow)]
    spec_decode_acceptance: Option<SpecDecodeLine<'a>>,
    error: Option<Error>,
}

/// The counts of speculative decoding, as they were checked.
#[derive(Deserialize)]
struct SpecDecodeLine<'a> {
    mean_acceptance_length: f64,
    draft_acceptance_rate: f64,
    #[serde(borrow)]
    acceptance_histogram: HashMap<Cow<'a, str>, u64>,
    num_accepted_draft_tokens: u64,
    num_draft_tokens: u64,
    num_spec_steps: u64,
    num_spec_tokens: Option<u64>,
}

impl SpecDecodeLine<'_> {
    fn read(&self) -> Option<SpecDecode> {
        let places: Option<Vec<(usize, u64)>> =
            self.acceptance_histogram.iter().map(|(j, n)| Some((j.parse().ok()?, *n))).collect();
        let places = places?;
        // A record is no reason to take much memory.
        let len = places.iter().map(|(j, _)| j.saturating_add(1)).max().filter(|len| *len <= 1 << 16)?;
        let len = self.num_spec_tokens.map_or(len, |width| (width as usize + 1).clamp(len, 1 << 16));
        let mut histogram = vec![0; len];
        for (j, n) in places {
            histogram[j] = n;
        }
        let stats = SpecDecode {
            mean_acceptance_length: self.mean_acceptance_length,
            draft_acceptance_rate: self.draft_acceptance_rate,
            histogram,
            accepted: self.num_accepted_draft_tokens,
            drafted: self.num_draft_tokens,
            steps: self.num_spec_steps,
            width: self.num_spec_tokens,
            per_step_accepted: None,
            per_step_drafted: None,
        };
        stats.checked().ok()
    }
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    x_request_id: Cow<'a, str>,
    #[serde(borrow)]
    conversation_id: Cow<'a, str>,
    turn_index: u16,
    credit_issued_ns: u64,
    request_start_ns: u64,
    request_ack_ns: Option<u64>,
    request_end_ns: u64,
    phase_index: usize,
    scheduled_ns: Option<u64>,
    request_send_start_ns: Option<u64>,
    request_send_end_ns: Option<u64>,
    response_receive_start_ns: Option<u64>,
    url: Option<String>,
    model: Option<String>,
    #[serde(borrow)]
    outcome: Cow<'a, str>,
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
    first_chunk_tokens: Option<u64>,
    #[serde(default)]
    abandoned_turns: u16,
    #[serde(default)]
    self_contained: bool,
    rendered_prompt_tokens: Option<u64>,
    expected_cached_tokens: Option<u64>,
    expected_cached_tokens_from_warmup: Option<u64>,
    expected_cached_tokens_with_replies: Option<u64>,
}

impl Metadata<'_> {
    fn expected_cache(&self) -> Option<CacheFacts> {
        Some(CacheFacts {
            prompt: self.rendered_prompt_tokens?,
            cached: self.expected_cached_tokens?,
            warmup: self.expected_cached_tokens_from_warmup?,
            with_replies: self.expected_cached_tokens_with_replies?,
        })
    }
}

#[derive(Deserialize)]
struct Metric {
    value: Said,
}

/// One number or several.
struct Said(Vec<f64>);

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl<'de> Visitor<'de> for Numbers {
            type Value = Said;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number or a list of numbers")
            }

            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Said, E> {
                Ok(Said(vec![v as f64]))
            }

            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Said, E> {
                Ok(Said(vec![v as f64]))
            }

            fn visit_f64<E: de::Error>(self, v: f64) -> Result<Said, E> {
                Ok(Said(vec![v]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Said, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                Ok(Said(all))
            }
        }
        from.deserialize_any(Numbers)
    }
}

#[derive(Deserialize)]
struct Error {
    code: Option<i64>,
    #[serde(rename = "type")]
    type_name: String,
    message: String,
    kind: FailureKind,
    stage: Stage,
    retryable: bool,
    server_code: Option<String>,
}

impl Line<'_> {
    /// Whole numbers of a metric in its stored unit.
    fn all(&self, tag: &str) -> Option<impl Iterator<Item = u64>> {
        let Said(values) = &self.metrics.get(tag)?.value;
        let factor = find(tag)?.factor();
        Some(values.iter().map(move |v| factor.map_or(*v, |f| v / f).round() as u64))
    }

    fn one(&self, tag: &str) -> Option<u64> {
        self.all(tag)?.next()
    }

    /// A metric whose stored unit is the one it is written in.
    fn real(&self, tag: &str) -> Option<f64> {
        self.metrics.get(tag)?.value.0.first().copied()
    }

    /// The arrivals behind latencies and gaps.
    fn chunks(&self, start_ns: u64) -> Vec<ChunkFact> {
        let mut stamps = Vec::new();
        if let Some(first) = self.one("time_to_first_token") {
            let mut at_ns = start_ns.saturating_add(first);
            stamps.push(at_ns);
            for gap in self.all("inter_chunk_latency").into_iter().flatten() {
                at_ns = at_ns.saturating_add(gap);
                stamps.push(at_ns);
            }
        } else if let Some(latency) = self.one("request_latency") {
            stamps.push(start_ns.saturating_add(latency));
        }
        let answer_ns = self.one("time_to_first_output_token").map(|ns| start_ns.saturating_add(ns));
        let chunk = |at_ns| ChunkFact { at_ns, answer: answer_ns.is_some_and(|from| at_ns >= from) };
        stamps.into_iter().map(chunk).collect()
    }

    /// The limit that a difference in percent was taken from.
    fn requested_osl(&self) -> Option<u64> {
        let given = self.one("output_sequence_length")? as f64;
        let Said(pct) = &self.metrics.get("osl_mismatch_diff_pct")?.value;
        let asked = given / (1.0 + pct.first()? / 100.0);
        (asked.is_finite() && asked > 0.0).then(|| asked.round() as u64)
    }

    fn usage(&self) -> Option<Usage> {
        let usage = Usage {
            prompt_tokens: self.one("usage_prompt_tokens"),
            completion_tokens: self.one("usage_completion_tokens"),
            total_tokens: self.one("usage_total_tokens"),
            reasoning_tokens: self.one("usage_reasoning_tokens"),
            cached_tokens: self.one("usage_prompt_cache_read_tokens"),
            cache_write_tokens: self.one("usage_prompt_cache_write_tokens"),
            cache_miss_tokens: self.one("usage_prompt_cache_miss_tokens"),
            prompt_audio_tokens: self.one("usage_prompt_audio_tokens"),
            prompt_audio_seconds: self.real("usage_prompt_audio_seconds"),
            tool_use_prompt_tokens: self.one("usage_tool_use_prompt_tokens"),
            completion_audio_tokens: self.one("usage_completion_audio_tokens"),
            accepted_prediction_tokens: self.one("usage_accepted_prediction_tokens"),
            rejected_prediction_tokens: self.one("usage_rejected_prediction_tokens"),
        };
        (usage != Usage::default()).then_some(usage)
    }

    fn traffic(&self) -> Option<TrafficFacts> {
        Some(TrafficFacts {
            body_sent: self.one("http_req_data_sent")?,
            body_received: self.one("http_req_data_received")?,
            wire_sent: self.one("http_wire_bytes_sent")?,
            wire_received: self.one("http_wire_bytes_received")?,
            chunks_sent: self.one("http_req_chunks_sent")?,
            chunks_received: self.one("http_req_chunks_received")?,
        })
    }

    fn wire(&self) -> WireFacts {
        let first_byte_ns = self.metadata.response_receive_start_ns;
        let receiving = self.one("http_req_receiving");
        WireFacts {
            dispatched_ns: Some(self.metadata.credit_issued_ns),
            send_start_ns: self.metadata.request_send_start_ns,
            send_end_ns: self.metadata.request_send_end_ns,
            headers_ns: self.metadata.request_ack_ns,
            first_byte_ns,
            last_byte_ns: first_byte_ns.zip(receiving).map(|(from, ns)| from.saturating_add(ns)),
            blocked_ns: self.one("http_req_blocked"),
            dns_ns: self.one("http_req_dns_lookup"),
            tcp_ns: self.one("http_req_tcp"),
            tls_ns: self.one("http_req_tls"),
            reused: self.one("http_req_connection_reused").map(|reused| reused == 1),
            traffic: self.traffic(),
            read_lag_ns: self.one("read_lag"),
        }
    }
}

/// Reads a line; `counted_here` tells that input lengths are counts of ours.
pub(crate) fn parse(line: &[u8], counted_here: bool) -> Result<Record, serde_json::Error> {
    let mut line: Line<'_> = serde_json::from_slice(line)?;
    let failure = line.error.take().map(|e| Failure {
        kind: e.kind,
        stage: e.stage,
        code: e.code,
        type_name: e.type_name,
        message: e.message,
        retryable: e.retryable,
        server_code: e.server_code,
    });
    let meta = &line.metadata;
    let outcome = match &*meta.outcome {
        "completed" => Outcome::Completed,
        "failed" => Outcome::Failed,
        "cancelled" => Outcome::Cancelled,
        other => return Err(de::Error::custom(format_args!("unknown outcome '{other}'"))),
    };
    if meta.request_end_ns < meta.request_start_ns {
        return Err(de::Error::custom("the request ends before it starts"));
    }
    let usage = line.usage();
    let isl = line.one("input_sequence_length").or_else(|| line.one("error_isl"));
    let facts = Facts {
        outcome,
        start_ns: meta.request_start_ns,
        end_ns: meta.request_end_ns,
        scheduled_ns: meta.scheduled_ns,
        chunks: line.chunks(meta.request_start_ns),
        isl,
        images: line.one("num_images").unwrap_or(0),
        audio_ns: line.real("audio_duration").map_or(0, |seconds| (seconds * 1e9).round() as u64),
        asked_isl: line.one("asked_input_length"),
        output_tokens: line.one("output_token_count"),
        reasoning_tokens: line.one("reasoning_token_count"),
        requested_osl: line.requested_osl(),
        usage,
        first_event_ns: line.one("time_to_first_event").map(|ns| meta.request_start_ns.saturating_add(ns)),
        token_gaps: line.all("inter_token_gap").into_iter().flatten().collect(),
        place: Place { turn: meta.turn_index, ..Place::default() },
        finish: meta.finish_reason.as_deref().and_then(Finish::named).unwrap_or_default(),
        first_chunk_tokens: meta.first_chunk_tokens,
        abandoned_turns: meta.abandoned_turns,
        cache: meta.expected_cache(),
        spec_decode: line.spec_decode_acceptance.as_ref().and_then(SpecDecodeLine::read),
        wire: line.wire(),
        context_overflow: failure.as_ref().is_some_and(is_context_overflow),
    };
    let later = meta.turn_index > 0 && !meta.self_contained;
    let lengths = LengthFacts {
        // What of a later turn was made to a length, no record holds.
        asked: facts.asked_isl.filter(|_| !later),
        made: None,
        sent: isl.filter(|_| counted_here),
        counted: usage.and_then(|u| u.prompt_tokens),
        later,
        prompt: hash(&meta.conversation_id) ^ u64::from(meta.turn_index),
    };
    Ok(Record {
        request: hash(&meta.x_request_id),
        phase: meta.phase_index,
        begun_ns: meta.scheduled_ns.unwrap_or(meta.credit_issued_ns),
        facts,
        model: line.metadata.model,
        url: line.metadata.url,
        lengths,
        failure,
    })
}

/// FNV-1a: equal for equal texts, in every run of the program.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}
