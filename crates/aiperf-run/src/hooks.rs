//! What is asked of the servers around the load: whether they are ready, to forget their prefix caches, to profile themselves.
//!
//! None of it is a request of the run. The wish to stop is obeyed while it is waited; a server that was told to profile itself is told to
//! stop in any case.

use std::sync::Arc;
use std::time::Duration;

use aiperf_core::conversation::Turn;
use aiperf_core::outcome::{CancelReason, Disposition};
use aiperf_core::plan::{ConnectionReuse, EndpointPlan, ResetPlan, WaitMode, WaitPlan};
use aiperf_core::text::for_terminal;
use aiperf_core::ticket::Uuid;
use aiperf_core::time::ns_to_seconds;
use aiperf_core::url::BaseUrl;
use aiperf_net::{Client, Endpoint, KnownSecrets, Outgoing, Request};
use aiperf_os::mono_ns;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::task::LocalSet;

use crate::ask::root;
use crate::error::RunError;
use crate::interrupt::Interrupt;
use crate::random_u64;

/// The shortest prompt that is one.
const PROMPT: &str = "Lo";
/// A try to find out whether a server is ready may take so long at least, whatever the pause between two.
const LEAST_TRY_NS: u64 = 30_000_000_000;
/// Pauses between tries to reset a cache: the first, and the longest; each is twice the one before.
const FIRST_PAUSE_NS: u64 = 1_000_000_000;
const LONGEST_PAUSE_NS: u64 = 8_000_000_000;
/// A server says with these that it is busy.
const BUSY: [u16; 4] = [409, 423, 429, 503];
/// A list of models is short; an answer of one token is, too.
const MOST_BYTES: usize = 16 << 20;
/// Most characters of a server's own words.
const WORDS: usize = 300;

/// What came of one question.
enum Answer {
    Status(u16, String),
    /// It failed on the way.
    Trouble(String),
    /// The user does not want to wait.
    Stopped,
}

impl Answer {
    fn words(&self) -> String {
        match self {
            Self::Status(status, body) => {
                let text = for_terminal(body.trim(), WORDS);
                if text.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}, {text}") }
            }
            Self::Trouble(words) => words.clone(),
            Self::Stopped => "stopped".to_owned(),
        }
    }
}

/// What is sent.
enum Sent {
    Get,
    Post(Vec<u8>),
}

/// Asks the servers of a run.
pub(crate) struct Hooks {
    pub plan: EndpointPlan,
    pub urls: Arc<[BaseUrl]>,
    pub tls: Option<Arc<rustls::ClientConfig>>,
    pub interrupt: Arc<Interrupt>,
    /// The simulated server in this process serves any model and lists none of them.
    pub lists_any: bool,
}

impl Hooks {
    /// Everything that comes before the load: waits until all are ready, then resets caches. `say` shows a line. Ends early, and well,
    /// when the user wants to stop.
    pub(crate) async fn before(&self, models: &[String], say: &dyn Fn(&str)) -> Result<(), RunError> {
        let hooks = &self.plan.hooks;
        if let Some(wait) = hooks.wait {
            let by_list = [true, false].into_iter().filter(|list| match wait.mode {
                WaitMode::Inference => !list,
                WaitMode::Models => *list,
                WaitMode::Both => true,
            });
            let by_list: Vec<bool> = by_list.collect();
            for url in &*self.urls {
                for list in &by_list {
                    for model in models {
                        self.wait(wait, url, model, *list, say).await?;
                    }
                }
            }
        }
        if let Some(reset) = &hooks.reset {
            for origin in self.origins() {
                self.reset(reset, &origin, say).await?;
            }
        }
        Ok(())
    }

    /// Has every server start its profiler, if that is wanted.
    pub(crate) async fn start_profiler(&self) -> Result<(), RunError> {
        let Some(plan) = &self.plan.hooks.profiler else { return Ok(()) };
        for origin in self.origins() {
            let answer = self
                .ask(&origin, Some(&plan.start_path), Sent::Post(Vec::new()), plan.timeout_ns, true)
                .await;
            match &answer {
                Answer::Stopped => return Ok(()),
                Answer::Status(200..=299, _) => tracing::info!("the profiler of {origin} was started"),
                bad => return Err(RunError::Profiler { url: origin.to_string(), why: bad.words() }),
            }
        }
        Ok(())
    }

    /// Has every server stop it, if it was wanted; says what went wrong.
    pub(crate) async fn stop_profiler(&self) -> Vec<String> {
        let Some(plan) = &self.plan.hooks.profiler else { return Vec::new() };
        let mut troubles = Vec::new();
        for origin in self.origins() {
            let answer = self
                .ask(&origin, Some(&plan.stop_path), Sent::Post(Vec::new()), plan.timeout_ns, false)
                .await;
            match &answer {
                Answer::Status(200..=299, _) => tracing::info!("the profiler of {origin} was stopped"),
                bad => troubles.push(format!(
                    "the profiler of {origin} could not be stopped and may still run: {}",
                    bad.words()
                )),
            }
        }
        troubles
    }

    /// Servers without their paths, each once.
    fn origins(&self) -> Vec<BaseUrl> {
        let mut all: Vec<BaseUrl> = Vec::new();
        for url in &*self.urls {
            let origin = BaseUrl { path: String::new(), query: None, ..url.clone() };
            if !all.contains(&origin) {
                all.push(origin);
            }
        }
        all
    }

    async fn wait(
        &self,
        plan: WaitPlan,
        url: &BaseUrl,
        model: &str,
        list: bool,
        say: &dyn Fn(&str),
    ) -> Result<(), RunError> {
        let shown = for_terminal(model, WORDS);
        let end_ns = mono_ns().saturating_add(plan.timeout_ns);
        let mut before: Option<String> = None;
        for attempt in 1u64.. {
            let left_ns = end_ns.saturating_sub(mono_ns());
            let usual_ns = plan.interval_ns.max(LEAST_TRY_NS);
            let try_ns = usual_ns.min(left_ns.max(1));
            let found = if list {
                self.is_listed(url, model, try_ns).await
            } else {
                self.infer(url, model, try_ns).await
            };
            let why = match found {
                Ok(true) => {
                    let how = if list { "lists" } else { "serves" };
                    say(&format!("{url} {how} '{shown}' (try {attempt})."));
                    return Ok(());
                }
                Ok(false) => return Ok(()),
                // A try that the end of all waiting cut short tells less than the one before.
                Err(why) => before.take().filter(|_| try_ns < usual_ns).unwrap_or(why),
            };
            let left_ns = end_ns.saturating_sub(mono_ns());
            if left_ns > 0 {
                say(&format!(
                    "Waiting for {url} to serve '{shown}', {:.0} s more at most: {why}",
                    ns_to_seconds(left_ns)
                ));
                if !self.pause(plan.interval_ns.min(left_ns)).await {
                    return Ok(());
                }
            }
            if mono_ns() >= end_ns {
                let seconds = ns_to_seconds(plan.timeout_ns);
                return Err(RunError::NotReady { url: url.to_string(), model: shown, seconds, why });
            }
            before = Some(why);
        }
        Ok(())
    }

    /// Whether a request of one token is answered; `Ok(false)` when the user wants to stop.
    async fn infer(&self, url: &BaseUrl, model: &str, try_ns: u64) -> Result<bool, String> {
        match self.ask(url, None, Sent::Post(self.probe(model)), try_ns, true).await {
            Answer::Stopped => Ok(false),
            // What is wrong with the request shows in the run, too.
            Answer::Status(status, _) if status < 500 => Ok(true),
            bad => Err(bad.words()),
        }
    }

    /// A request of the run's own form.
    fn probe(&self, model: &str) -> Vec<u8> {
        let turn = Turn {
            model: model.to_owned(),
            texts: vec![PROMPT.to_owned()],
            max_tokens: Some(1),
            ..Turn::default()
        };
        let request = Request { system: None, user_context: None, turn: &turn, opens: true, marker: None };
        let mut body = Vec::new();
        let own = Endpoint::new(&EndpointPlan { streaming: false, ..self.plan.clone() });
        match own.encode(&request, &mut body) {
            Ok(_) => body,
            // What needs more than a text gets what AIPerf sends: any answer shows that the server is there.
            Err(_) => {
                json!({"model": model, "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 1})
                    .to_string()
                    .into_bytes()
            }
        }
    }

    /// Whether the model is in the server's list.
    async fn is_listed(&self, url: &BaseUrl, model: &str, try_ns: u64) -> Result<bool, String> {
        let base = root(url, self.plan.path.as_deref());
        match self.ask(&base, Some("/v1/models"), Sent::Get, try_ns, true).await {
            Answer::Stopped => Ok(false),
            Answer::Status(200, body) => {
                let list: Value = serde_json::from_str(&body)
                    .map_err(|e| format!("its list of models is not JSON: {e}"))?;
                let names: Vec<&str> = list
                    .get("data")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter_map(|m| m.get("id")?.as_str())
                    .collect();
                if names.contains(&model) || self.lists_any {
                    return Ok(true);
                }
                Err(format!(
                    "it lists {}",
                    if names.is_empty() {
                        "no model".to_owned()
                    } else {
                        for_terminal(&names.join(", "), WORDS)
                    }
                ))
            }
            // A server without a list of models.
            Answer::Status(404, _) => match self.ask(&base, Some(""), Sent::Get, try_ns, true).await {
                Answer::Stopped => Ok(false),
                Answer::Status(200..=299, _) => Ok(true),
                bad => Err(format!("it has no /v1/models, and its base address answers {}", bad.words())),
            },
            bad => Err(bad.words()),
        }
    }

    async fn reset(&self, plan: &ResetPlan, origin: &BaseUrl, say: &dyn Fn(&str)) -> Result<(), RunError> {
        let end_ns = mono_ns().saturating_add(plan.retry_ns);
        let mut pause_ns = FIRST_PAUSE_NS;
        loop {
            let answer =
                self.ask(origin, Some(&plan.path), Sent::Post(Vec::new()), plan.timeout_ns, true).await;
            let may_retry = match &answer {
                Answer::Stopped => return Ok(()),
                Answer::Status(200..=299, _) => {
                    say(&format!("The prefix cache of {origin} was reset."));
                    return Ok(());
                }
                Answer::Status(status, _) => BUSY.contains(status),
                Answer::Trouble(_) => true,
            };
            let why = answer.words();
            let left_ns = end_ns.saturating_sub(mono_ns());
            if !may_retry || left_ns == 0 {
                return Err(RunError::Reset { url: origin.to_string(), path: plan.path.clone(), why });
            }
            say(&format!("The prefix cache of {origin} is not reset yet: {why}"));
            if !self.pause(pause_ns.min(left_ns)).await {
                return Ok(());
            }
            pause_ns = (pause_ns * 2).min(LONGEST_PAUSE_NS);
        }
    }

    /// `false` when the user wants to stop.
    async fn pause(&self, ns: u64) -> bool {
        tokio::select! {
            biased;
            () = self.interrupt.wait() => false,
            () = tokio::time::sleep(Duration::from_nanos(ns)) => true,
        }
    }

    /// Asks at `path` from `url` on, or at the run's own path.
    async fn ask(
        &self,
        url: &BaseUrl,
        path: Option<&str>,
        sent: Sent,
        timeout_ns: u64,
        may_stop: bool,
    ) -> Answer {
        let plan = EndpointPlan {
            path: path.map(str::to_owned).or_else(|| self.plan.path.clone()),
            streaming: false,
            timeout_ns,
            first_token_timeout_ns: None,
            idle_timeout_ns: None,
            reuse: ConnectionReuse::Never,
            max_response_bytes: MOST_BYTES,
            ..self.plan.clone()
        };
        let client = match Client::new(&plan, url, self.tls.clone()) {
            Ok(client) => client,
            Err(problem) => return Answer::Trouble(problem.to_string()),
        };
        let (client, body) = match sent {
            Sent::Get => (client.getting(), Bytes::new()),
            Sent::Post(body) => (client, Bytes::from(body)),
        };
        let id = Uuid::from_random(u128::from(random_u64()) << 64 | u128::from(random_u64()));
        let stopped = async {
            if may_stop {
                self.interrupt.wait().await;
            } else {
                std::future::pending::<()>().await;
            }
            CancelReason::Interrupted
        };
        // Connections of HTTP/2 have tasks.
        let answer = LocalSet::new().run_until(client.exchange(Outgoing::new(body, id, id), stopped)).await;
        match (answer.disposition, answer.status) {
            (Disposition::Cancelled { .. }, _) => Answer::Stopped,
            (Disposition::Failed(failure), _) => Answer::Trouble(for_terminal(
                // The limit is another one here; who asks names it.
                failure.message.trim_end_matches(" (--request-timeout-seconds)"),
                WORDS,
            )),
            (Disposition::Finished, Some(status)) => {
                let mut body = String::from_utf8_lossy(&answer.body).into_owned();
                KnownSecrets::of(&self.plan).hide(&mut body);
                Answer::Status(status, body)
            }
            (Disposition::Finished, None) => Answer::Trouble("no answer".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use aiperf_core::plan::{EndpointKind, HooksPlan};
    use aiperf_core::time::seconds_to_ns;

    use super::*;
    use crate::toys;

    fn hooks(urls: &[String], plan: HooksPlan, kind: EndpointKind) -> Hooks {
        let urls: Vec<BaseUrl> = urls.iter().map(|u| BaseUrl::parse(u).expect("a good URL")).collect();
        Hooks {
            plan: EndpointPlan { hooks: plan, ..toys::endpoint(kind) },
            urls: urls.into(),
            tls: None,
            interrupt: Arc::default(),
            lists_any: false,
        }
    }

    fn block_on<T>(what: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(what)
    }

    #[test]
    fn a_probe_has_the_form_of_the_run() {
        let body = |kind| -> Value {
            serde_json::from_slice(&hooks(&[], HooksPlan::default(), kind).probe("m")).expect("JSON")
        };
        let chat = body(EndpointKind::Chat);
        assert_eq!((&chat["messages"][0]["content"], &chat["model"]), (&json!("Lo"), &json!("m")));
        assert_eq!(chat["max_completion_tokens"], 1);
        let completions = body(EndpointKind::Completions);
        assert_eq!((&completions["prompt"], &completions["max_tokens"]), (&json!("Lo"), &json!(1)));
        assert_eq!(body(EndpointKind::Responses)["max_output_tokens"], 1);
    }

    #[test]
    fn an_origin_is_asked_once() {
        let urls = ["http://h/v1", "http://h/v2?x=1", "http://h:81"].map(str::to_owned);
        let origins = hooks(&urls, HooksPlan::default(), EndpointKind::Chat).origins();
        assert_eq!(origins.iter().map(ToString::to_string).collect::<Vec<_>>(), ["http://h", "http://h:81"]);
    }

    #[test]
    fn what_the_user_stops_is_no_error() {
        let wait = WaitPlan { mode: WaitMode::Both, timeout_ns: u64::MAX, interval_ns: seconds_to_ns(600.0) };
        let reset = ResetPlan { path: "/r".into(), timeout_ns: u64::MAX, retry_ns: u64::MAX };
        let plan = HooksPlan { wait: Some(wait), reset: Some(reset), profiler: None };
        // Nobody listens there.
        let hooks = hooks(&["http://127.0.0.1:1".to_owned()], plan, EndpointKind::Chat);
        let interrupt = hooks.interrupt.clone();
        let said = std::cell::RefCell::new(Vec::new());
        let say = |line: &str| {
            said.borrow_mut().push(line.to_owned());
            interrupt.fire();
        };
        block_on(hooks.before(&["m".to_owned()], &say)).expect("no error");
        assert_eq!(said.borrow().len(), 1, "{said:?}");
        assert!(said.borrow()[0].starts_with("Waiting for http://127.0.0.1:1 to serve 'm'"), "{said:?}");
    }
}
