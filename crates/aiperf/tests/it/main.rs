//! The real binary against real sockets: the simulated server and scripted bad servers over loopback.

mod bad_input;
mod bad_servers;
mod files;
mod load;
mod support;
