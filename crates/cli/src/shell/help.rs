//! `help` inside the shell: a command's form, a group's commands, or the shell's own commands.
//!
//! All facts come from wire's table. Colours are used only where the output is a terminal.

use std::io::{IsTerminal, stdout};

use sleeve_wire::commands::{self, Row};
use sleeve_wire::grammar;

const GENERAL: &str = "\
To get help about commands type:
      \"help @<group>\" to get a list of commands in <group>
      \"help <command>\" for help on <command>
      \"help <tab>\" to get a list of possible help topics
      \"quit\" to exit

Typed before a command, a number repeats it. Besides the server's commands the shell knows
      \"connect <host> <port>\" to go on with another server
      \"clear\" to clear the screen
      \":set hints\" and \":set nohints\" to show the arguments that may follow, or not
";

/// Returns the names of all topics: commands, subcommands with their container, and groups.
pub fn topics() -> impl Iterator<Item = String> {
    let mut groups: Vec<&str> = commands::all().iter().map(|row| row.group.name()).collect();
    groups.sort_unstable();
    groups.dedup();
    commands::all().iter().map(full_name).chain(groups.into_iter().map(|group| format!("@{group}")))
}

/// Returns the command's name as it is typed, in upper case.
pub fn full_name(row: &Row) -> String {
    row.full_name.replace('|', " ").to_ascii_uppercase()
}

/// Returns the text that `help` followed by these words prints.
pub fn text(words: &[Vec<u8>]) -> String {
    let topic = words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ");
    if topic.is_empty() {
        return format!("sleeve {}\n{GENERAL}", env!("CARGO_PKG_VERSION"));
    }
    let mut out = String::new();
    if let Some(group) = topic.strip_prefix('@') {
        for row in commands::all().iter().filter(|row| row.group.name().eq_ignore_ascii_case(group)) {
            out.push_str(&entry(row, false));
        }
    } else {
        for row in commands::all().iter().filter(|row| full_name(row).eq_ignore_ascii_case(&topic)) {
            out.push_str(&entry(row, true));
        }
    }
    out.push('\n');
    out
}

fn entry(row: &Row, with_group: bool) -> String {
    let colour = |code: &str| if stdout().is_terminal() { format!("\x1b[{code}m") } else { String::new() };
    let (bold, grey, yellow, plain) = (colour("1"), colour("90"), colour("33"), colour("0"));
    let mut out =
        format!("\n  {bold}{}{plain} {grey}{}{plain}\n", full_name(row), grammar::syntax(row)).replace(" \n", "\n");
    let mut line = |name: &str, text: &str| out.push_str(&format!("  {yellow}{name}:{plain} {text}\n"));
    line("summary", row.docs.summary);
    line("since", row.docs.since);
    if with_group {
        line("group", row.group.name());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_its_four_lines() {
        let help = text(&[b"get".to_vec()]);
        assert!(help.starts_with("\n  GET key\n  summary: ") && help.ends_with("  group: string\n\n"), "{help}");
    }

    #[test]
    fn groups_subcommands_and_unknown_topics() {
        assert!(text(&[b"@transactions".to_vec()]).contains("  EXEC\n"));
        assert!(text(&[b"client".to_vec(), b"list".to_vec()]).contains("CLIENT LIST"));
        assert_eq!(text(&[b"nope".to_vec()]), "\n");
        assert!(topics().any(|topic| topic == "@string") && topics().any(|topic| topic == "CONFIG GET"));
    }
}
