//! numpy's own numbers (`testdata/numpy.txt`) against ours.

use super::{LegacyMt19937, Pcg64};

const VECTORS: &str = include_str!("../../testdata/numpy.txt");

/// Lines of a kind: seed and numbers as text.
fn lines(kind: &str) -> impl Iterator<Item = (u64, Vec<&'static str>)> {
    VECTORS.lines().filter_map(move |line| {
        let mut parts = line.split(' ');
        let found = parts.next() == Some(kind);
        found.then(|| (parts.next().and_then(|s| s.parse().ok()).expect("a seed"), parts.collect()))
    })
}

fn numbers<T: std::fmt::Display>(count: usize, mut draw: impl FnMut() -> T) -> Vec<String> {
    (0..count).map(|_| draw().to_string()).collect()
}

#[test]
fn pcg64_starts_and_steps_as_numpys() {
    let mut seen = 0;
    for (seed, want) in lines("pcg64") {
        let mut rng = Pcg64::new(seed);
        let (state, increment, half) = rng.parts();
        assert_eq!(half, None);
        let mut got = vec![state.to_string(), increment.to_string()];
        got.extend(numbers(want.len() - 2, || rng.next_u64()));
        assert_eq!(got, want, "seed {seed}");
        seen += 1;
    }
    assert_eq!(seen, 7);
}

/// One generator through all kinds of calls, so that what one leaves behind for the next counts too.
fn drawn(rng: &mut Pcg64) -> Vec<String> {
    let mut got = Vec::new();
    got.extend(numbers(7, || rng.integers(44, 84)));
    got.extend(numbers(7, || rng.integers(22, 43)));
    got.extend(numbers(7, || rng.integers(0, 151_643)));
    got.extend(numbers(5, || rng.integers(0, 200_019)));
    got.extend(numbers(3, || rng.random()));
    got.extend(numbers(5, || rng.integers(0, 3)));
    // integers(0, 256, size=10, dtype=uint8)
    got.extend(rng.bytes::<10>().iter().map(u8::to_string));
    got.extend(numbers(2, || rng.integers(0, 1 << 40)));
    got.extend(numbers(2, || rng.integers(0, u64::from(u32::MAX))));
    got.extend(numbers(2, || rng.integers(0, 1 << 32)));
    got.extend(numbers(3, || rng.integers(5, 6)));
    let mut list: Vec<u32> = (0..12).collect();
    rng.shuffle(&mut list);
    got.extend(list.iter().map(u32::to_string));
    got
}

#[test]
fn draws_are_numpys_in_order() {
    let mut seen = 0;
    for (seed, want) in lines("pcg64-draws") {
        assert_eq!(drawn(&mut Pcg64::new(seed)), want, "seed {seed}");
        seen += 1;
    }
    assert_eq!(seen, 7);
}

/// To the last digit but one: numpy's exponential is the platform's.
#[track_caller]
fn near(got: f64, want: &str) {
    let wanted: f64 = want.parse().expect("a number");
    assert!((got - wanted).abs() <= 1e-15 * wanted.abs(), "{got} for {want}");
}

#[test]
fn choices_and_normals_are_numpys() {
    let mut seen = 0;
    for (seed, want) in lines("pcg64-floats") {
        let mut rng = Pcg64::new(seed);
        drawn(&mut rng);
        let [choices @ .., state, half] = &want[..] else { panic!("numbers and a state") };
        let mut got = Vec::new();
        got.extend((0..4).map(|_| ["8.0", "16.0", "44.1"][rng.integers(0, 3) as usize]));
        got.extend((0..5).map(|_| ["10", "20", "30"][rng.choice(&[0.2, 0.5, 1.0])]));
        assert_eq!(got, choices[..9], "seed {seed}");
        for want in &choices[9..13] {
            near(rng.standard_normal(), want);
        }
        for want in &choices[13..] {
            near(rng.lognormal(7.5, 1.15), want);
        }
        let (now, _, left) = rng.parts();
        assert_eq!(
            (now.to_string(), left.map_or("none".to_owned(), |n| n.to_string())),
            ((*state).to_owned(), (*half).to_owned())
        );
        seen += 1;
    }
    assert_eq!(seen, 7);
}

/// Wedges and tails of the ziggurat: how many words a million normals take, their sum, and the farthest.
#[test]
fn a_million_normals_are_numpys() {
    let mut seen = 0;
    for (seed, want) in lines("pcg64-million") {
        let mut rng = Pcg64::new(seed);
        let drawn: Vec<f64> = (0..1_000_000).map(|_| rng.standard_normal()).collect();
        assert_eq!(rng.parts().0.to_string(), want[0], "seed {seed}");
        near(drawn.iter().copied().fold(0.0, f64::max), want[1]);
        near(drawn.iter().copied().fold(0.0, f64::min), want[2]);
        let sum: f64 = drawn.iter().sum();
        assert!((sum - want[3].parse::<f64>().expect("a number")).abs() < 1e-7, "{sum}");
        seen += 1;
    }
    assert_eq!(seen, 2);
}

#[test]
fn legacy_integers_are_numpys() {
    let mut seen = 0;
    for (seed, want) in lines("legacy") {
        let mut rng = LegacyMt19937::folded(seed);
        let mut got = vec![LegacyMt19937::fold(seed).to_string()];
        got.extend(numbers(7, || rng.randint(19, 65)));
        got.extend(numbers(7, || rng.randint(9, 33)));
        got.extend(numbers(7, || rng.randint(0, 151_643)));
        got.extend(numbers(3, || rng.randint(0, 200_000)));
        assert_eq!(got, want, "seed {seed}");
        seen += 1;
    }
    assert!(seen >= 6, "{seen}");
}

#[test]
fn ranges_without_a_choice_draw_nothing() {
    let (mut pcg, mut legacy) = (Pcg64::new(3), LegacyMt19937::new(3));
    for (low, high) in [(5, 6), (5, 5), (9, 2), (0, 0)] {
        assert_eq!((pcg.integers(low, high), legacy.randint(low, high)), (low, low));
    }
    assert_eq!(pcg, Pcg64::new(3));
    assert_eq!(legacy.randint(0, 1 << 32), LegacyMt19937::new(3).randint(0, 1 << 32));
}
