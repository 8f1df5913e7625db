//! Documents name files that exist: a path in backticks that begins at a folder of the repository leads to a file or a folder.
//!
//! A reader follows such paths, and a move of a file does not change them. Patterns (`*`, `{a,b}`) and names in capitals,
//! which stand for others, are not paths. The changelog is exempt, because it tells of the past.

use crate::source::{texts, workspace_root};

/// Folders at the root of the repository.
const ROOTS: [&str; 8] = ["crates/", "tests/", "xtask/", "tidy/", "docs/", "bench/", "packaging/", "fuzz/"];

/// Reports each path in a document that leads nowhere.
pub fn dead_paths() -> Vec<String> {
    let root = workspace_root();
    let mut breaches = Vec::new();
    for (document, text) in texts() {
        if document.ends_with(".md") && document != "CHANGELOG.md" {
            let missing = paths_in(&text).filter(|path| !root.join(path).exists());
            breaches.extend(missing.map(|path| format!("{document}: {path}")));
        }
    }
    breaches
}

/// Returns the paths of the repository that stand in backticks.
fn paths_in(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    quoted.filter(|words| {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "/._-".contains(c);
        ROOTS.iter().any(|root| words.starts_with(root)) && words.chars().all(is_plain)
    })
}

#[cfg(test)]
mod tests {
    use super::paths_in;

    #[test]
    fn paths_are_found_in_backticks() {
        let text =
            "see `tests/main.rs`, `tests/NAME.rs`, tests/other.rs and\n`cargo test` in `docs/` or `crates/*/src`";
        assert_eq!(paths_in(text).collect::<Vec<_>>(), ["tests/main.rs", "docs/"]);
    }
}
