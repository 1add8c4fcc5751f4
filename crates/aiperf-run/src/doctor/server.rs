//! The simulated server as a process of its own, told what to be through its standard input: `start QUERY`, `stop`. Each order is
//! answered by one line of JSON. When the input ends, because the client is gone, so does the process.

use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use aiperf_core::plan::TokenizerPlan;
use aiperf_core::url::BaseUrl;
use aiperf_hub::Download;
use aiperf_os::usage::{process_usage, process_waited_ns};
use aiperf_sim::{SimConfig, SimHandle};
use aiperf_tokens::Tokenizer;
use serde::{Deserialize, Serialize};

use super::error::DoctorError;

/// What the server's process answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Listening(SocketAddr),
    Served(Served),
    Refused(String),
}

/// What a server did between its start and its stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Served {
    /// CPU time of its process.
    pub cpu_ns: u64,
    /// Time its threads waited for a core.
    pub waited_ns: Option<u64>,
    /// Chunks written.
    pub chunks: u64,
    /// How late they were written, together.
    pub late_sum_ns: u64,
    /// How many of them could be late.
    pub late_count: u64,
}

/// Serves as `orders` say, until they end. Meant for the main thread of a process.
pub fn serve(orders: impl BufRead, mut answers: impl Write) -> Result<(), DoctorError> {
    aiperf_os::limits::raise_descriptor_limit();
    let talk = |source| DoctorError::Process { action: "listen to the client of", source };
    let builtin = TokenizerPlan { name: "builtin".into() };
    let tokenizer = aiperf_hub::open(&builtin, Download::Never).map_err(crate::RunError::from)?;
    let mut running: Option<(SimHandle, Served)> = None;
    for order in orders.lines() {
        let order = order.map_err(talk)?;
        let answer = match (order.split_once(' ').unwrap_or((&order, "")), running.take()) {
            (("start", query), None) => match start(query, tokenizer.clone()) {
                Ok(handle) => {
                    let addr = handle.addr();
                    running = Some((handle, used()));
                    Answer::Listening(addr)
                }
                Err(error) => Answer::Refused(error.to_string()),
            },
            (("stop", _), Some((handle, before))) => {
                // Before the stop: the time of a thread that has ended is known no more.
                let now = used();
                let totals = handle.stop();
                Answer::Served(Served {
                    cpu_ns: now.cpu_ns.saturating_sub(before.cpu_ns),
                    waited_ns: now
                        .waited_ns
                        .zip(before.waited_ns)
                        .map(|(now, then)| now.saturating_sub(then)),
                    chunks: totals.chunks,
                    late_sum_ns: totals.late_sum_ns,
                    late_count: totals.late_count,
                })
            }
            (_, was) => {
                running = was;
                Answer::Refused(format!("no such order now: {order}"))
            }
        };
        let line = serde_json::to_string(&answer).map_err(|e| talk(e.into()))?;
        writeln!(answers, "{line}").and_then(|()| answers.flush()).map_err(talk)?;
    }
    Ok(())
}

fn start(query: &str, tokenizer: Arc<dyn Tokenizer>) -> Result<SimHandle, aiperf_sim::SimError> {
    aiperf_sim::start(SimConfig::from_query(query)?, tokenizer, SocketAddr::from(([127, 0, 0, 1], 0)))
}

fn used() -> Served {
    Served { cpu_ns: process_usage().cpu_ns, waited_ns: process_waited_ns(), ..Served::default() }
}

/// The process, from the client's side. Dropped, it is ended.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Server {
    /// Starts `command`, which is to run [`serve`] over its standard streams.
    pub(super) fn spawn(mut command: Command) -> Result<Self, DoctorError> {
        let failed = |source| DoctorError::Process { action: "start", source };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        #[cfg(unix)]
        {
            use std::os::unix::process::CommandExt;
            // Ctrl-C at a terminal is for the client, which then ends this one.
            command.process_group(0);
        }
        let mut child = command.spawn().map_err(failed)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(orders), Some(answers)) => Ok(Self { child, orders, answers: BufReader::new(answers) }),
            _ => Err(failed(io::Error::other("it has no standard streams"))),
        }
    }

    /// Starts a server with the options of `query`, and says where it listens.
    pub(super) fn start(&mut self, query: &str) -> Result<BaseUrl, DoctorError> {
        match self.order(&format!("start {query}"))? {
            Answer::Listening(addr) => BaseUrl::parse(&format!("http://{addr}"))
                .map_err(|error| DoctorError::Answer(format!("{addr}: {error}"))),
            Answer::Refused(why) => Err(DoctorError::Refused(why)),
            other @ Answer::Served(_) => Err(DoctorError::Answer(format!("{other:?}"))),
        }
    }

    /// Stops the server, and says what it did.
    pub(super) fn stop(&mut self) -> Result<Served, DoctorError> {
        match self.order("stop")? {
            Answer::Served(served) => Ok(served),
            other => Err(DoctorError::Answer(format!("{other:?}"))),
        }
    }

    fn order(&mut self, order: &str) -> Result<Answer, DoctorError> {
        let failed = |source| DoctorError::Process { action: "speak to", source };
        writeln!(self.orders, "{order}").map_err(failed)?;
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(failed)?;
        if line.is_empty() {
            return Err(failed(io::Error::new(io::ErrorKind::UnexpectedEof, "it has ended")));
        }
        serde_json::from_str(&line).map_err(|_| DoctorError::Answer(line))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has nothing to save, and may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(orders: &str) -> Vec<Answer> {
        let mut out = Vec::new();
        serve(orders.as_bytes(), &mut out).expect("it serves");
        let text = String::from_utf8(out).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect("an answer")).collect()
    }

    #[test]
    fn each_order_has_its_answer_and_the_end_of_orders_is_the_end() {
        let answers = answers("start itl=100&max-batch=0\nstop\nstart itl=0\n");
        let [Answer::Listening(first), Answer::Served(served), Answer::Listening(second)] = &answers[..]
        else {
            panic!("{answers:?}");
        };
        assert!(first.port() > 0 && second.port() > 0);
        assert_eq!((served.chunks, served.late_count), (0, 0));
    }

    #[test]
    fn an_order_without_sense_is_refused_and_the_next_one_obeyed() {
        let answers = answers("stop\nstart itl=quick\nstart\nstart\nrest\nstop\n");
        let [
            Answer::Refused(early),
            Answer::Refused(bad),
            Answer::Listening(_),
            Answer::Refused(twice),
            Answer::Refused(unknown),
            Answer::Served(_),
        ] = &answers[..]
        else {
            panic!("{answers:?}");
        };
        assert!(early.contains("stop") && bad.contains("quick"));
        assert!(twice.contains("start") && unknown.contains("rest"));
    }

    #[test]
    fn a_process_that_ends_is_an_error_and_no_wait() {
        let mut server = Server::spawn(Command::new("true")).expect("it starts");
        let error = server.start("").expect_err("nobody is there");
        assert!(matches!(error, DoctorError::Process { action: "speak to", .. }), "{error}");
    }

    #[test]
    fn a_process_that_talks_of_something_else_is_an_error() {
        let mut command = Command::new("echo");
        command.arg("hello");
        let mut server = Server::spawn(command).expect("it starts");
        let error = server.stop().expect_err("that is no answer");
        // It may have ended before the order was written.
        assert!(matches!(error, DoctorError::Answer(_) | DoctorError::Process { .. }), "{error}");
    }
}
