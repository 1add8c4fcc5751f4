//! Behind the run: turns ended requests into records.
//!
//! For each: read the answer out of the bytes, count its tokens, let the formulas run, append a line to the files, drop the
//! bytes. One thread, at lower priority than the shards. What it appended is in the file within a second, busy or idle.

mod collected;
mod counts;
mod files;
mod names;
mod told;

use std::collections::BTreeMap;
use std::sync::Arc;

use aiperf_core::outcome::{Disposition, Outcome};
use aiperf_core::plan::{PhaseKind, PhasePlan, Plan};
use aiperf_core::ticket::Ticket;
use aiperf_core::time::ClockAnchor;
use aiperf_core::url::BaseUrl;
use aiperf_load::FailureThreshold;
use aiperf_metrics::{
    Capabilities, ChunkFact, Disk, Facts, LengthFacts, Place, WireFacts, is_context_overflow,
};
use aiperf_net::{Answer, AnswerChunk, Client, Endpoint, Familiar};
use aiperf_os::mono_ns;

use crate::artifacts::{Folder, Scratch};
use crate::cache_ledger::{CacheLedgers, Went};
use crate::count::BodyCounter;
use crate::error::RunError;
use crate::handover::{HandoverStats, Incoming, Taken};
use crate::item::{Item, Needs, OwnBody, TurnFacts};
use crate::live::{Latest, Live};
use crate::outputs::Outputs;
use crate::verify::{Claim, Verifier};

pub(crate) use collected::{Collected, Malformed, PhaseResults};
use counts::Counts;
use files::{Files, Line};
use names::Names;
pub(crate) use names::{model_names, target_names};
use told::Told;

/// Lines stay in memory no longer than this while others come.
const FLUSH_NS: u64 = 250_000_000;

/// What a reader is made of.
pub(crate) struct ReaderSetup<'a> {
    pub plan: &'a Plan,
    pub folder: &'a Folder,
    pub anchor: ClockAnchor,
    pub capabilities: Capabilities,
    pub endpoint: Arc<Endpoint>,
    /// Counts answers, and requests that repeat them; `None` when the server's counts are used.
    pub counter: Option<BodyCounter>,
    pub live: Arc<Live>,
    /// The servers, for the headers in raw records.
    pub urls: Vec<BaseUrl>,
    /// Our counts are those of rendered requests.
    pub rendered: bool,
    /// Counts requests again.
    pub verifier: Option<Verifier>,
    /// Tells what prefix caches were to find.
    pub ledgers: Option<CacheLedgers>,
}

/// See the module.
pub(crate) struct Reader {
    /// Of each phase.
    thresholds: Vec<Option<FailureThreshold>>,
    endpoint: Arc<Endpoint>,
    /// What its answers have in common.
    familiar: Familiar,
    /// Heads are written down, in which a server may say secrets again.
    hides_in_heads: bool,
    counter: Option<BodyCounter>,
    live: Arc<Live>,
    anchor: ClockAnchor,
    names: Names,
    streaming: bool,
    /// ITL is taken without the tokens of the first chunk.
    per_chunk_usage: bool,
    told: Told,
    rendered: bool,
    verifier: Option<Verifier>,
    ledgers: Option<CacheLedgers>,
    collected: Collected,
    files: Files,
    scratch: Scratch,
    flushed_ns: u64,
}

impl Reader {
    /// Opens the files of the plan's export level.
    pub(crate) fn new(setup: ReaderSetup<'_>) -> Result<Self, RunError> {
        let ReaderSetup {
            plan,
            folder,
            anchor,
            capabilities,
            endpoint,
            counter,
            live,
            urls,
            rendered,
            verifier,
            ledgers,
        } = setup;
        let files = Files::create(plan, folder, urls)?;
        let mut collected = Collected::empty(plan, anchor, capabilities);
        let scratch = folder.scratch();
        let disk = Disk::new({
            let scratch = scratch.clone();
            move || scratch.file()
        });
        for (phase, own) in collected.phases.iter_mut().zip(&plan.phases) {
            let is_sliced = plan.artifacts.slice_ns.is_some() && own.kind == PhaseKind::Profiling;
            let recorder = collected::recorder(plan, own, anchor, capabilities).on(&disk);
            phase.recorder = if is_sliced { recorder.traced() } else { recorder };
            phase.targets = phase.targets.take().map(|targets| targets.on(&disk));
        }
        collected.disk = Some(disk);
        if plan.artifacts.outputs {
            collected.outputs = Some(Outputs::create(folder.outputs_json(), &scratch)?);
        }
        let threshold = |phase: &PhasePlan| {
            let share = phase.failed_threshold.filter(|_| phase.kind == PhaseKind::Profiling)?;
            Some(FailureThreshold::new(share, phase.concurrency))
        };
        Ok(Self {
            thresholds: plan.phases.iter().map(threshold).collect(),
            endpoint,
            familiar: Familiar::new(),
            hides_in_heads: plan.artifacts.trace.export,
            counter,
            live,
            anchor,
            names: Names::of(plan),
            streaming: capabilities.streaming,
            per_chunk_usage: plan.endpoint.per_chunk_usage,
            told: Told::default(),
            rendered,
            verifier,
            ledgers,
            collected,
            files,
            scratch,
            flushed_ns: 0,
        })
    }

    /// Says it once when too many requests of a phase failed.
    fn watch(&mut self, phase: usize, failed: bool) {
        if let Some(threshold) = &mut self.thresholds[phase]
            && threshold.note(failed)
        {
            let (failed, ended) = threshold.counts();
            self.live.pass_threshold(failed, ended);
        }
    }

    /// What of bodies it looks at.
    pub(crate) fn needs(&self) -> Needs {
        Needs {
            raw: self.files.has_raw() || self.ledgers.is_some(),
            uncounted: self.counter.is_some(),
            recount: self.verifier.as_ref().map(Verifier::chosen),
        }
    }

    /// Reads until the last shard is gone.
    pub(crate) fn run(mut self, mut incoming: Incoming) -> Collected {
        let senders = self.files.senders();
        let mut last_phase = 0;
        loop {
            // By phase: where one starts before the other is over, a batch has requests of both.
            let mut seen: BTreeMap<u16, Latest> = BTreeMap::new();
            match incoming.take() {
                Taken::Requests(items) => {
                    for item in items {
                        let sender = senders.get(usize::from(item.ticket.target)).and_then(Option::as_ref);
                        last_phase = item.ticket.phase;
                        let phase = seen.entry(last_phase).or_default();
                        self.read(item, sender, phase);
                    }
                }
                Taken::Unreadable(requests, source) => {
                    // Nothing is known of them any more but that they were sent.
                    seen.entry(last_phase).or_default().counts.failed = requests;
                    self.collected.problems.push(RunError::Artifact {
                        action: "read back requests that were written to a file in",
                        path: self.scratch.dir().to_owned(),
                        source,
                    });
                }
                Taken::Over => break,
            }
            for (phase, seen) in seen {
                self.live.update(phase, |latest| latest.absorb(&seen));
            }
            // With nothing more to do right now, a person who looks at the files sees what there is.
            let now_ns = mono_ns();
            if incoming.is_empty() || now_ns.saturating_sub(self.flushed_ns) >= FLUSH_NS {
                self.files.flush();
                self.flushed_ns = now_ns;
            }
        }
        self.files.flush();
        let Self { mut collected, files, verifier, ledgers, .. } = self;
        collected.is_cache_full = ledgers.is_some_and(|ledgers| ledgers.is_full());
        collected.handover = incoming.finish();
        let HandoverStats { most_requests, most_bytes, spilled_requests, spilled_bytes, .. } =
            &collected.handover;
        tracing::info!(
            "at most {most_requests} requests ({most_bytes} bytes) waited for the reader; {spilled_requests} of all went through a \
             file ({spilled_bytes} bytes)"
        );
        match verifier.map(Verifier::finish).transpose() {
            Ok(recount) => {
                for (phase, correction) in recount.iter().flat_map(|r| &r.corrections) {
                    collected.phases[*phase].lengths.correct(&correction.said, &correction.found);
                }
                collected.verified = recount.map(|r| r.verified);
            }
            Err(problem) => collected.problems.push(problem),
        }
        collected.files.extend(files.finish());
        collected
    }

    fn read(&mut self, item: Item, sender: Option<&Client>, seen: &mut Latest) {
        let Item { number, ticket, mut exchange, turn, body, answer, own } = item;
        // A row may have credentials of its own.
        let own_secrets = (!turn.headers.is_empty()).then(|| self.endpoint.secrets().with(&turn.headers));
        if self.hides_in_heads {
            let secrets = own_secrets.as_ref().unwrap_or_else(|| self.endpoint.secrets());
            secrets.hide(&mut exchange.reason);
            for (_, value) in &mut exchange.headers {
                secrets.hide(value);
            }
        }
        let mut answer = answer.unwrap_or_else(|| self.endpoint.read_with(&exchange, &mut self.familiar));
        if let (Some(secrets), Some(failure)) = (&own_secrets, &mut answer.failure) {
            secrets.hide_in(failure);
        }
        let outcome = match (&exchange.disposition, &answer.failure) {
            (Disposition::Cancelled { .. }, _) => Outcome::Cancelled,
            (_, Some(_)) => Outcome::Failed,
            (_, None) => Outcome::Completed,
        };
        let at = usize::from(ticket.phase);
        self.watch(at, outcome == Outcome::Failed);
        self.told.results(self.endpoint.kind(), &turn, &answer);
        self.told.spec_decode(&answer);
        let counts = Counts::of(self.counter.as_mut(), &answer, &turn, &body);
        let counter = self.counter.as_ref().filter(|_| self.streaming);
        let token_gaps =
            counter.map(|counter| counts.token_gaps(counter, number, &answer)).unwrap_or_default();
        let is_warmup = self.names.kind(&ticket) == PhaseKind::Warmup;
        let cache = self.ledgers.as_mut().and_then(|ledgers| {
            let is_prefilled = outcome == Outcome::Completed || !answer.chunks.is_empty();
            let written = turn.is_remembered.then(|| answer.written());
            ledgers.of(&body, Went { is_warmup, is_prefilled, reply: written.as_deref() })
        });
        let facts = Facts {
            outcome,
            start_ns: exchange.stamps.start_ns,
            end_ns: exchange.stamps.end_ns,
            scheduled_ns: ticket.scheduled_ns,
            chunks: chunks(&answer),
            isl: counts.isl,
            images: turn.images,
            audio_ns: turn.audio_ns,
            asked_isl: turn.asked,
            output_tokens: counts.output,
            reasoning_tokens: counts.reasoning,
            // Each choice may have so many.
            requested_osl: turn.requested_osl.map(|osl| osl.saturating_mul(1 + answer.others.len() as u64)),
            usage: answer.usage,
            context_overflow: answer.failure.as_ref().is_some_and(is_context_overflow),
            first_event_ns: answer.first_event_ns,
            token_gaps,
            first_chunk_tokens: answer.first_chunk_tokens.filter(|_| self.per_chunk_usage),
            spec_decode: answer.spec_decode.take(),
            finish: answer.finish(),
            cache,
            place: Place { turn: ticket.turn, model: turn.model, target: ticket.target },
            abandoned_turns: ticket.abandoned_turns,
            wire: WireFacts::of(&ticket, &exchange),
        };
        if self.per_chunk_usage && outcome == Outcome::Completed {
            self.told.first_chunk(&facts);
        }
        let lengths = self.lengths(&ticket, &turn, &facts);
        self.offer(number, &ticket, &turn, own, lengths);

        let phase = &mut self.collected.phases[at];
        phase.last_end_ns = phase.last_end_ns.max(facts.end_ns);
        if outcome == Outcome::Completed && answer.malformed_events > 0 {
            phase.malformed.events += u64::from(answer.malformed_events);
            phase.malformed.answers += 1;
        }
        phase.load.add(&ticket, &exchange);
        if let Some(targets) = &mut phase.targets {
            targets.record(usize::from(ticket.target), &facts, self.streaming);
        }
        phase.lengths.add(&lengths);
        let values = phase.recorder.record(&facts);
        if let Some(failure) = &answer.failure {
            phase.errors.add(failure);
        }
        seen.add(&facts, &values);

        let meta = self.names.meta(&ticket, &exchange, &self.anchor, &turn, &facts, &answer);
        let line = Line {
            ticket: &ticket,
            exchange: &exchange,
            anchor: &self.anchor,
            meta: &meta,
            facts: &facts,
            values: &values,
            failure: answer.failure.as_ref(),
            headers: &turn.headers,
            body: &body,
        };
        self.files.add(&line, sender);
        if let Some(outputs) = &mut self.collected.outputs
            && self.names.kind(&ticket) == PhaseKind::Profiling
        {
            outputs.add(&ticket, &meta, &values, &answer.written());
        }
    }

    /// The request's input lengths side by side.
    fn lengths(&self, ticket: &Ticket, turn: &TurnFacts, facts: &Facts) -> LengthFacts {
        LengthFacts {
            asked: facts.asked_isl,
            made: turn.made,
            // What the server counted is no count of ours.
            sent: facts.isl.filter(|_| self.counter.is_some()),
            // Servers count the query with every passage, so theirs is a count of something else.
            counted: facts.usage.and_then(|u| u.prompt_tokens).filter(|_| !self.endpoint.kind().is_ranking()),
            later: ticket.turn > 0 && turn.is_part,
            prompt: (ticket.entry as u64) << 16 | u64::from(ticket.turn),
        }
    }

    /// Has the request counted again, if somebody does that and its length can be told.
    fn offer(&mut self, number: u64, ticket: &Ticket, turn: &TurnFacts, own: OwnBody, lengths: LengthFacts) {
        let Some(verifier) = &mut self.verifier else { return };
        // How much of a rendered request is a later turn's own part, the request does not tell.
        if let Some(said) = turn.made.filter(|_| !(lengths.later && self.rendered)) {
            verifier.offer(number, || Claim {
                conversation: turn.conversation.clone(),
                turn: ticket.turn,
                own,
                said,
                facts: lengths,
                phase: usize::from(ticket.phase),
            });
        }
    }
}

/// A chunk carries answer text when the answer grew with it.
fn chunks(answer: &Answer) -> Vec<ChunkFact> {
    let mut before = 0;
    let chunk = |chunk: &AnswerChunk| ChunkFact {
        at_ns: chunk.at_ns,
        answer: chunk.text_end > std::mem::replace(&mut before, chunk.text_end),
    };
    answer.chunks.iter().map(chunk).collect()
}
