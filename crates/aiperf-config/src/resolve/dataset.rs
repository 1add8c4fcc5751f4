//! What is asked: prompts made here, or the user's own.

use std::path::{Path, PathBuf};

use aiperf_core::plan::{
    BadRows, ColumnsPlan, CorpusPlan, DatasetPlan, EndpointKind, FileFormat, FilePlan, LengthPlan,
    LengthsPlan, PhaseKind, PhasePlan, PublicPlan, PublicShape, RandomStyle, Sampling, SyntheticPlan,
    WindowPlan,
};

use super::replay::{COMPLETIONS, REPLAY, TRACE};
use super::{Resolver, how};
use crate::error::ConfigError;
use crate::options::Id;
use crate::place::Place;
use crate::settings::Settings;

/// Different prompts when neither their number nor a number of requests is given; AIPerf's.
const DEFAULT_ENTRIES: u64 = 100;

/// Why nothing goes into the bodies of a data set.
const PAYLOADS: &str =
    "bodies of a data set are sent as they are; write it into them, or drop one of the two";

/// What only prompts made here have.
const SYNTHETIC: &[Id] = &[
    Id::Isl,
    Id::IslStddev,
    Id::IslShape,
    Id::SeqDist,
    Id::RangeRatio,
    Id::Corpus,
    Id::CorpusStyle,
    Id::BatchSize,
    Id::IslBelowMinimum,
    Id::Turns,
    Id::TurnsStddev,
    Id::TurnsShape,
    Id::TurnDelay,
    Id::TurnDelayStddev,
    Id::TurnDelayRatio,
    Id::SharedSystem,
    Id::UserContext,
    Id::PrefixPool,
    Id::PrefixLength,
    Id::Passages,
    Id::PassagesStddev,
    Id::PassagesShape,
    Id::PassageTokens,
    Id::PassageTokensStddev,
    Id::PassageTokensShape,
    Id::QueryTokens,
    Id::QueryTokensStddev,
    Id::QueryTokensShape,
];

/// Names of what a data set of others holds.
const COLUMNS: &[Id] =
    &[Id::PromptColumn, Id::ResponseColumn, Id::MessagesColumn, Id::SystemColumn, Id::OutputLengthColumn];

impl Resolver<'_> {
    /// The form of the file of prompts, as far as it is said.
    pub(super) fn file_format(&self) -> FileFormat {
        match self.settings.text(Id::DatasetFormat).unwrap_or_default() {
            "raw_payload" => FileFormat::RawPayload,
            "single_turn" => FileFormat::SingleTurn,
            "multi_turn" => FileFormat::MultiTurn,
            "mooncake_trace" => FileFormat::Mooncake,
            "bailian_trace" => FileFormat::Bailian,
            "burst_gpt_trace" => FileFormat::BurstGpt,
            "inputs_json" => FileFormat::InputsJson,
            "sharegpt" => FileFormat::ShareGpt,
            "chat" => FileFormat::Chat,
            "random_pool" => FileFormat::RandomPool,
            "sagemaker_data_capture" => FileFormat::SageMaker,
            "baseten_trace" => FileFormat::Baseten,
            _ => FileFormat::Detect,
        }
    }

    /// Sessions of agents are so large, and so many, that a run says how many it wants before they are fetched.
    pub(super) fn agents_need_count(&mut self, phases: &[PhasePlan]) {
        let is_theirs = |public: &PublicPlan| matches!(public.set.shape, PublicShape::Agents(_));
        let is_endless =
            |phase: &PhasePlan| phase.kind == PhaseKind::Profiling && phase.most_sessions().is_none();
        if self.public.as_ref().is_some_and(|public| is_theirs(public) && !public.is_given)
            && !self.settings.has(Id::Entries)
            && phases.iter().any(is_endless)
        {
            let counts = "--request-count, --num-conversations or --num-dataset-entries";
            self.needs(Id::PublicDataset, counts, "its sessions are many, and large");
        }
    }

    pub(super) fn dataset(&mut self) -> Option<DatasetPlan> {
        let osl = self.osl();
        let osl = self.limited(osl);
        let declared = self.structure.dataset_type.clone();
        if self.public.as_ref().is_some_and(|public| public.is_given) {
            // A variable is set for all runs.
            let places = [Id::HfSubset, Id::DatasetDownload].map(|id| self.asked(id));
            for place in places.into_iter().flatten().filter(|place| !matches!(place, Place::Env(_))) {
                self.notes.push(format!("{place} has no effect: --input-file gives the file that is sent"));
            }
        }
        let Some(path) = self.settings.text(Id::InputFile).map(PathBuf::from) else {
            if self.settings.has(Id::PublicDataset) {
                // What is wrong with it was told.
                return None;
            }
            if let Some(("file", _)) = declared {
                self.errors.push(ConfigError::Missing {
                    what: "the path of the file with prompts",
                    how: how(Id::InputFile),
                });
            }
            self.needs(Id::DatasetFormat, "--input-file", "it says what form the file has");
            self.needs(Id::BlockSize, "--input-file", "it says how long the blocks of a trace are");
            self.needs(Id::OnBadRow, "--input-file", "it is about the rows of a file");
            self.needs(Id::UuidAndStrip, "--input-file", "it is about images in the rows of a file");
            for id in COLUMNS {
                self.needs(*id, "--input-file", "it names what a data set calls its contents");
            }
            for id in REPLAY.iter().chain(TRACE).chain(COMPLETIONS) {
                self.needs(*id, "--input-file", "it is about what the rows of a file recorded");
            }
            return Some(DatasetPlan::Synthetic(self.synthetic(osl)));
        };
        if let (Some(("synthetic", first)), Some(second)) = (declared, self.place(Id::InputFile)) {
            self.errors.push(ConfigError::Conflict {
                first,
                second,
                why: "prompts come from the file or are made here; change the type or drop the file",
            });
        }
        let format = self.file_format();
        for id in SYNTHETIC {
            // Texts of a trace are cut from a corpus too.
            if *id == Id::Corpus && (format.gives_lengths() || format == FileFormat::Detect) {
                continue;
            }
            // And the texts of a pool may be drawn several at a time.
            if *id == Id::BatchSize && format == FileFormat::RandomPool {
                continue;
            }
            self.exclude(
                *id,
                Id::InputFile,
                "the prompts of a file are sent as they are; drop one of the two",
            );
        }
        let corpus = self.settings.has(Id::Corpus).then(|| self.corpus());
        if corpus == Some(CorpusPlan::Random) && (format.gives_lengths() || format == FileFormat::Detect) {
            let allowed =
                "for a trace sonnet or coding: random tokens have no words by which equal blocks stay equal";
            self.bad(Id::Corpus, "'random'".to_owned(), allowed);
        }
        if !matches!(format, FileFormat::Mooncake | FileFormat::Bailian | FileFormat::Detect) {
            let traces = "--custom-dataset-type mooncake_trace or bailian_trace";
            self.needs(Id::BlockSize, traces, "no other form has blocks");
        }
        if format.is_bodies() {
            self.refuse_around_payloads();
        }
        self.check_file(&path, format)?;
        if path.is_dir() && self.settings.int(Id::BatchSize).is_some_and(|n| n != 1) {
            let why = "the files of a folder are pools with names of their own, and a batch is drawn from one pool; drop one of the two";
            self.exclude(Id::BatchSize, Id::InputFile, why);
        }
        Some(DatasetPlan::File(FilePlan {
            path,
            format,
            osl,
            corpus,
            block: self.settings.int(Id::BlockSize).map(|n| n as usize),
            entries: self.file_entries().map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
            draws: usize::try_from(self.synthetic_entries().unwrap_or(DEFAULT_ENTRIES))
                .unwrap_or(usize::MAX)
                .max(1),
            batch: self.settings.int_or_default(Id::BatchSize) as usize,
            ignore_timestamps: self.settings.is_on(Id::NoFixedSchedule),
            bad_rows: match self.settings.text_or_default(Id::OnBadRow).as_str() {
                "skip" => BadRows::Skip,
                _ => BadRows::Stop,
            },
            replay: self.replay(format),
            columns: self.columns(format),
            completions: self.completions(format),
            strips_images: self.strips_images(format),
            public: self.public.clone(),
        }))
    }

    /// Most conversations taken from a file: as many as are asked for, of a large public data set no more than a phase takes.
    fn file_entries(&self) -> Option<u64> {
        if self.public.as_ref().is_some_and(|public| public.set.shape.is_large()) {
            self.entries(u64::max)
        } else {
            self.settings.int(Id::Entries)
        }
    }

    /// Whether images that a session has shown keep their ids alone.
    fn strips_images(&mut self, format: FileFormat) -> bool {
        let id = Id::UuidAndStrip;
        if !self.settings.is_on(id) {
            return false;
        }
        let kind = self.endpoint_kind();
        if kind != EndpointKind::Chat {
            let found = format!("the endpoint type '{}'", kind.name());
            self.bad(id, found, "the endpoint type chat, the one API whose servers know ids of images");
        }
        if !matches!(format, FileFormat::SingleTurn | FileFormat::Detect) {
            self.needs(
                id,
                "--custom-dataset-type single_turn",
                "no other form has rows with ids that go together",
            );
        }
        true
    }

    /// What a data set of others calls its contents.
    fn columns(&mut self, format: FileFormat) -> ColumnsPlan {
        if self.public.is_some() {
            return ColumnsPlan::default();
        }
        for id in COLUMNS {
            let is_read = match format {
                FileFormat::Detect | FileFormat::Chat => true,
                FileFormat::ShareGpt => *id == Id::MessagesColumn,
                _ => false,
            };
            if !is_read {
                self.exclude(
                    *id,
                    Id::DatasetFormat,
                    "the names of that form are its own; drop it, or say chat",
                );
            }
        }
        for id in [Id::PromptColumn, Id::ResponseColumn, Id::OutputLengthColumn] {
            self.exclude(id, Id::MessagesColumn, "a row is a conversation or a prompt; keep one of the two");
        }
        let name = |id: Id| self.settings.text(id).map(str::to_owned);
        ColumnsPlan {
            prompt: name(Id::PromptColumn),
            reply: name(Id::ResponseColumn),
            messages: name(Id::MessagesColumn),
            system: name(Id::SystemColumn),
            output: name(Id::OutputLengthColumn),
        }
    }

    /// Which conversation of the data set each session takes.
    pub(super) fn sampling(&self) -> Sampling {
        match self.settings.text_or_default(Id::Sampling).as_str() {
            "random" => Sampling::Random,
            "shuffle" => Sampling::Shuffle,
            _ => Sampling::Sequential,
        }
    }

    fn synthetic(&mut self, osl: Option<LengthPlan>) -> SyntheticPlan {
        let corpus = self.corpus();
        let rankings = self.rankings();
        let (style, lengths) = if rankings.is_some() {
            (RandomStyle::Vllm, LengthsPlan::Apart { isl: LengthPlan::normal(1.0, 0.0), osl })
        } else {
            let style = self.style();
            let lengths = self.lengths(style, osl);
            self.check_style(corpus, style);
            (style, lengths)
        };
        SyntheticPlan {
            entries: usize::try_from(self.synthetic_entries().unwrap_or(DEFAULT_ENTRIES))
                .unwrap_or(usize::MAX),
            lengths,
            corpus,
            style,
            batch: self.settings.int_or_default(Id::BatchSize) as usize,
            turns: self.turns(),
            prefixes: if rankings.is_some() { None } else { self.prefixes() },
            system_tokens: self.generated(Id::SharedSystem),
            user_context_tokens: self.generated(Id::UserContext),
            floor: self.settings.text_or_default(Id::IslBelowMinimum) == "floor",
            rankings: rankings.map(Box::new),
        }
    }

    /// Number of different synthetic conversations, from what says it most directly. Several profiling phases say it together.
    pub(super) fn synthetic_entries(&self) -> Option<u64> {
        self.entries(u64::saturating_add)
    }

    /// Number of conversations that is asked for, else that the profiling phases take, several of them `joined`; none where one does not
    /// say how many.
    fn entries(&self, joined: fn(u64, u64) -> u64) -> Option<u64> {
        if let Some(entries) = self.settings.int(Id::Entries) {
            return Some(entries);
        }
        if self.structure.count(PhaseKind::Profiling) < 2 {
            return taken(self.settings);
        }
        let phases = self.structure.phases.iter().filter(|phase| phase.kind == PhaseKind::Profiling);
        phases.map(|phase| taken(&phase.settings)).try_fold(0u64, |all, n| Some(joined(all, n?)))
    }

    /// What would be put into bodies that are sent as they are.
    fn refuse_around_payloads(&mut self) {
        for id in [Id::Osl, Id::OslStddev, Id::OslShape, Id::LegacyMaxTokens, Id::CacheBust]
            .into_iter()
            .chain(super::context::SYSTEM_PROMPTS)
        {
            self.exclude(id, Id::DatasetFormat, PAYLOADS);
        }
        let mut extra = self.settings.extra();
        if self.endpoint_kind() == aiperf_core::plan::EndpointKind::Raw {
            // Says where answers have their content.
            extra.shift_remove("response_field");
        }
        if !extra.is_empty() {
            self.exclude(Id::ExtraInputs, Id::DatasetFormat, PAYLOADS);
        }
    }

    fn check_file(&mut self, path: &Path, format: FileFormat) -> Option<()> {
        // Those of a public data set are looked for when the run is loaded.
        let is_found_later = self.settings.has_found_set();
        if aiperf_files::is_standard_input(path) || is_found_later {
            return Some(());
        }
        let problem = match std::fs::metadata(path) {
            Ok(found) if found.is_dir() && format.may_be_folder() => return Some(()),
            Ok(found) if found.is_dir() => "is a folder, and this form is one file".to_owned(),
            Ok(_) => return Some(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "does not exist".to_owned(),
            Err(error) => format!("cannot be read: {error}"),
        };
        let place = self.place(Id::InputFile)?;
        self.errors.push(ConfigError::File { place, path: path.to_owned(), problem });
        None
    }

    fn corpus(&self) -> CorpusPlan {
        match self.settings.text_or_default(Id::Corpus).as_str() {
            "coding" => CorpusPlan::Coding,
            "random" => CorpusPlan::Random,
            _ => CorpusPlan::Sonnet,
        }
    }

    fn style(&self) -> RandomStyle {
        match self.settings.text_or_default(Id::CorpusStyle).as_str() {
            "sglang" => RandomStyle::Sglang,
            "sglang_strict" => RandomStyle::SglangStrict,
            _ => RandomStyle::Vllm,
        }
    }

    /// A style needs something whose style it is.
    fn check_style(&mut self, corpus: CorpusPlan, style: RandomStyle) {
        let has_ratio = self.settings.has(Id::RangeRatio);
        if style == RandomStyle::SglangStrict && !has_ratio {
            self.needs(
                Id::CorpusStyle,
                "--random-range-ratio",
                "SGLang's own prompts are drawn from it; 1 keeps every length at its mean",
            );
        } else if corpus != CorpusPlan::Random && !has_ratio && style != RandomStyle::Vllm {
            self.needs(
                Id::CorpusStyle,
                "--prompt-corpus random or --random-range-ratio",
                "nothing else has a style",
            );
        }
    }

    fn lengths(&mut self, style: RandomStyle, osl: Option<LengthPlan>) -> LengthsPlan {
        self.exclude(Id::SeqDist, Id::RangeRatio, "both say how lengths spread; keep one");
        self.exclude(Id::IslShape, Id::Isl, "both say the input length; keep one");
        self.exclude(Id::IslShape, Id::IslStddev, "the distribution has its own spread; keep one");
        if let Some(pairs) = self.settings.pairs(Id::SeqDist).cloned() {
            for id in [Id::Isl, Id::IslStddev, Id::IslShape, Id::Osl, Id::OslStddev, Id::OslShape] {
                if let (Some(unused), Some(used)) = (self.place(id), self.place(Id::SeqDist)) {
                    self.notes.push(format!("{unused} has no effect: {used} gives both lengths"));
                }
            }
            return LengthsPlan::Pairs(pairs);
        }
        if let Some(window) = self.window(style) {
            return LengthsPlan::Window(window);
        }
        let isl = self.settings.lengths(Id::IslShape).cloned().unwrap_or_else(|| {
            let mean = self.settings.int_or_default(Id::Isl) as f64;
            LengthPlan::normal(mean, self.settings.float_or_default(Id::IslStddev))
        });
        LengthsPlan::Apart { isl, osl }
    }

    /// The windows of a range ratio, if there is one.
    fn window(&mut self, style: RandomStyle) -> Option<WindowPlan> {
        let ratio = self.settings.ratio(Id::RangeRatio)?;
        for id in [Id::IslShape, Id::OslShape] {
            self.exclude(Id::RangeRatio, id, "both say how lengths spread; keep one");
        }
        for id in [Id::IslStddev, Id::OslStddev] {
            if self.settings.float(id).is_some_and(|s| s > 0.0) {
                self.exclude(Id::RangeRatio, id, "both say how lengths spread; keep one");
            }
        }
        let has_output = self.endpoint_kind().traits().produces_tokens;
        for (id, flag) in [(Id::Isl, "--isl"), (Id::Osl, "--osl of at least 1")] {
            if (has_output || id == Id::Isl) && self.settings.int(id).unwrap_or(0) == 0 {
                self.needs(Id::RangeRatio, flag, "it makes a window of that length");
            }
        }
        match style {
            RandomStyle::Vllm if ratio.input >= 1.0 || ratio.output >= 1.0 => {
                let found = format!("'{}'", ratio.input.max(ratio.output));
                self.bad(Id::RangeRatio, found, "a number from 0 and below 1 in style vllm");
            }
            RandomStyle::Sglang | RandomStyle::SglangStrict if ratio.single().is_none() => {
                self.bad(
                    Id::RangeRatio,
                    format!("two ratios, {} and {}", ratio.input, ratio.output),
                    "one number for both lengths in style sglang",
                );
            }
            _ => {}
        }
        Some(WindowPlan {
            isl: self.settings.int_or_default(Id::Isl),
            osl: self.settings.int(Id::Osl).unwrap_or(0),
            isl_ratio: ratio.input,
            osl_ratio: ratio.output,
        })
    }

    /// The output length; a mean of 0 sends no limit, and a deviation needs a mean to deviate from.
    fn osl(&mut self) -> Option<LengthPlan> {
        self.exclude(Id::OslShape, Id::Osl, "both say the output length; keep one");
        if let Some(plan) = self.settings.lengths(Id::OslShape).cloned() {
            self.exclude(Id::OslShape, Id::OslStddev, "the distribution has its own spread; keep one");
            return Some(plan);
        }
        match self.settings.int(Id::Osl) {
            Some(mean) if mean > 0 => {
                Some(LengthPlan::normal(mean as f64, self.settings.float_or_default(Id::OslStddev)))
            }
            _ => {
                if self.settings.float(Id::OslStddev).is_some_and(|s| s > 0.0) || !self.settings.has(Id::Osl)
                {
                    self.needs(
                        Id::OslStddev,
                        "--osl",
                        "a standard deviation needs its mean; without --osl no output length is asked for",
                    );
                }
                None
            }
        }
    }
}

/// Conversations that a phase takes, where it says how many.
fn taken(settings: &Settings) -> Option<u64> {
    settings.int(Id::Conversations).or_else(|| settings.int(Id::RequestCount))
}
