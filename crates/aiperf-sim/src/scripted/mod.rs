//! Scripted servers: byte for byte what a test wants on the wire, at the moment it wants it, and what the client sent.
//!
//! A [`ScriptedServer`] reads one request, plays the [`Reply`] for its number, and so on. A reply is a list of [`Step`]s:
//! bytes, pauses, waiting for a [`Signal`] of the test, closing, resetting. Each connection has its own thread, so a script
//! may block. Nothing depends on time unless the script says so.
//!
//! ```
//! use std::io::{Read, Write};
//! use aiperf_sim::scripted::{Reply, ScriptedServer};
//!
//! let server = ScriptedServer::start(vec![Reply::json(503, "{}"), Reply::new().reset()])?;
//! let mut client = std::net::TcpStream::connect(server.addr())?;
//! client.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")?;
//! let mut first = [0; 12];
//! client.read_exact(&mut first)?;
//! assert_eq!(&first, b"HTTP/1.1 503");
//! assert_eq!(server.wait_requests(1)[0].path, "/health");
//! # Ok::<(), std::io::Error>(())
//! ```

mod reply;
mod server;
mod signal;

pub use reply::{Reply, Step, chat_chunk, http_chunk};
pub use server::{Order, Script, ScriptedServer, SeenRequest};
pub use signal::Signal;
