//! The limit of the system on open connections.

use std::io::{self, Write};

/// Raises the limit on descriptors as far as the system allows without privileges, because many connections need many
/// descriptors.
pub fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).is_err() {
        let _ = writeln!(io::stderr(), "WARNING: the limit of open files stays at {:?}", limit.current);
    }
}
