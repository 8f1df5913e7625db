//! The check that the tests leave the machine as they found it.
//!
//! They run with a temporary folder and a home of their own, which must be empty when they have ended. Their surroundings are
//! looked at before and after: the devices, and the entries of the real temporary folders and of the real home under names
//! that this project's programs give. Other programs may write there in that time, so nothing else is judged. It takes
//! milliseconds.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders with entries that are compared: all entries that are no folders, or those under names of this project.
const LOOKED_AT: [(&str, Names); 4] =
    [("/dev", Names::All), ("/dev/shm", Names::Ours), ("/tmp", Names::Ours), ("/var/tmp", Names::Ours)];

/// Parts of the names that this project's programs and tests give.
const OURS: [&str; 4] = ["sleeve", "dump.rdb", "appendonly", "temp-"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    All,
    Ours,
}

/// The facts about an entry: type and permissions, owner, group, number of the device.
type Fact = (u32, u32, u32, u64);

/// The state of the machine before the tests, and the folders that the tests get.
#[derive(Debug)]
pub struct Machine {
    before: BTreeMap<PathBuf, Fact>,
    place: PathBuf,
}

impl Machine {
    /// Looks at the machine and makes the tests' folders.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn look() -> Result<Self, String> {
        // The path is short, because the path of a Unix socket has at most 108 bytes.
        let place = std::env::temp_dir().join(format!("slv{}", std::process::id()));
        for name in ["t", "h"] {
            let folder = place.join(name);
            fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        Ok(Self { before: facts(), place })
    }

    /// Gives the tests their temporary folder and their home; the tools of Rust keep the user's.
    pub fn confine<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        for (variable, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            if std::env::var_os(variable).is_none() {
                command.env(variable, home.join(folder));
            }
        }
        command.env("TMPDIR", self.place.join("t")).env("HOME", self.place.join("h"))
    }

    /// Reports all differences from the former state, and removes the tests' folders.
    ///
    /// # Errors
    /// A line for each thing that was left, changed or taken away.
    pub fn compare(self) -> Result<(), String> {
        let mut lines: Vec<String> = ["t", "h"].iter().flat_map(|name| left_in(&self.place.join(name))).collect();
        lines.extend(differences(&self.before, &facts()));
        // The lines above name the files that are left there.
        let removed = fs::remove_dir_all(&self.place);
        lines.extend(removed.err().map(|error| format!("{}: {error}", self.place.display())));
        if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
    }
}

/// Returns a line for each thing that the tests have left in one of their folders.
fn left_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let kind = if folder.ends_with("h") { "the home" } else { "the temporary folder" };
    entries.map(|entry| format!("left in {kind}: {}", entry.file_name().to_string_lossy())).collect()
}

fn differences(before: &BTreeMap<PathBuf, Fact>, after: &BTreeMap<PathBuf, Fact>) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, fact) in before {
        match after.get(path) {
            None => lines.push(format!("taken away: {}", path.display())),
            Some(now) if now != fact => {
                let (mode, owner, group, device) = *fact;
                lines.push(format!(
                    "changed: {}: mode {mode:o}, owner {owner}:{group}, device {device:x} became mode {:o}, owner {}:{}, device {:x}",
                    path.display(),
                    now.0,
                    now.1,
                    now.2,
                    now.3,
                ));
            }
            Some(_) => {}
        }
    }
    lines.extend(
        after.keys().filter(|path| !before.contains_key(*path)).map(|path| format!("left: {}", path.display())),
    );
    lines
}

fn facts() -> BTreeMap<PathBuf, Fact> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let folders = LOOKED_AT.map(|(folder, names)| (PathBuf::from(folder), names));
    let folders = folders.into_iter().chain(home.map(|home| (home, Names::Ours)));
    folders.flat_map(|(folder, names)| entries(&folder, names)).collect()
}

fn entries(folder: &Path, names: Names) -> Vec<(PathBuf, Fact)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours = OURS.iter().any(|ours| name.contains(ours));
        if is_ours || (names == Names::All && !metadata.is_dir()) {
            found.push((entry.path(), (metadata.mode(), metadata.uid(), metadata.gid(), metadata.rdev())));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn changes_left_on_the_machine_are_named() {
        let folder = std::env::temp_dir().join(format!("slv-machine-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let at = |name: &str| folder.join(name);
        for name in ["kept", "changed", "gone"] {
            fs::write(at(name), "").expect("a file");
        }
        let before: BTreeMap<_, _> = entries(&folder, Names::All).into_iter().collect();
        fs::set_permissions(at("changed"), fs::Permissions::from_mode(0o600)).expect("it is ours");
        fs::remove_file(at("gone")).expect("it is ours");
        fs::write(at("new"), "").expect("a file");
        let after = entries(&folder, Names::All).into_iter().collect();
        let lines = differences(&before, &after);
        fs::remove_dir_all(&folder).expect("the folder is ours");
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].starts_with("changed: ") && lines[0].contains("changed: mode"), "{lines:?}");
        assert!(lines[1].starts_with("taken away: ") && lines[2].starts_with("left: "), "{lines:?}");
        assert!(entries(&folder, Names::Ours).is_empty());
    }
}
