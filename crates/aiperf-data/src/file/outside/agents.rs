//! Sessions of agents (Exgentic): each request that was recorded is sent again whole, with its tools and with the time that passed
//! before it.
//!
//! Rules of AIPerf 0.13 (`exgentic`): requests that failed or counted no tokens are left out; limits are those that were asked for, else the
//! answer's length; a schedule has each request at its own time from the begin of its session, any other load has it behind the
//! answer before it.

use std::collections::HashSet;
use std::fmt::Write as _;

use aiperf_core::plan::agents::{AgentFilter, AgentSet};
use aiperf_core::plan::{EndpointKind, Pacing, PhaseKind, Plan};
use aiperf_core::text::for_terminal;
use serde_json::{Map, Value, json};

use super::Entry;
use super::parts::{all_messages, instructions, tools};
use super::talk::{LeftOut, Talk};
use crate::error::RowProblem;
use crate::file::record::Mode;
use crate::file::row::{length, moment_ns, wrong};

const HARNESS: &str = "harness";
const SESSION: &str = "session_id";
const MODELS: &str = "models";
const SPANS: &str = "spans";
/// The one that may be missing.
pub(super) const BENCHMARK: &str = "benchmark";
/// Tells routers of requests which of them belong together; AIPerf's name.
const AFFINITY: &str = "x-dynamo-session-id";
/// A span that failed (OpenTelemetry's `STATUS_CODE_ERROR`).
const FAILED: i64 = 2;
const NS_PER_MS: f64 = 1e6;

/// The names that are read.
pub(super) fn columns(set: &AgentSet) -> Vec<&'static str> {
    let mut all = vec![HARNESS, SESSION, MODELS, SPANS];
    all.extend(set.has_benchmarks.then_some(BENCHMARK));
    all
}

/// Goes through the sessions of a data set.
#[derive(Debug)]
pub(super) struct Agents {
    filter: AgentFilter,
    api: EndpointKind,
    /// Requests go at their times, each by itself.
    is_schedule: bool,
    /// Requests have an output length.
    limits: bool,
    /// The header of the run's own sessions is the one of routers.
    has_header: bool,
    names: HashSet<String>,
    told: Told,
}

/// What was left out of sessions, and how many of their requests began before the one before had ended.
#[derive(Debug, Default)]
struct Told {
    requests: u64,
    failed: u64,
    other: u64,
    empty: u64,
    overlaps: u64,
}

/// A request that is sent again.
struct Request {
    /// Its place in its session, from 0.
    number: usize,
    start_ns: u64,
    end_ns: u64,
    turn: Map<String, Value>,
}

impl Agents {
    pub(super) fn new(plan: &Plan, filter: AgentFilter) -> Self {
        let is_schedule = |pacing: &Pacing| matches!(pacing, Pacing::FixedSchedule { .. });
        Self {
            filter,
            api: plan.endpoint.kind,
            is_schedule: plan
                .phases
                .iter()
                .any(|phase| phase.kind == PhaseKind::Profiling && is_schedule(&phase.pacing)),
            limits: plan.endpoint.kind.traits().produces_tokens,
            has_header: plan.endpoint.session_header.eq_ignore_ascii_case(AFFINITY),
            names: HashSet::new(),
            told: Told::default(),
        }
    }

    /// Whether each request is a session of its own.
    pub(super) const fn tears_sessions(&self) -> bool {
        self.is_schedule
    }

    /// The rows of a session, in the form `multi_turn`.
    pub(super) fn talk(&mut self, mut entry: Entry) -> Result<Talk, LeftOut> {
        let name = |entry: &Entry, field| match entry.get(field) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
            other => Err(bad(field, "a text that is not empty", other)),
        };
        let (harness, session) = (name(&entry, HARNESS)?, name(&entry, SESSION)?);
        let models = entry.get(MODELS).and_then(Value::as_array).map(|list| {
            list.iter()
                .map(|model| model.as_str().filter(|name| !name.is_empty()))
                .collect::<Option<Vec<_>>>()
        });
        let Some(Some(models)) = models else {
            return Err(bad(MODELS, "a list of texts that are not empty", entry.get(MODELS)));
        };
        if !self.filter.takes(&harness, models.iter().copied(), entry.get(BENCHMARK).and_then(Value::as_str))
        {
            let model = models.first().copied().unwrap_or("no model");
            return Err(LeftOut::Unwanted(format!("{harness} with {model}")));
        }
        let spans = match entry.get_mut(SPANS).map(Value::take) {
            Some(Value::Array(spans)) if spans.iter().all(Value::is_object) => spans,
            other => return Err(bad(SPANS, "a list of objects", other.as_ref())),
        };
        let mut requests = Vec::with_capacity(spans.len());
        for (number, span) in spans.into_iter().enumerate() {
            let request = self.request(number, span, &session).map_err(|problem| {
                let session = for_terminal(&session, 60);
                LeftOut::BadCell(RowProblem::InSpan { session, span: number, problem: Box::new(problem) })
            })?;
            requests.extend(request);
        }
        if requests.is_empty() {
            return Err(LeftOut::NoRequest);
        }
        requests.sort_by_key(|request| (request.start_ns, request.number));
        if !self.names.insert(session.clone()) {
            let name = for_terminal(&session, 60);
            return Err(LeftOut::BadCell(RowProblem::SessionTwice { name }));
        }
        self.told.requests += requests.len() as u64;
        let starts = requests.iter().skip(1).zip(&requests);
        self.told.overlaps += starts.filter(|(next, before)| next.start_ns < before.end_ns).count() as u64;
        Ok(Talk { rows: self.rows(&session, requests), ..Talk::default() })
    }

    /// A row of all requests, each behind the answer before it; of a schedule a row of each.
    fn rows(&self, session: &str, mut requests: Vec<Request>) -> Vec<String> {
        let mode = Mode::Whole.name();
        let row = |name: &str, turns: Vec<Value>| {
            json!({"session_id": name, "context_mode": mode, "turns": turns}).to_string()
        };
        let ms = |ns: u64| Value::from(ns as f64 / NS_PER_MS);
        if self.is_schedule {
            let first_ns = requests[0].start_ns;
            let of = |mut request: Request| {
                request.turn.insert("timestamp".to_owned(), ms(request.start_ns - first_ns));
                row(&format!("{session}:{}", request.number), vec![request.turn.into()])
            };
            return requests.into_iter().map(of).collect();
        }
        for at in 1..requests.len() {
            let pause_ns = requests[at].start_ns.saturating_sub(requests[at - 1].end_ns);
            requests[at].turn.insert("delay".to_owned(), ms(pause_ns));
        }
        vec![row(session, requests.into_iter().map(|request| request.turn.into()).collect())]
    }

    /// A recorded span as a turn; `None` when it is left out.
    fn request(
        &mut self,
        number: usize,
        mut span: Value,
        session: &str,
    ) -> Result<Option<Request>, RowProblem> {
        let mut said = match span["attributes"].take() {
            Value::Object(said) => said,
            _ => Map::new(),
        };
        let is_call = match &span["type"] {
            Value::Null => said.get("gen_ai.operation.name").is_some_and(|name| name == "chat"),
            kind => kind == "llm_call",
        };
        if !is_call {
            self.told.other += 1;
            return Ok(None);
        }
        if span["status"]["code"].as_i64() == Some(FAILED) {
            self.told.failed += 1;
            return Ok(None);
        }
        let tokens = |field: &'static str| {
            let value = said.get(field).unwrap_or(&Value::Null);
            value.as_i64().ok_or_else(|| wrong(field, "a whole number", value))
        };
        let (input, output) = (tokens("gen_ai.usage.input_tokens")?, tokens("gen_ai.usage.output_tokens")?);
        if input <= 0 || output <= 0 {
            self.told.empty += 1;
            return Ok(None);
        }
        let moment = |field: &'static str| {
            let moment = span[field].as_str().and_then(moment_ns);
            moment.ok_or_else(|| wrong(field, "a moment from 1970 on, as 2026-04-29T00:03:18Z", &span[field]))
        };
        let (start_ns, end_ns) = (moment("start_time")?, moment("end_time")?);
        if end_ns < start_ns {
            return Err(wrong("end_time", "no earlier than 'start_time'", &span["end_time"]));
        }
        let Some(field) = self.api.messages_field().filter(|_| self.api.has_messages()) else {
            return Err(RowProblem::NoMessages { api: self.api.name() });
        };
        let mut take = |field: &str| said.get_mut(field).map(Value::take).unwrap_or_default();
        let limit = match take("gen_ai.request.max_tokens") {
            Value::Null => output as u64,
            asked => length("gen_ai.request.max_tokens", &asked)?,
        };
        let mut messages = instructions(take("gen_ai.system_instructions"))?;
        messages.extend(all_messages(take("gen_ai.input.messages"))?);
        let mut extra = Map::new();
        extra.insert(field.to_owned(), messages.into());
        if let Some(tools) = tools(take("gen_ai.tool.definitions"))? {
            extra.insert("tools".to_owned(), tools);
        }
        match take("gen_ai.request.temperature") {
            Value::Null => {}
            number @ Value::Number(_) => drop(extra.insert("temperature".to_owned(), number)),
            other => return Err(wrong("gen_ai.request.temperature", "a number", &other)),
        }
        match take("gen_ai.request.stop_sequences") {
            Value::Null => {}
            Value::Array(stops) if stops.is_empty() => {}
            Value::Array(stops) if stops.iter().all(Value::is_string) => {
                extra.insert("stop".to_owned(), stops.into());
            }
            other => return Err(wrong("gen_ai.request.stop_sequences", "a list of texts", &other)),
        }
        let mut turn = Map::new();
        turn.insert("extra".to_owned(), extra.into());
        if self.limits {
            turn.insert("output_length".to_owned(), limit.into());
        }
        if !self.has_header {
            turn.insert("headers".to_owned(), json!({AFFINITY: session}));
        }
        Ok(Some(Request { number, start_ns, end_ns, turn }))
    }

    /// What was left out and what is at once, in words.
    pub(super) fn note(&self) -> Option<String> {
        let Told { requests, failed, other, empty, overlaps } = self.told;
        let mut said = format!("{requests} recorded requests in {} sessions", self.names.len());
        for (count, what) in [
            (other, "other spans left out"),
            (failed, "that had failed left out"),
            (empty, "that counted no tokens left out"),
        ] {
            if count > 0 {
                let _ = write!(said, ", {count} {what}");
            }
        }
        if overlaps > 0 {
            let how = if self.is_schedule { "are sent so again" } else { "follow it here" };
            let _ = write!(said, "; {overlaps} began before the one before them had ended, and {how}");
        }
        (!self.names.is_empty()).then_some(said)
    }
}

fn bad(field: &'static str, wanted: &'static str, found: Option<&Value>) -> LeftOut {
    LeftOut::BadCell(wrong(field, wanted, found.unwrap_or(&Value::Null)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agents(is_schedule: bool, api: EndpointKind) -> Agents {
        Agents {
            filter: AgentFilter::default(),
            api,
            is_schedule,
            limits: true,
            has_header: false,
            names: HashSet::new(),
            told: Told::default(),
        }
    }

    fn span(start: u32, end: u32, more: Value) -> Value {
        let mut said = json!({
            "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 4,
            "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}],
        });
        let Value::Object(more) = more else { panic!("an object") };
        said.as_object_mut().expect("an object").extend(more);
        let at = |second: u32| format!("2026-04-29 00:00:{second:02}");
        json!({"type": "llm_call", "start_time": at(start), "end_time": at(end), "attributes": said})
    }

    fn session(name: &str, spans: &[Value]) -> Entry {
        let entry = json!({"harness": "h", "session_id": name, "models": ["m"], "spans": spans});
        let Value::Object(entry) = entry else { panic!("an object") };
        entry
    }

    fn rows(agents: &mut Agents, entry: Entry) -> Vec<Value> {
        let rows = agents.talk(entry).expect("a good session").rows;
        rows.iter().map(|row| serde_json::from_str(row).expect("a row")).collect()
    }

    #[test]
    fn requests_follow_each_other_or_go_at_their_times() {
        let spans = || {
            let mut failed = span(1, 2, json!({}));
            failed["status"] = json!({"code": 2});
            let mut tool = span(1, 2, json!({}));
            tool["type"] = json!("tool_call");
            [
                failed,
                span(9, 10, json!({"gen_ai.request.max_tokens": 30})),
                span(5, 7, json!({})),
                span(6, 8, json!({})),
                tool,
                span(5, 6, json!({"gen_ai.usage.output_tokens": 0})),
            ]
        };
        let mut closed = agents(false, EndpointKind::Chat);
        let row = rows(&mut closed, session("s", &spans())).remove(0);
        assert_eq!(
            (&row["session_id"], &row["context_mode"]),
            (&json!("s"), &json!("message_array_with_responses"))
        );
        let told: Vec<_> =
            (0..3).map(|at| (&row["turns"][at]["delay"], &row["turns"][at]["output_length"])).collect();
        assert_eq!(told, [(&Value::Null, &json!(4)), (&json!(0.0), &json!(4)), (&json!(1000.0), &json!(30))]);
        assert_eq!(row["turns"][2]["headers"], json!({"x-dynamo-session-id": "s"}));
        assert_eq!(
            closed.note().as_deref(),
            Some(
                "3 recorded requests in 1 sessions, 1 other spans left out, 1 that had failed left out, 1 that counted no tokens left out; \
                 1 began before the one before them had ended, and follow it here"
            )
        );
        let mut timed = agents(true, EndpointKind::Chat);
        let rows = rows(&mut timed, session("s", &spans()));
        let told: Vec<_> =
            rows.iter().map(|row| (&row["session_id"], &row["turns"][0]["timestamp"])).collect();
        assert_eq!(
            told,
            [(&json!("s:2"), &json!(0.0)), (&json!("s:3"), &json!(1000.0)), (&json!("s:1"), &json!(4000.0))]
        );
        assert_eq!(
            timed.talk(session("s", &spans())),
            Err(LeftOut::BadCell(RowProblem::SessionTwice { name: "s".to_owned() }))
        );
    }

    #[test]
    fn messages_in_parts_become_those_of_the_api() {
        let call = json!({"type": "tool_call", "id": "c", "name": "f", "arguments": {"a": [1, 2.5]}});
        let said = json!({
            "gen_ai.system_instructions": "Be kind.",
            "gen_ai.input.messages": json!([
                {"role": "developer", "parts": [{"type": "text", "content": "Be "}, {"type": "text", "content": "brief."}]},
                {"role": "assistant", "parts": [{"type": "thinking", "thinking": "Hm."}, call]},
                {"role": "user", "parts": [
                    {"type": "tool_call_response", "id": "c", "result": {"b": null}}, {"type": "text", "content": null}
                ]},
                {"role": "user", "parts": []},
            ]).to_string(),
            "gen_ai.tool.definitions": [{"type": "function", "name": "f", "strict": true}],
            "gen_ai.request.temperature": 0.5,
            "gen_ai.request.stop_sequences": ["x"],
        });
        let row =
            rows(&mut agents(false, EndpointKind::Responses), session("s", &[span(1, 2, said)])).remove(0);
        let function = json!({"name": "f", "arguments": "{\"a\":[1,2.5]}"});
        let calls = json!([{"id": "c", "type": "function", "function": function}]);
        assert_eq!(
            row["turns"][0]["extra"],
            json!({
                "input": [
                    {"role": "system", "content": "Be kind."},
                    {"role": "system", "content": "Be brief."},
                    {"role": "assistant", "content": "", "reasoning_content": "Hm.", "tool_calls": calls},
                    {"role": "tool", "tool_call_id": "c", "content": "{\"b\":null}"},
                    {"role": "user", "content": ""},
                    {"role": "user", "content": ""},
                ],
                "tools": [{"type": "function", "function": {"name": "f", "description": null, "parameters": null}}],
                "temperature": 0.5,
                "stop": ["x"],
            })
        );
    }

    #[test]
    fn what_is_wrong_names_session_and_span() {
        let said = |span: Value| match agents(false, EndpointKind::Chat).talk(session("s", &[span])) {
            Err(LeftOut::BadCell(problem)) => problem.to_string(),
            other => panic!("{other:?}"),
        };
        let of = |more: Value| said(span(1, 2, more));
        for (more, problem) in [
            (
                json!({"gen_ai.usage.input_tokens": "9"}),
                "'gen_ai.usage.input_tokens' must be a whole number, not \"9\"",
            ),
            (
                json!({"gen_ai.request.max_tokens": 0}),
                "'gen_ai.request.max_tokens' must be a whole number above 0, not 0",
            ),
            (
                json!({"gen_ai.input.messages": "[1]"}),
                "'gen_ai.input.messages' must be a JSON list of objects, not [1]",
            ),
            (
                json!({"gen_ai.input.messages": [{"role": "user", "parts": [{"type": "image"}]}]}),
                "'type' must be text, thinking, tool_call or tool_call_response, not \"image\"",
            ),
            (
                json!({"gen_ai.tool.definitions": [{"type": "custom"}]}),
                "'gen_ai.tool.definitions' must be tools of the type function, not \"custom\"",
            ),
            (
                json!({"gen_ai.request.temperature": true}),
                "'gen_ai.request.temperature' must be a number, not true",
            ),
        ] {
            assert_eq!(of(more), format!("session 's', spans[0]: {problem}"));
        }
        assert_eq!(
            said(span(3, 2, json!({}))),
            "session 's', spans[0]: 'end_time' must be no earlier than 'start_time', not \"2026-04-29 00:00:02\""
        );
        let no_messages =
            agents(false, EndpointKind::Completions).talk(session("s", &[span(1, 2, json!({}))]));
        assert!(matches!(no_messages, Err(LeftOut::BadCell(_))));
        let mut entry = session("s", &[]);
        assert_eq!(agents(false, EndpointKind::Chat).talk(entry.clone()), Err(LeftOut::NoRequest));
        entry.insert("models".to_owned(), json!("m"));
        assert!(matches!(agents(false, EndpointKind::Chat).talk(entry), Err(LeftOut::BadCell(_))));
    }
}
