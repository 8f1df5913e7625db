//! HELP of every container: its subcommands with their arguments and summaries, straight from the command table.

use sleeve_wire::commands::{Command, Row};
use sleeve_wire::grammar;

use crate::context::Cx;
use crate::request::error::Outcome;

/// CLIENT HELP, COMMAND HELP, CONFIG HELP, MEMORY HELP, OBJECT HELP
pub fn help(cx: &mut Cx<'_>, container: Command) -> Outcome {
    let row = container.row();
    let mut entries = Vec::new();
    if row.takes(1) {
        entries.push(("(no subcommand)".to_owned(), row.docs.summary));
    }
    entries.extend(row.subcommands().filter(|sub| sub.name != "help").map(|sub| (form(sub), sub.docs.summary)));
    write(cx, row.name, &entries);
    Ok(())
}

/// Writes help in Redis's form: a headline, then for each subcommand a line with its form and an indented line about it, HELP
/// itself last.
pub fn write(cx: &mut Cx<'_>, container: &str, entries: &[(String, &str)]) {
    let mut reply = cx.reply();
    reply.array(2 * entries.len() + 3);
    let headline = format!("{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", container.to_uppercase());
    reply.simple(&headline);
    for (form, about) in entries {
        reply.simple(form);
        reply.simple(&format!("    {about}"));
    }
    reply.simple("HELP");
    reply.simple("    Prints this help.");
}

fn form(sub: &Row) -> String {
    let arguments = grammar::syntax(sub);
    format!("{} {arguments}", sub.name.to_uppercase()).trim_end().to_owned()
}
