//! Folders keep the rules of files: their arrows point down, and a reader can take in the entries of one.
//!
//! An entry of a folder is a file, or a folder with everything below it; `name.rs` and `name/` are one entry. Between two
//! entries of the same folder there is an arrow when some file of the one uses some file of the other.

use std::collections::{BTreeMap, BTreeSet};

use crate::arrows::{Arrows, Circle, arrows_of, circles_of};
use crate::source::Tree;

/// Returns the circles between the entries of every folder. A circle of files is reported as such and not here again.
pub fn circles(tree: &Tree) -> Vec<Circle> {
    let mut circles = Vec::new();
    for unit in &tree.units {
        for arrows in lifted(&arrows_of(tree, unit)).values() {
            circles.extend(circles_of(arrows).into_iter().filter(|circle| circle.name.split('+').any(is_folder(tree))));
        }
    }
    circles
}

/// Returns the number of entries of each folder of a crate's sources, without the file that is the folder's own first page
/// (`lib.rs`, `mod.rs`).
pub fn pages(tree: &Tree) -> Vec<(String, usize)> {
    let mut entries: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in tree.sources.iter().filter(|source| source.path.contains("/src/") && !source.is_test_module()) {
        for (folder, entry) in levels(&source.path) {
            if entry.ends_with(".rs") {
                continue;
            }
            if folder.ends_with("/src") || folder.contains("/src/") {
                entries.entry(folder.to_owned()).or_default().insert(entry);
            }
        }
    }
    entries.into_iter().map(|(folder, entries)| (folder, entries.len())).collect()
}

fn is_folder(tree: &Tree) -> impl Fn(&str) -> bool {
    |entry| tree.sources.iter().any(|source| source.path.strip_prefix(entry).is_some_and(|rest| rest.starts_with('/')))
}

/// Returns for each folder the arrows between its entries.
pub fn lifted(arrows: &Arrows) -> BTreeMap<String, Arrows> {
    let mut by_folder: BTreeMap<String, Arrows> = BTreeMap::new();
    for (file, targets) in arrows {
        for (target, path) in targets {
            let Some((folder, from, to)) = parting(file, target) else { continue };
            let example = format!("{file} names {path}");
            by_folder.entry(folder).or_default().entry(from).or_default().entry(to).or_insert(example);
        }
    }
    by_folder
}

/// Returns the folder in which two files' ways part, and the entry that each way takes there.
fn parting(file: &str, target: &str) -> Option<(String, String, String)> {
    let (from, to) = (levels(file), levels(target));
    let parted = from.into_iter().zip(to).find(|((_, from), (_, to))| from != to)?;
    let ((folder, from), (_, to)) = parted;
    Some((folder.to_owned(), from, to))
}

/// Returns each folder on the way to a file, with the entry that the way takes.
fn levels(file: &str) -> Vec<(&str, String)> {
    let stem = file.strip_suffix("/mod.rs").or_else(|| file.strip_suffix(".rs")).unwrap_or(file);
    let is_root = ["src/lib", "src/main"].iter().any(|root| stem.ends_with(root));
    let stem = if is_root { file } else { stem };
    stem.match_indices('/').map(|(at, _)| (&stem[..at], entry_of(stem, at + 1))).collect()
}

fn entry_of(stem: &str, at: usize) -> String {
    let end = stem[at..].find('/').map_or(stem.len(), |length| at + length);
    stem[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::{circles, pages};
    use crate::source::{Tree, parsed};

    fn tree(files: &[(&str, &str)]) -> Tree {
        let sources = files.iter().map(|(path, text)| parsed(((*path).to_owned(), (*text).to_owned()))).collect();
        Tree::of(sources, vec![files[0].0.to_owned()])
    }

    #[test]
    fn two_folders_that_use_each_other_through_different_files_are_a_circle() {
        let files = [
            ("c/src/lib.rs", "mod a; mod b;"),
            ("c/src/a/mod.rs", "mod x; mod y;"),
            ("c/src/a/x.rs", "use crate::b::U; pub struct X;"),
            ("c/src/a/y.rs", "pub struct Y;"),
            ("c/src/b/mod.rs", "pub struct U; mod v;"),
            ("c/src/b/v.rs", "use crate::a::y::Y;"),
        ];
        let names: Vec<String> = circles(&tree(&files)).into_iter().map(|circle| circle.name).collect();
        assert_eq!(names, ["c/src/a+c/src/b"]);
        let mended = [files[0], files[1], files[2], files[3], files[4], ("c/src/b/v.rs", "")];
        assert!(circles(&tree(&mended)).is_empty());
    }

    #[test]
    fn a_file_and_the_folder_of_its_name_are_one_entry() {
        let files = [
            ("c/src/lib.rs", "mod a; mod b;"),
            ("c/src/a.rs", "mod x;"),
            ("c/src/a/x.rs", "use crate::b::B;"),
            ("c/src/b.rs", "pub struct B;"),
        ];
        assert_eq!(pages(&tree(&files)), [("c/src".to_owned(), 2), ("c/src/a".to_owned(), 1)]);
        assert!(circles(&tree(&files)).is_empty());
    }
}
