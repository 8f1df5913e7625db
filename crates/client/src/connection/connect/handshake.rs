//! The greeting on a fresh connection: the client's identity, the protocol, the database.
//!
//! HELLO asks for RESP3; a server that does not know it is greeted again in RESP2. The server is asked how many databases it
//! has, so that a command for a database that does not exist fails by itself: a SELECT that failed on a shared connection
//! would send the commands behind it to the wrong database. A server that Sentinels have named is asked whether it is a
//! primary at all: the Sentinels may not know yet, or no longer. A server on this machine is asked for its Unix socket, if
//! that is wanted. The greeting runs in the connection's task, before any other code knows the socket; it is bounded by a
//! deadline.

use std::time::Duration;

use sleeve_wire::frame::{Frame, decode};

use super::attempt::Attempt;
use super::conversation::Conversation;
use super::refusal::Refusal;
use super::socket::Socket;
use super::unix_offer::Offer;
use crate::config::credentials::Credentials;
use crate::config::{Config, Endpoint, Protocol};
use crate::reactor::task_context::TaskContext;

/// The largest number of databases that are searched for if the server does not state their number.
const DATABASES_MAX: u32 = 1 << 20;

/// The data of a server's greeting.
pub(crate) struct Greeting {
    /// The number of databases of the server.
    pub(crate) databases: u32,
    /// True if the server may be sent PING.
    pub(crate) pings: bool,
    /// True if the connection speaks RESP3, in which there are messages that answer no request.
    pub(crate) speaks_resp3: bool,
    /// The time after which new credentials are sent, if ever.
    pub(crate) renews_after: Option<Duration>,
}

/// The data with which a server is greeted.
pub(crate) struct Introduction<'a> {
    pub(crate) config: &'a Config,
    pub(crate) credentials: Option<&'a Credentials>,
    /// True if the server is asked for its Unix socket.
    pub(crate) asks_for_offer: bool,
}

/// Greets the server. Returns its offer of a Unix socket, if it makes one, with its greeting.
pub(crate) async fn greet(
    socket: &Socket,
    introduction: &Introduction<'_>,
    context: &TaskContext,
    attempt: &mut Attempt<'_>,
) -> Result<(Greeting, Option<Offer>), Refusal> {
    let &Introduction { config, credentials, asks_for_offer, .. } = introduction;
    let renews_after = credentials.and_then(|credentials| credentials.refresh_after);
    let mut conversation = Conversation::new(socket, context, attempt)?;
    let hello = say_hello(&mut conversation, introduction).await?;
    let (greeted, cluster) = (hello.is_some(), hello.is_some_and(|reply| mentions_cluster(&reply)));
    if !greeted {
        log_in(&mut conversation, introduction)
            .await
            .map_err(|refusal| refusal.unless(config.login.provider.is_some()))?;
    }
    // These requests leave together, so that a connection costs two round trips.
    let database = config.database.to_string();
    conversation.send(&["CLIENT", "SETINFO", "LIB-NAME", "sleeve"]).await?;
    conversation.send(&["CLIENT", "SETINFO", "LIB-VER", env!("CARGO_PKG_VERSION")]).await?;
    // A server that does not know this option of HELLO replies with an error, which has no other effect.
    if asks_for_offer {
        conversation.send(&["HELLO", if greeted { "3" } else { "2" }, "UNIXSOCKET"]).await?;
    }
    conversation.send(&["CONFIG", "GET", "databases"]).await?;
    conversation.send(&["SELECT", &database]).await?;
    conversation.send(&["PING"]).await?;
    let is_service = matches!(config.endpoint, Endpoint::Sentinel { .. });
    if is_service {
        conversation.send(&["ROLE"]).await?;
    }
    // Servers before 7.2 refuse the name of the library, which does not matter.
    conversation.reply().await?;
    conversation.reply().await?;
    let offer = if asks_for_offer { Offer::read(&conversation.reply().await?) } else { None };
    let configured = conversation.reply().await?;
    let selected = conversation.reply().await?;
    let pong = conversation.reply().await?;
    let role = if is_service { Some(conversation.reply().await?) } else { None };
    // A server that loads its data answers all of the above, and refuses every command after that.
    if pong.starts_with(b"-LOADING") {
        return Err(Refusal::by_server(pong.trim_ascii_end().get(1..).unwrap_or_default()));
    }
    if let Some(other) = role.as_deref().and_then(role_of).filter(|role| *role != "primary") {
        return Err(Refusal::temporary(format!("it is a {other}")));
    }
    if let Ok((Frame::Error(text), _)) = decode(&selected)
        && config.database > 0
    {
        return Err(Refusal::by_server(text));
    }
    let databases = match count_of(&configured) {
        // A node of a cluster may have fewer databases than its configuration says, so its answer does not count.
        Some(count) if !cluster => count,
        // In the middle of a long script the server does not state the number. This connection may be needed to end the
        // script.
        None if !cluster && configured.starts_with(b"-BUSY") => u32::MAX,
        _ => find_databases(&mut conversation, &database).await?,
    };
    Ok((Greeting { databases, pings: pong.starts_with(b"+PONG"), speaks_resp3: greeted, renews_after }, offer))
}

/// Sends HELLO if RESP3 is wanted. Returns the reply; none from a server that does not know HELLO.
async fn say_hello(
    conversation: &mut Conversation<'_, '_>,
    introduction: &Introduction<'_>,
) -> Result<Option<Vec<u8>>, Refusal> {
    let config = introduction.config;
    if config.protocol != Protocol::Resp3 {
        return Ok(None);
    }
    let reply = conversation.ask(&hello(introduction)).await?;
    match decode(&reply) {
        Ok((Frame::Error(text), _)) if is_unknown(text) => Ok(None),
        // With a provider, another attempt may have another password.
        Ok((Frame::Error(text), _)) => Err(Refusal::by_server(text).unless(config.login.provider.is_some())),
        Ok((Frame::Map(_) | Frame::Array(_), _)) => Ok(Some(reply)),
        _ => Err(Refusal::permanent("HELLO was answered with another type".to_owned())),
    }
}

fn hello<'a>(introduction: &Introduction<'a>) -> Vec<&'a str> {
    let mut words = vec!["HELLO", "3"];
    if let Some(Credentials { user, password, .. }) = introduction.credentials {
        words.extend(["AUTH", user.as_deref().unwrap_or("default"), password]);
    }
    if let Some(name) = &introduction.config.name {
        words.extend(["SETNAME", name]);
    }
    words
}

/// Sends the greeting of RESP2.
async fn log_in(conversation: &mut Conversation<'_, '_>, introduction: &Introduction<'_>) -> Result<(), Refusal> {
    let mut replies = Vec::new();
    if let Some(credentials) = introduction.credentials {
        replies.push(conversation.ask(&credentials.auth()).await?);
    }
    if let Some(name) = &introduction.config.name {
        replies.push(conversation.ask(&["CLIENT", "SETNAME", name]).await?);
    }
    // A command without a key shows whether a password is missing.
    replies.push(conversation.ask(&["PING"]).await?);
    for reply in replies {
        if let Ok((Frame::Error(text), _)) = decode(&reply) {
            return Err(Refusal::by_server(text));
        }
    }
    Ok(())
}

/// Returns the number in CONFIG's answer.
fn count_of(reply: &[u8]) -> Option<u32> {
    let (Frame::Map(mut items) | Frame::Array(mut items), _) = decode(reply).ok()? else { return None };
    let Some(Ok(Frame::Bulk(count))) = items.nth(1) else { return None };
    std::str::from_utf8(count).ok()?.parse().ok()
}

/// Returns the number of databases, found by trying SELECT, because the server does not allow CONFIG. Ends in database
/// `home`.
async fn find_databases(conversation: &mut Conversation<'_, '_>, home: &str) -> Result<u32, Refusal> {
    // Database `known` exists and `missing` does not.
    let (mut known, mut missing) = (0u32, 1u32);
    while missing < DATABASES_MAX && selects(conversation, missing).await? {
        known = missing;
        missing *= 2;
    }
    if missing == DATABASES_MAX {
        known = missing - 1;
    }
    while missing - known > 1 {
        let middle = known + (missing - known) / 2;
        if selects(conversation, middle).await? { known = middle } else { missing = middle }
    }
    conversation.ask(&["SELECT", home]).await?;
    Ok(missing)
}

async fn selects(conversation: &mut Conversation<'_, '_>, database: u32) -> Result<bool, Refusal> {
    Ok(conversation.ask(&["SELECT", &database.to_string()]).await? == b"+OK\r\n")
}

/// Returns the role that a server states; none if it states no role.
fn role_of(reply: &[u8]) -> Option<&'static str> {
    let (Frame::Array(mut items), _) = decode(reply).ok()? else { return None };
    match items.next()?.ok()? {
        Frame::Bulk(b"master") => Some("primary"),
        Frame::Bulk(b"slave") => Some("replica"),
        _ => Some("Sentinel"),
    }
}

fn is_unknown(text: &[u8]) -> bool {
    text.starts_with(b"ERR unknown command") || text.starts_with(b"NOPROTO")
}

fn mentions_cluster(hello: &[u8]) -> bool {
    let Ok((Frame::Map(items) | Frame::Array(items), _)) = decode(hello) else { return false };
    let frames: Vec<_> = items.filter_map(Result::ok).collect();
    frames.windows(2).any(|pair| matches!(pair, [Frame::Bulk(b"mode"), Frame::Bulk(b"cluster")]))
}
