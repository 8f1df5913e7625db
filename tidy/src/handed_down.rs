//! The places where the session, the rooms below it and the client's pipe ask the machine for the time or for a random
//! number.
//!
//! A thread hands both down with its context, so that a whole engine runs again from one seed. A walk through a hash table of
//! std asks for chance too, for its order is another one in each process. Durations that are only measured, and waits for
//! another machine, stand in a list with their reasons.

use std::collections::BTreeSet;

use crate::source::{Source, Tree, is_test_only};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The files that the rule is about: the session, the rooms below it, and the pipe.
const ROOMS: &[&str] = &[
    "crates/client/src/pipe/",
    "crates/server/src/acl/",
    "crates/server/src/config/",
    "crates/server/src/messaging/",
    "crates/server/src/request/",
    "crates/server/src/session/",
    "crates/server/src/execute/",
    "crates/server/src/commands/",
    "crates/server/src/context/",
    "crates/server/src/engine/",
    "crates/server/src/lua/",
    "crates/store/src/",
    "crates/disk/src/",
];

/// The reason why a file that writes to the disk may ask.
const OF_THE_DISK: &str = "threads that wait for the disk have the machine's clock, as workers have";

/// The reason why the session in a caller's own thread may ask.
const OF_A_CALLER: &str = "a session in its caller's thread has no worker that could hand the time down";

/// The reason why a file that waits for replicas may ask.
const OF_REPLICAS: &str = "a thread waits for replicas, which have their own time";

/// The allowed calls, with their files and reasons.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "crates/server/src/engine/origin.rs",
        "Instant::now",
        "the one place where an engine begins with the machine's time",
    ),
    (
        "crates/server/src/engine/origin.rs",
        "secret_bytes",
        "the one place where an engine begins with the machine's chance",
    ),
    (
        "crates/server/src/commands/server/acl.rs",
        "secret_bytes",
        "ACL GENPASS: a password that a seed foretells is none",
    ),
    (
        "crates/server/src/commands/connection/unix_offer.rs",
        "secret_bytes",
        "by these a client knows its server: one that another client foretells is none",
    ),
    ("crates/server/src/engine/clients/blocking.rs", "the order of queues", "counted, or put into the order of names"),
    ("crates/server/src/engine/clients/blocking.rs", "the order of clients", "counted"),
    ("crates/server/src/engine/clients/watch.rs", "the order of flags", "flags are raised, all of them"),
    ("crates/server/src/engine/scripts/mod.rs", "the order of sources", "added up"),
    (
        "crates/server/src/engine/scripts/mod.rs",
        "the order of functions",
        "a library's list; the table is only looked into",
    ),
    ("crates/server/src/lua/interpreter/loaded_libraries.rs", "the order of loaded", "each stays or goes by itself"),
    (
        "crates/server/src/messaging/local_subscribers.rs",
        "the order of subscribers",
        "a list; the table is only looked into",
    ),
    ("crates/server/src/messaging/pubsub.rs", "the order of names", "put into the order of names at once"),
    ("crates/server/src/request/renamed_commands.rs", "the order of given", "whether any is there"),
    (
        "crates/server/src/engine/network/migrate_target.rs",
        "Instant::now",
        "another server is waited for, and it has its own time",
    ),
    ("crates/server/src/engine/persistence/aof/writer.rs", "Instant::now", OF_THE_DISK),
    ("crates/server/src/engine/persistence/aof/syncs.rs", "Instant::now", OF_THE_DISK),
    ("crates/server/src/engine/persistence/snapshot/save.rs", "Instant::now", OF_THE_DISK),
    ("crates/server/src/engine/persistence/shutdown.rs", "monotonic_ms", OF_REPLICAS),
    ("crates/server/src/engine/replication/failover.rs", "monotonic_ms", OF_REPLICAS),
    ("crates/server/src/engine/replication/primary.rs", "monotonic_ms", OF_REPLICAS),
    ("crates/server/src/engine/replication/failover.rs", "Instant::now", OF_REPLICAS),
    (
        "crates/server/src/engine/persistence/snapshot/replicas.rs",
        "monotonic_ms",
        "the snapshot's thread waits for replicas as for a disk",
    ),
    ("crates/server/src/engine/persistence/snapshot/save.rs", "monotonic_ms", OF_THE_DISK),
    ("crates/server/src/engine/persistence/snapshot/walk.rs", "monotonic_ms", OF_THE_DISK),
    ("crates/server/src/engine/persistence/snapshot/walk.rs", "Instant::now", OF_THE_DISK),
    (
        "crates/server/src/engine/persistence/snapshot/walk.rs",
        "ticks",
        "how long a snapshot holds a shard is only measured",
    ),
    ("crates/server/src/engine/persistence/shutdown.rs", "Instant::now", OF_THE_DISK),
    ("crates/server/src/engine/persistence/aof/toggle.rs", "Instant::now", OF_THE_DISK),
    ("crates/server/src/engine/persistence/aof/threads.rs", "Instant::now", OF_THE_DISK),
    ("crates/server/src/engine/watchdog/thread.rs", "monotonic_ms", "the watchdog measures how late other threads are"),
    ("crates/server/src/session/local.rs", "Instant::now", OF_A_CALLER),
    ("crates/server/src/session/local.rs", "monotonic_ms", OF_A_CALLER),
    (
        "crates/server/src/context/command_log.rs",
        "ticks",
        "a measurement; an engine of a seed has a ticker that stands",
    ),
    ("crates/server/src/context/command_timer.rs", "ticks", "as in command_log.rs"),
    ("crates/server/src/commands/script/function.rs", "monotonic_ms", "how long a script has really run"),
    ("crates/server/src/context/locking.rs", "monotonic_ms", "how long a script has really run"),
    ("crates/server/src/lua/evaluate.rs", "monotonic_ms", "how long a script really runs says when others are served"),
    ("crates/server/src/lua/native/hook.rs", "ticks", "how often a script that runs is looked after"),
    ("crates/server/src/lua/native/interrupt.rs", "monotonic_ms", "how long a script may really take to load"),
];

/// Returns the places that ask the machine without being allowed to, each with its line, and the exceptions that are not
/// used.
pub fn breaches(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut used = BTreeSet::new();
    for source in tree.sources.iter().filter(|source| is_below_session(source)) {
        for (line, what) in places(&source.syntax) {
            match EXCEPTIONS.iter().position(|(file, excepted, _)| *file == source.path && *excepted == what) {
                Some(exception) => _ = used.insert(exception),
                None => breaches.push(format!("{}:{line}: {what}", source.path)),
            }
        }
    }
    for (at, (file, what, _)) in EXCEPTIONS.iter().enumerate() {
        if !used.contains(&at) {
            breaches.push(format!("{file}: {what} is excepted, but not there any more"));
        }
    }
    breaches
}

fn is_below_session(source: &Source) -> bool {
    ROOMS.iter().any(|room| source.path.starts_with(room)) && !source.is_test_module()
}

/// Returns the calls of a file that ask the machine, with their lines.
fn places(file: &syn::File) -> Vec<(usize, String)> {
    let mut tables = HashTables::default();
    tables.visit_file(file);
    let mut finder = Finder { tables: tables.0, found: Vec::new() };
    finder.visit_file(file);
    finder.found
}

/// The names of the fields that are hash tables of std, with an order that is random in each process.
#[derive(Default)]
struct HashTables(BTreeSet<String>);

impl<'ast> Visit<'ast> for HashTables {
    fn visit_field(&mut self, field: &'ast syn::Field) {
        let mut mention = Mention(false);
        mention.visit_type(&field.ty);
        if mention.0 {
            self.0.extend(field.ident.as_ref().map(ToString::to_string));
        }
        visit::visit_field(self, field);
    }
}

/// True if a type contains a hash table.
struct Mention(bool);

impl<'ast> Visit<'ast> for Mention {
    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        self.0 |= segment.ident == "HashMap" || segment.ident == "HashSet";
        visit::visit_path_segment(self, segment);
    }
}

struct Finder {
    tables: BTreeSet<String>,
    found: Vec<(usize, String)>,
}

impl Finder {
    fn add(&mut self, spanned: &impl Spanned, what: String) {
        self.found.push((spanned.span().start().line, what));
    }

    /// Visits the names that a `use` brings in, with the path before each.
    fn visit_imported(&mut self, tree: &syn::UseTree, before: &[String]) {
        let mut ends = |name: &syn::Ident| {
            if let Some(what) = asked(&[before, &[name.to_string()]].concat()) {
                self.add(name, what.to_owned());
            }
        };
        match tree {
            syn::UseTree::Path(path) => {
                self.visit_imported(&path.tree, &[before, &[path.ident.to_string()]].concat());
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.visit_imported(tree, before)),
            syn::UseTree::Name(name) => ends(&name.ident),
            syn::UseTree::Rename(name) => ends(&name.ident),
            syn::UseTree::Glob(_) => {}
        }
    }
}

/// Returns the resource that this path asks the machine for.
fn asked(path: &[String]) -> Option<&'static str> {
    let (first, last) = (path.first()?, path.last()?);
    let before = path.iter().rev().nth(1).map(String::as_str).unwrap_or_default();
    match (before, last.as_str()) {
        _ if first == "fastrand" => Some("fastrand"),
        ("Instant", "now") => Some("Instant::now"),
        ("SystemTime", "now") => Some("SystemTime::now"),
        ("clock", "ticks") => Some("ticks"),
        (_, "monotonic_ns") => Some("monotonic_ns"),
        (_, "monotonic_ms") => Some("monotonic_ms"),
        (_, "secret_bytes") => Some("secret_bytes"),
        (_, "getrandom") => Some("getrandom"),
        (_, "RandomState") => Some("RandomState"),
        _ => None,
    }
}

/// Methods that walk over a table in its own order.
const WALKS: &[&str] =
    &["drain", "into_iter", "into_keys", "into_values", "iter", "iter_mut", "keys", "retain", "values", "values_mut"];

/// Returns the field that an expression looks into, or the variable of its name.
fn name_of(expression: &syn::Expr) -> Option<String> {
    match expression {
        syn::Expr::Field(field) => match &field.member {
            syn::Member::Named(name) => Some(name.to_string()),
            syn::Member::Unnamed(_) => None,
        },
        syn::Expr::Index(index) => name_of(&index.expr),
        syn::Expr::MethodCall(call) if ["lock", "read", "write", "borrow"].iter().any(|word| call.method == word) => {
            name_of(&call.receiver)
        }
        syn::Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        syn::Expr::Reference(reference) => name_of(&reference.expr),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test_only(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.visit_imported(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let Some(what) = asked(&words) {
            self.add(path, what.to_owned());
        }
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let walks = WALKS.iter().any(|method| call.method == method);
        if let Some(name) = name_of(&call.receiver).filter(|name| walks && self.tables.contains(name)) {
            self.add(&call.method, format!("the order of {name}"));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_for_loop(&mut self, walk: &'ast syn::ExprForLoop) {
        if let Some(name) = name_of(&walk.expr).filter(|name| self.tables.contains(name)) {
            self.add(&walk.expr, format!("the order of {name}"));
        }
        visit::visit_expr_for_loop(self, walk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_by(text: &str) -> Vec<String> {
        let file = syn::parse_file(text).expect("it is Rust");
        places(&file).into_iter().map(|(_, what)| what).collect()
    }

    #[test]
    fn paths_that_ask_the_machine_are_known_and_others_are_left_alone() {
        assert_eq!(asked_by("fn f() { fastrand::u64(..) }"), ["fastrand"]);
        assert_eq!(asked_by("fn f() { std::time::Instant::now() }"), ["Instant::now"]);
        assert_eq!(asked_by("fn f() { SystemTime::now() }"), ["SystemTime::now"]);
        assert_eq!(asked_by("fn f() { monotonic_ns() }"), ["monotonic_ns"]);
        assert_eq!(asked_by("fn f() { clock::ticks() }"), ["ticks"]);
        assert_eq!(asked_by("fn f() { rustix::rand::getrandom(b, flags) }"), ["getrandom"]);
        assert!(asked_by("use std::time::Instant; fn f(at: Instant) { ticks() }").is_empty());
    }

    #[test]
    fn imports_are_found_under_any_name() {
        assert_eq!(asked_by("use crate::host::clock::ticks;"), ["ticks"]);
        assert_eq!(
            asked_by("use crate::host::{clock::{ticks as now}, dice::secret_bytes};"),
            ["ticks", "secret_bytes"]
        );
        assert_eq!(asked_by("use std::collections::hash_map::RandomState;"), ["RandomState"]);
    }

    #[test]
    fn the_order_of_a_hash_table_is_chance_and_a_look_into_it_is_not() {
        let table = "struct S { names: [HashMap<u8, u8>; 2], queue: Mutex<HashSet<u8>>, list: Vec<u8> }";
        let of = |code: &str| asked_by(&format!("{table} fn f(s: &S) {{ {code} }}"));
        assert_eq!(of("s.names[1].keys().count()"), ["the order of names"]);
        assert_eq!(of("for one in &s.queue {}"), ["the order of queue"]);
        assert_eq!(of("s.queue.lock().iter()"), ["the order of queue"]);
        assert!(of("s.names[0].get(&1); s.list.iter(); s.queue.lock().insert(1)").is_empty());
    }
}
