//! Prompts made here: one turn each, of exactly the lengths asked for.

use std::sync::Arc;

use aiperf_core::conversation::{ContextMode, Conversation, Turn, TurnLength};
use aiperf_core::plan::{CorpusPlan, Plan, SyntheticPlan};
use aiperf_rng::{Key, Stream};
use aiperf_tokens::Tokenizer;
use serde_json::Map;

use crate::corpus::{SONNET, coding};
use crate::cut::Cutter;
use crate::error::DataError;
use crate::models::Models;
use crate::random::Random;
use crate::spread::{Lengths, TextLength};
use crate::workload::{Visit, Workload, WorkloadFacts, WorkloadKind, plural};

/// Single-turn prompts of one or more texts.
///
/// The texts of all entries are numbered through, and text `n` begins at its own place of the corpus: no two of the first
/// million or so are the same.
#[derive(Debug)]
pub(crate) struct Synthetic {
    entries: usize,
    batch: u64,
    lengths: Lengths,
    /// Tokens the server puts around each text and counts.
    specials: u64,
    models: Models,
    tokenizer: Arc<dyn Tokenizer>,
    texts: Texts,
}

/// Where texts come from.
#[derive(Debug)]
enum Texts {
    Cut(Cutter, Stream),
    Random(Random),
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
        let key = Key::new(plan.seed);
        // A chat template brings its own specials and is not part of the bare text's length.
        let specials = if plan.endpoint.kind.has_messages() { 0 } else { tokenizer.prompt_specials() as u64 };
        let lengths = Lengths::new(&set.lengths, set.style, specials, key)?;
        let cut = |corpus| {
            Texts::Cut(Cutter::new(corpus, Arc::clone(&tokenizer)), key.purpose("dataset.prompt.corpus"))
        };
        let texts = match set.corpus {
            CorpusPlan::Sonnet => cut(Arc::clone(&SONNET)),
            CorpusPlan::Coding => cut(coding(plan.seed)),
            CorpusPlan::Random => Texts::Random(Random::new(set, plan.seed, Arc::clone(&tokenizer))?),
        };
        let batch = set.batch.max(1) as u64;
        Ok(Self {
            entries: set.entries,
            batch,
            lengths,
            specials,
            models: Models::new(plan)?,
            tokenizer,
            texts,
        })
    }

    fn length(&self, entry: u64, text: u64) -> Result<TextLength, DataError> {
        match &self.texts {
            Texts::Random(random) if let Some(parity) = random.parity() => {
                Ok(self.lengths.bare(parity.input(entry)))
            }
            _ => self.lengths.text(entry, text),
        }
    }

    fn output(&self, entry: u64) -> Option<u64> {
        match &self.texts {
            Texts::Random(random) if let Some(parity) = random.parity() => Some(parity.output(entry)),
            _ => self.lengths.output(entry),
        }
    }

    /// Text number `text` of the workload.
    fn text(&self, text: u64, tokens: usize) -> Result<String, DataError> {
        let made = match &self.texts {
            Texts::Cut(cutter, starts) => cutter.cut(cutter.corpus().start(*starts, text), tokens),
            Texts::Random(random) => random.text(text, tokens),
        };
        made.map_err(|nearest| DataError::NoTextOfLength {
            tokenizer: self.tokenizer.name().to_owned(),
            asked: tokens,
            nearest,
        })
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.specials > 0 {
            notes.extend(self.too_short());
        }
        if let Texts::Random(random) = &self.texts
            && let Some(parity) = random.parity()
        {
            notes.extend(parity.note());
            let texts = self.entries as u64 * self.batch;
            let drawn = parity.drawn_offsets();
            if texts > drawn {
                notes.push(format!(
                    "{} of {texts} texts of batches begin where no tool drew: vLLM and SGLang send one text a request, and \
                     from text {} on the beginnings are this program's own",
                    texts - drawn,
                    drawn + 1
                ));
            }
        }
        notes
    }

    /// How many texts were asked shorter than one can be.
    fn too_short(&self) -> Option<String> {
        let texts = self.entries as u64 * self.batch;
        let is_short = |text: &u64| {
            let length = self.length(text / self.batch, text % self.batch);
            length.is_ok_and(|l| l.asked <= self.specials)
        };
        let short = (0..texts).filter(is_short).count();
        if short == 0 {
            return None;
        }
        let least = self.specials + 1;
        Some(format!(
            "{short} of {texts} {} {} an ISL below {least}, the shortest input that is not empty: tokenizer '{}' adds {} of its own \
             (BOS); {least} tokens are sent instead",
            plural(texts, "prompt"),
            if texts == 1 { "has" } else { "have" },
            self.tokenizer.name(),
            self.specials,
        ))
    }
}

impl Workload for Synthetic {
    fn len(&self) -> usize {
        self.entries
    }

    fn conversation(&self, index: usize, _visit: Visit) -> Result<Conversation, DataError> {
        if index >= self.entries {
            return Err(DataError::OutOfRange { index, len: self.entries });
        }
        let entry = index as u64;
        let mut asked = 0;
        let mut texts = Vec::with_capacity(self.batch as usize);
        for text in 0..self.batch {
            let length = self.length(entry, text)?;
            asked += length.asked;
            texts.push(self.text(entry * self.batch + text, length.bare as usize)?);
        }
        let turn = Turn {
            model: self.models.of_turn(entry).to_owned(),
            role: None,
            texts,
            max_tokens: self.output(entry),
            delay_ns: None,
            extra: Map::new(),
            length: Some(TurnLength { asked, made: asked }),
        };
        Ok(Conversation {
            id: format!("session_{index:06}"),
            context: ContextMode::History,
            system: None,
            user_context: None,
            turns: vec![turn],
        })
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

    use crate::spread::MOST_TOKENS;
    use aiperf_core::plan::{DatasetPlan, EndpointKind, LengthPlan, ModelSelection};

    use super::*;
    use crate::toys::{Cut, Toy, plan};

    fn set(entries: usize, mean: f64, stddev: f64) -> SyntheticPlan {
        let osl = Some(LengthPlan::normal(20.0, 5.0));
        SyntheticPlan::sonnet(entries, LengthPlan::normal(mean, stddev), osl)
    }

    fn open(plan: &Plan, tokenizer: Arc<dyn Tokenizer>) -> Arc<dyn Workload> {
        crate::open(plan, Some(tokenizer)).expect("a good plan")
    }

    #[test]
    fn a_conversation_is_a_function_of_its_position() {
        let plan = plan(DatasetPlan::Synthetic(set(200, 60.0, 20.0)), EndpointKind::Chat);
        let workload = open(&plan, Toy::shared(Cut::Words));
        let forward: Vec<_> =
            (0..200).map(|i| workload.conversation(i, Visit::default()).expect("exists")).collect();
        // Another workload, read from two threads, one of them backwards.
        let other = open(&plan, Toy::shared(Cut::Words));
        std::thread::scope(|scope| {
            let back = scope.spawn(|| {
                (0..200)
                    .rev()
                    .all(|i| other.conversation(i, Visit::default()).ok().as_ref() == Some(&forward[i]))
            });
            assert!(
                (0..200).all(|i| other.conversation(i, Visit::default()).ok().as_ref() == Some(&forward[i]))
            );
            assert!(back.join().expect("no panic"));
        });
        let toy = Toy::shared(Cut::Words);
        for (i, conversation) in forward.iter().enumerate() {
            let turn = &conversation.turns[0];
            assert_eq!(conversation.id, format!("session_{i:06}"));
            assert_eq!(Some(toy.count(&turn.texts[0]) as u64), turn.length.map(|l| l.asked));
            assert_eq!(turn.model, ["a", "b"][i % 2]);
            assert!(turn.max_tokens.is_some_and(|n| n >= 1));
        }
        let lengths: HashSet<_> = forward.iter().map(|c| c.turns[0].length).collect();
        assert!(lengths.len() > 30, "lengths spread");
    }

    #[test]
    fn seeds_make_other_prompts() {
        let mut plan = plan(DatasetPlan::Synthetic(set(50, 40.0, 0.0)), EndpointKind::Chat);
        let texts = |plan: &Plan| -> HashSet<String> {
            let workload = open(plan, Toy::shared(Cut::Words));
            (0..50)
                .map(|i| {
                    workload.conversation(i, Visit::default()).expect("exists").turns[0].texts[0].clone()
                })
                .collect()
        };
        let first = texts(&plan);
        plan.seed += 1;
        assert!(first.is_disjoint(&texts(&plan)));
    }

    #[test]
    fn prompts_are_distinct_beyond_the_words_of_the_corpus() {
        let entries = 3 * SONNET.pieces();
        let plan = plan(DatasetPlan::Synthetic(set(entries, 24.0, 0.0)), EndpointKind::Chat);
        let workload = open(&plan, Toy::shared(Cut::Words));
        let mut seen = HashSet::new();
        for i in (0..5000).chain(SONNET.pieces()..SONNET.pieces() + 5000).chain(entries - 5000..entries) {
            assert!(
                seen.insert(
                    workload.conversation(i, Visit::default()).expect("exists").turns[0].texts[0].clone()
                ),
                "{i}"
            );
        }
    }

    #[test]
    fn models_can_be_drawn() {
        let mut plan = plan(DatasetPlan::Synthetic(set(400, 5.0, 0.0)), EndpointKind::Chat);
        plan.model_selection = ModelSelection::Random;
        let workload = open(&plan, Toy::shared(Cut::Words));
        let firsts = (0..400)
            .filter(|i| workload.conversation(*i, Visit::default()).expect("exists").turns[0].model == "a")
            .count();
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
                let turn = &workload.conversation(i, Visit::default()).expect("exists").turns[0];
                assert_eq!(
                    (toy.count(&turn.texts[0]), turn.length.map(|l| l.asked)),
                    (bare, Some(isl as u64))
                );
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
        assert!(matches!(
            workload.conversation(1, Visit::default()),
            Err(DataError::OutOfRange { index: 1, len: 1 })
        ));
        one.models.clear();
        assert!(matches!(crate::open(&one, Some(Toy::shared(Cut::Words))), Err(DataError::NoModel)));
        let long = plan(DatasetPlan::Synthetic(set(1, 1e15, 0.0)), EndpointKind::Chat);
        let error =
            crate::open(&long, Some(Toy::shared(Cut::Words))).expect_err("no memory should be spent on it");
        assert!(matches!(error, DataError::TooLong { asked: 1_000_000_000_000_000, most: MOST_TOKENS }));
        let wide = plan(DatasetPlan::Synthetic(set(1, 10.0, 1e15)), EndpointKind::Chat);
        let error = open(&wide, Toy::shared(Cut::Words))
            .conversation(0, Visit::default())
            .expect_err("nor on a drawn one");
        assert!(matches!(error, DataError::TooLong { .. }), "{error}");
        let odd = plan(DatasetPlan::Synthetic(set(1, 9.0, 0.0)), EndpointKind::Chat);
        let error =
            open(&odd, Toy::shared(Cut::Even)).conversation(0, Visit::default()).expect_err("no odd count");
        assert!(error.to_string().starts_with("tokenizer 'toy' makes no text of 9 tokens"), "{error}");
    }
}
