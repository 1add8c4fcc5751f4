//! The object `cache` of the summary, its schemas, and what the screen says of it.

use std::fmt::Write as _;

use aiperf_core::text::grouped;
use aiperf_metrics::{CacheLedger, ExpectedSums};
use serde_json::{Map, Value, json};

use crate::schema::{as_map, closed, object};

/// Shares may differ by so much before anything is made of it: templates of servers and tokenizers differ by some tokens.
const TOLERANCE: f64 = 0.02;

/// What servers say of their cache, if any says anything. Absent parts are null.
pub(crate) fn value(ledger: &CacheLedger) -> Option<Value> {
    let hit_rate = ledger.hit_rate()?;
    Some(json!({
        "requests": ledger.requests,
        "silent_requests": ledger.silent,
        "prompt_tokens": ledger.prompt_tokens,
        "cached_tokens": ledger.cached_tokens,
        "hit_rate": hit_rate,
        "expected": expected(&ledger.expected),
        "findings": findings(ledger),
    }))
}

fn expected(sums: &ExpectedSums) -> Option<Value> {
    Some(json!({
        "requests": sums.requests,
        "prompt_tokens": sums.facts.prompt,
        "cached_tokens": sums.facts.cached,
        "from_warmup_tokens": sums.facts.warmup,
        "with_replies_tokens": sums.facts.with_replies,
        "hit_rate": sums.hit_rate()?,
        "hit_rate_with_replies": sums.hit_rate_with_replies()?,
        "reported_hit_rate": sums.told_hit_rate()?,
    }))
}

/// Schema of [`value`]; without `nulls` what is null is absent.
pub(crate) fn schema(nulls: bool) -> Value {
    let whole = json!({"type": "integer", "minimum": 0});
    let share = json!({"type": "number", "minimum": 0});
    let all = |form: &Value, keys: &[&str]| -> Map<String, Value> {
        keys.iter().map(|key| ((*key).to_owned(), form.clone())).collect()
    };
    let mut expected = all(
        &whole,
        &["requests", "prompt_tokens", "cached_tokens", "from_warmup_tokens", "with_replies_tokens"],
    );
    expected.extend(all(&share, &["hit_rate", "hit_rate_with_replies", "reported_hit_rate"]));
    let expected = closed(expected);
    let mut keys = all(&whole, &["requests", "silent_requests", "prompt_tokens", "cached_tokens"]);
    keys.insert("hit_rate".to_owned(), share);
    keys.extend(as_map(json!({"findings": {"type": "array", "items": {"type": "string"}}})));
    let required: Vec<String> = keys.keys().cloned().collect();
    let mut required: Vec<&str> = required.iter().map(String::as_str).collect();
    if nulls {
        required.push("expected");
    }
    let form = if nulls { json!({"anyOf": [expected, {"type": "null"}]}) } else { expected };
    keys.insert("expected".to_owned(), form);
    object(keys, &required)
}

/// The line on the screen, if servers say anything.
pub(crate) fn line(ledger: &CacheLedger) -> Option<String> {
    let rate = ledger.hit_rate()?;
    let mut line = format!(
        "Prefix cache: by their own words servers found {} of {} prompt tokens",
        percent(rate),
        grouped(ledger.prompt_tokens)
    );
    if ledger.silent > 0 {
        line.push_str(" (some answers say nothing of it)");
    }
    if let (Some(rate), Some(kept)) = (ledger.expected.hit_rate(), ledger.expected.hit_rate_with_replies()) {
        line.push_str("; there were ");
        line.push_str(&percent(rate));
        if ledger.expected.facts.with_replies != ledger.expected.facts.cached {
            line.push_str(", or with the answers ");
            line.push_str(&percent(kept));
        }
        line.push_str(" to be found");
        if ledger.expected.requests != ledger.requests {
            let _ = write!(
                line,
                " by {} of {} requests",
                grouped(ledger.expected.requests),
                grouped(ledger.requests)
            );
        }
    }
    line.push('.');
    Some(line)
}

/// What a reader of the results should make of it.
pub(crate) fn findings(ledger: &CacheLedger) -> Vec<String> {
    let sums = &ledger.expected;
    let (Some(told), Some(least), Some(most)) =
        (sums.told_hit_rate(), sums.hit_rate(), sums.hit_rate_with_replies())
    else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    if told > most + TOLERANCE {
        findings.push(
            "Servers found more in their prefix caches than this run has sent before: they knew prompts from earlier runs \
             (--reset-kv-cache, --cache-bust), or their blocks are smaller than --cache-block-size."
                .to_owned(),
        );
    }
    if told < least - TOLERANCE && sums.told_cached_tokens == 0 {
        findings.push(
            "Servers found nothing at all in their prefix caches, although there was something: is the cache on (vLLM: \
             --enable-prefix-caching; SGLang: no --disable-radix-cache)? Where it is, it holds less than a block of each prompt, or loses it \
             before it is asked for again."
                .to_owned(),
        );
    } else if told < least - TOLERANCE {
        findings.push(
            "Servers found less in their prefix caches than there was: blocks were evicted, several servers shared the requests, or requests \
             of one prefix were in flight at the same moment. New runs with another load will not find the same."
                .to_owned(),
        );
    }
    let warmup = sums.facts.warmup as f64 / sums.facts.prompt as f64;
    if warmup > TOLERANCE {
        findings.push(format!(
            "{} of the measured prompt tokens were in prompts of the warm-up: the measured requests found them because of it (more \
             --num-dataset-entries, or --cache-bust warmup_isolation_system, keeps them apart).",
            percent(warmup)
        ));
    }
    findings
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use aiperf_metrics::CacheFacts;

    use super::*;
    use crate::load::without_nulls;
    use crate::schema_check::check;

    /// 1,000 prompt tokens, in hundredths of them: what servers say, and what was there.
    fn ledger(told: u64, cached: u64, with_replies: u64, warmup: u64) -> CacheLedger {
        let facts = CacheFacts {
            prompt: 1_000,
            cached: cached * 10,
            warmup: warmup * 10,
            with_replies: with_replies * 10,
        };
        CacheLedger {
            requests: 4,
            silent: 0,
            prompt_tokens: 1_000,
            cached_tokens: told * 10,
            expected: ExpectedSums {
                requests: 4,
                facts,
                told_prompt_tokens: 1_000,
                told_cached_tokens: told * 10,
            },
        }
    }

    fn plain(told: u64) -> CacheLedger {
        CacheLedger { expected: ExpectedSums::default(), silent: 1, ..ledger(told, 0, 0, 0) }
    }

    #[test]
    fn the_line_says_what_is_known() {
        assert_eq!(line(&CacheLedger { silent: 3, ..CacheLedger::default() }), None);
        assert_eq!(
            line(&plain(25)).as_deref(),
            Some(
                "Prefix cache: by their own words servers found 25.0% of 1,000 prompt tokens (some answers say nothing of it)."
            )
        );
        assert_eq!(
            line(&ledger(25, 20, 40, 0)).as_deref(),
            Some(
                "Prefix cache: by their own words servers found 25.0% of 1,000 prompt tokens; there were 20.0%, or with the answers 40.0% \
                 to be found."
            )
        );
        let mut some = ledger(25, 25, 25, 0);
        some.expected.requests = 3;
        assert!(
            line(&some)
                .is_some_and(|line| line.ends_with("; there were 25.0% to be found by 3 of 4 requests."))
        );
    }

    #[test]
    fn findings_are_told_where_there_are_some() {
        let said = |ledger: CacheLedger| findings(&ledger).join("|");
        assert_eq!(said(plain(90)), "");
        for (told, cached, kept) in [(25, 25, 25), (30, 25, 40), (25, 26, 26), (41, 25, 40)] {
            assert_eq!(said(ledger(told, cached, kept, 0)), "", "{told} {cached} {kept}");
        }
        assert!(said(ledger(50, 25, 40, 0)).contains("from earlier runs"));
        assert!(said(ledger(10, 25, 40, 0)).contains("evicted"));
        let nothing = said(ledger(0, 25, 40, 0));
        assert!(nothing.contains("is the cache on") && !nothing.contains("evicted"), "{nothing}");
        assert_eq!(said(ledger(0, 0, 0, 0)), "");
        assert!(
            said(ledger(25, 25, 25, 20))
                .starts_with("20.0% of the measured prompt tokens were in prompts of the warm-up")
        );
    }

    #[test]
    fn the_object_fits_its_schemas() {
        assert_eq!(value(&CacheLedger::default()), None);
        for ledger in [plain(25), ledger(10, 25, 40, 20)] {
            let value = value(&ledger).expect("a server said something");
            let schema_2 = schema(true);
            assert_eq!(check(&schema_2, &schema_2, &value, "$"), Ok(()));
            let schema_1 = schema(false);
            assert_eq!(check(&schema_1, &schema_1, &without_nulls(value), "$"), Ok(()));
        }
    }
}
