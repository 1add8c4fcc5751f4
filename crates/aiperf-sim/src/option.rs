//! The settings of one simulated server: from a query, a flag or a line of the table to typed values.

use std::path::PathBuf;
use std::sync::Arc;

use aiperf_core::plan::Secret;
use aiperf_core::text::nearest;

use crate::engine::EngineConfig;
use crate::error::SimError;
use crate::fault::Fault;
use crate::scores::MOST_DIMENSIONS;
use crate::table::{OPTIONS, SimOption};

/// When the head of a stream leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    Early,
    FirstToken,
}

/// How the role is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoleChunk {
    Early,
    FirstToken,
    Joined,
    Off,
}

/// Usage in streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UsageForm {
    Asked,
    None,
    Always,
    Continuous,
    Finish,
}

/// The details objects of usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UsageDetails {
    On,
    Null,
    Off,
}

const HEADS: [(&str, Head); 2] = [("early", Head::Early), ("first-token", Head::FirstToken)];
const ROLE_CHUNKS: [(&str, RoleChunk); 4] = [
    ("early", RoleChunk::Early),
    ("first-token", RoleChunk::FirstToken),
    ("joined", RoleChunk::Joined),
    ("off", RoleChunk::Off),
];
const USAGE_FORMS: [(&str, UsageForm); 5] = [
    ("asked", UsageForm::Asked),
    ("none", UsageForm::None),
    ("always", UsageForm::Always),
    ("continuous", UsageForm::Continuous),
    ("finish", UsageForm::Finish),
];
const USAGE_DETAILS: [(&str, UsageDetails); 3] =
    [("on", UsageDetails::On), ("null", UsageDetails::Null), ("off", UsageDetails::Off)];
const REASONING_FIELDS: [(&str, &str); 2] =
    [("reasoning_content", "reasoning_content"), ("reasoning", "reasoning")];
const SWITCHES: [(&str, bool); 6] =
    [("on", true), ("off", false), ("true", true), ("false", false), ("1", true), ("0", false)];

/// The settings of one simulated server. Starts with the table's defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct SimConfig {
    pub(crate) ttft_ns: u64,
    pub(crate) prefill_tps: f64,
    pub(crate) itl_ns: u64,
    pub(crate) itl_per_seq_ns: u64,
    pub(crate) jitter: f64,
    pub(crate) max_batch: u64,
    pub(crate) max_prefill: u64,
    pub(crate) osl: u64,
    pub(crate) max_osl: u64,
    pub(crate) eos: f64,
    pub(crate) count_eos: bool,
    pub(crate) tokens_per_chunk: u64,
    pub(crate) head: Head,
    pub(crate) role_chunk: RoleChunk,
    pub(crate) usage: UsageForm,
    pub(crate) usage_details: UsageDetails,
    pub(crate) done: bool,
    pub(crate) reasoning: u64,
    pub(crate) reasoning_field: &'static str,
    pub(crate) prefix_cache: bool,
    pub(crate) models: Arc<[String]>,
    pub(crate) max_model_len: u64,
    pub(crate) strict: bool,
    pub(crate) api_key: Option<Secret>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) seed: u64,
    pub(crate) truth_log: Option<PathBuf>,
    pub(crate) truth: bool,
    pub(crate) capture: Option<PathBuf>,
    pub(crate) tokenize_endpoint: bool,
    pub(crate) incomplete_event: bool,
    pub(crate) embedding_dimensions: u64,
    pub(crate) sglang_pieces: bool,
}

impl Default for SimConfig {
    fn default() -> Self {
        let mut config = Self {
            ttft_ns: 0,
            prefill_tps: 0.0,
            itl_ns: 0,
            itl_per_seq_ns: 0,
            jitter: 0.0,
            max_batch: 0,
            max_prefill: 0,
            osl: 1,
            max_osl: 0,
            eos: 0.0,
            count_eos: false,
            tokens_per_chunk: 1,
            head: Head::Early,
            role_chunk: RoleChunk::Early,
            usage: UsageForm::Asked,
            usage_details: UsageDetails::On,
            done: true,
            reasoning: 0,
            reasoning_field: "reasoning_content",
            prefix_cache: false,
            models: Arc::default(),
            max_model_len: 1,
            strict: false,
            api_key: None,
            faults: Vec::new(),
            seed: 0,
            truth_log: None,
            truth: false,
            capture: None,
            tokenize_endpoint: true,
            incomplete_event: false,
            embedding_dimensions: 1,
            sglang_pieces: false,
        };
        for option in OPTIONS {
            config.set(option.key, option.default).expect("the table's defaults are allowed (tested)");
        }
        config
    }
}

impl SimConfig {
    /// Whether a model of any name is served.
    pub fn serves_any_model(&self) -> bool {
        self.models.is_empty()
    }

    /// Settings from the query of a `sim://` address: `key=value` pairs joined by `&`, percent-encoding understood. A key
    /// without a value switches a switch on.
    pub fn from_query(query: &str) -> Result<Self, SimError> {
        let mut config = Self::default();
        for pair in query.split('&').filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, "on"));
            config.set(&percent_decode(key), &percent_decode(value))?;
        }
        Ok(config)
    }

    /// Sets one option. Underscores in the key count as dashes.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SimError> {
        let wanted = key.trim().replace('_', "-").to_ascii_lowercase();
        let Some(option) = OPTIONS.iter().find(|o| o.key == wanted) else {
            return Err(SimError::UnknownOption {
                key: key.to_owned(),
                nearest: nearest(&wanted, OPTIONS.iter().map(|o| o.key)).map(str::to_owned),
                known: OPTIONS.iter().map(|o| o.key).collect(),
            });
        };
        let v = Value { option, text: value.trim() };
        match option.key {
            "ttft" => self.ttft_ns = v.ms()?,
            "prefill-tps" => self.prefill_tps = v.float(f64::MAX)?,
            "itl" => self.itl_ns = v.ms()?,
            "itl-per-seq" => self.itl_per_seq_ns = v.ms()?,
            "jitter" => self.jitter = v.float(1.0)?,
            "max-batch" => self.max_batch = v.whole(0)?,
            "max-prefill" => self.max_prefill = v.whole(0)?,
            "osl" => self.osl = v.whole(1)?,
            "max-osl" => self.max_osl = v.whole(0)?,
            "eos" => self.eos = v.float(1.0)?,
            "count-eos" => self.count_eos = v.word(&SWITCHES)?,
            "tokens-per-chunk" => self.tokens_per_chunk = v.whole(1)?,
            "head" => self.head = v.word(&HEADS)?,
            "role-chunk" => self.role_chunk = v.word(&ROLE_CHUNKS)?,
            "usage" => self.usage = v.word(&USAGE_FORMS)?,
            "usage-details" => self.usage_details = v.word(&USAGE_DETAILS)?,
            "done" => self.done = v.word(&SWITCHES)?,
            "reasoning" => self.reasoning = v.whole(0)?,
            "reasoning-field" => self.reasoning_field = v.word(&REASONING_FIELDS)?,
            "prefix-cache" => self.prefix_cache = v.word(&SWITCHES)?,
            "models" => self.models = v.list().into(),
            "max-model-len" => self.max_model_len = v.whole(1)?,
            "strict" => self.strict = v.word(&SWITCHES)?,
            "api-key" => self.api_key = Some(v.text).filter(|t| !t.is_empty()).map(Secret::new),
            "faults" => self.faults = Fault::parse_list(v.text).map_err(|near| v.bad(near))?,
            "seed" => self.seed = v.whole(0)?,
            "truth-log" => self.truth_log = Some(v.text).filter(|t| !t.is_empty()).map(PathBuf::from),
            "truth" => self.truth = v.word(&SWITCHES)?,
            "capture" => self.capture = Some(v.text).filter(|t| !t.is_empty()).map(PathBuf::from),
            "incomplete-event" => self.incomplete_event = v.word(&SWITCHES)?,
            "embedding-dimensions" => {
                self.embedding_dimensions =
                    Some(v.whole(1)?).filter(|n| *n <= MOST_DIMENSIONS).ok_or_else(|| v.bad(None))?;
            }
            "sglang-pieces" => self.sglang_pieces = v.word(&SWITCHES)?,
            "tokenize-endpoint" => self.tokenize_endpoint = v.word(&SWITCHES)?,
            other => unreachable!("{other} is in the table and not set (tested)"),
        }
        Ok(())
    }

    /// Whether a record of each request is wanted at all.
    pub(crate) fn keeps_truth(&self) -> bool {
        self.truth || self.truth_log.is_some()
    }

    /// The engine's part of the settings.
    pub(crate) fn engine(&self) -> EngineConfig {
        let no_limit = |n: u64| if n == 0 { usize::MAX } else { usize::try_from(n).unwrap_or(usize::MAX) };
        EngineConfig {
            prefill_ns: self.ttft_ns,
            prefill_ns_per_token: if self.prefill_tps > 0.0 { 1e9 / self.prefill_tps } else { 0.0 },
            step_ns: self.itl_ns,
            step_ns_per_peer: self.itl_per_seq_ns as f64,
            jitter: self.jitter,
            max_batch: no_limit(self.max_batch),
            max_prefills: no_limit(self.max_prefill),
            tokens_per_chunk: self.tokens_per_chunk,
            prefix_cache: self.prefix_cache,
            seed: self.seed,
        }
    }
}

/// A value on its way into an option.
struct Value<'a> {
    option: &'static SimOption,
    text: &'a str,
}

impl Value<'_> {
    fn bad(&self, nearest: Option<String>) -> SimError {
        // No value of `api-key` is wrong, so no secret is ever shown here.
        SimError::BadValue {
            key: self.option.key,
            value: self.text.to_owned(),
            allowed: self.option.range,
            nearest,
        }
    }

    fn ms(&self) -> Result<u64, SimError> {
        parse_ms(self.text).ok_or_else(|| self.bad(None))
    }

    fn float(&self, most: f64) -> Result<f64, SimError> {
        self.text.parse().ok().filter(|v: &f64| *v >= 0.0 && *v <= most).ok_or_else(|| self.bad(None))
    }

    fn whole(&self, least: u64) -> Result<u64, SimError> {
        self.text.parse().ok().filter(|v| *v >= least).ok_or_else(|| self.bad(None))
    }

    fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, SimError> {
        let wanted = self.text.to_ascii_lowercase();
        match words.iter().find(|(w, _)| *w == wanted) {
            Some((_, value)) => Ok(*value),
            None => Err(self.bad(nearest(&wanted, words.iter().map(|(w, _)| *w)).map(str::to_owned))),
        }
    }

    fn list(&self) -> Vec<String> {
        self.text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned).collect()
    }
}

/// Milliseconds with decimals, 0 to an hour, as nanoseconds.
pub(crate) fn parse_ms(text: &str) -> Option<u64> {
    let ms: f64 = text.trim().parse().ok()?;
    (0.0..=3_600_000.0).contains(&ms).then(|| (ms * 1e6).round() as u64)
}

/// `%XX` to bytes; a percent sign that begins no pair of hex digits stays. A plus stays a plus: fault lists use it.
fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let pair = bytes.get(i + 1..i + 3).and_then(|p| std::str::from_utf8(p).ok());
        match pair.filter(|p| p.bytes().all(|b| b.is_ascii_hexdigit())) {
            Some(pair) if bytes[i] == b'%' => {
                out.push(u8::from_str_radix(pair, 16).expect("two hex digits are a byte"));
                i += 3;
            }
            _ => {
                out.push(bytes[i]);
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_the_table_can_be_set_to_its_default() {
        let config = SimConfig::default();
        for option in OPTIONS {
            let mut again = config.clone();
            again.set(option.key, option.default).expect("a default is allowed");
            assert_eq!(again, config, "{}", option.key);
            assert!(!option.doc.is_empty() && !option.range.is_empty());
        }
        let keys: std::collections::HashSet<_> = OPTIONS.iter().map(|o| o.key).collect();
        assert_eq!(keys.len(), OPTIONS.len(), "keys are unique");
    }

    #[test]
    fn a_query_sets_what_it_names() {
        let config =
            SimConfig::from_query("ttft=20.5&itl_per_seq=0.01&prefix-cache&models=a,%20b&faults=429:at=1+3")
                .expect("a good query");
        assert_eq!(config.ttft_ns, 20_500_000);
        assert_eq!(config.itl_per_seq_ns, 10_000);
        assert!(config.prefix_cache);
        assert_eq!(*config.models, ["a", "b"]);
        assert_eq!(config.faults.len(), 1);
        assert_eq!(SimConfig::from_query("").expect("nothing asked"), SimConfig::default());
    }

    #[test]
    fn errors_name_key_value_range_and_nearest() {
        let message = |query: &str| SimConfig::from_query(query).expect_err("a bad query").to_string();
        let text = message("tfft=3");
        assert!(text.contains("'tfft'") && text.contains("'ttft'") && text.contains("max-batch"), "{text}");
        let text = message("usage=alwys");
        assert!(text.contains("'usage'") && text.contains("'alwys'") && text.contains("'always'"), "{text}");
        assert!(text.contains("asked, none, always"), "{text}");
        for bad in [
            "ttft=-1",
            "ttft=x",
            "ttft=nan",
            "ttft=1e99",
            "itl",
            "osl=0",
            "jitter=1.5",
            "max-batch=-1",
            "seed=1.5",
        ] {
            assert!(message(bad).contains("allowed:"), "{bad}");
        }
        let text = message("faults=reste:every=3");
        assert!(text.contains("'reset'"), "{text}");
        for bad in
            ["faults=200", "faults=cut:rate=2", "faults=cut:every=0", "faults=cut:after", "faults=cut:aftr=1"]
        {
            assert!(message(bad).contains("'faults'"), "{bad}");
        }
    }

    #[test]
    fn percent_signs_that_encode_nothing_stay() {
        assert_eq!(percent_decode("a%2Cb%zz%"), "a,b%zz%");
        assert_eq!(percent_decode("%é"), "%é");
    }

    #[test]
    fn a_key_is_not_shown() {
        let config = SimConfig::from_query("api-key=s3cret").expect("any text is a key");
        assert!(!format!("{config:?}").contains("s3cret"));
    }

    proptest::proptest! {
        #[test]
        fn no_query_is_too_strange(query in ".{0,60}", key in 0..OPTIONS.len(), value in ".{0,30}") {
            for text in [query, format!("{}={value}", OPTIONS[key].key)] {
                if let Err(error) = SimConfig::from_query(&text) {
                    proptest::prop_assert!(!error.to_string().is_empty());
                }
            }
        }

        #[test]
        fn a_fault_that_is_read_hits_the_same_requests_again(
            kind in 0usize..4,
            rate in 0.0f64..1.0,
            seed in proptest::prelude::any::<u64>(),
        ) {
            let kind = ["500", "cut", "stall", "bytes"][kind];
            let faults = Fault::parse_list(&format!("{kind}:rate={rate}")).expect("well-formed");
            let hits = || (0..200).filter(|i| {
                let chosen = crate::fault::choose(&faults, seed, *i);
                chosen.main.is_some() || chosen.delivery.is_some()
            }).collect::<Vec<u64>>();
            proptest::prop_assert_eq!(hits(), hits());
        }
    }
}
