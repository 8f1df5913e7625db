//! The arrows between the files of one crate, and the circles in which they go round.
//!
//! An arrow is a private `use`, a path in code, or a path in a macro's tokens that leads to another file of the same crate.
//! Declaring a child module or handing on its items with `pub use` is no arrow: a file that uses the item is taken to use the
//! file that defines it. Code for tests only is not counted.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Tree, Unit, is_test_only};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// A set of files that use each other.
pub struct Circle {
    /// The files' names, joined, for the ratchet.
    pub name: String,
    /// The number of files.
    pub files: usize,
    /// The arrows inside.
    pub description: String,
}

/// Returns the circles of every crate of the tree.
pub fn circles(tree: &Tree) -> Vec<Circle> {
    tree.units.iter().flat_map(|unit| circles_of(&arrows_of(tree, unit))).collect()
}

/// The files that each file uses, with one path that shows it.
pub type Arrows = BTreeMap<String, BTreeMap<String, String>>;

/// Returns the arrows between the files of one library or program.
pub fn arrows_of(tree: &Tree, unit: &Unit) -> Arrows {
    let mut gathered = BTreeMap::new();
    for (module, file) in &unit.modules {
        let Some(source) = tree.source(file) else { continue };
        if gathered.contains_key(file) || source.is_test_module() {
            continue;
        }
        let mut paths = Paths { module: module.clone(), ..Paths::default() };
        paths.visit_file(&source.syntax);
        gathered.insert(file.clone(), paths);
    }
    let resolver = Resolver { unit, gathered: &gathered };
    let mut arrows = Arrows::new();
    for (file, paths) in &gathered {
        for path in paths.absolute(unit) {
            if let Some(target) = resolver.file_of(&path, 0).filter(|target| target != file) {
                arrows.entry(file.clone()).or_default().entry(target).or_insert_with(|| path.join("::"));
            }
        }
    }
    arrows
}

/// The parts of one file that make arrows: its imports, the items that it hands on, and the paths in its code.
#[derive(Default)]
struct Paths {
    /// The module of the code being read; inline modules are pushed on the way.
    module: Vec<String>,
    /// The path from which each imported name comes.
    imports: BTreeMap<String, Vec<String>>,
    /// The `pub use` items: the name (`*` for everything) and the path of its origin.
    handed_on: Vec<(String, Vec<String>)>,
    /// Paths with the module that they are written in.
    written: Vec<(Vec<String>, Vec<String>)>,
    /// The items that the file itself defines.
    defined: BTreeSet<String>,
}

impl Paths {
    /// Returns every path from the crate's root.
    fn absolute(&self, unit: &Unit) -> Vec<Vec<String>> {
        self.written.iter().filter_map(|(module, path)| self.rooted(unit, module, path)).collect()
    }

    fn rooted(&self, unit: &Unit, module: &[String], path: &[String]) -> Option<Vec<String>> {
        if let Some(path) = anchored(module, path) {
            return Some(path);
        }
        let first = path.first()?;
        let child = [module, std::slice::from_ref(first)].concat();
        if unit.modules.contains_key(&child) {
            return Some([module, path].concat());
        }
        let import = self.imports.get(first)?;
        Some([import, &path[1..]].concat())
    }

    fn add_use(&mut self, tree: &syn::UseTree, before: &[String], public: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                let before = [before, &[path.ident.to_string()]].concat();
                self.add_use(&path.tree, &before, public);
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_use(tree, before, public)),
            syn::UseTree::Name(name) => self.add_name(&name.ident.to_string(), None, before, public),
            syn::UseTree::Rename(name) => {
                self.add_name(&name.ident.to_string(), Some(name.rename.to_string()), before, public);
            }
            syn::UseTree::Glob(_) => self.add_name("*", None, before, public),
        }
    }

    fn add_name(&mut self, name: &str, alias: Option<String>, before: &[String], public: bool) {
        let mut path = before.to_vec();
        if name != "self" {
            path.push(name.to_owned());
        }
        let seen_as = alias.unwrap_or_else(|| path.last().cloned().unwrap_or_default());
        let anchored = anchored(&self.module, &path);
        if public {
            let origin = anchored.unwrap_or_else(|| [self.module.as_slice(), &path].concat());
            self.handed_on.push((seen_as, origin));
            return;
        }
        if let Some(origin) = anchored {
            self.imports.insert(seen_as, origin);
        }
        self.written.push((self.module.clone(), path));
    }

    /// Adds the paths inside a macro's tokens: `crate::a::b`, `self::a`, `super::a`.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    if colons < 2 {
                        self.end_of_path(&mut path);
                    }
                    path.push(word);
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.end_of_path(&mut path);
                    self.add_tokens(group.stream());
                }
                _ => self.end_of_path(&mut path),
            }
        }
        self.end_of_path(&mut path);
    }

    fn end_of_path(&mut self, path: &mut Vec<String>) {
        if path.len() > 1 {
            self.written.push((self.module.clone(), std::mem::take(path)));
        }
        path.clear();
    }
}

/// Returns a path that begins with `crate`, `self` or `super`, from the crate's root.
fn anchored(module: &[String], path: &[String]) -> Option<Vec<String>> {
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        "super" => {
            let (_, above) = module.split_last()?;
            let rest = &path[1..];
            if rest.first().is_some_and(|word| word == "super") {
                return anchored(above, rest);
            }
            Some([above, rest].concat())
        }
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test_only(item) {
            self.defined.extend(defined_name(item));
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.module.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add_use(&item.tree, &[], !matches!(item.vis, syn::Visibility::Inherited));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if words.len() > 1 {
            self.written.push((self.module.clone(), words));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        self.add_tokens(invocation.tokens.clone());
        visit::visit_macro(self, invocation);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // `pub(crate)` and `pub(in path)` widen the visibility of an item; they use nothing.
    }
}

fn defined_name(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(name.to_string())
}

/// Finds the file that a path leads to, through the files that hand it on.
struct Resolver<'a> {
    unit: &'a Unit,
    gathered: &'a BTreeMap<String, Paths>,
}

impl Resolver<'_> {
    fn file_of(&self, path: &[String], depth: usize) -> Option<String> {
        let mut known = 0;
        while known < path.len() && self.unit.modules.contains_key(&path[..=known]) {
            known += 1;
        }
        let file = self.unit.modules.get(&path[..known])?;
        let Some(item) = path.get(known).filter(|_| depth < 8) else { return Some(file.clone()) };
        let Some(paths) = self.gathered.get(file) else { return Some(file.clone()) };
        if paths.defined.contains(item) {
            return Some(file.clone());
        }
        for (name, origin) in &paths.handed_on {
            if name == item {
                // A path into another crate ends here.
                return self.file_of(origin, depth + 1).or_else(|| Some(file.clone()));
            }
            if name != "*" {
                continue;
            }
            let behind = self.file_of(&origin[..origin.len() - 1], depth + 1).filter(|behind| behind != file);
            if behind.as_ref().and_then(|behind| self.gathered.get(behind)).is_some_and(|p| p.defined.contains(item)) {
                return behind;
            }
        }
        Some(file.clone())
    }
}

/// Returns the sets of files that reach each other, smallest name first.
pub fn circles_of(arrows: &Arrows) -> Vec<Circle> {
    let mut circles = Vec::new();
    let mut told = BTreeSet::new();
    for file in arrows.keys() {
        let reach = reachable(arrows, file);
        if !reach.contains(file) || told.contains(file) {
            continue;
        }
        let members: BTreeSet<String> =
            reach.iter().filter(|other| reachable(arrows, other).contains(file)).cloned().collect();
        let mut inside = Vec::new();
        for member in &members {
            for (target, path) in arrows.get(member).into_iter().flatten() {
                if members.contains(target) {
                    inside.push(format!("{member} -> {target} ({path})"));
                }
            }
        }
        let name = members.iter().cloned().collect::<Vec<_>>().join("+");
        let description = format!("files in a circle:\n    {}\n   ", inside.join("\n    "));
        circles.push(Circle { name, files: members.len(), description });
        told.extend(members);
    }
    circles
}

fn reachable(arrows: &Arrows, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut pending = vec![from.to_owned()];
    while let Some(file) = pending.pop() {
        for target in arrows.get(&file).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(target.clone()) {
                pending.push(target.clone());
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::circles;
    use crate::source::{Tree, parsed};

    /// Returns the circles of a crate of these files, the first its root.
    fn names(files: &[(&str, &str)]) -> Vec<String> {
        let sources = files.iter().map(|(path, text)| parsed(((*path).to_owned(), (*text).to_owned()))).collect();
        let tree = Tree::of(sources, vec![files[0].0.to_owned()]);
        circles(&tree).into_iter().map(|circle| circle.name).collect()
    }

    #[test]
    fn a_circle_is_found_however_it_is_written() {
        let root = ("src/lib.rs", "mod a; mod b;");
        let a = ("src/a.rs", "use crate::b::B; pub struct A;");
        for b in [
            "use crate::a::A; pub struct B;",
            "pub struct B(super::a::A);",
            "use super::a; pub struct B(a::A);",
            "pub struct B; fn f() { call!(crate::a::A) }",
        ] {
            assert_eq!(names(&[root, a, ("src/b.rs", b)]), ["src/a.rs+src/b.rs"], "{b}");
        }
    }

    #[test]
    fn handing_on_hides_no_arrow_and_makes_none() {
        let a = ("src/a.rs", "use crate::B; pub struct A;");
        let root = ("src/lib.rs", "mod a; mod b; pub use a::A; pub use b::*;");
        assert!(names(&[root, a, ("src/b.rs", "pub struct B;")]).is_empty());
        assert_eq!(names(&[root, a, ("src/b.rs", "use crate::A; pub struct B;")]), ["src/a.rs+src/b.rs"]);
    }

    #[test]
    fn parents_and_children_are_files_as_well() {
        let root = ("src/lib.rs", "mod a; fn f() { a::A; }");
        assert_eq!(names(&[root, ("src/a/mod.rs", "use crate::f; pub struct A;")]), ["src/a/mod.rs+src/lib.rs"]);
    }

    #[test]
    fn tests_may_look_up() {
        let root = ("src/lib.rs", "mod a; fn f() { a::A; }");
        let a = "pub struct A; #[cfg(test)] mod tests { use crate::f; #[test] fn t() { super::super::f() } }";
        assert!(names(&[root, ("src/a.rs", a)]).is_empty());
    }
}
