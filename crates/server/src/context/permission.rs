//! The permissions of a client's user for a request, and the record of a refusal.
//!
//! For a client with all permissions the gate costs one load and one comparison: its state remembers the epoch of the users
//! at which nothing was forbidden to it. For all other clients it checks the password, then commands, keys and channels. The
//! user is looked up again if the epoch has changed since the last look-up, so no other request takes a lock for it. EXEC and
//! scripts check here too, because the permission for a queued command may have been taken away.

use std::sync::atomic::Ordering;

use sleeve_wire::commands::{Flags, Row};
use sleeve_wire::request::Args;

use super::Cx;
use super::session_state::Input;
use crate::acl;
use crate::acl::{Context, Databases, Denial, Entry, Reason};
use crate::config::Opt;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// Checks a client that does not have all permissions at the present epoch: its login, then its user's permissions.
///
/// # Errors
/// NOAUTH or NOPERM, which names the permission that the user lacks.
#[cold]
pub fn pass(cx: &mut Cx<'_>, request: &Request<'_>) -> Outcome {
    look_again(cx)?;
    let is_in = cx.state.login.authenticated || !cx.engine.acl.asks_password();
    if !is_in && !request.row.flags.contains(Flags::NO_AUTH) {
        return Err(Error::NO_AUTH);
    }
    if cx.state.login.user.is_unrestricted() {
        if is_in {
            cx.state.login.unrestricted_at = cx.state.login.seen_at;
        }
        return Ok(());
    }
    acl::check(&cx.state.login.user, request.row, request.args, databases(cx)).map_err(|denial| {
        let context = if cx.state.multi.transaction.is_some() { Context::Multi } else { Context::TopLevel };
        record(cx, denial, context, request.row, request.args);
        refusal(cx, denial, request.row, request.args)
    })
}

fn refusal(cx: &Cx<'_>, denial: Denial, row: &'static Row, args: Args<'_>) -> Error {
    Error::naming("NOPERM {}", &[&denial.text(&cx.state.login.user.name, row, args)])
}

/// Returns the databases, as the client sees them.
pub fn databases(cx: &Cx<'_>) -> Databases {
    Databases { selected: cx.state.database, count: cx.engine.keyspace.store.databases() as u32 }
}

/// Looks the user up again. If the user was removed since, the client is no longer logged in, even if a new user has the same
/// name.
fn look_again(cx: &mut Cx<'_>) -> Outcome {
    let epoch = cx.engine.acl.epoch();
    if cx.state.login.seen_at == epoch {
        return Ok(());
    }
    match cx.engine.acl.get(&cx.state.login.user.name) {
        Some(user) if user.id == cx.state.login.user.id => {
            cx.state.login.user = user;
            cx.state.login.seen_at = epoch;
            Ok(())
        }
        _ => {
            cx.state.login.authenticated = false;
            cx.state.closing = true;
            Err(Error::NO_AUTH)
        }
    }
}

/// Checks whether a command that was queued may still run.
pub fn check_queued(cx: &mut Cx<'_>, row: &'static Row, args: Args<'_>) -> Outcome {
    let Some(denial) = denial(cx, row, args)? else { return Ok(()) };
    let lacks = match denial.reason {
        Reason::Key => "no permission to touch the specified keys",
        Reason::Channel => "no permission to access one of the channels used as arguments",
        Reason::Database => "no permission",
        Reason::Command | Reason::Auth => "no permission to execute the command or subcommand",
    };
    record(cx, denial, Context::Multi, row, args);
    Err(Error::new(format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is \
         no longer allowed for the following reason: {lacks}"
    )))
}

/// Checks whether a command that waited for a key may still run.
pub fn check_unblocked(cx: &mut Cx<'_>, row: &'static Row, args: Args<'_>) -> Outcome {
    let Some(denial) = denial(cx, row, args)? else { return Ok(()) };
    cx.counters.commands[row.id as usize].rejected.add(1);
    record(cx, denial, Context::TopLevel, row, args);
    Err(refusal(cx, denial, row, args))
}

/// Checks whether a script of this client may run a command.
pub fn check_script(cx: &mut Cx<'_>, row: &'static Row, args: Args<'_>) -> Outcome {
    let Some(denial) = denial(cx, row, args)? else { return Ok(()) };
    record(cx, denial, Context::Lua, row, args);
    Err(Error::naming("ERR ACL failure in script: {}", &[&denial.text(&cx.state.login.user.name, row, args)]))
}

/// Returns the permission that the user lacks at present for a command that EXEC, a script or an unblocked client runs.
#[inline]
fn denial(cx: &mut Cx<'_>, row: &'static Row, args: Args<'_>) -> Result<Option<Denial>, Error> {
    if cx.state.login.unrestricted_at == cx.engine.acl.epoch() {
        return Ok(None);
    }
    look_again(cx)?;
    Ok(acl::check(&cx.state.login.user, row, args, databases(cx)).err())
}

fn record(cx: &mut Cx<'_>, denial: Denial, context: Context, row: &'static Row, args: Args<'_>) {
    if cx.state.origin.is_unobserved {
        return;
    }
    let username = cx.state.login.user.name.to_vec();
    let object = denial.object(row, args).to_vec();
    add(cx, denial.reason, context, object, username);
}

/// Records a login with a wrong name or password; `command` is the command that was used.
pub fn record_failed_login(cx: &mut Cx<'_>, username: &[u8], command: &[u8]) {
    let context = if cx.state.multi.executing.is_some() { Context::Multi } else { Context::TopLevel };
    add(cx, Reason::Auth, context, command.to_vec(), username.to_vec());
}

fn add(cx: &mut Cx<'_>, reason: Reason, context: Context, object: Vec<u8>, username: Vec<u8>) {
    let now_ms = cx.now.wall_ms();
    let client = own_line(cx).trim_end().to_owned();
    let entry =
        Entry { count: 1, reason, context, object, username, client, id: 0, created_ms: now_ms, updated_ms: now_ms };
    let len_max = usize::try_from(cx.engine.config.number(Opt::AcllogMaxLen)).unwrap_or(usize::MAX);
    cx.engine.acl.log.add(entry, len_max);
}

/// Returns this client as CLIENT LIST shows it.
fn own_line(cx: &Cx<'_>) -> String {
    let client = &cx.state.client;
    let held = [&client.memory.input, &client.memory.input_spare, &client.memory.arguments];
    let [bytes, spare, argument_bytes] = held.map(|count| count.load(Ordering::Relaxed));
    cx.state.publish(Input { bytes, spare, argument_bytes }, cx.now.wall_ms());
    client.line(cx.now.wall_ms())
}
