//! Reading a server's URL. Pure functions; any thread.

use std::time::Duration;

use crate::config::{Config, Endpoint, Protocol, QueueFull};
use crate::error::{Error, ErrorKind};
use crate::tls::Tls;

fn bad(what: impl Into<String>) -> Error {
    Error::unsent(ErrorKind::Configuration, what.into())
}

impl Config {
    /// Reads a URL: `redis://[user:password@]host[:port][/database]`, `unix://[user:password@]/path` or
    /// `embedded://[name]`, each with query options. `rediss://` is `redis://` with TLS.
    ///
    /// The options are `db`, `name` (CLIENT SETNAME), `protocol` (`2` or `3`), `connect_timeout`, `command_timeout`,
    /// `backoff_min` and `backoff_max` (such as `250ms` or `5s`; `command_timeout=none`), `queue` (bytes, such as `16mb`)
    /// and `queue_full` (`wait` or `fail`); with `rediss://` also `ca` and `ca_folder` (whom to believe instead of the
    /// system's authorities), `cert` and `key` (what to show a server that asks), `server_name`, and `insecure=yes`. A user, a password or a path may be percent-encoded.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration), with a sentence that names the part that cannot be read.
    pub fn from_url(text: &str) -> Result<Self, Error> {
        read(text)
    }
}

fn read(text: &str) -> Result<Config, Error> {
    let (scheme, rest) = text.split_once("://").ok_or_else(|| {
        bad(format!("\"{text}\" is no URL: it must begin with redis://, rediss://, unix:// or embedded://"))
    })?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (credentials, place) = match rest.rsplit_once('@') {
        Some((credentials, place)) => (Some(credentials), place),
        None => (None, rest),
    };
    let mut config = match scheme {
        "redis" => tcp(place)?,
        "rediss" => tcp(place)?.tls(Tls::new()),
        "unix" => Config::new(unix(place)?),
        "embedded" => Config::new(embedded(place)?),
        other => {
            return Err(bad(format!("\"{other}://\" is unknown: use redis://, rediss://, unix:// or embedded://")));
        }
    };
    if let Some(credentials) = credentials {
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        config.user = Some(decoded(user)?).filter(|user| !user.is_empty());
        config.password = Some(decoded(password)?).filter(|password| !password.is_empty());
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        option(&mut config, name, &decoded(value)?)?;
    }
    config.backoff_max = config.backoff_max.max(config.backoff_min);
    Ok(config)
}

fn tcp(place: &str) -> Result<Config, Error> {
    let (address, database) = place.split_once('/').unwrap_or((place, ""));
    let (host, port) = match address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => address.split_once(':').map_or((address, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        Some(port) => port.parse().map_err(|_| bad(format!("\"{port}\" is no port")))?,
        None => 6379,
    };
    let host = if host.is_empty() { "localhost".to_owned() } else { decoded(host)? };
    let mut config = Config::new(Endpoint::Tcp { host, port });
    let database = database.trim_end_matches('/');
    if !database.is_empty() {
        config.database = number(database, "database")?;
    }
    Ok(config)
}

fn unix(place: &str) -> Result<Endpoint, Error> {
    if !place.starts_with('/') {
        return Err(bad(format!("\"unix://{place}\" names no absolute path, such as unix:///run/server.sock")));
    }
    Ok(Endpoint::Unix(decoded(place)?.into()))
}

fn embedded(place: &str) -> Result<Endpoint, Error> {
    let name = decoded(place.trim_end_matches('/'))?;
    Ok(Endpoint::Embedded(Some(name).filter(|name| !name.is_empty())))
}

fn option(config: &mut Config, name: &str, value: &str) -> Result<(), Error> {
    if let Some(tls) = config.tls.take() {
        let (tls, is_known) = tls_option(tls, name, value)?;
        config.tls = Some(tls);
        if is_known {
            return Ok(());
        }
    }
    match name {
        "db" => config.database = number(value, "database")?,
        "name" => config.name = Some(value.to_owned()),
        "protocol" => {
            config.protocol = match value {
                "2" => Protocol::Resp2,
                "3" => Protocol::Resp3,
                other => return Err(bad(format!("protocol \"{other}\" is unknown: 2 or 3"))),
            }
        }
        "connect_timeout" => config.connect_timeout = duration(value)?,
        "command_timeout" if value == "none" => config.command_timeout = None,
        "command_timeout" => config.command_timeout = Some(duration(value)?),
        "backoff_min" => config.backoff_min = duration(value)?,
        "backoff_max" => config.backoff_max = duration(value)?,
        "queue" => config.queue_bytes_max = bytes(value)?,
        "queue_full" => {
            config.queue_full = match value {
                "wait" => QueueFull::Wait,
                "fail" => QueueFull::Fail,
                other => return Err(bad(format!("queue_full \"{other}\" is unknown: wait or fail"))),
            }
        }
        other => return Err(bad(format!("the option \"{other}\" is unknown"))),
    }
    Ok(())
}

/// What an option says about TLS, and whether it says anything.
fn tls_option(mut tls: Tls, name: &str, value: &str) -> Result<(Tls, bool), Error> {
    match name {
        "ca" => tls.ca_file = Some(value.into()),
        "ca_folder" => tls.ca_folder = Some(value.into()),
        "cert" => tls.certificate = Some(value.into()),
        "key" => tls.key = Some(value.into()),
        "server_name" => tls.server_name = Some(value.to_owned()),
        "insecure" => {
            tls.insecure = match value {
                "yes" => true,
                "no" => false,
                other => return Err(bad(format!("insecure \"{other}\" is unknown: yes or no"))),
            }
        }
        _ => return Ok((tls, false)),
    }
    Ok((tls, true))
}

fn number(text: &str, what: &str) -> Result<u32, Error> {
    text.parse().map_err(|_| bad(format!("\"{text}\" is no {what} number")))
}

/// Splits `250ms` into 250 and `ms`.
fn quantity(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text.get(..end)?.parse().ok()?, text.get(end..)?))
}

fn duration(text: &str) -> Result<Duration, Error> {
    match quantity(text) {
        Some((count, "us")) => Ok(Duration::from_micros(count)),
        Some((count, "ms")) => Ok(Duration::from_millis(count)),
        Some((count, "s")) => Ok(Duration::from_secs(count)),
        Some((count, "m")) => Ok(Duration::from_secs(count.saturating_mul(60))),
        _ => Err(bad(format!("\"{text}\" is no duration: a number and us, ms, s or m, such as 250ms"))),
    }
}

fn bytes(text: &str) -> Result<usize, Error> {
    let factor = match quantity(text) {
        Some((_, "")) => 1,
        Some((_, "kb")) => 1 << 10,
        Some((_, "mb")) => 1 << 20,
        Some((_, "gb")) => 1 << 30,
        _ => 0,
    };
    match quantity(text).and_then(|(count, _)| usize::try_from(count).ok()?.checked_mul(factor)) {
        Some(bytes) if factor > 0 => Ok(bytes),
        _ => Err(bad(format!("\"{text}\" is no size: a number of bytes, or with kb, mb or gb"))),
    }
}

/// Resolves `%41`.
fn decoded(text: &str) -> Result<String, Error> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let value = after.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(value.ok_or_else(|| bad(format!("\"{text}\" holds a % that is not followed by two digits")))?);
        rest = after.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).map_err(|_| bad(format!("\"{text}\" is not UTF-8 when decoded")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_say_where_and_how() {
        let config = read("redis://ann:p%40ss:1@[::1]:7000/3?name=x&command_timeout=250ms&queue=16mb&queue_full=fail");
        let config = config.unwrap();
        assert_eq!(config.endpoint, Endpoint::Tcp { host: "::1".to_owned(), port: 7000 });
        assert_eq!((config.user.as_deref(), config.password.as_deref()), (Some("ann"), Some("p@ss:1")));
        assert_eq!((config.database, config.name.as_deref()), (3, Some("x")));
        assert_eq!(config.command_timeout, Some(Duration::from_millis(250)));
        assert_eq!((config.queue_bytes_max, config.queue_full), (16 << 20, QueueFull::Fail));
        let config = read("redis://").unwrap();
        assert_eq!(config.endpoint, Endpoint::Tcp { host: "localhost".to_owned(), port: 6379 });
        let config = read("redis://:secret@host?db=2&command_timeout=none&protocol=2").unwrap();
        assert_eq!((config.user, config.password.as_deref(), config.database), (None, Some("secret"), 2));
        assert_eq!((config.command_timeout, config.protocol), (None, Protocol::Resp2));
        let config = read("rediss://h:1/2?ca=a%2Fb.pem&cert=c&key=k&server_name=s&insecure=yes&name=x").unwrap();
        let tls = Tls::new().ca_file("a/b.pem").certificate("c", "k").server_name("s").insecure(true);
        assert_eq!((config.tls, config.database, config.name.as_deref()), (Some(tls), 2, Some("x")));
        assert_eq!(read("unix:///run/a.sock").unwrap().endpoint, Endpoint::Unix("/run/a.sock".into()));
        assert_eq!(read("embedded://").unwrap().endpoint, Endpoint::Embedded(None));
        assert_eq!(read("embedded://x").unwrap().endpoint, Endpoint::Embedded(Some("x".to_owned())));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (url, part) in [
            ("localhost:6379", "no URL"),
            ("http://x", "unknown"),
            ("rediss://h?insecure=maybe", "yes or no"),
            ("redis://h?ca=x", "unknown"),
            ("redis://h:x", "no port"),
            ("redis://h/x", "no database"),
            ("redis://h?speed=9", "speed"),
            ("redis://h?command_timeout=9", "no duration"),
            ("redis://h?queue=9x", "no size"),
            ("redis://a%zz@h", "two digits"),
            ("unix://run/a.sock", "absolute"),
        ] {
            let error = read(url).unwrap_err();
            assert!(error.message().contains(part), "{url}: {error}");
        }
    }
}
