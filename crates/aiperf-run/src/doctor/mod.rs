//! What this machine can do as a client, measured in some seconds against the simulated server.
//!
//! Each measurement is a run like any other, through the same composer, shards and reader, but without files. The server is a
//! process of its own: CPU time, memory and descriptors of the two then come apart by themselves, and only so is a figure the
//! client's own. [`examine`] asks the questions in order, `trial` answers one, `server` is the other process, `judge` says who
//! was the limit and what to do about it, and [`Examination`] is what is known in the end.

mod error;
mod examine;
mod figures;
mod judge;
mod machine;
mod server;
mod trial;

pub use error::DoctorError;
pub use examine::{Wish, examine};
pub use figures::{
    Cost, Descriptors, Examination, Lag, LeftOut, Limit, Machine, Peak, Ports, RateStep, StreamStep,
};
pub use server::serve;
