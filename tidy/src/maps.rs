//! The map on a crate's first page names each of its rooms, in an order in which arrows point down.
//!
//! A map is a table in the comment at the head of `lib.rs` or `main.rs`. Each row begins with a module's name, as in "|
//! `table` | The hash table of one database. |". It lists the modules that lie directly below the crate, once each; a row may
//! use the rows below it alone. So a reader that begins at the top reads callers before the code that they call.

use crate::arrows::{Arrows, arrows_of};
use crate::folders::lifted;
use crate::source::{Tree, Unit};

/// Returns the faults of the map of each crate that has a first page.
pub fn breaches(tree: &Tree) -> Vec<String> {
    let of_unit = |unit: &Unit| {
        let page = unit.modules.get(&Vec::new()).cloned().unwrap_or_default();
        let folder = page.strip_suffix("/lib.rs").or_else(|| page.strip_suffix("/main.rs"));
        match folder.filter(|folder| folder.starts_with("crates/") && folder.ends_with("/src")) {
            Some(folder) => breaches_of(tree, unit, &page, folder),
            None => Vec::new(),
        }
    };
    tree.units.iter().flat_map(of_unit).collect()
}

fn breaches_of(tree: &Tree, unit: &Unit, page: &str, folder: &str) -> Vec<String> {
    let rows = tree.source(page).map(|source| rows(&source.text)).unwrap_or_default();
    let rooms = rooms(tree, unit, page);
    let mut breaches = Vec::new();
    for room in rooms.iter().filter(|room| !rows.contains(room)) {
        breaches.push(format!("{page}: the map lacks `{room}`"));
    }
    for (at, row) in rows.iter().enumerate() {
        if !rooms.contains(row) || rows[..at].contains(row) {
            breaches.push(format!("{page}: the map names `{row}`, which is no room, or named above"));
        }
    }
    let arrows = lifted(&arrows_of(tree, unit)).remove(folder).unwrap_or_default();
    breaches.extend(upward(&rows, folder, &arrows).into_iter().map(|breach| format!("{page}: {breach}")));
    breaches
}

/// Returns the arrows that point from a row to one above it.
fn upward(rows: &[String], folder: &str, arrows: &Arrows) -> Vec<String> {
    let mut breaches = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let Some(targets) = arrows.get(&format!("{folder}/{row}")) else { continue };
        for above in &rows[..at] {
            if let Some(example) = targets.get(&format!("{folder}/{above}")) {
                breaches.push(format!("`{row}` stands below `{above}` and uses it: {example}"));
            }
        }
    }
    breaches
}

/// Returns the modules directly below a crate's first page that have files of their own and are not only for tests.
fn rooms(tree: &Tree, unit: &Unit, page: &str) -> Vec<String> {
    let is_room = |path: &[String], file: &str| {
        path.len() == 1 && file != page && tree.source(file).is_some_and(|source| !source.is_test_module())
    };
    let rooms = unit.modules.iter().filter(|(path, file)| is_room(path, file));
    rooms.map(|(path, _)| path[0].clone()).collect()
}

/// Returns the names that begin the rows of a page's tables.
fn rows(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let row = line.strip_prefix("//!").or_else(|| line.strip_prefix("//"))?.trim().strip_prefix("| `")?;
        let (name, rest) = row.split_once('`')?;
        let is_module = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        (is_module && rest.trim_start().starts_with('|')).then(|| name.to_owned())
    };
    text.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::breaches;
    use crate::source::{Tree, parsed};

    fn of(page: &str) -> Vec<String> {
        let files = [
            ("crates/c/src/lib.rs", page),
            ("crates/c/src/a/mod.rs", "mod x;"),
            ("crates/c/src/a/x.rs", "use crate::b::B;"),
            ("crates/c/src/b.rs", "pub struct B;"),
        ];
        let sources = files.iter().map(|(path, text)| parsed(((*path).to_owned(), (*text).to_owned()))).collect();
        breaches(&Tree::of(sources, vec![files[0].0.to_owned()]))
    }

    #[test]
    fn a_map_names_every_room_once_and_callers_first() {
        let rows = ["//! | `a` | Callers. |\n", "// | `b` | Called. |\n"];
        let modules = "mod a; mod b;";
        assert!(of(&format!("{}{}{modules}", rows[0], rows[1])).is_empty());
        let upside_down = of(&format!("{}{}{modules}", rows[1], rows[0]));
        assert_eq!(upside_down.len(), 1);
        assert!(upside_down[0].contains("`b`") == upside_down[0].contains("`a`"), "{upside_down:?}");
        assert_eq!(of(&format!("{}{modules}", rows[0])), ["crates/c/src/lib.rs: the map lacks `b`"]);
        assert_eq!(of(&format!("{}{}{}{modules}", rows[0], rows[1], rows[1])).len(), 1);
        assert_eq!(of(&format!("{}{}// | `gone` | x |\n{modules}", rows[0], rows[1])).len(), 1);
    }
}
