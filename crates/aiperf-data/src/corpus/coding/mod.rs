//! The `coding` corpus: what a coding assistant reads and writes.
//!
//! Block `i` is a function of (seed, `i`): some documents, each of a domain drawn by weight ([`DOMAINS`]) and written by the rules
//! of a [`Grammar`]. All rules are this project's own text, in `corpus/coding`. Nothing is made before a prompt needs it.
//!
//! Documents have about the same size whatever their domain, so weights are shares of the text; a test measures the shares of
//! its tokens.

mod grammar;
mod pen;

use std::sync::LazyLock;

use aiperf_rng::Draws;

use self::grammar::Grammar;
use self::pen::Pen;

/// Blocks of the corpus: with [`BLOCK_BYTES`] some four million tokens.
pub(super) const BLOCKS: usize = 1024;
/// A block gets documents until it has this many bytes.
const BLOCK_BYTES: usize = 14_000;
/// A document gets units until it has so many bytes, drawn evenly.
const DOCUMENT_BYTES: (u64, u64) = (500, 2200);
/// Between two documents; it ends a block too, so that blocks join as documents do.
const GAP: &str = "\n\n";

/// A kind of document.
struct Domain {
    /// How often it is written, beside the others.
    weight: u32,
    /// Rule of how it begins; empty for none.
    head: &'static str,
    /// Rule of what it goes on with.
    unit: &'static str,
    /// Between two units.
    gap: &'static str,
}

const fn domain(weight: u32, head: &'static str, unit: &'static str, gap: &'static str) -> Domain {
    Domain { weight, head, unit, gap }
}

/// What the corpus is made of. AIPerf documents 28 of code, 11 of machine learning, 20 of shell and training logs, 11 of
/// JSON, 9 of errors, 3 of SQL, 10 of other things and 8 of prompts in a hundred. Weights are of bytes; logs and JSON have more
/// tokens to the byte than prose, so they weigh less than their share.
const DOMAINS: [Domain; 21] = [
    domain(76, "python.head", "python.unit", "\n\n\n"),
    domain(55, "go.head", "go.unit", "\n\n"),
    domain(55, "rust.head", "rust.unit", "\n\n"),
    domain(55, "ts.head", "ts.unit", "\n\n"),
    domain(65, "", "talk.turn", "\n\n"),
    domain(52, "ml.head", "ml.training", "\n\n\n"),
    domain(42, "ml.serving.head", "ml.inference", "\n\n\n"),
    domain(21, "ml.config.head", "ml.config", "\n"),
    domain(106, "", "shell.session", "\n"),
    domain(57, "train.head", "train.line", "\n"),
    domain(96, "", "json.document", "\n\n"),
    domain(63, "", "error.trace", "\n\n"),
    domain(31, "", "error.cuda", "\n"),
    domain(35, "", "sql.unit", "\n\n"),
    domain(22, "", "diff.file", "\n"),
    domain(21, "ci.head", "ci.line", "\n"),
    domain(21, "", "config.file", "\n\n"),
    domain(21, "markdown.head", "markdown.section", "\n\n"),
    domain(21, "test.head", "test.line", "\n"),
    domain(65, "", "prompt.user", "\n\n"),
    domain(38, "", "prompt.tool", "\n\n"),
];

static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| {
    Grammar::read(&[
        include_str!("../../../corpus/coding/words.txt"),
        include_str!("../../../corpus/coding/python.txt"),
        include_str!("../../../corpus/coding/go.txt"),
        include_str!("../../../corpus/coding/rust.txt"),
        include_str!("../../../corpus/coding/typescript.txt"),
        include_str!("../../../corpus/coding/ml.txt"),
        include_str!("../../../corpus/coding/shell.txt"),
        include_str!("../../../corpus/coding/json.txt"),
        include_str!("../../../corpus/coding/errors.txt"),
        include_str!("../../../corpus/coding/sql.txt"),
        include_str!("../../../corpus/coding/project.txt"),
        include_str!("../../../corpus/coding/talk.txt"),
    ])
});

/// One block.
pub(super) fn block(draws: &mut Draws) -> String {
    let mut out = String::with_capacity(BLOCK_BYTES + 4096);
    while out.len() < BLOCK_BYTES {
        document(domain_of(draws), draws, &mut out);
        // Some vocabularies join slashes to the line ends before them, and what is before a block is another block.
        if out.starts_with('/') {
            out.clear();
        }
    }
    out
}

/// A domain, by weight.
fn domain_of(draws: &mut Draws) -> &'static Domain {
    let total: u32 = DOMAINS.iter().map(|d| d.weight).sum();
    let mut draw = draws.below(u64::from(total)) as u32;
    let found = DOMAINS.iter().find(|domain| match draw.checked_sub(domain.weight) {
        Some(left) => {
            draw = left;
            false
        }
        None => true,
    });
    found.unwrap_or(&DOMAINS[0])
}

fn document(domain: &Domain, draws: &mut Draws, out: &mut String) {
    let bytes = DOCUMENT_BYTES.0 + draws.below(DOCUMENT_BYTES.1 - DOCUMENT_BYTES.0);
    let until = out.len() + bytes as usize;
    let mut pen = Pen::new(&GRAMMAR, draws, out);
    if !domain.head.is_empty() {
        pen.write(domain.head);
        pen.push(domain.gap);
    }
    pen.write(domain.unit);
    while pen.len() < until {
        pen.push(domain.gap);
        pen.write(domain.unit);
    }
    out.push_str(GAP);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use aiperf_core::plan::TokenizerPlan;
    use aiperf_rng::Key;

    use super::*;

    fn draws(index: u64) -> Draws {
        Key::new(5).purpose("test.coding").at(index)
    }

    #[test]
    fn every_name_in_the_rules_means_something() {
        assert_eq!(GRAMMAR.unknown(), Vec::<String>::new());
        for domain in &DOMAINS {
            assert!(domain.head.is_empty() || GRAMMAR.has(domain.head), "{}", domain.head);
            assert!(GRAMMAR.has(domain.unit), "{}", domain.unit);
        }
        let roots = DOMAINS.iter().flat_map(|d| [d.head, d.unit]);
        assert_eq!(GRAMMAR.unused(roots), Vec::<String>::new());
    }

    /// White space at a line's end, or a line of nothing else, would be counted differently from vocabulary to vocabulary.
    #[test]
    fn blocks_are_clean_lines() {
        for i in 0..200 {
            let block = block(&mut draws(i));
            assert!(block.ends_with("\n\n") && !block.ends_with("\n\n\n"));
            for line in block.lines() {
                assert_eq!(line, line.trim_end(), "block {i}");
                assert!(!line.contains(['«', '»', '\r']), "block {i}: {line}");
            }
            assert!(!block.contains("<|"), "a special token's text");
        }
    }

    /// Shares of the tokens, as the built-in tokenizer counts.
    #[test]
    fn domains_have_their_share_of_tokens() {
        let tokenizer = aiperf_tokens::open(&TokenizerPlan { name: "builtin".into() }).expect("is built in");
        let mut tokens = [0usize; DOMAINS.len()];
        let mut draw = draws(0);
        for _ in 0..400 {
            for (domain, sum) in DOMAINS.iter().zip(&mut tokens) {
                let mut text = String::new();
                document(domain, &mut draw, &mut text);
                // As often as the weight says.
                *sum += tokenizer.count(&text) * domain.weight as usize;
            }
        }
        let total: usize = tokens.iter().sum();
        let share =
            |range: std::ops::Range<usize>| tokens[range].iter().sum::<usize>() as f64 * 100.0 / total as f64;
        for (name, range, want) in [
            ("code and conversations", 0..5, 28.0),
            ("machine learning", 5..8, 11.0),
            ("shell and training logs", 8..10, 20.0),
            ("JSON", 10..11, 11.0),
            ("errors", 11..13, 9.0),
            ("SQL", 13..14, 3.0),
            ("other", 14..19, 10.0),
            ("prompts", 19..21, 8.0),
        ] {
            let found = share(range);
            assert!(
                (found - want).abs() < 0.1 * want,
                "{name}: {found:.1} % of tokens, {want} % are documented"
            );
        }
    }

    /// Long prompts from different places must not look alike to a cache or a drafting model.
    #[test]
    fn lines_seldom_repeat() {
        let text: String = (0..64).map(|i| block(&mut draws(i))).collect();
        let long: Vec<&str> = text.lines().filter(|l| l.len() > 40).collect();
        let distinct: HashSet<&str> = long.iter().copied().collect();
        let share = distinct.len() as f64 / long.len() as f64;
        assert!(share > 0.85, "{share}");
    }
}
