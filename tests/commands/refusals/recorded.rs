//! The file of answers: for each state and position the answers, and which commands are given each.
//!
//! `'{}'` stands for the command's own name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

use sleeve_tests::Kind;
use sleeve_tests::server::workspace_root;

use super::states;

/// The answers by state and position, then by command.
pub type Answers = BTreeMap<(&'static str, &'static str), BTreeMap<String, String>>;

/// The width of a line that names commands, in columns.
const WIDTH: usize = 120;

fn path() -> PathBuf {
    workspace_root().join("tests/commands/refusals/recorded.txt")
}

/// Adds the answers of one server to those of the servers before it: its answers count where it is the reference, and where
/// no other server has one.
pub fn merge(all: &mut Answers, more: Answers, kind: Kind) {
    for (place, answers) in more {
        let known = all.entry(place).or_default();
        for (name, answer) in answers {
            if !states::is_of_use(&place, &name, kind) {
                continue;
            }
            let answer = answer.replace("Valkey", "Redis");
            if states::reference(&place, &name) == kind || !known.contains_key(&name) {
                known.insert(name, answer);
            }
        }
    }
}

/// Writes the file.
pub fn write(answers: &Answers) {
    let mut text = String::from(
        "# Answers of Redis 7.0, Redis 8 and Valkey; see tests/commands/refusals/mod.rs. A line that begins with `=` is an answer, the lines\n\
         # below it name the requests that get it; * are all the others of the first list. The answer to ? is not known.\n",
    );
    let all: BTreeSet<&str> = answers.values().flat_map(BTreeMap::keys).map(String::as_str).collect();
    text.push_str("\n== all\n");
    list(&mut text, all.iter().copied());
    for ((state, position), of_position) in answers {
        _ = write!(text, "\n== {state} | {position}\n");
        let mut by_answer: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, answer) in of_position {
            by_answer.entry(answer).or_default().push(name);
        }
        let most = by_answer.iter().max_by_key(|(_, names)| names.len()).map(|(answer, _)| *answer);
        for (answer, names) in by_answer {
            _ = writeln!(text, "= {answer}");
            if Some(answer) == most { text.push_str("  *\n") } else { list(&mut text, names.into_iter()) }
        }
        let unknown: Vec<&str> = all.iter().copied().filter(|name| !of_position.contains_key(*name)).collect();
        if !unknown.is_empty() {
            text.push_str("= ?\n");
            list(&mut text, unknown.into_iter());
        }
    }
    std::fs::write(path(), text).expect("the file can be written");
}

/// Appends names in lines.
fn list<'a>(text: &mut String, names: impl Iterator<Item = &'a str>) {
    let mut line = String::new();
    for name in names {
        if line.len() + name.len() >= WIDTH {
            _ = writeln!(text, " {line}");
            line.clear();
        }
        _ = write!(line, " {name}");
    }
    _ = writeln!(text, " {line}");
}

/// Reads the file.
pub fn read() -> Answers {
    let text = std::fs::read_to_string(path()).expect("the file is there");
    let (mut answers, mut place, mut answer) = (Answers::new(), ALL, "");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(title) = line.strip_prefix("== ") {
            place = if title == "all" { ALL } else { states::place(title).expect("a state and a position") };
        } else if let Some(said) = line.strip_prefix("= ") {
            answer = said;
        } else {
            let names = line.split_ascii_whitespace().map(|name| (name.to_owned(), answer.to_owned()));
            answers.entry(place).or_default().extend(names);
        }
    }
    let all = answers.remove(&ALL).unwrap_or_default();
    for of_position in answers.values_mut() {
        let others = of_position.remove("*").unwrap_or_default();
        for name in all.keys() {
            of_position.entry(name.clone()).or_insert_with(|| others.clone());
        }
        of_position.retain(|_, answer| answer != "?");
    }
    answers
}

/// The state and position under which the list of all requests stands.
const ALL: (&str, &str) = ("", "");
