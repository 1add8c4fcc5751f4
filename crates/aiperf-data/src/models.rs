//! Which model a turn asks for.

use aiperf_core::plan::{ModelSelection, Plan};
use aiperf_rng::{Key, Stream};

use crate::error::DataError;

/// The plan's models and the way turns get one of them.
#[derive(Debug)]
pub(crate) struct Models {
    names: Vec<String>,
    selection: ModelSelection,
    stream: Stream,
}

impl Models {
    /// The models of `plan`; at least one is needed.
    pub(crate) fn new(plan: &Plan) -> Result<Self, DataError> {
        if plan.models.is_empty() {
            return Err(DataError::NoModel);
        }
        let stream = Key::new(plan.seed).purpose("dataset.turn.model");
        Ok(Self { names: plan.models.clone(), selection: plan.model_selection, stream })
    }

    /// The model of the turn that is number `turn` of all turns of the workload.
    pub(crate) fn of_turn(&self, turn: u64) -> &str {
        let names = self.names.len() as u64;
        let at = match self.selection {
            ModelSelection::RoundRobin => turn % names,
            ModelSelection::Random => self.stream.at(turn).below(names),
        };
        &self.names[at as usize]
    }
}
