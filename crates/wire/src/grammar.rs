//! The arguments of a command as a tree, parsed from the compact text in its row.
//!
//! COMMAND DOCS, the command line's hints and completion, and the generator of random commands in the tests read the tree.
//! Commands themselves do not: they parse their arguments by hand. A text is parsed once, at its first use.
//!
//! # The text
//!
//! ```text
//! key value seconds:integer    arguments; the type after the last colon is `string` unless given, but an argument that
//!                              is called `key` or `pattern` is one
//! destination:key#1            a key, and the number of its key specification when it is not the first
//! EX seconds:integer           a word (a token) that precedes an argument
//! GET                          a token by itself, called `get`; `other=GET` gives it another name
//! "~"                          a token that is no upper-case word
//! name=<NX|XX>                 one of several
//! name=<key value>             a block: one after the other
//! [x]                          optional
//! x... and TOKEN x...+         one or more; with `+` the token is repeated as well
//! x@6.2.0 and x!7.0.0          since, and deprecated since, a version of Redis
//! ```
//!
//! Suffixes stand in the order of this list. Static data after the first use; any thread.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use crate::commands::{self, Row};

/// The kind of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string of any bytes.
    String,
    /// A signed 64-bit integer.
    Integer,
    /// A floating-point number.
    Double,
    /// A key's name.
    Key,
    /// A glob pattern.
    Pattern,
    /// Seconds or milliseconds since 1970.
    UnixTime,
    /// A word that stands for itself.
    PureToken,
    /// A choice: exactly one of the children is given.
    OneOf,
    /// A sequence: all children are given, in order.
    Block,
}

impl Kind {
    /// Returns the type's name in COMMAND DOCS.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Double => "double",
            Kind::Key => "key",
            Kind::Pattern => "pattern",
            Kind::UnixTime => "unix-time",
            Kind::PureToken => "pure-token",
            Kind::OneOf => "oneof",
            Kind::Block => "block",
        }
    }

    fn named(name: &str) -> Option<Kind> {
        [Kind::String, Kind::Integer, Kind::Double, Kind::Key, Kind::Pattern, Kind::UnixTime]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// An argument, or a group of arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The argument's name.
    pub name: Cow<'static, str>,
    /// The argument's kind.
    pub kind: Kind,
    /// The word that precedes the argument, or, for a token by itself, the word that it is.
    pub token: Option<&'static str>,
    /// For a key, or a pattern of keys: the number of its key specification.
    pub key_spec: Option<u8>,
    /// The version of Redis that brought the argument, if later than the command's.
    pub since: Option<&'static str>,
    /// The version of Redis since which it is deprecated.
    pub deprecated_since: Option<&'static str>,
    /// True if the argument may be left out.
    pub optional: bool,
    /// True if the argument may be given more than once.
    pub multiple: bool,
    /// True if the token precedes each repetition of the argument, and not only the first.
    pub multiple_token: bool,
    /// The parts of a group.
    pub children: Vec<Argument>,
}

/// The arguments of every row, by the number of its command.
static ARGUMENTS: LazyLock<Vec<Vec<Argument>>> =
    LazyLock::new(|| commands::all().iter().map(|row| parse(row.docs.grammar).unwrap_or_default()).collect());

/// Returns the arguments that a command takes after its name.
pub fn arguments(row: &Row) -> &'static [Argument] {
    ARGUMENTS.get(row.id as usize).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the arguments of a command on one line, as in `key seconds [NX|XX|GT|LT]`.
pub fn syntax(row: &Row) -> String {
    arguments(row).iter().map(Argument::to_string).collect::<Vec<_>>().join(" ")
}

/// Parses a grammar; `None` when it is not well-formed.
pub fn parse(text: &'static str) -> Option<Vec<Argument>> {
    let mut reader = Reader { rest: text };
    let sequence = reader.sequence()?;
    reader.rest.is_empty().then_some(sequence)
}

/// Characters that end a word, besides three dots.
const STOPS: [char; 12] = [' ', '[', ']', '<', '>', '|', '=', '#', '@', '!', '+', '"'];

struct Reader {
    rest: &'static str,
}

impl Reader {
    /// Skips `mark` if it comes next, and returns whether it did.
    fn take(&mut self, mark: &str) -> bool {
        let after = self.rest.strip_prefix(mark);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn word(&mut self) -> &'static str {
        let stop = self.rest.find(STOPS).unwrap_or(self.rest.len());
        let end = self.rest.find("...").map_or(stop, |dots| dots.min(stop));
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Reads the items up to the end of the text or of the group.
    fn sequence(&mut self) -> Option<Vec<Argument>> {
        let mut items = Vec::new();
        loop {
            self.rest = self.rest.trim_start();
            if self.rest.is_empty() || self.rest.starts_with([']', '>', '|']) {
                return Some(items);
            }
            items.push(self.item()?);
        }
    }

    fn item(&mut self) -> Option<Argument> {
        if self.take("[") {
            let item = self.element()?;
            return self.take("]").then_some(Argument { optional: true, ..item });
        }
        self.element()
    }

    fn element(&mut self) -> Option<Argument> {
        let mut argument = match self.token() {
            Some(token) => {
                let before = self.rest;
                self.rest = self.rest.trim_start();
                if before != self.rest && self.argument_follows() {
                    Argument { token: Some(token), ..self.argument()? }
                } else {
                    self.rest = before;
                    pure_token(Cow::Owned(token.to_ascii_lowercase()), token)
                }
            }
            None => self.argument()?,
        };
        self.suffixes(&mut argument);
        Some(argument)
    }

    /// Reads a token, if one comes next: a quoted word, or one of upper-case letters.
    fn token(&mut self) -> Option<&'static str> {
        let before = self.rest;
        if self.take("\"") {
            let (token, after) = self.rest.split_once('"')?;
            self.rest = after;
            return Some(token);
        }
        let word = self.word();
        let is_token =
            word.contains(|c: char| c.is_ascii_uppercase()) && !word.contains(|c: char| c.is_ascii_lowercase());
        if is_token {
            return Some(word);
        }
        self.rest = before;
        None
    }

    /// Returns whether an argument that belongs to the token before it comes next, and not another token.
    fn argument_follows(&self) -> bool {
        let mut ahead = Reader { rest: self.rest };
        if !ahead.rest.starts_with(|c: char| c.is_ascii_alphanumeric()) || ahead.token().is_some() {
            return false;
        }
        // `name=TOKEN` is a token by itself.
        ahead.word();
        !ahead.take("=") || ahead.rest.starts_with('<')
    }

    /// Reads a named value, a named group or a token under another name.
    fn argument(&mut self) -> Option<Argument> {
        let word = self.word();
        if word.is_empty() {
            return None;
        }
        if !self.take("=") {
            return Some(self.value(word));
        }
        if !self.take("<") {
            return Some(pure_token(Cow::Borrowed(word), self.token()?));
        }
        let mut children = self.sequence()?;
        let mut kind = Kind::Block;
        while self.take("|") {
            kind = Kind::OneOf;
            let mut alternative = self.sequence()?;
            children.append(&mut alternative);
        }
        let group = Argument { children, ..Argument::new(Cow::Borrowed(word), kind) };
        self.take(">").then_some(group)
    }

    fn value(&mut self, word: &'static str) -> Argument {
        let typed = word.rsplit_once(':').and_then(|(name, kind)| Some((name, Kind::named(kind)?)));
        let (name, kind) = typed.unwrap_or(match word {
            "key" => (word, Kind::Key),
            "pattern" => (word, Kind::Pattern),
            _ => (word, Kind::String),
        });
        let spec = if self.take("#") { self.word().parse().ok() } else { None };
        let key_spec = if kind == Kind::Key { spec.or(Some(0)) } else { spec };
        Argument { key_spec, ..Argument::new(Cow::Borrowed(name), kind) }
    }

    fn suffixes(&mut self, argument: &mut Argument) {
        argument.multiple = self.take("...");
        argument.multiple_token = self.take("+");
        argument.since = self.take("@").then(|| self.word());
        argument.deprecated_since = self.take("!").then(|| self.word());
    }
}

fn pure_token(name: Cow<'static, str>, token: &'static str) -> Argument {
    Argument { token: Some(token), ..Argument::new(name, Kind::PureToken) }
}

impl Argument {
    fn new(name: Cow<'static, str>, kind: Kind) -> Argument {
        Argument {
            name,
            kind,
            token: None,
            key_spec: None,
            since: None,
            deprecated_since: None,
            optional: false,
            multiple: false,
            multiple_token: false,
            children: Vec::new(),
        }
    }

    /// Writes the argument once, without its own token.
    fn write_once(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = match self.kind {
            Kind::OneOf => "|",
            Kind::Block => " ",
            Kind::PureToken => return Ok(()),
            _ => return f.write_str(&self.name),
        };
        // Square brackets around an optional choice are enough to hold it together.
        let bare = self.kind == Kind::Block || (self.optional && self.token.is_none() && !self.multiple);
        f.write_str(if bare { "" } else { "<" })?;
        for (index, child) in self.children.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { separator })?;
            write!(f, "{child}")?;
        }
        f.write_str(if bare { "" } else { ">" })
    }

    fn write_token(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.token {
            Some(token) if self.kind == Kind::PureToken => f.write_str(token),
            Some(token) => write!(f, "{token} "),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.optional { "[" } else { "" })?;
        self.write_token(f)?;
        self.write_once(f)?;
        if self.multiple {
            f.write_str(" [")?;
            if self.multiple_token {
                self.write_token(f)?;
            }
            self.write_once(f)?;
            f.write_str(" ...]")?;
        }
        f.write_str(if self.optional { "]" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_parses_and_names_existing_key_specifications() {
        fn check(row: &Row, argument: &Argument) {
            assert!(argument.kind != Kind::Key || argument.key_spec.is_some(), "{}", row.full_name);
            assert!(argument.key_spec.is_none_or(|spec| usize::from(spec) < row.keys.len()), "{}", row.full_name);
            assert!(argument.kind != Kind::OneOf || argument.children.len() > 1, "{}", row.full_name);
            argument.children.iter().for_each(|child| check(row, child));
        }
        for row in commands::all() {
            let tree = parse(row.docs.grammar).unwrap_or_else(|| panic!("{}: {}", row.full_name, row.docs.grammar));
            tree.iter().for_each(|argument| check(row, argument));
            assert_eq!(tree, arguments(row));
        }
    }

    #[test]
    fn syntax_lines_read_as_manuals_do() {
        let line = |name: &str| commands::find_full(name.as_bytes()).map(syntax).unwrap_or_default();
        assert_eq!(line("expire"), "key seconds [NX|XX|GT|LT]");
        assert_eq!(line("mset"), "key value [key value ...]");
        assert_eq!(line("lcs"), "key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]");
        assert_eq!(
            line("set"),
            "key value [NX|XX|IFEQ ifeq-value|IFNE ifne-value|IFDEQ ifdeq-digest|IFDNE ifdne-digest] [GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]"
        );
        assert_eq!(line("bitfield_ro"), "key [GET encoding offset [GET encoding offset ...]]");
        assert_eq!(line("client|reply"), "<ON|OFF|SKIP>");
        assert_eq!(line("client|list"), "[TYPE <NORMAL|MASTER|REPLICA|PUBSUB>] [ID client-id [client-id ...]]");
        assert_eq!(line("client|kill").split('|').next(), Some("<ip:port"));
    }

    #[test]
    fn every_part_of_the_notation_is_read() {
        let tree = parse(r#"[trim=<MAXLEN|MINID>...@1.0.0!2.0.0] "~" n:double same=ID k:key#2 A b=<c d>...+"#).unwrap();
        assert!(parse("trim=<A").is_none() && parse("[a").is_none() && parse("a]").is_none() && parse("a=").is_none());
        assert_eq!(tree.len(), 5);
        assert_eq!((tree[1].token, &*tree[1].name, tree[1].kind), (Some("~"), "n", Kind::Double));
        assert_eq!((tree[2].token, &*tree[2].name, tree[2].kind), (Some("ID"), "same", Kind::PureToken));
        assert_eq!((tree[3].key_spec, &*tree[3].name), (Some(2), "k"));
        assert_eq!(
            (tree[4].token, tree[4].kind, tree[4].multiple, tree[4].multiple_token),
            (Some("A"), Kind::Block, true, true)
        );
    }
}
