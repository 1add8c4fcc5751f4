//! Names of phases, servers and models as lines have them.

use aiperf_core::exchange::Exchange;
use aiperf_core::plan::{PhaseKind, PhasePlan, Plan};
use aiperf_core::ticket::Ticket;
use aiperf_core::time::ClockAnchor;
use aiperf_metrics::Facts;
use aiperf_net::Answer;
use aiperf_report::jsonl::{Meta, PhaseMeta};

use crate::item::TurnFacts;

/// The servers of a plan, without secrets.
pub(crate) fn target_names(plan: &Plan) -> Vec<String> {
    plan.endpoint.targets.iter().map(|target| target.url.to_string()).collect()
}

/// The models of a plan that has several; of others there is nothing to tell apart.
pub(crate) fn model_names(plan: &Plan) -> Vec<String> {
    if plan.models.len() > 1 { plan.models.clone() } else { Vec::new() }
}

/// Those of a plan.
pub(super) struct Names {
    phases: Vec<PhaseName>,
    /// Of the servers, where there are several.
    urls: Vec<String>,
    /// Of the models, where there are several.
    models: Vec<String>,
}

struct PhaseName {
    kind: PhaseKind,
    index: u32,
    profiling_index: Option<u32>,
    name: String,
}

impl Names {
    pub(super) fn of(plan: &Plan) -> Self {
        let mut profiling = 0_u32..;
        let phase = |(index, phase): (usize, &PhasePlan)| PhaseName {
            kind: phase.kind,
            index: index as u32,
            profiling_index: if phase.kind == PhaseKind::Profiling { profiling.next() } else { None },
            name: phase.name.clone(),
        };
        Self {
            phases: plan.phases.iter().enumerate().map(phase).collect(),
            urls: if plan.endpoint.targets.len() > 1 { target_names(plan) } else { Vec::new() },
            models: model_names(plan),
        }
    }

    /// What a request was.
    pub(super) fn kind(&self, ticket: &Ticket) -> PhaseKind {
        self.phases[usize::from(ticket.phase)].kind
    }

    /// Who, where and when of a request.
    pub(super) fn meta<'a>(
        &'a self,
        ticket: &'a Ticket,
        exchange: &Exchange,
        anchor: &ClockAnchor,
        turn: &'a TurnFacts,
        facts: &Facts,
        answer: &'a Answer,
    ) -> Meta<'a> {
        let PhaseName { kind, index, profiling_index, name } = &self.phases[usize::from(ticket.phase)];
        let phase = PhaseMeta { kind: *kind, index: *index, profiling_index: *profiling_index, name };
        let mut meta = Meta::of(ticket, exchange, anchor, &turn.conversation, phase, facts.outcome);
        meta.finish = (facts.finish, answer.finish_reason.as_deref());
        meta.first_chunk_tokens = facts.first_chunk_tokens;
        meta.expected_cache = facts.cache;
        meta.self_contained = ticket.turn > 0 && !turn.is_part;
        meta.url = self.urls.get(usize::from(ticket.target)).map(String::as_str);
        meta.model = self.models.get(usize::from(turn.model)).map(String::as_str);
        meta
    }
}
