//! The questions in their order, and the time each of them gets.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use aiperf_core::time::{NS_PER_S, ns_to_ms};
use aiperf_metrics::{Health, PhaseHealth, Spread, Stats, WarningCode, verdict};
use aiperf_os::mono_ns;

use super::error::DoctorError;
use super::figures::{Examination, Lag, LeftOut, Machine, Peak, RateStep, StreamStep};
use super::judge;
use super::machine;
use super::server::{Served, Server};
use super::trial::{Measured, Trial};
use crate::interrupt::Interrupt;

/// No measurement is shorter.
const LEAST_NS: u64 = 60_000_000;
/// A first look that pages in what all of them use.
const WARM_UP_NS: u64 = 50_000_000;
/// Time for answers behind the end of sending.
const GRACE_NS: u64 = NS_PER_S;
/// Requests at once for each thread that sends: a run takes one more thread for so many more.
const PLACES: u32 = 64;
/// Tokens of a short answer.
const SHORT: u32 = 4;
/// Tokens, which are chunks, of a long one.
const LONG: u32 = 128;
/// From chunk to chunk of a held stream.
const GAP_NS: u64 = 100_000_000;
/// Share of a measurement's time that held streams last; the rest is for opening them.
const STREAM_SHARE: f64 = 0.6;
/// Streams are to be opened in this share of the time that they last: later ones would not meet the first.
const OPENING_SHARE: f64 = 0.9;
/// Fewest chunks of a held stream.
const FEWEST_CHUNKS: u64 = 3;
/// Descriptors that are not for connections: files, timers, pipes, the standard streams. More than a run keeps for them.
const OTHER_DESCRIPTORS: u64 = 40;
/// Rates beyond those asked for, until one is not held.
const LADDER: [f64; 6] = [2_000.0, 5_000.0, 10_000.0, 20_000.0, 50_000.0, 100_000.0];

/// Weights by which measurements share the time.
const PEAK_WEIGHT: f64 = 1.0;
const RATE_WEIGHT: f64 = 1.0;
const LADDER_WEIGHT: f64 = 0.25;
const STREAMS_WEIGHT: f64 = 1.5;
/// Streams that take one weight more to be opened.
const STREAMS_OF_WEIGHT: f64 = 2_500.0;

/// As fast as it can, no limit on what is served at once.
const AT_ONCE: &str = "ttft=0&itl=0&max-batch=0";
/// A token of each stream every [`GAP_NS`].
const PACED: &str = "ttft=0&itl=100&max-batch=0";

/// What is to be found out.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    /// Time for all of it together, about.
    pub budget: Duration,
    /// Rates of arrivals, a second.
    pub rates: Vec<f64>,
    /// Streams at once.
    pub streams: Vec<u32>,
    /// Most threads that send; `None` lets each run choose.
    pub workers_max: Option<usize>,
}

/// Measures. `server` is to run [`serve`](super::serve) over its standard streams; `tell` hears what is measured next. Stops where
/// it is when `interrupt` is fired, with what was measured until then.
pub fn examine(
    wish: &Wish,
    server: Command,
    interrupt: &Arc<Interrupt>,
    tell: &mut dyn FnMut(&str),
) -> Result<Examination, DoctorError> {
    let start_ns = mono_ns();
    let machine = machine::look();
    let mut examiner = Examiner {
        server: Server::spawn(server)?,
        interrupt,
        tell,
        allowed: allowed(&machine),
        workers: wish.workers_max.unwrap_or_else(|| machine.cores.saturating_sub(1)).max(1),
        budget: Budget {
            end_ns: start_ns.saturating_add(u64::try_from(wish.budget.as_nanos()).unwrap_or(u64::MAX)),
            weights: 2.0 * PEAK_WEIGHT
                + RATE_WEIGHT * wish.rates.len() as f64
                + LADDER_WEIGHT * LADDER.len() as f64
                + wish.streams.iter().map(|streams| streams_weight(*streams)).sum::<f64>(),
        },
        found: Examination {
            aiperf_doctor: 1,
            seconds: 0.0,
            interrupted: false,
            machine,
            requests: None,
            chunks: None,
            rates: Vec::new(),
            streams: Vec::new(),
            bytes_per_stream: None,
            left_out: Vec::new(),
            advice: Vec::new(),
        },
    };
    // A measurement that the user stopped ends them all.
    let _: Option<()> = examiner.all(wish)?;
    let mut found = examiner.found;
    // What a run measured counts more than a short look.
    found.machine.receive_stamps |= found.streams.iter().any(|step| step.read_lag.is_some());
    found.interrupted = interrupt.fired();
    found.seconds = mono_ns().saturating_sub(start_ns) as f64 / 1e9;
    found.advice = judge::advice(&found);
    Ok(found)
}

/// Time, shared by weights among what is still to be measured.
#[derive(Debug)]
struct Budget {
    end_ns: u64,
    /// Of what is still to come.
    weights: f64,
}

impl Budget {
    /// The share of a measurement of `weight`, which is then no more to come.
    fn take(&mut self, weight: f64, now_ns: u64) -> u64 {
        let share = (weight / self.weights.max(weight)).min(1.0);
        self.give_back(weight);
        ((self.end_ns.saturating_sub(now_ns) as f64 * share) as u64).max(LEAST_NS)
    }

    /// A measurement of `weight` is not made.
    fn give_back(&mut self, weight: f64) {
        self.weights = (self.weights - weight).max(0.0);
    }
}

struct Examiner<'a> {
    server: Server,
    interrupt: &'a Arc<Interrupt>,
    tell: &'a mut dyn FnMut(&str),
    /// Connections that can be open.
    allowed: u32,
    /// Threads that send, at most.
    workers: usize,
    budget: Budget,
    found: Examination,
}

impl Examiner<'_> {
    /// Everything; `None` when the user stopped it.
    fn all(&mut self, wish: &Wish) -> Result<Option<()>, DoctorError> {
        let warm_up = Trial { streaming: true, sending_ns: WARM_UP_NS, places: 1, ..self.closed_loop(LONG) };
        let Some(warm) = self.run(warm_up)? else { return Ok(None) };
        // Held streams first: memory that other measurements have used and given back would hide what a stream takes.
        if self.streams(&wish.streams, warm.resident)?.is_none() {
            return Ok(None);
        }
        (self.tell)("Measuring the highest rate of requests ...");
        let sending_ns = self.budget.take(PEAK_WEIGHT, mono_ns());
        let trial = Trial { sending_ns, ..self.closed_loop(SHORT) };
        let Some(measured) = self.run(trial)? else { return Ok(None) };
        self.found.requests = Some(peak(&trial, &measured, "requests", 1)?);

        (self.tell)("Measuring the highest rate of chunks ...");
        let sending_ns = self.budget.take(PEAK_WEIGHT, mono_ns());
        let trial = Trial { streaming: true, sending_ns, ..self.closed_loop(LONG) };
        let Some(measured) = self.run(trial)? else { return Ok(None) };
        self.found.chunks = Some(peak(&trial, &measured, "chunks", u64::from(LONG))?);
        self.rates(&wish.rates)
    }

    fn run(&mut self, trial: Trial) -> Result<Option<Measured>, DoctorError> {
        if self.interrupt.fired() {
            return Ok(None);
        }
        trial.run(&mut self.server, self.interrupt)
    }

    fn closed_loop(&self, tokens: u32) -> Trial {
        Trial {
            server: AT_ONCE,
            streaming: false,
            tokens,
            rate: None,
            places: PLACES.saturating_mul(self.workers as u32).min(self.allowed).max(1),
            sending_ns: LEAST_NS,
            grace_ns: GRACE_NS,
            workers_max: Some(self.workers),
        }
    }

    /// All rates asked for, and higher ones until one is not held.
    fn rates(&mut self, asked: &[f64]) -> Result<Option<()>, DoctorError> {
        let mut asked = asked.to_vec();
        asked.sort_by(f64::total_cmp);
        asked.dedup();
        for rate in &asked {
            if self.rate(*rate, RATE_WEIGHT)?.is_none() {
                return Ok(None);
            }
        }
        let highest = asked.last().copied().unwrap_or(0.0);
        // What a closed loop does not come to is no rate to be held.
        let most = self.found.requests.as_ref().map_or(f64::INFINITY, |peak| peak.per_second);
        for rate in LADDER.into_iter().filter(|rate| *rate > highest) {
            if rate >= most || self.found.rates.last().is_some_and(|step| !step.held) {
                break;
            }
            if mono_ns() >= self.budget.end_ns {
                self.found.left_out.push(LeftOut {
                    what: format!("rates from {rate} a second on"),
                    reason: "the time was over".to_owned(),
                });
                break;
            }
            if self.rate(rate, LADDER_WEIGHT)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    fn rate(&mut self, rate: f64, weight: f64) -> Result<Option<()>, DoctorError> {
        (self.tell)(&format!("Measuring sends at {rate} a second ..."));
        let sending_ns = self.budget.take(weight, mono_ns());
        let trial = Trial { rate: Some(rate), sending_ns, ..self.closed_loop(SHORT) };
        let Some(Measured { health, served, .. }) = self.run(trial)? else { return Ok(None) };
        let cost = judge::cost(&health, &served, health.arrivals.sent);
        let held = is_held(&health);
        let (limit, why) = judge::limit(&cost);
        self.found.rates.push(RateStep {
            asked: rate,
            achieved: health.achieved_rate(),
            sent: health.arrivals.sent,
            late: health.arrivals.late,
            send_lag: health.send_lag.map(lag),
            loop_lag: Spread::of_lags(&health.loop_lag()).map(lag),
            held,
            cost,
            limit,
            reason: if held { judge::evidence(&cost) } else { why },
        });
        Ok(Some(()))
    }

    /// Streams at once, as many as descriptors and ports allow; `resident` is the memory without any.
    fn streams(&mut self, asked: &[u32], resident: Option<u64>) -> Result<Option<()>, DoctorError> {
        let mut asked = asked.to_vec();
        asked.sort_unstable();
        asked.dedup();
        let allowed = self.allowed;
        let mut memory: Vec<(u64, u64)> = resident.map(|bytes| (0, bytes)).into_iter().collect();
        let mut most = 0;
        for wanted in asked {
            let places = wanted.min(allowed);
            if places < wanted {
                self.found.left_out.push(LeftOut {
                    what: format!("{wanted} streams"),
                    reason: format!(
                        "open files (ulimit -n) and local ports (net.ipv4.ip_local_port_range) allow {allowed} connections here"
                    ),
                });
            }
            if places <= most {
                self.budget.give_back(streams_weight(wanted));
                continue;
            }
            most = places;
            (self.tell)(&format!("Measuring streams, {places} at once ..."));
            let time_ns = self.budget.take(streams_weight(wanted), mono_ns());
            let Some(measured) = self.held(places, time_ns)? else { return Ok(None) };
            let held = self.found.streams.last().map_or(0, |step| step.held);
            memory.extend(measured.resident.map(|bytes| (held, bytes)));
        }
        if let [.., (fewer, less), (more, bytes)] = memory[..]
            && more > fewer
        {
            self.found.bytes_per_stream = Some(bytes.saturating_sub(less) / (more - fewer));
        }
        Ok(Some(()))
    }

    fn held(&mut self, places: u32, time_ns: u64) -> Result<Option<Measured>, DoctorError> {
        let chunks = ((time_ns as f64 * STREAM_SHARE) as u64 / GAP_NS).max(FEWEST_CHUNKS);
        let lasting_ns = chunks * GAP_NS;
        let trial = Trial {
            server: PACED,
            streaming: true,
            // The first comes at once, and a gap is before each of the others.
            tokens: u32::try_from(chunks + 1).unwrap_or(u32::MAX),
            places,
            // It is over before the first stream is, so that no place opens a second one.
            sending_ns: (lasting_ns as f64 * OPENING_SHARE) as u64,
            grace_ns: lasting_ns + GRACE_NS,
            ..self.closed_loop(SHORT)
        };
        let Some(measured) = self.run(trial)? else { return Ok(None) };
        let Measured { health, summary, served, .. } = &measured;
        if summary.tally.completed == 0 {
            return Err(DoctorError::Unanswered("streams"));
        }
        let cost = judge::cost(health, served, served.chunks);
        let held = health.in_flight().peak().unwrap_or(0);
        let (limit, why) = judge::limit(&cost);
        self.found.streams.push(StreamStep {
            asked: places,
            held,
            gap_ms: ns_to_ms(GAP_NS),
            gap_error: summary.get("inter_chunk_latency").and_then(gap_error),
            server_late_mean_ms: server_late(served),
            read_lag: health.read_lag.map(lag),
            loop_lag: Spread::of_lags(&health.loop_lag()).map(lag),
            completed: summary.tally.completed,
            failed: summary.tally.sent - summary.tally.completed,
            cost,
            limit,
            reason: if held < u64::from(places) {
                format!("not all could be opened before the first ended, more time may help: {why}")
            } else {
                judge::evidence(&cost)
            },
        });
        Ok(Some(measured))
    }
}

/// The most that a closed loop came to: `each` of `what` in every answer.
fn peak(trial: &Trial, measured: &Measured, what: &'static str, each: u64) -> Result<Peak, DoctorError> {
    let count = measured.summary.tally.completed * each;
    let window = measured.summary.window;
    let seconds = window.end_ns.saturating_sub(window.start_ns) as f64 / 1e9;
    if count == 0 || seconds <= 0.0 {
        return Err(DoctorError::Unanswered(what));
    }
    let cost = judge::cost(&measured.health, &measured.served, count);
    let (limit, reason) = judge::limit(&cost);
    Ok(Peak {
        at_once: trial.places,
        workers: measured.health.shards.len(),
        count,
        seconds,
        per_second: count as f64 / seconds,
        per_worker_per_second: cost.sending_us.filter(|us| *us > 0.0).map(|us| 1e6 / us),
        cost,
        limit,
        reason,
    })
}

/// Connections that descriptors and ports allow: those of the client, for the server has its own.
fn allowed(machine: &Machine) -> u32 {
    let descriptors = machine.descriptors.map(|d| d.used.saturating_sub(OTHER_DESCRIPTORS));
    let ports = machine.ports.map(|p| u64::from(p.connections));
    let allowed = descriptors.into_iter().chain(ports).min().unwrap_or(u64::MAX);
    u32::try_from(allowed).unwrap_or(u32::MAX)
}

fn streams_weight(streams: u32) -> f64 {
    STREAMS_WEIGHT + f64::from(streams) / STREAMS_OF_WEIGHT
}

/// Whether a run at this rate would say that it kept it.
fn is_held(health: &PhaseHealth) -> bool {
    let of_it = Health { phases: vec![health.clone()], ..Health::default() };
    health.arrivals.sent > 0
        && !verdict(&of_it)
            .warnings
            .iter()
            .any(|warning| matches!(warning.code, WarningCode::LateSends | WarningCode::UnreachedRate))
}

fn lag(spread: Spread) -> Lag {
    Lag { p50_ms: ns_to_ms(spread.p50_ns), p99_ms: ns_to_ms(spread.p99_ns), max_ms: ns_to_ms(spread.max_ns) }
}

/// How far gaps, in milliseconds, are from what they are meant to be, on either side.
fn gap_error(gaps: &Stats) -> Option<Lag> {
    let off = |name: &str| gaps.get(name).map(|gap| (gap - ns_to_ms(GAP_NS)).abs());
    Some(Lag {
        p50_ms: off("p50")?,
        p99_ms: off("p99")?.max(off("p1")?),
        max_ms: off("max")?.max(off("min")?),
    })
}

fn server_late(served: &Served) -> Option<f64> {
    (served.late_count > 0).then(|| ns_to_ms(served.late_sum_ns / served.late_count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use aiperf_metrics::{Arrivals, Asked, Span};

    #[test]
    fn time_is_shared_by_weight_and_what_is_saved_goes_to_the_others() {
        let mut budget = Budget { end_ns: 10 * NS_PER_S, weights: 5.0 };
        assert_eq!(budget.take(1.0, 0), 2 * NS_PER_S);
        // It was over in half its time.
        assert_eq!(budget.take(2.0, NS_PER_S), 9 * NS_PER_S / 2);
        budget.give_back(1.0);
        assert_eq!(budget.take(1.0, 5 * NS_PER_S), 5 * NS_PER_S);
        // Nothing is left, of time or of weights.
        assert_eq!(budget.take(1.0, 11 * NS_PER_S), LEAST_NS);
    }

    fn health(sent: u64, late: u64) -> PhaseHealth {
        let mut scheduled = Span::default();
        (0..100).for_each(|i| scheduled.add(i * 10_000_000));
        let mut dispatched = Span::default();
        (0..sent).for_each(|i| dispatched.add(i * 10_000_000));
        PhaseHealth {
            asked: Asked { rate: Some(100.0), peak_rate: Some(100.0), ..Asked::default() },
            arrivals: Arrivals { scheduled: 100, sent, late, ..Arrivals::default() },
            scheduled,
            dispatched,
            ..PhaseHealth::default()
        }
    }

    #[test]
    fn a_rate_is_held_when_all_of_it_leaves_on_time() {
        assert!(is_held(&health(100, 1)));
        assert!(!is_held(&health(100, 2)), "2 % are late");
        assert!(!is_held(&health(90, 0)), "a tenth is missing");
        assert!(!is_held(&health(0, 0)));
    }

    #[test]
    fn gaps_are_off_on_either_side() {
        let values = aiperf_metrics::Distribution {
            avg: 100.0,
            min: 92.0,
            max: 105.0,
            std: 1.0,
            percentiles: [97.0, 98.0, 99.0, 100.0, 100.5, 101.0, 101.5, 102.0, 102.5],
            sum: 1.0,
            count: 1,
        };
        let stats = Stats::Distribution { unit: aiperf_metrics::Unit::Milliseconds, values };
        assert_eq!(gap_error(&stats), Some(Lag { p50_ms: 0.5, p99_ms: 3.0, max_ms: 8.0 }));
        let one = Stats::Scalar { unit: aiperf_metrics::Unit::Milliseconds, value: 1.0 };
        assert_eq!(gap_error(&one), None);
    }

    #[test]
    fn the_servers_lateness_is_its_mean() {
        let served = Served { late_sum_ns: 6_000_000, late_count: 4, ..Served::default() };
        assert_eq!(server_late(&served), Some(1.5));
        assert_eq!(server_late(&Served::default()), None);
    }
}
