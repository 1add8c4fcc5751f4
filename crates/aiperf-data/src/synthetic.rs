//! Conversations made here: turns of exactly the lengths asked for, behind a system message, a user context or a prefix where those
//! are wanted.

mod least;
mod notes;

use std::sync::{Arc, OnceLock};

use aiperf_core::conversation::{ContextMode, Conversation, MOST_TURNS, Marker, Turn, TurnLength};
use aiperf_core::plan::{DelayPlan, Plan, SyntheticPlan, TurnsPlan};
use aiperf_rng::{Key, Stream};
use aiperf_tokens::Tokenizer;
use serde_json::Map;

use self::least::{Least, Totals};
use crate::OpenContext;
use crate::error::DataError;
use crate::framing::{Framing, Place};
use crate::layout::Renderer;
use crate::markers::Marking;
use crate::models::Models;
use crate::opening::Texts;
use crate::slot::Slot;
use crate::spread::{Lengths, draw_length};
use crate::workload::{Visit, Workload, WorkloadFacts, WorkloadKind};

/// See the module.
///
/// Turns are numbered through: those that come first in their conversations, then all second ones, and so on. Text `n` begins at
/// its own place of the corpus, so no two of the first million or so are the same.
#[derive(Debug)]
pub(crate) struct Synthetic {
    entries: usize,
    batch: u64,
    floor: bool,
    lengths: Lengths,
    /// Tokens the server puts before each plain prompt and counts.
    specials: u64,
    /// Tokens of prompts beside what a tool draws for them, where lengths are those of rendered requests.
    drawn_specials: u64,
    models: Models,
    tokenizer: Arc<dyn Tokenizer>,
    texts: Texts,
    turns: TurnsPlan,
    turn_counts: Stream,
    delays: Stream,
    prefixes: Option<(Stream, u64, u64)>,
    system: System,
    /// Fields that are laid over every request bring a system text of their own.
    system_is_laid_over: bool,
    context_tokens: Option<u64>,
    marking: Option<Marking>,
    framing: Option<Framing>,
    least: Least,
    totals: Totals,
    notes: Vec<String>,
}

/// The system message.
#[derive(Debug)]
enum System {
    None,
    /// The user's own words.
    Verbatim(String),
    /// Made once, unless each session's is marked.
    Made {
        tokens: u64,
        text: OnceLock<String>,
    },
}

/// The messages before the first turn.
struct Opening {
    system: Option<String>,
    context: Option<String>,
    /// Tokens that they make of a first request.
    tokens: u64,
}

impl Opening {
    fn contents(&self) -> Vec<&str> {
        self.system.iter().chain(&self.context).map(String::as_str).collect()
    }
}

impl Synthetic {
    pub(crate) fn new(
        plan: &Plan,
        set: &SyntheticPlan,
        tokenizer: Arc<dyn Tokenizer>,
        context: &OpenContext<'_>,
    ) -> Result<Self, DataError> {
        if set.entries == 0 {
            return Err(DataError::NoEntries);
        }
        let key = Key::new(plan.seed);
        let has_messages = plan.endpoint.kind.has_messages();
        // A chat template brings its own specials and is not part of the bare text's length.
        let specials =
            if plan.endpoint.kind.adds_specials() { tokenizer.prompt_specials() as u64 } else { 0 };
        let with_template = plan.chat_template && has_messages && tokenizer.chat_template().is_some();
        if with_template && set.batch > 1 {
            return Err(DataError::BatchWithTemplate { batch: set.batch });
        }
        let mut notes = Vec::new();
        if plan.chat_template && has_messages && !with_template {
            notes.push(format!(
                "tokenizer '{}' has no chat template, so --apply-chat-template changes nothing: lengths are those of the bare texts",
                tokenizer.name()
            ));
        }
        let system = match (&plan.system_prompt, set.system_tokens) {
            (Some(text), _) => System::Verbatim(text.clone()),
            (None, Some(tokens)) => System::Made { tokens, text: OnceLock::new() },
            (None, None) => System::None,
        };
        let framing = with_template
            .then(|| {
                let renderer = Renderer::new(Arc::clone(&tokenizer), context.now, &plan.endpoint);
                let has_system = !matches!(system, System::None);
                let has_context = set.user_context_tokens.is_some();
                Framing::new(renderer, has_system, has_context, is_several(set))
            })
            .transpose()?;
        let mut workload = Self {
            entries: set.entries,
            batch: set.batch.max(1) as u64,
            floor: set.floor,
            lengths: Lengths::new(&set.lengths, set.style, specials, key)?,
            specials,
            drawn_specials: if has_messages && !with_template {
                0
            } else {
                tokenizer.prompt_specials() as u64
            },
            models: Models::new(plan)?,
            texts: Texts::new(plan, set, Arc::clone(&tokenizer))?,
            tokenizer,
            turns: set.turns.clone(),
            turn_counts: key.purpose("dataset.turn.count"),
            delays: key.purpose("dataset.turn.delay"),
            prefixes: set.prefixes.map(|prefixes| {
                (key.purpose("dataset.prefix.choice"), prefixes.pool as u64, prefixes.tokens)
            }),
            system,
            system_is_laid_over: plan.endpoint.kind.has_system_in(&[&plan.endpoint.extra]),
            context_tokens: set.user_context_tokens,
            marking: plan.cache_bust.as_ref().map(|plan| Marking::new(plan, context.run_id)),
            framing,
            least: Least::default(),
            totals: Totals::default(),
            notes,
        };
        workload.least = workload.find_least()?;
        workload.totals = workload.check()?;
        workload.notes.extend(workload.more_notes());
        Ok(workload)
    }

    /// The marker lands on a system message.
    fn marks_system(&self) -> bool {
        let wants_system = self.marking.as_ref().is_some_and(|marking| marking.target().wants_system());
        wants_system && (self.system_is_laid_over || !matches!(self.system, System::None))
    }

    /// Number of turn `turn` of an entry among all turns.
    fn number(&self, entry: u64, turn: u64) -> u64 {
        turn * self.entries as u64 + entry
    }

    /// Where a turn of a conversation of `count` turns stands among all turns, as models are given out: one conversation after the other
    /// where all have as many turns, else as turns are numbered.
    fn place_of(&self, entry: u64, turn: u64, count: u64) -> u64 {
        let are_alike = self.totals.turns == self.entries as u64 * count;
        if are_alike { entry * count + turn } else { self.number(entry, turn) }
    }

    fn turns_of(&self, entry: u64) -> u64 {
        draw_length(&self.turns.count, &mut self.turn_counts.at(entry))
    }

    /// [`Self::turns_of`], if requests can be numbered so far.
    fn counted_turns(&self, entry: u64) -> Result<u64, DataError> {
        let (turns, most) = (self.turns_of(entry), u64::from(MOST_TURNS));
        if turns > most {
            return Err(DataError::TooManyTurns { entry: entry as usize, turns, most });
        }
        Ok(turns)
    }

    /// Tokens asked for of a text: as a server counts it, without a prefix.
    fn asked(&self, entry: u64, turn: u64, text: u64) -> Result<u64, DataError> {
        let number = self.number(entry, turn);
        let drawn = self.texts.parity().and_then(|parity| parity.input(number));
        match drawn {
            Some(drawn) => Ok(drawn + self.drawn_specials),
            None => self.lengths.text(number, text, self.least_of(turn, text) - 1),
        }
    }

    fn output(&self, entry: u64, turn: u64) -> Option<u64> {
        let number = self.number(entry, turn);
        let drawn = self.texts.parity().and_then(|parity| parity.output(number));
        drawn.or_else(|| self.lengths.output(number))
    }

    fn opening(&self, entry: u64, marker: Option<&Marker>) -> Result<Opening, DataError> {
        let count = |text: &str| self.tokenizer.count(text) as u64;
        let marker = marker.filter(|_| self.marks_system());
        let mut tokens = 0;
        let system = match &self.system {
            System::None => None,
            System::Verbatim(text) => {
                let text = marker.map_or_else(|| text.clone(), |marker| marker.put(text));
                tokens +=
                    count(self.framing.as_ref().map_or(text.as_str(), |framing| framing.written(&text)));
                Some(text)
            }
            System::Made { tokens: asked, text } => {
                tokens += asked;
                Some(if let (None, Some(text)) = (marker, text.get()) {
                    text.clone()
                } else {
                    let fits = self.fits(0, *asked);
                    let made = self.texts.system(*asked as usize, marker, &fits)?;
                    if marker.is_none() { text.get_or_init(|| made).clone() } else { made }
                })
            }
        };
        let context = match self.context_tokens {
            None => None,
            Some(asked) => {
                tokens += asked;
                let fits = self.fits(usize::from(system.is_some()), asked);
                Some(self.texts.context(entry, asked as usize, &fits)?)
            }
        };
        let mut opening = Opening { system, context, tokens };
        if let Some(framing) = &self.framing {
            opening.tokens = framing.beside(&opening.contents(), tokens);
        }
        Ok(opening)
    }

    /// Whether a content of `tokens` tokens, the `at`-th of a request, is as many between what the template puts around it.
    fn fits(&self, at: usize, tokens: u64) -> impl Fn(&str) -> bool {
        move |content: &str| {
            self.framing.as_ref().is_none_or(|framing| framing.keeps(at, content, tokens as usize))
        }
    }

    fn first_turn(
        &self,
        entry: u64,
        opening: &Opening,
        marker: Option<&Marker>,
    ) -> Result<(Vec<String>, TurnLength), DataError> {
        let marker = marker.filter(|_| !self.marks_system());
        let prefix =
            self.prefixes.map(|(stream, pool, tokens)| (stream.at(entry).below(pool) as usize, tokens));
        let prefix_tokens = match (prefix, &self.framing) {
            (Some((at, _)), Some(framing)) if framing.rewrites() => {
                framing.prefix_rewritten(&opening.contents(), &self.texts.shared(at)?)
            }
            _ => prefix.map_or(0, |(_, tokens)| tokens),
        };
        let mut texts = Vec::with_capacity(self.batch as usize);
        let mut length = TurnLength { asked: 0, made: 0 };
        for text in 0..self.batch {
            let number = entry * self.batch + text;
            let (marker, prefix) = (marker.filter(|_| text == 0), prefix.map(|(at, _)| at));
            let asked = self.asked(entry, 0, text)?;
            let mut made = asked.max(self.least_of(0, text)) + prefix_tokens;
            let content = match &self.framing {
                None => {
                    let slot = Slot::bare((made - self.specials) as usize);
                    let (content, tokens) = self.texts.prompt(number, slot, marker, prefix)?;
                    made = tokens as u64 + self.specials;
                    content
                }
                Some(framing) => {
                    let contents = opening.contents();
                    let place = framing.first(&contents);
                    let total = made + opening.tokens;
                    let render = |text: &str| framing.render_first(&contents, text);
                    self.placed(number, &place, total, &render, marker, prefix)?
                }
            };
            length.asked += asked + prefix_tokens;
            length.made += made;
            texts.push(content);
        }
        length.asked += opening.tokens;
        length.made += opening.tokens;
        Ok((texts, length))
    }

    fn later_turn(&self, entry: u64, turn: u64) -> Result<(Vec<String>, TurnLength), DataError> {
        let mut texts = Vec::with_capacity(self.batch as usize);
        let mut length = TurnLength { asked: 0, made: 0 };
        for text in 0..self.batch {
            let number = self.number(entry, turn) * self.batch + text;
            let asked = self.asked(entry, turn, text)?;
            let made = asked.max(self.least_of(turn, text));
            let content = match &self.framing {
                None => self.texts.prompt(number, Slot::bare((made - self.specials) as usize), None, None)?.0,
                Some(framing) => {
                    let place = framing.later();
                    let render = |text: &str| framing.render_later(text);
                    self.placed(number, &place, made, &render, None, None)?
                }
            };
            length.asked += asked;
            length.made += made;
            texts.push(content);
        }
        Ok((texts, length))
    }

    /// A content for `place`, where all that is counted is `total`.
    fn placed(
        &self,
        number: u64,
        place: &Place,
        total: u64,
        render: &dyn Fn(&str) -> usize,
        marker: Option<&Marker>,
        prefix: Option<usize>,
    ) -> Result<String, DataError> {
        let slot = if place.is_rendered {
            Slot { render: Some(render), ..Slot::bare(total as usize) }
        } else {
            place.slot((total as isize - place.outside).max(0) as usize)
        };
        Ok(self.texts.prompt(number, slot, marker, prefix)?.0)
    }

    fn delay_ns(&self, entry: u64, turn: u64) -> Option<u64> {
        let DelayPlan { mean_ms, stddev_ms, ratio } = self.turns.delay.filter(|_| turn > 0)?;
        let ms = if stddev_ms > 0.0 {
            self.delays.at(self.number(entry, turn)).positive_normal(mean_ms, stddev_ms)
        } else {
            mean_ms
        };
        Some((ms * ratio * 1e6).round() as u64)
    }
}

fn is_several(set: &SyntheticPlan) -> bool {
    set.turns != TurnsPlan::one()
}

impl Workload for Synthetic {
    fn len(&self) -> usize {
        self.entries
    }

    fn conversation(&self, index: usize, visit: Visit) -> Result<Conversation, DataError> {
        if index >= self.entries {
            return Err(DataError::OutOfRange { index, len: self.entries });
        }
        let entry = index as u64;
        let id = format!("session_{index:06}");
        let marker = self.marking.as_ref().and_then(|marking| marking.marker(visit, &id));
        let count = self.counted_turns(entry)?;
        let opening = self.opening(entry, marker.as_ref())?;
        let mut turns = Vec::with_capacity(count as usize);
        for turn in 0..count {
            let (texts, length) = match turn {
                0 => self.first_turn(entry, &opening, marker.as_ref())?,
                _ => self.later_turn(entry, turn)?,
            };
            turns.push(Turn {
                model: self.models.of_turn(self.place_of(entry, turn, count)).to_owned(),
                role: None,
                texts,
                max_tokens: self.output(entry, turn),
                delay_ns: self.delay_ns(entry, turn),
                at_ns: None,
                extra: Map::new(),
                length: Some(length),
                ..Turn::default()
            });
        }
        let Opening { system, context: user_context, .. } = opening;
        Ok(Conversation { id, context: ContextMode::History, system, user_context, turns, marker })
    }

    fn turn_count(&self, index: usize) -> usize {
        self.turns_of(index as u64) as usize
    }

    fn is_marked(&self) -> bool {
        self.marking.is_some()
    }

    fn describe(&self) -> WorkloadFacts {
        WorkloadFacts {
            kind: WorkloadKind::Synthetic,
            entries: self.entries,
            turns: self.totals.turns,
            most_turns: self.totals.most_turns,
            waits: self.turns.delay.is_some(),
            notes: self.notes.clone(),
            rows: None,
        }
    }
}

#[cfg(test)]
mod tests;
