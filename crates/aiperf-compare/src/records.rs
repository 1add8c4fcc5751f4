//! Records of a run, read line by line; what is kept does not grow with their number.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{self, BufRead};

use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, de};

use crate::sketch::{Bins, Sketch};

/// No program writes so many; a file that has them is not to fill the memory.
const MOST_TAGS: usize = 1_000;

/// What the records of the profiling phases told.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// By tag, over completed requests.
    pub(crate) metrics: BTreeMap<String, Sketch>,
    /// Completions, output tokens, input tokens, both, over time.
    pub(crate) rates: Option<[Bins; 4]>,
    /// Completed requests.
    pub completed: u64,
    /// Failed and cancelled ones.
    pub failed: u64,
    /// Lines that could not be read.
    pub unreadable: u64,
}

/// The file could not be read to its end.
#[derive(Debug)]
pub struct RecordsProblem {
    /// Line it broke at, from 1.
    pub line: u64,
    /// Why.
    pub source: io::Error,
}

impl fmt::Display for RecordsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read line {}", self.line)
    }
}

impl std::error::Error for RecordsProblem {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    metrics: HashMap<Cow<'a, str>, Value>,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    benchmark_phase: Cow<'a, str>,
    request_start_ns: u64,
    request_end_ns: u64,
    #[serde(default)]
    was_cancelled: bool,
}

#[derive(Deserialize)]
struct Value {
    value: Numbers,
}

/// One number or several.
struct Numbers(Vec<f64>);

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Numbers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a list of numbers")
            }

            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Numbers, E> {
                Ok(Numbers(vec![v as f64]))
            }

            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Numbers, E> {
                Ok(Numbers(vec![v as f64]))
            }

            fn visit_f64<E: de::Error>(self, v: f64) -> Result<Numbers, E> {
                Ok(Numbers(vec![v]))
            }

            // Values of other kinds are no numbers of a metric.
            fn visit_unit<E: de::Error>(self) -> Result<Numbers, E> {
                Ok(Numbers(Vec::new()))
            }

            fn visit_bool<E: de::Error>(self, _: bool) -> Result<Numbers, E> {
                Ok(Numbers(Vec::new()))
            }

            fn visit_str<E: de::Error>(self, _: &str) -> Result<Numbers, E> {
                Ok(Numbers(Vec::new()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Numbers, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                Ok(Numbers(all))
            }
        }
        from.deserialize_any(Any)
    }
}

impl Samples {
    /// Reads a `profile_export.jsonl` of ours or of AIPerf. Lines that are no records are counted and left out.
    pub fn read(mut lines: impl BufRead) -> Result<Self, RecordsProblem> {
        let mut samples = Self::default();
        let (mut line, mut at) = (Vec::new(), 0);
        loop {
            line.clear();
            at += 1;
            match lines.read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(_) if line.trim_ascii().is_empty() => {}
                Ok(_) => match serde_json::from_slice::<Line<'_>>(&line) {
                    Ok(record) => samples.add(&record),
                    Err(_) => samples.unreadable += 1,
                },
                Err(source) => return Err(RecordsProblem { line: at, source }),
            }
        }
        samples.metrics.values_mut().for_each(Sketch::finish);
        Ok(samples)
    }

    fn add(&mut self, record: &Line<'_>) {
        if record.metadata.benchmark_phase != "profiling" {
            return;
        }
        if record.error.is_some() || record.metadata.was_cancelled {
            self.failed += 1;
            return;
        }
        self.completed += 1;
        for (tag, Value { value: Numbers(values) }) in &record.metrics {
            let has_room = self.metrics.len() < MOST_TAGS;
            match self.metrics.get_mut(tag.as_ref()) {
                Some(sketch) => sketch.add(values),
                None if has_room => self.metrics.entry(tag.to_string()).or_default().add(values),
                None => {}
            }
        }
        let first =
            |tag: &str| record.metrics.get(tag).and_then(|v| v.value.0.first()).copied().unwrap_or(0.0);
        let (out, input) = (first("output_sequence_length"), first("input_sequence_length"));
        let rates =
            self.rates.get_or_insert_with(|| [(); 4].map(|()| Bins::from(record.metadata.request_start_ns)));
        for (bins, amount) in rates.iter_mut().zip([1.0, out, input, out + input]) {
            bins.add(record.metadata.request_end_ns, amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completed_requests_of_profiling_phases_count() {
        let line = |phase: &str, more: &str| {
            format!(
                "{{\"metadata\":{{\"benchmark_phase\":\"{phase}\",\"request_start_ns\":5,\"request_end_ns\":9{more}}},\
                 \"metrics\":{{\"request_latency\":{{\"value\":2.5,\"unit\":\"ms\"}},\
                 \"inter_chunk_latency\":{{\"value\":[1,2.0],\"unit\":\"ms\"}}}},\"error\":null}}\n"
            )
        };
        let text = line("warmup", "")
            + &line("profiling", "")
            + &line("profiling", ",\"was_cancelled\":true")
            + "not json\n\n"
            + &line("profiling", "").replace("null", "{\"code\":500}")
            + line("profiling", "").trim_end();
        let samples = Samples::read(text.as_bytes()).expect("it can be read");
        assert_eq!((samples.completed, samples.failed, samples.unreadable), (2, 2, 1));
        assert_eq!(samples.metrics["request_latency"].len(), 2);
        assert_eq!(samples.metrics["inter_chunk_latency"].len(), 4);
        assert_eq!(samples.metrics["inter_chunk_latency"].at(3), Some(2.0));
    }
}
