//! The machines of this crate, driven through whole phases in virtual time.

mod conformance;
mod shards;
mod world;
