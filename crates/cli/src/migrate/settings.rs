//! The options that CONFIG SET changes on servers so that one can follow the other, and their former values.

use super::server::{Fault, Server};

/// An option that was changed.
#[derive(Debug)]
struct Change {
    server: &'static str,
    option: &'static str,
    old: String,
}

/// The options that were changed, in order.
#[derive(Debug, Default)]
pub struct Settings {
    changes: Vec<Change>,
}

impl Settings {
    /// Makes `replica` log in at `primary` as this program does, and refuse the writes of its own clients while it follows.
    pub fn prepare(&mut self, replica: &Server, primary: &Server) -> Result<(), Fault> {
        for (option, value) in wanted(primary) {
            let known = replica.option(option)?;
            let old = known.clone().unwrap_or_else(|| (if option == "tls-replication" { "no" } else { "" }).to_owned());
            if old == value {
                continue;
            }
            if known.is_none() {
                return Err(Fault::refused(format!("{replica} knows no {option}, which it would need to follow")));
            }
            // The change is noted before it is made: a command with a lost reply may have been executed.
            self.changes.push(Change { server: replica.name, option, old });
            replica.ask::<()>(&["CONFIG", "SET", option, &value])?;
        }
        Ok(())
    }

    /// Returns the names of the options that [`prepare`](Self::prepare) would change.
    pub fn differing(replica: &Server, primary: &Server) -> Result<Vec<&'static str>, Fault> {
        let mut differing = Vec::new();
        for (option, value) in wanted(primary) {
            if replica.option(option)?.is_some_and(|old| old != value) {
                differing.push(option);
            }
        }
        Ok(differing)
    }

    /// Restores a server's former options.
    pub fn restore(&mut self, server: &Server) -> Result<(), Fault> {
        while let Some(at) = self.changes.iter().rposition(|change| change.server == server.name) {
            let change = &self.changes[at];
            server.ask::<()>(&["CONFIG", "SET", change.option, &change.old])?;
            self.changes.remove(at);
        }
        Ok(())
    }

    /// Returns the options of a server that differ from their former values.
    pub fn changed(&self, server: &Server) -> Vec<&'static str> {
        self.changes.iter().filter(|change| change.server == server.name).map(|change| change.option).collect()
    }
}

/// Returns the options that a replica of this primary needs.
fn wanted(primary: &Server) -> [(&'static str, String); 4] {
    [
        ("masteruser", primary.login.user.clone().unwrap_or_default()),
        ("masterauth", primary.login.password.clone().unwrap_or_default()),
        ("tls-replication", (if primary.is_secure() { "yes" } else { "no" }).to_owned()),
        ("replica-read-only", "yes".to_owned()),
    ]
}
