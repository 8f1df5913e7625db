//! AUTH, ECHO, HELLO, PING, QUIT, RESET and SELECT: the commands that concern only the connection that sends them.

pub mod client;
pub mod client_filter;
pub mod journal;
pub mod tracking;
pub mod unix_offer;

use std::sync::atomic::Ordering;

use sleeve_wire::number;
use sleeve_wire::reply::Protocol;

use super::pubsub;
use crate::context::Cx;
use crate::context::permission;
use crate::context::session_state::Replies;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// PING \[message\]
pub fn ping(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    match request.args.get(1) {
        _ if request.len() > 2 => return Err(Error::arity("ping")),
        message if cx.state.protocol == Protocol::Resp2 && cx.state.is_listening() => {
            pubsub::pong(&mut cx.reply(), message.unwrap_or_default());
        }
        Some(message) => cx.reply().bulk(message),
        None => cx.reply().pong(),
    }
    Ok(())
}

/// ECHO message
pub fn echo(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    cx.reply().bulk(request.arg(1));
    Ok(())
}

/// QUIT
pub fn quit(cx: &mut Cx<'_>) -> Outcome {
    cx.reply().ok();
    cx.state.closing = true;
    Ok(())
}

/// SELECT index
pub fn select(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let index = number::parse_i64(request.arg(1)).ok_or(Error::NOT_INTEGER)?;
    i32::try_from(index).map_err(|_| Error::INT_RANGE)?;
    if index != 0 && is_alone(cx) {
        return Err(Error::fixed("ERR SELECT is not allowed in cluster mode"));
    }
    cx.state.database = database(cx, index).ok_or(Error::DATABASE_RANGE)?;
    cx.reply().ok();
    Ok(())
}

/// Returns whether the one database is the only one that a node of a cluster has (`cluster-databases`).
pub fn is_alone(cx: &Cx<'_>) -> bool {
    cx.engine.cluster.get().is_some() && cx.engine.keyspace.store.databases() == 1
}

/// Returns the database with this number, if there is one.
pub fn database(cx: &Cx<'_>, index: i64) -> Option<u32> {
    u32::try_from(index).ok().filter(|&index| (index as usize) < cx.engine.keyspace.store.databases())
}

/// AUTH \[username\] password
pub fn auth(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (user, password) = match request.len() {
        2 => (None, request.arg(1)),
        3 => (Some(request.arg(1)), request.arg(2)),
        _ => return Err(Error::SYNTAX),
    };
    if user.is_none() && cx.engine.acl.default_user().no_password {
        return Err(Error::fixed(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
             configuration is correct?",
        ));
    }
    authenticate(cx, (user.unwrap_or(b"default"), password), request.arg(0))?;
    cx.reply().ok();
    Ok(())
}

/// Logs the client in as this user if the password is right; `command` is the command that was used.
fn authenticate(cx: &mut Cx<'_>, (user, password): (&[u8], &[u8]), command: &[u8]) -> Outcome {
    let Some(admitted) = cx.engine.acl.admit(user, password) else {
        permission::record_failed_login(cx, user, command);
        return Err(Error::fixed("WRONGPASS invalid username-password pair or user is disabled."));
    };
    cx.state.log_in(admitted, true);
    Ok(())
}

/// HELLO \[protover \[AUTH username password\] \[SETNAME clientname\] \[UNIXSOCKET\]\]
///
/// HELLO OFFERED client-id ticket
///
/// UNIXSOCKET and OFFERED are Sleeve's own.
pub fn hello(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    // HELLO OFFERED logs no client in, so it needs no login: a client shows no password before it knows which server asks for
    // it.
    if request.len() == 4 && request.arg(1).eq_ignore_ascii_case(b"offered") {
        return unix_offer::redeem(cx, request.arg(2), request.arg(3));
    }
    let protocol = match request.args.get(1) {
        None => None,
        Some(version) => Some(match number::parse_i64(version) {
            None => return Err(Error::fixed("ERR Protocol version is not an integer or out of range")),
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Err(Error::fixed("NOPROTO unsupported protocol version")),
        }),
    };
    let options = hello_options(request)?;
    if let Some(login) = options.login {
        authenticate(cx, login, request.arg(0))?;
    }
    if !cx.state.login.authenticated {
        return Err(Error::fixed(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> \
             <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = options.name {
        client::set_name(cx, name)?;
    }
    cx.state.protocol = protocol.unwrap_or(cx.state.protocol);
    if cx.state.protocol == Protocol::Resp2 {
        journal::end(cx);
    }
    let offer = if options.asks_for_unix_socket { unix_offer::make(cx) } else { None };
    greet(cx, offer.as_ref());
    Ok(())
}

/// The options of HELLO after the protocol version.
#[derive(Default)]
struct HelloOptions<'a> {
    /// AUTH: user and password.
    login: Option<(&'a [u8], &'a [u8])>,
    /// SETNAME.
    name: Option<&'a [u8]>,
    /// UNIXSOCKET: the client would move to the Unix socket.
    asks_for_unix_socket: bool,
}

fn hello_options(request: Request<'_>) -> Result<HelloOptions<'_>, Error> {
    let (mut options, mut at) = (HelloOptions::default(), 2);
    while at < request.len() {
        let (option, left) = (request.arg(at), request.len() - at - 1);
        if option.eq_ignore_ascii_case(b"auth") && left >= 2 {
            options.login = Some((request.arg(at + 1), request.arg(at + 2)));
            at += 3;
        } else if option.eq_ignore_ascii_case(b"setname") && left >= 1 {
            options.name = Some(request.arg(at + 1));
            at += 2;
        } else if option.eq_ignore_ascii_case(b"unixsocket") {
            options.asks_for_unix_socket = true;
            at += 1;
        } else {
            return Err(Error::naming("ERR Syntax error in HELLO option '{}'", &[option]));
        }
    }
    Ok(options)
}

fn greet(cx: &mut Cx<'_>, offer: Option<&unix_offer::Offer>) {
    let id = cx.state.client.id as i64;
    let version = if cx.state.protocol == Protocol::Resp3 { 3 } else { 2 };
    let mode = cx.engine.mode();
    let role: &[u8] = if cx.engine.replication.role.is_replica() { b"replica" } else { b"master" };
    let mut reply = cx.reply();
    reply.map(7 + usize::from(offer.is_some()));
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(crate::REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(version);
    reply.bulk(b"id");
    reply.integer(id);
    reply.bulk(b"mode");
    reply.bulk(mode.as_bytes());
    reply.bulk(b"role");
    reply.bulk(role);
    reply.bulk(b"modules");
    reply.array(0);
    if let Some(offer) = offer {
        reply.bulk(b"unix-socket");
        offer.write(cx);
    }
}

/// RESET
pub fn reset(cx: &mut Cx<'_>) -> Outcome {
    if cx.state.is_replica() {
        return Err(Error::fixed("ERR can only reset normal client connections"));
    }
    journal::end(cx);
    let state = &mut *cx.state;
    state.unsubscribe_all(cx.engine);
    state.stop_tracking(cx.engine);
    state.multi.transaction = None;
    state.multi.watching.clear(cx.engine);
    state.database = 0;
    state.protocol = Protocol::Resp2;
    state.replies = Replies::On;
    state.no_touch = false;
    state.origin.forget_asking();
    state.client.settings.reads_replicas.store(false, Ordering::Relaxed);
    state.client.settings.no_evict.store(false, Ordering::Relaxed);
    state.client.settings.no_touch.store(false, Ordering::Relaxed);
    state.client.names.lock().client.clear();
    let user = cx.engine.acl.default_user();
    let authenticated = user.enabled && user.no_password;
    state.log_in(user, authenticated);
    cx.reply().simple("RESET");
    Ok(())
}
