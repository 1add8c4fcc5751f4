//! numpy's generators, bit for bit: what `vllm bench serve` and SGLang's benchmark draw their prompts from.
//!
//! They are serial: each draw moves a state on, so position and order matter. Nothing else in this project draws like that;
//! see the crate's head for what does. [`Pcg64`] is `numpy.random.default_rng(seed)`, [`LegacyMt19937`] is
//! `numpy.random.RandomState(seed)`, as far as those tools call them.

mod legacy;
mod pcg64;
mod seed_sequence;
#[cfg(test)]
mod vectors;
mod ziggurat;

pub use legacy::LegacyMt19937;
pub use pcg64::Pcg64;
