//! Requests that ended, for the tests of what comes behind the shards.

use std::path::Path;
use std::sync::Arc;

use aiperf_core::exchange::{Exchange, ReadMark, Stamps};
use aiperf_core::outcome::{CancelReason, Disposition, Failure, FailureKind, Stage};
use aiperf_core::plan::{
    ArtifactsPlan, DatasetPlan, EndpointKind, EndpointPlan, ExportLevel, LengthPlan, LogLevel,
    ModelSelection, OnTurnError, Plan, RuntimePlan, Sampling, SyntheticPlan, Ui, VerifyLengths,
};
use aiperf_core::ticket::{Ticket, Uuid};
use serde_json::Value;

use crate::shard::Ended;
use crate::toys;

/// A request that was answered in two reads: turn by turn those of a conversation of two, in sessions one after the other. First turns were
/// made to a length; later ones hold the first again.
pub(crate) fn ended(number: u64) -> Ended {
    let mut prepared = Arc::into_inner(toys::prepared(toys::conversation(&["one two", "three"])))
        .expect("nobody else has it");
    prepared.turns[0].made = Some(2);
    prepared.turns[0].isl = Some(2);
    let prepared = Arc::new(prepared);
    let turn = number % 2;
    let start_ns = 1_000_000_000 + number * 1_000_000;
    let events = [
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"reply {number}\"}}}}]}}\n\n"),
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" and more\"}}]}\n\ndata: [DONE]\n\n"
            .to_owned(),
    ];
    let body = events.concat().into_bytes();
    let reads = vec![
        ReadMark::read(start_ns + 400_000, events[0].len()),
        ReadMark::read(start_ns + 700_000 + number, body.len()),
    ];
    let stamps = Stamps {
        start_ns,
        send_start_ns: Some(start_ns + 1),
        headers_ns: Some(start_ns + 300_000),
        end_ns: start_ns + 800_000,
        ..Stamps::default()
    };
    let exchange = Exchange {
        stamps,
        status: Some(200),
        reason: "OK".into(),
        content_type: Some("text/event-stream".into()),
        headers: vec![("x-served-by".into(), number.to_string())],
        body,
        reads,
        bytes_sent: 10 + number,
        bytes_received: 20 + number,
        traffic: aiperf_core::exchange::Traffic::default(),
        reused: number > 0,
        resent: false,
        disposition: Disposition::Finished,
    };
    Ended {
        ticket: Ticket {
            phase: 0,
            session: number / 2,
            entry: 0,
            turn: turn as u16,
            shard: 0,
            target: 0,
            request_id: Uuid::from_random(number.into()),
            correlation_id: Uuid::from_random((number / 2).into()).into(),
            scheduled_ns: (turn == 1).then_some(start_ns),
            dispatched_ns: start_ns,
            abandoned_turns: 0,
        },
        exchange,
        body: prepared.turns[turn as usize].body.clone(),
        is_chained: false,
        prepared,
        answer: None,
    }
}

/// The same, cut off by the server.
pub(crate) fn failed(number: u64) -> Ended {
    let mut ended = ended(number);
    ended.exchange.reads.truncate(1);
    ended.exchange.body.truncate(ended.exchange.reads[0].body_len as usize);
    ended.exchange.disposition = Disposition::Failed(Failure {
        kind: FailureKind::Truncated,
        stage: Stage::InStream,
        code: None,
        type_name: "ClientPayloadError".into(),
        message: "the connection was closed inside the answer".into(),
        retryable: true,
        server_code: None,
    });
    ended
}

/// The same, dropped before anything came.
pub(crate) fn cancelled(number: u64) -> Ended {
    let mut ended = ended(number);
    ended.exchange.reads.clear();
    ended.exchange.body.clear();
    ended.exchange.status = None;
    ended.exchange.content_type = None;
    let at_ns = ended.exchange.stamps.end_ns;
    ended.exchange.disposition = Disposition::Cancelled { reason: CancelReason::GraceOver, at_ns };
    ended
}

/// A plan of one streaming phase whose records go to `dir`.
pub(crate) fn plan(dir: &Path, level: ExportLevel) -> Plan {
    let length = LengthPlan::normal(2.0, 0.0);
    Plan {
        sampling: Sampling::Sequential,
        on_turn_error: OnTurnError::Continue,
        models: vec!["m".into()],
        model_selection: ModelSelection::RoundRobin,
        endpoint: EndpointPlan { streaming: true, ..toys::endpoint(EndpointKind::Chat) },
        dataset: DatasetPlan::Synthetic(SyntheticPlan::sonnet(1, length, None)),
        tokenizer: None,
        chat_template: false,
        system_prompt: None,
        cache_bust: None,
        verify_lengths: VerifyLengths::All,
        slos: Vec::new(),
        phases: vec![toys::closed_loop()],
        network: None,
        artifacts: ArtifactsPlan::new(dir.to_owned(), level),
        runtime: RuntimePlan {
            max_shards: None,
            ui: Ui::None,
            stats_interval_s: 0.0,
            log_level: LogLevel::Error,
        },
        seed: 1,
        seed_given: true,
        cli_command: "aiperf profile".into(),
        input_config: Value::Null,
    }
}
