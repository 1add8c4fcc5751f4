use serde_json::{Value, json};

use super::{ChatTemplate, SpecialTokens};
use crate::clock::TemplateClock;
use crate::error::TemplateError;

fn now() -> TemplateClock {
    TemplateClock::civil(2025, 1, 2, 3, 4, 5).expect("a real moment")
}

fn render(source: &str, messages: &Value) -> Result<String, TemplateError> {
    ChatTemplate::parse(source, &SpecialTokens::default())?.render(messages, None, true, now())
}

#[test]
fn a_template_speaks_its_own_words_when_it_refuses() {
    let source = "{% macro m() %}{{ raise_exception('roles must alternate') }}{% endmacro %}{{ m() }}";
    assert_eq!(
        render(source, &json!([])),
        Err(TemplateError::Raised { message: "roles must alternate".to_owned() })
    );
}
