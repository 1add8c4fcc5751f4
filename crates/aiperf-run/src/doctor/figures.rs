//! What is known in the end: plain numbers, as files hold them and texts tell them. What was not measured is absent.

use serde::Serialize;

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Examination {
    /// Form of this document.
    pub aiperf_doctor: u32,
    /// How long it took, seconds.
    pub seconds: f64,
    /// The user stopped it; what is there was measured before.
    pub interrupted: bool,
    /// The machine.
    pub machine: Machine,
    /// The highest rate of requests, in a closed loop of short answers.
    pub requests: Option<Peak>,
    /// The highest rate of chunks, in a closed loop of streams that come as fast as they can.
    pub chunks: Option<Peak>,
    /// Rates of arrivals, lowest first.
    pub rates: Vec<RateStep>,
    /// Streams at once, fewest first.
    pub streams: Vec<StreamStep>,
    /// Memory of the client for each further stream, bytes.
    pub bytes_per_stream: Option<u64>,
    /// What was asked for and not measured.
    pub left_out: Vec<LeftOut>,
    /// What to do about it, a sentence or two each.
    pub advice: Vec<String>,
}

/// What the system says of itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// Cores this process may run on.
    pub cores: usize,
    /// What the clock is made of.
    pub clock_source: Option<String>,
    /// The smallest step it was seen to take, nanoseconds.
    pub clock_step_ns: Option<u64>,
    /// Timers of a thread may be as exact as the kernel can make them.
    pub timer_slack_granted: bool,
    /// Open files.
    pub descriptors: Option<Descriptors>,
    /// Local ports of connections.
    pub ports: Option<Ports>,
    /// The kernel says when it received what is read.
    pub receive_stamps: bool,
    /// Share of the ten seconds before in which something had to wait for a core, percent.
    pub cpu_pressure_percent: Option<f64>,
    /// Threads that ran or wanted to, in the mean of the minute before.
    pub load_average: Option<f64>,
}

/// Limits of open files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Descriptors {
    /// The soft limit as it was found.
    pub soft: u64,
    /// The hard limit: a run raises the soft one to it.
    pub hard: u64,
    /// The limit that a run has.
    pub used: u64,
}

/// Local ports that the system gives out on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Ports {
    /// First.
    pub first: u16,
    /// Last.
    pub last: u16,
    /// So many connections can be open to one address.
    pub connections: u32,
}

/// What kept a measurement from giving more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The client: its threads had no time left.
    Client,
    /// The simulated server: its thread had no time left.
    Server,
    /// Both had no time left.
    Both,
    /// The machine: one of them had to wait for a core.
    Machine,
    /// None of these.
    None,
}

/// CPU time, of each request or chunk, microseconds; and who was how busy, cores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Of the threads that send and receive, each.
    pub sending_us: Option<f64>,
    /// Of all the client's threads, each: those that make prompts and read answers included.
    pub client_us: Option<f64>,
    /// Of the simulated server, each.
    pub server_us: Option<f64>,
    /// Busiest sending thread of the client, share of a core.
    pub client_busy: Option<f64>,
    /// The share of the time in which it had to wait for a core, at most.
    pub client_waited: Option<f64>,
    /// The server's thread, share of a core.
    pub server_busy: Option<f64>,
    /// The share of the time in which it had to wait for a core.
    pub server_waited: Option<f64>,
}

/// The most there was.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Peak {
    /// Requests at once.
    pub at_once: u32,
    /// Threads that sent.
    pub workers: usize,
    /// How many came back.
    pub count: u64,
    /// In this time, seconds.
    pub seconds: f64,
    /// So many a second.
    pub per_second: f64,
    /// What one sending thread could do alone on a core of its own, by its CPU time.
    pub per_worker_per_second: Option<f64>,
    /// CPU time of each.
    pub cost: Cost,
    /// What was the limit.
    pub limit: Limit,
    /// In words, with the evidence.
    pub reason: String,
}

/// A spread of times, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Lag {
    /// Median.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Largest.
    pub max_ms: f64,
}

/// Arrivals at a steady rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RateStep {
    /// Asked for, a second.
    pub asked: f64,
    /// Sent, a second.
    pub achieved: Option<f64>,
    /// Requests sent.
    pub sent: u64,
    /// Of them, late: by more than 1 ms and more than 5 % of the gap between arrivals.
    pub late: u64,
    /// Scheduled → first byte out.
    pub send_lag: Option<Lag>,
    /// Due → the loop came to it.
    pub loop_lag: Option<Lag>,
    /// The rate was reached, and no more than 1 % were late.
    pub held: bool,
    /// CPU time of each request.
    pub cost: Cost,
    /// What was the limit, if it was not held.
    pub limit: Limit,
    /// In words, with the evidence.
    pub reason: String,
}

/// Streams that are open at once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamStep {
    /// Asked for.
    pub asked: u32,
    /// Open at once, at most.
    pub held: u64,
    /// From chunk to chunk of a stream, as the server was told, milliseconds.
    pub gap_ms: f64,
    /// How far gaps were from that. 98 % of them are within `p99_ms`.
    pub gap_error: Option<Lag>,
    /// How late the server's own thread wrote: the mean, milliseconds.
    pub server_late_mean_ms: Option<f64>,
    /// Received by the kernel → read.
    pub read_lag: Option<Lag>,
    /// Due → the loop came to it.
    pub loop_lag: Option<Lag>,
    /// Whole answers.
    pub completed: u64,
    /// Answers that failed or were cut off.
    pub failed: u64,
    /// CPU time of each chunk.
    pub cost: Cost,
    /// What was the limit, if fewer were held.
    pub limit: Limit,
    /// In words, with the evidence.
    pub reason: String,
}

/// Not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// What.
    pub what: String,
    /// Why.
    pub reason: String,
}
