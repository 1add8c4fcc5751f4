//! How long a prompt and its answer are to be: the plan's lengths, drawn.

use aiperf_core::plan::{LengthPlan, LengthShape, LengthsPlan, RandomStyle, Weighted, WindowPlan};
use aiperf_rng::elementary::{exp, ln};
use aiperf_rng::{Draws, Key, Stream};

use crate::error::DataError;

/// The longest input made, tokens: half a gigabyte of text.
pub(crate) const MOST_TOKENS: u64 = 100_000_000;

/// A length, drawn from the words of one index.
pub(crate) fn draw_length(plan: &LengthPlan, draws: &mut Draws) -> u64 {
    draw_length_above(plan, draws, 0)
}

/// Whether the plan itself gives the length, and no draw.
pub(crate) fn is_given(plan: &LengthPlan) -> bool {
    matches!(plan.shape, LengthShape::Normal { stddev, .. } if stddev.is_nan() || stddev <= 0.0)
}

/// As [`draw_length`], for lengths of which `fixed` tokens cannot be left out: what a curve gives is above them. The spread is that of
/// the part that can vary, as in AIPerf, which takes the fixed part off the mean, draws again what is negative, and sends both. A
/// length that the plan itself gives stays as it is.
pub(crate) fn draw_length_above(plan: &LengthPlan, draws: &mut Draws, fixed: u64) -> u64 {
    match sample(plan, draws, fixed as f64) {
        Sample::Given(length) => (length.round_ties_even() as u64).max(1),
        Sample::Drawn(length) => (length.ceil() as u64).max(fixed + 1),
    }
}

/// A number of the plan itself, or one that a curve gave.
enum Sample {
    Given(f64),
    Drawn(f64),
}

fn sample(plan: &LengthPlan, draws: &mut Draws, fixed: f64) -> Sample {
    let sample = match &plan.shape {
        LengthShape::Normal { mean, .. } if is_given(plan) => Sample::Given(*mean),
        // A mean below what cannot be left out is a length of the plan's own, and refused as one.
        LengthShape::Normal { mean, .. } if *mean <= fixed && fixed > 0.0 => Sample::Given(*mean),
        LengthShape::Normal { mean, stddev } => {
            Sample::Drawn(fixed + draws.positive_normal(*mean - fixed, *stddev))
        }
        LengthShape::LogNormal { median, .. } if *median <= fixed => Sample::Given(*median),
        LengthShape::LogNormal { mean, median } => {
            let (mean, median) = (mean - fixed, median - fixed);
            // The mean of a log-normal is its median times e^(sigma²/2).
            let sigma = (2.0 * ln(mean / median)).max(0.0).sqrt();
            Sample::Drawn(fixed + median * exp(sigma * draws.normal()))
        }
        LengthShape::Peaks(peaks) => {
            choose(peaks, draws).map_or(Sample::Given(1.0), |p| sample(p, draws, fixed))
        }
        LengthShape::Points(points) => Sample::Given(choose(points, draws).copied().unwrap_or(1.0)),
    };
    let clamp =
        |x: f64| x.max(plan.least.unwrap_or(f64::NEG_INFINITY)).min(plan.most.unwrap_or(f64::INFINITY));
    match sample {
        // A bound that leaves no room is the plan's own length, too.
        Sample::Drawn(x) if plan.most.is_none_or(|most| most > fixed) => Sample::Drawn(clamp(x)),
        Sample::Given(x) | Sample::Drawn(x) => Sample::Given(clamp(x)),
    }
}

/// One of several by weight: the first whose running share is above the draw.
fn choose<'a, T>(items: &'a [Weighted<T>], draws: &mut Draws) -> Option<&'a T> {
    let total: f64 = items.iter().map(|i| i.weight).sum();
    let draw = draws.unit() * total;
    let mut sum = 0.0;
    let found = items.iter().find(|item| {
        sum += item.weight;
        sum > draw
    });
    // Rounding can leave the draw at the very end.
    found.or_else(|| items.iter().rev().find(|i| i.weight > 0.0)).map(|i| &i.item)
}

/// The lengths that an even draw may give, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl Window {
    /// The window of an input length, in tokens of bare text. `specials` come off the length before the window is made (vLLM)
    /// or off each draw (SGLang), as those tools do.
    pub(crate) fn of_input(style: RandomStyle, plan: &WindowPlan, specials: u64) -> Self {
        let (length, ratio) = (plan.isl, plan.isl_ratio);
        match style {
            RandomStyle::Vllm => Self::around(length.saturating_sub(specials), ratio),
            RandomStyle::Sglang | RandomStyle::SglangStrict => Self::below(length, ratio),
        }
    }

    /// The window of an output length.
    pub(crate) fn of_output(style: RandomStyle, plan: &WindowPlan) -> Self {
        let (length, ratio) = (plan.osl, plan.osl_ratio);
        let window = match style {
            RandomStyle::Vllm => Self::around(length, ratio),
            RandomStyle::Sglang | RandomStyle::SglangStrict => Self::below(length, ratio),
        };
        Self { low: window.low.max(1), high: window.high.max(1) }
    }

    /// vLLM's. The products are Python's floats.
    fn around(length: u64, ratio: f64) -> Self {
        let length = length as f64;
        Self { low: (length * (1.0 - ratio)).floor() as u64, high: (length * (1.0 + ratio)).ceil() as u64 }
    }

    /// SGLang's.
    fn below(length: u64, ratio: f64) -> Self {
        Self { low: ((length as f64 * ratio) as u64).max(1), high: length }
    }

    fn draw(self, draws: &mut Draws) -> u64 {
        self.low + draws.below((self.high - self.low).saturating_add(1))
    }
}

/// Tokens of bare text that a drawn input length leaves, for windows.
pub(crate) fn window_text(style: RandomStyle, drawn: u64, specials: u64) -> u64 {
    match style {
        RandomStyle::Vllm => drawn,
        RandomStyle::Sglang | RandomStyle::SglangStrict => drawn.saturating_sub(specials).max(1),
    }
}

/// The plan's lengths by position; each is a function of seed and position.
#[derive(Debug)]
pub(crate) struct Lengths {
    plan: LengthsPlan,
    style: RandomStyle,
    /// Tokens the server puts around each text and counts.
    specials: u64,
    inputs: Stream,
    outputs: Stream,
    pairs: Stream,
}

impl Lengths {
    /// Refuses lengths that no memory should hold.
    pub(crate) fn new(
        plan: &LengthsPlan,
        style: RandomStyle,
        specials: u64,
        key: Key,
    ) -> Result<Self, DataError> {
        let largest = match plan {
            LengthsPlan::Apart { isl, .. } => isl.scale(),
            LengthsPlan::Pairs(pairs) => pairs.iter().map(|p| p.item.isl.scale()).fold(0.0, f64::max),
            LengthsPlan::Window(window) => Window::of_input(style, window, specials).high as f64,
        };
        check_length(largest as u64)?;
        Ok(Self {
            plan: plan.clone(),
            style,
            specials,
            inputs: key.purpose("dataset.prompt.length"),
            outputs: key.purpose("dataset.turn.max_tokens"),
            pairs: key.purpose("dataset.prompt.pair"),
        })
    }

    /// Whether all texts are asked for with the same input length.
    pub(crate) fn are_given(&self) -> bool {
        matches!(&self.plan, LengthsPlan::Apart { isl, .. } if is_given(isl))
    }

    /// Tokens asked for of a text of turn number `turn` of the workload, `fixed` of which cannot be left out.
    pub(crate) fn text(&self, turn: u64, text: u64, fixed: u64) -> Result<u64, DataError> {
        let asked = match &self.plan {
            LengthsPlan::Apart { isl, .. } => {
                draw_length_above(isl, &mut self.inputs.lane(text).at(turn), fixed)
            }
            LengthsPlan::Pairs(pairs) => {
                let mut draws = self.pairs.at(turn);
                choose(pairs, &mut draws).map_or(1, |p| draw_length_above(&p.isl, &mut draws, fixed))
            }
            LengthsPlan::Window(window) => {
                let window = Window::of_input(self.style, window, self.specials);
                let drawn = window.draw(&mut self.inputs.at(turn));
                window_text(self.style, drawn, self.specials).max(1) + self.specials
            }
        };
        check_length(asked)?;
        Ok(asked)
    }

    /// The output length asked for with an entry.
    pub(crate) fn output(&self, entry: u64) -> Option<u64> {
        match &self.plan {
            LengthsPlan::Apart { osl, .. } => {
                osl.as_ref().map(|osl| draw_length(osl, &mut self.outputs.at(entry)))
            }
            LengthsPlan::Pairs(pairs) => {
                let pair = choose(pairs, &mut self.pairs.at(entry));
                Some(pair.map_or(1, |p| draw_length(&p.osl, &mut self.pairs.lane(1).at(entry))))
            }
            LengthsPlan::Window(window) => {
                Some(Window::of_output(self.style, window).draw(&mut self.outputs.at(entry)))
            }
        }
    }
}

pub(crate) fn check_length(asked: u64) -> Result<(), DataError> {
    if asked > MOST_TOKENS { Err(DataError::TooLong { asked, most: MOST_TOKENS }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use aiperf_core::plan::LengthPair;
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn weighted<T>(item: T, weight: f64) -> Weighted<T> {
        Weighted { item, weight }
    }

    fn plan(shape: LengthShape, least: Option<f64>, most: Option<f64>) -> LengthPlan {
        LengthPlan { shape, least, most }
    }

    fn draws(plan: &LengthPlan, count: u64) -> Vec<u64> {
        let stream = Key::new(11).purpose("test.lengths");
        (0..count).map(|i| draw_length(plan, &mut stream.at(i))).collect()
    }

    fn mean(lengths: &[u64]) -> f64 {
        lengths.iter().sum::<u64>() as f64 / lengths.len() as f64
    }

    #[test]
    fn given_lengths_are_rounded_and_drawn_ones_rounded_up() {
        assert_eq!(draws(&LengthPlan::normal(550.0, 0.0), 2), [550, 550]);
        assert_eq!(draws(&LengthPlan::normal(2.5, 0.0), 1), [2]);
        assert_eq!(draws(&LengthPlan::normal(0.0, 0.0), 1), [1]);
        // A spread of 0.9 is one; AIPerf takes it as none.
        let spread = draws(&LengthPlan::normal(100.0, 0.9), 4000);
        assert!((mean(&spread) - 100.5).abs() < 0.06, "4 standard errors of 0.95: {}", mean(&spread));
        assert!(spread.iter().any(|n| *n < 99) && spread.iter().any(|n| *n > 102));
    }

    #[test]
    fn log_normal_has_its_mean_and_median() {
        let mut lengths =
            draws(&plan(LengthShape::LogNormal { mean: 500.0, median: 300.0 }, None, None), 20_000);
        lengths.sort_unstable();
        let median = lengths[10_000] as f64;
        assert!((median / 300.5 - 1.0).abs() < 0.04, "{median}");
        // Its standard deviation is the mean times the root of (mean / median)² − 1.
        let error = 4.0 * 500.0 * (25.0f64 / 9.0 - 1.0).sqrt() / 20_000f64.sqrt();
        assert!((mean(&lengths) - 500.5).abs() < error, "{} ± {error}", mean(&lengths));
        let fixed = plan(LengthShape::LogNormal { mean: 300.0, median: 300.0 }, None, None);
        assert!(draws(&fixed, 5).iter().all(|n| *n == 300));
    }

    #[test]
    fn peaks_and_points_come_by_weight() {
        let points = plan(LengthShape::Points(vec![weighted(10.0, 3.0), weighted(20.0, 1.0)]), None, None);
        let mut counts = BTreeMap::new();
        for n in draws(&points, 4000) {
            *counts.entry(n).or_insert(0u32) += 1;
        }
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [10, 20]);
        assert!(counts[&10].abs_diff(3000) < 110, "4 standard errors: {counts:?}");

        let peaks = plan(
            LengthShape::Peaks(vec![
                weighted(LengthPlan::normal(100.0, 5.0), 60.0),
                weighted(LengthPlan::normal(900.0, 5.0), 40.0),
                weighted(LengthPlan::normal(7.0, 0.0), 0.0),
            ]),
            None,
            None,
        );
        let lengths = draws(&peaks, 4000);
        assert!(lengths.iter().all(|n| n.abs_diff(100) < 40 || n.abs_diff(900) < 40));
        let low = lengths.iter().filter(|n| **n < 500).count();
        assert!(low.abs_diff(2400) < 124, "4 standard errors: {low}");
    }

    #[test]
    fn bounds_clamp_every_shape() {
        let bounded = |shape| draws(&plan(shape, Some(90.0), Some(110.0)), 400);
        for lengths in [
            bounded(LengthShape::Normal { mean: 100.0, stddev: 50.0 }),
            bounded(LengthShape::LogNormal { mean: 100.0, median: 50.0 }),
        ] {
            assert!(lengths.iter().all(|n| (90..=110).contains(n)));
            assert!(lengths.contains(&90) && lengths.contains(&110));
        }
        assert_eq!(bounded(LengthShape::Normal { mean: 5.0, stddev: 0.0 })[0], 90);
    }

    #[test]
    fn what_cannot_be_left_out_is_below_every_drawn_length() {
        let least = |plan: &LengthPlan| {
            let stream = Key::new(3).purpose("test");
            (0..400).map(|i| draw_length_above(plan, &mut stream.at(i), 30)).min()
        };
        for shape in [
            LengthShape::Normal { mean: 40.0, stddev: 30.0 },
            LengthShape::LogNormal { mean: 60.0, median: 40.0 },
        ] {
            assert_eq!(least(&plan(shape.clone(), None, None)).map(|n| n > 30), Some(true));
            // What the plan's own numbers leave no room for stays as it is, to be refused.
            assert_eq!(least(&plan(shape, None, Some(25.0))), Some(25));
        }
        for shape in [
            LengthShape::Normal { mean: 30.0, stddev: 30.0 },
            LengthShape::LogNormal { mean: 60.0, median: 30.0 },
        ] {
            assert_eq!(least(&plan(shape, None, None)), Some(30));
        }
    }

    #[test]
    fn pairs_are_drawn_together() {
        let pair =
            |isl, osl| LengthPair { isl: LengthPlan::normal(isl, 0.0), osl: LengthPlan::normal(osl, 2.0) };
        let plan = LengthsPlan::Pairs(vec![
            weighted(pair(100.0, 1000.0), 30.0),
            weighted(pair(200.0, 2000.0), 70.0),
        ]);
        let lengths = Lengths::new(&plan, RandomStyle::Vllm, 0, Key::new(1)).expect("a good plan");
        let mut short = 0;
        for entry in 0..4000 {
            let isl = lengths.text(entry, 0, 0).expect("short enough");
            assert_eq!(isl, lengths.text(entry, 3, 0).expect("the same for all texts of a batch"));
            let osl = lengths.output(entry).expect("pairs have one");
            assert!(osl.abs_diff(isl * 10) < 20, "{isl:?} {osl}");
            short += u32::from(isl == 100);
        }
        assert!(short.abs_diff(1200) < 116, "4 standard errors: {short}");
    }

    /// The reference's windows (goldens, range_ratio).
    #[test]
    fn windows_are_the_tools_own() {
        let both = |style, isl, osl, ratio, specials| {
            let plan = WindowPlan { isl, osl, isl_ratio: ratio, osl_ratio: ratio };
            let (i, o) = (Window::of_input(style, &plan, specials), Window::of_output(style, &plan));
            [i.low, i.high, o.low, o.high]
        };
        assert_eq!(both(RandomStyle::Vllm, 10, 3, 0.5, 1), [4, 14, 1, 5]);
        assert_eq!(both(RandomStyle::Vllm, 10, 3, 0.0, 1), [9, 9, 3, 3]);
        assert_eq!(both(RandomStyle::Vllm, 16, 4, 0.99, 0), [0, 32, 1, 8]);
        assert_eq!(both(RandomStyle::Sglang, 10, 3, 0.3, 1), [3, 10, 1, 3]);
        assert_eq!(both(RandomStyle::Sglang, 128, 64, 0.999, 0), [127, 128, 63, 64]);
        assert_eq!(both(RandomStyle::Sglang, 10, 3, 1.0, 1), [10, 10, 3, 3]);
        assert_eq!(window_text(RandomStyle::Sglang, 1, 1), 1);
        assert_eq!(window_text(RandomStyle::Sglang, 9, 1), 8);
    }

    #[test]
    fn windows_drive_lengths_by_themselves() {
        let plan = LengthsPlan::Window(WindowPlan { isl: 100, osl: 50, isl_ratio: 0.1, osl_ratio: 0.2 });
        let lengths = Lengths::new(&plan, RandomStyle::Vllm, 1, Key::new(1)).expect("a good plan");
        let isls: BTreeSet<u64> = (0..2000).map(|i| lengths.text(i, 0, 1).expect("short enough")).collect();
        assert_eq!(isls.first(), Some(&90), "floor of 99 × 0.9, and the special");
        assert_eq!(isls.last(), Some(&110));
        assert_eq!(isls.len(), 21);
        let osls: Vec<u64> = (0..2000).filter_map(|i| lengths.output(i)).collect();
        assert_eq!((osls.iter().min(), osls.iter().max()), (Some(&40), Some(&60)));
    }

    #[test]
    fn lengths_beyond_memory_are_refused() {
        for plan in [
            LengthsPlan::Apart { isl: LengthPlan::normal(1e15, 0.0), osl: None },
            LengthsPlan::Window(WindowPlan { isl: 99_000_000, osl: 1, isl_ratio: 0.5, osl_ratio: 0.5 }),
            LengthsPlan::Apart {
                isl: plan(LengthShape::Points(vec![weighted(1.0, 1.0), weighted(1e9, 1.0)]), None, None),
                osl: None,
            },
        ] {
            let error = Lengths::new(&plan, RandomStyle::Vllm, 0, Key::new(1)).expect_err("too long");
            assert!(matches!(error, DataError::TooLong { .. }), "{error}");
        }
    }
}
