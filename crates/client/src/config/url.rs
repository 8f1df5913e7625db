//! Reading a server's URL. Pure functions; any thread.
//!
//! A URL may hold a password, and a URL that cannot be read may hold it anywhere. So an error names the part that is wrong
//! and says which form it should have; it never repeats the part.

use std::time::Duration;

#[cfg(not(feature = "tls"))]
use super::no_tls::Tls;
use super::read_from::ReadFrom;
#[cfg(feature = "tls")]
use super::tls::Tls;
use super::{Config, Endpoint, Protocol, QueueFull, Resend};
use crate::error::{Error, ErrorKind};

/// The possible beginnings of a URL, for the errors.
const SCHEMES: &str =
    "redis://, rediss://, valkey://, valkeys://, redis+cluster://, redis+sentinel://, unix:// or embedded://";

/// The port of a server and a Sentinel if a URL does not name one.
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// The options of every URL, for the errors.
const OPTIONS: &str = "db, name, protocol, connect_timeout, command_timeout, silence_max, backoff_min, backoff_max, queue, \
     queue_full, reply_bytes_max, resend, unix_socket, shared_memory";

/// The further options of URLs of some kinds, for the errors.
const TLS_OPTIONS: &str = "ca, ca_folder, cert, key, key_pass, server_name, insecure";
const REPLICA_OPTIONS: &str = "read_from";
const SENTINEL_OPTIONS: &str = "sentinel_user, sentinel_password";

/// The error for the option `read_from` with an endpoint that reports no replicas.
pub(crate) const NO_REPLICAS: &str = "reads go to replicas in a cluster (redis+cluster://) and behind Sentinels (redis+sentinel://) alone: \
     anywhere else \"read_from\" is primary";

fn bad(what: impl Into<String>) -> Error {
    Error::unsent(ErrorKind::Configuration, what.into())
}

impl Config {
    /// Reads a URL: `redis://[user:password@]host[:port][/database]`, `unix://[user:password@]/path` or `embedded://[name]`,
    /// or `embedded:///folder` for an engine with data that is kept there, each with query options. `rediss://` is `redis://`
    /// with TLS; `valkey://` and `valkeys://` are the same two, and `redis+unix://` and `valkey+unix://` are `unix://`.
    /// `redis+cluster://[user:password@]host[:port],host[:port][/database]` names some of the nodes of a cluster, and so do
    /// `valkey+cluster://`, and with TLS `rediss+cluster://` and `valkeys+cluster://`.
    ///
    /// `redis+sentinel://[user:password@]host[:port][,host[:port]...]/service[/database]` names Sentinels and the service
    /// with the primary that they know ([`Endpoint::Sentinel`]); so do `rediss+sentinel://`, with TLS to the Sentinels and to
    /// the servers, and the same two with `valkey`. The user and the password are the servers'; those of the Sentinels are
    /// the options `sentinel_user` and `sentinel_password`.
    ///
    /// The options are `db`, `name` (CLIENT SETNAME), `protocol` (`2` or `3`; `resp2` and `resp3` mean the same),
    /// `connect_timeout`, `command_timeout`, `silence_max`, `backoff_min` and `backoff_max` (such as `250ms` or `5s`; the second
    /// and the third may be `none`), `queue` and `reply_bytes_max` (bytes, such as `16mb`), `queue_full` (`wait` or `fail`),
    /// `resend` (`reads`, `overwrites` or `nothing`), `unix_socket` and `shared_memory` (`yes` or `no`, see
    /// [`Config::unix_socket`] and [`Config::shared_memory`]); for a cluster and for Sentinels also `read_from` (`primary`,
    /// `replica`, `any` or `zone:NAME`, see [`Config::read_from`]); with TLS also `ca` and `ca_folder` (the authorities to
    /// believe instead of the system's), `cert`, `key` and `key_pass` (the certificate to show to a server that asks, its key,
    /// and the pass phrase of the key), `server_name`, and `insecure=yes`. With `embedded://` every other option is one of the
    /// engine ([`Config::engine`]): `embedded://?maxmemory=10mb&databases=64`. A user, a password, a path or a value may be
    /// percent-encoded.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration), with a sentence that names the part that cannot be
    /// read, and repeats nothing of it, because it may be a password.
    pub fn from_url(text: &str) -> Result<Self, Error> {
        read(text, PLAIN)
    }
}

/// The parts of a server's URL, for programs that open the connection themselves, as `sleeve cli` does.
#[cfg(feature = "tls")]
#[derive(Debug)]
pub struct ServerUrl {
    /// The place of the server.
    pub endpoint: Endpoint,
    /// The settings of TLS, if the URL asks for TLS.
    pub tls: Option<Tls>,
    /// The user.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// The database; 0 if the URL names none.
    pub database: u32,
}

#[cfg(feature = "tls")]
impl ServerUrl {
    /// Reads a URL as redis-cli does: `host` and `port` replace missing ones, and a lone word before the `@` is the password.
    ///
    /// # Errors
    /// As [`Config::from_url`].
    pub fn read(text: &str, host: &str, port: u16) -> Result<Self, Error> {
        let config = read(text, Reading { host, port, lone_word_is_password: true })?;
        let login = config.login;
        let password = login.password.filter(|password| !password.is_empty());
        Ok(Self { endpoint: config.endpoint, tls: config.tls, user: login.user, password, database: config.database })
    }
}

/// The meaning of parts that a URL leaves out.
#[derive(Clone, Copy)]
struct Reading<'a> {
    host: &'a str,
    port: u16,
    /// True if a lone word before the `@` is a password, false if it is a user.
    lone_word_is_password: bool,
}

const PLAIN: Reading<'static> = Reading { host: "localhost", port: PORT, lone_word_is_password: false };

fn read(text: &str, reading: Reading<'_>) -> Result<Config, Error> {
    let (scheme, rest) =
        text.split_once("://").ok_or_else(|| bad(format!("this is no URL: it must begin with {SCHEMES}")))?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (credentials, place) = match rest.rsplit_once('@') {
        // The path of a socket may hold an @.
        Some(_) if rest.starts_with('/') => (None, rest),
        Some((credentials, place)) => (Some(credentials), place),
        None => (None, rest),
    };
    // RFC 3986: a scheme has no case.
    let mut config = match scheme.to_ascii_lowercase().as_str() {
        "redis" | "valkey" => tcp(place, reading)?,
        "rediss" | "valkeys" => secure(tcp(place, reading)?)?,
        "redis+cluster" | "valkey+cluster" => cluster(place)?,
        "rediss+cluster" | "valkeys+cluster" => secure(cluster(place)?)?,
        "redis+sentinel" | "valkey+sentinel" => sentinel(place)?,
        "rediss+sentinel" | "valkeys+sentinel" => secure(sentinel(place)?)?,
        "unix" | "redis+unix" | "valkey+unix" => Config::new(unix(place)?),
        "embedded" if credentials.is_some() => {
            return Err(bad("an embedded engine asks for no password: the URL must not hold one"));
        }
        "embedded" => Config::new(embedded(place)?),
        _ => return Err(bad(format!("the URL begins with an unknown word: use {SCHEMES}"))),
    };
    if let Some(credentials) = credentials {
        let lone = if reading.lone_word_is_password { ("", credentials) } else { (credentials, "") };
        let (user, password) = credentials.split_once(':').unwrap_or(lone);
        config.login.user = Some(decoded(user, "the user")?).filter(|user| !user.is_empty());
        config.login.password = Some(decoded(password, "the password")?)
            .filter(|password| !password.is_empty() || config.login.user.is_some());
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decoded(value, &format!("the value of {}", named(name)))?;
        option(&mut config, name, &value)?;
    }
    config.retry.backoff_max = config.retry.backoff_max.max(config.retry.backoff_min);
    Ok(config)
}

/// Returns an option's name for an error, unless it may be the rest of a password.
pub(crate) fn named(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !name.is_empty() && name.len() <= 40 && name.bytes().all(is_plain) {
        format!("the option \"{name}\"")
    } else {
        "an option".to_owned()
    }
}

fn secure(mut config: Config) -> Result<Config, Error> {
    config.tls = Some(Tls::for_url()?);
    Ok(config)
}

fn tcp(place: &str, reading: Reading<'_>) -> Result<Config, Error> {
    let (address, database) = place.split_once('/').unwrap_or((place, ""));
    let (host, port) = host_and_port(address, reading.host, reading.port)?;
    in_database(Config::new(Endpoint::Tcp { host, port }), database)
}

/// Reads several hosts, each with its port.
fn cluster(place: &str) -> Result<Config, Error> {
    let (addresses, database) = place.split_once('/').unwrap_or((place, ""));
    let seeds = addresses.split(',').map(|host| host_and_port(host, PLAIN.host, PORT)).collect::<Result<_, _>>()?;
    in_database(Config::new(Endpoint::Cluster(seeds)), database)
}

/// Reads a list of Sentinels, and the name of the service that they watch.
fn sentinel(place: &str) -> Result<Config, Error> {
    let (hosts, path) = place.split_once('/').unwrap_or((place, ""));
    let sentinels =
        hosts.split(',').map(|host| host_and_port(host, PLAIN.host, SENTINEL_PORT)).collect::<Result<_, _>>()?;
    let (service, database) = path.split_once('/').unwrap_or((path, ""));
    let service = decoded(service, "the service")?;
    if service.is_empty() {
        return Err(bad(
            "the URL names no service behind its Sentinels, as redis+sentinel://host:26379,host/service does",
        ));
    }
    in_database(Config::new(Endpoint::Sentinel { sentinels, service }), database)
}

/// Reads a host and a port; the given ones replace missing ones.
fn host_and_port(text: &str, missing_host: &str, port: u16) -> Result<(String, u16), Error> {
    let (host, named) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = match named {
        Some(named) => named.parse().map_err(|_| {
            bad("the port behind the host's colon is not a number up to 65535 \
                 (in a password write / as %2F, ? as %3F and @ as %40)")
        })?,
        None => port,
    };
    let host = if host.is_empty() { missing_host.to_owned() } else { decoded(host, "the host")? };
    Ok((host, port))
}

/// Sets the database that may stand behind the host.
fn in_database(mut config: Config, database: &str) -> Result<Config, Error> {
    let database = database.trim_end_matches('/');
    if !database.is_empty() {
        config.database = number(database, "the database behind the host")?;
    }
    Ok(config)
}

fn unix(place: &str) -> Result<Endpoint, Error> {
    if !place.starts_with('/') {
        return Err(bad("the URL names no absolute path, as unix:///run/server.sock does"));
    }
    Ok(Endpoint::Unix(decoded(place, "the path")?.into()))
}

fn embedded(place: &str) -> Result<Endpoint, Error> {
    let name = decoded(place.trim_end_matches('/'), "the engine's name")?;
    if !name.starts_with('/') && name.contains([':', '/']) {
        return Err(bad(
            "the engine's name may hold neither : nor /; a folder begins with /, as in embedded:///var/lib/app",
        ));
    }
    Ok(Endpoint::Embedded(Some(name).filter(|name| !name.is_empty())))
}

fn option(config: &mut Config, name: &str, value: &str) -> Result<(), Error> {
    if let Some(tls) = &mut config.tls
        && tls.take_option(name, value)?
    {
        return Ok(());
    }
    match name {
        "db" => config.database = number(value, "the option \"db\"")?,
        "name" => config.name = Some(value.to_owned()),
        "sentinel_user" | "sentinel_password" if !matches!(config.endpoint, Endpoint::Sentinel { .. }) => {
            return Err(bad(format!("the option \"{name}\" belongs to a URL of Sentinels, redis+sentinel://")));
        }
        "sentinel_user" => config.sentinel_login.set_user(value.to_owned()),
        "sentinel_password" => config.sentinel_login.password = Some(value.to_owned()),
        "protocol" => {
            config.protocol = match value {
                "2" | "resp2" => Protocol::Resp2,
                "3" | "resp3" => Protocol::Resp3,
                _ => return Err(bad("the option \"protocol\" must be 2 or 3 (or resp2 or resp3)")),
            }
        }
        "connect_timeout" => config.connect_timeout = duration(name, value)?,
        "command_timeout" if value == "none" => config.command_timeout = None,
        "command_timeout" => config.command_timeout = Some(duration(name, value)?),
        "silence_max" if value == "none" => config.silence_max = None,
        "silence_max" => config.silence_max = Some(duration(name, value)?),
        "backoff_min" => config.retry.backoff_min = duration(name, value)?,
        "backoff_max" => config.retry.backoff_max = duration(name, value)?,
        "queue" => config.limits.queue_bytes_max = bytes(name, value)?,
        "reply_bytes_max" => config.limits.reply_bytes_max = bytes(name, value)?,
        "queue_full" => {
            config.limits.queue_full = match value {
                "wait" => QueueFull::Wait,
                "fail" => QueueFull::Fail,
                _ => return Err(bad("the option \"queue_full\" must be wait or fail")),
            }
        }
        "resend" => {
            config.retry.resend = match value {
                "reads" => Resend::Reads,
                "overwrites" => Resend::Overwrites,
                "nothing" => Resend::Nothing,
                _ => return Err(bad("the option \"resend\" must be reads, overwrites or nothing")),
            }
        }
        "unix_socket" => config.same_machine.moves_to_unix_socket = yes_or_no(name, value)?,
        "shared_memory" => config.same_machine.shares_memory = yes_or_no(name, value)?,
        "read_from" if config.endpoint.has_replicas() => config.read_from = ReadFrom::read(value)?,
        "read_from" => return Err(bad(NO_REPLICAS)),
        _ if matches!(config.endpoint, Endpoint::Embedded(_)) => {
            config.settings.push((name.to_owned(), value.to_owned()));
        }
        _ => return Err(bad(format!("{} is unknown; the options are {}", named(name), known(config)))),
    }
    Ok(())
}

/// Returns the names of the options that a URL of this kind takes.
fn known(config: &Config) -> String {
    let has_replicas = config.endpoint.has_replicas();
    let is_service = matches!(config.endpoint, Endpoint::Sentinel { .. });
    let further =
        [(has_replicas, REPLICA_OPTIONS), (is_service, SENTINEL_OPTIONS), (config.tls.is_some(), TLS_OPTIONS)];
    let further = further.into_iter().filter(|(applies, _)| *applies).map(|(_, names)| names);
    let mut names = [OPTIONS].into_iter().chain(further).collect::<Vec<_>>().join(", ");
    if config.tls.is_none() && !matches!(config.endpoint, Endpoint::Unix(_)) {
        names.push_str(&format!("; with TLS (rediss://) also {TLS_OPTIONS}"));
    }
    names
}

fn yes_or_no(name: &str, value: &str) -> Result<bool, Error> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(bad(format!("the option \"{name}\" must be yes or no"))),
    }
}

fn number(text: &str, what: &str) -> Result<u32, Error> {
    text.parse().map_err(|_| bad(format!("{what} is no database number")))
}

/// Splits `250ms` into 250 and `ms`.
fn quantity(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text.get(..end)?.parse().ok()?, text.get(end..)?))
}

fn duration(name: &str, text: &str) -> Result<Duration, Error> {
    match quantity(text) {
        Some((count, "us")) => Ok(Duration::from_micros(count)),
        Some((count, "ms")) => Ok(Duration::from_millis(count)),
        Some((count, "s")) => Ok(Duration::from_secs(count)),
        Some((count, "m")) => Ok(Duration::from_secs(count.saturating_mul(60))),
        _ => Err(bad(format!("the option \"{name}\" is no duration: a number and us, ms, s or m, such as 250ms"))),
    }
}

fn bytes(name: &str, text: &str) -> Result<usize, Error> {
    let factor = match quantity(text) {
        Some((_, "")) => 1,
        Some((_, "kb")) => 1 << 10,
        Some((_, "mb")) => 1 << 20,
        Some((_, "gb")) => 1 << 30,
        _ => 0,
    };
    match quantity(text).and_then(|(count, _)| usize::try_from(count).ok()?.checked_mul(factor)) {
        Some(bytes) if factor > 0 => Ok(bytes),
        _ => Err(bad(format!("the option \"{name}\" is no size: a number of bytes, or with kb, mb or gb"))),
    }
}

/// Resolves `%41`; `what` is the part's name in an error.
fn decoded(text: &str, what: &str) -> Result<String, Error> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let value = after.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(value.ok_or_else(|| bad(format!("{what} holds a % that is not followed by two digits")))?);
        rest = after.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).map_err(|_| bad(format!("{what} is not UTF-8 when decoded")))
}

#[cfg(test)]
mod tests;
