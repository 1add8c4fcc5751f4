//! What `aiperf tokenizer` measures of rendered requests, over templates of every kind.

use std::sync::Arc;

use aiperf_core::plan::{DatasetPlan, EndpointKind, LengthPlan, SyntheticPlan};
use aiperf_tokens::Tokenizer;

use super::kinds::{KINDS, Kind, tokenizer, with_template};
use crate::rendered::{RenderedCheck, RequestShape, check_rendered};
use crate::toys::{context, plan};

fn check(tokenizer: &Arc<dyn Tokenizer>, conversations: usize) -> RenderedCheck {
    let set = SyntheticPlan::sonnet(1, LengthPlan::normal(1.0, 0.0), None);
    let base = plan(DatasetPlan::Synthetic(set), EndpointKind::Chat);
    check_rendered(tokenizer, &base, context().now, conversations).expect("it takes a user message")
}

#[test]
fn lengths_are_exact_and_refusals_are_told_for_every_kind_of_template() {
    let mut later = 0;
    for (at, kind) in KINDS.iter().enumerate() {
        let found = check(&tokenizer(at % 2, at), 40);
        assert_eq!(found.whole, kind.rewrites, "{}", kind.name);
        assert_eq!(found.shapes.iter().map(|s| s.shape).collect::<Vec<_>>(), RequestShape::ALL);
        for shape in &found.shapes {
            let refused = match shape.shape {
                RequestShape::System => kind.refuses_system,
                RequestShape::Context => kind.refuses_consecutive,
                _ => None,
            };
            assert_eq!(shape.refused.as_deref(), refused, "{}, {shape:?}", kind.name);
            if refused.is_some() {
                assert_eq!((shape.requests, shape.least), (0, None), "{shape:?}");
                continue;
            }
            // What is said twice cannot have every length.
            if kind.name != "echoes" {
                assert_eq!(
                    (shape.exact, shape.misses.len()),
                    (shape.requests, 0),
                    "{}, {shape:?}",
                    kind.name
                );
            }
            match shape.shape {
                RequestShape::Later => later += shape.requests,
                _ => assert_eq!(shape.requests, 8, "{}, {shape:?}", kind.name),
            }
        }
        let least = |shape: usize| found.shapes[shape].least.expect("it can be made");
        assert!(least(0) < least(1), "a marker takes room: {}, {found:?}", kind.name);
    }
    // Two later turns of eight conversations; not those whose texts are not found again.
    let finds = |kind: &&Kind| !kind.rewrites || kind.name == "echoes";
    assert_eq!(later, 16 * KINDS.iter().filter(finds).count());
}

#[test]
fn a_length_that_is_not_true_is_seen() {
    // The template writes a message longer than it is when it holds a word that the samples of walls and seams do not.
    let source = "{% for m in messages %}<|turn|>{{ m.content }}{% if 'the' in m.content %} more{% endif %}<|end|>{% endfor %}";
    let found = check(&with_template(0, source), 40);
    assert!(!found.whole && found.exact() < found.requests(), "{found:?}");
    let first = &found.shapes[0];
    assert!(first.misses.len() <= 5 && first.misses.iter().all(|m| m.nearest == m.asked + 1), "{first:?}");
    assert!(first.exact < first.requests && found.shapes[4].exact < found.shapes[4].requests, "{found:?}");
}

#[test]
fn a_template_without_user_messages_has_nothing_to_measure() {
    let set = SyntheticPlan::sonnet(1, LengthPlan::normal(1.0, 0.0), None);
    let base = plan(DatasetPlan::Synthetic(set), EndpointKind::Chat);
    let never = with_template(0, "{{ raise_exception('never') }}");
    let error = check_rendered(&never, &base, context().now, 5).expect_err("it refuses");
    assert!(error.to_string().contains("never"), "{error}");
}
