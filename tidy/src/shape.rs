//! The shape of types: fields of a struct, homes of a type's methods, and how often a crate uses one name.
//!
//! A type with methods in many files has no owner, and a reader has to open all of them to know its behaviour. Only
//! production code of `crates/` counts. Names are compared as text: an `impl` belongs to the type of that name in its own
//! file, else to the definition in its crate that shares the longest path with it.

use std::collections::{BTreeMap, BTreeSet};

use crate::ratchet::Ratchet;
use crate::source::{Source, Tree, is_test_only};
use syn::visit::{self, Visit};

const FIELDS_MAX: usize = 16;
const FILES_MAX: usize = 3;
const FOLDERS_MAX: usize = 1;
const NAMESAKES_MAX: usize = 3;

/// Reports each struct with too many fields.
pub fn wide_structs(tree: &Tree) -> Vec<String> {
    let mut ratchet = Ratchet::read("fields");
    for (source, types) in production(tree) {
        for definition in types.definitions {
            let name = format!("{}#{}", source.path, definition.name);
            ratchet.check(&name, definition.fields, FIELDS_MAX, "fields");
        }
    }
    ratchet.breaches()
}

/// Reports each type with inherent methods in too many files.
pub fn scattered_types(tree: &Tree) -> Vec<String> {
    let mut ratchet = Ratchet::read("files");
    for (name, files) in homes(tree) {
        ratchet.check(&name, files.len(), FILES_MAX, "files with methods");
    }
    ratchet.breaches()
}

/// Reports each type with inherent methods in several folders.
pub fn types_of_several_folders(tree: &Tree) -> Vec<String> {
    let mut ratchet = Ratchet::read("folders");
    for (name, files) in homes(tree) {
        ratchet.check(&name, folders(&files).len(), FOLDERS_MAX, "folders with methods");
    }
    ratchet.breaches()
}

/// Reports each name that a crate gives to too many types.
pub fn namesakes(tree: &Tree) -> Vec<String> {
    let mut ratchet = Ratchet::read("names");
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (source, types) in production(tree) {
        for definition in types.definitions {
            *counts.entry(format!("{}#{}", crate_of(source), definition.name)).or_default() += 1;
        }
    }
    for (name, count) in counts {
        ratchet.check(&name, count, NAMESAKES_MAX, "types of this name");
    }
    ratchet.breaches()
}

/// A struct, enum or trait; the latter two have no fields.
struct Definition {
    name: String,
    fields: usize,
}

/// The types that a file defines and those to which it gives inherent methods.
#[derive(Default)]
struct Types {
    definitions: Vec<Definition>,
    impls: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_test_only(item) {
            return;
        }
        match item {
            syn::Item::Struct(item) => {
                let fields = if let syn::Fields::Named(named) = &item.fields { named.named.len() } else { 0 };
                self.definitions.push(Definition { name: item.ident.to_string(), fields });
            }
            syn::Item::Enum(item) => self.definitions.push(Definition { name: item.ident.to_string(), fields: 0 }),
            syn::Item::Trait(item) => self.definitions.push(Definition { name: item.ident.to_string(), fields: 0 }),
            syn::Item::Impl(item) if item.trait_.is_none() => {
                if let syn::Type::Path(path) = &*item.self_ty
                    && let Some(last) = path.path.segments.last()
                {
                    self.impls.insert(last.ident.to_string());
                }
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }
}

/// Returns the production files of `crates/`, each with its types.
fn production(tree: &Tree) -> Vec<(&Source, Types)> {
    let is_production = |source: &&Source| {
        let path = source.path.as_str();
        path.starts_with("crates/")
            && path.contains("/src/")
            && !path.contains("/simulation")
            && !source.is_test_module()
    };
    let mut files = Vec::new();
    for source in tree.sources.iter().filter(is_production) {
        let mut types = Types::default();
        types.visit_file(&source.syntax);
        files.push((source, types));
    }
    files
}

/// Returns for each type (`file that defines it#name`) the files with its inherent methods.
fn homes(tree: &Tree) -> BTreeMap<String, BTreeSet<String>> {
    let files = production(tree);
    let mut owners: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (source, types) in &files {
        for definition in &types.definitions {
            owners.entry((crate_of(source), &definition.name)).or_default().push(&source.path);
        }
    }
    let mut homes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (source, types) in &files {
        for name in &types.impls {
            let defined = owners.get(&(crate_of(source), name.as_str()));
            // A type of another crate, or one that a macro defines.
            let Some(owner) = defined.and_then(|paths| nearest(paths, &source.path)) else { continue };
            homes.entry(format!("{owner}#{name}")).or_default().insert(source.path.clone());
        }
    }
    homes
}

/// Returns the definition that shares the longest path with a file.
fn nearest<'a>(definitions: &[&'a str], file: &str) -> Option<&'a str> {
    let shared = |path: &str| path.bytes().zip(file.bytes()).take_while(|(one, other)| one == other).count();
    definitions.iter().copied().max_by_key(|path| (*path == file, shared(path)))
}

/// Returns the folders of these files. `name.rs` beside a folder `name/` with another home counts as part of that folder.
fn folders(files: &BTreeSet<String>) -> BTreeSet<&str> {
    let parent = |path: &'_ str| path.rfind('/').unwrap_or(0);
    let parents: BTreeSet<&str> = files.iter().map(|path| &path[..parent(path)]).collect();
    let folder = |path: &'_ String| {
        let stem = path.trim_end_matches(".rs");
        if parents.contains(stem) { stem.len() } else { parent(path) }
    };
    files.iter().map(|path| &path[..folder(path)]).collect()
}

/// Returns the name of a file's crate.
fn crate_of(source: &Source) -> &str {
    source.path.split('/').nth(1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{folders, homes};
    use crate::source::{Tree, parsed};
    use std::collections::BTreeSet;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let sources = files.iter().map(|(path, text)| parsed(((*path).to_owned(), (*text).to_owned()))).collect();
        Tree::of(sources, vec![files[0].0.to_owned()])
    }

    #[test]
    fn methods_count_for_the_nearest_type_of_their_name() {
        let tree = tree(&[
            ("crates/c/src/lib.rs", "mod a; mod b;"),
            ("crates/c/src/a/mod.rs", "mod more; pub struct State; impl State {}"),
            ("crates/c/src/a/more.rs", "impl super::State { fn f() {} } impl Clone for State {}"),
            ("crates/c/src/b.rs", "struct State; impl State {} impl<T> Vec<T> {} #[cfg(test)] impl Other {}"),
        ]);
        let found: Vec<(String, usize)> = homes(&tree).into_iter().map(|(name, files)| (name, files.len())).collect();
        assert_eq!(found, [("crates/c/src/a/mod.rs#State".to_owned(), 2), ("crates/c/src/b.rs#State".to_owned(), 1)]);
    }

    #[test]
    fn a_file_beside_the_folder_of_its_name_is_in_that_folder() {
        let files = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<BTreeSet<String>>();
        assert_eq!(folders(&files(&["s/a.rs", "s/a/x.rs"])).len(), 1);
        assert_eq!(folders(&files(&["s/a.rs", "s/b.rs"])).len(), 1);
        assert_eq!(folders(&files(&["s/a/mod.rs", "s/a/b/x.rs"])).len(), 2);
    }
}
