//! What is asked of which model: models and their shares, fields for request bodies.

use aiperf_core::plan::ModelSelection;
use serde_json::{Value, json};

use super::{File, good, run_in, wrong};

fn selection(line: &str) -> ModelSelection {
    good(line).plan.model_selection
}

fn weighted(weights: &[f64]) -> ModelSelection {
    ModelSelection::Weighted(weights.to_vec())
}

#[test]
fn models_are_asked_by_their_shares() {
    assert_eq!(selection("-m a,b"), ModelSelection::RoundRobin);
    assert_eq!(selection("-m a,b --model-selection-strategy random"), ModelSelection::Random);
    assert_eq!(selection("-m a,b --model-weights 3,1"), weighted(&[3.0, 1.0]));
    let plan = good("-m a -m b --model-selection-strategy Weighted --model-weights 0.9,0.1").plan;
    assert_eq!(plan.model_selection, weighted(&[0.9, 0.1]));
    let models = json!({"strategy": "weighted", "items": [{"name": "a", "weight": 0.9}, {"name": "b", "weight": 0.1}]});
    assert_eq!(plan.input_config["models"], models);
    // What is written is read again.
    let file = File::new(&json!({"benchmark": {"models": models}}).to_string());
    let again = file.run("").expect("sound").plan;
    assert_eq!((again.model_selection, again.models), (plan.model_selection, plan.models));
    for (form, weights) in [
        ("{items: [{name: a, weight: 2.5}, {name: b, weight: '1'}]}", [2.5, 1.0]),
        ("{items: [{name: a}, {name: b, weight: null}], weights: [1, 4]}", [1.0, 4.0]),
    ] {
        let file = File::new(&format!("benchmark: {{models: {form}}}"));
        assert_eq!(file.run("").expect(form).plan.model_selection, weighted(&weights));
        assert_eq!(file.run("--model-weights 5,6").expect(form).plan.model_selection, weighted(&[5.0, 6.0]));
        let random = file.run("--model-selection-strategy random").expect(form).plan;
        assert_eq!(random.model_selection, ModelSelection::Random);
        // Weights are those of the models that they were written for.
        assert_eq!(file.run("-m c,d").expect(form).plan.model_selection, ModelSelection::RoundRobin);
    }
}

#[test]
fn what_is_wrong_with_shares_of_models_is_told() {
    for (line, expected) in [
        ("--model-weights 1", "--model-weights: found 1 weights; allowed: one for each of the 2 models"),
        ("--model-weights 1,0", "--model-weights: found '1,0'; allowed: numbers above 0, such as 3,1"),
        (
            "--model-selection-strategy weighted",
            "--model-selection-strategy needs --model-weights: they say which share",
        ),
        (
            "--model-weights 1,2 --model-selection-strategy random",
            "--model-weights and --model-selection-strategy exclude each other",
        ),
        (
            "--model-selection-strategy weigthed",
            "--model-selection-strategy: found 'weigthed'; allowed: round_robin, random, weighted; did you mean 'weighted'?",
        ),
    ] {
        let errors = wrong(&format!("-m a,b {line}"));
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{line}: {errors:?}");
    }
    for (models, expected) in [
        (
            "{items: [{name: a, weight: 0.5}, {name: b}]}",
            "items[1]: found a mapping; expected a weight, as other models have one",
        ),
        (
            "{items: [{name: a, weight: 1}, {name: b, weight: 0}]}",
            "items[1].weight: found the number 0; expected a number above 0",
        ),
        (
            "{items: [{name: a, wieght: 1}]}",
            "there is no key 'wieght' here; allowed: name, weight; did you mean 'weight'?",
        ),
        ("{items: [{name: a, weight: 1}], weights: [1]}", "they say the same thing; keep one"),
        (
            "{strategy: weighted, items: [{name: a}, {name: b}]}",
            "they say which share of the requests each model gets",
        ),
        ("{strategy: round_robin, items: [{name: a, weight: 1}]}", "weights are for the strategy weighted"),
    ] {
        let errors = File::new(&format!("benchmark: {{models: {models}}}")).wrong("");
        assert!(errors.len() == 1 && errors[0].contains(expected), "{models}: {errors:?}");
    }
}

fn extra(file: &str, words: &[&str], vars: &[(&str, &str)]) -> Value {
    let file = File::new(&format!("benchmark: {{model: m, endpoint: {{extra: {file}}}}}"));
    let path = file.path().display().to_string();
    let mut all = vec!["-f", &path];
    all.extend(words);
    Value::Object(run_in(&all, vars).expect("sound").plan.endpoint.extra)
}

#[test]
fn fields_of_bodies_come_typed_from_everywhere() {
    let flag = [
        "--extra-inputs",
        "temperature:=0.2",
        "stop:=[\"a\",\"b, c\"],mode:fast",
        "--extra-inputs",
        "seed:=null",
    ];
    assert_eq!(
        extra("{}", &flag, &[]),
        json!({"temperature": 0.2, "stop": ["a", "b, c"], "mode": "fast", "seed": null})
    );
    let vars = [("AIPERF_EXTRA_INPUTS", "a:={\"b\":{\"c\":1}},d:1")];
    assert_eq!(
        extra("{}", &["--extra-inputs", "a:={\"b\":{\"e\":2}}"], &vars),
        json!({"a": {"b": {"c": 1, "e": 2}}, "d": 1})
    );
    for file in
        ["'temperature:=0.2,stop:=[1]'", "['temperature:=0.2', 'stop:=[1]']", "{temperature: 0.2, stop: [1]}"]
    {
        assert_eq!(extra(file, &[], &[]), json!({"temperature": 0.2, "stop": [1]}), "{file}");
    }
    let plan = good("-m m --extra-inputs api_key:=\"s3cret\",a:=1").plan;
    assert_eq!(plan.input_config["endpoint"]["extra"], json!({"api_key": "<redacted>", "a": 1}));
    assert_eq!(plan.cli_command, "aiperf profile -m 'm' --extra-inputs 'api_key:=<redacted>,a:=1'");
}

#[test]
fn what_is_wrong_with_fields_is_told_where_it_stands() {
    let errors = wrong("-m m --extra-inputs a:1,stop:=[END]");
    assert_eq!(
        errors,
        [
            "--extra-inputs: found 'stop:=[END]', whose value is no JSON: expected value at character 2; allowed: key:value or \
             key:=json, several separated by commas, or a JSON object; did you mean 'stop:=[\"END\"]'?"
        ]
    );
    for (extra, expected) in [
        ("'a:=[1'", "found 'a:=[1', whose value is no JSON: EOF while parsing a list at character 2"),
        ("[a, 'b:1']", "found 'a', which has no ':' between a name and a value"),
        ("[{a: 1}]", "expected a mapping, or a list of texts key:value and key:=json"),
    ] {
        let file = File::new(&format!("benchmark: {{model: m, endpoint: {{extra: {extra}}}}}"));
        let errors = file.wrong("");
        let is_told = errors.len() == 1 && errors[0].contains(expected) && errors[0].contains("extra");
        assert!(is_told, "{errors:?}");
    }
}
