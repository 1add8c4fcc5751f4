//! Exact lengths, end to end: the plan's ISL against the tokenizer's count, over vocabularies of every kind.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use aiperf_core::plan::{DatasetPlan, EndpointKind, LengthPlan, SyntheticPlan, TokenizerPlan};
use aiperf_rng::Key;
use aiperf_tokens::Tokenizer;
use proptest::prelude::*;

use crate::corpus::SONNET;
use crate::cut::{Cutter, Start};
use crate::toys::plan;
use crate::workload::Workload;

/// Made by `testdata/train.py`, which says what each stands for.
const TRAINED: [&str; 6] = ["byte_level", "with_bos", "prepend", "over_spaces", "unigram", "word_piece"];

/// The trained vocabularies, then the built-in one.
static TOKENIZERS: LazyLock<Vec<Arc<dyn Tokenizer>>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let files = TRAINED.iter().map(|name| folder.join(format!("{name}.json")).display().to_string());
    files
        .chain(["builtin".to_owned()])
        .map(|name| aiperf_tokens::open(&TokenizerPlan { name }).expect("a vocabulary of the tests"))
        .collect()
});

fn workload(tokenizer: usize, kind: EndpointKind, seed: u64, isl: LengthPlan) -> Arc<dyn Workload> {
    let set = SyntheticPlan { entries: 10_000, isl, osl: None };
    let mut plan = plan(DatasetPlan::Synthetic(set), kind);
    plan.seed = seed;
    crate::open(&plan, Some(Arc::clone(&TOKENIZERS[tokenizer]))).expect("a good plan")
}

/// Tokens that a server with this tokenizer counts for a bare prompt, and tokens asked for.
fn counted_and_asked(
    workload: &dyn Workload,
    tokenizer: usize,
    kind: EndpointKind,
    entry: usize,
) -> (u64, u64) {
    let conversation = workload.conversation(entry).expect("a length that can be had");
    let turn = &conversation.turns[0];
    let tokenizer = &TOKENIZERS[tokenizer];
    let specials = if kind == EndpointKind::Completions { tokenizer.prompt_specials() } else { 0 };
    ((tokenizer.count(&turn.texts[0]) + specials) as u64, turn.asked_isl.expect("made to a length"))
}

#[test]
fn short_and_long_lengths_are_exact_with_every_tokenizer() {
    for tokenizer in TOKENIZERS.iter() {
        let cutter = Cutter::new(&SONNET, Arc::clone(tokenizer));
        let words = Key::new(7).purpose("test.exactness");
        for tokens in (1..=60).chain([8_192, 20_001, 40_000]) {
            for draw in 0..(20_000 / tokens).clamp(1, 12) {
                let word = words.lane(tokens as u64).at(draw as u64).position(SONNET.words());
                let text = cutter.cut(Start { word, skip: 0 }, tokens).expect("a length that can be had");
                assert_eq!(tokenizer.count(&text), tokens, "{tokenizer:?} word {word}");
            }
        }
    }
}

#[test]
fn a_bos_is_inside_the_length_of_completions() {
    let with_bos = 1;
    assert_eq!(TOKENIZERS[with_bos].prompt_specials(), 1);
    for isl in [2u32, 17, 512] {
        let workload =
            workload(with_bos, EndpointKind::Completions, 9, LengthPlan { mean: isl.into(), stddev: 0.0 });
        for entry in 0..20 {
            let (counted, _) =
                counted_and_asked(workload.as_ref(), with_bos, EndpointKind::Completions, entry);
            assert_eq!(counted, u64::from(isl));
        }
    }
}

#[test]
fn prompts_are_distinct_with_every_tokenizer() {
    for tokenizer in 0..TOKENIZERS.len() {
        let workload = workload(tokenizer, EndpointKind::Chat, 10, LengthPlan { mean: 32.0, stddev: 0.0 });
        let texts: HashSet<String> =
            (0..120).map(|i| workload.conversation(i).expect("exists").turns[0].texts[0].clone()).collect();
        assert_eq!(texts.len(), 120, "{:?}", TOKENIZERS[tokenizer]);
    }
}

#[test]
fn prompts_are_words_without_stray_spaces() {
    let workload = workload(TRAINED.len(), EndpointKind::Chat, 11, LengthPlan { mean: 50.0, stddev: 20.0 });
    for i in 0..300 {
        let text = &workload.conversation(i).expect("exists").turns[0].texts[0];
        assert!(
            text.split(' ').all(|w| !w.is_empty() && w.bytes().all(|b| b.is_ascii_alphanumeric())),
            "{text}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn lengths_are_exact(
        tokenizer in 0..TRAINED.len() + 1,
        seed: u64,
        entry in 0..10_000usize,
        mean in 1.0..3000.0f64,
        spread in 0.0..1.0f64,
        completions: bool,
    ) {
        let kind = if completions { EndpointKind::Completions } else { EndpointKind::Chat };
        let workload = workload(tokenizer, kind, seed, LengthPlan { mean, stddev: mean * spread });
        let (counted, asked) = counted_and_asked(workload.as_ref(), tokenizer, kind, entry);
        let least = if completions { TOKENIZERS[tokenizer].prompt_specials() as u64 + 1 } else { 1 };
        prop_assert_eq!(counted, asked.max(least));
    }
}
