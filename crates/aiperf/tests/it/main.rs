//! The real binary against real sockets: the simulated server and scripted bad servers over loopback.

mod bad_input;
mod bad_lengths;
mod bad_load;
mod bad_servers;
mod docs;
mod doctor;
mod endpoints;
mod files;
mod hub;
mod lengths;
mod licences;
mod load;
mod markers;
mod rebuilt;
mod regressions;
mod rendered;
mod sessions;
mod support;
mod tokenizer;
mod workloads;
