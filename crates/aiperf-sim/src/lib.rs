//! A simulated OpenAI-compatible inference server with a truth log and faults.
