use serde_json::{Value, json};

use super::{ChatTemplate, Conversation, SpecialTokens};
use crate::clock::TemplateClock;
use crate::error::TemplateError;

fn now() -> TemplateClock {
    TemplateClock::civil(2025, 1, 2, 3, 4, 5).expect("a real moment")
}

fn render(source: &str, messages: &Value) -> Result<String, TemplateError> {
    ChatTemplate::parse(source, &SpecialTokens::default())?.render(messages, None, true, now())
}

/// Renders with `messages` and expects text.
fn text(source: &str, messages: &Value) -> String {
    render(source, messages).expect("the template is sound")
}

#[test]
fn a_template_speaks_its_own_words_when_it_refuses() {
    for source in [
        "{{ raise_exception('roles must alternate') }}",
        "{% macro m() %}{{ raise_exception('roles must alternate') }}{% endmacro %}{{ m() }}",
        "{% for x in [1] %}{% set y = raise_exception('roles must alternate') %}{% endfor %}",
    ] {
        let raised = TemplateError::Raised { message: "roles must alternate".to_owned() };
        assert_eq!(render(source, &json!([])), Err(raised), "{source}");
    }
}

#[test]
fn blocks_are_trimmed_as_transformers_trims_them() {
    // Python: ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).
    let source = "a\n  {% if true %}\nb\n  {%- endif %}\n   {# note #}\n{{ 'c' }}\n d \n\n";
    assert_eq!(text(source, &json!([])), "a\nbc\n d \n");
}

#[test]
fn generation_blocks_leave_no_trace_but_their_scope() {
    let source = "{% set x = 1 %}\n{% generation %}\n{% set x = 2 %}A{{ x }}\n{% endgeneration %}\n{{ x }}";
    assert_eq!(text(source, &json!([])), "A2\n1");
    let tight = "a {%- generation -%} b {%- endgeneration -%} c";
    assert_eq!(text(tight, &json!([])), "abc");
}

#[test]
fn variables_are_those_that_transformers_passes() {
    let mut specials = SpecialTokens::default();
    specials.insert("bos_token", "<s>");
    let source = "{{ bos_token }}|{{ eos_token }}|{{ tools is none }}|{{ documents is none }}|{{ tools is iterable }}|\
                  {{ add_generation_prompt }}|{{ enable_thinking is defined }}|{{ messages | length }}";
    let template = ChatTemplate::parse(source, &specials).expect("the template is sound");
    let messages = json!([{"role": "user", "content": "x"}]);
    assert_eq!(
        template.render(&messages, None, false, now()).as_deref(),
        Ok("<s>||True|True|False|False|False|1")
    );

    let kwargs = json!({"enable_thinking": false, "bos_token": "[B]"});
    let documents = json!([]);
    let conversation = Conversation {
        kwargs: kwargs.as_object(),
        documents: Some(&documents),
        tools: Some(&documents),
        ..Conversation::new(&messages, true, now())
    };
    assert_eq!(template.render_with(&conversation).as_deref(), Ok("[B]||False|False|True|True|True|1"));
    assert_eq!(template.source(), source);
}

#[test]
fn dates_come_from_the_clock_that_was_given() {
    assert_eq!(text("{{ strftime_now('%d %b %Y') }}", &json!([])), "02 Jan 2025");
}

#[test]
fn python_methods_are_there() {
    let messages = json!([{"role": "user", "content": "  Hello World \n"}]);
    for (source, expected) in [
        ("{{ messages[0].content.strip() }}", "Hello World"),
        ("{{ messages[0]['content'].split()[1].upper() }}", "WORLD"),
        ("{{ 'a</think>b'.split('</think>')[-1].lstrip('\\n') }}", "b"),
        ("{% for k, v in messages[0].items() %}{{ k }},{% endfor %}", "role,content,"),
        ("{{ messages[0].get('name', 'none') }}", "none"),
        ("{{ 'x'.startswith('x') and not 'x'.endswith('y') }}", "True"),
        ("{{ messages[0].name is defined }}", "False"),
        ("{% for m in messages[::-1] %}{{ loop.index0 }}{{ m.role }}{% endfor %}", "0user"),
        (
            "{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
            "3",
        ),
        ("{% for i in [1,2,3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "13"),
        // Templates of coding models look at the messages beside one.
        (
            "{% for i in [1,2,2] %}{% if loop.previtem is defined and loop.previtem == i %}={% endif %}{{ i }}\
             {% if loop.nextitem is undefined %}.{% endif %}{% endfor %}",
            "12=2.",
        ),
        (
            "{{ none }} {{ true }} {{ 1.0 }} {{ [1, 'a'] }} {{ {'a': none} }}",
            "None True 1.0 [1, 'a'] {'a': None}",
        ),
    ] {
        assert_eq!(text(source, &messages), expected, "{source}");
    }
}

/// What CPython's `json.dumps` prints for the same value and arguments.
#[test]
fn json_is_written_as_python_writes_it() {
    let value = json!({"z": [1, 2.5, null, true, {}, []], "ü<'\"&>": "tab\t\u{1}\u{7f}é👍", "a": {"n": -0.0, "big": 1e22}});
    for (filter, expected) in [
        (
            "tojson",
            "{\"z\": [1, 2.5, null, true, {}, []], \"ü<'\\\"&>\": \"tab\\t\\u0001\u{7f}é👍\", \"a\": {\"n\": -0.0, \"big\": 1e+22}}",
        ),
        (
            "tojson(ensure_ascii=true)",
            "{\"z\": [1, 2.5, null, true, {}, []], \"\\u00fc<'\\\"&>\": \"tab\\t\\u0001\\u007f\\u00e9\\ud83d\\udc4d\", \
             \"a\": {\"n\": -0.0, \"big\": 1e+22}}",
        ),
        (
            "tojson(separators=(',', ':'), sort_keys=True)",
            "{\"a\":{\"big\":1e+22,\"n\":-0.0},\"z\":[1,2.5,null,true,{},[]],\"ü<'\\\"&>\":\"tab\\t\\u0001\u{7f}é👍\"}",
        ),
        (
            "tojson(indent=2)",
            "{\n  \"z\": [\n    1,\n    2.5,\n    null,\n    true,\n    {},\n    []\n  ],\n  \"ü<'\\\"&>\": \
             \"tab\\t\\u0001\u{7f}é👍\",\n  \"a\": {\n    \"n\": -0.0,\n    \"big\": 1e+22\n  }\n}",
        ),
    ] {
        let source = format!("{{{{ messages | {filter} }}}}");
        assert_eq!(text(&source, &value), expected, "{filter}");
    }
    assert_eq!(text("{{ [1, {'a': 2}] | tojson(indent=0) }}", &value), "[\n1,\n{\n\"a\": 2\n}\n]");
    assert_eq!(text("{{ [1] | tojson(indent='--') }}", &value), "[\n--1\n]");
    assert_eq!(text("{{ {1: 'a', none: 'b', true: 'c'} | tojson }}", &value), r#"{"1": "c", "null": "b"}"#);
    assert_eq!(text("{{ 'x<y' | tojson ~ '<b>' }}", &value), "\"x<y\"<b>");
    assert!(matches!(render("{{ missing | tojson }}", &value), Err(TemplateError::Render { .. })));
    assert!(matches!(render("{{ 1 | tojson(depth=3) }}", &value), Err(TemplateError::Render { .. })));
}

#[test]
fn errors_name_their_line() {
    assert!(matches!(render("a\n{% for %}", &json!([])), Err(TemplateError::Syntax { line: Some(2), .. })));
    let failed = render("a\n\n{{ 'x' + 1 }}", &json!([])).expect_err("a text and a number do not add");
    assert!(failed.to_string().starts_with("template failed in line 3: "), "{failed}");
    let parts = json!([{"role": "user", "content": [{"type": "text", "text": "x"}]}]);
    assert!(matches!(render("{{ 'a' + messages[0].content }}", &parts), Err(TemplateError::Render { .. })));
}

#[test]
fn a_hostile_template_is_stopped() {
    for (source, what) in [
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "steps"),
        ("{% for i in range(9999) %}{{ 'x' * 9999 }}{% endfor %}", "limit"),
        (
            "{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
            "steps",
        ),
        (
            "{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}",
            "steps",
        ),
        ("{{ '{:>9999999999999}'.format(1) }}", "steps"),
        ("{{ '{:.9999999999999f}'.format(1.5) }}", "steps"),
    ] {
        let stopped = render(source, &json!([])).expect_err("without a limit this would not end");
        assert!(
            matches!(&stopped, TemplateError::TooMuch { what: w } if w.contains(what)),
            "{source}: {stopped:?}"
        );
    }
    // A width that comes as an argument is not spoken.
    assert!(render("{{ '{:{}}'.format(1, 9999999999999) }}", &json!([])).is_err());
    assert_eq!(text("{{ '1234567 {:>5}|{:.2f}'.format(1, 1.5) }}", &json!([])), "1234567     1|1.50");
    // Depth: a macro that calls itself, and a value nested deeper than any JSON.
    assert!(render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", &json!([])).is_err());
    let nested = "{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x | tojson }}";
    assert!(render(nested, &json!([])).is_err());
    let deep = "[".repeat(5_000);
    assert!(render(&format!("{{{{ {deep} }}}}"), &json!([])).is_err());
    let large = "x".repeat(super::MAX_SOURCE + 1);
    assert!(matches!(render(&large, &json!([])), Err(TemplateError::TooMuch { .. })));
}

#[test]
fn a_long_conversation_is_within_the_limits() {
    // 2,000 turns of 2 kB each, through a template that looks at every message for every message's last user.
    let messages: Vec<Value> = (0..2_000)
        .map(|i| json!({"role": if i % 2 == 0 { "user" } else { "assistant" }, "content": "word ".repeat(400)}))
        .collect();
    let source = "{% for m in messages %}{% if m.role == 'user' %}U{% else %}A{% endif %}{{ m.content.strip() }}\n{% endfor %}";
    let text = text(source, &Value::Array(messages));
    assert_eq!(text.len(), 2_000 * (1 + 400 * 5 - 1 + 1));
}
