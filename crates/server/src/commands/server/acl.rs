//! ACL: commands that make, show, test, save and load users and their permissions.
//!
//! The meaning of a user and of its rules is in `crate::acl`. This module applies a change to the clients: those of a user
//! that was removed or loaded anew are closed, all others notice the change at their next request.

use sleeve_wire::commands::{self, Categories};
use sleeve_wire::number;
use sleeve_wire::reply::Writer;

use crate::acl;
use crate::acl::{Changed, Entry, Selector};
use crate::commands::connection::client;
use crate::config::Opt;
use crate::context::{Cx, permission};
use crate::host::dice::secret_bytes;
use crate::host::log;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// ACL WHOAMI
pub fn whoami(cx: &mut Cx<'_>) -> Outcome {
    let name = cx.state.login.user.name.clone();
    cx.reply().bulk(&name);
    Ok(())
}

/// ACL USERS
pub fn users(cx: &mut Cx<'_>) -> Outcome {
    let users = cx.engine.acl.all();
    let mut reply = cx.reply();
    reply.array(users.len());
    users.iter().for_each(|user| reply.bulk(&user.name));
    Ok(())
}

/// ACL LIST
pub fn list(cx: &mut Cx<'_>) -> Outcome {
    let users = cx.engine.acl.all();
    let mut reply = cx.reply();
    reply.array(users.len());
    users.iter().for_each(|user| reply.bulk(&user.describe()));
    Ok(())
}

/// ACL GETUSER username
pub fn getuser(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let Some(user) = cx.engine.acl.get(request.arg(2)) else {
        cx.reply().null();
        return Ok(());
    };
    let mut reply = cx.reply();
    let is_bound = |selector: &Selector| usize::from(selector.databases.is_some());
    let (root, others) = user.selectors().split_at(1);
    reply.map(6 + root.iter().map(is_bound).sum::<usize>());
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords().len());
    user.passwords().for_each(|hash| reply.bulk(hash));
    root.iter().for_each(|root| write_selector(&mut reply, root));
    reply.bulk(b"selectors");
    reply.array(others.len());
    for selector in others {
        reply.map(3 + is_bound(selector));
        write_selector(&mut reply, selector);
    }
    Ok(())
}

fn write_selector(reply: &mut Writer<'_>, selector: &Selector) {
    let parts = [
        ("commands", selector.commands.describe()),
        ("keys", selector.describe_keys()),
        ("channels", selector.describe_channels()),
    ];
    for (name, rules) in parts {
        reply.bulk(name.as_bytes());
        reply.bulk(&rules);
    }
    if let Some(databases) = selector.describe_databases() {
        reply.bulk(b"databases");
        reply.bulk(&databases);
    }
}

/// ACL SETUSER username \[rule ...\]
pub fn setuser(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let name = request.arg(2);
    if acl::has_space(name) {
        return Err(Error::fixed("ERR Usernames can't contain spaces or null characters"));
    }
    let rules: Vec<&[u8]> = request.args.from(3).iter().collect();
    cx.engine.acl.set_user(name, &rules, cx.engine.config.acl_defaults())?;
    cx.reply().ok();
    expel_listeners(cx, name);
    Ok(())
}

/// Closes the clients of a user that have subscriptions to channels which it may not use any more. Their owners check their
/// subscriptions; if the user may use no channel, that is not needed.
fn expel_listeners(cx: &mut Cx<'_>, name: &[u8]) {
    let has_no_channel = cx.engine.acl.get(name).is_some_and(|user| user.has_no_channel());
    if has_no_channel {
        for client in cx.engine.clients.list.all() {
            if client.is_listening() && *client.names.lock().user == *name {
                client::close(cx, &client);
            }
        }
    }
    cx.engine.clients.post_users();
}

/// ACL DELUSER username \[username ...\]
pub fn deluser(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let names: Vec<&[u8]> = request.args.from(2).iter().collect();
    if names.contains(&b"default".as_slice()) {
        return Err(Error::fixed("ERR The 'default' user cannot be removed"));
    }
    let changed = cx.engine.acl.remove(&names);
    cx.reply().integer(changed.removed.len() as i64);
    expel(cx, &changed);
    Ok(())
}

/// Closes the clients of users that were removed.
fn expel(cx: &mut Cx<'_>, changed: &Changed) {
    for client in cx.engine.clients.list.all() {
        let is_gone = changed.removed.contains(&client.names.lock().user);
        if is_gone {
            client::close(cx, &client);
        }
    }
}

/// ACL CAT \[category\]
pub fn cat(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let names: Vec<&str> = match request.args.get(2) {
        _ if request.len() > 3 => return Err(Error::subcommand_syntax("ACL", request.arg(1))),
        None => Categories::ALL.iter().map(|(_, name)| *name).collect(),
        Some(category) => {
            let category =
                Categories::named(category).ok_or_else(|| Error::naming("ERR Unknown category '{}'", &[category]))?;
            let rows = commands::all().iter().filter(|row| row.categories.intersects(category));
            rows.map(|row| row.full_name).collect()
        }
    };
    let mut reply = cx.reply();
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name.as_bytes()));
    Ok(())
}

/// The default number of bits of a password that ACL GENPASS makes, and the greatest.
const PASSWORD_BITS: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4_096;

/// ACL GENPASS \[bits\]
pub fn genpass(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let bits = match request.args.get(2) {
        _ if request.len() > 3 => return Err(Error::subcommand_syntax("ACL", request.arg(1))),
        None => PASSWORD_BITS,
        Some(bits) => number::parse_i64(bits).ok_or(Error::NOT_INTEGER)?,
    };
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(Error::new(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
             {PASSWORD_BITS_MAX}"
        )));
    }
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    secret_bytes(&mut bytes);
    let mut password: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    password.truncate(digits);
    cx.reply().bulk(password.as_bytes());
    Ok(())
}

/// ACL DRYRUN username command \[arg ...\]
pub fn dryrun(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let not_found = |what: &str, name: &[u8]| Error::naming("ERR {} '{}' not found", &[what.as_bytes(), name]);
    let user = cx.engine.acl.get(request.arg(2)).ok_or_else(|| not_found("User", request.arg(2)))?;
    let args = request.args.from(3);
    let row = cx.engine.names.find_line(args).ok_or_else(|| not_found("Command", request.arg(3)))?;
    if !row.takes(args.len()) {
        return Err(Error::arity(row.full_name));
    }
    match acl::check(&user, row, args, permission::databases(cx)) {
        Ok(()) => cx.reply().ok(),
        Err(denial) => cx.reply().bulk(&denial.full_text(&user.name, row, args)),
    }
    Ok(())
}

/// The default number of entries that ACL LOG shows.
const ENTRIES_SHOWN: usize = 10;

/// ACL LOG \[count | RESET\]
pub fn log(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let count = match request.args.get(2) {
        _ if request.len() > 3 => return Err(Error::subcommand_syntax("ACL", request.arg(1))),
        None => ENTRIES_SHOWN,
        Some(word) if word.eq_ignore_ascii_case(b"reset") => {
            cx.engine.acl.log.clear();
            cx.reply().ok();
            return Ok(());
        }
        Some(count) => usize::try_from(number::parse_i64(count).ok_or(Error::NOT_INTEGER)?).unwrap_or(0),
    };
    let entries = cx.engine.acl.log.latest(count);
    let now_ms = cx.now.wall_ms();
    let mut reply = cx.reply();
    reply.array(entries.len());
    entries.iter().for_each(|entry| write_entry(&mut reply, entry, now_ms));
    Ok(())
}

fn write_entry(reply: &mut Writer<'_>, entry: &Entry, now_ms: i64) {
    reply.map(10);
    reply.bulk(b"count");
    reply.integer(entry.count as i64);
    let texts = [
        ("reason", entry.reason.name().as_bytes()),
        ("context", entry.context.name().as_bytes()),
        ("object", &entry.object),
        ("username", &entry.username),
    ];
    for (name, text) in texts {
        reply.bulk(name.as_bytes());
        reply.bulk(text);
    }
    reply.bulk(b"age-seconds");
    reply.double((now_ms - entry.updated_ms) as f64 / 1_000.0);
    reply.bulk(b"client-info");
    reply.bulk(entry.client.as_bytes());
    let numbers = [
        ("entry-id", entry.id as i64),
        ("timestamp-created", entry.created_ms),
        ("timestamp-last-updated", entry.updated_ms),
    ];
    for (name, value) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer(value);
    }
}

const NO_FILE: Error = Error::fixed(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER \
     command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users \
     in the Redis configuration.",
);

/// Returns the path of the users' file: as the options give it, and resolved.
fn file_of(cx: &Cx<'_>) -> Result<(String, std::path::PathBuf), Error> {
    let name = cx.engine.config.text(Opt::Aclfile);
    if name.is_empty() {
        return Err(NO_FILE);
    }
    Ok((String::from_utf8_lossy(&name).into_owned(), cx.engine.config.resolve(&name)))
}

/// ACL LOAD
pub fn load(cx: &mut Cx<'_>) -> Outcome {
    let (name, path) = file_of(cx)?;
    let loaded = cx.engine.acl.load(&path, &name, cx.engine.config.acl_defaults());
    let changed = loaded.map_err(|error| Error::new(format!("ERR {error}")))?;
    cx.reply().ok();
    cx.engine.clients.post_users();
    expel(cx, &changed);
    Ok(())
}

/// ACL SAVE
pub fn save(cx: &mut Cx<'_>) -> Outcome {
    let (name, path) = file_of(cx)?;
    acl::save(&cx.engine.acl.all(), &path).map_err(|error| {
        log::warning(&format!("Writing the users to '{name}': {error}"));
        Error::fixed(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
        )
    })?;
    cx.reply().ok();
    Ok(())
}
