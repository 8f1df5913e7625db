//! The names of the commands in requests: those of the table, unless `rename-command` says otherwise.
//!
//! Permissions, statistics, replies about commands and the journal use the table's name of a renamed command. Only requests
//! (scripts' included) and questions about possible requests use its new name. Commands are renamed before the start and
//! never later, so nothing here is locked; if none is renamed, a look-up costs one branch more. Any thread.

use std::collections::HashMap;

use sleeve_wire::commands::{self, Command, Row};
use sleeve_wire::request::Args;

/// The names of one engine's commands.
#[derive(Debug, Clone, Default)]
pub struct RenamedCommands {
    /// The renamed commands; None if every command has its own name.
    pub changes: Option<Box<Changes>>,
}

/// The commands with other names than their own.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// The new names, in lower case.
    given: HashMap<Vec<u8>, &'static Row>,
    /// Commands that no longer go by their own names.
    gone: Vec<Command>,
}

impl RenamedCommands {
    /// Renames the command that has the name `old` by now; an empty new name removes the command.
    ///
    /// # Errors
    /// The reason in Redis's words.
    pub fn rename(&mut self, old: &[u8], new: &[u8]) -> Result<(), String> {
        let row = self.find(old).ok_or("No such command in rename-command")?;
        let changes = self.changes.get_or_insert_default();
        if changes.given.remove(&old.to_ascii_lowercase()).is_none() {
            changes.gone.push(row.id);
        }
        if new.is_empty() {
            return Ok(());
        }
        if self.find(new).is_some() {
            return Err("Target command name already exists".into());
        }
        self.changes.get_or_insert_default().given.insert(new.to_ascii_lowercase(), row);
        Ok(())
    }

    /// Returns whether every command goes by its own name.
    #[inline]
    pub fn are_own(&self) -> bool {
        self.changes.is_none()
    }

    /// Returns the command of this name, in any case. Containers are found, their subcommands are not.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&'static Row> {
        match &self.changes {
            None => commands::find(name),
            Some(changes) => changes.find(name),
        }
    }

    /// Returns the command of this name, or of `container|subcommand`.
    pub fn find_full(&self, name: &[u8]) -> Option<&'static Row> {
        match name.iter().position(|&byte| byte == b'|').and_then(|at| name.split_at_checked(at)) {
            None => self.find(name),
            Some((parent, sub)) => commands::find_sub(self.find(parent)?.id, sub.get(1..)?),
        }
    }

    /// Returns the command or subcommand that a whole request is for.
    pub fn find_line(&self, args: Args<'_>) -> Option<&'static Row> {
        let row = self.find(args.get(0)?)?;
        match args.get(1) {
            Some(name) if row.is_container() => commands::find_sub(row.id, name),
            _ => Some(row),
        }
    }

    /// Returns the commands and subcommands that have a name, in the table's order.
    pub fn rows(&self) -> impl Iterator<Item = &'static Row> {
        commands::all().iter().filter(|row| self.has(row.parent.unwrap_or(row.id)))
    }

    fn has(&self, command: Command) -> bool {
        let Some(changes) = &self.changes else { return true };
        !changes.gone.contains(&command) || changes.given.values().any(|row| row.id == command)
    }
}

impl Changes {
    /// Returns the command that goes by this name.
    #[cold]
    pub fn find(&self, name: &[u8]) -> Option<&'static Row> {
        let given = self.given.get(&name.to_ascii_lowercase()).copied();
        given.or_else(|| commands::find(name).filter(|row| !self.gone.contains(&row.id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &RenamedCommands, name: &str) -> Option<&'static str> {
        names.find_full(name.as_bytes()).map(|row| row.full_name)
    }

    #[test]
    fn names_are_given_one_after_the_other() {
        let mut names = RenamedCommands::default();
        assert!(names.are_own());
        for (old, new) in [("FlushDB", "badger"), ("config", "Cfg"), ("get", ""), ("set", "put"), ("PUT", "get")] {
            names.rename(old.as_bytes(), new.as_bytes()).expect(old);
        }
        for (name, row) in [
            ("flushdb", None),
            ("BADGER", Some("flushdb")),
            ("config|get", None),
            ("cfg|get", Some("config|get")),
            ("get", Some("set")),
            ("set", None),
            ("put", None),
            ("del", Some("del")),
        ] {
            assert_eq!(found(&names, name), row, "{name}");
        }
        let gone: Vec<_> = commands::all().iter().filter(|row| !names.has(row.parent.unwrap_or(row.id))).collect();
        assert_eq!(gone.iter().map(|row| row.name).collect::<Vec<_>>(), ["get"]);
        assert_eq!(names.rows().count() + 1, commands::all().len());
    }

    #[test]
    fn a_name_that_is_taken_or_unknown_is_refused() {
        let mut names = RenamedCommands::default();
        assert_eq!(names.rename(b"get", b"SET"), Err("Target command name already exists".into()));
        for unknown in ["nosuch", "config|get", ""] {
            let refused = RenamedCommands::default().rename(unknown.as_bytes(), b"x");
            assert_eq!(refused, Err("No such command in rename-command".into()));
        }
        assert_eq!(RenamedCommands::default().rename(b"get", b"GET"), Ok(()), "its own name is free by then");
    }
}
