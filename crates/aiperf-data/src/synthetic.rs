//! Prompts made from a corpus: one turn each, of exactly the length asked for.

use std::sync::Arc;

use aiperf_core::conversation::{Conversation, Turn};
use aiperf_core::plan::{EndpointKind, LengthPlan, Plan, SyntheticPlan};
use aiperf_rng::{Key, Permutation, Stream};
use aiperf_tokens::Tokenizer;
use serde_json::Map;

use crate::corpus::SONNET;
use crate::cut::{Cutter, Start};
use crate::error::DataError;
use crate::models::Models;
use crate::workload::{Workload, WorkloadFacts, WorkloadKind, plural};

/// The longest input made, tokens: half a gigabyte of text.
const MOST_TOKENS: u64 = 100_000_000;

/// Single-turn prompts from the sonnet corpus.
///
/// Entry `i` begins at its own word: a shuffle of all the corpus's words, so no two of the first 963,106 entries begin at the
/// same place, and beyond those the number of words left out behind the first tells them apart.
#[derive(Debug)]
pub(crate) struct Synthetic {
    entries: usize,
    isl: LengthPlan,
    osl: Option<LengthPlan>,
    /// Tokens the server puts around the text and counts.
    specials: u64,
    models: Models,
    cutter: Cutter,
    starts: Permutation,
    inputs: Stream,
    outputs: Stream,
}

/// A length of the plan, drawn.
pub(crate) fn draw_length(plan: LengthPlan, stream: Stream, index: u64) -> u64 {
    stream.at(index).normal_length(plan.mean, plan.stddev)
}

fn check_length(asked: u64) -> Result<(), DataError> {
    if asked > MOST_TOKENS { Err(DataError::TooLong { asked, most: MOST_TOKENS }) } else { Ok(()) }
}

impl Synthetic {
    pub(crate) fn new(
        plan: &Plan,
        set: &SyntheticPlan,
        tokenizer: Arc<dyn Tokenizer>,
    ) -> Result<Self, DataError> {
        if set.entries == 0 {
            return Err(DataError::NoEntries);
        }
        check_length(set.isl.mean as u64)?;
        let key = Key::new(plan.seed);
        // A chat template brings its own specials and is not part of the bare text's length.
        let specials = match plan.endpoint.kind {
            EndpointKind::Chat => 0,
            EndpointKind::Completions => tokenizer.prompt_specials() as u64,
        };
        Ok(Self {
            entries: set.entries,
            isl: set.isl,
            osl: set.osl,
            specials,
            models: Models::new(plan)?,
            cutter: Cutter::new(&SONNET, tokenizer),
            starts: Permutation::new(key.purpose("dataset.prompt.corpus"), SONNET.words() as u64),
            inputs: key.purpose("dataset.prompt.length"),
            outputs: key.purpose("dataset.turn.max_tokens"),
        })
    }

    /// Input and text length of an entry, tokens.
    fn lengths(&self, index: u64) -> (u64, u64) {
        let asked = draw_length(self.isl, self.inputs, index);
        (asked, asked.saturating_sub(self.specials).max(1))
    }

    fn notes(&self) -> Vec<String> {
        if self.specials == 0 {
            return Vec::new();
        }
        let short = (0..self.entries as u64).filter(|i| self.lengths(*i).0 <= self.specials).count() as u64;
        if short == 0 {
            return Vec::new();
        }
        let least = self.specials + 1;
        vec![format!(
            "{short} of {} {} {} an ISL below {least}, the shortest input that is not empty: tokenizer '{}' adds {} of its own (BOS); \
             {least} tokens are sent instead",
            self.entries,
            plural(self.entries as u64, "prompt"),
            if self.entries == 1 { "has" } else { "have" },
            self.cutter.tokenizer().name(),
            self.specials,
        )]
    }
}

impl Workload for Synthetic {
    fn len(&self) -> usize {
        self.entries
    }

    fn conversation(&self, index: usize) -> Result<Conversation, DataError> {
        if index >= self.entries {
            return Err(DataError::OutOfRange { index, len: self.entries });
        }
        let i = index as u64;
        let (asked, bare) = self.lengths(i);
        check_length(asked)?;
        let start = Start { word: self.starts.at(i) as usize, skip: (i / self.starts.len()) as usize };
        let text = self.cutter.cut(start, bare as usize).map_err(|nearest| DataError::NoTextOfLength {
            tokenizer: self.cutter.tokenizer().name().to_owned(),
            asked: bare as usize,
            nearest,
        })?;
        let turn = Turn {
            model: self.models.of_turn(i).to_owned(),
            role: None,
            texts: vec![text],
            max_tokens: self.osl.map(|osl| draw_length(osl, self.outputs, i)),
            delay_ns: None,
            extra: Map::new(),
            asked_isl: Some(asked),
        };
        Ok(Conversation { id: format!("session_{index:06}"), turns: vec![turn] })
    }

    fn describe(&self) -> WorkloadFacts {
        WorkloadFacts {
            kind: WorkloadKind::Synthetic,
            entries: self.entries,
            turns: self.entries as u64,
            most_turns: 1,
            notes: self.notes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use aiperf_core::plan::{DatasetPlan, ModelSelection};

    use super::*;
    use crate::toys::{Cut, Toy, plan};

    fn set(entries: usize, mean: f64, stddev: f64) -> SyntheticPlan {
        SyntheticPlan {
            entries,
            isl: LengthPlan { mean, stddev },
            osl: Some(LengthPlan { mean: 20.0, stddev: 5.0 }),
        }
    }

    fn open(plan: &Plan, tokenizer: Arc<dyn Tokenizer>) -> Arc<dyn Workload> {
        crate::open(plan, Some(tokenizer)).expect("a good plan")
    }

    #[test]
    fn a_conversation_is_a_function_of_its_position() {
        let plan = plan(DatasetPlan::Synthetic(set(200, 60.0, 20.0)), EndpointKind::Chat);
        let workload = open(&plan, Toy::shared(Cut::Words));
        let forward: Vec<_> = (0..200).map(|i| workload.conversation(i).expect("exists")).collect();
        // Another workload, read from two threads, one of them backwards.
        let other = open(&plan, Toy::shared(Cut::Words));
        std::thread::scope(|scope| {
            let back = scope
                .spawn(|| (0..200).rev().all(|i| other.conversation(i).ok().as_ref() == Some(&forward[i])));
            assert!((0..200).all(|i| other.conversation(i).ok().as_ref() == Some(&forward[i])));
            assert!(back.join().expect("no panic"));
        });
        let toy = Toy::shared(Cut::Words);
        for (i, conversation) in forward.iter().enumerate() {
            let turn = &conversation.turns[0];
            assert_eq!(conversation.id, format!("session_{i:06}"));
            assert_eq!(Some(toy.count(&turn.texts[0]) as u64), turn.asked_isl);
            assert_eq!(turn.model, ["a", "b"][i % 2]);
            assert!(turn.max_tokens.is_some_and(|n| n >= 1));
        }
        let lengths: HashSet<_> = forward.iter().map(|c| c.turns[0].asked_isl).collect();
        assert!(lengths.len() > 30, "lengths spread");
    }

    #[test]
    fn seeds_make_other_prompts() {
        let mut plan = plan(DatasetPlan::Synthetic(set(50, 40.0, 0.0)), EndpointKind::Chat);
        let texts = |plan: &Plan| -> HashSet<String> {
            let workload = open(plan, Toy::shared(Cut::Words));
            (0..50).map(|i| workload.conversation(i).expect("exists").turns[0].texts[0].clone()).collect()
        };
        let first = texts(&plan);
        plan.seed += 1;
        assert!(first.is_disjoint(&texts(&plan)));
    }

    #[test]
    fn prompts_are_distinct_beyond_the_words_of_the_corpus() {
        let entries = 3 * SONNET.words();
        let plan = plan(DatasetPlan::Synthetic(set(entries, 24.0, 0.0)), EndpointKind::Chat);
        let workload = open(&plan, Toy::shared(Cut::Words));
        let mut seen = HashSet::new();
        for i in (0..5000).chain(SONNET.words()..SONNET.words() + 5000).chain(entries - 5000..entries) {
            assert!(seen.insert(workload.conversation(i).expect("exists").turns[0].texts[0].clone()), "{i}");
        }
    }

    #[test]
    fn models_can_be_drawn() {
        let mut plan = plan(DatasetPlan::Synthetic(set(400, 5.0, 0.0)), EndpointKind::Chat);
        plan.model_selection = ModelSelection::Random;
        let workload = open(&plan, Toy::shared(Cut::Words));
        let firsts =
            (0..400).filter(|i| workload.conversation(*i).expect("exists").turns[0].model == "a").count();
        assert!((160..240).contains(&firsts), "4 standard errors are 40: {firsts}");
    }

    #[test]
    fn specials_are_inside_the_length_of_completions_only() {
        let toy = Toy::shared(Cut::Words);
        for (kind, isl, bare) in [
            (EndpointKind::Completions, 17, 16),
            (EndpointKind::Completions, 2, 1),
            (EndpointKind::Completions, 1, 1),
            (EndpointKind::Chat, 17, 17),
            (EndpointKind::Chat, 1, 1),
        ] {
            let plan = plan(DatasetPlan::Synthetic(set(6, f64::from(isl), 0.0)), kind);
            let workload = open(&plan, Arc::new(Toy { cut: Cut::Words, specials: 1 }));
            for i in 0..6 {
                let turn = &workload.conversation(i).expect("exists").turns[0];
                assert_eq!((toy.count(&turn.texts[0]), turn.asked_isl), (bare, Some(isl as u64)));
            }
            let notes = workload.describe().notes;
            assert_eq!(notes.len(), usize::from(kind == EndpointKind::Completions && isl == 1));
            for note in notes {
                let want = "6 of 6 prompts have an ISL below 2, the shortest input that is not empty: tokenizer 'toy' adds 1 \
                            of its own (BOS); 2 tokens are sent instead";
                assert_eq!(note, want);
            }
        }
    }

    #[test]
    fn bad_plans_and_positions_are_refused() {
        let none = plan(DatasetPlan::Synthetic(set(0, 5.0, 0.0)), EndpointKind::Chat);
        assert!(matches!(crate::open(&none, Some(Toy::shared(Cut::Words))), Err(DataError::NoEntries)));
        let mut one = plan(DatasetPlan::Synthetic(set(1, 5.0, 0.0)), EndpointKind::Chat);
        assert!(matches!(crate::open(&one, None), Err(DataError::NoTokenizer)));
        let workload = open(&one, Toy::shared(Cut::Words));
        assert!(matches!(workload.conversation(1), Err(DataError::OutOfRange { index: 1, len: 1 })));
        one.models.clear();
        assert!(matches!(crate::open(&one, Some(Toy::shared(Cut::Words))), Err(DataError::NoModel)));
        let long = plan(DatasetPlan::Synthetic(set(1, 1e15, 0.0)), EndpointKind::Chat);
        let error =
            crate::open(&long, Some(Toy::shared(Cut::Words))).expect_err("no memory should be spent on it");
        assert!(matches!(error, DataError::TooLong { asked: 1_000_000_000_000_000, most: MOST_TOKENS }));
        let wide = plan(DatasetPlan::Synthetic(set(1, 10.0, 1e15)), EndpointKind::Chat);
        let error = open(&wide, Toy::shared(Cut::Words)).conversation(0).expect_err("nor on a drawn one");
        assert!(matches!(error, DataError::TooLong { .. }), "{error}");
        let odd = plan(DatasetPlan::Synthetic(set(1, 9.0, 0.0)), EndpointKind::Chat);
        let error = open(&odd, Toy::shared(Cut::Even)).conversation(0).expect_err("no odd count");
        assert!(error.to_string().starts_with("tokenizer 'toy' makes no text of 9 tokens"), "{error}");
    }
}
