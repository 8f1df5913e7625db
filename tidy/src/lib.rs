//! The tree keeps its own rules (STYLE.md), and this crate reports where it does not.
//!
//! It reads sources and never runs them, and it needs nothing of the workspace, so that a check compiles little. Sources are
//! read and parsed once, which takes longer than all rules together; each rule is a function that collects its breaches.
//! Lengths and circles go through a ratchet (`ratchet.txt`): a thing that is too long today is listed there with its size and
//! may only shrink; a line that is looser than the truth fails as well.

mod arrows;
mod documents;
mod folders;
mod handed_down;
mod manifests;
mod maps;
mod panics;
mod prose;
mod ratchet;
mod shape;
mod source;

use ratchet::Ratchet;
use source::{Source, Tree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

const FILE_LINES_MAX: usize = 500;
const TABLE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

/// The number of entries that a reader takes in at a glance.
const PAGE_ENTRIES_MAX: usize = 16;

/// The most columns of a comment line, which rustfmt does not wrap. A row of a table cannot be parted, and may have more.
const COMMENT_COLUMNS_MAX: usize = 130;

/// Folders that may have more entries: the entries are alike, so that a reader looks one up by its name instead of reading
/// all.
const FAMILIES: &[&str] = &[
    // The command table, one file a group of commands.
    "crates/wire/src/commands",
    // The code that runs the rows of the table: a file or folder for each group, and the code that several of them share.
    "crates/server/src/commands",
];

/// Files that are one table each: rows that a reader looks up, not code that is read from top to bottom.
const TABLES: &[&str] = &["crates/wire/src/commands/", "crates/server/src/config/table.rs"];

/// Files that need more lines than the limit for their one idea: the file, its limit, and the reason why it is not parted.
const LONG_FILES: &[(&str, usize, &str)] = &[(
    "crates/client/src/pipe/slot.rs",
    700,
    "one protocol of two ends and what passes between them: a check of the unsafe code of one has to see the other",
)];

/// Functions that are one table each: a `match` with an arm for every command.
const TABLE_FUNCTIONS: &[&str] = &["crates/server/src/commands/mod.rs#run"];

/// Names that do not describe their contents.
const BANNED_NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];

/// The crates of the workspace that each crate may name: the arrows of ARCHITECTURE.md.
const CRATE_ARROWS: &[(&str, &[&str])] = &[
    ("crates/wire", &[]),
    ("crates/cluster", &["sleeve-wire"]),
    ("crates/rings", &[]),
    ("crates/certificates", &[]),
    ("crates/store", &[]),
    ("crates/disk", &["sleeve-wire"]),
    (
        "crates/server",
        &["sleeve-wire", "sleeve-rings", "sleeve-certificates", "sleeve-store", "sleeve-disk", "sleeve-cluster"],
    ),
    ("crates/derive", &[]),
    ("crates/client", &["sleeve-wire", "sleeve-rings", "sleeve-certificates", "sleeve-server", "sleeve-derive"]),
    ("crates/cli", &["sleeve", "sleeve-server", "sleeve-store", "sleeve-wire", "sleeve-disk"]),
];

/// Returns the breaches of the tree: each rule that it breaks, and a line for each place.
pub fn breaches() -> String {
    let tree = Tree::read();
    let mut broken = String::new();
    for (rule, breaches) in RULES {
        let breaches = breaches(&tree);
        if !breaches.is_empty() {
            broken += &format!("{rule}:\n  {}\n", breaches.join("\n  "));
        }
    }
    broken
}

/// Lowers the lines of the ratchet for things that have shrunk, and returns how many it changed.
pub fn shrink_ratchet() -> usize {
    ratchet::shrink(&breaches())
}

/// The places of enums that other projects' programs match on: the client's crate, and the parts of the wire's that it passes
/// on.
const PUBLISHED: &[&str] = &["crates/client/src/", "crates/wire/src/frame.rs"];

/// The description of a rule, and the function that finds its breaches.
type Rule = (&'static str, fn(&Tree) -> Vec<String>);

const RULES: &[Rule] = &[
    ("a crate names only crates below it", crates_depend_downwards_only),
    ("a manifest lacks what a package registry asks for", |_| manifests::missing()),
    ("files of a crate use each other in a circle", files_use_only_files_below_them),
    ("folders of a crate use each other in a circle", folders_use_only_folders_below_them),
    ("a crate's map is not what the crate is", maps::breaches),
    ("a folder has too many entries to be read as one page", folders_fit_on_a_page),
    ("a file is too long", files_are_short),
    ("a function is too long", functions_are_short),
    ("no `mod` leads to this file", every_file_is_reached),
    ("a name says nothing", names_say_what_is_inside),
    ("a file opens with `//!`", files_open_with_their_design),
    ("production code does not panic on what it is given", foreign_bytes_never_panic),
    ("a published enum is not `#[non_exhaustive]`", published_enums_may_grow),
    ("time and chance are handed down below the session", handed_down::breaches),
    ("unsafe needs a `// SAFETY:` comment", unsafe_blocks_say_why_they_are_sound),
    ("a line of a comment is too long", comments_fit_beside_code),
    ("left undone", nothing_is_left_undone),
    ("a path of one machine", no_machine_is_named),
    ("a struct has too many fields", shape::wide_structs),
    ("a type's methods lie in too many files", shape::scattered_types),
    ("a type's methods lie in several folders", shape::types_of_several_folders),
    ("too many types of one name in a crate", shape::namesakes),
    ("comments use pronouns in place of nouns", prose::dialect_in_comments),
    ("a document names a file that does not exist", |_| documents::dead_paths()),
    ("a document uses pronouns in place of nouns", prose::dialect_in_documents),
    ("a doc comment begins with neither a verb nor the item's noun", prose::doc_comments_open_well),
    ("the name of a test is too long", prose::test_names_are_short),
];

fn crates_depend_downwards_only(_: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for (folder, allowed) in CRATE_ARROWS {
        for dependency in source::workspace_dependencies(folder) {
            if !allowed.contains(&dependency.as_str()) {
                breaches.push(format!("{folder} depends on {dependency}"));
            }
        }
    }
    breaches
}

fn files_use_only_files_below_them(tree: &Tree) -> Vec<String> {
    let mut ratchet = Ratchet::read("circle");
    for circle in arrows::circles(tree) {
        ratchet.check(&circle.name, circle.files, 1, &circle.description);
    }
    ratchet.breaches()
}

fn folders_use_only_folders_below_them(tree: &Tree) -> Vec<String> {
    let mut ratchet = Ratchet::read("rooms");
    for circle in folders::circles(tree) {
        ratchet.check(&circle.name, circle.files, 1, &circle.description);
    }
    ratchet.breaches()
}

fn folders_fit_on_a_page(tree: &Tree) -> Vec<String> {
    let mut ratchet = Ratchet::read("page");
    for (folder, entries) in folders::pages(tree) {
        let is_family = FAMILIES.contains(&folder.as_str());
        let limit = if is_family { usize::MAX } else { PAGE_ENTRIES_MAX };
        ratchet.check(&folder, entries, limit, "entries");
    }
    ratchet.breaches()
}

fn files_are_short(tree: &Tree) -> Vec<String> {
    let mut ratchet = Ratchet::read("file");
    for source in &tree.sources {
        let is_table = TABLES.iter().any(|table| source.path.starts_with(table));
        let exception = LONG_FILES.iter().find(|(path, ..)| *path == source.path).map(|&(_, lines, _)| lines);
        let limit = exception.unwrap_or(if is_table { TABLE_LINES_MAX } else { FILE_LINES_MAX });
        ratchet.check(&source.path, source.text.lines().count(), limit, "lines");
    }
    ratchet.breaches()
}

fn functions_are_short(tree: &Tree) -> Vec<String> {
    let mut ratchet = Ratchet::read("function");
    for source in &tree.sources {
        let mut lengths = Lengths { path: &source.path, ratchet: &mut ratchet };
        lengths.visit_file(&source.syntax);
    }
    ratchet.breaches()
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

fn every_file_is_reached(tree: &Tree) -> Vec<String> {
    let dead = tree.sources.iter().filter(|source| !tree.is_reached(&source.path));
    dead.map(|source| source.path.clone()).collect()
}

fn names_say_what_is_inside(tree: &Tree) -> Vec<String> {
    let says_nothing = |source: &&Source| {
        let words = source.path.trim_end_matches(".rs").split('/');
        words.into_iter().any(|word| BANNED_NAMES.contains(&word))
    };
    tree.sources.iter().filter(says_nothing).map(|s| s.path.clone()).collect()
}

fn files_open_with_their_design(tree: &Tree) -> Vec<String> {
    let opens = |source: &&Source| !source.text.starts_with("//!");
    tree.sources.iter().filter(opens).map(|s| s.path.clone()).collect()
}

fn foreign_bytes_never_panic(tree: &Tree) -> Vec<String> {
    let mut ratchet = Ratchet::read("panic");
    for source in &tree.sources {
        let found = panics::places(source);
        let places: Vec<String> = found.iter().map(|place| format!("{}: {}", place.line, place.what)).collect();
        ratchet.check(&source.path, found.len(), 0, &format!("places that panic ({})", places.join(", ")));
    }
    ratchet.breaches()
}

/// Checks lines instead of the parsed code, because several of those enums are written by macros.
fn published_enums_may_grow(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    let is_published = |path: &str| PUBLISHED.iter().any(|place| path.starts_with(place));
    for source in tree.sources.iter().filter(|source| is_published(&source.path)) {
        let lines: Vec<&str> = source.text.lines().map(str::trim_start).collect();
        for (index, _) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("pub enum ")) {
            let attributes = lines[..index].iter().rev().take_while(|line| line.starts_with('#'));
            if !attributes.into_iter().any(|line| *line == "#[non_exhaustive]") {
                breaches.push(format!("{}:{}", source.path, index + 1));
            }
        }
    }
    breaches
}

fn unsafe_blocks_say_why_they_are_sound(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for source in &tree.sources {
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
    breaches
}

fn comments_fit_beside_code(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for source in &tree.sources {
        for (index, line) in source.text.lines().enumerate() {
            let comment = line.trim_start().strip_prefix("//");
            let is_row = comment.is_some_and(|text| text.trim_start_matches(['/', '!', ' ']).starts_with('|'));
            let columns = line.chars().count();
            if comment.is_some() && !is_row && columns > COMMENT_COLUMNS_MAX {
                breaches.push(format!(
                    "{}:{}: {columns} columns, at most {COMMENT_COLUMNS_MAX}",
                    source.path,
                    index + 1
                ));
            }
        }
    }
    breaches
}

fn nothing_is_left_undone(_: &Tree) -> Vec<String> {
    // The words are put together here, so that this file does not break its own rule.
    let words = [
        concat!("to", "do!("),
        concat!("unimple", "mented!("),
        concat!("db", "g!("),
        concat!("allow(dead", "_code)"),
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        // The words at the beginning of a sentence and within one.
        concat!("ee the file", "'s head"),
    ];
    lines_with(&words, |path| path.ends_with(".rs"))
}

fn no_machine_is_named(_: &Tree) -> Vec<String> {
    let words = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("/opt/", "peers"),
        concat!("/tmp/", "brief"),
        concat!("/tmp/", "target"),
    ];
    lines_with(&words, |_| true)
}

/// Returns `path:line` of each line of the tree's text files that has one of the words.
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
