//! The filter of CLIENT LIST and CLIENT KILL: reads their options, and applies them to one client after the other.
//!
//! It does not look clients up and closes none; `client` does.

use std::sync::atomic::Ordering;

use sleeve_wire::number;

use crate::config::ClientClass;
use crate::engine::clients::client_info::ClientInfo;
use crate::request::Request;
use crate::request::error::Error;

/// A client type, as CLIENT LIST and CLIENT KILL name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientType {
    /// A class of clients: normal, replica or pubsub.
    Class(ClientClass),
    /// The link to this server's primary.
    Primary,
}

/// The conditions on a client. A client has to meet all that are given.
#[derive(Debug, Default)]
pub struct ClientFilter {
    /// ID: the client has one of these ids.
    pub ids: Option<Vec<u64>>,
    /// ADDR: the client's end of the connection.
    pub address: Option<String>,
    /// LADDR: the server's end of the connection.
    pub local_address: Option<String>,
    /// USER: the user as which the client is logged in.
    pub user: Option<Box<[u8]>>,
    /// TYPE: the client's type.
    pub kind: Option<ClientType>,
    /// MAXAGE: the least number of seconds since the client connected.
    pub age_s_min: Option<i64>,
    /// SKIPME: the id of the client that is left out.
    pub except: Option<u64>,
}

impl ClientFilter {
    /// Reads the options of CLIENT LIST.
    pub fn of_list(request: Request<'_>) -> Result<Self, Error> {
        let mut filter = Self::default();
        match (request.args.get(2), request.len()) {
            (None, _) => {}
            (Some(option), 4) if option.eq_ignore_ascii_case(b"type") => filter.take_type(request.arg(3))?,
            (Some(option), 4..) if option.eq_ignore_ascii_case(b"id") => {
                let ids: Option<Vec<i64>> = request.args.iter().skip(3).map(number::parse_i64).collect();
                let ids = ids.ok_or(Error::fixed("ERR Invalid client ID"))?;
                filter.ids = Some(ids.into_iter().filter_map(|id| u64::try_from(id).ok()).collect());
            }
            _ => return Err(Error::SYNTAX),
        }
        Ok(filter)
    }

    /// Reads the options of CLIENT KILL except SKIPME.
    pub fn of_kill(request: Request<'_>) -> Result<Self, Error> {
        let mut filter = Self::default();
        for at in (2..request.len()).step_by(2) {
            let option = request.arg(at);
            let value = request.args.get(at + 1).ok_or(Error::SYNTAX)?;
            let text = || Some(String::from_utf8_lossy(value).into_owned());
            match option.to_ascii_lowercase().as_slice() {
                b"id" => {
                    let id = id_of(value).filter(|&id| id > 0);
                    filter.ids = Some(vec![id.ok_or(Error::fixed("ERR client-id should be greater than 0"))?]);
                }
                b"type" => filter.take_type(value)?,
                b"addr" => filter.address = text(),
                b"laddr" => filter.local_address = text(),
                b"user" => filter.user = Some(value.into()),
                b"maxage" => filter.age_s_min = Some(age_of(value)?),
                b"skipme" => {}
                _ => return Err(Error::SYNTAX),
            }
        }
        Ok(filter)
    }

    fn take_type(&mut self, name: &[u8]) -> Result<(), Error> {
        self.kind = Some(match name.to_ascii_lowercase().as_slice() {
            b"normal" => ClientType::Class(ClientClass::Normal),
            b"pubsub" => ClientType::Class(ClientClass::Pubsub),
            b"slave" | b"replica" => ClientType::Class(ClientClass::Replica),
            b"master" => ClientType::Primary,
            _ => return Err(Error::naming("ERR Unknown client type '{}'", &[name])),
        });
        Ok(())
    }

    /// Returns whether a client meets all conditions.
    pub fn admits(&self, client: &ClientInfo, now_ms: i64) -> bool {
        self.kind.is_none_or(|kind| kind == type_of(client))
            && self.ids.as_ref().is_none_or(|ids| ids.contains(&client.id))
            && self.address.as_ref().is_none_or(|address| *address == client.socket.address)
            && self.local_address.as_ref().is_none_or(|address| *address == client.socket.local_address)
            && self.user.as_ref().is_none_or(|user| *user == client.names.lock().user)
            && self.age_s_min.is_none_or(|age_s| (now_ms - client.created_ms) / 1_000 >= age_s)
            && self.except != Some(client.id)
    }
}

/// Returns the type of a client.
fn type_of(client: &ClientInfo) -> ClientType {
    if client.roles.is_primary.load(Ordering::Relaxed) {
        ClientType::Primary
    } else if client.roles.is_replica.load(Ordering::Relaxed) {
        ClientType::Class(ClientClass::Replica)
    } else if client.is_listening() {
        ClientType::Class(ClientClass::Pubsub)
    } else {
        ClientType::Class(ClientClass::Normal)
    }
}

/// Reads SKIPME: whether CLIENT KILL leaves the calling client alone, which is the default.
pub fn skip_of(request: Request<'_>) -> Result<bool, Error> {
    let mut skips = true;
    for at in (2..request.len().saturating_sub(1)).step_by(2) {
        if request.arg(at).eq_ignore_ascii_case(b"skipme") {
            skips = match request.arg(at + 1) {
                word if word.eq_ignore_ascii_case(b"yes") => true,
                word if word.eq_ignore_ascii_case(b"no") => false,
                _ => return Err(Error::SYNTAX),
            };
        }
    }
    Ok(skips)
}

/// Reads the age of a connection in seconds.
fn age_of(text: &[u8]) -> Result<i64, Error> {
    let age_s = number::parse_i64(text).ok_or(Error::fixed("ERR maxage is not an integer or out of range"))?;
    if age_s > 0 { Ok(age_s) } else { Err(Error::fixed("ERR maxage should be greater than 0")) }
}

/// Reads a client id.
fn id_of(text: &[u8]) -> Option<u64> {
    number::parse_i64(text).and_then(|id| u64::try_from(id).ok())
}
