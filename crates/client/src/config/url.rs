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

/// The error text for a policy if no server says which replicas there are.
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
    /// The options are `db`, `name` (CLIENT SETNAME), `protocol` (`2` or `3`), `connect_timeout`, `command_timeout`,
    /// `silence_max`, `backoff_min` and `backoff_max` (such as `250ms` or `5s`; the second and the third may be `none`),
    /// `queue` and `reply_bytes_max` (bytes, such as `16mb`), `queue_full` (`wait` or `fail`), `resend` (`reads`,
    /// `overwrites` or `nothing`), `unix_socket` and `shared_memory` (`yes` or `no`, see [`Config::unix_socket`] and
    /// [`Config::shared_memory`]); for a cluster and for Sentinels also `read_from` (`primary`, `replica`, `any` or
    /// `zone:NAME`, see [`Config::read_from`]); with TLS also `ca` and `ca_folder` (the authorities to believe instead of the
    /// system's), `cert`, `key` and `key_pass` (the certificate to show to a server that asks, its key, and the pass phrase
    /// of the key), `server_name`, and `insecure=yes`. With `embedded://` every other option is one of the engine
    /// ([`Config::engine`]): `embedded://?maxmemory=10mb&databases=64`. A user, a password, a path or a value may be
    /// percent-encoded.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration), with a sentence that names the part that cannot be
    /// read, and repeats nothing of it, because it may be a password.
    pub fn from_url(text: &str) -> Result<Self, Error> {
        read(text)
    }
}

fn read(text: &str) -> Result<Config, Error> {
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
        "redis" | "valkey" => tcp(place)?,
        "rediss" | "valkeys" => secure(tcp(place)?)?,
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
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
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

fn tcp(place: &str) -> Result<Config, Error> {
    let (address, database) = place.split_once('/').unwrap_or((place, ""));
    let (host, port) = host_and_port(address, PORT)?;
    in_database(Config::new(Endpoint::Tcp { host, port }), database)
}

/// Reads several hosts, each with its port.
fn cluster(place: &str) -> Result<Config, Error> {
    let (addresses, database) = place.split_once('/').unwrap_or((place, ""));
    let seeds = addresses.split(',').map(|host| host_and_port(host, PORT)).collect::<Result<_, _>>()?;
    in_database(Config::new(Endpoint::Cluster(seeds)), database)
}

/// Sentinels, and the service that they know.
fn sentinel(place: &str) -> Result<Config, Error> {
    let (hosts, path) = place.split_once('/').unwrap_or((place, ""));
    let sentinels = hosts.split(',').map(|host| host_and_port(host, SENTINEL_PORT)).collect::<Result<_, _>>()?;
    let (service, database) = path.split_once('/').unwrap_or((path, ""));
    let service = decoded(service, "the service")?;
    if service.is_empty() {
        return Err(bad(
            "the URL names no service behind its Sentinels, as redis+sentinel://host:26379,host/service does",
        ));
    }
    in_database(Config::new(Endpoint::Sentinel { sentinels, service }), database)
}

/// Reads a host, and its port or this one.
fn host_and_port(text: &str, port: u16) -> Result<(String, u16), Error> {
    let (host, named) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = match named {
        Some(named) => named.parse().map_err(|_| {
            bad("the port is none: a number up to 65535 stands behind the host's colon \
                 (in a password write / as %2F, ? as %3F and @ as %40)")
        })?,
        None => port,
    };
    let host = if host.is_empty() { "localhost".to_owned() } else { decoded(host, "the host")? };
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
                "2" => Protocol::Resp2,
                "3" => Protocol::Resp3,
                _ => return Err(bad("the option \"protocol\" is unknown: 2 or 3")),
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
                _ => return Err(bad("the option \"queue_full\" is unknown: wait or fail")),
            }
        }
        "resend" => {
            config.retry.resend = match value {
                "reads" => Resend::Reads,
                "overwrites" => Resend::Overwrites,
                "nothing" => Resend::Nothing,
                _ => return Err(bad("the option \"resend\" is unknown: reads, overwrites or nothing")),
            }
        }
        "unix_socket" => config.same_machine.moves_to_unix_socket = yes_or_no(name, value)?,
        "shared_memory" => config.same_machine.shares_memory = yes_or_no(name, value)?,
        "read_from" if config.endpoint.has_replicas() => config.read_from = ReadFrom::read(value)?,
        "read_from" => return Err(bad(NO_REPLICAS)),
        _ if matches!(config.endpoint, Endpoint::Embedded(_)) => {
            config.settings.push((name.to_owned(), value.to_owned()));
        }
        _ => return Err(bad(format!("{} is unknown", named(name)))),
    }
    Ok(())
}

fn yes_or_no(name: &str, value: &str) -> Result<bool, Error> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(bad(format!("the option \"{name}\" is unknown: yes or no"))),
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
mod tests {
    use super::*;

    #[test]
    fn urls_say_where_and_how() {
        let config = read("redis://ann:p%40ss:1@[::1]:7000/3?name=x&command_timeout=250ms&queue=16mb&queue_full=fail");
        let config = config.unwrap();
        assert_eq!(config.endpoint, Endpoint::Tcp { host: "::1".to_owned(), port: 7000 });
        assert_eq!((config.login.user.as_deref(), config.login.password.as_deref()), (Some("ann"), Some("p@ss:1")));
        assert_eq!((config.database, config.name.as_deref()), (3, Some("x")));
        assert_eq!(config.command_timeout, Some(Duration::from_millis(250)));
        assert_eq!((config.limits.queue_bytes_max, config.limits.queue_full), (16 << 20, QueueFull::Fail));
        assert_eq!(
            (config.limits.reply_bytes_max, read("redis://?reply_bytes_max=4gb").unwrap().limits.reply_bytes_max),
            (1 << 30, 4 << 30)
        );
        let config = read("redis://").unwrap();
        assert_eq!(config.endpoint, Endpoint::Tcp { host: "localhost".to_owned(), port: 6379 });
        let config = read("redis://:secret@host?db=2&command_timeout=none&protocol=2").unwrap();
        assert_eq!((config.login.user, config.login.password.as_deref(), config.database), (None, Some("secret"), 2));
        assert_eq!((config.command_timeout, config.protocol), (None, Protocol::Resp2));
        assert_eq!(read("redis://?silence_max=750ms").unwrap().silence_max, Some(Duration::from_millis(750)));
        assert_eq!(read("redis://?silence_max=none").unwrap().silence_max, None);
        assert_eq!(
            ["", "?resend=overwrites", "?resend=nothing"]
                .map(|end| read(&format!("redis://{end}")).unwrap().retry.resend),
            [Resend::Reads, Resend::Overwrites, Resend::Nothing]
        );
        assert!(read("redis://?resend=writes").unwrap_err().message().contains("reads, overwrites or nothing"));
        assert_eq!(
            ["", "?unix_socket=yes", "?unix_socket=no"]
                .map(|end| read(&format!("redis://{end}")).unwrap().same_machine.moves_to_unix_socket),
            [true, true, false]
        );
        assert!(read("redis://?unix_socket=maybe").unwrap_err().message().contains("yes or no"));
        assert!(read("redis://?silence_max=soon").unwrap_err().message().contains("silence_max"));
        assert_eq!(read("unix:///run/a.sock").unwrap().endpoint, Endpoint::Unix("/run/a.sock".into()));
        assert_eq!(read("embedded://").unwrap().endpoint, Endpoint::Embedded(None));
        assert_eq!(read("embedded://x").unwrap().endpoint, Endpoint::Embedded(Some("x".to_owned())));
    }

    #[test]
    fn urls_name_nodes_of_a_cluster() {
        let config = read("redis+cluster://ann:p@a:7000,b,[::1]:7002/3?name=x").unwrap();
        let seeds = vec![("a".to_owned(), 7000), ("b".to_owned(), 6379), ("::1".to_owned(), 7002)];
        assert_eq!(config.endpoint.to_string(), "the cluster of a:7000,b:6379,[::1]:7002");
        assert_eq!(config.endpoint, Endpoint::Cluster(seeds));
        assert_eq!(
            (config.login.user.as_deref(), config.database, config.name.as_deref()),
            (Some("ann"), 3, Some("x"))
        );
        let config = read("valkey+cluster://").unwrap();
        assert_eq!(config.endpoint, Endpoint::Cluster(vec![("localhost".to_owned(), 6379)]));
    }

    #[test]
    fn urls_of_sentinels_name_them_and_the_service() {
        let config =
            read("redis+sentinel://ann:p%40ss@a,[::1]:5,b:7/my%20shop/3?sentinel_user=s&sentinel_password=t&name=x");
        let config = config.unwrap();
        let sentinels = vec![("a".to_owned(), 26379), ("::1".to_owned(), 5), ("b".to_owned(), 7)];
        assert_eq!(config.endpoint, Endpoint::Sentinel { sentinels, service: "my shop".to_owned() });
        assert_eq!((config.login.user.as_deref(), config.login.password.as_deref()), (Some("ann"), Some("p@ss")));
        assert_eq!(
            (config.sentinel_login.user.as_deref(), config.sentinel_login.password.as_deref()),
            (Some("s"), Some("t"))
        );
        assert_eq!((config.database, config.name.as_deref()), (3, Some("x")));
        assert!(!format!("{config:?}").contains("\"t\""), "{config:?}");
        let config = read("valkey+sentinel:///shop?sentinel_password=t&db=2").unwrap();
        let sentinels = vec![("localhost".to_owned(), 26379)];
        assert_eq!(config.endpoint, Endpoint::Sentinel { sentinels, service: "shop".to_owned() });
        assert_eq!((config.sentinel_login.user, config.sentinel_login.password.as_deref()), (None, Some("t")));
        assert_eq!((config.login.password, config.database), (None, 2));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn urls_name_the_certificates_to_trust() {
        for scheme in ["rediss+cluster", "valkeys+cluster"] {
            let config = read(&format!("{scheme}://h,i:1?insecure=yes")).unwrap();
            let seeds = vec![("h".to_owned(), 6379), ("i".to_owned(), 1)];
            assert_eq!((config.endpoint, config.tls), (Endpoint::Cluster(seeds), Some(Tls::new().insecure(true))));
        }
        for scheme in ["rediss+sentinel", "valkeys+sentinel"] {
            let config = read(&format!("{scheme}://h/shop?ca=x")).unwrap();
            assert_eq!(config.tls, Some(Tls::new().ca_file("x")));
        }
        let config = read("rediss://h:1/2?ca=a%2Fb.pem&cert=c&key=k&server_name=s&insecure=yes&name=x").unwrap();
        let tls = Tls::new().ca_file("a/b.pem").certificate("c", "k").server_name("s").insecure(true);
        assert_eq!((config.tls, config.database, config.name.as_deref()), (Some(tls), 2, Some("x")));
        assert_eq!(read("valkeys://h").unwrap().tls, Some(Tls::new()));
        let error = read("rediss://h?insecure=maybe").unwrap_err();
        assert!(error.message().contains("yes or no"), "{error}");
    }

    #[test]
    fn urls_of_other_kinds_say_the_same() {
        assert_eq!(read("valkey://h:1/2").unwrap().database, 2);
        for scheme in ["redis+unix", "valkey+unix"] {
            let config = read(&format!("{scheme}:///run/a@b.sock?db=3")).unwrap();
            assert_eq!((config.endpoint, config.database), (Endpoint::Unix("/run/a@b.sock".into()), 3));
        }
        let config = read("unix://ann:p/s@/run/a.sock").unwrap();
        assert_eq!((config.login.user.as_deref(), config.login.password.as_deref()), (Some("ann"), Some("p/s")));
        let config = read("embedded://x?maxmemory=10mb&name=me").unwrap();
        assert_eq!(config.settings, [("maxmemory".to_owned(), "10mb".to_owned())]);
        assert_eq!(read("redis://ann@h").unwrap().login.password.as_deref(), Some(""), "a user is never left unsaid");
    }

    #[test]
    fn a_scheme_has_no_case() {
        for (url, same) in
            [("REDIS://h:1/2", "redis://h:1/2"), ("Rediss://h", "rediss://h"), ("UNIX:///A", "unix:///A")]
        {
            assert_eq!(format!("{:?}", read(url).unwrap()), format!("{:?}", read(same).unwrap()));
        }
    }

    #[test]
    fn an_unreadable_url_part_is_named() {
        for (url, part) in [
            ("localhost:6379", "no URL"),
            ("http://x", "unknown"),
            ("redis://h?ca=x", "unknown"),
            ("redis://h:x", "port"),
            ("redis://h/x", "no database"),
            ("redis+cluster://h:1,i:x", "port"),
            ("redis://h?speed=9", "speed"),
            ("embedded://:pass@x", "no password"),
            ("redis://h?command_timeout=9", "no duration"),
            ("redis://h?queue=9x", "no size"),
            ("redis://a%zz@h", "two digits"),
            ("unix://run/a.sock", "absolute"),
            ("redis+sentinel://h:1,h:2", "no service"),
            ("redis+sentinel://h:1,h:x/shop", "port"),
            ("redis+sentinel://h/shop/x", "no database"),
            ("redis://h?sentinel_password=x", "redis+sentinel://"),
        ] {
            let error = read(url).unwrap_err();
            assert!(error.message().contains(part), "{url}: {error}");
        }
    }

    #[test]
    fn no_error_repeats_a_possible_password() {
        let secrets =
            ["hunter2", "hunter2:x", "hunter2/x", "hunter2?x", "hunter2#x", "hunter2@x", "hunter2%zz", "x&hunter2"];
        let shapes = [
            "S@localhost:6379",
            ":S@localhost",
            "redis:/:S@h",
            "http://:S@h",
            "S://h",
            "redis://:S@h:x",
            "redis+cluster://h,:S@h:x",
            "redis://:S@h/x",
            "redis://S@h/x",
            "redis://ann:S@h?db=x",
            "redis://:S@h?speed=9",
            "redis://:S",
            "redis://h/S",
            "redis://h:S",
            "redis://h?S",
            "redis://h?S@h",
            "redis://h?db=S",
            "redis://h?protocol=S",
            "redis://h?queue=S",
            "redis://h?queue_full=S",
            "redis://h?command_timeout=S",
            "rediss://h?insecure=S",
            "redis://h?password=S",
            "redis+sentinel://:S@h/shop",
            "redis+sentinel://:S@h,h/shop",
            "redis+sentinel://h:S/shop",
            "redis://h?sentinel_password=S",
            "unix://:S@run/a.sock",
            "unix://S",
            "embedded://:S@x",
            "redis://:%zzS@h",
            "redis://:%ffS@h",
        ];
        for shape in shapes {
            for secret in secrets {
                let url = shape.replace('S', secret);
                match read(&url) {
                    Ok(config) => assert!(!format!("{config:?}").contains("hunter2"), "{url}: {config:?}"),
                    // A word that stands alone where an option's name belongs is shown as one.
                    Err(_) if shape == "redis://h?S" => {}
                    Err(error) => assert!(!format!("{error} {error:?}").contains("hunter2"), "{url}: {error}"),
                }
            }
        }
    }
}
