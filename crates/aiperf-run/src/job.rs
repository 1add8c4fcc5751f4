//! A plan with everything it names opened, ready to run.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use aiperf_core::plan::{
    CorpusPlan, DatasetPlan, ExportLevel, NetworkPlan, OnTurnError, Pacing, PhaseKind, PhasePlan, Plan,
    PublicParts, RandomStyle, Sampling, TokenizerPlan, Ui, VerifyLengths,
};
use aiperf_core::ticket::Uuid;
use aiperf_core::time::ClockAnchor;
use aiperf_core::url::{BaseUrl, Scheme};
use aiperf_data::{DataError, OpenContext, Sampler, Visit, Workload};
use aiperf_hub::{DatasetFiles, Download};
use aiperf_metrics::Capabilities;
use aiperf_net::{Client, Endpoint};
use aiperf_report::{Counting, ServerCount};
use aiperf_sim::{SimConfig, SimHandle};
use aiperf_tokens::{TemplateClock, Tokenizer};
use tokio::sync::mpsc;

use crate::artifacts::{Folder, InputsFile, Spool, write_whole};
use crate::ask::{self, Asked};
use crate::cache_ledger::CacheLedgers;
use crate::control::{Control, PhaseEnd, Ran};
use crate::count::{BodyCounter, changes_count};
use crate::error::RunError;
use crate::finish::{self, Finished};
use crate::handover;
use crate::hooks::Hooks;
use crate::interrupt::Interrupt;
use crate::item::Recounted;
use crate::live::Live;
use crate::network::{ProbedAll, Probing};
use crate::phase::Starts;
use crate::prepare::{Composer, ComposerSetup, check_bodies};
use crate::progress::Progress;
use crate::prompt_ids::PromptIds;
use crate::random_u64;
use crate::reader::{Collected, Reader, ReaderSetup};
use crate::run_file::{self, RunFile};
use crate::shard::{self, ShardSetup};
use crate::size;
use crate::starts;
use crate::verify::Verifier;

/// What the terminal is like.
#[derive(Debug, Clone, Copy, Default)]
pub struct Screen {
    /// Progress goes to a terminal, where a line can be drawn over itself.
    pub progress_on_terminal: bool,
    /// Results may be coloured.
    pub colour: bool,
    /// Columns for results; `None` is the width of files.
    pub width: Option<usize>,
}

/// What may be fetched of what is not here.
#[derive(Debug, Clone, Copy, Default)]
pub struct Leave<'a> {
    /// The tokenizer.
    pub tokenizer: Download<'a>,
    /// The public data set.
    pub dataset: Download<'a>,
}

/// How a run ended.
#[derive(Debug)]
pub struct RunEnd {
    /// The report for the screen.
    pub console: String,
    /// Whole answers in profiling phases.
    pub completed: u64,
    /// The user stopped it.
    pub interrupted: bool,
    /// What went wrong beside single requests; results are marked or missing accordingly.
    pub problems: Vec<RunError>,
}

/// See the module.
pub struct Job {
    plan: Plan,
    tokenizer: Option<Arc<dyn Tokenizer>>,
    workload: Arc<dyn Workload>,
    endpoint: Arc<Endpoint>,
    sim: Option<SimConfig>,
    /// Whom to trust, for `https`.
    tls: Option<Arc<rustls::ClientConfig>>,
    /// The id of this run, in results and in markers.
    run_id: String,
    /// The moment that chat templates see, all through the run.
    now: TemplateClock,
    /// When sessions start, for each phase.
    starts: Vec<Starts>,
}

/// For what is asked, and waited for, on the thread that started the run.
fn runtime() -> Result<tokio::runtime::Runtime, RunError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(RunError::Thread)
}

/// What a run leaves for its end to word.
pub(crate) struct Driven {
    /// The clock at its start.
    pub anchor: ClockAnchor,
    pub ends: Vec<PhaseEnd>,
    pub inputs: Option<InputsFile>,
    pub collected: Collected,
    pub server_count: Option<ServerCount>,
    /// What came of the probes of the network.
    pub probed: Option<ProbedAll>,
    /// Connections that the simulated server had no descriptor for.
    pub turned_away: u64,
    pub problems: Vec<RunError>,
}

impl Job {
    /// Opens the tokenizer and the dataset, which are fetched first where they are missing and `leave` allows it, and checks what
    /// address, headers and certificates ask of us.
    pub fn load(mut plan: Plan, leave: Leave<'_>) -> Result<Self, RunError> {
        let open = |tokenizer| aiperf_hub::open(tokenizer, leave.tokenizer);
        let tokenizer = plan.tokenizer.as_ref().map(open).transpose()?;
        let mut files = None;
        if let DatasetPlan::File(set) = &mut plan.dataset
            && let Some(public) = set.public.as_ref().filter(|public| !public.is_given)
        {
            let found = DatasetFiles::find(public, leave.dataset)
                .map_err(|error| RunError::PublicSet(Box::new(error)))?;
            set.path = found.part(0).map_err(DataError::Part)?;
            files = Some(found);
        }
        let parts = files.as_ref().map(|files| files as &dyn PublicParts);
        let run_id = format!("{:012x}", random_u64() & 0xffff_ffff_ffff);
        let now = TemplateClock::from_wall_ns(aiperf_os::anchor().wall_ns);
        let workload =
            aiperf_data::open(&plan, tokenizer.clone(), OpenContext { run_id: &run_id, now, parts })?;
        let endpoint = Arc::new(Endpoint::open(&plan.endpoint)?);
        check_bodies(&plan, &*workload, &endpoint)?;
        let sim = match plan.endpoint.url().scheme {
            Scheme::Sim => Some(SimConfig::from_query(plan.endpoint.url().query.as_deref().unwrap_or(""))?),
            Scheme::Http | Scheme::Https => None,
        };
        size::enough_descriptors(&plan, sim.is_some())?;
        let is_secure = plan.endpoint.targets.iter().any(|target| target.url.scheme == Scheme::Https);
        let tls = is_secure.then(|| aiperf_net::tls_config(&plan.endpoint)).transpose()?;
        // Every shard makes its own; what is wrong with headers or host is told by these, which open no connection.
        for target in &plan.endpoint.targets {
            let own = loopback(&target.url, SocketAddr::from(([127, 0, 0, 1], 1)));
            let url = if sim.is_some() { &own } else { &target.url };
            Client::new(&plan.endpoint, url, tls.clone())?;
        }
        let starts = starts::of(&plan, &workload)?;
        Ok(Self { plan, tokenizer, workload, endpoint, sim, tls, run_id, now, starts })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs all phases, writes all files, and returns what the screen shows. An error means that nothing was sent.
    pub fn run(
        self,
        folder: &Folder,
        interrupt: &Arc<Interrupt>,
        screen: Screen,
    ) -> Result<RunEnd, RunError> {
        let inputs = InputsFile::create(folder.inputs_json())?;
        let Driven { anchor, ends, inputs, collected, server_count, probed, turned_away, problems } =
            self.drive(folder, Some(inputs), interrupt, screen)?;
        let mut notes = self.notes();
        notes.extend(self.workload.changed());
        if turned_away > 0 {
            notes.push(format!(
                "The simulated server shares the open files of this run, had none left, and closed {turned_away} or more connections at once: \
                 raise the limit (ulimit -n), or let fewer requests be under way (--concurrency)."
            ));
        }
        Ok(finish::finish(Finished {
            plan: &self.plan,
            run_id: &self.run_id,
            folder,
            anchor,
            screen,
            interrupted: interrupt.fired(),
            workload: &*self.workload,
            tokenizer: self.tokenizer.as_deref(),
            ends,
            inputs,
            collected,
            server_count,
            probed,
            notes,
            problems,
        }))
    }

    /// Runs all phases and reads all answers. An error means that nothing was sent.
    pub(crate) fn drive(
        &self,
        folder: &Folder,
        inputs: Option<InputsFile>,
        interrupt: &Arc<Interrupt>,
        screen: Screen,
    ) -> Result<Driven, RunError> {
        let plan = &self.plan;
        let anchor = aiperf_os::anchor();
        let limits = aiperf_os::limits::raise_descriptor_limit();
        tracing::info!("descriptor limit {limits:?}, {} cores", aiperf_os::sched::cores());
        let (urls, simulated) = self.addresses()?;
        let progress =
            Progress::new(plan.runtime.ui, screen.progress_on_terminal, plan.runtime.stats_interval_s);
        let hooks = Hooks {
            plan: plan.endpoint.clone(),
            urls: urls.clone().into(),
            tls: self.tls.clone(),
            interrupt: interrupt.clone(),
            lists_any: self.sim.as_ref().is_some_and(SimConfig::serves_any_model),
        };
        let say = |line: &str| {
            tracing::info!("{line}");
            if plan.runtime.ui != Ui::None {
                progress.say(line);
            }
        };
        runtime()?.block_on(hooks.before(&plan.models, &say))?;

        let live = Arc::new(Live::default());
        let reader = Reader::new(ReaderSetup {
            plan,
            folder,
            anchor,
            capabilities: self.capabilities(),
            endpoint: self.endpoint.clone(),
            counter: self.counter(),
            live: live.clone(),
            urls: urls.clone(),
            rendered: finish::counting(plan, self.tokenizer.as_deref()) == Counting::Rendered,
            verifier: self.verifier()?,
            ledgers: self.ledgers(),
        })?;
        if plan.artifacts.level >= ExportLevel::Records {
            let counting = finish::counting(plan, self.tokenizer.as_deref());
            let tokenizer = self.tokenizer.as_deref().map(Tokenizer::name);
            let rows = finish::told_rows(plan, &*self.workload);
            let file = RunFile::of(plan, &self.run_id, &anchor, counting, tokenizer, rows);
            write_whole(&folder.run_json(), &file.bytes())?;
        }
        let (ended_tx, ended_rx) = handover::spilling(handover::MEMORY, folder.scratch(), reader.needs())?;
        let reader = spawn("reader", move || {
            // A step, not more: with five, most of its work was left when the last answer came (docs/design/load.md).
            aiperf_os::sched::lower_priority(1);
            reader.run(ended_rx)
        })?;

        let shards = size::shard_count(plan, &self.starts);
        let (events_tx, events) = mpsc::unbounded_channel();
        let id_key = random_u64();
        let mut commands = Vec::new();
        let mut threads = Vec::new();
        for index in 0..shards {
            let (tx, rx) = mpsc::unbounded_channel();
            let setup = ShardSetup {
                index,
                shards,
                endpoint: plan.endpoint.clone(),
                traces: plan.artifacts.trace.export,
                api: self.endpoint.clone(),
                urls: urls.clone(),
                tls: self.tls.clone(),
                seed: plan.seed,
                aborts: plan.on_turn_error == OnTurnError::AbortSession,
                id_key,
                commands: rx,
                events: events_tx.clone(),
                ended: ended_tx.clone(),
            };
            threads.push(spawn(&format!("shard-{index}"), move || shard::run(setup))?);
            commands.push(tx);
        }
        drop((events_tx, ended_tx));

        let mut control = Control {
            commands,
            events,
            interrupt: interrupt.clone(),
            live,
            progress,
            hooks: Some(hooks),
            alive: (0..shards as u16).collect(),
            targets: urls.len(),
            seed: plan.seed,
            is_stopped: false,
        };
        let mut composer = self.composer(inputs);
        let server_count = self.ask(&mut composer, &urls[0], interrupt)?;
        if let Some(words) = server_count.and_then(|count| count.difference()) {
            tracing::info!("{words}");
            control.progress.say(&words);
        }
        let phases: Vec<(PhasePlan, Starts)> =
            plan.phases.iter().cloned().zip(self.starts.iter().cloned()).collect();
        let probing = match plan.network {
            Some(NetworkPlan::Probes { interval_ns }) => {
                let spool = Spool::create(folder.network_jsonl(), false)?;
                Some(Probing::start(&urls, plan.endpoint.ip, interval_ns, anchor, spool)?)
            }
            Some(NetworkPlan::Fixed { .. }) | None => None,
        };
        let Ran { ends, composer, mut problems } = runtime()?.block_on(control.run(&phases, composer));

        let probed = probing.and_then(|probing| {
            let is_profiling = |(phase, _): &(&PhasePlan, &PhaseEnd)| phase.kind == PhaseKind::Profiling;
            let first = plan.phases.iter().zip(&ends).find(is_profiling);
            probing.finish(first.map_or(0, |(_, end)| end.start_ns))
        });
        drop(control.commands);
        for thread in threads {
            match thread.join() {
                Ok(result) => problems.extend(result.err()),
                Err(_) => problems.push(RunError::Panicked("shard")),
            }
        }
        let collected = reader.join().unwrap_or_else(|_| {
            problems.push(RunError::Panicked("reader"));
            Collected::empty(plan, anchor, self.capabilities())
        });
        let turned_away = simulated.map_or(0, |handle| handle.stop().turned_away);
        // The last requests may be read when all phases are over.
        if let Some((failed, ended)) = control.live.too_many().filter(|_| !control.is_stopped) {
            problems.push(RunError::TooManyFailures { failed, ended });
        }
        let inputs = composer.and_then(Composer::finish);
        Ok(Driven { anchor, ends, inputs, collected, server_count, probed, turned_away, problems })
    }

    /// What a user would rather know before the run than behind it.
    pub fn warnings(&self) -> Vec<String> {
        starts::silences(&self.starts, &*self.workload)
    }

    /// What a user should know of the load, one sentence each.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = starts::notes(&self.starts, &*self.workload);
        if self.plan.on_turn_error == OnTurnError::AbortSession && self.workload.describe().most_turns < 2 {
            notes.push("--on-turn-error has no effect: every conversation has one turn".to_owned());
        }
        notes
    }

    /// Makes the requests, those that are made for the first time into `inputs` too.
    pub(crate) fn composer(&self, inputs: Option<InputsFile>) -> Composer {
        Composer::new(ComposerSetup {
            workload: self.workload.clone(),
            sampler: self.sampler(),
            endpoint: self.endpoint.clone(),
            counter: self.counter(),
            inputs,
            repeats: self.repeats(),
            must_count: must_count(&self.plan),
            models: self.plan.models.clone(),
        })
    }

    /// Position of the conversation that is sent first.
    fn first(&self) -> usize {
        match self.starts.first() {
            Some(Starts::Schedule(schedule)) => schedule.entries()[0].conversation,
            _ => self.sampler().entry_for(0),
        }
    }

    fn sampler(&self) -> Sampler {
        Sampler::new(self.plan.sampling, self.plan.seed, self.workload.len())
    }

    /// Where to send: the simulated server is started here and now.
    fn addresses(&self) -> Result<(Vec<BaseUrl>, Option<SimHandle>), RunError> {
        let Some(config) = self.sim.clone() else {
            return Ok((self.plan.endpoint.targets.iter().map(|target| target.url.clone()).collect(), None));
        };
        let tokenizer = match &self.tokenizer {
            Some(tokenizer) => tokenizer.clone(),
            None => aiperf_hub::open(&TokenizerPlan { name: "builtin".into() }, Download::Never)?,
        };
        let handle = aiperf_sim::start(config, tokenizer, SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let url = loopback(self.plan.endpoint.url(), handle.addr());
        Ok((vec![url], Some(handle)))
    }

    /// How the server counts what it is sent first, if it can be asked.
    fn ask(
        &self,
        composer: &mut Composer,
        url: &BaseUrl,
        interrupt: &Interrupt,
    ) -> Result<Option<ServerCount>, RunError> {
        if self.plan.verify_lengths == VerifyLengths::Off {
            return Ok(None);
        }
        let warmup = self.plan.phases.first().is_some_and(|phase| phase.kind == PhaseKind::Warmup);
        // What is wrong with it is told by the phase that sends it.
        let Ok(first) = composer.prepared(self.first(), Visit { session: 0, warmup }) else {
            return Ok(None);
        };
        let Some(turn) = first.turns.first() else { return Ok(None) };
        let Some(sent) = self.body_counter().and_then(|mut c| c.body(&turn.body)) else { return Ok(None) };
        let asked = Asked {
            plan: &self.plan.endpoint,
            url,
            tls: self.tls.clone(),
            interrupt,
            id: Uuid::from_random(u128::from(random_u64()) << 64 | u128::from(random_u64())),
        };
        let Some(counted) = runtime()?.block_on(ask::count(&asked, &turn.body)) else { return Ok(None) };
        Ok(Some(ServerCount { asked: turn.length.map(|l| l.asked), sent, counted }))
    }

    /// Tells what prefix caches were to find, if that is wanted.
    fn ledgers(&self) -> Option<CacheLedgers> {
        let artifacts = &self.plan.artifacts;
        let prompts = self.prompt_ids().filter(|_| artifacts.cache_ledger)?;
        Some(CacheLedgers::new(prompts, artifacts.cache_block))
    }

    /// Counts again beside the run what was made to a length, if that is wanted and there is something to count with.
    fn verifier(&self) -> Result<Option<Verifier>, RunError> {
        let chosen = match self.plan.verify_lengths {
            VerifyLengths::All => Recounted::All,
            VerifyLengths::Sample => Recounted::Sample,
            VerifyLengths::Off => return Ok(None),
        };
        if !is_synthetic(&self.plan) {
            return Ok(None);
        }
        let counters = self.body_counter().zip(self.body_counter());
        counters.map(|(own, theirs)| Verifier::start(chosen, [own, theirs])).transpose()
    }

    /// What is asked.
    pub(crate) fn workload(&self) -> &dyn Workload {
        &*self.workload
    }

    /// The API.
    pub(crate) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// What starts the sessions of each phase.
    pub(crate) fn starts(&self) -> &[Starts] {
        &self.starts
    }

    /// What tokens are counted with.
    pub(crate) fn tokenizer(&self) -> Option<&dyn Tokenizer> {
        self.tokenizer.as_deref()
    }

    /// Tells what a server prefills. `None` without a tokenizer, of APIs where nobody knows, and where the server keeps answers so
    /// that a request does not hold all that is prefilled.
    pub(crate) fn prompt_ids(&self) -> Option<PromptIds> {
        let tokenizer = self.tokenizer.clone().filter(|_| !self.plan.endpoint.chains)?;
        PromptIds::new(tokenizer, self.endpoint.clone(), self.now)
    }

    /// Counts what is sent and received; `None` when the server's counts are used.
    pub(crate) fn counter(&self) -> Option<BodyCounter> {
        self.body_counter().filter(|_| !self.plan.endpoint.server_token_count)
    }

    /// Counts bodies; `None` when there is nothing to count with.
    fn body_counter(&self) -> Option<BodyCounter> {
        let tokenizer = self.tokenizer.clone()?;
        let has_messages = self.plan.endpoint.kind.has_messages();
        let specials =
            if self.plan.endpoint.kind.adds_specials() { tokenizer.prompt_specials() as u64 } else { 0 };
        let template = (self.plan.chat_template && has_messages).then_some(self.now);
        Some(BodyCounter::new(tokenizer, self.endpoint.clone(), specials, template))
    }

    fn capabilities(&self) -> Capabilities {
        let endpoint = &self.plan.endpoint;
        run_file::capabilities(endpoint.kind, endpoint.streaming, endpoint.server_token_count)
    }

    /// Whether some conversation may be sent twice.
    fn repeats(&self) -> bool {
        let len = self.workload.len() as u64;
        let of_phase = |phase: &PhasePlan| match phase.pacing {
            // Each once at most.
            Pacing::FixedSchedule { .. } => Some(phase.most_sessions().unwrap_or(len).min(len)),
            _ => phase.most_sessions(),
        };
        let planned: Option<u64> = self.plan.phases.iter().map(of_phase).sum();
        self.plan.sampling == Sampling::Random || planned.is_none_or(|n| n > len)
    }
}

/// Whether nobody knows the length of a body before it is counted: fields of the user's are laid over each, or prompts are
/// those of SGLang, which have the length that they turn out to have.
fn must_count(plan: &Plan) -> bool {
    let is_strict = match &plan.dataset {
        DatasetPlan::Synthetic(set) => {
            set.corpus == CorpusPlan::Random && set.style == RandomStyle::SglangStrict
        }
        DatasetPlan::File(_) => false,
    };
    is_strict || changes_count(&plan.endpoint.extra)
}

/// The address of a server of ours that listens at `address` for a `sim://` URL.
fn loopback(sim: &BaseUrl, address: SocketAddr) -> BaseUrl {
    BaseUrl {
        scheme: Scheme::Http,
        userinfo: None,
        host: address.ip().to_string(),
        port: address.port(),
        path: sim.path.clone(),
        query: None,
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, RunError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(RunError::Thread)
}

/// Whether prompts are made here (their repetition is our doing, not the user's file's).
pub(crate) fn is_synthetic(plan: &Plan) -> bool {
    matches!(plan.dataset, DatasetPlan::Synthetic(_))
}
