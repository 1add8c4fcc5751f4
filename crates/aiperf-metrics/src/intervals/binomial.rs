//! Which order statistics hold a percentile: the count of values below it is binomial.
//!
//! Conover, "Practical Nonparametric Statistics", 3rd ed., section 3.2: for independent values, the l-th smallest lies above the
//! quantile with probability P(B ≤ l − 1) and the u-th below it with P(B ≥ u), B binomial with n trials of probability q.

/// Terms below this share of the largest one are left out of sums: a ten-thousandth of the last digit of any probability asked for.
const NEGLIGIBLE: f64 = 1e-20;

/// The 0-based ranks among `n` sorted values between which quantile `q` (0 to 1) lies with probability `1 − 2·tail` at least, with no
/// more than `tail` on either side; `None` where `n` values are too few for that.
pub(super) fn ranks(n: usize, q: f64, tail: f64) -> Option<(usize, usize)> {
    let (first, terms) = terms(n, q);
    let total: f64 = terms.iter().sum();
    // From either end of the terms that count: how many values may stand outside.
    let allowed = |terms: &mut dyn Iterator<Item = &f64>| {
        let mut sum = 0.0;
        terms
            .take_while(|term| {
                sum += **term;
                sum <= tail * total
            })
            .count()
    };
    // P(B ≤ l − 1) ≤ tail: l counts all results from 0 on, those too rare to have a term included.
    let low = first + allowed(&mut terms.iter());
    let last = first + terms.len() - 1;
    // P(B ≥ u) ≤ tail.
    let high = last + 1 - allowed(&mut terms.iter().rev());
    (low > 0 && high <= n).then(|| (low - 1, high - 1))
}

/// Probabilities of the results around the most likely one, up to a common factor, and the first result among them.
fn terms(n: usize, q: f64) -> (usize, Vec<f64>) {
    let mode = (((n + 1) as f64 * q).floor() as usize).min(n);
    let odds = q / (1.0 - q);
    let mut below = Vec::new();
    let (mut at, mut term) = (mode, 1.0);
    while at > 0 && term > NEGLIGIBLE {
        // P(k − 1) = P(k) · k ÷ (n − k + 1) ÷ odds.
        term *= at as f64 / ((n - at + 1) as f64 * odds);
        at -= 1;
        below.push(term);
    }
    let first = at;
    let mut all: Vec<f64> = below.into_iter().rev().chain([1.0]).collect();
    (at, term) = (mode, 1.0);
    while at < n && term > NEGLIGIBLE {
        term *= (n - at) as f64 * odds / (at + 1) as f64;
        at += 1;
        all.push(term);
    }
    (first, all)
}

/// How many values there must be for quantile `q` to lie between two of them with no more than `tail` outside on either side.
pub(super) fn least_count(q: f64, tail: f64) -> u64 {
    // All values lie below the quantile with probability qⁿ, all above with (1 − q)ⁿ.
    (tail.ln() / q.max(1.0 - q).ln()).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TAIL: f64 = 0.025;

    /// P(B ≤ k) from the definition, with factorials as products.
    fn slow_cdf(n: usize, q: f64, k: usize) -> f64 {
        (0..=k)
            .map(|i| {
                let ways: f64 = (0..i).map(|j| (n - j) as f64 / (i - j) as f64).product();
                ways * q.powi(i as i32) * (1.0 - q).powi((n - i) as i32)
            })
            .sum()
    }

    #[test]
    fn a_worked_example() {
        // The median of ten: P(B ≤ 1) = 11 ÷ 1024 = 0.0107, P(B ≤ 2) = 56 ÷ 1024 = 0.0547. So from the 2nd to the 9th.
        assert_eq!(ranks(10, 0.5, TAIL), Some((1, 8)));
        // Of five: P(B = 0) = 1 ÷ 32 = 0.031 is too much already; of six 1 ÷ 64 = 0.016 is not.
        assert_eq!(ranks(5, 0.5, TAIL), None);
        assert_eq!(ranks(6, 0.5, TAIL), Some((0, 5)));
    }

    #[test]
    fn as_many_values_are_needed_as_the_books_say() {
        for (q, n) in [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3688)] {
            assert_eq!(least_count(q, TAIL), n, "{q}");
            let n = n as usize;
            assert!(ranks(n, q, TAIL).is_some() && ranks(n - 1, q, TAIL).is_none(), "{q}");
            assert!(ranks(n, 1.0 - q, TAIL).is_some() && ranks(n - 1, 1.0 - q, TAIL).is_none(), "{q}");
        }
    }

    #[test]
    fn many_values_are_no_matter() {
        let (low, high) = ranks(100_000_000, 0.99, TAIL).expect("enough");
        // The normal law: 1.96 · √(n·q·(1 − q)) = 1950 around n·q.
        assert!(
            (99_000_000 - low).abs_diff(1950) < 5 && (high - 99_000_000).abs_diff(1950) < 5,
            "{low} {high}"
        );
        assert_eq!(ranks(0, 0.5, TAIL), None);
    }

    proptest! {
        #[test]
        fn no_narrower_ranks_would_do(n in 1usize..120, q in 0.01f64..0.99) {
            let low = (1..=n).rev().find(|l| slow_cdf(n, q, l - 1) <= TAIL);
            let high = (1..=n).find(|u| 1.0 - slow_cdf(n, q, u - 1) <= TAIL);
            // At the very edge the two sums may differ in their last digits.
            let near = (0..n).any(|k| {
                let p = slow_cdf(n, q, k);
                (p - TAIL).abs() < 1e-9 || (1.0 - p - TAIL).abs() < 1e-9
            });
            prop_assume!(!near);
            prop_assert_eq!(ranks(n, q, TAIL), low.zip(high).map(|(l, u)| (l - 1, u - 1)));
        }
    }
}
