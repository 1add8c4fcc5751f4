//! What a chat template puts around messages, estimated: the linear first guess of prompt sizing, and what it refuses.
//!
//! The estimate is AIPerf's. A request is taken for a fixed part plus, for each message, a wrap and the tokens of its content; both
//! unknowns follow from rendering one message and three. Templates that trim or merge at a border break the model by a token
//! or two, which is why it is a first guess only.

use serde_json::{Value, json};

use crate::clock::TemplateClock;
use crate::count::count_chat;
use crate::error::CountError;
use crate::tokenizer::Tokenizer;

/// AIPerf's samples, so that the estimate is its estimate.
const SAMPLES: [&str; 3] = [
    "Hello, how are you today?",
    "Could you write a Python function to reverse a string?",
    "What's the difference between TCP and UDP in networking?",
];

/// One sample's counts, tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeSample {
    /// The text.
    pub text: &'static str,
    /// The text alone.
    pub bare: usize,
    /// As one user message, rendered.
    pub single: usize,
    /// As user, assistant and user message, rendered.
    pub triple: usize,
}

impl ProbeSample {
    /// Tokens around one message, mean of user's and assistant's.
    pub fn wrap(&self) -> f64 {
        (self.triple as f64 - self.single as f64 - 2.0 * self.bare as f64) / 2.0
    }

    /// Tokens of a request beside its messages, the tokenizer's own `specials` taken off: those are budgeted apart.
    pub fn fixed(&self, specials: usize) -> f64 {
        self.single as f64 - self.bare as f64 - self.wrap() - specials as f64
    }
}

/// What is known of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Tokens of a request beside its messages; 0 where the estimate makes no sense.
    pub fixed: usize,
    /// Tokens around each message; 0 where the estimate makes no sense.
    pub wrap: usize,
    /// What the estimate is made from; empty if the template could not be rendered.
    pub samples: Vec<ProbeSample>,
    /// Why the template could not be rendered.
    pub problem: Option<CountError>,
    /// Why it takes no system message.
    pub system: Option<CountError>,
    /// Why it takes no two user messages in a row.
    pub consecutive: Option<CountError>,
}

impl Probe {
    /// What AIPerf takes off an input length before it makes a first user message: all that a request has once, the message's own
    /// wrap, and `marker` tokens of a cache-bust marker that lands on it.
    pub const fn first_turn_adjustment(&self, marker: usize) -> usize {
        self.fixed + self.wrap + marker
    }

    /// What it takes off for a later user message, which has its wrap alone.
    pub const fn later_turn_adjustment(&self) -> usize {
        self.wrap
    }
}

/// Asks the template of `tokenizer` by rendering, at the moment `now`.
pub fn probe(tokenizer: &dyn Tokenizer, now: TemplateClock) -> Probe {
    let count = |messages: &Value| count_chat(tokenizer, messages, None, true, now);
    let message = |role: &str, text: &str| json!({"role": role, "content": text});
    let refused = |messages: Value| count(&messages).err();
    let first = SAMPLES[0];
    let samples: Result<Vec<ProbeSample>, CountError> = SAMPLES
        .into_iter()
        .map(|text| {
            let single = count(&json!([message("user", text)]))?;
            let triple =
                count(&json!([message("user", text), message("assistant", text), message("user", text)]))?;
            Ok(ProbeSample { text, bare: tokenizer.count(text), single, triple })
        })
        .collect();
    let (samples, problem) = match samples {
        Ok(samples) => (samples, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let (fixed, wrap) = estimate(&samples, tokenizer.prompt_specials());
    Probe {
        fixed,
        wrap,
        samples,
        problem,
        system: refused(json!([message("system", first), message("user", first)])),
        consecutive: refused(json!([message("user", first), message("user", first)])),
    }
}

/// The means, each rounded by itself, halves to even; nothing at all where one sample gives less than nothing.
fn estimate(samples: &[ProbeSample], specials: usize) -> (usize, usize) {
    let is_plausible = |s: &ProbeSample| s.wrap() >= 0.0 && s.fixed(specials) >= 0.0;
    if samples.is_empty() || !samples.iter().all(is_plausible) {
        return (0, 0);
    }
    let mean = |part: &dyn Fn(&ProbeSample) -> f64| {
        (samples.iter().map(part).sum::<f64>() / samples.len() as f64).round_ties_even() as usize
    };
    (mean(&|s| s.fixed(specials)), mean(&ProbeSample::wrap))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use aiperf_core::plan::TokenizerPlan;

    use super::*;
    use crate::error::TemplateError;

    fn samples(counts: [[usize; 3]; 3]) -> Vec<ProbeSample> {
        let sample = |(text, [bare, single, triple]): (&'static str, [usize; 3])| ProbeSample {
            text,
            bare,
            single,
            triple,
        };
        SAMPLES.into_iter().zip(counts).map(sample).collect()
    }

    /// Counts and results of AIPerf 0.13.0 with the tokenizers of these models.
    #[test]
    fn estimates_are_those_of_the_reference() {
        for (name, counts, specials, expected) in [
            ("Qwen3", [[7, 15, 39], [11, 19, 51], [11, 19, 51]], 0, (3, 5)),
            ("Llama-3.1", [[7, 17, 41], [11, 21, 53], [11, 21, 53]], 1, (4, 5)),
            ("DeepSeek-V3", [[7, 10, 27], [11, 14, 39], [11, 14, 39]], 0, (2, 2)),
        ] {
            assert_eq!(estimate(&samples(counts), specials), expected, "{name}");
        }
    }

    #[test]
    fn an_estimate_below_nothing_is_none() {
        assert_eq!(estimate(&[], 0), (0, 0));
        // A wrap of −0.5 in the last sample; a fixed part of −1.
        assert_eq!(estimate(&samples([[7, 15, 39], [11, 19, 51], [11, 19, 40]]), 0), (0, 0));
        assert_eq!(estimate(&samples([[7, 15, 39], [7, 15, 39], [7, 15, 39]]), 4), (0, 0));
    }

    #[test]
    fn a_first_turn_owns_fixed_part_wrap_and_marker() {
        let probe = probed(Some(PLAIN));
        assert_eq!((probe.fixed, probe.wrap), (1, 2));
        assert_eq!([0, 1, 11].map(|marker| probe.first_turn_adjustment(marker)), [3, 4, 14]);
    }

    #[test]
    fn a_later_turn_owns_its_wrap_alone() {
        assert_eq!(probed(Some(PLAIN)).later_turn_adjustment(), 2);
        // Without a template, or with one that cannot be rendered, nothing is taken off but a marker.
        for probe in [probed(None), probed(Some("{{ raise_exception('no') }}"))] {
            assert_eq!((probe.first_turn_adjustment(11), probe.later_turn_adjustment()), (11, 0));
        }
    }

    /// The tokenizer of the tests with another template.
    fn probed(template: Option<&str>) -> Probe {
        let vocabulary = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/byte_level/tokenizer.json");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::copy(vocabulary, folder.path().join("tokenizer.json")).expect("a file");
        if let Some(template) = template {
            std::fs::write(folder.path().join("chat_template.jinja"), template).expect("a file");
        }
        let name = folder.path().display().to_string();
        let tokenizer = crate::open(&TokenizerPlan { name }).expect("a tokenizer");
        let now = TemplateClock::civil(2025, 1, 2, 3, 4, 5).expect("a real moment");
        probe(&*tokenizer, now)
    }

    /// It begins with a token in the place of the BOS that the vocabulary puts before plain text.
    const PLAIN: &str = "<|role|>{% for m in messages %}<|role|>{{ m.content }}<|role|>{% endfor %}<|role|>";

    #[test]
    fn a_plain_template_is_found_exactly() {
        let probe = probed(Some(PLAIN));
        // Special tokens stand around each message and at the end, so the model is exact.
        assert_eq!((probe.fixed, probe.wrap), (1, 2));
        assert!(probe.samples.iter().all(|s| s.single == s.bare + 4 && s.triple == 3 * s.bare + 8));
        assert_eq!((probe.problem, probe.system, probe.consecutive), (None, None, None));
    }

    #[test]
    fn what_a_template_refuses_is_told_in_its_own_words() {
        let raised =
            |message: &str| Some(CountError::Template(TemplateError::Raised { message: message.to_owned() }));
        let no_system = "<|role|>{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}\
                         {% endif %}<|role|>{{ m.content }}{% endfor %}";
        let probe = probed(Some(no_system));
        assert_eq!((probe.fixed, probe.wrap), (0, 1));
        assert_eq!((probe.problem, probe.system), (None, raised("System role not supported")));
        assert_eq!(probe.consecutive, None);

        let alternate = "<|role|>{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}\
                         {{ raise_exception('Roles must alternate') }}{% endif %}<|role|>{{ m.content }}{% endfor %}";
        let probe = probed(Some(alternate));
        assert_eq!((probe.fixed, probe.wrap, probe.problem), (0, 1, None));
        assert_eq!(probe.consecutive, raised("Roles must alternate"));

        let never = probed(Some("{{ raise_exception('no') }}"));
        assert_eq!((never.fixed, never.wrap, never.samples.len()), (0, 0, 0));
        assert_eq!(never.problem, raised("no"));
    }

    #[test]
    fn without_a_template_there_is_nothing_to_probe() {
        let probe = probed(None);
        assert_eq!((probe.fixed, probe.wrap), (0, 0));
        assert!(matches!(probe.problem, Some(CountError::NoTemplate { .. })));
    }
}
