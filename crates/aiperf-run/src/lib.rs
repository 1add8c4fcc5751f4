//! The run: drives shards, reads behind them, spools records, live progress, control.
