//! Random numbers as a function: `draw(seed, purpose, index)` depends on nothing else.
//!
//! There is no generator state that passes from one draw to the next, so any part of a run can be computed in any
//! order, on any thread or machine, and is always the same. Every consumer names its purpose (`dataset.prompt.length`),
//! so that a new consumer cannot shift the numbers of an old one.
//!
//! ```
//! use aiperf_rng::Key;
//!
//! let lengths = Key::new(42).purpose("dataset.prompt.length");
//! let seventh = lengths.at(7).normal_length(550.0, 100.0);
//! assert_eq!(lengths.at(7).normal_length(550.0, 100.0), seventh);
//! ```
//!
//! Inside is Philox4x64-10 ([`philox`]): the key is (seed, hash of the purpose), the counter is (block, index, lane).
//! [`numpy`] alone is serial: there the point is to draw what other tools draw.
//!
//! The distributions use only IEEE 754 basic operations and the square root, whose results are fixed to the last bit,
//! with logarithm and exponential of our own ([`elementary`]). So a plan draws the same bits on every platform.

pub mod elementary;
pub mod numpy;
pub mod philox;

mod draws;
mod key;
mod permutation;

pub use draws::Draws;
pub use key::{Key, Stream, draw};
pub use permutation::Permutation;
