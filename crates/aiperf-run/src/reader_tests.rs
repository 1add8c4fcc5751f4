//! The reader behind both ways that requests come to it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use aiperf_core::plan::ExportLevel;
use aiperf_core::time::ClockAnchor;
use aiperf_metrics::{Summary, Window};
use aiperf_net::Endpoint;
use aiperf_report::Verified;

use crate::artifacts::Folder;
use crate::count::BodyCounter;
use crate::ended_toys;
use crate::handover::{self, HandoverStats};
use crate::item::Recounted;
use crate::live::Live;
use crate::reader::{Reader, ReaderSetup};
use crate::run_file;
use crate::shard::Ended;
use crate::toys::Toy;
use crate::verify::Verifier;

const REQUESTS: u64 = 600;
const ANCHOR: ClockAnchor = ClockAnchor { mono_ns: 0, wall_ns: 1_700_000_000_000_000_000 };

/// Every fifth one failed, every seventh was dropped.
fn request(number: u64) -> Ended {
    match number {
        n if n % 7 == 6 => ended_toys::cancelled(n),
        n if n % 5 == 4 => ended_toys::failed(n),
        n => ended_toys::ended(n),
    }
}

/// What came of the requests when so many bytes of them might wait in memory, and the reader began when all were handed over.
struct Outcome {
    records: Vec<u8>,
    raw: Vec<u8>,
    summary: Summary,
    errors: Vec<(u64, String)>,
    verified: Option<Verified>,
    handover: HandoverStats,
}

fn read(dir: &Path, limit: u64) -> Outcome {
    let plan = ended_toys::plan(dir, ExportLevel::Raw);
    let (folder, _) = Folder::prepare(&plan.artifacts).expect("writable");
    let endpoint = Arc::new(Endpoint::new(&plan.endpoint));
    let counter = || BodyCounter::new(Arc::new(Toy::new(None)), endpoint.clone(), 0, None);
    let live = Arc::new(Live::default());
    let reader = Reader::new(ReaderSetup {
        plan: &plan,
        folder: &folder,
        anchor: ANCHOR,
        capabilities: run_file::capabilities(plan.endpoint.kind, true, false),
        endpoint: endpoint.clone(),
        counter: Some(counter()),
        live,
        urls: vec![plan.endpoint.url().clone()],
        rendered: false,
        verifier: Some(Verifier::start(Recounted::All, [counter(), counter()]).expect("a thread")),
        ledgers: None,
    })
    .expect("files");
    let (handover, incoming) = handover::spilling(limit, folder.scratch(), reader.needs()).expect("a thread");
    for batch in (0..REQUESTS).collect::<Vec<_>>().chunks(8) {
        handover.send(batch.iter().map(|number| request(*number)).collect());
    }
    incoming.settle(limit);
    drop(handover);
    let mut collected = reader.run(incoming);
    assert!(collected.problems.is_empty(), "{:?}", collected.problems);
    for (_, spool) in collected.files.drain(..) {
        spool.finish().expect("written");
    }
    let phase = &collected.phases[0];
    Outcome {
        records: fs::read(folder.records_jsonl()).expect("records"),
        raw: fs::read(folder.raw_jsonl()).expect("raw records"),
        summary: phase.recorder.summarise(Window::new(0, 10_000_000_000)),
        errors: phase.errors.groups().iter().map(|g| (g.count, g.failure.type_name.clone())).collect(),
        verified: collected.verified,
        handover: collected.handover,
    }
}

#[test]
fn results_are_the_same_whether_requests_waited_in_memory_or_in_a_file() {
    let tmp = tempfile::tempdir().expect("a folder");
    let memory = read(&tmp.path().join("memory"), handover::MEMORY);
    let file = read(&tmp.path().join("file"), 10_000);
    assert_eq!(memory.handover.spilled_requests, 0);
    assert!(file.handover.spilled_requests > REQUESTS / 2, "{:?}", file.handover);
    assert_eq!(String::from_utf8_lossy(&memory.records).lines().count() as u64, REQUESTS);
    assert!(memory.records == file.records, "the records differ");
    assert!(memory.raw == file.raw, "the raw records differ");
    assert_eq!(memory.errors, file.errors);
    assert_eq!(memory.verified, file.verified);
    assert!(memory.verified.is_some_and(|v| v.requests > 200));
    assert_eq!(memory.summary.tally, file.summary.tally);
    assert_eq!(memory.summary.rows.len(), file.summary.rows.len());
    for (a, b) in memory.summary.rows.iter().zip(&file.summary.rows) {
        assert_eq!((a.spec.tag, a.stats), (b.spec.tag, b.stats));
    }
}
