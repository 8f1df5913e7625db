//! The places where production code would panic on a value that it was given.
//!
//! `.unwrap()` is nowhere allowed outside tests: it gives no reason. `.expect("why")`, `panic!` and `unreachable!("why")`
//! state our own fault and are allowed, but not in the rooms through which foreign bytes travel.

use crate::source::{Source, is_test_only};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Programs that the project runs for itself: a panic there stops a chore, not a server.
const CHORES: &[&str] = &["tests/", "xtask/", "fuzz/", "crates/cli/src/"];

/// The files that take a request, a reply or a configuration file apart.
const FOREIGN: &[&str] = &[
    "crates/wire/src/",
    "crates/cluster/src/packet/",
    "crates/disk/src/format/",
    "crates/disk/src/replay/",
    "crates/server/src/session",
    "crates/server/src/execute",
    "crates/server/src/commands/",
    "crates/server/src/config",
    "crates/server/src/engine/network/migrate_target",
    "crates/store/src/rdb/file/",
    "crates/store/src/rdb/old",
    "crates/store/src/rdb/packed",
    "crates/store/src/rdb/pass",
    "crates/store/src/rdb/scan",
    "crates/store/src/rdb/types/",
    "crates/client/src/pipe",
    "crates/client/src/resp",
];

/// A place that panics.
pub struct Place {
    /// The line, from 1.
    pub line: usize,
    /// The call that may panic.
    pub what: String,
}

/// Returns the places of a file that its room does not allow.
pub fn places(source: &Source) -> Vec<Place> {
    let path = source.path.as_str();
    let in_source = path.contains("/src/") && !path.contains("/src/bin/");
    if !in_source || CHORES.iter().any(|room| path.starts_with(room)) || source.is_test_module() {
        return Vec::new();
    }
    let foreign = FOREIGN.iter().any(|room| path.starts_with(room));
    let mut finder = Finder { foreign, found: Vec::new() };
    finder.visit_file(&source.syntax);
    finder.found
}

struct Finder {
    foreign: bool,
    found: Vec<Place>,
}

impl Finder {
    fn add(&mut self, span: proc_macro2::Span, what: String) {
        self.found.push(Place { line: span.start().line, what });
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test_only(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let method = call.method.to_string();
        let gives_reason = method == "expect" || method == "expect_err";
        let gives_none = (method == "unwrap" || method == "unwrap_err") && call.args.is_empty();
        // Another type's method may have the name: only a text makes it the one that panics.
        let has_text = call.args.len() == 1 && matches!(call.args.first(), Some(syn::Expr::Lit(_)));
        if gives_none || (self.foreign && gives_reason && has_text) {
            self.add(call.method.span(), format!(".{method}()"));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        let name = invocation.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        if self.foreign && ["panic", "unreachable"].contains(&name.as_str()) {
            self.add(invocation.path.span(), format!("{name}!"));
        }
        visit::visit_macro(self, invocation);
    }
}
