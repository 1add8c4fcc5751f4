//! Console, JSON, CSV and JSONL: pure functions from metrics to bytes.
