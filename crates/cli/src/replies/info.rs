//! The lines of INFO, and the facts in them about replicas and keys.

use std::collections::HashMap;

/// A replica as its primary lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// The replica's address, as the primary sees it.
    pub ip: String,
    /// The port that the replica has announced.
    pub port: u16,
    /// True if the replica has received its snapshot.
    pub is_online: bool,
    /// The offset that the replica has acknowledged.
    pub offset: u64,
}

/// The lines of INFO.
#[derive(Clone, Debug, Default)]
pub struct Info(HashMap<String, String>);

impl Info {
    /// Reads them.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        Self(lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
    }

    /// Returns the value of a line; empty if there is no such line.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Returns the number of a line; 0 if there is no such line.
    pub fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// Returns the lines with names that begin with the prefix: the rest of the name, and the value.
    pub fn beginning<'i>(&'i self, prefix: &'i str) -> impl Iterator<Item = (&'i str, &'i str)> {
        self.0.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }

    /// Returns whether the server is a replica.
    pub fn is_replica(&self) -> bool {
        self.text("role") == "slave"
    }

    /// Returns the number of keys in all databases.
    pub fn keys(&self) -> u64 {
        self.databases().map(|(_, keys)| keys).sum()
    }

    /// Returns the highest number of a database that has a key.
    pub fn last_database(&self) -> Option<u64> {
        self.databases().map(|(number, _)| number).max()
    }

    fn databases(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().filter_map(|(name, value)| {
            let keys = value.strip_prefix("keys=")?.split(',').next()?.parse().ok()?;
            Some((name.strip_prefix("db")?.parse().ok()?, keys))
        })
    }

    /// Returns the server's replicas.
    pub fn replicas(&self) -> Vec<Replica> {
        (0..self.number("connected_slaves")).filter_map(|at| replica(self.text(&format!("slave{at}")))).collect()
    }
}

/// Reads `ip=10.0.0.2,port=6379,state=online,offset=14,lag=0`.
fn replica(line: &str) -> Option<Replica> {
    let field = |name: &str| line.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    Some(Replica {
        ip: field("ip")?.to_owned(),
        port: field("port")?.parse().ok()?,
        is_online: field("state")? == "online",
        offset: field("offset")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_tells_of_replicas_and_keys() {
        let text = "# Replication\r\nrole:master\r\nconnected_slaves:2\r\nmaster_repl_offset:20\r\n\
            slave0:ip=10.0.0.2,port=6379,state=online,offset=14,lag=0,type=replica\r\n\
            slave1:ip=::1,port=7000,state=wait_bgsave,offset=0,lag=0\r\n\
            # Keyspace\r\ndb0:keys=11,expires=0,avg_ttl=0\r\ndb12:keys=5,expires=1\r\n";
        let info = Info::parse(text);
        assert_eq!((info.is_replica(), info.number("master_repl_offset"), info.number("loading")), (false, 20, 0));
        assert_eq!((info.keys(), info.last_database()), (16, Some(12)));
        let first = Replica { ip: "10.0.0.2".to_owned(), port: 6379, is_online: true, offset: 14 };
        let second = Replica { ip: "::1".to_owned(), port: 7000, is_online: false, offset: 0 };
        assert_eq!(info.replicas(), [first, second]);
        assert_eq!((Info::default().keys(), Info::default().last_database()), (0, None));
    }
}
