//! Vocabularies and templates of every kind that there is, and what is known of each without asking the code under test.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use aiperf_core::plan::TokenizerPlan;
use aiperf_tokens::Tokenizer;
use serde_json::{Value, json};

/// A chat template and its marks, as a reader of it would name them.
pub(super) struct Kind {
    pub(super) name: &'static str,
    source: &'static str,
    /// What ends a reply; none for templates that put nothing there.
    pub(super) reply_end: &'static str,
    /// What ends a user message.
    pub(super) user_end: &'static str,
    /// What stands around a system message that the user gives.
    pub(super) system: Wrap,
    /// What stands around a user message of its own.
    pub(super) user: Wrap,
    /// It drops white space around contents.
    pub(super) trims: bool,
    /// It writes contents otherwise than they are.
    pub(super) rewrites: bool,
    /// Its words where there is a system message.
    pub(super) refuses_system: Option<&'static str>,
    /// Its words where two user messages follow each other.
    pub(super) refuses_consecutive: Option<&'static str>,
}

/// What a message has around its content.
#[derive(Clone, Copy)]
pub(super) enum Wrap {
    /// These texts, special tokens at their ends.
    Written(&'static str, &'static str),
    /// What depends on what is beside it: as much as a request with the message is longer.
    Difference,
}

const PLAIN: Kind = Kind {
    name: "",
    source: "",
    reply_end: "<|end|>",
    user_end: "<|end|>",
    system: Wrap::Written("<|turn|>system\n", "<|end|>\n"),
    user: Wrap::Written("<|turn|>user\n", "<|end|>\n"),
    trims: false,
    rewrites: false,
    refuses_system: None,
    refuses_consecutive: None,
};

pub(super) const KINDS: [Kind; 13] = [
    Kind {
        name: "marked",
        source: "{% for m in messages %}{{ '<|turn|>' + m.role + '\n' + m.content + '<|end|>\n' }}{% endfor %}\
                 {% if add_generation_prompt %}{{ '<|turn|>assistant\n' }}{% endif %}",
        ..PLAIN
    },
    // White space around contents goes, and everything follows a BOS.
    Kind {
        name: "trims",
        trims: true,
        source: "<s>{% for m in messages %}{{ '<|turn|>' + m.role + '\n\n' + m.content | trim + '<|end|>' }}{% endfor %}\
                 {% if add_generation_prompt %}{{ '<|turn|>assistant\n\n' }}{% endif %}",
        system: Wrap::Written("<|turn|>system\n\n", "<|end|>"),
        user: Wrap::Written("<|turn|>user\n\n", "<|end|>"),
        ..PLAIN
    },
    // A system message of the template's own, unless there is another.
    Kind {
        name: "default system",
        source: "{% if messages[0].role != 'system' %}{{ '<|turn|>system\nAnswer in short and plain words.<|end|>\n' }}\
                 {% endif %}{% for m in messages %}{{ '<|turn|>' + m.role + '\n' + m.content + '<|end|>\n' }}{% endfor %}\
                 {% if add_generation_prompt %}{{ '<|turn|>assistant\n' }}{% endif %}",
        ..PLAIN
    },
    // A head with the day, which a system message goes into.
    Kind {
        name: "dated",
        trims: true,
        source: "<s>{{ '<|turn|>system\n\nKnows the world up to: May 2024\nToday: ' + strftime_now('%d %b %Y') + '\n\n' }}\
                 {% if messages[0].role == 'system' %}{{ messages[0].content | trim }}{% set messages = messages[1:] %}\
                 {% endif %}<|end|>{% for m in messages %}\
                 {{ '<|turn|>' + m.role + '\n\n' + m.content | trim + '<|end|>' }}{% endfor %}\
                 {% if add_generation_prompt %}{{ '<|turn|>assistant\n\n' }}{% endif %}",
        system: Wrap::Difference,
        user: Wrap::Written("<|turn|>user\n\n", "<|end|>"),
        ..PLAIN
    },
    // Nothing ends what users and systems say.
    Kind {
        name: "open ends",
        source: "<s>{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% elif m.role == 'user' %}\
                 {{ '<|turn|>' + m.content }}{% else %}{{ '<|bot|>' + m.content + '<|end|>' }}{% endif %}{% endfor %}\
                 {% if add_generation_prompt %}<|bot|>{% endif %}",
        user_end: "",
        system: Wrap::Difference,
        user: Wrap::Written("<|turn|>", ""),
        ..PLAIN
    },
    // No special token anywhere, and the system message inside the first user's.
    Kind {
        name: "textual",
        source: "{% set lead = '' %}{% if messages[0].role == 'system' %}\
                 {% set lead = '((' + messages[0].content + '))\n\n' %}{% set messages = messages[1:] %}{% endif %}\
                 {% for m in messages %}{% if m.role == 'user' %}\
                 {{ '[ASK] ' + (lead if loop.first else '') + m.content + ' [/ASK]' }}{% else %}{{ ' ' + m.content + '\n' }}\
                 {% endif %}{% endfor %}",
        reply_end: "\n",
        user_end: " [/ASK]",
        system: Wrap::Difference,
        user: Wrap::Difference,
        ..PLAIN
    },
    // The same with special tokens at the very ends alone, as in the first instruction models.
    Kind {
        name: "closed replies",
        source: "<s>{% for m in messages %}{% if m.role == 'assistant' %}{{ ' ' + m.content + ' </s>' }}{% else %}\
                 {{ '[ASK] ' + m.content + ' [/ASK]' }}{% endif %}{% endfor %}",
        reply_end: "</s>",
        user_end: " [/ASK]",
        system: Wrap::Difference,
        user: Wrap::Difference,
        ..PLAIN
    },
    Kind {
        name: "no system",
        trims: true,
        source: "<s>{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('there is no system here') }}\
                 {% endif %}{{ '<|turn|>' + m.role + '\n' + m.content | trim + '<|end|>\n' }}{% endfor %}\
                 {% if add_generation_prompt %}{{ '<|turn|>model\n' }}{% endif %}",
        refuses_system: Some("there is no system here"),
        ..PLAIN
    },
    Kind {
        name: "one after the other",
        source: "{% for m in messages %}{% if loop.previtem is defined and loop.previtem.role == m.role %}\
                 {{ raise_exception('one after the other, please') }}{% endif %}\
                 {{ '<|turn|>' + m.role + '\n' + m.content + '<|end|>\n' }}{% endfor %}\
                 {% if add_generation_prompt %}{{ '<|turn|>assistant\n' }}{% endif %}",
        refuses_consecutive: Some("one after the other, please"),
        ..PLAIN
    },
    // A last reply has an empty thought, which is gone when something follows.
    Kind {
        name: "thinks",
        source: "{% for m in messages %}{{ '<|turn|>' + m.role + '\n' }}{% if m.role == 'assistant' and loop.last %}\
                 {{ '<think>\n\n</think>\n\n' }}{% endif %}{{ m.content + '<|end|>\n' }}{% endfor %}\
                 {% if add_generation_prompt %}{{ '<|turn|>assistant\n<think>\n' }}{% endif %}",
        ..PLAIN
    },
    Kind {
        name: "shouts",
        rewrites: true,
        source: "{% for m in messages %}{{ '<|turn|>' + m.role + '\n' + m.content | upper + '<|end|>\n' }}{% endfor %}\
                 {% if add_generation_prompt %}{{ '<|turn|>assistant\n' }}{% endif %}",
        system: Wrap::Difference,
        user: Wrap::Difference,
        ..PLAIN
    },
    Kind {
        name: "echoes",
        rewrites: true,
        source: "{% for m in messages %}{{ '<|turn|>' + m.role + '\n' + m.content + ' / ' + m.content + '<|end|>\n' }}\
                 {% endfor %}{% if add_generation_prompt %}{{ '<|turn|>assistant\n' }}{% endif %}",
        system: Wrap::Difference,
        user: Wrap::Difference,
        ..PLAIN
    },
    // It shouts and thinks: what a later message adds to a talk is more than its part.
    Kind {
        name: "shouts and thinks",
        rewrites: true,
        source: "{% for m in messages %}{{ '<|turn|>' + m.role + '\n' }}{% if m.role == 'assistant' and loop.last %}\
                 {{ '<think>\n\n</think>\n\n' }}{% endif %}{{ m.content | upper + '<|end|>\n' }}{% endfor %}\
                 {% if add_generation_prompt %}{{ '<|turn|>assistant\n<think>\n' }}{% endif %}",
        system: Wrap::Difference,
        user: Wrap::Difference,
        ..PLAIN
    },
];

/// Vocabularies: those trained for this crate's tests, and those of the tokenizer crate that make texts of every length.
pub(super) const VOCABULARIES: [&str; 8] = [
    "testdata/byte_level.json",
    "testdata/with_bos.json",
    "testdata/prepend.json",
    "testdata/over_spaces.json",
    "testdata/unigram.json",
    "testdata/word_piece.json",
    "../aiperf-tokens/tests/data/byte_level/tokenizer.json",
    "../aiperf-tokens/tests/data/sentencepiece_bpe/tokenizer.json",
];

/// Tokens that stand for nothing in texts.
const MARKS: [&str; 5] = ["<|turn|>", "<|bot|>", "<|end|>", "<s>", "</s>"];

/// Vocabulary number `vocabulary` with template number `kind`.
pub(super) fn tokenizer(vocabulary: usize, kind: usize) -> Arc<dyn Tokenizer> {
    static OPENED: [[OnceLock<Arc<dyn Tokenizer>>; KINDS.len()]; VOCABULARIES.len()] =
        [const { [const { OnceLock::new() }; KINDS.len()] }; VOCABULARIES.len()];
    Arc::clone(OPENED[vocabulary][kind].get_or_init(|| with_template(vocabulary, KINDS[kind].source)))
}

/// Vocabulary number `vocabulary` with a template.
pub(super) fn with_template(vocabulary: usize, template: &str) -> Arc<dyn Tokenizer> {
    let mut file = file_of(vocabulary);
    add_marks(&mut file);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("tokenizer.json"), file.to_string()).expect("a file");
    std::fs::write(folder.path().join("chat_template.jinja"), template).expect("a file");
    let name = folder.path().display().to_string();
    aiperf_tokens::open(&TokenizerPlan { name }).expect("a tokenizer")
}

/// A vocabulary's own file.
pub(super) fn path_of(vocabulary: usize) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(VOCABULARIES[vocabulary])
}

fn file_of(vocabulary: usize) -> Value {
    let text = std::fs::read_to_string(path_of(vocabulary)).expect("a vocabulary of the tests");
    serde_json::from_str(&text).expect("JSON")
}

fn add_marks(file: &mut Value) {
    let ids = |value: &Value| value.as_u64().expect("an id");
    let model = match &file["model"]["vocab"] {
        Value::Object(tokens) => tokens.values().map(ids).max(),
        tokens => tokens.as_array().map(|tokens| tokens.len() as u64 - 1),
    };
    let added = file["added_tokens"].as_array_mut().expect("a list");
    let mut next = added.iter().map(|token| ids(&token["id"])).chain(model).max().expect("a token") + 1;
    for mark in MARKS {
        if added.iter().all(|token| token["content"] != mark) {
            added.push(
                json!({"id": next, "content": mark, "single_word": false, "lstrip": false, "rstrip": false,
                              "normalized": false, "special": true}),
            );
            next += 1;
        }
    }
}
