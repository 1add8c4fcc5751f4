//! Lays out the tables of the built-in encodings, so that the program uses them in place from its own read-only pages and
//! builds nothing when it starts.
//!
//! In: `data/NAME.tokens` (each token in order of its rank: one byte of length, then the bytes) and `data/classes.txt` (where
//! each run of characters of one class begins). Out, little-endian:
//! * `NAME.starts`: for each rank, a u32: where its bytes begin in `NAME.tokens`.
//! * `NAME.slots`: an open-addressing hash table of u32, linear probing; a slot is a rank and a piece of its hash.
//! * `NAME.pairs`: 65,536 u32: the rank of each token of two bytes, by those bytes; `u32::MAX` where there is none.
//! * `classes.bin`: 8,704 u16, the block of each 128 code points; then the blocks, a byte for each code point.

use std::collections::HashMap;
use std::path::Path;
use std::{env, fs};

#[path = "src/encoding/hash.rs"]
mod hash;

use hash::{EMPTY, ID_BITS, first_slot, slot_value};

/// Slots for each token, in tenths: 1.6 keeps a miss at three to four slots, which share a cache line.
const SLOTS_PER_TEN_TOKENS: usize = 16;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/encoding/hash.rs");
    println!("cargo::rerun-if-changed=data");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let out = Path::new(&out);
    for name in ["o200k_base", "cl100k_base"] {
        let tokens = fs::read(format!("data/{name}.tokens")).expect("the token file is part of the crate");
        encoding(name, &tokens, out);
    }
    let classes = fs::read_to_string("data/classes.txt").expect("the class file is part of the crate");
    fs::write(out.join("classes.bin"), class_table(&classes)).expect("OUT_DIR is writable");
}

fn encoding(name: &str, tokens: &[u8], out: &Path) {
    let mut starts: Vec<u32> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        starts.push(u32::try_from(at + 1).expect("token files are far below 4 GiB"));
        at += 1 + usize::from(tokens[at]);
    }
    assert_eq!(at, tokens.len(), "{name}: the last token is cut");
    assert!(starts.len() < 1 << ID_BITS, "{name}: too many tokens for a slot");

    let mut slots = vec![EMPTY; starts.len() * SLOTS_PER_TEN_TOKENS / 10];
    let mut pairs = vec![EMPTY; 1 << 16];
    for (id, &start) in starts.iter().enumerate() {
        let id = u32::try_from(id).expect("checked above");
        let start = start as usize;
        let bytes = &tokens[start..start + usize::from(tokens[start - 1])];
        let h = hash::hash(bytes);
        let mut slot = first_slot(h, slots.len());
        while slots[slot] != EMPTY {
            slot = if slot + 1 == slots.len() { 0 } else { slot + 1 };
        }
        slots[slot] = slot_value(h, id);
        if let [first, second] = bytes {
            pairs[usize::from(*first) << 8 | usize::from(*second)] = id;
        }
    }
    for (kind, table) in [("starts", starts), ("slots", slots), ("pairs", pairs)] {
        let bytes: Vec<u8> = table.iter().flat_map(|v| v.to_le_bytes()).collect();
        fs::write(out.join(format!("{name}.{kind}")), bytes).expect("OUT_DIR is writable");
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
