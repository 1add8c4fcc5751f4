//! What the binary is made of: licences that may be shipped, and no C but ring's.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Licences that ask for no more than a notice.
const ALLOWED: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    // Of a crate that WebAssembly alone would build; it asks for nothing at all.
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// A licence that binds the files it is on and nothing around them; used unchanged, they ask for no more than a notice either.
/// Each such crate is named, so that one more is a decision.
const FILE_BOUND: [(&str, &str); 1] = [("colored", "MPL-2.0")];

/// Bindings to C libraries that have a Rust counterpart here.
const BANNED: [&str; 6] = ["aws-lc-sys", "native-tls", "onig_sys", "openssl-sys", "pcre2-sys", "zstd-sys"];

/// Crates by which a build script compiles or finds C.
const C_BUILDERS: [&str; 5] = ["bindgen", "cc", "cmake", "pkg-config", "vcpkg"];

/// The packages and how they depend on each other, as cargo resolved them for this machine.
struct Tree {
    packages: BTreeMap<String, Value>,
    nodes: BTreeMap<String, Value>,
    roots: BTreeSet<String>,
}

fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(args)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

impl Tree {
    fn read() -> Self {
        // Packages of other platforms need not be on this machine.
        let version = cargo(&["-vV"]);
        let host = version.lines().find_map(|l| l.strip_prefix("host: ")).expect("cargo tells its host");
        let args = ["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host];
        let mut all: Value = serde_json::from_str(&cargo(&args)).expect("JSON");
        let by_id = |list: Value| -> BTreeMap<String, Value> {
            let Value::Array(list) = list else { panic!("a list") };
            list.into_iter().map(|v| (v["id"].as_str().expect("an id").to_owned(), v)).collect()
        };
        let roots = all["workspace_default_members"].as_array().expect("a list");
        let roots = roots.iter().map(|id| id.as_str().expect("an id").to_owned()).collect();
        let nodes = by_id(all["resolve"]["nodes"].take());
        Self { packages: by_id(all["packages"].take()), nodes, roots }
    }

    fn name<'a>(&'a self, id: &str) -> &'a str {
        self.packages[id]["name"].as_str().expect("a name")
    }

    /// Ids of what package `id` depends on in one of `kinds` (`None` is an ordinary dependency).
    fn needs<'a>(&'a self, id: &str, kinds: &'a [Option<&'a str>]) -> impl Iterator<Item = &'a str> {
        self.nodes[id]["deps"].as_array().expect("a list").iter().filter_map(move |dep| {
            let of_kind = |k: &Value| kinds.contains(&k["kind"].as_str());
            let wanted = dep["dep_kinds"].as_array().expect("a list").iter().any(of_kind);
            wanted.then(|| dep["pkg"].as_str().expect("an id"))
        })
    }

    /// Everything that is built for the binary: dependencies of all depths and what their build scripts use.
    fn built(&self) -> BTreeSet<String> {
        let mut open: Vec<String> = self.roots.iter().cloned().collect();
        let mut built = BTreeSet::new();
        while let Some(id) = open.pop() {
            open.extend(self.needs(&id, &[None, Some("build")]).map(str::to_owned));
            if !built.insert(id) {
                open.retain(|o| !built.contains(o));
            }
        }
        built
    }
}

/// Whether `expression` can be met with licences of the list: OR needs one side, AND both.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    either(&words, &mut at) == Some(true) && at == words.len()
}

/// `None` when the words are no expression.
fn either(words: &[&str], at: &mut usize) -> Option<bool> {
    let mut met = both(words, at)?;
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= both(words, at)?;
    }
    Some(met)
}

fn both(words: &[&str], at: &mut usize) -> Option<bool> {
    let mut met = one(words, at)?;
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at)?;
    }
    Some(met)
}

fn one(words: &[&str], at: &mut usize) -> Option<bool> {
    let word = *words.get(*at)?;
    *at += 1;
    if word == "(" {
        let met = either(words, at)?;
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return closed.then_some(met);
    }
    if words.get(*at) == Some(&"WITH") {
        let name = format!("{word} WITH {}", words.get(*at + 1)?);
        *at += 2;
        return Some(ALLOWED.contains(&name.as_str()));
    }
    Some(ALLOWED.contains(&word))
}

#[test]
fn licence_expressions_are_read_as_they_bind() {
    for good in [
        "MIT",
        "MIT/Apache-2.0",
        "GPL-3.0 OR MIT",
        "(MIT OR GPL-3.0) AND ISC",
        "Apache-2.0 WITH LLVM-exception OR X",
    ] {
        assert!(is_allowed(good), "{good}");
    }
    for bad in
        ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT)", "GPL-3.0 WITH LLVM-exception", "MIT OR", "MIT MIT"]
    {
        assert!(!is_allowed(bad), "{bad}");
    }
}

#[test]
fn every_dependency_may_be_shipped() {
    let tree = Tree::read();
    assert!(tree.packages.len() > 50, "the whole tree is looked at");
    for package in tree.packages.values() {
        let name = package["name"].as_str().expect("a name");
        let licence = package["license"].as_str().unwrap_or("");
        let may = is_allowed(licence) || FILE_BOUND.contains(&(name, licence));
        assert!(may, "{name} is licensed under '{licence}'");
        assert!(!BANNED.contains(&name), "{name} is in the tree");
    }
}

#[test]
fn cryptography_and_the_allocator_are_the_only_c() {
    let tree = Tree::read();
    let compiling: BTreeSet<&str> = tree
        .built()
        .iter()
        .filter(|id| tree.needs(id, &[Some("build")]).any(|dep| C_BUILDERS.contains(&tree.name(dep))))
        .map(|id| tree.name(id))
        .collect();
    assert_eq!(compiling, BTreeSet::from(["libmimalloc-sys", "ring"]));
}
