//! The line editor's knowledge: completion of names and words, and hints of the arguments that may follow.
//!
//! Everything comes from wire's table and the arguments' trees. A hint is the rest of a command's syntax after the words that
//! were typed; it never asks the server.

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use sleeve_wire::commands::{self, Row};
use sleeve_wire::grammar::{self, Argument, Kind};

use super::input;
use crate::shell::help;

/// The helper that the editor calls while a line is typed.
#[derive(Clone, Copy, Debug)]
pub struct LineHelper {
    /// True if hints are shown.
    pub hints: bool,
}

impl Helper for LineHelper {}
impl Validator for LineHelper {}

impl Highlighter for LineHelper {
    fn highlight_hint<'h>(&self, hint: &'h str) -> std::borrow::Cow<'h, str> {
        format!("\x1b[90m{hint}\x1b[0m").into()
    }
}

impl Hinter for LineHelper {
    type Hint = String;

    fn hint(&self, line: &str, position: usize, _: &Context<'_>) -> Option<String> {
        if !self.hints || position < line.len() { None } else { hint(line) }
    }
}

impl Completer for LineHelper {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete(line.get(..position).unwrap_or(line)))
    }
}

/// Returns the arguments that may follow a line, with a leading space if the line has none at its end.
fn hint(line: &str) -> Option<String> {
    let words = input::split(line.as_bytes())?;
    let ends_in_space = line.ends_with(' ');
    let (row, used) = row_of(&words)?;
    let mut rest: Vec<Open> = grammar::arguments(row).iter().map(|argument| Open { argument, taken: 0 }).collect();
    for word in words.get(used..).unwrap_or_default() {
        consume(&mut rest, word);
    }
    let text = rest.iter().map(Open::text).collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return None;
    }
    Some(if ends_in_space { text } else { format!(" {text}") })
}

/// An argument that may still follow.
struct Open {
    argument: &'static Argument,
    /// The number of its words that were typed already; only an argument that may be repeated stays open after that.
    taken: usize,
}

impl Open {
    /// Returns the part of the argument that may follow: all of it, or the rest of this round and the next rounds.
    fn text(&self) -> String {
        let whole = self.argument.to_string();
        if self.taken == 0 {
            return whole;
        }
        let parts = &self.argument.children;
        let begun = parts.get(self.taken % parts.len().max(1)..).filter(|rest| rest.len() < parts.len());
        let mut words: Vec<String> = begun.unwrap_or_default().iter().map(Argument::to_string).collect();
        words.extend(whole.find('[').and_then(|start| whole.get(start..)).map(str::to_owned));
        words.join(" ")
    }
}

/// Counts a word as the argument that it stands for.
fn consume(rest: &mut Vec<Open>, word: &[u8]) {
    // Options stand in any order, so a word that is one of their tokens is looked for among all of them first.
    let option = rest.iter().position(|open| open.argument.optional && begins_with(open.argument, word));
    let Some(index) = option.or_else(|| rest.iter().position(|open| !open.argument.optional)) else { return };
    match rest.get_mut(index) {
        Some(open) if open.argument.multiple && !open.argument.optional => open.taken += 1,
        _ => _ = rest.remove(index),
    }
}

/// Returns whether a token that may begin the argument is this word.
fn begins_with(argument: &Argument, word: &[u8]) -> bool {
    match (argument.token, argument.kind) {
        (Some(token), _) => token.as_bytes().eq_ignore_ascii_case(word),
        (None, Kind::OneOf) => argument.children.iter().any(|child| begins_with(child, word)),
        (None, Kind::Block) => argument.children.first().is_some_and(|child| begins_with(child, word)),
        _ => false,
    }
}

/// Returns the row that the words begin with, and the number of words in its name.
pub(super) fn row_of(words: &[Vec<u8>]) -> Option<(&'static Row, usize)> {
    let row = commands::find(words.first()?)?;
    match words.get(1).and_then(|name| commands::find_sub(row.id, name)) {
        Some(sub) => Some((sub, 2)),
        None => Some((row, 1)),
    }
}

/// Returns the place where the completed text starts, and the candidates: names in the first places, option words behind.
fn complete(line: &str) -> (usize, Vec<String>) {
    let lower = line.to_ascii_lowercase();
    if let Some(topic) = lower.strip_prefix("help ") {
        let found = help::topics().filter(|name| starts(name, topic)).collect();
        return (line.len() - topic.len(), found);
    }
    let upper_case = !line.chars().next().is_some_and(|first| first.is_ascii_lowercase());
    let names: Vec<String> = help::topics().filter(|name| !name.starts_with('@') && starts(name, line)).collect();
    if !names.is_empty() {
        let cased = |name: String| if upper_case { name } else { name.to_ascii_lowercase() };
        return (0, names.into_iter().map(cased).collect());
    }
    let start = line.rfind(' ').map_or(0, |space| space + 1);
    let word = line.get(start..).unwrap_or_default();
    let Some((row, _)) = input::split(line.as_bytes()).and_then(|words| row_of(&words)) else {
        return (start, Vec::new());
    };
    let mut tokens = Vec::new();
    collect_tokens(grammar::arguments(row), &mut tokens);
    (start, tokens.into_iter().filter(|token| starts(token, word)).collect())
}

fn collect_tokens(arguments: &[Argument], tokens: &mut Vec<String>) {
    for argument in arguments {
        tokens.extend(argument.token.map(str::to_owned));
        collect_tokens(&argument.children, tokens);
    }
}

fn starts(text: &str, beginning: &str) -> bool {
    text.get(..beginning.len()).is_some_and(|head| head.eq_ignore_ascii_case(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_shrink_as_arguments_are_typed() {
        assert_eq!(hint("get").as_deref(), Some(" key"));
        assert_eq!(hint("GET "), Some("key".to_owned()));
        assert_eq!(hint("get k"), None);
        assert!(hint("set k v ").unwrap().contains("EX seconds"));
        assert!(!hint("set k v ex ").unwrap().contains("EX seconds"));
        assert_eq!(hint("mget a ").as_deref(), Some("[key ...]"));
        assert_eq!(hint("mset a ").as_deref(), Some("value [key value ...]"));
        assert_eq!(hint("mset a 1").as_deref(), Some(" [key value ...]"));
        assert_eq!(hint("nope"), None);
        assert_eq!(hint("get \"x"), None);
    }

    #[test]
    fn names_subcommands_and_tokens_complete() {
        assert!(complete("ge").1.contains(&"getrange".to_owned()));
        assert!(complete("GE").1.contains(&"GETRANGE".to_owned()));
        assert!(complete("config g").1.contains(&"config get".to_owned()));
        assert_eq!(complete("set k v KEEP"), (8, vec!["KEEPTTL".to_owned()]));
        assert_eq!(complete("help @tr"), (5, vec!["@transactions".to_owned()]));
        assert!(complete("nope x").1.is_empty());
    }
}
