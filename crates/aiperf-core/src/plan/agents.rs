//! Public data sets of agents' sessions (Exgentic): whose sessions are in them, and which of them are wanted.

/// A version of the data set. The pairs that it lacks are those that AIPerf 0.13 knows it to lack.
#[derive(Debug, PartialEq, Eq)]
pub struct AgentSet {
    /// Whether its rows say which benchmark they are of.
    pub has_benchmarks: bool,
    /// Harnesses and models that never came together.
    lacks: &'static [(&'static str, &'static str)],
}

/// Which sessions are wanted; `None` is any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AgentFilter {
    /// What drove the agent.
    pub harness: Option<&'static str>,
    /// The model that was asked when it was recorded.
    pub source_model: Option<&'static str>,
    /// What it was tried on.
    pub benchmark: Option<&'static str>,
}

/// Names of harnesses.
pub const HARNESSES: &[&str] = &[CLAUDE, SOLO, SMOL, TOOLS, SHORTLIST];
const CLAUDE: &str = "claude_code";
const SOLO: &str = "openai_solo";
const SMOL: &str = "smolagents_code";
const TOOLS: &str = "tool_calling";
const SHORTLIST: &str = "tool_calling_with_shortlisting";

/// Names of models, without those of who offered them.
pub const SOURCE_MODELS: &[&str] = &["DeepSeek-V3.2", "Kimi-K2.5", OPUS, GEMINI, GPT_4_1, GPT_5_2];
const OPUS: &str = "claude-opus-4-5";
const GEMINI: &str = "gemini-3-pro-preview";
const GPT_4_1: &str = "gpt-4.1";
const GPT_5_2: &str = "gpt-5.2-2025-12-11";

/// Names of benchmarks.
pub const BENCHMARKS: &[&str] =
    &["appworld", "browsecompplus", "swebench", "tau2_airline", "tau2_retail", "tau2_telecom"];

/// The first version.
pub static EXGENTIC: AgentSet = AgentSet {
    has_benchmarks: false,
    lacks: &[
        (SOLO, GPT_5_2),
        (SMOL, OPUS),
        (SMOL, GEMINI),
        (SMOL, GPT_5_2),
        (TOOLS, GPT_5_2),
        (SHORTLIST, OPUS),
        (SHORTLIST, GPT_4_1),
        (SHORTLIST, GPT_5_2),
    ],
};

/// The second.
pub static EXGENTIC_V2: AgentSet = AgentSet {
    has_benchmarks: true,
    lacks: &[
        (CLAUDE, GPT_4_1),
        (SOLO, GPT_4_1),
        (SMOL, GPT_4_1),
        (TOOLS, GPT_4_1),
        (SHORTLIST, OPUS),
        (SHORTLIST, GPT_4_1),
        (SHORTLIST, GPT_5_2),
    ],
};

impl AgentSet {
    /// Models whose sessions it has, of `harness` or of any.
    pub fn models(&self, harness: Option<&str>) -> Vec<&'static str> {
        let of = |model: &str| {
            let mut harnesses = HARNESSES.iter().filter(|name| harness.is_none_or(|only| only == **name));
            harnesses.any(|name| !self.lacks.contains(&(*name, model)))
        };
        SOURCE_MODELS.iter().copied().filter(|model| of(model)).collect()
    }
}

/// A model's name without that of who offered it, in any case: `openai/azure/`, `azure/`, `aws/`, `gcp/`.
pub fn source_model(name: &str) -> &str {
    let mut offers = ["openai/azure/", "azure/", "aws/", "gcp/"].into_iter();
    let own = offers.find_map(|offer| {
        let (before, own) = name.split_at_checked(offer.len())?;
        before.eq_ignore_ascii_case(offer).then_some(own)
    });
    own.unwrap_or(name)
}

impl AgentFilter {
    /// Whether a session is wanted that says this of itself.
    pub fn takes<'a>(
        &self,
        harness: &str,
        mut models: impl Iterator<Item = &'a str>,
        benchmark: Option<&str>,
    ) -> bool {
        let is =
            |wanted: Option<&str>, found: &str| wanted.is_none_or(|name| name.eq_ignore_ascii_case(found));
        is(self.harness, harness)
            && (self.source_model.is_none() || models.any(|model| is(self.source_model, source_model(model))))
            && (self.benchmark.is_none() || benchmark.is_some_and(|found| is(self.benchmark, found)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_told_by_what_they_say() {
        let filter = |harness, source_model, benchmark| AgentFilter { harness, source_model, benchmark };
        let takes = |filter: AgentFilter| {
            filter.takes("Tool_Calling", ["x", "Openai/Azure/GPT-4.1"].into_iter(), Some("swebench"))
        };
        assert!(takes(AgentFilter::default()));
        assert!(takes(filter(Some(TOOLS), Some(GPT_4_1), Some("swebench"))));
        assert!(!takes(filter(Some(SOLO), None, None)));
        assert!(!takes(filter(None, Some(OPUS), None)));
        assert!(!takes(filter(None, None, Some("appworld"))));
        assert!(!filter(None, None, Some("appworld")).takes(TOOLS, std::iter::empty(), None));
    }

    #[test]
    fn models_are_those_that_some_session_has() {
        assert_eq!(EXGENTIC.models(None).len(), 6);
        assert_eq!(EXGENTIC.models(Some(SHORTLIST)), ["DeepSeek-V3.2", "Kimi-K2.5", GEMINI]);
        assert!(!EXGENTIC_V2.models(None).contains(&GPT_4_1));
        assert_eq!(source_model("gcp/"), "");
        assert_eq!(source_model("é"), "é");
    }
}
