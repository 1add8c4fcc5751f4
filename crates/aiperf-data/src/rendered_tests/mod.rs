//! Lengths as the server counts them, over all that can stand around a text: templates and vocabularies of every kind, corpora,
//! markers, system messages, contexts, prefixes, turns, and forms of length.
//!
//! What is right is worked out by [`oracle`], which renders whole requests and shares no code with what it judges. All cases are
//! drawn from fixed seeds.

mod bad;
mod kinds;
mod least;
mod matrix;
mod measured;
mod oracle;
mod prefixes;
mod routing;

use std::sync::Arc;

use aiperf_core::plan::{
    CacheBustPlan, CorpusPlan, DatasetPlan, EndpointKind, LengthPair, LengthPlan, LengthsPlan, MarkerTarget,
    Plan, PrefixPlan, SyntheticPlan, TurnsPlan, Weighted, WindowPlan,
};
use aiperf_tokens::Tokenizer;

use crate::error::DataError;
use crate::toys::{context, plan};
use crate::workload::Workload;

const CORPORA: [CorpusPlan; 3] = [CorpusPlan::Sonnet, CorpusPlan::Coding, CorpusPlan::Random];
const VERBATIM: &str = "  You answer in one word. Do not say \"42\"!\n";

/// What stands before the first user message, or at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    System(u64),
    Verbatim,
    Context(u64),
    Both(u64),
    Prefixes(u64),
}

impl Beside {
    fn has_system(self) -> bool {
        matches!(self, Self::System(_) | Self::Verbatim | Self::Both(_))
    }

    fn has_context(self) -> bool {
        matches!(self, Self::Context(_) | Self::Both(_))
    }
}

/// How lengths are asked for, `isl` or about so many tokens each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Fixed,
    Spread,
    Pair,
    Range,
}

/// A run's wishes.
#[derive(Debug, Clone, Copy)]
struct Wishes {
    corpus: CorpusPlan,
    target: Option<MarkerTarget>,
    beside: Beside,
    turns: u64,
    form: Form,
    isl: u64,
    template: bool,
    seed: u64,
}

impl Wishes {
    const fn of(isl: u64) -> Self {
        Self {
            corpus: CorpusPlan::Sonnet,
            target: None,
            beside: Beside::Nothing,
            turns: 1,
            form: Form::Fixed,
            isl,
            template: true,
            seed: 7,
        }
    }

    fn plan(self) -> Plan {
        let fixed = |tokens: u64| LengthPlan::normal(tokens as f64, 0.0);
        let pair = |isl, weight| Weighted { item: LengthPair { isl: fixed(isl), osl: fixed(5) }, weight };
        let lengths = match self.form {
            Form::Fixed => LengthsPlan::Apart { isl: fixed(self.isl), osl: None },
            Form::Spread => LengthsPlan::Apart {
                isl: LengthPlan::normal(self.isl as f64, self.isl as f64 / 3.0),
                osl: None,
            },
            Form::Pair => LengthsPlan::Pairs(vec![pair(self.isl, 30.0), pair(self.isl + 9, 70.0)]),
            Form::Range => {
                LengthsPlan::Window(WindowPlan { isl: self.isl, osl: 5, isl_ratio: 0.25, osl_ratio: 0.0 })
            }
        };
        let (mut system, mut user_context) = (None, None);
        match self.beside {
            Beside::System(tokens) => system = Some(tokens),
            Beside::Context(tokens) => user_context = Some(tokens),
            Beside::Both(tokens) => (system, user_context) = (Some(tokens), Some(tokens + 3)),
            Beside::Nothing | Beside::Verbatim | Beside::Prefixes(_) => {}
        }
        let set = SyntheticPlan {
            lengths,
            corpus: self.corpus,
            turns: TurnsPlan { count: fixed(self.turns), delay: None },
            prefixes: match self.beside {
                Beside::Prefixes(tokens) => Some(PrefixPlan { pool: 2, tokens }),
                _ => None,
            },
            system_tokens: system,
            user_context_tokens: user_context,
            ..SyntheticPlan::sonnet(5, fixed(1), None)
        };
        let mut plan = plan(DatasetPlan::Synthetic(set), EndpointKind::Chat);
        plan.chat_template = self.template;
        plan.cache_bust = self.target.map(|target| CacheBustPlan { target, run_id: None });
        plan.system_prompt = (self.beside == Beside::Verbatim).then(|| VERBATIM.to_owned());
        plan.seed = self.seed;
        plan
    }

    fn open(self, tokenizer: &Arc<dyn Tokenizer>) -> Result<Arc<dyn Workload>, DataError> {
        crate::open(&self.plan(), Some(Arc::clone(tokenizer)), context())
    }

    /// The least that can be asked for, as the refusals of less say: of a first turn, and then of later ones.
    fn least(self, tokenizer: &Arc<dyn Tokenizer>) -> Result<u64, DataError> {
        let mut least = 1;
        loop {
            match (Self { isl: least, form: Form::Fixed, ..self }).open(tokenizer) {
                Ok(_) => return Ok(least),
                Err(DataError::BelowLeast { asked, least: more, .. }) if asked == least && more > least => {
                    least = more;
                }
                Err(other) => return Err(other),
            }
        }
    }
}
