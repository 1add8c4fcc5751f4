//! How long the way to each server and back takes: TCP connections opened for that alone, beside the run, by a thread of low priority for
//! each server. AIPerf's rules: every so often while profiling phases run, and at the end some more where there are too few.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aiperf_core::plan::IpVersion;
use aiperf_core::time::ClockAnchor;
use aiperf_core::url::BaseUrl;
use aiperf_metrics::IntColumn;
use aiperf_os::mono_ns;
use aiperf_report::network::{self, Probe};
use aiperf_report::{NetworkLatency, TargetRtt};

use crate::artifacts::Spool;
use crate::error::RunError;

/// Longest that one connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// Probes of a server that have to go well.
const ENOUGH: usize = 5;
/// Most that are added at the end, and longest that it takes.
const ADDED: usize = 2 * ENOUGH;
const ADDING: Duration = Duration::from_secs(3);

/// Probes that go on.
pub(crate) struct Probing {
    /// Each server's thread, and how it is told that profiling is over and when it began.
    threads: Vec<(Sender<u64>, JoinHandle<Probed>)>,
    spool: Arc<Mutex<Spool>>,
}

/// What came of them.
pub(crate) struct ProbedAll {
    pub latency: NetworkLatency,
    pub spool: Spool,
    /// What to know of them, one sentence each.
    pub notes: Vec<String>,
}

/// One server.
struct Target {
    url: String,
    host: String,
    port: u16,
    ip: IpVersion,
}

/// Probes of one server.
struct Probed {
    url: String,
    /// When each began, and how long it took; `None` where it failed.
    probes: Vec<(u64, Option<u64>)>,
    since_ns: u64,
    failure: Option<String>,
}

impl Probing {
    /// Begins with the servers at `urls`, each host and port once; lines go to `spool`.
    pub(crate) fn start(
        urls: &[BaseUrl],
        ip: IpVersion,
        interval_ns: u64,
        anchor: ClockAnchor,
        spool: Spool,
    ) -> Result<Self, RunError> {
        let spool = Arc::new(Mutex::new(spool));
        let mut threads = Vec::new();
        for (at, url) in urls.iter().enumerate() {
            let is_same = |other: &BaseUrl| (&other.host, other.port) == (&url.host, url.port);
            if urls[..at].iter().any(is_same) {
                continue;
            }
            let target = Target { url: url.to_string(), host: url.host.clone(), port: url.port, ip };
            let (stop, stopped) = mpsc::channel();
            let spool = Arc::clone(&spool);
            let probe = move || {
                aiperf_os::sched::lower_priority(5);
                let mut prober = Prober::new(target, anchor, spool);
                let interval = Duration::from_nanos(interval_ns);
                let mut due = Instant::now();
                let since_ns = loop {
                    prober.probe();
                    // What a slow probe made late is left out.
                    due = (due + interval).max(Instant::now());
                    match stopped.recv_timeout(due.saturating_duration_since(Instant::now())) {
                        Ok(since_ns) => break since_ns,
                        Err(RecvTimeoutError::Timeout) => {}
                        // The run broke off.
                        Err(RecvTimeoutError::Disconnected) => break 0,
                    }
                };
                prober.finish(since_ns)
            };
            let thread = std::thread::Builder::new().name("network".to_owned()).spawn(probe);
            threads.push((stop, thread.map_err(RunError::Thread)?));
        }
        Ok(Self { threads, spool })
    }

    /// Ends it. What was measured before `since_ns`, the start of profiling, is in the file alone.
    pub(crate) fn finish(self, since_ns: u64) -> Option<ProbedAll> {
        for (stop, _) in &self.threads {
            // A thread that is gone is met by the join.
            let _ = stop.send(since_ns);
        }
        let probed: Vec<Probed> = self
            .threads
            .into_iter()
            .filter_map(|(stop, thread)| {
                let probed = thread.join().ok();
                drop(stop);
                probed
            })
            .collect();
        let spool = Arc::into_inner(self.spool)?.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (latency, notes) = summed(&probed);
        Some(ProbedAll { latency, spool, notes })
    }
}

/// The mean of all that went well, each server's own numbers, and what was odd.
fn summed(probed: &[Probed]) -> (NetworkLatency, Vec<String>) {
    let mut all = IntColumn::default();
    let mut notes = Vec::new();
    let targets = probed
        .iter()
        .map(|server| {
            let counted = || server.probes.iter().filter(|(at_ns, _)| *at_ns >= server.since_ns);
            let mut own = IntColumn::default();
            counted().filter_map(|(_, rtt)| *rtt).for_each(|ns| {
                own.push(ns);
                all.push(ns);
            });
            let probes = counted().count() as u64;
            let failed = probes - own.len() as u64;
            if let Some(failure) = server.failure.as_ref().filter(|_| failed > 0) {
                let url = &server.url;
                notes.push(format!("{failed} of {probes} network probes of {url} failed: {failure}."));
            }
            TargetRtt { url: server.url.clone(), probes, failed, rtt_ns: own.distribution() }
        })
        .collect();
    let mean_ns = all.distribution().map(|d| d.avg);
    if mean_ns.is_none() {
        notes.push("No network probe went well, so latencies are not told without the network.".to_owned());
    }
    (NetworkLatency { mean_ns, targets }, notes)
}

/// The same of a file of probes, from its lines that are whole and not before `since_ns`, nanoseconds since the Unix epoch.
pub(crate) fn read_back(lines: &[u8], since_ns: u64) -> NetworkLatency {
    #[derive(serde::Deserialize)]
    struct Line {
        timestamp_ns: u64,
        target_url: String,
        rtt_ns: Option<u64>,
    }
    let mut probed: Vec<Probed> = Vec::new();
    for line in lines.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok()) {
        let probe = (line.timestamp_ns, line.rtt_ns);
        match probed.iter_mut().find(|server| server.url == line.target_url) {
            Some(server) => server.probes.push(probe),
            None => {
                probed.push(Probed { url: line.target_url, probes: vec![probe], since_ns, failure: None });
            }
        }
    }
    summed(&probed).0
}

/// Opens connections to one server.
struct Prober {
    target: Target,
    /// Looked up once, so that probes time TCP alone.
    address: io::Result<SocketAddr>,
    anchor: ClockAnchor,
    spool: Arc<Mutex<Spool>>,
    probes: Vec<(u64, Option<u64>)>,
    failure: Option<String>,
}

impl Prober {
    fn new(target: Target, anchor: ClockAnchor, spool: Arc<Mutex<Spool>>) -> Self {
        let address = (target.host.as_str(), target.port).to_socket_addrs().and_then(|found| {
            let is_wanted = |address: &SocketAddr| match target.ip {
                IpVersion::Four => address.is_ipv4(),
                IpVersion::Six => address.is_ipv6(),
                IpVersion::Any => true,
            };
            // IPv4 first, as requests have it.
            let mut wanted: Vec<SocketAddr> = found.filter(is_wanted).collect();
            wanted.sort_by_key(SocketAddr::is_ipv6);
            let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address that is wanted");
            wanted.first().copied().ok_or_else(none)
        });
        Self { target, address, anchor, spool, probes: Vec::new(), failure: None }
    }

    /// One connection: how long it took, into the list and the file.
    fn probe(&mut self) {
        let began_ns = mono_ns();
        let connected = match &self.address {
            Ok(address) => {
                TcpStream::connect_timeout(address, CONNECT).map_err(|e| (e.kind(), e.to_string()))
            }
            Err(error) => Err((error.kind(), error.to_string())),
        };
        let took_ns = mono_ns() - began_ns;
        let (rtt, failure) = match &connected {
            Ok(_) => (Some(took_ns), None),
            Err((kind, words)) => (None, Some((format!("{kind:?}"), words.clone()))),
        };
        drop(connected);
        let result = match &failure {
            None => Ok(took_ns),
            Some((kind, words)) => Err((kind.as_str(), words.as_str())),
        };
        let probe = Probe {
            at_ns: self.anchor.wall(began_ns),
            url: &self.target.url,
            host: &self.target.host,
            port: self.target.port,
            result,
        };
        let mut spool: MutexGuard<'_, Spool> = self.spool.lock().unwrap_or_else(PoisonError::into_inner);
        spool.append(|out| network::line(out, &probe));
        spool.flush();
        drop(spool);
        self.probes.push((began_ns, rtt));
        self.failure = failure.map(|(_, words)| words).or(self.failure.take());
    }

    /// Adds what is missing of what was measured since `since_ns`.
    fn finish(mut self, since_ns: u64) -> Probed {
        let end = Instant::now() + ADDING;
        for _ in 0..ADDED {
            let good = self.probes.iter().filter(|(at_ns, rtt)| *at_ns >= since_ns && rtt.is_some()).count();
            if good >= ENOUGH || Instant::now() >= end {
                break;
            }
            self.probe();
        }
        Probed { url: self.target.url, probes: self.probes, since_ns, failure: self.failure }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probed(url: &str, probes: &[(u64, Option<u64>)]) -> Probed {
        Probed {
            url: url.to_owned(),
            probes: probes.to_vec(),
            since_ns: 100,
            failure: Some("nobody there".to_owned()),
        }
    }

    #[test]
    fn the_mean_is_over_all_probes_of_profiling_that_went_well() {
        let one = probed("http://a", &[(50, Some(9_000)), (100, Some(10)), (110, Some(20)), (120, None)]);
        let two = probed("http://b", &[(100, Some(60))]);
        let (latency, notes) = summed(&[one, two]);
        assert_eq!(latency.mean_ns, Some(30.0));
        assert_eq!(notes, ["1 of 3 network probes of http://a failed: nobody there."]);
        let own: Vec<_> =
            latency.targets.iter().map(|t| (t.probes, t.failed, t.rtt_ns.map(|d| d.avg))).collect();
        assert_eq!(own, [(3, 1, Some(15.0)), (1, 0, Some(60.0))]);
    }

    #[test]
    fn without_one_that_went_well_there_is_no_mean() {
        let (latency, notes) = summed(&[probed("http://a", &[(100, None), (90, Some(5))])]);
        assert_eq!((latency.mean_ns, latency.targets[0].rtt_ns), (None, None));
        assert!(notes.iter().any(|note| note.starts_with("No network probe went well")), "{notes:?}");
    }

    #[test]
    fn a_file_of_probes_is_read_back() {
        let line = |at_ns: u64, rtt: &str| {
            format!("{{\"timestamp_ns\":{at_ns},\"target_url\":\"http://a\",\"success\":true{rtt}}}\n")
        };
        let text = [
            line(50, ",\"rtt_ns\":7"),
            line(100, ",\"rtt_ns\":10"),
            line(110, ""),
            line(120, ",\"rtt_ns\":20"),
        ]
        .concat();
        let latency = read_back(&[text.as_bytes(), b"{\"timestamp_ns\":130"].concat(), 100);
        assert_eq!(
            (latency.mean_ns, latency.targets[0].probes, latency.targets[0].failed),
            (Some(15.0), 3, 1)
        );
    }

    #[test]
    fn few_probes_become_enough_and_failures_are_no_endless_matter() {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = |port: u16| BaseUrl::parse(&format!("http://127.0.0.1:{port}")).expect("a URL");
        let open = listener.local_addr().expect("an address").port();
        let closed = {
            let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            other.local_addr().expect("an address").port()
        };
        let spool = Spool::create(folder.path().join("n.jsonl"), false).expect("a file");
        let urls = [url(open), url(closed), url(open)];
        let probing = Probing::start(&urls, IpVersion::Any, 3_600_000_000_000, aiperf_os::anchor(), spool);
        let all = probing.expect("it starts").finish(0).expect("it ends");
        let path = all.spool.finish().expect("it is written");
        let lines = std::fs::read_to_string(path).expect("it is there");
        let [good, bad] = &all.latency.targets[..] else { panic!("two servers: {:?}", all.latency) };
        assert_eq!((good.probes, good.failed, bad.rtt_ns), (5, 0, None));
        assert!(bad.probes == bad.failed && bad.probes >= 10, "{bad:?}");
        assert_eq!(lines.lines().count() as u64, good.probes + bad.probes);
        assert_eq!(lines.matches("\"success\":true").count(), 5);
        assert!(lines.contains("ConnectionRefused"), "{lines}");
    }
}
