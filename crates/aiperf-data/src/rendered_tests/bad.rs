//! What cannot be made is told before anything is sent, in words that help.

use std::path::Path;
use std::sync::Arc;

use aiperf_core::plan::{CorpusPlan, MarkerTarget, TokenizerPlan};
use aiperf_tokens::{Tokenizer, TokenizerError};
use serde_json::json;

use super::kinds::{KINDS, VOCABULARIES, path_of, tokenizer, with_template};
use super::oracle::{first_request, part, rendered};
use super::{Beside, CORPORA, Form, Wishes};
use crate::corpus::SONNET;
use crate::error::DataError;
use crate::workload::Visit;

fn refusal(wishes: Wishes, template: &str) -> String {
    let error = wishes.open(&with_template(0, template)).expect_err("the template does not take it");
    assert!(matches!(error, DataError::Template { .. }), "{error}");
    error.to_string()
}

#[test]
fn a_template_that_raises_is_refused_in_its_own_words() {
    let said = refusal(Wishes::of(100), "{{ raise_exception('this model does not talk') }}");
    assert!(said.contains("this model does not talk") && said.contains("--apply-chat-template"), "{said}");
    let said = refusal(Wishes::of(100), "{{ messages[7].content.nothing() }}");
    assert!(said.starts_with("the chat template takes no user message"), "{said}");
}

#[test]
fn a_template_that_forbids_a_system_message_is_told_with_the_options_that_ask_for_one() {
    let kind = KINDS.iter().position(|kind| kind.refuses_system.is_some()).expect("there is one");
    for beside in [Beside::System(30), Beside::Verbatim, Beside::Both(30)] {
        let error = Wishes { beside, ..Wishes::of(100) }.open(&tokenizer(0, kind)).expect_err("no system");
        let said = error.to_string();
        assert!(said.contains("there is no system here"), "{said}");
        assert!(said.contains("--system-prompt, --shared-system-prompt-length"), "{said}");
    }
    // Its words are about the system message, so what asks for none is taken.
    Wishes { beside: Beside::Context(9), ..Wishes::of(100) }
        .open(&tokenizer(0, kind))
        .expect("no system is asked for");
}

#[test]
fn a_template_that_forbids_consecutive_roles_is_told_with_the_option_that_makes_them() {
    let kind = KINDS.iter().position(|kind| kind.refuses_consecutive.is_some()).expect("there is one");
    for beside in [Beside::Context(30), Beside::Both(30)] {
        let error =
            Wishes { beside, ..Wishes::of(100) }.open(&tokenizer(0, kind)).expect_err("twice the user");
        let said = error.to_string();
        assert!(said.contains("one after the other, please"), "{said}");
        assert!(said.contains("--user-context-prompt-length"), "{said}");
    }
    // Conversations go one after the other, so turns are taken.
    Wishes { turns: 3, ..Wishes::of(100) }.open(&tokenizer(0, kind)).expect("turns alternate");
}

#[test]
fn a_template_that_forbids_replies_is_told_with_the_option_that_brings_them() {
    let template = "{% for m in messages %}{% if m.role == 'assistant' %}{{ raise_exception('only questions') }}{% endif %}\
                    {{ '<|turn|>' + m.content + '<|end|>' }}{% endfor %}";
    let said = refusal(Wishes { turns: 2, ..Wishes::of(100) }, template);
    assert!(said.contains("only questions") && said.contains("--conversation-turn-mean"), "{said}");
    Wishes::of(100).open(&with_template(0, template)).expect("one turn has no replies");
}

#[test]
fn a_template_without_the_user_s_words_is_no_way_to_a_length() {
    for (template, reached) in [
        ("<|turn|>always the same<|end|>", false),
        ("{% for m in messages %}<|turn|>{{ m.content[:50] }}<|end|>{% endfor %}", false),
        ("{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}", false),
        ("{% for m in messages %}<|turn|>{{ m.content | upper }}<|end|>{% endfor %}", true),
    ] {
        let opened = Wishes::of(100).open(&with_template(0, template));
        assert_eq!(opened.is_ok(), reached, "{template}");
        if let Err(error) = opened {
            let said = error.to_string();
            assert!(
                said.contains("leaves out what messages say") && said.contains("chat_template.jinja"),
                "{said}"
            );
        }
    }
}

#[test]
fn a_tokenizer_without_a_template_has_bare_lengths_and_says_so() {
    let name = path_of(0).display().to_string();
    let tokenizer = aiperf_tokens::open(&TokenizerPlan { name }).expect("a vocabulary");
    for target in [None, Some(MarkerTarget::FirstTurnSuffix), Some(MarkerTarget::SystemPrefix)] {
        let wishes = Wishes { target, beside: Beside::System(40), turns: 2, ..Wishes::of(60) };
        let workload = wishes.open(&tokenizer).expect("it can be");
        let notes = workload.describe().notes;
        assert!(
            notes.len() == 1 && notes[0].contains("has no chat template, so --apply-chat-template"),
            "{notes:?}"
        );
        let made = workload.conversation(0, Visit::default()).expect("it can be");
        let counts: Vec<usize> = made.turns.iter().map(|turn| tokenizer.count(&turn.texts[0])).collect();
        assert_eq!(
            (counts, made.system.map(|text| tokenizer.count(&text))),
            (vec![60, 60], Some(40)),
            "{target:?}"
        );
    }
}

#[test]
fn a_template_that_cannot_be_read_is_told_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let vocabulary = Path::new(env!("CARGO_MANIFEST_DIR")).join(VOCABULARIES[0]);
    std::fs::copy(vocabulary, folder.path().join("tokenizer.json")).expect("a file");
    std::fs::write(folder.path().join("chat_template.jinja"), "one\n{% for %}").expect("a file");
    let name = folder.path().display().to_string();
    let error: TokenizerError = aiperf_tokens::open(&TokenizerPlan { name }).expect_err("broken");
    let said = error.to_string();
    assert!(said.contains("chat_template.jinja: template has a syntax error in line 2"), "{said}");
}

/// Words of a vocabulary in which every token is a whole word, and none is short: what fills a text up elsewhere, single letters,
/// is unknown here.
fn whole_words(template: Option<&str>) -> Arc<dyn Tokenizer> {
    let mut vocabulary = serde_json::Map::new();
    for word in ["<unk>", "<|turn|>", "<|end|>", "thou", "shalt", "never", "words", "more", "turn"] {
        vocabulary.insert(word.to_owned(), vocabulary.len().into());
    }
    let special = |id: u32, content: &str| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    };
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [special(0, "<unk>"), special(1, "<|turn|>"), special(2, "<|end|>")],
        "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    });
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("tokenizer.json"), file.to_string()).expect("a file");
    if let Some(template) = template {
        std::fs::write(folder.path().join("chat_template.jinja"), template).expect("a file");
    }
    let name = folder.path().display().to_string();
    aiperf_tokens::open(&TokenizerPlan { name }).expect("a tokenizer")
}

#[test]
fn a_vocabulary_without_a_filler_has_exact_lengths_all_the_same() {
    let template = "{% for m in messages %}{{ '<|turn|>' + m.content + '<|end|>' }}{% endfor %}<|turn|>";
    let (bare, templated) = (whole_words(None), whole_words(Some(template)));
    for corpus in CORPORA {
        for isl in [4, 5, 17, 300] {
            let bare_text =
                Wishes { corpus, template: false, ..Wishes::of(isl) }.open(&bare).expect("it can be");
            let made = bare_text.conversation(2, Visit::default()).expect("it can be");
            assert_eq!(bare.count(&made.turns[0].texts[0]) as u64, isl, "{corpus:?}");
            let made = Wishes { corpus, ..Wishes::of(isl) }.open(&templated).expect("it can be");
            let made = made.conversation(2, Visit::default()).expect("it can be");
            let whole = rendered(&*templated, &first_request(&made), true);
            assert_eq!(templated.count(&whole) as u64, isl, "{corpus:?} {whole:?}");
        }
    }
}

#[test]
fn a_normalizer_that_loses_letters_leaves_lengths_true_with_a_template() {
    let lossy = VOCABULARIES.iter().position(|name| name.contains("word_piece")).expect("it is there");
    let tokenizer = tokenizer(lossy, 0);
    let mut lost = 0;
    for corpus in CORPORA {
        for form in [Form::Fixed, Form::Spread] {
            let wishes = Wishes { corpus, form, turns: 2, beside: Beside::System(30), ..Wishes::of(90) };
            let workload = wishes.open(&tokenizer).expect("it can be");
            for entry in 0..5 {
                let made = workload.conversation(entry, Visit::default()).expect("it can be");
                let whole = rendered(&*tokenizer, &first_request(&made), true);
                let mut ids = Vec::new();
                tokenizer.encode(&whole, &mut ids);
                lost += usize::from(tokenizer.decode(&ids) != whole);
                assert_eq!(made.turns[0].length.map(|length| length.asked as usize), Some(ids.len()));
                let later = made.turns[1].length.map(|length| length.asked as usize);
                assert_eq!(later, Some(part(&*tokenizer, &KINDS[0], &made, 1)));
            }
        }
    }
    assert!(lost >= 20, "texts do not come back, and their lengths hold: {lost}");
}

#[test]
fn a_request_longer_than_the_corpus_goes_around_it() {
    let tokenizer = tokenizer(0, 0);
    let isl = 3 * SONNET.pieces() as u64;
    let made = Wishes::of(isl).open(&tokenizer).expect("it can be").conversation(0, Visit::default());
    let made = made.expect("it can be");
    let whole = rendered(&*tokenizer, &first_request(&made), true);
    assert_eq!(tokenizer.count(&whole) as u64, isl);
    assert!(made.turns[0].texts[0].split(' ').count() > SONNET.pieces(), "it has more words than all of it");

    let error = Wishes { corpus: CorpusPlan::Sonnet, ..Wishes::of(1_000_000_000) }.open(&tokenizer);
    let said = error.expect_err("no memory is spent on it").to_string();
    assert!(said.contains("beyond the most that prompts are made for"), "{said}");
}
