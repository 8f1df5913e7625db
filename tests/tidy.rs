//! The tree holds to its own rules (STYLE.md), and this test says where it does not.
//!
//! It reads sources, it never runs them: each rule is one test that collects every breach and prints one line for
//! each. Lengths and circles go through a ratchet (`tidy/ratchet.txt`): what is too long today is listed there with
//! its size and may only shrink; a line that is looser than the truth fails as well.

#[path = "tidy/arrows.rs"]
mod arrows;
#[path = "tidy/panics.rs"]
mod panics;
#[path = "tidy/ratchet.rs"]
mod ratchet;
#[path = "tidy/source.rs"]
mod source;

use ratchet::Ratchet;
use source::{Source, Tree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

const FILE_LINES_MAX: usize = 500;
const TABLE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

/// Files that are one table each: rows that a reader looks up, not code that he reads from top to bottom.
const TABLES: &[&str] = &["crates/wire/src/commands/", "crates/server/src/config/table.rs"];

/// Functions that are one table each: a `match` with an arm for every command.
const TABLE_FUNCTIONS: &[&str] = &["crates/server/src/commands/mod.rs#run"];

/// Names that say nothing about what is inside.
const BANNED_NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];

/// Which crate of the workspace may name which: the arrows of ARCHITECTURE.md.
const CRATE_ARROWS: &[(&str, &[&str])] = &[
    ("crates/wire", &[]),
    ("crates/store", &[]),
    ("crates/server", &["sleeve-wire", "sleeve-store"]),
    ("crates/client", &["sleeve-wire", "sleeve-server"]),
    ("crates/cli", &["sleeve", "sleeve-server", "sleeve-wire"]),
];

/// Fails with one line for each breach.
fn report(rule: &str, breaches: Vec<String>) {
    assert!(breaches.is_empty(), "{rule}\n  {}\n", breaches.join("\n  "));
}

#[test]
fn crates_depend_downwards_only() {
    let mut breaches = Vec::new();
    for (folder, allowed) in CRATE_ARROWS {
        for dependency in source::workspace_dependencies(folder) {
            if !allowed.contains(&dependency.as_str()) {
                breaches.push(format!("{folder} depends on {dependency}"));
            }
        }
    }
    report("a crate names only crates below it:", breaches);
}

#[test]
fn files_use_only_files_below_them() {
    let tree = Tree::read();
    let mut ratchet = Ratchet::read("circle");
    for circle in arrows::circles(&tree) {
        ratchet.check(&circle.name, circle.files, 1, &circle.description);
    }
    report("files of a crate use each other in a circle:", ratchet.breaches());
}

#[test]
fn files_are_short() {
    let mut ratchet = Ratchet::read("file");
    for source in &Tree::read().sources {
        let is_table = TABLES.iter().any(|table| source.path.starts_with(table));
        let limit = if is_table { TABLE_LINES_MAX } else { FILE_LINES_MAX };
        ratchet.check(&source.path, source.text.lines().count(), limit, "lines");
    }
    report("a file is too long:", ratchet.breaches());
}

#[test]
fn functions_are_short() {
    let mut ratchet = Ratchet::read("function");
    for source in &Tree::read().sources {
        let mut lengths = Lengths { path: &source.path, ratchet: &mut ratchet };
        lengths.visit_file(&source.syntax);
    }
    report("a function is too long:", ratchet.breaches());
}

struct Lengths<'a> {
    path: &'a str,
    ratchet: &'a mut Ratchet,
}

impl Lengths<'_> {
    fn check(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let lines = block.span().end().line - signature.span().start().line + 1;
        let name = format!("{}#{}", self.path, signature.ident);
        let is_table = TABLE_FUNCTIONS.contains(&name.as_str());
        let limit = if is_table { TABLE_LINES_MAX } else { FUNCTION_LINES_MAX };
        self.ratchet.check(&name, lines, limit, "lines");
    }
}

impl<'ast> Visit<'ast> for Lengths<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.check(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.check(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.check(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[test]
fn every_file_is_reached() {
    let tree = Tree::read();
    let dead = tree.sources.iter().filter(|source| !tree.is_reached(&source.path));
    report("no `mod` leads to this file:", dead.map(|source| source.path.clone()).collect());
}

#[test]
fn names_say_what_is_inside() {
    let tree = Tree::read();
    let says_nothing = |source: &&Source| {
        let words = source.path.trim_end_matches(".rs").split('/');
        words.into_iter().any(|word| BANNED_NAMES.contains(&word))
    };
    report("a name says nothing:", tree.sources.iter().filter(says_nothing).map(|s| s.path.clone()).collect());
}

#[test]
fn files_open_with_their_design() {
    let tree = Tree::read();
    let opens = |source: &&Source| !source.text.starts_with("//!");
    report("a file opens with `//!`:", tree.sources.iter().filter(opens).map(|s| s.path.clone()).collect());
}

#[test]
fn foreign_bytes_never_panic() {
    let mut ratchet = Ratchet::read("panic");
    for source in &Tree::read().sources {
        let found = panics::places(source);
        let places: Vec<String> = found.iter().map(|place| format!("{}: {}", place.line, place.what)).collect();
        ratchet.check(&source.path, found.len(), 0, &format!("places that panic ({})", places.join(", ")));
    }
    report("production code does not panic on what it is given:", ratchet.breaches());
}

#[test]
fn unsafe_blocks_say_why_they_are_sound() {
    let mut breaches = Vec::new();
    for source in &Tree::read().sources {
        let lines: Vec<&str> = source.text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let opens = ["unsafe {", "unsafe impl"].iter().any(|word| code.contains(word) && !code.contains('"'));
            // A comment of several lines and the head of a statement may stand between.
            let before = &lines[index.saturating_sub(8)..=index];
            if opens && !before.iter().any(|line| line.contains("SAFETY:")) {
                breaches.push(format!("{}:{}", source.path, index + 1));
            }
        }
    }
    report("unsafe needs a `// SAFETY:` comment:", breaches);
}

#[test]
fn nothing_is_left_undone() {
    // Put together here, so that this file does not break its own rule.
    let words = [
        concat!("to", "do!("),
        concat!("unimple", "mented!("),
        concat!("db", "g!("),
        concat!("allow(dead", "_code)"),
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
    ];
    report("left undone:", lines_with(&words, |path| path.ends_with(".rs")));
}

#[test]
fn no_machine_is_named() {
    let words = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("/opt/", "peers"),
        concat!("/tmp/", "brief"),
        concat!("/tmp/", "target"),
    ];
    report("a path of one machine:", lines_with(&words, |_| true));
}

/// `path:line` of each line of the tree's text files that has one of the words.
fn lines_with(words: &[&str], wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in source::texts() {
        if !wanted(&path) {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            if let Some(word) = words.iter().find(|word| line.contains(**word)) {
                found.push(format!("{path}:{}: {word}", index + 1));
            }
        }
    }
    found
}
