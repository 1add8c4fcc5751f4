//! Shares of groups.

use aiperf_rng::elementary::{exp, ln};

/// Up to where in (0, 1] each of `n` groups reaches, the k-th having a share as k^−α: the running sum of weights over the sum of all.
pub(crate) fn shares(n: u64, alpha: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let weights = (1..=n).map(|k| exp(-alpha * ln(k as f64)));
    let mut sums: Vec<f64> = weights
        .map(|weight| {
            sum += weight;
            sum
        })
        .collect();
    for reached in &mut sums {
        *reached /= sum;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn by_hand() {
        assert_eq!(shares(4, 0.0), [0.25, 0.5, 0.75, 1.0]);
        // 1, 1/2 and 1/3 of 11/6.
        for (got, want) in shares(3, 1.0).into_iter().zip([6.0 / 11.0, 9.0 / 11.0, 1.0]) {
            assert!((got - want).abs() < 1e-15, "{got} for {want}");
        }
        assert!(shares(0, 1.0).is_empty());
    }

    proptest! {
        #[test]
        fn they_rise_to_one(n in 1..300u64, alpha in 0.0..4.0f64) {
            let shares = shares(n, alpha);
            prop_assert!(shares.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert_eq!((shares.len() as u64, shares.last()), (n, Some(&1.0)));
        }
    }
}
