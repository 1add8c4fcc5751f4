//! Endpoints whose answers are vectors or scores: what they rank, and what they have no use for.

use aiperf_core::plan::{LengthPlan, RankingsPlan};

use super::Resolver;
use crate::options::{Id, MOST_PASSAGES};

/// Number of passages, their length and that of the query: mean, deviation, and any other form.
pub(super) const RANKINGS: [[Id; 3]; 3] = [
    [Id::Passages, Id::PassagesStddev, Id::PassagesShape],
    [Id::PassageTokens, Id::PassageTokensStddev, Id::PassageTokensShape],
    [Id::QueryTokens, Id::QueryTokensStddev, Id::QueryTokensShape],
];

/// What says how other prompts are made. AIPerf passes it over as well.
const OF_PROMPTS: [Id; 10] = [
    Id::Isl,
    Id::IslStddev,
    Id::IslShape,
    Id::SeqDist,
    Id::RangeRatio,
    Id::CorpusStyle,
    Id::BatchSize,
    Id::IslBelowMinimum,
    Id::PrefixPool,
    Id::PrefixLength,
];

impl Resolver<'_> {
    /// Queries with passages, where the endpoint wants them.
    pub(super) fn rankings(&mut self) -> Option<RankingsPlan> {
        let kind = self.endpoint_kind();
        if !kind.is_ranking() {
            for id in RANKINGS.into_iter().flatten() {
                self.needs(
                    id,
                    "--endpoint-type cohere_rankings, hf_tei_rankings or nim_rankings",
                    "no other request has passages to be ranked",
                );
            }
            return None;
        }
        for id in OF_PROMPTS {
            if let Some(place) = self.place(id) {
                self.notes.push(format!(
                    "{place} has no effect: requests of endpoint type '{}' are a query and passages, whose lengths --rankings-query-prompt-token-mean \
                     and --rankings-passages-prompt-token-mean say",
                    kind.name()
                ));
            }
        }
        let [passages, passage_tokens, query_tokens] = RANKINGS.map(|ids| self.ranking_length(ids));
        if !(1.0..=MOST_PASSAGES).contains(&passages.scale()) {
            let found = format!("a distribution around {} passages", passages.scale());
            self.bad(Id::PassagesShape, found, &format!("1 to {MOST_PASSAGES} passages"));
        }
        Some(RankingsPlan { passages, passage_tokens, query_tokens })
    }

    fn ranking_length(&mut self, [mean, stddev, shape]: [Id; 3]) -> LengthPlan {
        self.exclude(shape, mean, "both say the same number; keep one");
        self.exclude(shape, stddev, "the distribution has its own spread; keep one");
        self.settings.lengths(shape).cloned().unwrap_or_else(|| {
            LengthPlan::normal(
                self.settings.int_or_default(mean) as f64,
                self.settings.float_or_default(stddev),
            )
        })
    }

    /// The output length, unless answers have none, or requests have no field for it.
    pub(super) fn limited(&mut self, osl: Option<LengthPlan>) -> Option<LengthPlan> {
        let kind = self.endpoint_kind();
        if kind.has_limit() {
            return osl;
        }
        let why = if kind.traits().produces_tokens {
            "has no field for the output length"
        } else {
            "has no output"
        };
        for id in [Id::Osl, Id::OslStddev, Id::OslShape] {
            if let Some(place) = self.place(id) {
                let name = kind.name();
                self.notes
                    .push(format!("{place} has no effect and is not sent: endpoint type '{name}' {why}"));
            }
        }
        None
    }
}
