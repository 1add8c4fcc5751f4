//! How a run is split among its shards. The sum of the shards is the run: whatever their number, together they send the
//! same sessions and hold the same limits.

/// Whether open-loop session `index` belongs to `shard` of `shards`.
pub fn owns(index: u64, shard: usize, shards: usize) -> bool {
    index % shards as u64 == shard as u64
}

/// The part of `total` places that `shard` of `shards` holds: as even as can be, the first ones get the remainder.
pub fn places(total: u32, shard: usize, shards: usize) -> u32 {
    let (total, shard, shards) = (total as usize, shard, shards.max(1));
    (total / shards + usize::from(shard < total % shards)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_place_is_held_once(total in 0u32..10_000, shards in 1usize..100) {
            let parts: Vec<u32> = (0..shards).map(|s| places(total, s, shards)).collect();
            prop_assert_eq!(parts.iter().sum::<u32>(), total);
            let (min, max) = (parts.iter().min().copied(), parts.iter().max().copied());
            prop_assert!(max.zip(min).is_some_and(|(a, b)| a - b <= 1));
        }

        #[test]
        fn every_arrival_has_one_owner(index: u64, shards in 1usize..100) {
            prop_assert_eq!((0..shards).filter(|s| owns(index, *s, shards)).count(), 1);
        }
    }
}
