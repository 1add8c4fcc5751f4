//! How fast prompts are made, and in how much memory: corpora × lengths × what is around the text.
//!
//! Each cell is measured in a process of its own, so that its first prompts are the first ones and its peak of memory is its own.

use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;

use aiperf_core::conversation::Conversation;
use aiperf_core::plan::{
    CacheBustPlan, CorpusPlan, DatasetPlan, LengthPlan, LengthsPlan, MarkerTarget, Plan, PrefixPlan,
    SyntheticPlan, WindowPlan,
};
use aiperf_data::{OpenContext, Visit, Workload};
use aiperf_os::usage::process_usage;
use aiperf_tokens::{TemplateClock, count_chat};
use serde_json::{Value, json};

use crate::material::{self, Material};

const LENGTHS: [u64; 3] = [128, 1024, 8192];
/// Different prompts of a cell.
const ENTRIES: usize = 10_000;
/// Prompts of a short run.
const FIRST: usize = 100;
/// Prompts behind them that open what is left of a corpus; fewer where they take longer than a round.
const WARM: usize = 2000;
/// The fastest of so many rounds counts, for whatever disturbs adds.
const ROUNDS: usize = 5;
/// CPU time of a round, at least.
const ROUND_NS: u64 = 150_000_000;
/// Prompts that are counted again, and that the digest of texts is over.
const SAMPLE: usize = 20;
/// Prompts before the first look at the memory.
const FEW: usize = 1000;
/// Every cell's output length.
const OUTPUT: u64 = 128;

/// What texts are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sonnet,
    Coding,
    /// Every draw from one stream in vLLM's order, as a range ratio asks for.
    RandomVllm,
    /// Every draw from a key of its own.
    RandomKeyed,
}

/// What is around a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Around {
    /// Nothing.
    Bare,
    /// The chat template.
    Rendered,
    /// The same, and a marker before the text.
    Marked,
    /// A system message that all share and a prefix from a pool; the template too, where there is one.
    Shared,
}

/// One cell of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    kind: Kind,
    isl: u64,
    around: Around,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Sonnet, Self::Coding, Self::RandomVllm, Self::RandomKeyed];

    const fn name(self) -> &'static str {
        match self {
            Self::Sonnet => "sonnet",
            Self::Coding => "coding",
            Self::RandomVllm => "random-vllm",
            Self::RandomKeyed => "random-keyed",
        }
    }

    const fn corpus(self) -> CorpusPlan {
        match self {
            Self::Sonnet => CorpusPlan::Sonnet,
            Self::Coding => CorpusPlan::Coding,
            Self::RandomVllm | Self::RandomKeyed => CorpusPlan::Random,
        }
    }
}

impl Around {
    const ALL: [Self; 4] = [Self::Bare, Self::Rendered, Self::Marked, Self::Shared];

    const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Rendered => "rendered",
            Self::Marked => "marked",
            Self::Shared => "shared",
        }
    }

    const fn needs_template(self) -> bool {
        matches!(self, Self::Rendered | Self::Marked)
    }
}

impl Cell {
    fn all() -> impl Iterator<Item = Self> {
        Kind::ALL.into_iter().flat_map(|kind| {
            LENGTHS
                .into_iter()
                .flat_map(move |isl| Around::ALL.into_iter().map(move |around| Self { kind, isl, around }))
        })
    }

    fn name(self) -> String {
        format!("{}-{}-{}", self.kind.name(), self.isl, self.around.name())
    }

    fn plan(self, seed: u64, entries: usize, has_template: bool) -> Plan {
        let (isl, osl) = (self.isl, OUTPUT);
        let length = |tokens: u64| LengthPlan::normal(tokens as f64, 0.0);
        let set = SyntheticPlan {
            corpus: self.kind.corpus(),
            lengths: match self.kind {
                Kind::RandomVllm => {
                    LengthsPlan::Window(WindowPlan { isl, osl, isl_ratio: 0.0, osl_ratio: 0.0 })
                }
                _ => LengthsPlan::Apart { isl: length(isl), osl: Some(length(osl)) },
            },
            prefixes: (self.around == Around::Shared).then_some(PrefixPlan { pool: 8, tokens: 256 }),
            system_tokens: (self.around == Around::Shared).then_some(64),
            ..SyntheticPlan::sonnet(entries, length(isl), None)
        };
        Plan {
            dataset: DatasetPlan::Synthetic(set),
            chat_template: has_template && self.around != Around::Bare,
            cache_bust: (self.around == Around::Marked)
                .then_some(CacheBustPlan { target: MarkerTarget::FirstTurnPrefix, run_id: None }),
            seed,
            ..material::plan(isl)
        }
    }
}

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Words that the names of cells hold; all of them count.
    words: Vec<String>,
    tokenizer: String,
    seed: u64,
    /// Look at the memory of so many prompts in place of the time.
    memory: Option<usize>,
    json: bool,
}

impl Asked {
    /// From what stands behind `prompts`.
    pub(crate) fn read(args: &[String]) -> Result<Self, String> {
        let mut asked =
            Self { words: Vec::new(), tokenizer: "builtin".into(), seed: 1, memory: None, json: false };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            let number = |text: &String| text.parse().map_err(|e| format!("{arg} {text}: {e}"));
            match arg.as_str() {
                "--tokenizer" => asked.tokenizer.clone_from(value()?),
                "--seed" => asked.seed = number(value()?)?,
                "--memory" => asked.memory = Some(number(value()?)? as usize),
                "--json" => asked.json = true,
                _ if arg.starts_with('-') => return Err(format!("unknown option {arg}")),
                _ => asked.words.push(arg.clone()),
            }
        }
        Ok(asked)
    }

    /// The cells whose names hold all the words; the one that is named exactly, where there is one.
    fn cells(&self) -> Result<Vec<Cell>, String> {
        if let [name] = self.words.as_slice()
            && let Some(cell) = Cell::all().find(|cell| cell.name() == *name)
        {
            return Ok(vec![cell]);
        }
        let holds = |cell: &Cell| self.words.iter().all(|word| cell.name().contains(word.as_str()));
        let cells: Vec<Cell> = Cell::all().filter(holds).collect();
        if cells.is_empty() {
            let (first, last) = (Cell::all().next(), Cell::all().last());
            let names = [first, last].into_iter().flatten().map(Cell::name).collect::<Vec<_>>();
            return Err(format!("no cell is named like that; they are {}", names.join(" to ")));
        }
        Ok(cells)
    }
}

/// Measures the cells and hands each line to `say` as soon as it is known.
pub(crate) fn run(asked: &Asked, say: &dyn Fn(&str)) -> Result<(), String> {
    let cells = asked.cells()?;
    let before = process_usage().cpu_ns;
    let material = Material::new(&asked.tokenizer)?;
    let tokenizer_ns = process_usage().cpu_ns - before;
    let has_template = material.tokenizer.chat_template().is_some();
    if !asked.json {
        say(&heading(asked.memory));
    }
    let only = cells.len() == 1;
    for cell in cells.into_iter().filter(|cell| has_template || !cell.around.needs_template()) {
        let figures = if only {
            let mut figures = asked.memory.map_or_else(
                || time(cell, asked, &material),
                |prompts| memory(cell, asked, &material, prompts),
            )?;
            figures["tokenizer_ms"] = json!(ms(tokenizer_ns));
            figures
        } else {
            in_a_process(cell, asked)?
        };
        say(&if asked.json { format!("{figures}\n") } else { row(&figures, asked.memory) });
    }
    Ok(())
}

/// The figures of a cell, measured by this program in a process of its own.
fn in_a_process(cell: Cell, asked: &Asked) -> Result<Value, String> {
    let name = cell.name();
    let this = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
    let mut command = Command::new(this);
    command.args(["prompts", &name, "--json", "--tokenizer", &asked.tokenizer]);
    command.args(["--seed", &asked.seed.to_string()]);
    if let Some(prompts) = asked.memory {
        command.args(["--memory", &prompts.to_string()]);
    }
    let output = command.output().map_err(|e| format!("{name}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("{name}: {e}"))
}

/// Prompts of a cell, one after the other.
struct Maker {
    workload: Arc<dyn Workload>,
    next: usize,
}

impl Maker {
    fn open(plan: &Plan, material: &Material) -> Result<Self, String> {
        aiperf_data::open(
            plan,
            Some(material.tokenizer.clone()),
            OpenContext { run_id: "bench", now: now(), parts: None },
        )
        .map(|workload| Self { workload, next: 0 })
        .map_err(|e| e.to_string())
    }

    fn make(&mut self) -> Result<Conversation, String> {
        let at = self.next;
        self.next += 1;
        let visit = Visit { session: at as u64, warmup: false };
        self.workload.conversation(at % self.workload.len(), visit).map_err(|e| e.to_string())
    }

    /// Makes prompts until `enough` of their number and the CPU time says so; gives tokens, prompts and nanoseconds.
    fn round(&mut self, enough: impl Fn(usize, u64) -> bool) -> Result<(u64, usize, u64), String> {
        // The clock costs as much as a short prompt, so it is read once for several.
        const BETWEEN: usize = 50;
        let before = process_usage().cpu_ns;
        let (mut tokens, mut prompts) = (0, 0);
        loop {
            for _ in 0..BETWEEN {
                tokens += made(&black_box(self.make()?));
            }
            prompts += BETWEEN;
            let used = process_usage().cpu_ns - before;
            if enough(prompts, used) {
                return Ok((tokens, prompts, used));
            }
        }
    }
}

fn time(cell: Cell, asked: &Asked, material: &Material) -> Result<Value, String> {
    let has_template = material.tokenizer.chat_template().is_some();
    let plan = cell.plan(asked.seed, ENTRIES, has_template);
    let before = process_usage().cpu_ns;
    let mut maker = Maker::open(&plan, material)?;
    let open_ns = process_usage().cpu_ns - before;
    let (cold_tokens, _, cold_ns) = maker.round(|prompts, _| prompts >= FIRST)?;
    maker.round(|prompts, used| prompts >= WARM || used >= ROUND_NS)?;
    let (mut rate, mut per_prompt) = (0.0_f64, f64::INFINITY);
    for _ in 0..ROUNDS {
        let (tokens, prompts, used) = maker.round(|_, used| used >= ROUND_NS)?;
        rate = rate.max(per_second(tokens as f64, used));
        per_prompt = per_prompt.min(used as f64 / prompts as f64);
    }
    let last = maker.next;
    maker.next = 0;
    let (first_exact, texts) = sample(&mut maker, &plan, material)?;
    maker.next = last;
    let (later_exact, _) = sample(&mut maker, &plan, material)?;
    Ok(json!({
        "cell": cell.name(),
        "tokens_per_s": rate,
        "prompts_per_s": 1e9 / per_prompt,
        "open_ms": ms(open_ns),
        "first_100_ms": ms(cold_ns),
        "first_100_tokens_per_s": per_second(cold_tokens as f64, cold_ns),
        "sampled": 2 * SAMPLE,
        "exact": first_exact + later_exact,
        "texts": format!("{texts:016x}"),
    }))
}

fn memory(cell: Cell, asked: &Asked, material: &Material, prompts: usize) -> Result<Value, String> {
    let has_template = material.tokenizer.chat_template().is_some();
    let loaded = resident();
    let mut maker = Maker::open(&cell.plan(asked.seed, prompts.max(FEW), has_template), material)?;
    let opened = resident();
    maker.round(|made, _| made >= FEW)?;
    let few = resident();
    maker.round(|made, _| made + FEW >= prompts)?;
    Ok(json!({
        "cell": cell.name(),
        "prompts": maker.next,
        "mib_tokenizer": loaded,
        "mib_open": opened,
        "mib_1000": few,
        "mib_all": resident(),
        "mib_peak": process_usage().peak_rss_bytes as f64 / f64::from(1 << 20),
    }))
}

/// What the process has in memory now, MiB. The peak is no measure, for reading a tokenizer takes more than what stays of it.
fn resident() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse::<f64>().ok().map(|kib| kib / 1024.0)
}

/// How many of the next prompts have exactly their length, counted whole and anew; and a digest of their texts (FNV-1a).
fn sample(maker: &mut Maker, plan: &Plan, material: &Material) -> Result<(usize, u64), String> {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    let mut exact = 0;
    for _ in 0..SAMPLE {
        let conversation = maker.make()?;
        exact += usize::from(counted(&conversation, plan, material)? as u64 == made(&conversation));
        for byte in conversation.turns.iter().flat_map(|turn| &turn.texts).flat_map(|text| text.bytes()) {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok((exact, digest))
}

/// Tokens of a first request.
fn counted(conversation: &Conversation, plan: &Plan, material: &Material) -> Result<usize, String> {
    let tokenizer = &*material.tokenizer;
    let system = conversation.system.as_deref();
    let text = conversation.turns[0].texts[0].as_str();
    if !plan.chat_template {
        return Ok(system.map_or(0, |text| tokenizer.count(text)) + tokenizer.count(text));
    }
    let message = |role: &str, text: &str| json!({"role": role, "content": text});
    let messages: Vec<Value> =
        system.map(|text| message("system", text)).into_iter().chain([message("user", text)]).collect();
    count_chat(tokenizer, &Value::from(messages), None, true, now()).map_err(|e| e.to_string())
}

/// Tokens that a conversation was made to.
fn made(conversation: &Conversation) -> u64 {
    conversation.turns[0].length.map_or(0, |length| length.made)
}

/// The moment that templates see.
fn now() -> TemplateClock {
    TemplateClock::from_wall_ns(material::ANCHOR.wall_ns)
}

fn per_second(count: f64, ns: u64) -> f64 {
    count * 1e9 / ns.max(1) as f64
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn heading(memory: Option<usize>) -> String {
    let columns = match memory {
        None => ["M tokens/s", "prompts/s", "open ms", "first 100 ms", "exact"],
        Some(_) => ["tokenizer, MiB", "open", "1000", "all", "peak"],
    };
    line("", columns.map(str::to_owned))
}

fn line(name: &str, cells: [String; 5]) -> String {
    let cells = cells.map(|cell| format!("{cell:>16}")).concat();
    format!("{name:<28}{cells}\n")
}

/// A line for people.
fn row(figures: &Value, memory: Option<usize>) -> String {
    let number = |key: &str| figures[key].as_f64().unwrap_or(f64::NAN);
    let name = figures["cell"].as_str().unwrap_or_default();
    if memory.is_some() {
        let keys = ["mib_tokenizer", "mib_open", "mib_1000", "mib_all", "mib_peak"];
        return line(name, keys.map(|key| format!("{:.1}", number(key))));
    }
    let cells = [
        format!("{:.3}", number("tokens_per_s") / 1e6),
        format!("{:.0}", number("prompts_per_s")),
        format!("{:.2}", number("open_ms")),
        format!("{:.2}", number("first_100_ms")),
        format!("{}/{}", figures["exact"], figures["sampled"]),
    ];
    line(name, cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, String> {
        Asked::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_choose_cells_and_a_whole_name_chooses_one() {
        let names = |line: &str| -> Vec<String> {
            asked(line).and_then(|a| a.cells()).expect("cells").into_iter().map(Cell::name).collect()
        };
        assert_eq!(names("").len(), 48);
        assert_eq!(names("random vllm 8192 bare"), ["random-vllm-8192-bare"]);
        assert_eq!(names("sonnet-128-bare"), ["sonnet-128-bare"]);
        assert_eq!(names("coding --seed 7 marked").len(), 3);
        assert!(asked("haiku").expect("words").cells().is_err_and(|e| e.contains("sonnet-128-bare")));
    }

    #[test]
    fn wrong_options_are_told() {
        assert!(asked("--sede 1").is_err_and(|e| e.contains("--sede")));
        assert!(asked("--memory").is_err_and(|e| e.contains("value")));
        assert!(asked("--seed x").is_err_and(|e| e.contains("--seed x")));
    }

    #[test]
    fn prompts_of_every_kind_are_exact_and_the_digest_is_of_their_texts() {
        let material = Material::new("builtin").expect("built in");
        let digests: Vec<u64> = Kind::ALL
            .into_iter()
            .flat_map(|kind| [Around::Bare, Around::Shared].map(|around| Cell { kind, isl: 128, around }))
            .map(|cell| {
                let plan = cell.plan(1, 50, false);
                let mut maker = Maker::open(&plan, &material).expect("opens");
                let (exact, digest) = sample(&mut maker, &plan, &material).expect("prompts");
                assert_eq!(exact, SAMPLE, "{}", cell.name());
                maker.next = 0;
                assert_eq!(sample(&mut maker, &plan, &material), Ok((SAMPLE, digest)));
                digest
            })
            .collect();
        for (at, digest) in digests.iter().enumerate() {
            assert!(!digests[..at].contains(digest), "{at}");
        }
    }
}
