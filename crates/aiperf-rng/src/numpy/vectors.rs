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
#[test]
fn draws_are_numpys_in_order() {
    let mut seen = 0;
    for (seed, want) in lines("pcg64-draws") {
        let mut rng = Pcg64::new(seed);
        let mut got = Vec::new();
        got.extend(numbers(7, || rng.integers(44, 84)));
        got.extend(numbers(7, || rng.integers(22, 43)));
        got.extend(numbers(7, || rng.integers(0, 151_643)));
        got.extend(numbers(5, || rng.integers(0, 200_019)));
        got.extend(numbers(3, || rng.random()));
        got.extend(numbers(5, || rng.integers(0, 3)));
        // integers(0, 256, size=10, dtype=uint8): four bytes of each half word, what is left of the last is dropped.
        let bytes: Vec<u8> = (0..3).flat_map(|_| rng.next_u32().to_le_bytes()).take(10).collect();
        got.extend(bytes.iter().map(u8::to_string));
        got.extend(numbers(2, || rng.integers(0, 1 << 40)));
        got.extend(numbers(2, || rng.integers(0, u64::from(u32::MAX))));
        got.extend(numbers(2, || rng.integers(0, 1 << 32)));
        got.extend(numbers(3, || rng.integers(5, 6)));
        let mut list: Vec<u32> = (0..12).collect();
        rng.shuffle(&mut list);
        got.extend(list.iter().map(u32::to_string));
        assert_eq!(got, want, "seed {seed}");
        seen += 1;
    }
    assert_eq!(seen, 7);
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
