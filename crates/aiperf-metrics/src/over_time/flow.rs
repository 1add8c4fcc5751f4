//! All curves in one go: what happens at each instant, in order, and the values that hold in between.

use aiperf_core::outcome::Outcome;

use super::{first, is_completed};
use crate::column::IntColumn;
use crate::rows::RequestRows;
use crate::summary::Window;

/// Number of [`Line`]s.
pub(super) const LINES: usize = 9;

/// A function of time that curves are made of. Rates are in tokens a nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    Concurrency,
    Prefill,
    PrefillPerUser,
    PrefillConcurrency,
    Decode,
    DecodePerUser,
    DecodeConcurrency,
    Total,
    Tokens,
}

impl Line {
    pub(super) const ALL: [Self; LINES] = [
        Self::Concurrency,
        Self::Prefill,
        Self::PrefillPerUser,
        Self::PrefillConcurrency,
        Self::Decode,
        Self::DecodePerUser,
        Self::DecodeConcurrency,
        Self::Total,
        Self::Tokens,
    ];
}

/// What happens; beside it is where to look for how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Start,
    First,
    End,
    Gap,
    LastGap,
}

/// Bits of an event's index; what it is comes above.
const INDEX: u32 = 28;
/// An instant that is not there, and a length.
const NEVER: u64 = u64::MAX;
const UNKNOWN: u32 = u32::MAX;

impl Event {
    const fn at(self, index: usize) -> u32 {
        (self as u32) << INDEX | index as u32
    }

    const fn of(word: u32) -> (Self, usize) {
        let event = match word >> INDEX {
            0 => Self::Start,
            1 => Self::First,
            2 => Self::End,
            3 => Self::Gap,
            _ => Self::LastGap,
        };
        (event, word as usize & ((1 << INDEX) - 1))
    }
}

/// What is needed of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) start: u64,
    first: u64,
    last: u64,
    end: u64,
    isl: u32,
    osl: u32,
    /// Pace over the first gap, where decode is told by gaps.
    pace: f64,
    pub(super) is_completed: bool,
    has_gaps: bool,
}

impl Span {
    /// First and last content of an answer that came whole.
    pub(super) fn content(&self) -> Option<(u64, u64)> {
        (self.first != NEVER && self.last != NEVER).then_some((self.first, self.last))
    }

    /// Prompt tokens a nanosecond while in prefill.
    fn prefill(&self) -> f64 {
        if self.isl == UNKNOWN || self.first <= self.start {
            return 0.0;
        }
        f64::from(self.isl) / (self.first - self.start) as f64
    }

    /// Answer tokens but the first, which came at once, a nanosecond, spread over the whole decode.
    fn decode(&self) -> f64 {
        if matches!(self.osl, 0 | UNKNOWN) || self.end <= self.first {
            return 0.0;
        }
        f64::from(self.osl - 1) / (self.end - self.first) as f64
    }

    /// Tokens of the prompt and of the answer that the server holds at the end. One without gaps has its whole answer from the first
    /// content on.
    fn tokens(&self) -> [f64; 2] {
        let isl = if self.isl == UNKNOWN || self.first <= self.start { 0 } else { self.isl };
        let has_answer = self.osl != UNKNOWN && (self.has_gaps || self.end > self.first);
        [f64::from(isl), if has_answer { f64::from(self.osl) } else { 0.0 }]
    }
}

/// What a gap's end changes: the pace of its request, and the tokens that came.
#[derive(Debug, Clone, Copy)]
struct Gap {
    pace: f64,
    tokens: f64,
}

/// Everything that happens to the requests of a phase, in order.
#[derive(Debug)]
pub(super) struct Flow {
    spans: Vec<Span>,
    gaps: Vec<Gap>,
    events: Vec<(u64, u32)>,
    by_chunk: bool,
    has_streams: bool,
}

impl Flow {
    /// Of all requests, with the gaps between the chunks of completed ones, where decode is to be told by them.
    pub(super) fn of(rows: &RequestRows, gaps: Option<&IntColumn>) -> Self {
        let mut flow = Self {
            spans: Vec::with_capacity(rows.len()),
            gaps: Vec::with_capacity(gaps.map_or(0, IntColumn::len)),
            events: Vec::with_capacity(rows.len() * 3 + gaps.map_or(0, IntColumn::len)),
            by_chunk: gaps.is_some(),
            has_streams: false,
        };
        let mut column = gaps.map(IntColumn::iter);
        let mut own = Vec::new();
        for row in rows.iter() {
            own.clear();
            if let Some(gaps) = column.as_mut().filter(|_| is_completed(&row)) {
                own.extend(gaps.take(row.chunks.saturating_sub(1) as usize));
            }
            let first = first(&row);
            let known = |length: Option<u32>| length.map_or(UNKNOWN, |n| n.min(UNKNOWN - 1));
            let at = flow.spans.len();
            flow.spans.push(Span {
                start: row.start_ns,
                first: first.unwrap_or(NEVER),
                last: row.last_ns.unwrap_or(NEVER),
                end: row.end_ns,
                isl: known(row.isl),
                osl: known(row.osl),
                pace: 0.0,
                is_completed: row.outcome == Outcome::Completed,
                has_gaps: !own.is_empty(),
            });
            flow.events.push((row.start_ns, Event::Start.at(at)));
            flow.events.push((row.end_ns, Event::End.at(at)));
            if let Some(first) = first {
                flow.has_streams = true;
                flow.events.push((first, Event::First.at(at)));
                if let Some(osl @ 1..) = row.osl {
                    flow.spans[at].pace = flow.spread(first, row.end_ns, osl, &own);
                }
            }
        }
        sort(&mut flow.events);
        flow
    }

    /// The answer's tokens but the first over the gaps; each that is not 0 has the same number. Gives the pace over the first gap.
    fn spread(&mut self, first: u64, end: u64, osl: u32, gaps: &[u64]) -> f64 {
        let with_time = gaps.iter().filter(|gap| **gap > 0).count();
        let each = f64::from(osl - 1) / with_time as f64;
        let token = f64::from(osl - 1) / gaps.len() as f64;
        let mut nonzero = gaps.iter().copied().filter(|gap| *gap > 0);
        let pace = |gap: Option<u64>| gap.map_or(0.0, |gap| each / gap as f64);
        let begin = pace(nonzero.next());
        let (mut now, mut at, mut left) = (begin, first, with_time);
        // Chunks that came together are one.
        let mut rest = gaps;
        while let Some(gap) = rest.first() {
            let together = rest[1..].iter().take_while(|gap| **gap == 0).count() + 1;
            rest = &rest[together..];
            let mut change = 0.0;
            if *gap > 0 {
                let next = pace(nonzero.next());
                (change, now) = (next - now, next);
                at += gap;
                left -= 1;
            }
            let event = if *gap > 0 && left == 0 { Event::LastGap } else { Event::Gap };
            self.events.push((at.min(end), event.at(self.gaps.len())));
            self.gaps.push(Gap { pace: change, tokens: token * together as f64 });
        }
        begin
    }

    /// Whether some answer streamed.
    pub(super) const fn has_streams(&self) -> bool {
        self.has_streams
    }

    /// How many things happen.
    pub(super) const fn len(&self) -> usize {
        self.events.len()
    }

    /// Goes through a window and hands over how long (never 0) which value of a line held, or that it was idle; and each request as it
    /// starts, wherever the window is, with how many are then in flight.
    pub(super) fn walk(
        &self,
        window: Window,
        mut take: impl FnMut(Line, Option<f64>, u64),
        mut started: impl FnMut(u64, &Span),
    ) {
        let (begin, end) = (window.start_ns, window.end_ns);
        let mut now = State::default();
        // NaN is idle.
        let mut held = now.lines();
        let mut since = [begin; LINES];
        let mut held_until = |line: usize, value: f64, since: u64, until: u64| {
            let (from, to) = (since.max(begin), until.min(end));
            if from < to {
                take(Line::ALL[line], (!value.is_nan()).then_some(value), to - from);
            }
        };
        let mut at = 0;
        while let Some((instant, _)) = self.events.get(at) {
            let same = self.events[at..].iter().take_while(|(other, _)| other == instant).count();
            let events = &self.events[at..at + same];
            at += same;
            let mut starts = false;
            for (_, word) in events {
                starts |= now.take(self, *word);
            }
            now.settle();
            let lines = now.lines();
            for line in 0..LINES {
                if lines[line].to_bits() != held[line].to_bits() {
                    held_until(line, held[line], since[line], *instant);
                    (held[line], since[line]) = (lines[line], *instant);
                }
            }
            if starts {
                for (_, word) in events {
                    if let (Event::Start, index) = Event::of(*word) {
                        started(now.in_flight.max(0) as u64, &self.spans[index]);
                    }
                }
            }
        }
        for line in 0..LINES {
            held_until(line, held[line], since[line], end);
        }
    }
}

/// Sums over the requests at an instant, each rate with the number of requests that are in it: where that is 0, so is the rate, whatever
/// rounding left.
#[derive(Debug, Default)]
struct State {
    in_flight: i64,
    prefilling: i64,
    decoding: i64,
    prefill: Sum,
    decode: Sum,
    total: Sum,
    tokens: Sum,
}

#[derive(Debug, Default)]
struct Sum {
    value: f64,
    parts: i64,
}

impl Sum {
    fn begin(&mut self, part: f64) {
        self.value += part;
        self.parts += i64::from(part > 0.0);
    }

    fn end(&mut self, part: f64) {
        self.value -= part;
        self.parts -= i64::from(part > 0.0);
    }

    fn settle(&mut self) {
        if self.parts == 0 {
            self.value = 0.0;
        }
    }
}

impl State {
    /// Whether it was a start.
    fn take(&mut self, flow: &Flow, word: u32) -> bool {
        let (event, index) = Event::of(word);
        match event {
            Event::Start => {
                self.in_flight += 1;
                let span = &flow.spans[index];
                if span.first != NEVER {
                    self.prefilling += 1;
                    self.prefill.begin(span.prefill());
                    self.total.begin(span.prefill());
                    self.tokens.value += span.tokens()[0];
                    self.tokens.parts += 1;
                }
            }
            Event::First => {
                let span = &flow.spans[index];
                (self.prefilling, self.decoding) = (self.prefilling - 1, self.decoding + 1);
                self.prefill.end(span.prefill());
                self.total.end(span.prefill());
                self.total.begin(span.decode());
                self.decode.begin(if flow.by_chunk { span.pace } else { span.decode() });
                let [_, osl] = span.tokens();
                self.tokens.value += if span.has_gaps { osl.min(1.0) } else { osl };
            }
            Event::End => {
                self.in_flight -= 1;
                let span = &flow.spans[index];
                if span.first != NEVER {
                    self.decoding -= 1;
                    self.total.end(span.decode());
                    if !flow.by_chunk {
                        self.decode.end(span.decode());
                    }
                    self.tokens.value -= span.tokens().iter().sum::<f64>();
                    self.tokens.parts -= 1;
                }
            }
            Event::Gap | Event::LastGap => {
                let gap = flow.gaps[index];
                self.decode.value += gap.pace;
                self.decode.parts -= i64::from(event == Event::LastGap && gap.pace < 0.0);
                self.tokens.value += gap.tokens;
            }
        }
        event == Event::Start
    }

    fn settle(&mut self) {
        for sum in [&mut self.prefill, &mut self.decode, &mut self.total, &mut self.tokens] {
            sum.settle();
        }
    }

    /// NaN is a rate without a request that could have one.
    fn lines(&self) -> [f64; LINES] {
        let of = |count: i64, value: f64| if count > 0 { value } else { f64::NAN };
        let per = |rate: &Sum, count: i64| of(count, rate.value / count as f64);
        [
            self.in_flight as f64,
            of(self.prefilling, self.prefill.value),
            per(&self.prefill, self.prefilling),
            self.prefilling as f64,
            of(self.decoding, self.decode.value),
            per(&self.decode, self.decoding),
            self.decoding as f64,
            of(self.in_flight, self.total.value),
            self.tokens.value,
        ]
    }
}

/// Sorts by instant. Things come nearly in order, so a place by the clock is most of it.
fn sort(events: &mut Vec<(u64, u32)>) {
    const IN_A_PLACE: usize = 4;
    let instants = || events.iter().map(|(at, _)| *at);
    let (Some(least), Some(most)) = (instants().min(), instants().max()) else { return };
    let places = (events.len() / IN_A_PLACE).next_power_of_two().max(2);
    let shift = (64 - (most - least).leading_zeros()).saturating_sub(places.trailing_zeros());
    let place = |at: u64| ((at - least) >> shift) as usize;
    let mut ends = vec![0_usize; places + 1];
    instants().for_each(|at| ends[place(at) + 1] += 1);
    for at in 1..ends.len() {
        ends[at] += ends[at - 1];
    }
    let mut sorted = vec![(0, 0); events.len()];
    for event in events.iter() {
        let end = &mut ends[place(event.0)];
        sorted[*end] = *event;
        *end += 1;
    }
    let mut from = 0;
    for end in ends {
        sorted[from..end.max(from)].sort_unstable_by_key(|(at, _)| *at);
        from = end.max(from);
    }
    *events = sorted;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn places_by_the_clock_are_in_order(
            near in proptest::collection::vec(0u64..500, 0..200),
            far in proptest::collection::vec(any::<u64>(), 0..3),
        ) {
            let mut events: Vec<(u64, u32)> = near.into_iter().chain(far).zip(0..).collect();
            let mut slow = events.clone();
            slow.sort_unstable();
            sort(&mut events);
            prop_assert!(events.is_sorted_by_key(|(at, _)| *at));
            events.sort_unstable();
            prop_assert_eq!(events, slow);
        }
    }

    #[test]
    fn a_word_tells_what_it_was_made_of() {
        for event in [Event::Start, Event::First, Event::End, Event::Gap, Event::LastGap] {
            assert_eq!(Event::of(event.at(4_000_000)), (event, 4_000_000));
        }
    }
}
