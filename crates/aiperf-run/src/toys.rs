//! Plans, phases and workloads for the tests of this crate. Nothing here is ever connected to.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use aiperf_core::conversation::{ContextMode, Conversation, Turn};
use aiperf_core::plan::{ConnectionReuse, EndpointKind, EndpointPlan, Pacing, PhaseKind, PhasePlan};
use aiperf_core::url::BaseUrl;
use aiperf_data::{DataError, Visit, Workload, WorkloadFacts, WorkloadKind};
use aiperf_load::PhaseWindow;
use aiperf_net::Endpoint;
use serde_json::Map;

use crate::phase::{Counters, Phase};
use crate::prepare::Composer;
use crate::ring::{Ahead, Ring};

/// One place, no end.
pub(crate) fn closed_loop() -> PhasePlan {
    PhasePlan {
        name: "profiling".into(),
        kind: PhaseKind::Profiling,
        pacing: Pacing::Concurrency,
        concurrency: Some(1),
        requests: None,
        duration_ns: None,
        grace_ns: None,
    }
}

/// A phase that starts at `start_ns`, with an empty ring.
pub(crate) fn phase(plan: PhasePlan, start_ns: u64) -> Arc<Phase> {
    Arc::new(Phase {
        number: 0,
        window: PhaseWindow::start(&plan, start_ns),
        plan,
        ring: Arc::new(Ring::new(4, Ahead { items: 4, bytes: 0 })),
        permits: None,
        next_session: AtomicU64::new(0),
        counters: Counters::default(),
    })
}

/// A chat server on this machine.
pub(crate) fn endpoint() -> EndpointPlan {
    EndpointPlan {
        kind: EndpointKind::Chat,
        url: BaseUrl::parse("http://127.0.0.1:1").expect("a good URL"),
        path: None,
        streaming: false,
        timeout_ns: 1_000_000_000,
        api_key: None,
        headers: Vec::new(),
        extra: Map::new(),
        legacy_max_tokens: false,
        server_token_count: false,
        reuse: ConnectionReuse::Pooled,
        session_header: "X-Correlation-ID".into(),
        verify_tls: true,
        max_response_bytes: 1 << 20,
    }
}

/// What happens at the entry behind the last good one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Error,
    Panic,
}

#[derive(Debug)]
struct Breaking {
    good: usize,
    then: Then,
}

impl Workload for Breaking {
    fn len(&self) -> usize {
        usize::MAX
    }

    fn conversation(&self, index: usize, _visit: Visit) -> Result<Conversation, DataError> {
        if index < self.good {
            let turn = Turn {
                model: "m".into(),
                role: None,
                texts: vec!["hello".into()],
                max_tokens: None,
                delay_ns: None,
                extra: Map::new(),
                length: None,
            };
            return Ok(Conversation {
                id: index.to_string(),
                context: ContextMode::SelfContained,
                system: None,
                user_context: None,
                turns: vec![turn],
            });
        }
        assert!(self.then == Then::Error, "the workload was asked to panic");
        Err(DataError::OutOfRange { index, len: self.good })
    }

    fn describe(&self) -> WorkloadFacts {
        WorkloadFacts {
            kind: WorkloadKind::Synthetic,
            entries: self.good,
            turns: self.good as u64,
            most_turns: 1,
            notes: Vec::new(),
        }
    }
}

/// A composer over a workload that breaks behind `good` entries.
pub(crate) fn composer(good: usize, then: Then) -> Composer {
    let endpoint = Arc::new(Endpoint::new(&endpoint()));
    Composer::new(Arc::new(Breaking { good, then }), endpoint, EndpointKind::Chat, None, None, false)
}
