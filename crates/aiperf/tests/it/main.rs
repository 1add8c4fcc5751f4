//! The real binary against real sockets: the simulated server and scripted bad servers over loopback.

mod bad_input;
mod bad_lengths;
mod bad_load;
mod bad_servers;
mod connections;
mod docs;
mod doctor;
mod endpoints;
mod explain;
mod files;
mod goodput;
mod hub;
mod kills;
mod lengths;
mod licences;
mod load;
mod markers;
mod pacing;
mod rebuilt;
mod regressions;
mod rendered;
mod sessions;
mod support;
mod tokenizer;
mod urls;
mod workloads;
