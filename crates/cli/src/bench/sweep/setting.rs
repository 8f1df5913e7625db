//! The circumstances of a sweep (machine, day, command line), as sentences of its report.

use std::fs;
use std::process::Command;
use std::time::SystemTime;

/// Returns a sentence about the machine: its processors, and its kernel.
pub fn machine(processors: usize, servers: Option<&str>, generator: Option<&str>) -> String {
    let model = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let kernel = rustix::system::uname();
    format!(
        "{processors} CPU{}{}; servers on {}, the generator on {}. {} {}, {}.",
        if processors == 1 { "" } else { "s" },
        model.map_or_else(String::new, |(_, name)| format!(" ({})", name.trim())),
        servers.unwrap_or("all"),
        generator.unwrap_or("all"),
        kernel.sysname().to_string_lossy(),
        kernel.release().to_string_lossy(),
        kernel.machine().to_string_lossy(),
    )
}

/// Returns a sentence about the run: the day, the version, the commit of the repository if it ran in one, and the command
/// line.
pub fn run() -> String {
    let words: Vec<String> = std::env::args().skip(1).map(|word| quoted(&word)).collect();
    let commit = commit().map_or_else(String::new, |commit| format!(", commit {commit}"));
    let now = httpdate::fmt_http_date(SystemTime::now());
    format!("Made on {now} with sleeve {}{commit}: sleeve {}", env!("CARGO_PKG_VERSION"), words.join(" "))
}

/// Returns a word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./,:=+@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn commit() -> Option<String> {
    let asked = Command::new("git").args(["describe", "--always", "--dirty"]).output().ok()?;
    let text = String::from_utf8(asked.stdout).ok()?;
    (asked.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_a_shell_takes_them_and_the_machine_is_named() {
        assert_eq!((quoted("--cpu"), quoted("a b's"), quoted("")), ("--cpu".into(), "'a b'\\''s'".into(), "''".into()));
        let machine = machine(2, Some("0"), None);
        assert!(
            machine.starts_with("2 CPUs") && machine.contains("servers on 0, the generator on all. Linux "),
            "{machine}"
        );
        assert!(run().contains(" GMT with sleeve "));
    }
}
