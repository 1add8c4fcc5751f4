//! Load generator and measuring instrument for LLM inference servers.
fn main() {}
