//! COMMAND DOCS: the purpose of each command and the arguments that it takes.
//!
//! The shape is Redis 7.0's, without the history of changes, which the command table does not have; the sentences are the
//! command table's.

use sleeve_wire::commands::Row;
use sleeve_wire::grammar::{self, Argument};
use sleeve_wire::reply::Writer;

use super::top_level;
use crate::context::Cx;
use crate::request::Request;
use crate::request::error::Outcome;

/// COMMAND DOCS \[command-name ...\]
pub fn docs(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let names = request.args.from(2);
    let rows: Vec<&Row> = match names.is_empty() {
        true => top_level(&cx.engine.names).collect(),
        false => names.iter().filter_map(|name| cx.engine.names.find_full(name)).collect(),
    };
    let reply = &mut cx.reply();
    reply.map(rows.len());
    rows.into_iter().for_each(|row| entry(reply, row));
    Ok(())
}

/// Writes a command's name and its documentation.
fn entry(reply: &mut Writer<'_>, row: &Row) {
    let arguments = grammar::arguments(row);
    let subcommands = row.subcommands().count();
    let flags = [(row.docs.deprecated.is_some(), "deprecated"), (row.docs.system, "syscmd")];
    let flags: Vec<_> = flags.into_iter().filter_map(|(is_set, name)| is_set.then_some(name)).collect();
    let optional = [!flags.is_empty(), !arguments.is_empty(), subcommands != 0].map(usize::from);
    reply.bulk(row.full_name.as_bytes());
    reply.map(
        3 + usize::from(!row.docs.complexity.is_empty())
            + optional.iter().sum::<usize>()
            + 2 * usize::from(row.docs.deprecated.is_some()),
    );
    text(reply, "summary", row.docs.summary);
    text(reply, "since", row.docs.since);
    text(reply, "group", row.group.name());
    if !row.docs.complexity.is_empty() {
        text(reply, "complexity", row.docs.complexity);
    }
    if !flags.is_empty() {
        reply.bulk(b"doc_flags");
        words(reply, &flags);
    }
    if let Some(deprecated) = &row.docs.deprecated {
        text(reply, "deprecated_since", deprecated.since);
        text(reply, "replaced_by", deprecated.instead);
    }
    if !arguments.is_empty() {
        list(reply, arguments);
    }
    if subcommands != 0 {
        reply.bulk(b"subcommands");
        reply.map(subcommands);
        row.subcommands().for_each(|sub| entry(reply, sub));
    }
}

/// Writes the arguments of a command or of a group of arguments.
fn list(reply: &mut Writer<'_>, arguments: &[Argument]) {
    reply.bulk(b"arguments");
    reply.array(arguments.len());
    arguments.iter().for_each(|one| argument(reply, one));
}

fn argument(reply: &mut Writer<'_>, argument: &Argument) {
    let flags =
        [(argument.optional, "optional"), (argument.multiple, "multiple"), (argument.multiple_token, "multiple_token")];
    let flags: Vec<_> = flags.into_iter().filter_map(|(is_set, name)| is_set.then_some(name)).collect();
    let texts = [("token", argument.token), ("since", argument.since), ("deprecated_since", argument.deprecated_since)];
    let texts: Vec<_> = texts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let optional = [argument.key_spec.is_some(), !flags.is_empty(), !argument.children.is_empty()].map(usize::from);
    reply.map(2 + texts.len() + optional.iter().sum::<usize>());
    text(reply, "name", &argument.name);
    text(reply, "type", argument.kind.name());
    if let Some(spec) = argument.key_spec {
        reply.bulk(b"key_spec_index");
        reply.integer(i64::from(spec));
    }
    texts.into_iter().for_each(|(name, value)| text(reply, name, value));
    if !flags.is_empty() {
        reply.bulk(b"flags");
        words(reply, &flags);
    }
    if !argument.children.is_empty() {
        list(reply, &argument.children);
    }
}

fn text(reply: &mut Writer<'_>, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

fn words(reply: &mut Writer<'_>, words: &[&str]) {
    reply.set(words.len());
    words.iter().for_each(|word| reply.simple(word));
}
