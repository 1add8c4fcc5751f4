//! The sum of the shards is the run: whatever their number, together they send the same.

use std::collections::BTreeSet;

use aiperf_core::plan::{
    Arrival, Cancellation, Pacing, Ramp, RampShape, RatePlan, RatePoint, RateShape, UrlStrategy,
};
use aiperf_load::{Arrivals, CancelDraw, FixedSchedule, ScheduleWindow, Targets, share};
use proptest::prelude::*;

use crate::world::{MS, World};

const COUNTS: [usize; 5] = [1, 2, 3, 7, 64];

/// (index, planned ns, server, dropped on purpose)
type Planned = (u64, u64, Option<usize>, bool);

/// What all of `shards` keep of a schedule that each computes for itself, by index.
fn union(shards: usize, seed: u64, strategy: UrlStrategy, schedule: impl Fn() -> Vec<u64>) -> Vec<Planned> {
    let mut all = Vec::new();
    for shard in 0..shards {
        let targets = Targets::new(strategy, [1.0, 2.0, 0.5], seed);
        let cancels = CancelDraw::new(Cancellation { share: 0.2, delay_ns: 0 }, seed, 1);
        for (index, at_ns) in (0..).zip(schedule()).filter(|(i, _)| share::owns(*i, shard, shards)) {
            all.push((index, at_ns, targets.of_session(index), cancels.after_ns(index, 0).is_some()));
        }
    }
    all.sort_unstable();
    all
}

fn shapes() -> impl Strategy<Value = RampShape> {
    prop::sample::select(vec![RampShape::Linear, RampShape::Exponential, RampShape::Poisson])
}

fn arrivals() -> impl Strategy<Value = Arrival> {
    prop_oneof![
        Just(Arrival::Constant),
        Just(Arrival::Poisson),
        (0.2f64..9.0).prop_map(|smoothness| Arrival::Gamma { smoothness }),
    ]
}

fn strategies() -> impl Strategy<Value = UrlStrategy> {
    prop::sample::select(vec![UrlStrategy::RoundRobin, UrlStrategy::Random, UrlStrategy::Weighted])
}

fn rates() -> impl Strategy<Value = RatePlan> {
    let ramp = prop::option::of(
        (1u64..2000, shapes(), prop::option::of(0.0f64..2000.0)).prop_map(|(ms, shape, from)| Ramp {
            duration_ns: ms * MS,
            shape,
            from,
        }),
    );
    let shape = prop::collection::vec(1.0f64..5000.0, 1..4).prop_map(|rates| match rates.as_slice() {
        [only] => RateShape::Steady(*only),
        many => RateShape::Series(
            (0..).zip(many).map(|(i, rate)| RatePoint { at_ns: i * 300 * MS, per_second: *rate }).collect(),
        ),
    });
    (shape, ramp).prop_map(|(shape, ramp)| RatePlan { shape, ramp })
}

proptest! {
    // Each runs a schedule some hundred times.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn of_an_open_loop(rate in rates(), arrival in arrivals(), strategy in strategies(), seed: u64) {
        let schedule = || Arrivals::new(&rate, arrival, seed, 1).take(300).collect();
        let whole: Vec<u64> = schedule();
        for shards in COUNTS {
            let all = union(shards, seed, strategy, schedule);
            prop_assert!(all.iter().map(|p| p.0).eq(0..300));
            prop_assert!(all.iter().map(|p| p.1).eq(whole.iter().copied()));
            prop_assert_eq!(&all, &union(1, seed, strategy, schedule));
        }
    }

    #[test]
    fn of_a_fixed_schedule(
        times in prop::collection::vec(0u64..40, 1..200),
        auto_offset: bool,
        end in 20u64..50,
        strategy in strategies(),
        seed: u64,
    ) {
        let window = ScheduleWindow { auto_offset, start_ns: None, end_ns: Some(end) };
        // At least one is within the window.
        let starts = |i: usize| Some(if i == 0 { 5 } else { times[i] });
        let plan = || FixedSchedule::new(times.len(), starts, |i| i.to_string(), &window).expect("one is there");
        let whole = plan();
        let schedule = || plan().entries().iter().map(|e| e.offset_ns).collect();
        for shards in COUNTS {
            let all = union(shards, seed, strategy, schedule);
            prop_assert!(all.iter().map(|p| p.1).eq(whole.entries().iter().map(|e| e.offset_ns)));
            prop_assert_eq!(&all, &union(1, seed, strategy, schedule));
        }
        let zero = if auto_offset { (0..times.len()).filter_map(starts).min().unwrap_or(0) } else { 0 };
        let kept: Vec<_> = whole.entries().iter().map(|e| e.conversation).collect();
        let distinct: BTreeSet<_> = kept.iter().collect();
        prop_assert_eq!(distinct.len() + whole.left_out(), times.len());
        for entry in whole.entries() {
            prop_assert_eq!(Some(entry.offset_ns + zero), starts(entry.conversation));
            prop_assert!(entry.offset_ns + zero <= end);
        }
        prop_assert!(whole.entries().windows(2).all(
            |w| (w[0].offset_ns, w[0].conversation) < (w[1].offset_ns, w[1].conversation)
        ));
    }


    /// Where turns wait for answers, which request is sent depends on the number of shards no more than which session it is of.
    #[test]
    fn of_sessions_of_several_turns(
        sessions in 1u64..60,
        turns in 1u32..5,
        concurrency in prop::option::of(1u32..9),
        kind in 0usize..3,
    ) {
        let pacing = match kind {
            0 => Pacing::Concurrency,
            1 => Pacing::steady(200.0, Arrival::Poisson),
            _ => Pacing::UserCentric { per_second: 50.0, users: 7 },
        };
        let sent = |shards| {
            let mut world = World::new(pacing.clone());
            world.plan.sessions = Some(sessions.max(7));
            world.plan.concurrency = concurrency;
            (world.shards, world.turns, world.think_ns) = (shards, turns, 30 * MS);
            world.service_ns = |session, turn| (session * 13 + u64::from(turn) * 5) % 40 * MS;
            let mut sent: Vec<_> = world.run().iter().map(|r| (r.session, r.turn)).collect();
            sent.sort_unstable();
            sent
        };
        let whole = sent(1);
        if kind < 2 {
            prop_assert_eq!(whole.len() as u64, sessions.max(7) * u64::from(turns));
        }
        for shards in COUNTS {
            prop_assert_eq!(&sent(shards), &whole);
        }
    }
}
