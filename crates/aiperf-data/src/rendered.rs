//! Whether requests have their lengths as the chat template renders them, measured for `aiperf tokenizer`.
//!
//! Conversations of every shape are made as a run makes them; then whole requests are rendered and counted. The counting shares no
//! code with the making.

use std::sync::Arc;

use aiperf_core::conversation::Conversation;
use aiperf_core::plan::{
    CacheBustPlan, DatasetPlan, LengthPlan, LengthShape, MarkerTarget, Plan, SyntheticPlan, TurnsPlan,
};
use aiperf_tokens::{TemplateClock, TemplateError, Tokenizer};
use serde_json::{Value, json};

use crate::OpenContext;
use crate::error::DataError;
use crate::framing::Framing;
use crate::layout::Renderer;
use crate::lengths::{EXAMPLES, LengthMiss};
use crate::workload::{Visit, Workload};

/// Tokens of system messages and user contexts; room for every marker.
const BESIDE: u64 = 64;
/// Turns of a conversation that has later ones.
const TURNS: f64 = 3.0;
/// Tokens that the longest request has above the least.
const SPAN: u64 = 2_046;
/// What every turn is answered with; text that few templates would write otherwise.
const REPLY: &str = "8 2 0 9 4 7";

/// What a request is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestShape {
    /// A user message alone.
    First,
    /// The same with a cache-bust marker.
    Marked,
    /// Behind a system message that holds the marker.
    System,
    /// Behind a user context, which is a user message of its own.
    Context,
    /// Behind other turns and their answers.
    Later,
}

impl RequestShape {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 5] = [Self::First, Self::Marked, Self::System, Self::Context, Self::Later];

    /// The name that files hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Marked => "marked",
            Self::System => "system",
            Self::Context => "context",
            Self::Later => "later",
        }
    }
}

/// What measuring requests of one shape showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeCheck {
    /// The shape.
    pub shape: RequestShape,
    /// Why there are none: the template's words, or what else was in the way.
    pub refused: Option<String>,
    /// The least ISL that can be asked for, tokens.
    pub least: Option<u64>,
    /// Requests that were rendered whole and counted; later turns only where they can be told apart in what is rendered.
    pub requests: usize,
    /// Of these, with exactly the tokens that they were made to.
    pub exact: usize,
    /// The first others.
    pub misses: Vec<LengthMiss>,
}

/// What measuring rendered requests showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedCheck {
    /// The template does more than put something around texts, so every request is rendered to be counted.
    pub whole: bool,
    /// One for each shape.
    pub shapes: Vec<ShapeCheck>,
}

impl RenderedCheck {
    /// Requests of all shapes.
    pub fn requests(&self) -> usize {
        self.shapes.iter().map(|shape| shape.requests).sum()
    }

    /// Of these, with exactly their lengths.
    pub fn exact(&self) -> usize {
        self.shapes.iter().map(|shape| shape.exact).sum()
    }
}

/// Makes about `conversations` conversations of all shapes with the chat template of `tokenizer` and counts their requests;
/// always the same ones. `base` is the plan that they vary. The error is that of a template which takes no user message.
pub fn check_rendered(
    tokenizer: &Arc<dyn Tokenizer>,
    base: &Plan,
    now: TemplateClock,
    conversations: usize,
) -> Result<RenderedCheck, DataError> {
    let renderer = Renderer::new(Arc::clone(tokenizer), now, &base.endpoint);
    let framing = Framing::new(renderer, false, false, false)?;
    let each = conversations.div_ceil(RequestShape::ALL.len());
    let check = Check { tokenizer, base, now, each };
    Ok(RenderedCheck {
        whole: framing.first(&[]).is_rendered,
        shapes: RequestShape::ALL.map(|shape| check.of(shape)).into(),
    })
}

/// See [`check_rendered`].
struct Check<'a> {
    tokenizer: &'a Arc<dyn Tokenizer>,
    base: &'a Plan,
    now: TemplateClock,
    /// Conversations of each shape.
    each: usize,
}

impl Check<'_> {
    fn of(&self, shape: RequestShape) -> ShapeCheck {
        let mut check =
            ShapeCheck { shape, refused: None, least: None, requests: 0, exact: 0, misses: Vec::new() };
        if let Err(error) = self.fill(&mut check) {
            check.refused = Some(match error {
                DataError::Template { problem, .. } => problem.to_string(),
                other => other.to_string(),
            });
        }
        check
    }

    fn fill(&self, check: &mut ShapeCheck) -> Result<(), DataError> {
        let shape = check.shape;
        let least = self.least(shape)?;
        check.least = Some(least);
        let isl = LengthPlan {
            shape: LengthShape::LogNormal { mean: 500.0, median: 200.0 },
            least: Some(least as f64),
            most: Some((least + SPAN) as f64),
        };
        let workload = self.open(shape, isl)?;
        for entry in 0..self.each {
            let visit = Visit { session: entry as u64, warmup: false };
            let conversation = match workload.conversation(entry, visit) {
                Ok(conversation) => conversation,
                Err(DataError::NoTextOfLength { asked, nearest, .. }) => {
                    check.count(asked, nearest);
                    continue;
                }
                Err(other) => return Err(other),
            };
            self.compare(check, &conversation);
        }
        Ok(())
    }

    /// The least ISL, as refusals of less tell it.
    fn least(&self, shape: RequestShape) -> Result<u64, DataError> {
        let mut isl = 1;
        loop {
            match self.open(shape, LengthPlan::normal(isl as f64, 0.0)) {
                Ok(_) => return Ok(isl),
                Err(DataError::BelowLeast { least, .. }) if least > isl => isl = least,
                Err(other) => return Err(other),
            }
        }
    }

    fn open(&self, shape: RequestShape, isl: LengthPlan) -> Result<Arc<dyn Workload>, DataError> {
        let mut plan = self.base.clone();
        plan.chat_template = true;
        let mut set = SyntheticPlan::sonnet(self.each.max(1), isl, None);
        let target = match shape {
            RequestShape::Marked => Some(MarkerTarget::FirstTurnPrefix),
            RequestShape::System => Some(MarkerTarget::SystemSuffix),
            RequestShape::First | RequestShape::Context | RequestShape::Later => None,
        };
        plan.cache_bust = target.map(|target| CacheBustPlan { target, run_id: None });
        match shape {
            RequestShape::System => set.system_tokens = Some(BESIDE),
            RequestShape::Context => set.user_context_tokens = Some(BESIDE),
            RequestShape::Later => {
                set.turns = TurnsPlan { count: LengthPlan::normal(TURNS, 0.0), delay: None };
            }
            RequestShape::First | RequestShape::Marked => {}
        }
        plan.dataset = DatasetPlan::Synthetic(set);
        let context = OpenContext { run_id: "aiperf-tokenizer", now: self.now, parts: None };
        crate::open(&plan, Some(Arc::clone(self.tokenizer)), context)
    }

    fn compare(&self, check: &mut ShapeCheck, conversation: &Conversation) {
        let mut talk = Vec::new();
        talk.extend(conversation.system.iter().map(|text| message("system", text)));
        talk.extend(conversation.user_context.iter().map(|text| message("user", text)));
        for (at, turn) in conversation.turns.iter().enumerate() {
            let text = turn.texts.concat();
            let counted = match (at, check.shape) {
                (0, RequestShape::Later) => None,
                (0, _) => {
                    talk.push(message("user", &text));
                    let whole = self.render(&talk, true).ok();
                    talk.pop();
                    whole.map(|whole| self.tokenizer.count(&whole))
                }
                _ => self.part(&mut talk, &text),
            };
            if let (Some(counted), Some(length)) = (counted, turn.length) {
                check.count(length.made as usize, counted);
            }
            talk.extend([message("user", &text), message("assistant", REPLY)]);
        }
    }

    /// Tokens of a user message's part of a request behind `talk`, from the end mark of the reply before it to its own; none where
    /// they cannot be found in what the template writes.
    fn part(&self, talk: &mut Vec<Value>, text: &str) -> Option<usize> {
        let answered = self.render(talk, false).ok()?;
        talk.push(message("user", text));
        let whole = self.render(talk, false);
        talk.pop();
        let whole = whole.ok()?;
        let (_, closing) = answered.rsplit_once(REPLY)?;
        let (before, behind) = whole.rsplit_once(text)?;
        let (_, lead) = before.rsplit_once(REPLY)?;
        // A mark is a special token, another one where the talk goes on than at its end; where there is none, all that ends a talk is.
        let mark = match (self.first_special(closing), self.first_special(lead)) {
            (Some(_), Some(end)) => end,
            _ => alike(closing, lead),
        };
        let own_mark = self.first_special(behind).unwrap_or(behind.len());
        let from = before.len() - lead.len() + mark;
        let to = before.len() + text.len() + own_mark;
        Some(self.tokenizer.count(&whole[..to]) - self.tokenizer.count(&whole[..from]))
    }

    /// Where the first special token of `text` ends.
    fn first_special(&self, text: &str) -> Option<usize> {
        let mut ids = Vec::new();
        self.tokenizer.encode(text, &mut ids);
        ids.into_iter().find_map(|id| {
            let token = self.tokenizer.decode(&[id]);
            let is_special = !token.is_empty() && self.tokenizer.token_id(&token) == Some(id);
            text.find(&token).filter(|_| is_special).map(|at| at + token.len())
        })
    }

    fn render(&self, messages: &[Value], generation: bool) -> Result<String, TemplateError> {
        let Some(template) = self.tokenizer.chat_template() else { return Ok(String::new()) };
        template.render(&messages.into(), None, generation, self.now)
    }
}

impl ShapeCheck {
    fn count(&mut self, asked: usize, counted: usize) {
        self.requests += 1;
        if asked == counted {
            self.exact += 1;
        } else if self.misses.len() < EXAMPLES {
            self.misses.push(LengthMiss { asked, nearest: counted });
        }
    }
}

fn message(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

/// Bytes that two texts begin with alike, whole letters.
fn alike(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}
