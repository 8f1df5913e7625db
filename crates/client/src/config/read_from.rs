//! The servers to which reads may go if keys have replicas. Pure data; any thread.

use crate::error::{Error, ErrorKind};

/// The servers that reads may go to, in a cluster and behind Sentinels: see [`Config::read_from`](crate::Config::read_from).
///
/// Servers that are equally good take turns. A replica that cannot be reached, is silent, loads its data, has lost its
/// primary or is more than a second or two behind it is passed over. If none is left the primary is asked, so that no caller
/// waits for a replica. While the primary cannot be reached, a replica that does not keep up is better than no server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadFrom {
    /// The primary alone: a caller that has written reads its own writes. `primary` in a URL.
    #[default]
    Primary,
    /// Replicas. `replica` in a URL.
    Replica,
    /// Replicas and the primary alike. `any` in a URL.
    Any,
    /// Servers in this availability zone: its replicas, then the primary if it is in this zone, then replicas elsewhere. Each
    /// server reports its zone as `availability_zone` in INFO (Valkey's option `availability-zone`). `zone:NAME` in a URL.
    Zone(String),
}

impl ReadFrom {
    /// Reads the value of the URL's option.
    pub(super) fn read(text: &str) -> Result<Self, Error> {
        match text.split_once(':') {
            None if text == "primary" => Ok(Self::Primary),
            None if text == "replica" => Ok(Self::Replica),
            None if text == "any" => Ok(Self::Any),
            Some(("zone", name)) if !name.is_empty() => Ok(Self::Zone(name.to_owned())),
            _ => Err(Error::unsent(
                ErrorKind::Configuration,
                "the option \"read_from\" must be primary, replica, any, or zone: with the name of an availability zone",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn a_url_says_where_reads_go() {
        let read = |options: &str| {
            let url = format!("redis+cluster://h:7000?{options}");
            Config::from_url(&url).map(|config| config.read_from)
        };
        assert_eq!(read(""), Ok(ReadFrom::Primary));
        assert_eq!(read("read_from=primary"), Ok(ReadFrom::Primary));
        assert_eq!(read("read_from=replica"), Ok(ReadFrom::Replica));
        assert_eq!(read("read_from=any"), Ok(ReadFrom::Any));
        assert_eq!(read("read_from=zone:eu-1a"), Ok(ReadFrom::Zone("eu-1a".to_owned())));
        for odd in ["read_from=", "read_from=zone", "read_from=zone:", "read_from=nearest"] {
            assert!(read(odd).unwrap_err().message().contains("availability zone"), "{odd}");
        }
        let sentinel = Config::from_url("redis+sentinel://h/shop?read_from=any").map(|config| config.read_from);
        assert_eq!(sentinel, Ok(ReadFrom::Any));
        for elsewhere in ["redis://h", "unix:///run/s", "embedded://"] {
            let error = Config::from_url(&format!("{elsewhere}?read_from=any")).unwrap_err();
            assert!(error.message().contains("redis+cluster://"), "{error}");
        }
    }
}
