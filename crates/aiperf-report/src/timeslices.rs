//! `profile_export_aiperf_timeslices.json` and `.csv`: one slice after the other, as they are made.

use aiperf_core::time::ClockAnchor;
use aiperf_metrics::{STAT_NAMES, STATISTICS, Slice, Stats, Summary};
use serde_json::Value;

use crate::csv;
use crate::json;
use crate::pretty::{new_line, pretty};
use crate::write::Object;

/// Writes the JSON file piece by piece.
#[derive(Debug)]
pub struct JsonWriter {
    anchor: ClockAnchor,
    is_first: bool,
}

impl JsonWriter {
    /// `anchor` turns stamps into wall-clock times.
    pub fn new(anchor: ClockAnchor) -> Self {
        Self { anchor, is_first: true }
    }

    /// What comes before the first slice.
    pub fn begin(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\n  \"timeslices\": [");
    }

    /// A slice: its bounds, AIPerf's metrics, then ours.
    pub fn slice(&mut self, out: &mut Vec<u8>, slice: &Slice) {
        let mut compact = Vec::new();
        let mut o = Object::begin(&mut compact);
        o.int("start_ns", self.anchor.wall(slice.start_ns));
        o.int("end_ns", self.anchor.wall(slice.end_ns));
        if !slice.is_complete {
            o.bool("is_complete", false);
        }
        for row in slice.summary.iter().flat_map(Summary::public_rows) {
            json::metric(o.key(row.spec.tag), row);
        }
        for (spec, stats) in &slice.sliced {
            json::statistics(o.key(spec.tag), stats, &STATISTICS);
        }
        o.end();
        if !self.is_first {
            out.push(b',');
        }
        self.is_first = false;
        new_line(out, 2);
        pretty(out, &compact, 2);
    }

    /// What comes behind the last slice.
    pub fn end(&self, out: &mut Vec<u8>, input_config: &Value) {
        if !self.is_first {
            new_line(out, 1);
        }
        out.extend_from_slice(b"],\n  \"input_config\": ");
        pretty(out, &serde_json::to_vec(input_config).unwrap_or_default(), 1);
        out.extend_from_slice(b"\n}");
    }
}

/// Writes the CSV file piece by piece.
#[derive(Debug)]
pub struct CsvWriter {
    anchor: ClockAnchor,
    index: usize,
}

impl CsvWriter {
    /// `anchor` turns stamps into wall-clock times.
    pub fn new(anchor: ClockAnchor) -> Self {
        Self { anchor, index: 0 }
    }

    /// The head.
    pub fn begin(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Timeslice,Start_NS,End_NS,Metric,Unit,Stat,Value\r\n");
    }

    /// A row for each statistic of a slice, by tag; slices are numbered as they come.
    pub fn slice(&mut self, out: &mut Vec<u8>, slice: &Slice) {
        let (start, end) = (self.anchor.wall(slice.start_ns), self.anchor.wall(slice.end_ns));
        let own = slice.summary.iter().flat_map(Summary::public_rows);
        let mut all: Vec<(&str, &str, &Stats)> =
            own.map(|row| (row.spec.tag, row.spec.header, &row.stats)).collect();
        all.extend(slice.sliced.iter().map(|(spec, stats)| (spec.tag, spec.header, stats)));
        all.sort_unstable_by_key(|(tag, ..)| *tag);
        let mut text = String::new();
        for (_, header, stats) in all {
            for stat in STAT_NAMES {
                let Some(value) = stats.get(stat) else { continue };
                let cells = [
                    self.index.to_string(),
                    start.to_string(),
                    end.to_string(),
                    header.to_owned(),
                    stats.unit().name().to_owned(),
                    stat.to_owned(),
                    csv::number(value),
                ];
                csv::line(&mut text, cells.into_iter());
            }
        }
        out.extend_from_slice(text.as_bytes());
        self.index += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{ANCHOR, traced};
    use serde_json::json;

    fn files() -> (String, String) {
        let recorder = traced();
        let (mut json_out, mut csv_out) = (Vec::new(), Vec::new());
        let (mut json, mut csv) = (JsonWriter::new(ANCHOR), CsvWriter::new(ANCHOR));
        json.begin(&mut json_out);
        csv.begin(&mut csv_out);
        let slices = recorder.slices(100_000_000).expect("not too many").expect("some");
        let is_whole = slices.for_each(|slice| {
            json.slice(&mut json_out, &slice);
            csv.slice(&mut csv_out, &slice);
            Ok::<(), ()>(())
        });
        assert_eq!(is_whole, Ok(true));
        json.end(&mut json_out, &json!({"endpoint": {"streaming": true}}));
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (text(json_out), text(csv_out))
    }

    #[test]
    fn both_files_hold_the_same_numbers() {
        let (json, csv) = files();
        let value: Value = serde_json::from_str(&json).expect("JSON");
        // Numbers may lose a last digit on the way through a parser; the layout does not.
        let layout = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
        let again = serde_json::to_string_pretty(&value).expect("JSON");
        assert_eq!(layout(&again), layout(&json), "indented as all files");
        assert_eq!(value["input_config"]["endpoint"]["streaming"], true);
        let slices = value["timeslices"].as_array().expect("a list");
        assert_eq!(slices.len(), 3, "10 to 250 ms");
        assert_eq!(slices[2]["is_complete"], false);
        assert!(slices[0].get("is_complete").is_none());
        assert_eq!(slices[0]["request_throughput"], json!({"unit": "requests/sec", "avg": 30.0}));
        assert!(slices[1].get("request_throughput").is_none(), "nothing was sent");
        assert_eq!(slices[2]["sliced_request_count"]["avg"], 3.0);
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(csv.matches('\n').count(), csv.matches("\r\n").count());
        assert_eq!(lines[0], "Timeslice,Start_NS,End_NS,Metric,Unit,Stat,Value");
        let start = slices[0]["start_ns"].as_u64().expect("a stamp");
        let row = format!("0,{start},{},Request Throughput,requests/sec,avg,30.00", start + 100_000_000);
        assert!(lines.contains(&row.as_str()), "{row}\n{csv}");
        let of = |name: &str| lines.iter().filter(|l| l.contains(name)).count();
        assert_eq!(of(",Sliced Request Throughput,"), 3);
        assert_eq!(of(",Request Latency,"), 14);
    }
}
