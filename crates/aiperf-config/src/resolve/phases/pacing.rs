//! What starts the sessions and turns of a phase. AIPerf's order of decision: a fixed schedule, then users, then a rate, otherwise
//! a closed loop. The higher layer decides first, so that a flag changes the kind of a file's phase; what only fitted the kind
//! it had is then left out, and what was said beside the flag itself and does not fit is a mistake.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use aiperf_core::plan::{Arrival, Pacing, RatePlan, RatePoint, RateShape, Sampling};

use super::knobs::{Knobs, PROFILING, Source};
use crate::error::ConfigError;
use crate::options::Id;
use crate::place::Place;
use crate::rate_series;
use crate::resolve::Resolver;
use crate::value::Value;

const BURST: &str = "concurrency_burst";
const USERS: &str = "user_centric";
const SCHEDULE: &str = "fixed_schedule";
/// Bytes of a file that its first row may take.
const MAX_FIRST_ROW: u64 = 64 << 20;
/// Nanoseconds of a millisecond.
const NS_PER_MS: u64 = 1_000_000;
/// Forms whose first row is asked for a timestamp, as AIPerf asks them; it does not look into tables of CSV.
const TIMED: [&str; 2] = ["mooncake_trace", "bailian_trace"];
/// A form whose rows all have times.
const ALWAYS_TIMED: &str = "baseten_trace";
const OFFSETS: [Id; 3] = [Id::AutoOffset, Id::StartOffset, Id::EndOffset];
const RATE_RAMP: [Id; 3] = [Id::RateRamp, Id::RateRampStrategy, Id::RateRampFrom];

/// Whether the first row of a JSONL file has a timestamp. What cannot be read has none; whoever opens the data set says what is wrong.
fn first_row_has_timestamp(path: &Path) -> bool {
    // Standard input can be read once, and that is when the data set is.
    if aiperf_files::is_standard_input(path) {
        return false;
    }
    let Ok(file) = aiperf_files::reader(path) else { return false };
    let mut lines = BufReader::new(file.take(MAX_FIRST_ROW)).split(b'\n').map_while(Result::ok);
    let Some(first) = lines.find(|line| !line.trim_ascii().is_empty()) else { return false };
    let row = first.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&first);
    let row: serde_json::Value = serde_json::from_slice(row).unwrap_or_default();
    row.get("timestamp").is_some_and(|timestamp| !timestamp.is_null())
}

impl<'a> Resolver<'a> {
    /// The pacing of a profiling phase; `None` when its options are in conflict.
    pub(super) fn pacing(&mut self, source: Source<'a>) -> Option<Pacing> {
        let pattern = self.settings.text(Id::ArrivalPattern);
        let by_pattern = |word| (pattern == Some(word)).then_some(Id::ArrivalPattern);
        let schedule =
            self.settings.is_on(Id::FixedSchedule).then_some(Id::FixedSchedule).or(by_pattern(SCHEDULE));
        let schedule = schedule.or_else(|| self.has_timed_trace().then_some(Id::DatasetFormat));
        let users = self.settings.has(Id::UserRate).then_some(Id::UserRate).or(by_pattern(USERS));
        let rank_of = |id: Option<Id>| id.map(|id| self.rank(id));
        let rate = [Id::RequestRate, Id::RateSeries]
            .into_iter()
            .filter_map(|id| self.settings.place(id))
            .map(Place::rank)
            .max();
        let (schedule_rank, users_rank) = (rank_of(schedule), rank_of(users));
        // A rate given to a file's users is theirs.
        let rate_for_others = rate.filter(|_| users != Some(Id::ArrivalPattern));
        if let Some(id) = schedule.filter(|_| schedule_rank >= users_rank.max(rate_for_others)) {
            return self.schedule(id, self.rank(id));
        }
        if let Some(id) = users.filter(|_| users_rank >= rate_for_others) {
            return self.users(id, self.rank(id));
        }
        self.open_or_closed(source)
    }

    fn rank(&self, id: Id) -> u8 {
        self.settings.place(id).map_or(0, Place::rank)
    }

    /// Excludes each of `ids` that is in a layer as high as `rank`.
    fn exclude_from(&mut self, rank: u8, id: Id, ids: &[Id], why: &'static str) -> Option<()> {
        let before = self.errors.len();
        for other in ids {
            if self.settings.has(*other) && self.rank(*other) >= rank && *other != id {
                self.exclude(*other, id, why);
            }
        }
        (self.errors.len() == before).then_some(())
    }

    /// Whether the data set is a trace whose first row says when it was sent: then it is a schedule unless somebody says otherwise, as in
    /// AIPerf, which looks at no file whose phases are in a configuration file either.
    fn has_timed_trace(&self) -> bool {
        let form = self.whole.text(Id::DatasetFormat).unwrap_or_default();
        (form == ALWAYS_TIMED || TIMED.contains(&form))
            && self.structure.phases.is_empty()
            && !self.whole.is_on(Id::NoFixedSchedule)
            && self
                .whole
                .text(Id::InputFile)
                .is_some_and(|path| form == ALWAYS_TIMED || first_row_has_timestamp(Path::new(path)))
    }

    /// The times of the data set itself.
    fn schedule(&mut self, id: Id, rank: u8) -> Option<Pacing> {
        let others = [Id::RequestRate, Id::RateSeries, Id::UserRate, Id::Users, Id::Smoothness];
        let mut why = if id == Id::DatasetFormat {
            "the timestamps of the trace are the schedule; drop one of the two, or add --no-fixed-schedule to send the rows otherwise"
        } else {
            "the timestamps of the file are the schedule; drop one of the two"
        };
        let paced = self.exclude_from(rank, id, &others, why);
        let ramped = self.exclude_from(
            rank,
            id,
            &RATE_RAMP,
            "timestamps have no rate that could ramp; drop one of the two",
        );
        if self.settings.text(Id::ArrivalPattern) != Some(SCHEDULE) {
            self.exclude_from(rank, id, &[Id::ArrivalPattern], why)?;
        }
        if self.whole.is_on(Id::NoFixedSchedule) {
            why = "the one sends rows at their timestamps and the other does not; keep one";
            self.exclude(id, Id::NoFixedSchedule, why);
        }
        if self.sampling() != Sampling::Sequential {
            self.exclude(
                id,
                Id::Sampling,
                "a schedule takes each row once, at its own time; sample sequentially or drop the schedule",
            );
        }
        if !self.whole.has(Id::InputFile) {
            self.needs(id, "--input-file", "the timestamps are those of its rows");
        }
        let (start, end) = (self.settings.int(Id::StartOffset), self.settings.int(Id::EndOffset));
        let auto_offset = self.settings.switch(Id::AutoOffset).unwrap_or(start.is_none());
        if auto_offset {
            self.exclude(
                Id::AutoOffset,
                Id::StartOffset,
                "the phase begins either with the first timestamp or at the offset; keep one",
            );
        }
        if let (Some(start), Some(end)) = (start, end)
            && start > end
        {
            self.bad(
                Id::EndOffset,
                format!("'{end}'"),
                &format!("milliseconds from the start offset, {start}"),
            );
        }
        paced.and(ramped)?;
        let ns = |ms: Option<u64>| ms.map(|ms| ms * NS_PER_MS);
        Some(Pacing::FixedSchedule { auto_offset, start_offset_ns: ns(start), end_offset_ns: ns(end) })
    }

    /// Users who each send their turns a fixed time apart.
    fn users(&mut self, id: Id, rank: u8) -> Option<Pacing> {
        let mut alien = vec![Id::RateSeries, Id::Smoothness];
        alien.extend(RATE_RAMP);
        if id == Id::UserRate {
            alien.push(Id::RequestRate);
            if self.settings.text(Id::ArrivalPattern) != Some(USERS) {
                alien.push(Id::ArrivalPattern);
            }
        }
        let fits = self.exclude_from(
            rank,
            id,
            &alien,
            "users send at a steady rate of their own; drop one of the two",
        );
        self.stray(&OFFSETS, rank, "--fixed-schedule", "it is about the timestamps of a file");
        let per_second = self.settings.float(Id::UserRate).or_else(|| self.settings.float(Id::RequestRate));
        if per_second.is_none() {
            self.needs(id, "rate", "users send at a rate");
        }
        let users = self.settings.int(Id::Users).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        match users {
            None => self.needs(id, "--num-users", "the rate is that of so many users together"),
            Some(users) => {
                for stop in [Id::RequestCount, Id::Conversations] {
                    if let Some(n) = self.settings.int(stop).filter(|n| *n < u64::from(users)) {
                        let allowed = format!("a whole number from {users}, one for each of the users");
                        self.bad(stop, format!("'{n}'"), &allowed);
                    }
                }
            }
        }
        // How many turns a file's conversations have is known when it is opened.
        if !self.whole.has(Id::InputFile) && self.mean_turns() < 2.0 {
            self.needs(
                id,
                "--conversation-turn-mean of at least 2",
                "users come back for more turns; for single turns there is --request-rate",
            );
        }
        fits?;
        Some(Pacing::UserCentric { per_second: per_second?, users: users? })
    }

    fn mean_turns(&self) -> f64 {
        match self.whole.lengths(Id::TurnsShape) {
            Some(shape) => shape.scale(),
            None => self.whole.float_or_default(Id::Turns),
        }
    }

    /// A rate, or whenever a place is free.
    fn open_or_closed(&mut self, source: Source<'a>) -> Option<Pacing> {
        let pacing = self.open_loop(source.knobs, source);
        let rank = match &pacing {
            Some(Pacing::Rate { .. }) => {
                [Id::RequestRate, Id::RateSeries].map(|id| self.rank(id)).into_iter().max()
            }
            _ => self.settings.place(Id::ArrivalPattern).map(Place::rank),
        };
        let rank = rank.unwrap_or(0);
        self.stray(
            &[Id::Users],
            rank,
            "--user-centric-rate",
            "it is how many users send at that rate together",
        );
        self.stray(&OFFSETS, rank, "--fixed-schedule", "it is about the timestamps of a file");
        pacing
    }

    /// The pacing that a rate and a pattern of `knobs` ask for; `None` when they are in conflict.
    fn open_loop(&mut self, knobs: &'static Knobs, source: Source<'a>) -> Option<Pacing> {
        let pattern = self.settings.text(knobs.pattern).filter(|word| ![USERS, SCHEDULE].contains(word));
        let pattern_rank = self.rank(knobs.pattern);
        let has = |id: Id| self.settings.has(id).then(|| self.rank(id));
        let (steady, series) = (has(knobs.rate), has(knobs.series));
        if let (Some(one), Some(other)) = (steady, series)
            && one == other
        {
            self.exclude(knobs.rate, knobs.series, "both say how many arrivals there are; keep one");
            return None;
        }
        let Some(rate_rank) = steady.max(series) else {
            self.needs(knobs.smoothness, "a request rate", "it shapes the gaps between arrivals");
            if pattern.is_some_and(|p| p != BURST) {
                self.pattern_without_rate(knobs.pattern);
            }
            self.ramp(source, |k| &k.rate_ramp, false, pattern_rank, "a request rate");
            return Some(Pacing::Concurrency);
        };
        let said = if steady >= series { knobs.rate } else { knobs.series };
        if pattern == Some(BURST) {
            if pattern_rank == rate_rank {
                self.exclude(
                    knobs.pattern,
                    said,
                    "concurrency_burst sends whenever a place is free and so has no rate; drop one of the two",
                );
                return None;
            }
            if pattern_rank > rate_rank {
                self.ramp(source, |k| &k.rate_ramp, false, pattern_rank, "a request rate");
                return Some(Pacing::Concurrency);
            }
        }
        let arrival = self.arrival(knobs, pattern)?;
        let shape = match self.settings.float(said) {
            Some(per_second) => RateShape::Steady(per_second),
            None => RateShape::Series(self.series(said)?),
        };
        Some(self.at_rate(shape, arrival, source))
    }

    fn arrival(&mut self, knobs: &Knobs, pattern: Option<&str>) -> Option<Arrival> {
        let smoothness = self.settings.float(knobs.smoothness);
        Some(match (pattern, smoothness) {
            (Some("gamma"), smoothness) => Arrival::Gamma { smoothness: smoothness.unwrap_or(1.0) },
            (Some("constant"), None) => Arrival::Constant,
            (Some("poisson" | BURST) | None, None) => Arrival::Poisson,
            (Some(BURST) | None, Some(smoothness)) => Arrival::Gamma { smoothness },
            (Some(_), _) => {
                self.exclude(
                    knobs.smoothness,
                    knobs.pattern,
                    "only gamma gaps have a shape; choose the pattern gamma or drop the smoothness",
                );
                return None;
            }
        })
    }

    fn at_rate(&mut self, shape: RateShape, arrival: Arrival, source: Source<'a>) -> Pacing {
        let ramp = self.ramp(source, |k| &k.rate_ramp, true, 0, "--request-rate");
        Pacing::Rate { rate: RatePlan { shape, ramp }, arrival }
    }

    fn series(&mut self, id: Id) -> Option<Vec<RatePoint>> {
        let path = match &self.settings.get(id)?.value {
            Value::Series(points) => return Some(points.clone()),
            Value::Text(path) => path.clone(),
            _ => return None,
        };
        match rate_series::read(Path::new(&path)) {
            Ok(points) => Some(points),
            Err(problem) => {
                let place = self.place(id)?;
                self.errors.push(ConfigError::File { place, path: path.into(), problem });
                None
            }
        }
    }

    /// The pacing of a warm-up, which takes rate and pattern of the profiling phase where it has none of its own.
    pub(super) fn warmup_pacing(&mut self, source: Source<'a>, main: Option<&Pacing>) -> Option<Pacing> {
        let knobs = source.knobs;
        let own_rate = self.settings.float(knobs.rate);
        let own_pattern = self.settings.text(knobs.pattern);
        let main_rate = match main {
            Some(Pacing::Rate { rate: RatePlan { shape: RateShape::Steady(rate), .. }, .. }) => Some(*rate),
            _ => None,
        };
        let is_whole = own_pattern == Some(BURST)
            || (own_rate.is_some() && own_pattern.is_some())
            || self.settings.has(knobs.series);
        let base = source.base.filter(|_| !is_whole);
        let Some((per_second, base)) = own_rate.or(main_rate).zip(base) else {
            return self.open_loop(knobs, source);
        };
        // Only a pattern that was written is taken over, not a gamma that the main smoothness implied.
        let pattern = own_pattern.or_else(|| base.text(PROFILING.pattern));
        let smoothness = self.settings.float(knobs.smoothness);
        let arrival = match (pattern, smoothness) {
            (Some("constant"), _) => Arrival::Constant,
            (Some("gamma"), own) => {
                Arrival::Gamma { smoothness: own.or_else(|| base.float(PROFILING.smoothness)).unwrap_or(1.0) }
            }
            (None, Some(smoothness)) => Arrival::Gamma { smoothness },
            _ => Arrival::Poisson,
        };
        if matches!(arrival, Arrival::Constant | Arrival::Poisson) && smoothness.is_some() {
            self.needs(knobs.smoothness, "--warmup-arrival-pattern gamma", "other gaps have no shape");
        }
        Some(self.at_rate(RateShape::Steady(per_second), arrival, source))
    }

    /// A file's phase must be whole; on a command line AIPerf lets the pattern stand without effect.
    fn pattern_without_rate(&mut self, pattern: Id) {
        match self.place(pattern) {
            Some(Place::File { .. }) => self.needs(pattern, "rate", "its arrivals come at a rate"),
            Some(place) => self.notes.push(format!("{place} has no effect without a request rate")),
            None => {}
        }
    }
}
