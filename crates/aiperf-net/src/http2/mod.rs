//! HTTP/2: many requests on one connection, each on a stream of its own.
//!
//! A connection has a task that reads, writes and hands out; a request's task takes from its stream what is there. So a
//! request is not on the spot when its bytes are read, and must not stamp them: `tap` sits below HTTP and sees every frame as
//! it is read and written, and `book` notes for each stream what came of it, when, and when its request was out. What a stream
//! takes later, however late it is woken, has the stamps of the reads that brought it.
//!
//! `frames` knows the frames' heads and nothing else; all that HTTP/2 means is the `h2` crate's. `pool` shares connections
//! between requests up to the streams that the server allows on one.

mod book;
mod connection;
mod frames;
mod pool;
mod tap;

pub(crate) use book::StreamBook;
pub(crate) use connection::{Broken, Shared};
pub(crate) use pool::{Dropped, Lease, Pool};
