//! Lays out the tables of the built-in encodings, so that the program uses them in place from its own read-only pages and
//! builds nothing when it starts.
//!
//! In: `data/NAME.tokens` (each token in order of its rank: one byte of length, then the bytes) and `data/classes.txt` (where
//! each run of characters of one class begins). Out, little-endian:
//! * `NAME.starts`, `NAME.slots`, `NAME.pairs`: the tables of `src/encoding/layout.rs`.
//! * `classes.bin`: 8,704 u16, the block of each 128 code points; then the blocks, a byte for each code point.

use std::collections::HashMap;
use std::path::Path;
use std::{env, fs};

#[path = "src/encoding/hash.rs"]
mod hash;

#[path = "src/encoding/layout.rs"]
mod layout;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/encoding/hash.rs");
    println!("cargo::rerun-if-changed=src/encoding/layout.rs");
    println!("cargo::rerun-if-changed=data");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let out = Path::new(&out);
    for name in ["o200k_base", "cl100k_base", "p50k_base"] {
        let tokens = fs::read(format!("data/{name}.tokens")).expect("the token file is part of the crate");
        encoding(name, &tokens, out);
    }
    let classes = fs::read_to_string("data/classes.txt").expect("the class file is part of the crate");
    fs::write(out.join("classes.bin"), class_table(&classes)).expect("OUT_DIR is writable");
}

fn encoding(name: &str, tokens: &[u8], out: &Path) {
    let tables = layout::layout(tokens).expect("the token file is whole");
    for (kind, table) in [("starts", tables.starts), ("slots", tables.slots), ("pairs", tables.pairs)] {
        fs::write(out.join(format!("{name}.{kind}")), table.as_flattened()).expect("OUT_DIR is writable");
    }
}

fn class_table(text: &str) -> Vec<u8> {
    const BLOCK: usize = 128;
    let mut classes = vec![0u8; 0x11_0000];
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let (start, class) = line.split_once(' ').expect("a code point and a class");
        let start = usize::from_str_radix(start, 16).expect("a code point in hexadecimal");
        // One bit for each class, as `classes.rs` names them.
        let bit = match class {
            "O" => 0,
            "U" => 1,
            "l" => 2,
            "B" => 4,
            "M" => 8,
            "N" => 16,
            "S" => 32,
            "L" => 64,
            other => panic!("no such class: {other}"),
        };
        classes[start..].fill(bit);
    }
    let mut blocks: Vec<&[u8]> = Vec::new();
    let mut known: HashMap<&[u8], u16> = HashMap::new();
    let mut table: Vec<u8> = Vec::new();
    for block in classes.chunks(BLOCK) {
        let index = *known.entry(block).or_insert_with(|| {
            blocks.push(block);
            u16::try_from(blocks.len() - 1).expect("fewer blocks than code points")
        });
        table.extend(index.to_le_bytes());
    }
    table.extend(blocks.concat());
    table
}
