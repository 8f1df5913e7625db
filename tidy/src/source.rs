//! The workspace's files, parsed, and which of them a `mod` leads to.
//!
//! A package's roots are the files that cargo would take as such; from each, `mod name;` is followed as the compiler
//! does. Nothing is expanded: a module that only a macro declares would not be found, and none is.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold no source of this project.
const SKIPPED: &[&str] = &["target", ".git", ".peers", "corpus", "artifacts", "node_modules", "seeds"];

/// The endings of the files that the rule about paths of one machine reads.
const TEXT_ENDINGS: &[&str] =
    &["rs", "md", "toml", "txt", "sh", "json", "py", "js", "mjs", "go", "java", "xml", "conf"];

/// A Rust file.
pub struct Source {
    /// The path from the workspace's root, with `/`.
    pub path: String,
    /// The text of the file.
    pub text: String,
    /// The parsed file.
    pub syntax: syn::File,
    test_module: OnceCell<bool>,
}

impl Source {
    /// Returns whether only a `#[cfg(test)] mod` leads here.
    pub fn is_test_module(&self) -> bool {
        self.test_module.get().copied().unwrap_or(false)
    }
}

/// A library or program: its modules by path, each with the file that holds it.
#[derive(Default)]
pub struct Unit {
    /// The file of each module, by the module's path; `[]` is the root. A module written inline has its parent's file.
    pub modules: BTreeMap<Vec<String>, String>,
}

/// The files of the workspace.
pub struct Tree {
    /// The Rust files, by path.
    pub sources: Vec<Source>,
    /// The libraries and programs.
    pub units: Vec<Unit>,
    reached: BTreeSet<String>,
}

impl Tree {
    /// Reads and parses everything.
    pub fn read() -> Tree {
        let sources: Vec<Source> = texts().into_iter().filter(|(path, _)| path.ends_with(".rs")).map(parsed).collect();
        let roots = roots(&sources);
        Tree::of(sources, roots)
    }

    /// Follows the modules of these sources from these roots.
    pub fn of(sources: Vec<Source>, roots: Vec<String>) -> Tree {
        let mut tree = Tree { sources, units: Vec::new(), reached: BTreeSet::new() };
        for root in roots {
            let mut unit = Unit::default();
            let folder = parent(&root);
            tree.follow(&mut unit, &root, &folder, &[], false);
            tree.units.push(unit);
        }
        tree
    }

    /// Returns the file at this path.
    pub fn source(&self, path: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.path == path)
    }

    /// Returns whether a `mod` or cargo leads to it.
    pub fn is_reached(&self, path: &str) -> bool {
        self.reached.contains(path)
    }

    fn follow(&mut self, unit: &mut Unit, path: &str, folder: &str, module: &[String], test_only: bool) {
        self.reached.insert(path.to_owned());
        unit.modules.insert(module.to_vec(), path.to_owned());
        let Some(source) = self.source(path) else { return };
        let _ = source.test_module.set(test_only);
        let declared = declared_modules(&source.syntax.items, folder, module, test_only);
        for child in declared {
            let Some(file) = child.candidates.iter().find(|file| self.source(file).is_some()).cloned() else {
                unit.modules.insert(child.module, path.to_owned());
                continue;
            };
            let is_folder_file = file.ends_with("/mod.rs") || child.by_path;
            let below = if is_folder_file { parent(&file) } else { file.trim_end_matches(".rs").to_owned() };
            self.follow(unit, &file, &below, &child.module, child.test_only);
        }
    }
}

/// Parses a file with its path and text.
///
/// # Panics
/// When it is no Rust.
pub fn parsed((path, text): (String, String)) -> Source {
    let syntax = syn::parse_file(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    Source { path, text, syntax, test_module: OnceCell::new() }
}

/// A `mod` item as it is written; an inline one has no candidate files.
struct Declared {
    module: Vec<String>,
    candidates: Vec<String>,
    by_path: bool,
    test_only: bool,
}

fn declared_modules(items: &[syn::Item], folder: &str, module: &[String], test_only: bool) -> Vec<Declared> {
    let mut declared = Vec::new();
    for item in items {
        let syn::Item::Mod(child) = item else { continue };
        let name = child.ident.to_string();
        let test_only = test_only || is_test_only(item);
        let path = [module, std::slice::from_ref(&name)].concat();
        let below = format!("{folder}/{name}");
        if let Some((_, items)) = &child.content {
            declared.push(Declared { module: path.clone(), candidates: Vec::new(), by_path: false, test_only });
            declared.extend(declared_modules(items, &below, &path, test_only));
            continue;
        }
        let by_path = child.attrs.iter().find_map(path_attribute);
        let candidates = match &by_path {
            Some(file) => vec![format!("{folder}/{file}")],
            None => vec![format!("{below}.rs"), format!("{below}/mod.rs")],
        };
        declared.push(Declared { module: path, candidates, by_path: by_path.is_some(), test_only });
    }
    declared
}

/// Returns the text of `#[path = "…"]`.
fn path_attribute(attribute: &syn::Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else { return None };
    pair.path.is_ident("path").then(|| text.value())
}

/// Returns whether an item exists for tests only: `#[test]`, `#[cfg(test)]` and the like.
pub fn is_test_only(item: &syn::Item) -> bool {
    let attributes = match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) => {
            let words = list.tokens.to_string();
            list.path.is_ident("cfg") && words.split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
        }
        syn::Meta::NameValue(_) => false,
    })
}

/// Returns the files that cargo takes as roots: by place, or by a `path` in the manifest.
fn roots(sources: &[Source]) -> Vec<String> {
    let mut roots = Vec::new();
    for manifest in files().into_iter().filter(|path| path.file_name().is_some_and(|name| name == "Cargo.toml")) {
        let folder = relative(manifest.parent().unwrap_or(Path::new("")));
        let text = fs::read_to_string(&manifest).unwrap_or_default();
        for line in text.lines() {
            if let Some(path) = line.trim().strip_prefix("path = \"").and_then(|rest| rest.strip_suffix(".rs\"")) {
                roots.push(format!("{folder}/{path}.rs"));
            }
        }
        for source in sources {
            let Some(rest) = source.path.strip_prefix(&format!("{folder}/")) else { continue };
            let place = rest.rsplit_once('/').map_or("", |(place, _)| place);
            let by_place = ["src/bin", "examples", "benches"].contains(&place)
                || place == "tests" && !text.contains("autotests = false");
            let by_name = ["src/lib.rs", "src/main.rs", "build.rs"].contains(&rest);
            let is_example = place.starts_with("examples/") && rest.ends_with("/main.rs");
            if by_name || is_example || by_place {
                roots.push(source.path.clone());
            }
        }
    }
    roots.sort();
    roots.dedup();
    roots
}

/// Returns the workspace's own crates that a crate's manifest depends on, development aside.
pub fn workspace_dependencies(folder: &str) -> Vec<String> {
    let manifest = workspace_root().join(folder).join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap_or_else(|error| panic!("{folder}/Cargo.toml: {error}"));
    let mut section = String::new();
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line.to_owned();
        } else if section.ends_with("dependencies]") && !section.contains("dev-") {
            let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
            if name.starts_with("sleeve") {
                found.push(name.to_owned());
            }
        }
    }
    found
}

/// Returns where the tree stands.
pub fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace's root")
}

/// Returns every text file of the tree as (path, content), by path.
pub fn texts() -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for path in files() {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let wanted = TEXT_ENDINGS.contains(&ending) || path.ends_with(".ci/run");
        if wanted && let Ok(text) = fs::read_to_string(&path) {
            texts.push((relative(&path), text));
        }
    }
    texts.sort();
    texts
}

/// Returns every file of the workspace outside the skipped folders.
fn files() -> Vec<PathBuf> {
    let mut folders = vec![workspace_root().to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let skipped = entry.file_name().to_str().is_some_and(|name| SKIPPED.contains(&name));
            if path.is_dir() && !skipped {
                folders.push(path);
            } else if path.is_file() {
                files.push(path);
            }
        }
    }
    files
}

fn relative(path: &Path) -> String {
    let path = path.strip_prefix(workspace_root()).unwrap_or(path);
    path.to_string_lossy().replace('\\', "/")
}

fn parent(path: &str) -> String {
    path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned())
}
