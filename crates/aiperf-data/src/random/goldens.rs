//! Prompts of AIPerf 0.13 in both styles (`testdata/random.txt`) against ours.
//!
//! A line is a case: tokenizer, style, seed, ISL, OSL, ratio of each, prefix length, number of prefixes, entries, and then drawn
//! input lengths, output lengths, offsets, and the start of each text's SHA-256.

use aiperf_core::plan::{
    CorpusPlan, LengthPlan, LengthsPlan, PrefixPlan, RandomStyle, SyntheticPlan, TokenizerPlan, WindowPlan,
};
use sha2::{Digest, Sha256};

use super::Pools;
use super::parity::Parity;

struct Case {
    line: &'static str,
    pools: Pools,
    parity: Parity,
    entries: u64,
    inputs: Vec<u64>,
    outputs: Vec<u64>,
    texts: Vec<&'static str>,
}

fn style(word: &str) -> RandomStyle {
    [RandomStyle::Vllm, RandomStyle::Sglang, RandomStyle::SglangStrict]
        .into_iter()
        .find(|s| s.name() == word)
        .expect("a style")
}

fn number<T: std::str::FromStr>(word: &str) -> T {
    word.parse().ok().expect("a number")
}

fn numbers(word: &str) -> Vec<u64> {
    word.split(',').map(number).collect()
}

fn case(line: &'static str) -> Case {
    let w: Vec<&str> = line.split(' ').collect();
    let window =
        WindowPlan { isl: number(w[3]), osl: number(w[4]), isl_ratio: number(w[5]), osl_ratio: number(w[6]) };
    let prefixes = PrefixPlan { pool: number(w[8]), tokens: number(w[7]) };
    let set = SyntheticPlan {
        prefixes: (prefixes.pool > 0).then_some(prefixes),
        lengths: LengthsPlan::Window(window),
        corpus: CorpusPlan::Random,
        style: style(w[1]),
        ..SyntheticPlan::sonnet(number(w[9]), LengthPlan::normal(1.0, 0.0), None)
    };
    let tokenizer = aiperf_tokens::open(&TokenizerPlan { name: w[0].to_owned() }).expect("a tokenizer");
    let pools = Pools::new(set.style, tokenizer).expect("a vocabulary");
    let parity = Parity::new(&set, &window, number(w[2]), &pools).expect("a good plan");
    Case {
        line,
        pools,
        parity,
        entries: set.entries as u64,
        inputs: numbers(w[10]),
        outputs: numbers(w[11]),
        texts: w[13].split(',').collect(),
    }
}

impl Case {
    fn digest(&self, text: u64) -> String {
        let text = self.parity.text(&self.pools, text).0;
        let hex: Vec<String> = Sha256::digest(text).iter().take(12).map(|b| format!("{b:02x}")).collect();
        hex.concat()
    }

    fn digests(&self, order: impl Iterator<Item = u64>) -> Vec<String> {
        order.map(|text| self.digest(text)).collect()
    }
}

fn cases() -> impl Iterator<Item = Case> {
    include_str!("../../testdata/random.txt").lines().map(case)
}

#[test]
fn prompts_and_lengths_are_the_tools_own() {
    let mut texts = 0;
    for case in cases() {
        let drawn = |of: &dyn Fn(u64) -> Option<u64>| (0..case.entries).filter_map(of).collect::<Vec<_>>();
        assert_eq!(drawn(&|i| case.parity.input(i)), case.inputs, "{}", case.line);
        assert_eq!(drawn(&|i| case.parity.output(i)), case.outputs, "{}", case.line);
        assert_eq!(case.digests(0..case.entries), case.texts, "{}", case.line);
        texts += case.texts.len();
    }
    assert!(texts > 20, "{texts}");
}

/// Top-ups are drawn in one order, whatever is asked first.
#[test]
fn any_order_gives_the_same_prompts() {
    for case in cases() {
        let mut backwards = case.digests((0..case.entries).rev());
        backwards.reverse();
        assert_eq!(backwards, case.texts, "{}", case.line);
    }
}

#[test]
fn a_seed_that_is_folded_is_told() {
    let note = |style: &str, seed: &str| {
        let line = format!("builtin {style} {seed} 8 8 0.5 0.5 0 0 1 8 8 0 x");
        case(String::leak(line)).parity.note()
    };
    assert_eq!(note("vllm", "4294967296"), None);
    assert_eq!(note("sglang", "42"), None);
    assert_eq!(
        note("sglang_strict", "4294967301").as_deref(),
        Some(
            "seed 4294967301 is folded to 4, for SGLang's generator takes 32 bits; pass --random-seed 4 to name it"
        )
    );
}
