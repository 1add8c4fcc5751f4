//! Everything between a request's meaning and the bytes on a socket, in two halves that do not know each other's insides:
//!
//! - **Endpoints** are pure. An [`Endpoint`] writes the JSON body of a turn, and later reads the answer out of the bytes
//!   and read stamps of an [`Exchange`](aiperf_core::exchange::Exchange). [`sse`] frames server-sent events for it.
//! - **Transport** is async and thin. A [`Client`] belongs to one shard, owns its connections, and turns an [`Outgoing`]
//!   request into an `Exchange`: bytes, stamps taken where `read` returned, and how it ended. It parses no content.
//!
//! A request that fails is data in the `Exchange` or the [`Answer`]; [`NetError`] is only for what makes a run impossible.

mod answer_reader;
mod client;
mod connection;
mod dial;
mod endpoint;
mod error;
mod failure;
mod headers;
mod http2;
mod known;
mod limits;
mod outgoing;
mod proxy;
mod resolve;
mod seen;
pub mod sse;
mod tls;
mod usage;
mod wire;

pub use client::{Client, Counters};
pub use dial::dial;
pub use endpoint::{Answer, AnswerChunk, Call, ChoiceText, EncodeError, Endpoint, Familiar, Request};
pub use error::NetError;
pub use failure::{DESCRIPTOR_SHORTAGE, PORT_SHORTAGE};
pub use known::KnownSecrets;
pub use outgoing::{Outgoing, Sticky};
pub use resolve::ServerAddress;
pub use tls::{tls_config, verifying_tls_config};
pub use usage::read_usage;

#[cfg(test)]
mod loopback_tests;
