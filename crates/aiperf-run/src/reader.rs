//! Behind the run: turns ended requests into records.
//!
//! For each: read the answer out of the bytes, count its tokens, let the formulas run, append a line to the files, drop the
//! bytes. One thread, at lower priority than the shards. What it appended is in the file within a second, busy or idle.

use std::collections::BTreeMap;
use std::sync::Arc;

use aiperf_core::exchange::Exchange;
use aiperf_core::outcome::{Disposition, Outcome};
use aiperf_core::plan::{EndpointPlan, ExportLevel, HttpVersion, Pacing, PhaseKind, PhasePlan, Plan};
use aiperf_core::text::for_terminal;
use aiperf_core::time::{ClockAnchor, ns_to_ms};
use aiperf_core::url::BaseUrl;
use aiperf_load::FailureThreshold;
use aiperf_metrics::{
    Capabilities, ChunkFact, Disk, ErrorSummary, Facts, LengthFacts, LengthLedger, Place, Recorder,
    TargetRecorder, Value, WireFacts, fits_first_chunk, is_context_overflow, token_gaps, tokens_of_chunks,
};
use aiperf_net::sse::SseScanner;
use aiperf_net::{Answer, Client, Endpoint, Familiar};
use aiperf_os::mono_ns;
use aiperf_report::Verified;
use aiperf_report::jsonl::{self, Meta, PhaseMeta};
use aiperf_report::raw::{self, Raw, Responses};
use aiperf_report::trace::Trace;

use crate::artifacts::{Folder, Scratch, Spool};
use crate::count::BodyCounter;
use crate::error::RunError;
use crate::handover::{HandoverStats, Incoming, Taken};
use crate::item::{Item, Needs, TurnFacts};
use crate::live::{Latest, Live};
use crate::outputs::Outputs;
use crate::phase_load::PhaseLoad;
use crate::verify::{Claim, Verifier};

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
}

/// One phase's results.
pub(crate) struct PhaseResults {
    pub recorder: Recorder,
    pub errors: ErrorSummary,
    pub lengths: LengthLedger,
    /// End of the request that came back last, monotonic; 0 before the first.
    pub last_end_ns: u64,
    /// Events of whole answers that were no JSON and were passed over.
    pub malformed: Malformed,
    /// How the load was.
    pub load: PhaseLoad,
    /// Results by server, when there are several.
    pub targets: Option<TargetRecorder>,
}

/// Events passed over in answers that count as whole all the same, as in AIPerf.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Events.
    pub events: u64,
    /// Answers they were in.
    pub answers: u64,
}

/// What the reader leaves behind.
pub(crate) struct Collected {
    /// One for each phase of the plan.
    pub phases: Vec<PhaseResults>,
    /// Files that grew during the run, with their label for the footer.
    pub files: Vec<(&'static str, Spool)>,
    /// The answers' texts, where they are kept.
    pub outputs: Option<Outputs>,
    /// What counting again came to.
    pub verified: Option<Verified>,
    /// How far the reader was behind.
    pub handover: HandoverStats,
    /// Where long columns are.
    pub disk: Option<Disk>,
    /// What went wrong behind the run.
    pub problems: Vec<RunError>,
}

impl Collected {
    /// Nothing was read.
    pub(crate) fn empty(plan: &Plan, anchor: ClockAnchor, capabilities: Capabilities) -> Self {
        let targets = plan.endpoint.targets.len();
        let phases = plan
            .phases
            .iter()
            .map(|phase| PhaseResults {
                recorder: recorder(plan, phase, anchor, capabilities),
                errors: ErrorSummary::default(),
                lengths: LengthLedger::default(),
                last_end_ns: 0,
                malformed: Malformed::default(),
                load: PhaseLoad::new(phase),
                targets: (targets > 1).then(|| TargetRecorder::new(targets)),
            })
            .collect();
        Self {
            phases,
            files: Vec::new(),
            outputs: None,
            verified: None,
            handover: HandoverStats::default(),
            disk: None,
            problems: Vec::new(),
        }
    }
}

/// An empty recorder for a phase.
fn recorder(plan: &Plan, phase: &PhasePlan, anchor: ClockAnchor, capabilities: Capabilities) -> Recorder {
    let is_replay = matches!(phase.pacing, Pacing::FixedSchedule { .. });
    Recorder::new(capabilities, anchor).with_slos(&plan.slos).of_replay(is_replay)
}

/// The servers of a plan, without secrets.
pub(crate) fn target_names(plan: &Plan) -> Vec<String> {
    plan.endpoint.targets.iter().map(|target| target.url.to_string()).collect()
}

/// The models of a plan that has several; of others there is nothing to tell apart.
pub(crate) fn model_names(plan: &Plan) -> Vec<String> {
    if plan.models.len() > 1 { plan.models.clone() } else { Vec::new() }
}

/// A phase as lines name it.
struct PhaseName {
    kind: PhaseKind,
    index: u32,
    profiling_index: Option<u32>,
    name: String,
}

/// See the module.
pub(crate) struct Reader {
    /// Of each phase.
    thresholds: Vec<Option<FailureThreshold>>,
    endpoint: Arc<Endpoint>,
    /// What its answers have in common.
    familiar: Familiar,
    counter: Option<BodyCounter>,
    live: Arc<Live>,
    anchor: ClockAnchor,
    names: Vec<PhaseName>,
    /// Of the servers, where there are several.
    url_names: Vec<String>,
    /// Of the models, where there are several.
    model_names: Vec<String>,
    streaming: bool,
    /// ITL is taken without the tokens of the first chunk.
    per_chunk_usage: bool,
    /// What was told once already.
    told: Told,
    rendered: bool,
    verifier: Option<Verifier>,
    collected: Collected,
    records: Option<Spool>,
    raw: Option<RawFile>,
    /// Each record is to have what the wire showed.
    traces: Option<Traces>,
    scratch: Scratch,
    flushed_ns: u64,
    /// A request whose answer has another number of vectors or scores than inputs was told.
    told_of_results: bool,
}

/// Oddities of answers that are told once a run.
#[derive(Default)]
struct Told {
    first_chunk: bool,
    spec_decode: bool,
}

impl Told {
    fn first_chunk(&mut self, facts: &Facts) {
        if std::mem::replace(&mut self.first_chunk, true) {
            return;
        }
        let what = match facts.first_chunk_tokens {
            None => "no count of tokens came with the first chunk of an answer".to_owned(),
            Some(first) => format!(
                "the server counts {first} tokens in the first chunk of an answer, which does not fit the answer"
            ),
        };
        tracing::warn!(
            "--per-chunk-usage: {what}; its inter-token latency is taken over all tokens but one. Does the server know \
             stream_options.continuous_usage_stats?"
        );
    }

    fn spec_decode(&mut self, problem: &str) {
        if !std::mem::replace(&mut self.spec_decode, true) {
            tracing::warn!(
                "counts of speculative decoding in an answer do not agree and are left out: {problem}"
            );
        }
    }
}

/// The file of whole requests and answers.
struct RawFile {
    spool: Spool,
    plan: EndpointPlan,
    urls: Vec<BaseUrl>,
}

/// What words a trace beside the exchange.
struct Traces {
    plan: EndpointPlan,
    urls: Vec<BaseUrl>,
}

impl Traces {
    fn http_version(&self) -> &'static str {
        match self.plan.http {
            HttpVersion::One => "1.1",
            HttpVersion::Two => "2",
        }
    }

    /// Whether a server has a name that is looked up.
    fn is_named(&self, target: usize) -> bool {
        let host = self.urls.get(target).map_or("", |url| url.host.trim_matches(['[', ']']));
        self.plan.unix_socket.is_none() && host.parse::<std::net::IpAddr>().is_err()
    }
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
        } = setup;
        let level = plan.artifacts.level;
        let records = (level >= ExportLevel::Records)
            .then(|| Spool::create(folder.records_jsonl(), false))
            .transpose()?;
        let traces =
            plan.artifacts.trace.export.then(|| Traces { plan: plan.endpoint.clone(), urls: urls.clone() });
        let raw = (level >= ExportLevel::Raw)
            .then(|| -> Result<_, RunError> {
                let spool = Spool::create(folder.raw_jsonl(), true)?;
                Ok(RawFile { spool, plan: plan.endpoint.clone(), urls })
            })
            .transpose()?;
        let mut profiling = 0;
        let names = plan
            .phases
            .iter()
            .enumerate()
            .map(|(index, phase)| PhaseName {
                kind: phase.kind,
                index: index as u32,
                profiling_index: (phase.kind == PhaseKind::Profiling).then(|| {
                    profiling += 1;
                    profiling - 1
                }),
                name: phase.name.clone(),
            })
            .collect();
        let mut collected = Collected::empty(plan, anchor, capabilities);
        let scratch = folder.scratch();
        let disk = Disk::new({
            let scratch = scratch.clone();
            move || scratch.file()
        });
        for (phase, own) in collected.phases.iter_mut().zip(&plan.phases) {
            let is_sliced = plan.artifacts.slice_ns.is_some() && own.kind == PhaseKind::Profiling;
            let recorder = recorder(plan, own, anchor, capabilities).on(&disk);
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
            counter,
            live,
            anchor,
            names,
            url_names: if plan.endpoint.targets.len() > 1 { target_names(plan) } else { Vec::new() },
            model_names: model_names(plan),
            streaming: capabilities.streaming,
            per_chunk_usage: plan.endpoint.per_chunk_usage,
            told: Told::default(),
            rendered,
            verifier,
            collected,
            records,
            raw,
            traces,
            scratch,
            flushed_ns: 0,
            told_of_results: false,
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

    /// Says it once when an answer is good and has not as many vectors or scores as the request has inputs.
    fn compare_results(&mut self, turn: &TurnFacts, answer: &Answer) {
        if let (Some(expected), Some(found)) = (turn.results, answer.results)
            && expected != found
            && answer.failure.is_none()
            && !std::mem::replace(&mut self.told_of_results, true)
        {
            let what = if self.endpoint.kind().is_ranking() { "scores" } else { "vectors" };
            tracing::warn!(
                "an answer has {found} {what} for {expected} inputs (conversation {}); it counts as completed, and others like it \
                 are not told",
                for_terminal(&turn.conversation, 80)
            );
        }
    }

    /// What of bodies it looks at.
    pub(crate) fn needs(&self) -> Needs {
        Needs {
            raw: self.raw.is_some(),
            uncounted: self.counter.is_some(),
            recount: self.verifier.as_ref().map(Verifier::chosen),
        }
    }

    /// Reads until the last shard is gone.
    pub(crate) fn run(mut self, mut incoming: Incoming) -> Collected {
        // Only words headers here; it opens no connection. It belongs to one thread, so it is made in this one. Shards make the same one
        // first and fail the run if it cannot be made.
        let raw = self.raw.as_ref().map(|raw| (&raw.plan, &raw.urls));
        let wording = raw.or(self.traces.as_ref().map(|traces| (&traces.plan, &traces.urls)));
        let senders =
            wording.iter().flat_map(|(plan, urls)| urls.iter().map(|url| Client::new(plan, url, None).ok()));
        let senders: Vec<Option<Client>> = senders.collect();
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
                self.flush();
                self.flushed_ns = now_ns;
            }
        }
        self.flush();
        let Self { mut collected, records, raw, verifier, .. } = self;
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
        collected.files.extend(records.map(|spool| ("Records", spool)));
        collected.files.extend(raw.map(|raw| ("Raw Records", raw.spool)));
        collected
    }

    fn flush(&mut self) {
        if let Some(spool) = &mut self.records {
            spool.flush();
        }
        if let Some(raw) = &mut self.raw {
            raw.spool.flush();
        }
    }

    fn read(&mut self, item: Item, sender: Option<&Client>, seen: &mut Latest) {
        let Item { number, ticket, exchange, turn, body, answer, own } = item;
        let answer = answer.unwrap_or_else(|| self.endpoint.read_with(&exchange, &mut self.familiar));
        let outcome = match (&exchange.disposition, &answer.failure) {
            (Disposition::Cancelled { .. }, _) => Outcome::Cancelled,
            (_, Some(_)) => Outcome::Failed,
            (_, None) => Outcome::Completed,
        };
        self.watch(usize::from(ticket.phase), outcome == Outcome::Failed);
        self.compare_results(&turn, &answer);
        let as_sent = turn.is_part.then_some(&body[..]);
        let counts = self.count(&answer, turn.isl, as_sent, turn.is_remembered);
        let token_gaps = self.token_gaps(number, &answer, &counts);
        let facts = Facts {
            outcome,
            start_ns: exchange.stamps.start_ns,
            end_ns: exchange.stamps.end_ns,
            scheduled_ns: ticket.scheduled_ns,
            chunks: chunks(&answer),
            isl: counts.isl,
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
            spec_decode: answer.spec_decode.clone(),
            finish: answer.finish(),
            place: Place { turn: ticket.turn, model: turn.model, target: ticket.target },
            wire: WireFacts::of(&ticket, &exchange),
        };
        if self.per_chunk_usage && outcome == Outcome::Completed {
            let osl = facts.output_tokens.unwrap_or(0) + facts.reasoning_tokens.unwrap_or(0);
            let fits = facts.first_chunk_tokens.is_some_and(|first| fits_first_chunk(first, osl));
            if osl >= 2 && !fits {
                self.told.first_chunk(&facts);
            }
        }
        if let Some(problem) = &answer.spec_decode_problem {
            self.told.spec_decode(problem);
        }
        // What the server counted is no count of ours.
        let sent = counts.isl.filter(|_| self.counter.is_some());
        let later = ticket.turn > 0 && turn.is_part;
        let made = turn.made;
        let at = usize::from(ticket.phase);
        let lengths = LengthFacts {
            asked: facts.asked_isl,
            made,
            sent,
            // Servers count the query with every passage, so theirs is a count of something else.
            counted: answer
                .usage
                .and_then(|u| u.prompt_tokens)
                .filter(|_| !self.endpoint.kind().is_ranking()),
            later,
            prompt: (ticket.entry as u64) << 16 | u64::from(ticket.turn),
        };
        if let Some(verifier) = &mut self.verifier {
            // How much of a rendered request is a later turn's own part, the request does not tell.
            if let Some(said) = made.filter(|_| !(later && self.rendered)) {
                verifier.offer(number, || Claim {
                    conversation: turn.conversation.clone(),
                    turn: ticket.turn,
                    own,
                    said,
                    facts: lengths,
                    phase: at,
                });
            }
        }
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
        seen.add(outcome, &facts, &values);

        let name = &self.names[at];
        let mut meta = Meta::of(
            &ticket,
            &exchange,
            &self.anchor,
            &turn.conversation,
            PhaseMeta {
                kind: name.kind,
                index: name.index,
                profiling_index: name.profiling_index,
                name: &name.name,
            },
            outcome,
        );
        meta.finish = (facts.finish, answer.finish_reason.as_deref());
        meta.first_chunk_tokens = facts.first_chunk_tokens;
        meta.url = self.url_names.get(usize::from(ticket.target)).map(String::as_str);
        meta.model = self.model_names.get(usize::from(turn.model)).map(String::as_str);
        if let Some(spool) = &mut self.records {
            let sent = sender.filter(|_| self.traces.is_some()).map(|sender| {
                let body_len = exchange.traffic.body_sent;
                sender.sent_headers(ticket.request_id, &ticket.correlation_id, body_len)
            });
            let trace = self.traces.as_ref().zip(sent.as_ref()).map(|(of, headers)| Trace {
                exchange: &exchange,
                anchor: &self.anchor,
                headers,
                http_version: of.http_version(),
                scheduled_ns: ticket.scheduled_ns,
                is_named: of.is_named(usize::from(ticket.target)),
            });
            let said = jsonl::Said {
                trace: trace.as_ref(),
                error: answer.failure.as_ref(),
                spec_decode: facts.spec_decode.as_ref().filter(|_| outcome == Outcome::Completed),
                completion_tokens: answer.usage.and_then(|u| u.completion_tokens),
            };
            spool.append(|out| jsonl::line(out, &meta, &values, said));
        }
        if let Some(outputs) = &mut self.collected.outputs
            && name.kind == PhaseKind::Profiling
        {
            outputs.add(&ticket, &meta, &values, &answer.written());
        }
        if let (Some(file), Some(sender)) = (&mut self.raw, sender) {
            let sent = sender.request_headers(ticket.request_id, &ticket.correlation_id);
            let sent: Vec<(&str, &str)> = sent.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            let events;
            let responses = match exchange.status {
                Some(200..=299) if exchange.is_event_stream() => {
                    events = events_of(&exchange);
                    Responses::Events(&events)
                }
                Some(200..=299) if !exchange.body.is_empty() => Responses::Body {
                    at_ns: exchange.stamps.last_byte_ns.unwrap_or(exchange.stamps.end_ns),
                    text: &exchange.body,
                    content_type: exchange.content_type.as_deref(),
                },
                _ => Responses::None,
            };
            let line = Raw {
                meta: &meta,
                start_mono_ns: exchange.stamps.start_ns,
                headers: &sent,
                status: exchange.status,
                responses,
                error: answer.failure.as_ref(),
                payload: &body,
            };
            file.spool.append(|out| raw::line(out, &line));
        }
    }

    /// Lengths: ours, or the server's when it was asked to count. `isl` is known before the request is sent, but for a turn
    /// that says again what the server answered: that is counted `as_sent`.
    fn count(
        &mut self,
        answer: &Answer,
        isl: Option<u64>,
        as_sent: Option<&[u8]>,
        is_remembered: bool,
    ) -> Counts {
        let Some(counter) = &mut self.counter else {
            let usage = answer.usage.unwrap_or_default();
            let reasoning = usage.reasoning_tokens;
            return Counts {
                isl: usage.prompt_tokens,
                output: usage.completion_tokens.map(|c| c.saturating_sub(reasoning.unwrap_or(0))),
                reasoning,
            };
        };
        let mut tokens = |text: &str, is_remembered: bool| {
            (!text.is_empty())
                .then(|| if is_remembered { counter.remembered(text) } else { counter.answer(text) })
        };
        // Each choice is a text of its own; only the first is part of the next request.
        let (mut output, mut reasoning) = (None, None);
        for (at, (text, thoughts)) in answer.choices().enumerate() {
            output = sum(output, tokens(text, is_remembered && at == 0));
            reasoning = sum(reasoning, tokens(thoughts, false));
        }
        let isl = isl.or_else(|| counter.body(as_sent?));
        Counts { isl, output, reasoning }
    }

    /// Gaps between the tokens of a streamed answer, if it is one of the sample. Where there are as many chunks as tokens each is taken to
    /// bring one; else every chunk is counted for itself.
    fn token_gaps(&self, number: u64, answer: &Answer, counts: &Counts) -> Vec<u64> {
        let Some(counter) = self.counter.as_ref().filter(|_| self.streaming && has_token_gaps(number)) else {
            return Vec::new();
        };
        // Chunks of several choices say nothing of the pace of one.
        if !answer.others.is_empty() {
            return Vec::new();
        }
        let tokens = counts.output.unwrap_or(0) + counts.reasoning.unwrap_or(0);
        let brought = if tokens == answer.chunks.len() as u64 {
            vec![1; answer.chunks.len()]
        } else {
            let (mut text, mut reasoning) = (0, 0);
            let of = |whole: &str, from: usize, to: usize| match whole.get(from..to) {
                Some(piece) if !piece.is_empty() => counter.answer(piece),
                _ => 0,
            };
            let alone = answer.chunks.iter().map(|chunk| {
                let own = of(&answer.text, text, chunk.text_end)
                    + of(&answer.reasoning, reasoning, chunk.reasoning_end);
                (text, reasoning) = (chunk.text_end, chunk.reasoning_end);
                own
            });
            tokens_of_chunks(&alone.collect::<Vec<_>>(), tokens)
        };
        token_gaps(answer.chunks.iter().map(|chunk| chunk.at_ns).zip(brought))
    }
}

/// Requests whose tokens are looked at chunk by chunk whatever comes, the first ones of the run.
const GAPS_FIRST: u64 = 256;
/// Behind them, one of 2 to the power of this.
const GAPS_EVERY_BITS: u32 = 4;

/// Whether the request behind `number` others is one of those. Numbers are scattered, so that no rhythm of turns makes a sample of first
/// turns alone.
fn has_token_gaps(number: u64) -> bool {
    let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number < GAPS_FIRST || scattered >> (u64::BITS - GAPS_EVERY_BITS) == 0
}

/// Every event with its fields, stamped with the read that brought its first byte.
#[expect(clippy::type_complexity, reason = "the form the raw file takes")]
fn events_of(exchange: &Exchange) -> Vec<(u64, Vec<(&[u8], &[u8])>)> {
    let mut scanner = SseScanner::new();
    let mut events = Vec::new();
    while let Some(event) = scanner.next(&exchange.body, true) {
        let at_ns = exchange.arrival_ns(event.start()).unwrap_or(exchange.stamps.end_ns);
        events.push((at_ns, event.fields().collect()));
    }
    events
}

struct Counts {
    isl: Option<u64>,
    output: Option<u64>,
    reasoning: Option<u64>,
}

/// Both, as far as they are there.
fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

/// A chunk carries answer text when the answer grew with it.
fn chunks(answer: &Answer) -> Vec<ChunkFact> {
    let mut before = 0;
    answer
        .chunks
        .iter()
        .map(|chunk| {
            let answer = chunk.text_end > before;
            before = chunk.text_end;
            ChunkFact { at_ns: chunk.at_ns, answer }
        })
        .collect()
}

impl Latest {
    fn add(&mut self, outcome: Outcome, facts: &Facts, values: &aiperf_metrics::RecordValues) {
        match outcome {
            Outcome::Completed => self.counts.completed += 1,
            Outcome::Cancelled => self.counts.cancelled += 1,
            Outcome::Failed | Outcome::Lost | Outcome::Unsent => self.counts.failed += 1,
        }
        if outcome != Outcome::Completed {
            return;
        }
        if let (Some(first), Some(last)) = (facts.chunks.first(), facts.chunks.last()) {
            self.ttft_ms.push(ns_to_ms(first.at_ns.saturating_sub(facts.start_ns)));
            self.latency_ms.push(ns_to_ms(last.at_ns.saturating_sub(facts.start_ns)));
        }
        if let Some(Value::Real(itl_ns)) = values.get("inter_token_latency") {
            self.itl_ms.push(itl_ns / 1e6);
        }
    }

    fn absorb(&mut self, seen: &Self) {
        self.counts.completed += seen.counts.completed;
        self.counts.failed += seen.counts.failed;
        self.counts.cancelled += seen.counts.cancelled;
        self.ttft_ms.absorb(&seen.ttft_ms);
        self.itl_ms.absorb(&seen.itl_ms);
        self.latency_ms.absorb(&seen.latency_ms);
    }
}
