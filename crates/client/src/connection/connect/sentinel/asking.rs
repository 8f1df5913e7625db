//! The requests to a Sentinel, and to the server that it names. The answers of both are foreign, and may be anything.

use sleeve_wire::frame::{Frame, Items, decode};

use super::service::Address;
use crate::config::Config;
use crate::connection::connect::arrival::arrive;
use crate::connection::connect::attempt::Attempt;
use crate::connection::connect::conversation::Conversation;
use crate::connection::connect::dial::dial_host;
use crate::connection::connect::handshake::Greeting;
use crate::connection::connect::refusal::Refusal;
use crate::connection::connect::socket::Socket;
use crate::reactor::task_context::TaskContext;

/// The channel on which a Sentinel announces a new primary.
pub(super) const SWITCH: &str = "+switch-master";

/// A Sentinel's answer about a service.
pub(super) struct ServiceReply {
    /// The address of the primary; none if the Sentinel knows no service of this name.
    pub(super) primary: Option<Address>,
    /// The service's other Sentinels.
    pub(super) others: Vec<Address>,
}

/// Asks a Sentinel about a service.
pub(super) async fn ask(
    sentinel: &Address,
    service: &str,
    config: &Config,
    context: &TaskContext,
    attempt: &mut Attempt<'_>,
) -> Result<ServiceReply, Refusal> {
    let socket = dial_host(config, &sentinel.host, sentinel.port, context, attempt).await?;
    let mut conversation = Conversation::new(&socket, context, attempt)?;
    // All requests leave together.
    let has_password = log_in(&mut conversation, config).await?;
    conversation.send(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", service]).await?;
    conversation.send(&["SENTINEL", "SENTINELS", service]).await?;
    if has_password {
        check(&conversation.reply().await?)?;
    }
    let primary = read_primary(&conversation.reply().await?)?;
    Ok(ServiceReply { primary, others: read_others(&conversation.reply().await?) })
}

/// Asks a Sentinel for the replicas of a service.
pub(super) async fn ask_for_replicas(
    sentinel: &Address,
    service: &str,
    config: &Config,
    context: &TaskContext,
    attempt: &mut Attempt<'_>,
) -> Result<Vec<Address>, Refusal> {
    let socket = dial_host(config, &sentinel.host, sentinel.port, context, attempt).await?;
    let mut conversation = Conversation::new(&socket, context, attempt)?;
    let has_password = log_in(&mut conversation, config).await?;
    conversation.send(&["SENTINEL", "REPLICAS", service]).await?;
    if has_password {
        check(&conversation.reply().await?)?;
    }
    let reply = conversation.reply().await?;
    check(&reply)?;
    Ok(read_others(&reply))
}

/// Sends a Sentinel the password that is for Sentinels. Returns whether there is one, so that a reply follows.
pub(super) async fn log_in(conversation: &mut Conversation<'_, '_>, config: &Config) -> Result<bool, Refusal> {
    let Some(password) = &config.sentinel_login.password else { return Ok(false) };
    let user = config.sentinel_login.user.as_deref();
    let words: Vec<&str> = ["AUTH"].into_iter().chain(user).chain([password.as_str()]).collect();
    conversation.send(&words).await?;
    Ok(true)
}

/// Fails if a Sentinel has answered with an error.
pub(super) fn check(reply: &[u8]) -> Result<(), Refusal> {
    match decode(reply) {
        Ok((Frame::Error(text), _)) => Err(Refusal::by_server(text)),
        _ => Ok(()),
    }
}

/// Connects to the server that was named, and greets it. It has to be a primary.
pub(super) async fn enter(
    place: &Address,
    config: &Config,
    context: &TaskContext,
    attempt: &mut Attempt<'_>,
) -> Result<(Socket, Greeting), Refusal> {
    let socket = dial_host(config, &place.host, place.port, context, attempt).await?;
    arrive(socket, config, context, attempt).await
}

fn read_primary(reply: &[u8]) -> Result<Option<Address>, Refusal> {
    match decode(reply) {
        Ok((Frame::Null, _)) => Ok(None),
        Ok((Frame::Error(text), _)) => Err(Refusal::by_server(text)),
        Ok((Frame::Array(mut words), _)) => {
            let address = word(&mut words).zip(word(&mut words)).and_then(|(host, port)| address(host, port));
            address.map(Some).ok_or_else(|| Refusal::temporary("it names no address".to_owned()))
        }
        _ => Err(Refusal::temporary("it is no Sentinel, as it names no address".to_owned())),
    }
}

/// The largest number of addresses that one answer may name: more than any service has of Sentinels or of replicas. The
/// client may connect to each of them.
const ADDRESSES_MAX: usize = 256;

/// Reads addresses in a list of lists of fields; an element that is no address is skipped.
fn read_others(reply: &[u8]) -> Vec<Address> {
    let Ok((Frame::Array(rows), _)) = decode(reply) else { return Vec::new() };
    rows.map_while(Result::ok).filter_map(read_row).take(ADDRESSES_MAX).collect()
}

fn read_row(row: Frame<'_>) -> Option<Address> {
    let (Frame::Array(mut fields) | Frame::Map(mut fields)) = row else { return None };
    let (mut host, mut port) = (None, None);
    while let Some((field, value)) = word(&mut fields).zip(word(&mut fields)) {
        match field {
            b"ip" => host = Some(value),
            b"port" => port = Some(value),
            _ => {}
        }
    }
    address(host?, port?)
}

/// Returns the next word, if it is a string.
fn word<'a>(words: &mut Items<'a>) -> Option<&'a [u8]> {
    match words.next()?.ok()? {
        Frame::Bulk(word) => Some(word),
        _ => None,
    }
}

fn address(host: &[u8], port: &[u8]) -> Option<Address> {
    let (host, port) = (std::str::from_utf8(host).ok()?, std::str::from_utf8(port).ok()?.parse().ok()?);
    (!host.is_empty() && port > 0).then(|| Address { host: host.to_owned(), port })
}

/// Returns the new address of this service's primary, if the message announces one.
pub(super) fn read_switch(message: &[u8], service: &str) -> Option<Address> {
    let (Frame::Array(mut words), _) = decode(message).ok()? else { return None };
    if word(&mut words)? != b"message" || word(&mut words)? != SWITCH.as_bytes() {
        return None;
    }
    // The message has the service, the old address and port, and the new address and port.
    let mut words = word(&mut words)?.split(|&byte| byte == b' ');
    let (name, _, _) = (words.next()?, words.next()?, words.next()?);
    if name != service.as_bytes() { None } else { address(words.next()?, words.next()?) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    #[test]
    fn a_primary_is_an_address() {
        let read = |reply: &[u8]| read_primary(reply).map_err(|refusal| refusal.error.message().to_owned());
        assert_eq!(read(b"*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n"), Ok(Some(at("127.0.0.1", 6379))));
        assert_eq!(read(b"*-1\r\n"), Ok(None));
        for nonsense in [
            &b"*2\r\n$1\r\na\r\n$1\r\n0\r\n"[..],
            b"*2\r\n$0\r\n\r\n$1\r\n1\r\n",
            b"*1\r\n$1\r\na\r\n",
            b"+OK\r\n",
            b"*",
        ] {
            assert!(read(nonsense).expect_err("no address").contains("no address"), "{}", nonsense.escape_ascii());
        }
        let refused = read(b"-NOAUTH Authentication required.\r\n").expect_err("it does not say");
        assert!(refused.contains("NOAUTH"), "{refused}");
    }

    #[test]
    fn other_sentinels_are_read_and_invalid_ones_skipped() {
        let row = "*6\r\n$4\r\nname\r\n$1\r\nx\r\n$2\r\nip\r\n$3\r\n::1\r\n$4\r\nport\r\n$5\r\n26379\r\n";
        let portless = "*2\r\n$2\r\nip\r\n$3\r\n::1\r\n";
        let reply = format!("*4\r\n{row}:7\r\n{portless}{row}");
        assert_eq!(read_others(reply.as_bytes()), [at("::1", 26379), at("::1", 26379)]);
        assert_eq!(read_others(b"-ERR No such master with that name\r\n"), []);
        assert_eq!(read_others(b"*2\r\n"), []);
    }

    #[test]
    fn a_switch_is_told_of_for_one_service() {
        let message = |channel: &str, text: &str| {
            format!("*3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n${}\r\n{text}\r\n", channel.len(), text.len())
        };
        let read = |message: String| read_switch(message.as_bytes(), "shop");
        assert_eq!(read(message(SWITCH, "shop 10.0.0.1 1 10.0.0.2 2")), Some(at("10.0.0.2", 2)));
        assert_eq!(read(message(SWITCH, "shop2 10.0.0.1 1 10.0.0.2 2")), None);
        assert_eq!(read(message(SWITCH, "shop 10.0.0.1 1 10.0.0.2")), None);
        assert_eq!(read(message("+sdown", "shop 10.0.0.1 1 10.0.0.2 2")), None);
        assert_eq!(read("*1\r\n$7\r\nmessage\r\n".to_owned()), None);
    }
}
