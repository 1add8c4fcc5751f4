//! Requests that have passages ranked by a query, made here: a query and some passages, each of exactly its length.
//!
//! Texts are numbered through as those of turns are: all queries, then all first passages, all second ones, and so on.

use std::sync::Arc;

use aiperf_core::conversation::{ContextMode, Conversation, PASSAGES, QUERY, TextGroup, Turn, TurnLength};
use aiperf_core::plan::{LengthPlan, Plan, RankingsPlan, SyntheticPlan};
use aiperf_rng::{Key, Stream};
use aiperf_tokens::Tokenizer;

use crate::error::DataError;
use crate::models::Models;
use crate::opening::Texts;
use crate::slot::Slot;
use crate::spread::{check_length, draw_length};
use crate::workload::{Visit, Workload, WorkloadFacts, WorkloadKind};

/// See the module.
#[derive(Debug)]
pub(crate) struct Rankings {
    entries: usize,
    plan: RankingsPlan,
    models: Models,
    texts: Texts,
    counts: Stream,
    query_tokens: Stream,
    passage_tokens: Stream,
}

impl Rankings {
    pub(crate) fn new(
        plan: &Plan,
        set: &SyntheticPlan,
        rankings: &RankingsPlan,
        tokenizer: Arc<dyn Tokenizer>,
    ) -> Result<Self, DataError> {
        if set.entries == 0 {
            return Err(DataError::NoEntries);
        }
        for length in [&rankings.query_tokens, &rankings.passage_tokens] {
            check_length(length.scale() as u64)?;
        }
        let key = Key::new(plan.seed);
        Ok(Self {
            entries: set.entries,
            plan: rankings.clone(),
            models: Models::new(plan)?,
            texts: Texts::new(plan, set, tokenizer)?,
            counts: key.purpose("dataset.rankings.passages"),
            query_tokens: key.purpose("dataset.rankings.query.tokens"),
            passage_tokens: key.purpose("dataset.rankings.passages.tokens"),
        })
    }

    /// Text `place` of an entry, of a drawn length; adds that to `length`.
    fn text(
        &self,
        (entry, place): (u64, u64),
        plan: &LengthPlan,
        lengths: &Stream,
        length: &mut TurnLength,
    ) -> Result<String, DataError> {
        let asked = draw_length(plan, &mut lengths.lane(place).at(entry));
        check_length(asked)?;
        let number = place * self.entries as u64 + entry;
        let (text, made) = self.texts.prompt(number, Slot::bare(asked as usize), None, None)?;
        length.asked += asked;
        length.made += made as u64;
        Ok(text)
    }
}

impl Workload for Rankings {
    fn len(&self) -> usize {
        self.entries
    }

    fn conversation(&self, index: usize, _: Visit) -> Result<Conversation, DataError> {
        if index >= self.entries {
            return Err(DataError::OutOfRange { index, len: self.entries });
        }
        let entry = index as u64;
        let passages = draw_length(&self.plan.passages, &mut self.counts.at(entry));
        let mut length = TurnLength { asked: 0, made: 0 };
        let query = self.text((entry, 0), &self.plan.query_tokens, &self.query_tokens, &mut length)?;
        let mut texts = vec![query];
        for place in 1..=passages {
            let passage = &self.plan.passage_tokens;
            texts.push(self.text((entry, place), passage, &self.passage_tokens, &mut length)?);
        }
        let group = |name: &str, count| TextGroup { name: name.to_owned(), count };
        let turn = Turn {
            model: self.models.of_turn(entry).to_owned(),
            groups: vec![group(QUERY, 1), group(PASSAGES, texts.len() - 1)],
            texts,
            length: Some(length),
            ..Turn::default()
        };
        Ok(Conversation {
            id: format!("session_{index:06}"),
            context: ContextMode::SelfContained,
            system: None,
            user_context: None,
            turns: vec![turn],
            marker: None,
        })
    }

    fn turn_count(&self, _: usize) -> usize {
        1
    }

    fn describe(&self) -> WorkloadFacts {
        WorkloadFacts {
            kind: WorkloadKind::Synthetic,
            entries: self.entries,
            turns: self.entries as u64,
            most_turns: 1,
            waits: false,
            notes: Vec::new(),
            rows: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use aiperf_core::plan::{CorpusPlan, DatasetPlan, EndpointKind};

    use super::*;
    use crate::toys::{Cut, Toy, context, plan};

    fn lengths(passages: LengthPlan, passage: LengthPlan, query: LengthPlan) -> RankingsPlan {
        RankingsPlan { passages, passage_tokens: passage, query_tokens: query }
    }

    fn open(rankings: RankingsPlan, corpus: CorpusPlan, seed: u64) -> Arc<dyn Workload> {
        let set = SyntheticPlan {
            corpus,
            rankings: Some(Box::new(rankings)),
            ..SyntheticPlan::sonnet(60, LengthPlan::normal(550.0, 0.0), None)
        };
        let mut plan = plan(DatasetPlan::Synthetic(set), EndpointKind::CohereRankings);
        plan.seed = seed;
        // A BOS is no part of a text that is joined to another one.
        let toy = Arc::new(Toy { cut: Cut::Words, specials: 1 });
        crate::open(&plan, Some(toy), context()).expect("a good plan")
    }

    fn turn(workload: &dyn Workload, index: usize) -> Turn {
        let conversation = workload.conversation(index, Visit::default()).expect("it is there");
        assert_eq!((conversation.id, conversation.turns.len()), (format!("session_{index:06}"), 1));
        conversation.turns.into_iter().next().expect("a turn")
    }

    #[test]
    fn every_text_has_exactly_its_length() {
        let toy = Toy::shared(Cut::Words);
        for corpus in [CorpusPlan::Sonnet, CorpusPlan::Coding] {
            let fixed = |n: f64| LengthPlan::normal(n, 0.0);
            let workload = open(lengths(fixed(4.0), fixed(12.0), fixed(7.0)), corpus, 1);
            let mut seen = HashSet::new();
            for index in 0..60 {
                let turn = turn(&*workload, index);
                assert_eq!(turn.query().map(|text| toy.count(text)), Some(7));
                let passages: Vec<usize> = turn.passages().map(|text| toy.count(text)).collect();
                assert_eq!(passages, [12; 4]);
                assert_eq!(turn.length, Some(TurnLength { asked: 55, made: 55 }));
                assert_eq!((turn.model.as_str(), turn.max_tokens), (["a", "b"][index % 2], None));
                assert!(turn.texts.iter().all(|text| seen.insert(text.clone())), "no text comes twice");
            }
        }
    }

    #[test]
    fn numbers_and_lengths_are_drawn_by_seed_and_position() {
        let spread = || {
            lengths(LengthPlan::normal(5.0, 2.0), LengthPlan::normal(30.0, 8.0), LengthPlan::normal(9.0, 3.0))
        };
        let (workload, again, other) = (
            open(spread(), CorpusPlan::Sonnet, 3),
            open(spread(), CorpusPlan::Sonnet, 3),
            open(spread(), CorpusPlan::Sonnet, 4),
        );
        let (mut counts, mut sizes, mut queries) = (HashSet::new(), HashSet::new(), HashSet::new());
        let toy = Toy::shared(Cut::Words);
        // Read in another order, everything is the same.
        let backwards: Vec<Turn> = (0..60).rev().map(|index| turn(&*again, index)).collect();
        for index in 0..60 {
            let turn = turn(&*workload, index);
            assert_eq!(turn, backwards[59 - index]);
            counts.insert(turn.passages().count());
            sizes.extend(turn.passages().map(|text| toy.count(text)));
            queries.insert(turn.query().map(|text| toy.count(text)));
            let sum: usize = turn.texts.iter().map(|text| toy.count(text)).sum();
            assert_eq!(turn.length.map(|l| l.asked), Some(sum as u64));
        }
        assert!(
            counts.len() > 4 && sizes.len() > 15 && queries.len() > 5,
            "{counts:?} {sizes:?} {queries:?}"
        );
        assert_ne!(turn(&*workload, 0), turn(&*other, 0));
        assert_eq!((workload.turn_count(3), workload.describe().turns), (1, 60));
    }

    #[test]
    fn lengths_beyond_memory_and_positions_outside_are_refused() {
        let fixed = |n: f64| LengthPlan::normal(n, 0.0);
        let set = SyntheticPlan {
            rankings: Some(Box::new(lengths(fixed(1.0), fixed(1e12), fixed(1.0)))),
            ..SyntheticPlan::sonnet(1, fixed(1.0), None)
        };
        let plan = plan(DatasetPlan::Synthetic(set), EndpointKind::NimRankings);
        let error = crate::open(&plan, Some(Toy::shared(Cut::Words)), context()).map(|w| w.len());
        assert!(matches!(error, Err(DataError::TooLong { .. })), "{error:?}");
        let workload = open(lengths(fixed(1.0), fixed(1.0), fixed(1.0)), CorpusPlan::Sonnet, 1);
        let error = workload.conversation(60, Visit::default()).expect_err("there are 60");
        assert_eq!(error.to_string(), "conversation 60 of 60 does not exist");
    }
}
