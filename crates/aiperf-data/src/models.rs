//! Which model a turn asks for.

use aiperf_core::plan::{ModelSelection, Plan};
use aiperf_rng::{Key, Stream};

use crate::error::DataError;

/// The plan's models and the way turns get one of them.
#[derive(Debug)]
pub(crate) struct Models {
    names: Vec<String>,
    way: Way,
}

#[derive(Debug)]
enum Way {
    RoundRobin,
    Random(Stream),
    Shares(Shares),
}

impl Models {
    /// The models of `plan`; at least one is needed.
    pub(crate) fn new(plan: &Plan) -> Result<Self, DataError> {
        if plan.models.is_empty() {
            return Err(DataError::NoModel);
        }
        let way = match &plan.model_selection {
            ModelSelection::RoundRobin => Way::RoundRobin,
            ModelSelection::Random => Way::Random(Key::new(plan.seed).purpose("dataset.turn.model")),
            ModelSelection::Weighted(weights) => Way::Shares(Shares::new(weights)),
        };
        Ok(Self { names: plan.models.clone(), way })
    }

    /// The model of the turn that is number `turn` of all turns of the workload.
    pub(crate) fn of_turn(&self, turn: u64) -> &str {
        let names = self.names.len();
        let at = match &self.way {
            Way::RoundRobin => (turn % names as u64) as usize,
            Way::Random(stream) => stream.at(turn).position(names),
            Way::Shares(shares) => shares.of(turn).min(names - 1),
        };
        &self.names[at]
    }
}

/// Divides numbers from 0 on among several by their weights, without draws and without a memory: after any count of numbers
/// each has had its share of them, to within half a number for each time that the list is halved on the way to it.
///
/// The list is halved until one is left. Of `n` numbers a half of share `p` gets ⌊n·p + ½⌋: number `i` is its own if that
/// grows from `i` to `i + 1`, and what it grew from is its number inside that half.
#[derive(Debug)]
struct Shares {
    /// Halvings, the first one first.
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    /// The left half's share of what comes here, in 2⁻⁶⁴.
    left: u64,
    halves: [Half; 2],
}

#[derive(Debug, Clone, Copy)]
enum Half {
    /// Position in the list.
    One(usize),
    /// Position among the nodes.
    More(usize),
}

impl Shares {
    /// By weights above 0.
    fn new(weights: &[f64]) -> Self {
        let mut shares = Self { nodes: Vec::with_capacity(weights.len()) };
        shares.halve(weights, 0);
        shares
    }

    /// Adds the halvings of `weights`, which begin at position `first` of the list.
    fn halve(&mut self, weights: &[f64], first: usize) -> Half {
        if weights.len() <= 1 {
            return Half::One(first);
        }
        let (left, right) = weights.split_at(weights.len() / 2);
        // Huge weights shall not add up to infinity.
        let most = weights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let sum = |half: &[f64]| half.iter().map(|w| w / most).sum::<f64>();
        let share = sum(left) / (sum(left) + sum(right));
        let node = self.nodes.len();
        // 2⁶⁴ itself would become the greatest number below it, which is as good.
        self.nodes.push(Node { left: (share * 2f64.powi(64)) as u64, halves: [Half::One(first); 2] });
        let halves = [self.halve(left, first), self.halve(right, first + left.len())];
        self.nodes[node].halves = halves;
        Half::More(node)
    }

    /// Who has number `number`.
    fn of(&self, mut number: u64) -> usize {
        let mut half = if self.nodes.is_empty() { Half::One(0) } else { Half::More(0) };
        loop {
            match half {
                Half::One(at) => return at,
                Half::More(node) => {
                    let Node { left, halves } = &self.nodes[node];
                    let before = share_of(number, *left);
                    let is_left = share_of(u128::from(number) + 1, *left) > before;
                    half = halves[usize::from(!is_left)];
                    number = if is_left { before } else { number - before };
                }
            }
        }
    }
}

/// ⌊count·share + ½⌋, the share in 2⁻⁶⁴.
fn share_of(count: impl Into<u128>, share: u64) -> u64 {
    ((count.into() * u128::from(share) + (1 << 63)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn first(weights: &[f64], count: u64) -> Vec<usize> {
        let shares = Shares::new(weights);
        (0..count).map(|i| shares.of(i)).collect()
    }

    #[test]
    fn shares_are_spread_evenly() {
        // Three of four: after n turns round(0.75 n) = 1, 2, 2, 3, 4, 5, 5, 6.
        assert_eq!(first(&[3.0, 1.0], 8), [0, 0, 1, 0, 0, 0, 1, 0]);
        assert_eq!(first(&[0.5, 0.5], 6), [0, 1, 0, 1, 0, 1]);
        assert_eq!(first(&[7.0], 3), [0, 0, 0]);
        // One against two, then the two by turns.
        let three = first(&[1.0, 1.0, 1.0], 6);
        assert_eq!(three, [1, 0, 2, 1, 0, 2]);
        let counts = |weights: &[f64], count| {
            let mut counts = vec![0u64; weights.len()];
            for at in first(weights, count) {
                counts[at] += 1;
            }
            counts
        };
        assert_eq!(counts(&[0.7, 0.2, 0.1], 1000), [700, 200, 100]);
        assert_eq!(counts(&[1e308, 1e308, 1.0], 1000), [500, 500, 0]);
    }

    proptest! {
        #[test]
        fn everyone_has_its_share_after_any_count(
            weights in prop::collection::vec(prop_oneof![0.001..1e3f64, 1.0..4.0f64], 1..9), count in 0u64..400, far in any::<u64>(),
        ) {
            let total: f64 = weights.iter().sum();
            let halvings = (weights.len() as f64).log2().ceil();
            let got = first(&weights, count);
            for (at, weight) in weights.iter().enumerate() {
                let had = got.iter().filter(|one| **one == at).count() as f64;
                let due = count as f64 * weight / total;
                prop_assert!((had - due).abs() <= halvings / 2.0 + 1e-6, "{at}: {had} of {due}");
            }
            prop_assert!(Shares::new(&weights).of(far) < weights.len());
        }
    }
}
