//! The tests that `docs/design/length-coverage.md` names are there, and every row names one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Paths of tests in a text, as they stand between back ticks.
fn tests_in(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).filter(|code| code.contains("::")).collect()
}

/// Where a test of this path can stand: the file of its module, without a `tests` that is inside the file.
fn sources(path: &str) -> Vec<PathBuf> {
    let mut parts: Vec<&str> = path.split("::").collect();
    parts.pop();
    let folder = root().join("crates").join(parts.remove(0).replace('_', "-"));
    let inside = parts.last() == Some(&"tests");
    let outer = &parts[..parts.len() - usize::from(inside)];
    [&parts[..], outer]
        .into_iter()
        .filter(|parts| !parts.is_empty())
        .map(|parts| parts.join("/"))
        .flat_map(|at| {
            [format!("src/{at}.rs"), format!("src/{at}/mod.rs"), format!("tests/{at}.rs")]
                .map(|at| folder.join(at))
        })
        .collect()
}

/// Whether a test is there.
fn exists(path: &str) -> bool {
    let Some((_, name)) = path.rsplit_once("::") else { return false };
    let function = format!("fn {name}(");
    sources(path).into_iter().filter_map(|file| std::fs::read_to_string(file).ok()).any(|text| {
        // An attribute before it: a test, or one of `proptest!`, which has the same.
        text.match_indices(&function).any(|(at, _)| {
            let attributes =
                text[..at].rsplit('\n').skip(1).map(str::trim).take_while(|line| line.starts_with('#'));
            attributes.into_iter().any(|line| line == "#[test]")
        })
    })
}

#[test]
fn every_test_of_the_page_exists() {
    let page = std::fs::read_to_string(root().join("docs/design/length-coverage.md")).expect("the page");
    let named: BTreeSet<&str> = tests_in(&page).into_iter().collect();
    let missing: Vec<_> = named.iter().filter(|path| !exists(path)).collect();
    assert!(missing.is_empty(), "the page names tests that are not there: {missing:#?}");
    assert!(named.len() > 50, "{}", named.len());
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.ends_with("| test |"));
    let bare: Vec<_> = rows.filter(|row| tests_in(row).is_empty()).collect();
    assert!(bare.is_empty(), "rows without a test: {bare:#?}");
}

#[test]
fn a_test_that_is_not_there_is_found_out() {
    assert!(exists("aiperf_data::coverage::every_test_of_the_page_exists"));
    assert!(exists("aiperf_data::spread::tests::windows_are_the_tools_own"));
    // Another name, another module, and a function that is no test.
    assert!(!exists("aiperf_data::spread::tests::windows_are_the_tools"));
    assert!(!exists("aiperf_data::cut::tests::windows_are_the_tools_own"));
    assert!(!exists("aiperf_data::spread::tests::mean"));
    assert!(!exists("nothing"));
}
