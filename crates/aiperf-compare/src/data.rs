//! The comparison as JSON and as CSV: every metric and statistic.

use serde_json::{Map, Value, json};

use crate::comparison::{Comparison, Difference, Direction, Line};
use crate::findings::label;

impl Comparison {
    /// As one JSON document; what is not known is null.
    pub fn json(&self) -> Value {
        let runs: Vec<Value> = self
            .runs
            .iter()
            .enumerate()
            .map(|(i, run)| {
                json!({"label": label(i), "name": run.name, "benchmark_id": run.benchmark_id(), "is_baseline": i == self.baseline,
                    "has_records": run.samples.is_some()})
            })
            .collect();
        let findings: Vec<Value> = self
            .findings
            .iter()
            .map(|f| json!({"severity": f.severity.name(), "about": f.about, "run": label(f.run), "text": f.text}))
            .collect();
        let mut metrics: Vec<Value> = Vec::new();
        for lines in self.lines.chunk_by(|a, b| a.tag == b.tag) {
            let stats: Map<String, Value> =
                lines.iter().map(|line| (line.stat.to_owned(), self.stat(line))).collect();
            let line = &lines[0];
            metrics.push(json!({"tag": line.tag, "header": line.header, "unit": line.unit, "better": better(line.direction), "stats": stats}));
        }
        json!({
            "format": 1,
            "runs": runs,
            "baseline": label(self.baseline),
            "confidence_level": self.level,
            "comparable": !self.is_blocked(),
            "findings": findings,
            "metrics": metrics,
        })
    }

    fn stat(&self, line: &Line) -> Value {
        let of: Map<String, Value> = (0..self.runs.len())
            .map(|i| {
                let mut value = json!({"value": line.values[i]});
                if i != self.baseline {
                    let d = line.differences[i].as_ref();
                    value["difference"] = json!(d.map(|d| d.absolute));
                    value["difference_percent"] = json!(d.and_then(|d| d.percent));
                    value["low"] = json!(d.and_then(|d| d.interval).map(|i| i.low));
                    value["high"] = json!(d.and_then(|d| d.interval).map(|i| i.high));
                    value["verdict"] = json!(d.map(|d| d.verdict.name()));
                }
                (label(i), value)
            })
            .collect();
        of.into()
    }

    /// As CSV, a line for each statistic of each run but the baseline; LF line ends, full precision.
    pub fn csv(&self) -> String {
        let mut out = String::from(
            "metric,unit,stat,run,name,baseline,value,difference,difference_percent,low,high,verdict\n",
        );
        for line in &self.lines {
            for i in (0..self.runs.len()).filter(|i| *i != self.baseline) {
                let d: Option<&Difference> = line.differences[i].as_ref();
                let number = |v: Option<f64>| v.map_or_else(String::new, |v| v.to_string());
                let cells = [
                    line.tag.clone(),
                    line.unit.clone(),
                    line.stat.to_owned(),
                    label(i),
                    self.runs[i].name.clone(),
                    number(line.values[self.baseline]),
                    number(line.values[i]),
                    number(d.map(|d| d.absolute)),
                    number(d.and_then(|d| d.percent)),
                    number(d.and_then(|d| d.interval).map(|i| i.low)),
                    number(d.and_then(|d| d.interval).map(|i| i.high)),
                    d.map_or_else(String::new, |d| d.verdict.name().to_owned()),
                ];
                out.push_str(&cells.map(|cell| quoted(&cell)).join(","));
                out.push('\n');
            }
        }
        out
    }
}

const fn better(direction: Direction) -> Option<&'static str> {
    match direction {
        Direction::Larger => Some("larger"),
        Direction::Smaller => Some("smaller"),
        Direction::Neither => None,
    }
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toys::{recorded, run};

    #[test]
    fn both_hold_every_statistic() {
        let c = Comparison::of(
            vec![recorded("a", 1.0, 500), recorded("b,\"", 1.5, 500), run("c", 1.0, 500)],
            0,
            0.95,
        );
        let value = c.json();
        let latency = &value["metrics"]
            .as_array()
            .expect("a list")
            .iter()
            .find(|m| m["tag"] == "request_latency")
            .expect("there")["stats"];
        assert_eq!(latency["avg"]["B"]["verdict"], "worse");
        assert!(latency["avg"]["B"]["low"].as_f64() > Some(0.0));
        assert!(latency["avg"]["A"].get("difference").is_none());
        assert_eq!(latency["avg"]["C"]["verdict"], "equal");
        assert_eq!(latency["max"]["B"]["low"], Value::Null);
        assert_eq!((&value["baseline"], &value["comparable"]), (&json!("A"), &json!(true)));
        let csv = c.csv();
        let width = csv.lines().next().expect("a head").split(',').count();
        assert_eq!(csv.lines().count(), 1 + 2 * c.lines.len());
        assert!(csv.lines().filter(|l| l.contains(",C,c,")).all(|l| l.split(',').count() == width));
        assert!(csv.contains(",B,\"b,\"\"\","), "quoted: {csv}");
    }
}
