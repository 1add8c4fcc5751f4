//! Puts the commit into `--version`, when there is a repository to ask.

use std::process::Command;

fn main() {
    let commit = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .output()
        .ok()
        .filter(|out| out.status.success())
        .and_then(|out| String::from_utf8(out.stdout).ok())
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty());
    let version = env!("CARGO_PKG_VERSION");
    let long = commit.map_or_else(|| version.to_owned(), |commit| format!("{version} ({commit})"));
    println!("cargo:rustc-env=AIPERF_LONG_VERSION={long}");
    println!("cargo:rerun-if-changed=build.rs");
    // The commit moves without any source file changing. A file that is not there (a source archive) makes cargo run this each
    // time, which costs nothing and notices a repository that appears.
    println!("cargo:rerun-if-changed=../../.git/HEAD");
    println!("cargo:rerun-if-changed=../../.git/logs/HEAD");
}
