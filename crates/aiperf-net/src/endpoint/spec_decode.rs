//! Counts of speculative decoding in an answer: vLLM's `metrics.speculative_decoding`.

use aiperf_core::spec_decode::{Broken, SpecDecode};
use serde_json::{Map, Value};

/// The counts in the `metrics` object of an answer; `None` where there are none.
pub(super) fn of(metrics: &str) -> Option<Result<SpecDecode, Broken>> {
    let metrics: Map<String, Value> = serde_json::from_str(metrics).ok()?;
    let stats = metrics.get("speculative_decoding")?.as_object()?;
    let is_known = stats.contains_key("acceptance_histogram") && stats.contains_key("num_spec_steps");
    is_known.then(|| read(stats)?.checked())
}

fn read(stats: &Map<String, Value>) -> Result<SpecDecode, Broken> {
    Ok(SpecDecode {
        mean_acceptance_length: real(stats, "mean_acceptance_length")?,
        draft_acceptance_rate: real(stats, "draft_acceptance_rate")?,
        histogram: list(stats, "acceptance_histogram")?.unwrap_or_default(),
        accepted: whole(stats, "num_accepted_draft_tokens")?,
        drafted: whole(stats, "num_draft_tokens")?,
        steps: whole(stats, "num_spec_steps")?,
        width: present(stats, "num_spec_tokens").map(|_| whole(stats, "num_spec_tokens")).transpose()?,
        per_step_accepted: list(stats, "per_step_accepted")?,
        per_step_drafted: list(stats, "per_step_drafted")?,
    })
}

fn present<'a>(stats: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    stats.get(key).filter(|value| !value.is_null())
}

fn broken(key: &str, stats: &Map<String, Value>) -> Broken {
    Broken(match stats.get(key) {
        Some(value) => format!("{key} is {value}"),
        None => format!("{key} is not there"),
    })
}

fn real(stats: &Map<String, Value>, key: &str) -> Result<f64, Broken> {
    stats.get(key).and_then(Value::as_f64).ok_or_else(|| broken(key, stats))
}

fn whole(stats: &Map<String, Value>, key: &str) -> Result<u64, Broken> {
    stats.get(key).and_then(Value::as_u64).ok_or_else(|| broken(key, stats))
}

fn list(stats: &Map<String, Value>, key: &str) -> Result<Option<Vec<u64>>, Broken> {
    let Some(value) = present(stats, key) else { return Ok(None) };
    let items = value.as_array().map(|items| items.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>());
    items.flatten().map(Some).ok_or_else(|| broken(key, stats))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stats() -> Value {
        json!({"mean_acceptance_length": 2.5, "draft_acceptance_rate": 0.5, "acceptance_histogram": [2, 3, 3, 2],
            "num_accepted_draft_tokens": 15, "num_draft_tokens": 30, "num_spec_steps": 10, "num_spec_tokens": 3})
    }

    fn read(stats: &Value) -> Option<Result<SpecDecode, Broken>> {
        of(&json!({ "speculative_decoding": stats }).to_string())
    }

    #[test]
    fn what_a_server_counted_is_read() {
        let found = read(&stats()).expect("counts").expect("they agree");
        assert_eq!((found.accepted, found.drafted, found.steps, found.width), (15, 30, 10, Some(3)));
        assert_eq!(found.histogram, [2, 3, 3, 2]);
        for none in [json!(null), json!({}), json!({"acceptance_histogram": []})] {
            assert_eq!(read(&none), None, "{none}");
        }
        assert_eq!(of("null"), None);
    }

    #[test]
    fn only_whole_numbers_are_counts() {
        for (key, value) in [
            ("acceptance_histogram", json!([2, 3, true, 2])),
            ("acceptance_histogram", json!("2332")),
            ("acceptance_histogram", json!({"0": 10})),
            ("num_spec_steps", json!(10.0)),
            ("num_spec_steps", json!(true)),
            ("num_draft_tokens", json!(-1)),
            ("mean_acceptance_length", json!("2.5")),
            ("per_step_accepted", json!([1.5])),
            ("num_spec_tokens", json!(4)),
        ] {
            let mut stats = stats();
            stats[key] = value;
            assert!(read(&stats).is_some_and(|r| r.is_err()), "{stats}");
        }
        let mut missing = stats();
        missing.as_object_mut().expect("an object").remove("num_draft_tokens");
        assert_eq!(read(&missing), Some(Err(Broken("num_draft_tokens is not there".to_owned()))));
    }
}
