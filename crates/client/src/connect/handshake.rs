//! The first words on a fresh connection: who we are, which protocol, which database.
//!
//! HELLO asks for RESP3; a server that does not know it is greeted again in RESP2. The server is asked how many
//! databases it has, so that a command for one that does not exist fails by itself: a SELECT that failed on a shared
//! connection would send the commands behind it to the wrong database. Runs in the connection's task, before anyone
//! else knows the socket; bounded by a deadline.

use std::io;

use sleeve_wire::attribute::behind_attributes;
use sleeve_wire::frame::{Frame, Scanner, decode};

use super::attempt::Attempt;
use super::socket::Socket;
use crate::config::{Config, Endpoint, Protocol};
use crate::error::{Error, ErrorKind};
use crate::reactor::post::{Post, Watch};
use crate::request::Request;

/// Databases that are looked for where the server does not say how many it has.
const DATABASES_MAX: u32 = 1 << 20;

/// Bytes that one reply to the first words has at most.
const REPLY_LENGTH_MAX: usize = 1024 * 1024;

/// What a server's greeting told.
pub(crate) struct Greeting {
    /// Databases that exist: those below this number.
    pub(crate) databases: u32,
    /// Whether it may be asked whether it is still there.
    pub(crate) pings: bool,
    /// Whether it speaks RESP3, in which there are messages that answer no request.
    pub(crate) speaks_resp3: bool,
}

/// Why a connection did not come about.
pub(crate) struct Refusal {
    pub(crate) error: Error,
    /// Whether trying again is pointless until somebody changes something: a wrong password, a database that is not there.
    pub(crate) permanent: bool,
}

impl Refusal {
    fn temporary(error: &io::Error) -> Self {
        Self { error: Error::unsent(ErrorKind::Connect, format!("cannot connect: {error}")), permanent: false }
    }

    /// As it is told to callers, who may have several servers.
    pub(crate) fn at(&self, endpoint: &Endpoint) -> Error {
        Error::unsent(ErrorKind::Connect, format!("{endpoint}: {}", self.error.message()))
    }

    fn permanent(message: String) -> Self {
        Self { error: Error::unsent(ErrorKind::Connect, message), permanent: true }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::temporary(&error)
    }
}

/// Greets the server.
pub(crate) async fn greet(
    socket: &Socket,
    config: &Config,
    post: &Post,
    attempt: &mut Attempt<'_>,
) -> Result<Greeting, Refusal> {
    let watch = post.watch(socket)?;
    let mut talk = Talk { watch, post, attempt, received: Vec::new(), scanner: Scanner::new(), start: 0 };
    let mut cluster = false;
    let mut greeted = false;
    if config.protocol == Protocol::Resp3 {
        let reply = talk.ask(&hello(config)).await?;
        greeted = match decode(&reply) {
            Ok((Frame::Error(text), _)) if is_unknown(text) => false,
            Ok((Frame::Error(text), _)) => return Err(refused(text)),
            Ok((Frame::Map(_) | Frame::Array(_), _)) => {
                cluster = mentions_cluster(&reply);
                true
            }
            _ => return Err(Refusal::permanent("HELLO was answered with another type".to_owned())),
        };
    }
    if !greeted {
        log_in(&mut talk, config).await?;
    }
    // These go out together, so that a connection costs two round trips.
    let database = config.database.to_string();
    talk.send(&["CLIENT", "SETINFO", "LIB-NAME", "sleeve"]).await?;
    talk.send(&["CLIENT", "SETINFO", "LIB-VER", env!("CARGO_PKG_VERSION")]).await?;
    talk.send(&["CONFIG", "GET", "databases"]).await?;
    talk.send(&["SELECT", &database]).await?;
    talk.send(&["PING"]).await?;
    // Servers before 7.2 do not want to know which library this is, and that is fine.
    talk.reply().await?;
    talk.reply().await?;
    let configured = talk.reply().await?;
    let selected = talk.reply().await?;
    let pong = talk.reply().await?;
    // While it loads its data a server answers all of the above as if it were there, and refuses every command after that.
    if pong.starts_with(b"-LOADING") {
        return Err(refused(pong.trim_ascii_end().get(1..).unwrap_or_default()));
    }
    if let Ok((Frame::Error(text), _)) = decode(&selected)
        && config.database > 0
    {
        return Err(refused(text));
    }
    let databases = match count_of(&configured) {
        // What a node of a cluster says of databases is about servers that are in none: in a cluster it may have fewer.
        Some(count) if !cluster => count,
        // In the middle of a long script, which this connection may be there to end, it does not say.
        None if !cluster && configured.starts_with(b"-BUSY") => u32::MAX,
        _ => find_databases(&mut talk, &database).await?,
    };
    Ok(Greeting { databases, pings: pong.starts_with(b"+PONG"), speaks_resp3: greeted })
}

fn hello(config: &Config) -> Vec<&str> {
    let mut words = vec!["HELLO", "3"];
    if let Some(password) = &config.password {
        words.extend(["AUTH", config.user.as_deref().unwrap_or("default"), password]);
    }
    if let Some(name) = &config.name {
        words.extend(["SETNAME", name]);
    }
    words
}

/// The greeting of RESP2.
async fn log_in(talk: &mut Talk<'_, '_>, config: &Config) -> Result<(), Refusal> {
    let mut replies = Vec::new();
    if let Some(password) = &config.password {
        let user = config.user.as_deref();
        let words: Vec<&str> = ["AUTH"].into_iter().chain(user).chain([password.as_str()]).collect();
        replies.push(talk.ask(&words).await?);
    }
    if let Some(name) = &config.name {
        replies.push(talk.ask(&["CLIENT", "SETNAME", name]).await?);
    }
    // Any command that needs no key shows whether a password is missing.
    replies.push(talk.ask(&["PING"]).await?);
    for reply in replies {
        if let Ok((Frame::Error(text), _)) = decode(&reply) {
            return Err(refused(text));
        }
    }
    Ok(())
}

/// The number in CONFIG's answer.
fn count_of(reply: &[u8]) -> Option<u32> {
    let (Frame::Map(mut items) | Frame::Array(mut items), _) = decode(reply).ok()? else { return None };
    let Some(Ok(Frame::Bulk(count))) = items.nth(1) else { return None };
    std::str::from_utf8(count).ok()?.parse().ok()
}

/// How many databases there are, found by trying, because asking is not allowed. Ends in database `home`.
async fn find_databases(talk: &mut Talk<'_, '_>, home: &str) -> Result<u32, Refusal> {
    // Database `known` exists and `missing` does not.
    let (mut known, mut missing) = (0u32, 1u32);
    while missing < DATABASES_MAX && selects(talk, missing).await? {
        known = missing;
        missing *= 2;
    }
    if missing == DATABASES_MAX {
        known = missing - 1;
    }
    while missing - known > 1 {
        let middle = known + (missing - known) / 2;
        if selects(talk, middle).await? { known = middle } else { missing = middle }
    }
    talk.ask(&["SELECT", home]).await?;
    Ok(missing)
}

async fn selects(talk: &mut Talk<'_, '_>, database: u32) -> Result<bool, Refusal> {
    Ok(talk.ask(&["SELECT", &database.to_string()]).await? == b"+OK\r\n")
}

fn is_unknown(text: &[u8]) -> bool {
    text.starts_with(b"ERR unknown command") || text.starts_with(b"NOPROTO")
}

fn mentions_cluster(hello: &[u8]) -> bool {
    let Ok((Frame::Map(items) | Frame::Array(items), _)) = decode(hello) else { return false };
    let frames: Vec<_> = items.filter_map(Result::ok).collect();
    frames.windows(2).any(|pair| matches!(pair, [Frame::Bulk(b"mode"), Frame::Bulk(b"cluster")]))
}

/// What the server said, but for the arguments that it repeats when it does not know a command: one of them may be the
/// password.
fn refused(text: &[u8]) -> Refusal {
    let shown = String::from_utf8_lossy(text);
    let shown = shown.split(", with args beginning with").next().unwrap_or_default();
    let message = format!("the server refused the connection: {shown}");
    if text.starts_with(b"LOADING") || text.starts_with(b"BUSY ") || text.starts_with(b"ERR max number of clients") {
        return Refusal { error: Error::unsent(ErrorKind::Connect, message), permanent: false };
    }
    Refusal::permanent(message)
}

/// Requests and replies on a socket that nobody else uses yet.
struct Talk<'a, 'b> {
    watch: Watch<&'a Socket>,
    post: &'a Post,
    attempt: &'a mut Attempt<'b>,
    received: Vec<u8>,
    start: usize,
    scanner: Scanner,
}

impl Talk<'_, '_> {
    async fn ask(&mut self, words: &[&str]) -> Result<Vec<u8>, Refusal> {
        self.send(words).await?;
        self.reply().await
    }

    async fn send(&mut self, words: &[&str]) -> Result<(), Refusal> {
        let write = |request: &mut Request| words.iter().for_each(|word| _ = request.word(word));
        let bytes = Request::bytes_of(write).map_err(|error| Refusal { error, permanent: true })?;
        send_all(&self.watch, &bytes, self.post, self.attempt).await?;
        Ok(())
    }

    async fn reply(&mut self) -> Result<Vec<u8>, Refusal> {
        loop {
            let rest = self.received.get(self.start..).unwrap_or_default();
            match self.scanner.scan(rest) {
                Ok(Some(length)) => {
                    let reply = behind_attributes(rest.get(..length).unwrap_or_default()).to_vec();
                    self.start += length;
                    if reply.first() != Some(&b'>') {
                        return Ok(reply);
                    }
                }
                Ok(None) => self.receive().await?,
                Err(error) => return Err(Refusal::permanent(format!("this is no Redis server: {error}"))),
            }
        }
    }

    async fn receive(&mut self) -> Result<(), Refusal> {
        let mut room = [0; 4096];
        match self.watch.stream().receive(&mut room) {
            Ok(0) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(count) => {
                self.received.drain(..std::mem::take(&mut self.start));
                self.received.extend_from_slice(room.get(..count).unwrap_or_default());
                if self.received.len() > REPLY_LENGTH_MAX {
                    let message =
                        format!("this is no Redis server: its greeting is longer than {REPLY_LENGTH_MAX} bytes");
                    return Err(Refusal::permanent(message));
                }
                // What comes without a pause leaves the others their turns, and takes no longer than there is time.
                self.attempt.pass(self.post).await?;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.watch.stream().flush()?;
                self.watch.arm(self.watch.stream().has_residue())?;
                self.attempt.wait(self.post).await?;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Sends all of it.
pub(crate) async fn send_all(
    watch: &Watch<&Socket>,
    mut rest: &[u8],
    post: &Post,
    attempt: &mut Attempt<'_>,
) -> io::Result<()> {
    while !rest.is_empty() {
        match watch.stream().send(rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                watch.arm(true)?;
                attempt.wait(post).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::refused;

    #[test]
    fn no_refusal_repeats_the_password() {
        let said = b"ERR unknown command 'AUTH', with args beginning with: 'admin' 'opensesame' ";
        let error = refused(said).error.to_string();
        assert!(error.contains("unknown command 'AUTH'") && !error.contains("opensesame"), "{error}");
        let error = refused(b"WRONGPASS invalid username-password pair or user is disabled.").error.to_string();
        assert!(error.contains("WRONGPASS invalid username-password pair or user is disabled."), "{error}");
    }
}
