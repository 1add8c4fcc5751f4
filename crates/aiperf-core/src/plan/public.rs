//! Data sets that others publish, by the names that AIPerf gives them.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::agents::{AgentFilter, AgentSet, EXGENTIC, EXGENTIC_V2};

/// A data set and what of it is sent.
#[derive(Debug, PartialEq, Eq)]
pub struct PublicSet {
    /// The name users type, with underscores.
    pub name: &'static str,
    /// Where it is published.
    pub source: PublicSource,
    /// What its entries hold.
    pub shape: PublicShape,
}

/// Where a data set is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublicSource {
    /// On the Hugging Face hub.
    Hub {
        /// `OWNER/NAME`.
        repo: &'static str,
        /// The part of it, where it has several.
        subset: Option<&'static str>,
        /// Which rows.
        split: &'static str,
        /// The commit that is meant; `None` is the newest.
        commit: Option<&'static str>,
    },
    /// A file of a repository of the hub, or of another place.
    File {
        /// The repository of the hub, if it is in one.
        repo: Option<&'static str>,
        /// Its address.
        url: &'static str,
        /// Its name, also where AIPerf keeps it.
        file: &'static str,
    },
}

/// What the entries of a data set hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublicShape {
    /// Conversations of ShareGPT.
    ShareGpt,
    /// A prompt in a column.
    Column(&'static str),
    /// A file of code in `code`, and in `change_request` what is to be done to it.
    Edit,
    /// Turns of a conversation in a column.
    Turns(&'static str),
    /// The same, of which the first is sent.
    FirstTurn(&'static str),
    /// A prompt in a column, and an image in another.
    Shown {
        /// The prompt.
        prompt: &'static str,
        /// The image.
        image: &'static str,
    },
    /// A `question` with `choices` on a `video`.
    Watched,
    /// The first message of the user in a list of them, and an image in another column.
    FirstMessage {
        /// The messages.
        messages: &'static str,
        /// The images.
        image: &'static str,
    },
    /// Speech in a column, to be written down.
    Speech(&'static str),
    /// Sessions of agents, whose requests were recorded.
    Agents(&'static AgentSet),
}

impl PublicShape {
    /// Whether so much is in such a data set that no more of it is read than a run asks for.
    pub const fn is_large(self) -> bool {
        matches!(self, Self::FirstMessage { .. } | Self::Speech(_) | Self::Agents(_))
    }
}

/// A data set and which part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicPlan {
    /// Which one.
    pub set: &'static PublicSet,
    /// The part that the user names.
    pub subset: Option<String>,
    /// The user gives its file. Otherwise its files are looked for when the run is loaded.
    pub is_given: bool,
    /// How many entries the user asks for.
    pub entries: Option<u64>,
    /// Which sessions the user wants, of a data set of agents.
    pub filter: AgentFilter,
}

impl PublicPlan {
    /// Where it comes from, as AIPerf's summary has it under `metadata`.
    pub fn source(&self) -> Value {
        let mut source = json!({"source_type": "public_dataset", "loader": self.set.name});
        if let PublicSource::Hub { repo, subset, split, .. } = self.set.source {
            source["hf_dataset_name"] = repo.into();
            source["hf_split"] = split.into();
            if let Some(subset) = self.subset.as_deref().or(subset) {
                source["hf_subset"] = subset.into();
            }
        }
        if let Some(entries) = self.entries {
            source["num_dataset_entries"] = entries.into();
        }
        source
    }
}

/// Files of a data set, each of which may have to be fetched first.
pub trait PublicParts: fmt::Debug {
    /// How many there are.
    fn count(&self) -> usize;

    /// Where number `index` is, from 0; it is there when this returns.
    fn part(&self, index: usize) -> Result<PathBuf, Box<dyn Error + Send + Sync>>;
}

const fn hub(
    name: &'static str,
    repo: &'static str,
    subset: Option<&'static str>,
    split: &'static str,
    shape: PublicShape,
) -> PublicSet {
    PublicSet { name, source: PublicSource::Hub { repo, subset, split, commit: None }, shape }
}

/// A version of Exgentic, as AIPerf 0.13 pins it.
const fn agents(
    name: &'static str,
    repo: &'static str,
    commit: &'static str,
    set: &'static AgentSet,
) -> PublicSet {
    let source = PublicSource::Hub { repo, subset: None, split: "train", commit: Some(commit) };
    PublicSet { name, source, shape: PublicShape::Agents(set) }
}

use PublicShape::{Column, Edit, FirstMessage, FirstTurn, ShareGpt, Shown, Speech, Turns, Watched};

/// All of them that are read.
pub static PUBLIC: &[PublicSet] = &[
    PublicSet {
        name: "sharegpt",
        source: PublicSource::File {
            repo: Some("anon8231489123/ShareGPT_Vicuna_unfiltered"),
            url: "https://huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered/resolve/main/ShareGPT_V3_unfiltered_cleaned_split.json",
            file: "ShareGPT_V3_unfiltered_cleaned_split.json",
        },
        shape: ShareGpt,
    },
    hub("aimo", "AI-MO/NuminaMath-TIR", None, "train", Column("problem")),
    hub("aimo_aime", "AI-MO/aimo-validation-aime", None, "train", Column("problem")),
    hub("aimo_numina_cot", "AI-MO/NuminaMath-CoT", None, "train", Column("problem")),
    hub("aimo_numina_1_5", "AI-MO/NuminaMath-1.5", None, "train", Column("problem")),
    PublicSet {
        name: "spec_bench",
        source: PublicSource::File {
            repo: None,
            url: "https://raw.githubusercontent.com/hemingkx/Spec-Bench/fd2c1cd7d2201ef71db4c5f4e455008f017967bf/data/spec_bench/question.jsonl",
            file: "spec_bench.jsonl",
        },
        shape: FirstTurn("turns"),
    },
    hub("spec_al_gsm8k", "openai/gsm8k", Some("main"), "test", Column("question")),
    hub("spec_al_math500", "HuggingFaceH4/MATH-500", None, "test", Column("problem")),
    hub("spec_al_humaneval", "openai/openai_humaneval", None, "test", Column("prompt")),
    hub("spec_al_mbpp", "google-research-datasets/mbpp", Some("full"), "test", Column("text")),
    hub("spec_al_mtbench", "HuggingFaceH4/mt_bench_prompts", None, "train", Turns("prompt")),
    hub("instruct_coder", "likaixin/InstructCoder", None, "train", Column("instruction")),
    hub("blazedit_5k", "vdaita/edit_5k_char", None, "train", Edit),
    hub("blazedit_10k", "vdaita/edit_10k_char", None, "train", Edit),
    hub("mmstar", "Lin-Chen/MMStar", None, "val", Shown { prompt: "question", image: "image" }),
    hub("mmvu", "yale-nlp/MMVU", None, "validation", Watched),
    hub(
        "vision_arena",
        "lmarena-ai/VisionArena-Chat",
        None,
        "train",
        FirstMessage { messages: "conversation", image: "images" },
    ),
    hub(
        "llava_onevision",
        "lmms-lab/LLaVA-OneVision-Data",
        Some("sharegpt4o"),
        "train",
        FirstMessage { messages: "conversations", image: "image" },
    ),
    hub("librispeech", "openslr/librispeech_asr", Some("clean"), "test", Speech("audio")),
    hub("voxpopuli", "facebook/voxpopuli", Some("en"), "test", Speech("audio")),
    hub("gigaspeech", "speechcolab/gigaspeech", Some("xs"), "test", Speech("audio")),
    hub("ami", "edinburghcstr/ami", Some("ihm"), "test", Speech("audio")),
    hub("spgispeech", "kensho/spgispeech", Some("test"), "test", Speech("audio")),
    agents("exgentic", "Exgentic/agent-llm-traces", "70036b93a04e61b0ea2706a68b962f4f26774587", &EXGENTIC),
    agents(
        "exgentic_v2",
        "Exgentic/agent-llm-traces-v2",
        "4b8ad4ab198438e5a170f9171c19c6a2cf7c1814",
        &EXGENTIC_V2,
    ),
];

/// Names of those that AIPerf has beside them, by their beginnings, and why they are not here.
const LATER: &[(&str, &str)] = &[
    ("semianalysis_cc_traces_weka", "traces of the form weka_trace"),
    ("weka_hf", "traces of the form weka_trace"),
];

/// What a name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublicName {
    /// A data set that is read.
    Here(&'static PublicSet),
    /// One of AIPerf's that is not; what it holds.
    Later(&'static str),
    /// None at all.
    Unknown,
}

/// A name as users write it: in any case, with `_`, `-` or none between its parts, as AIPerf's help spells it too
/// (`blazedit-5-k`).
pub fn public_named(name: &str) -> PublicName {
    let letters = |name: &str| -> String {
        name.chars().filter(|c| !matches!(c, '_' | '-' | '.')).flat_map(char::to_lowercase).collect()
    };
    let wanted = letters(name.trim());
    if let Some(set) = PUBLIC.iter().find(|set| letters(set.name) == wanted) {
        return PublicName::Here(set);
    }
    let is_later = |known: &str| {
        let known = letters(known);
        if known == "semianalysiscctracesweka" { wanted.starts_with(&known) } else { wanted == known }
    };
    match LATER.iter().find(|(known, _)| is_later(known)) {
        Some((_, what)) => PublicName::Later(what),
        None => PublicName::Unknown,
    }
}

impl PublicSet {
    /// The commit that is meant, where it is not the newest.
    pub const fn commit(&self) -> Option<&'static str> {
        match self.source {
            PublicSource::Hub { commit, .. } => commit,
            PublicSource::File { .. } => None,
        }
    }

    /// The repository of the hub, if it is in one.
    pub const fn repo(&self) -> Option<&'static str> {
        match self.source {
            PublicSource::Hub { repo, .. } => Some(repo),
            PublicSource::File { repo, .. } => repo,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_they_are_written() {
        for (written, name) in [
            ("sharegpt", "sharegpt"),
            ("ShareGPT", "sharegpt"),
            ("blazedit-5-k", "blazedit_5k"),
            ("BLAZEDIT_10K", "blazedit_10k"),
            ("spec-al-gsm8-k", "spec_al_gsm8k"),
            ("aimo-numina-1-5", "aimo_numina_1_5"),
            ("aimo", "aimo"),
            ("MMStar", "mmstar"),
            ("llava-onevision", "llava_onevision"),
            ("ami", "ami"),
            ("exgentic-v2", "exgentic_v2"),
        ] {
            assert!(matches!(public_named(written), PublicName::Here(set) if set.name == name), "{written}");
        }
        for later in ["semianalysis-cc-traces-weka-061326-256-k", "weka_hf"] {
            assert!(matches!(public_named(later), PublicName::Later(_)), "{later}");
        }
        for unknown in ["", "aim", "amigo", "sharegpt2"] {
            assert_eq!(public_named(unknown), PublicName::Unknown, "{unknown}");
        }
    }
}
