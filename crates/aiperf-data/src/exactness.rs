//! Exact lengths, end to end: the plan's ISL against the tokenizer's count, over vocabularies of every kind.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use aiperf_core::plan::{CorpusPlan, DatasetPlan, EndpointKind, LengthPlan, SyntheticPlan, TokenizerPlan};
use aiperf_rng::Key;
use aiperf_tokens::Tokenizer;
use proptest::prelude::*;

use crate::corpus::SONNET;
use crate::cut::{Cutter, Start};
use crate::slot::Slot;
use crate::toys::{context, plan};
use crate::workload::{Visit, Workload};

/// Made by `testdata/train.py`, which says what each stands for.
const TRAINED: [&str; 6] = ["byte_level", "with_bos", "prepend", "over_spaces", "unigram", "word_piece"];

/// The trained vocabularies, then the built-in one.
pub(crate) static TOKENIZERS: LazyLock<Vec<Arc<dyn Tokenizer>>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let files = TRAINED.iter().map(|name| folder.join(format!("{name}.json")).display().to_string());
    files
        .chain(["builtin".to_owned()])
        .map(|name| aiperf_tokens::open(&TokenizerPlan { name }).expect("a vocabulary of the tests"))
        .collect()
});

fn workload(tokenizer: usize, kind: EndpointKind, seed: u64, isl: LengthPlan) -> Arc<dyn Workload> {
    of_corpus(CorpusPlan::Sonnet, 1, tokenizer, kind, seed, isl)
}

fn of_corpus(
    corpus: CorpusPlan,
    batch: usize,
    tokenizer: usize,
    kind: EndpointKind,
    seed: u64,
    isl: LengthPlan,
) -> Arc<dyn Workload> {
    let set = SyntheticPlan { corpus, batch, ..SyntheticPlan::sonnet(10_000, isl, None) };
    let mut plan = plan(DatasetPlan::Synthetic(set), kind);
    plan.seed = seed;
    crate::open(&plan, Some(Arc::clone(&TOKENIZERS[tokenizer])), context()).expect("a good plan")
}

/// Tokens that a server with this tokenizer counts for a bare prompt, and tokens asked for.
fn counted_and_asked(
    workload: &dyn Workload,
    tokenizer: usize,
    kind: EndpointKind,
    entry: usize,
) -> (u64, u64) {
    let conversation = workload.conversation(entry, Visit::default()).expect("a length that can be had");
    let turn = &conversation.turns[0];
    let tokenizer = &TOKENIZERS[tokenizer];
    let specials = if kind == EndpointKind::Completions { tokenizer.prompt_specials() } else { 0 };
    let counted: usize = turn.texts.iter().map(|text| tokenizer.count(text) + specials).sum();
    (counted as u64, turn.length.expect("made to a length").asked)
}

#[test]
fn short_and_long_lengths_are_exact_with_every_tokenizer() {
    for tokenizer in TOKENIZERS.iter() {
        let cutter = Cutter::new(Arc::clone(&SONNET), Arc::clone(tokenizer));
        let words = Key::new(7).purpose("test.exactness");
        for tokens in (1..=60).chain([8_192, 20_001, 40_000]) {
            for draw in 0..(20_000 / tokens).clamp(1, 12) {
                let word = words.lane(tokens as u64).at(draw as u64).position(SONNET.pieces());
                let text = cutter
                    .cut(Start { first: SONNET.nth(word), skip: 0 }, Slot::bare(tokens))
                    .expect("a length that can be had");
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
        let workload = workload(with_bos, EndpointKind::Completions, 9, LengthPlan::normal(isl.into(), 0.0));
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
        let workload = workload(tokenizer, EndpointKind::Chat, 10, LengthPlan::normal(32.0, 0.0));
        let texts: HashSet<String> = (0..120)
            .map(|i| workload.conversation(i, Visit::default()).expect("exists").turns[0].texts[0].clone())
            .collect();
        assert_eq!(texts.len(), 120, "{:?}", TOKENIZERS[tokenizer]);
    }
}

#[test]
fn prompts_are_words_without_stray_spaces() {
    let workload = workload(TRAINED.len(), EndpointKind::Chat, 11, LengthPlan::normal(50.0, 20.0));
    for i in 0..300 {
        let text = &workload.conversation(i, Visit::default()).expect("exists").turns[0].texts[0];
        assert!(
            text.split(' ').all(|w| !w.is_empty() && w.bytes().all(|b| b.is_ascii_alphanumeric())),
            "{text}"
        );
    }
}

#[test]
fn code_begins_and_ends_with_letters_and_keeps_its_lines() {
    let workload = of_corpus(
        CorpusPlan::Coding,
        1,
        TRAINED.len(),
        EndpointKind::Chat,
        3,
        LengthPlan::normal(600.0, 0.0),
    );
    for i in 0..100 {
        let text = &workload.conversation(i, Visit::default()).expect("exists").turns[0].texts[0];
        assert_eq!(text.trim(), text, "a template may drop white space around a message");
        assert!(text.lines().count() > 5, "{text}");
    }
}

#[test]
fn every_text_of_a_batch_has_its_length() {
    for corpus in [CorpusPlan::Sonnet, CorpusPlan::Coding, CorpusPlan::Random] {
        let spread = LengthPlan::normal(50.0, 10.0);
        let workload = of_corpus(corpus, 3, 1, EndpointKind::Completions, 3, spread);
        let mut lengths = HashSet::new();
        for entry in 0..20 {
            let (counted, asked) = counted_and_asked(workload.as_ref(), 1, EndpointKind::Completions, entry);
            assert_eq!(counted, asked);
            let turn = &workload.conversation(entry, Visit::default()).expect("exists").turns[0];
            assert_eq!(turn.texts.len(), 3);
            lengths.extend(turn.texts.iter().map(|text| TOKENIZERS[1].count(text)));
        }
        assert!(lengths.len() > 20, "each text draws its own: {}", lengths.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn lengths_of_every_corpus_are_exact(
        corpus in 0..2usize,
        tokenizer in 0..TRAINED.len() + 1,
        seed in 0..4u64,
        entry in 0..10_000usize,
        mean in 1.0..1500.0f64,
    ) {
        let corpus = [CorpusPlan::Coding, CorpusPlan::Random][corpus];
        let isl = LengthPlan::normal(mean, 0.0);
        let workload = of_corpus(corpus, 1, tokenizer, EndpointKind::Chat, seed, isl);
        let (counted, asked) = counted_and_asked(workload.as_ref(), tokenizer, EndpointKind::Chat, entry);
        prop_assert_eq!(counted, asked);
    }

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
        let workload = workload(tokenizer, kind, seed, LengthPlan::normal(mean, mean * spread));
        let (counted, asked) = counted_and_asked(workload.as_ref(), tokenizer, kind, entry);
        let least = if completions { TOKENIZERS[tokenizer].prompt_specials() as u64 + 1 } else { 1 };
        prop_assert_eq!(counted, asked.max(least));
    }
}
