//! COMMAND and its subcommands: the command table as replies.
//!
//! Replies have the shape and the order of Redis 7.0's, so that clients that build themselves from COMMAND find the entries
//! that they look for. Only the order of the commands is the command table's; Redis has that of a hash table. The text of
//! COMMAND DOCS is in `docs`.

pub mod docs;
pub mod help;

use sleeve_wire::commands::{Begin, Categories, Find, Flags, KeyFlags, KeySpec, Row};
use sleeve_wire::number;
use sleeve_wire::pattern;
use sleeve_wire::reply::Writer;
use sleeve_wire::request::Args;

use crate::context::Cx;
use crate::request::Request;
use crate::request::error::{Error, Outcome};
use crate::request::renamed_commands::RenamedCommands;

/// COMMAND
pub fn command(cx: &mut Cx<'_>) -> Outcome {
    let names = &cx.engine.names;
    let reply = &mut cx.reply();
    reply.array(top_level(names).count());
    top_level(names).for_each(|row| describe(reply, row));
    Ok(())
}

/// COMMAND COUNT
pub fn count(cx: &mut Cx<'_>) -> Outcome {
    let count = top_level(&cx.engine.names).count();
    cx.reply().integer(count as i64);
    Ok(())
}

/// COMMAND INFO \[command-name ...\]
pub fn info(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let names = request.args.from(2);
    if names.is_empty() {
        return command(cx);
    }
    let known = &cx.engine.names;
    let reply = &mut cx.reply();
    reply.array(names.len());
    for name in names {
        match known.find_full(name) {
            Some(row) => describe(reply, row),
            None => reply.null(),
        }
    }
    Ok(())
}

/// COMMAND LIST \[FILTERBY MODULE module-name|ACLCAT category|PATTERN pattern\]
pub fn list(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let filter = match request.len() {
        2 => ListFilter::None,
        5 if request.arg(2).eq_ignore_ascii_case(b"filterby") => {
            ListFilter::parse(request.arg(3), request.arg(4)).ok_or(Error::SYNTAX)?
        }
        _ => return Err(Error::SYNTAX),
    };
    let passed: Vec<_> = cx.engine.names.rows().filter(|row| filter.passes(row)).collect();
    let mut reply = cx.reply();
    reply.array(passed.len());
    passed.iter().for_each(|row| reply.bulk(row.full_name.as_bytes()));
    Ok(())
}

/// COMMAND GETKEYS command \[arg ...\]
pub fn get_keys(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let keys = keys_of(&cx.engine.names, request)?;
    let mut reply = cx.reply();
    reply.array(keys.len());
    keys.iter().for_each(|(key, _)| reply.bulk(key));
    Ok(())
}

/// COMMAND GETKEYSANDFLAGS command \[arg ...\]
pub fn get_keys_and_flags(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let keys = keys_of(&cx.engine.names, request)?;
    let mut reply = cx.reply();
    reply.array(keys.len());
    for (key, flags) in keys {
        reply.array(2);
        reply.bulk(key);
        key_flags(&mut reply, flags);
    }
    Ok(())
}

/// Returns the commands that are no subcommands.
pub fn top_level(names: &RenamedCommands) -> impl Iterator<Item = &'static Row> {
    names.rows().filter(|row| row.parent.is_none())
}

enum ListFilter<'a> {
    None,
    /// Commands of a module: there are no modules.
    Module,
    Category(Option<Categories>),
    Pattern(&'a [u8]),
}

impl<'a> ListFilter<'a> {
    fn parse(kind: &[u8], value: &'a [u8]) -> Option<Self> {
        match kind.to_ascii_lowercase().as_slice() {
            b"module" => Some(Self::Module),
            b"aclcat" => Some(Self::Category(Categories::named(value))),
            b"pattern" => Some(Self::Pattern(value)),
            _ => None,
        }
    }

    fn passes(&self, row: &Row) -> bool {
        match self {
            Self::None => true,
            Self::Module => false,
            Self::Category(category) => category.is_some_and(|category| row.categories.contains(category)),
            Self::Pattern(glob) => pattern::matches(glob, row.full_name.as_bytes(), true),
        }
    }
}

/// Returns the keys of the command line that follows GETKEYS or GETKEYSANDFLAGS, each with the access that the command would
/// make.
fn keys_of<'a>(names: &RenamedCommands, request: Request<'a>) -> Result<Vec<(&'a [u8], KeyFlags)>, Error> {
    let args = request.args.from(2);
    let row = names.find_line(args).ok_or(Error::fixed("ERR Invalid command specified"))?;
    if row.keys.is_empty() {
        return Err(Error::fixed("ERR The command has no key arguments"));
    }
    if !row.takes(args.len()) {
        return Err(Error::fixed("ERR Invalid number of arguments specified for command"));
    }
    let keys: Vec<_> = row.key_uses(args).filter_map(|(index, flags)| Some((args.get(index)?, flags))).collect();
    if counts_more_keys(row, args) || keys.is_empty() && !row.flags.contains(Flags::NO_MANDATORY_KEYS) {
        return Err(Error::fixed("ERR Invalid arguments specified for command"));
    }
    Ok(keys)
}

/// Returns whether the number of keys that a command line states is larger than its number of words, or is no valid number.
fn counts_more_keys(row: &Row, args: Args<'_>) -> bool {
    row.keys.iter().any(|spec| {
        let (Begin::Index(begin), Find::Count { count, first, step }) = (spec.begin, spec.find) else { return false };
        let (begin, count, first) = (usize::from(begin), usize::from(count), usize::from(first));
        let keys = args.get(begin + count).and_then(number::parse_i64).and_then(|keys| usize::try_from(keys).ok());
        let is_none = keys == Some(0) && !row.flags.contains(Flags::NO_MANDATORY_KEYS);
        let words = args.len().saturating_sub(begin + first);
        is_none || keys.is_none_or(|keys| keys.saturating_mul(usize::from(step)) > words)
    })
}

/// Writes one command as COMMAND INFO shows it.
fn describe(reply: &mut Writer<'_>, row: &Row) {
    let (first, last, step) = row.legacy_range();
    reply.array(10);
    reply.bulk(row.full_name.as_bytes());
    reply.integer(i64::from(row.arity));
    let is_shown = |name: &&str| !["may_replicate", "protected"].contains(name);
    words(reply, "", row.flags.names().filter(is_shown));
    reply.integer(first);
    reply.integer(last);
    reply.integer(step);
    words(reply, "@", row.categories.names());
    reply.set(row.tips.len());
    row.tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    reply.set(row.keys.len());
    row.keys.iter().for_each(|spec| key_spec(reply, spec));
    match row.subcommands().count() {
        // As in Redis: a set if there are none, an array otherwise.
        0 => reply.set(0),
        count => reply.array(count),
    }
    row.subcommands().for_each(|sub| describe(reply, sub));
}

/// Writes a set of words, as simple strings.
fn words(reply: &mut Writer<'_>, prefix: &str, words: impl Iterator<Item = &'static str> + Clone) {
    reply.set(words.clone().count());
    words.for_each(|word| reply.simple(&format!("{prefix}{word}")));
}

fn key_flags(reply: &mut Writer<'_>, flags: KeyFlags) {
    words(reply, "", flags.names());
}

fn key_spec(reply: &mut Writer<'_>, spec: &KeySpec) {
    reply.map(3 + usize::from(!spec.notes.is_empty()));
    if !spec.notes.is_empty() {
        reply.bulk(b"notes");
        reply.bulk(spec.notes.as_bytes());
    }
    reply.bulk(b"flags");
    key_flags(reply, spec.flags);
    reply.bulk(b"begin_search");
    match spec.begin {
        Begin::Index(index) => kind_and_spec(reply, "index", &[("index", i64::from(index))]),
        Begin::Keyword(word, from) => {
            kind(reply, "keyword", 2);
            reply.bulk(b"keyword");
            reply.bulk(word.as_bytes());
            pair(reply, "startfrom", i64::from(from));
        }
        Begin::Unknown => kind_and_spec(reply, "unknown", &[]),
    }
    reply.bulk(b"find_keys");
    match spec.find {
        Find::Range { last, step, limit } => {
            let spec = [("lastkey", i64::from(last)), ("keystep", i64::from(step)), ("limit", i64::from(limit))];
            kind_and_spec(reply, "range", &spec);
        }
        Find::Count { count, first, step } => {
            let spec = [("keynumidx", i64::from(count)), ("firstkey", i64::from(first)), ("keystep", i64::from(step))];
            kind_and_spec(reply, "keynum", &spec);
        }
        Find::Unknown => kind_and_spec(reply, "unknown", &[]),
    }
}

fn kind_and_spec(reply: &mut Writer<'_>, name: &str, spec: &[(&str, i64)]) {
    kind(reply, name, spec.len());
    spec.iter().for_each(|(name, value)| pair(reply, name, *value));
}

/// Writes the type of a search and the head of its specification; `len` pairs follow.
fn kind(reply: &mut Writer<'_>, name: &str, len: usize) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(name.as_bytes());
    reply.bulk(b"spec");
    reply.map(len);
}

fn pair(reply: &mut Writer<'_>, name: &str, value: i64) {
    reply.bulk(name.as_bytes());
    reply.integer(value);
}
