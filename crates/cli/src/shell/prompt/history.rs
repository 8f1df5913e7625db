//! The lines that were typed before, in a file: a line each, as redis-cli keeps them, so that both can share one.
//!
//! The file is `$REDISCLI_HISTFILE`, or one in the home directory; `/dev/null` means that there is to be none. Only a regular
//! file is taken: each line is appended to it, and when the shell starts one that has become long is replaced by its last lines.
//! A file that is there keeps its permissions; a new one is its owner's alone. The editor is given lines and never the file.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sleeve_disk::own;

/// The number of lines that are kept, as in redis-cli.
const LINES_MAX: usize = 100;

/// The permissions of a new file.
const MODE: u32 = 0o600;

/// The first line of files that versions before this one wrote, in which backslashes are doubled.
const ESCAPED_HEAD: &str = "#V2";

/// The file in which lines are kept.
#[derive(Debug)]
pub struct History {
    /// The file; none if no history is kept.
    file: Option<PathBuf>,
}

impl History {
    /// Returns the history of this user, and its lines. If there cannot be a history, returns no lines, and the reason.
    pub fn open() -> (Self, Vec<String>, Option<String>) {
        let Some(file) = file(std::env::var_os("REDISCLI_HISTFILE"), std::env::var_os("HOME")) else {
            return (Self { file: None }, Vec::new(), None);
        };
        match load(&file) {
            Ok(lines) => (Self { file: Some(file) }, lines, None),
            Err(error) => {
                let reason = format!("No history is kept: {}: {error}", file.display());
                (Self { file: None }, Vec::new(), Some(reason))
            }
        }
    }

    /// Keeps a line. If the home cannot be written to, only the history is lost.
    pub fn keep(&self, line: &str) {
        if let Some(file) = &self.file {
            // The next line tries again.
            _ = append(file, line);
        }
    }
}

/// Returns the file that the environment names.
fn file(named: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    match named.filter(|name| !name.is_empty()) {
        Some(name) if name == "/dev/null" => None,
        Some(name) => Some(name.into()),
        None => Some(PathBuf::from(home.filter(|home| !home.is_empty())?).join(".sleeve_history")),
    }
}

/// Returns the last lines of a file. A file that is far longer, or in an older form, is replaced by these lines.
fn load(file: &Path) -> io::Result<Vec<String>> {
    let text = match own::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read?,
    };
    let text = String::from_utf8_lossy(&text);
    let mut all: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    let is_escaped = all.first().is_some_and(|line| line == ESCAPED_HEAD);
    if is_escaped {
        all.remove(0);
        all.iter_mut().for_each(|line| *line = line.replace("\\\\", "\\"));
    }
    let lines = all.split_off(all.len().saturating_sub(LINES_MAX));
    if is_escaped || all.len() > LINES_MAX {
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        // If the file cannot be replaced, it is read as it is, and grows.
        _ = own::replace(file, text.as_bytes(), MODE);
    }
    Ok(lines)
}

fn append(file: &Path, line: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.append(true).create(true).mode(MODE);
    let mut file = own::open_or_create(&own::follow(file)?, options)?;
    file.write_all(format!("{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_null_device_and_no_home_mean_no_history() {
        let named = |name: &str, home: Option<&str>| file(Some(name.into()), home.map(Into::into));
        assert_eq!(named("/dev/null", Some("/me")), None);
        assert_eq!(named("mine", Some("/me")), Some("mine".into()));
        assert_eq!(named("", Some("/me")), Some("/me/.sleeve_history".into()));
        assert_eq!(named("", None), None);
    }

    #[test]
    fn lines_are_appended_and_a_long_or_older_file_is_shortened() {
        let folder = std::env::temp_dir().join(format!("sleeve-history-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("history");
        assert_eq!(load(&file).expect("none yet"), Vec::<String>::new());
        append(&file, r"GET a\nb").expect("appended");
        append(&file, "GET b").expect("appended");
        assert_eq!(load(&file).expect("two"), [r"GET a\nb", "GET b"]);
        assert_eq!(fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, MODE);
        fs::write(&file, "#V2\nGET a\\\\nb\n").expect("a file");
        assert_eq!(load(&file).expect("one"), [r"GET a\nb"]);
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "GET a\\nb\n");
        for number in 0..250 {
            append(&file, &format!("GET {number}")).expect("appended");
        }
        assert_eq!(load(&file).expect("the last").first().map(String::as_str), Some("GET 150"));
        assert_eq!(fs::read_to_string(&file).expect("it is there").lines().count(), LINES_MAX);
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
