//! The release of a server, and the formats of dumps that it loads and writes: they decide whether one server can follow the
//! other.

use crate::replies::info::Info;

/// The project that has made the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maker {
    Redis,
    Valkey,
    Sleeve,
}

/// The format of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Redis's format, in this version.
    Redis(u16),
    /// Valkey's own format, from version 80 on.
    Valkey(u16),
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Redis(version) => write!(f, "version {version}"),
            Self::Valkey(version) => write!(f, "Valkey's version {version}"),
        }
    }
}

/// A server's maker and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    maker: Maker,
    major: u16,
    minor: u16,
    version: String,
}

impl Release {
    /// Reads the release from INFO.
    pub fn of(info: &Info) -> Self {
        let makers = [("sleeve_version", Maker::Sleeve), ("valkey_version", Maker::Valkey)];
        let named = makers.into_iter().find(|(field, _)| !info.text(field).is_empty());
        let (field, maker) = named.unwrap_or(("redis_version", Maker::Redis));
        let version = info.text(field).to_owned();
        let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
        let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        Self { maker, major, minor, version }
    }

    /// Returns whether the server knows FAILOVER, and PSYNC with FAILOVER.
    pub fn has_failover(&self) -> bool {
        self.maker != Maker::Redis || (self.major, self.minor) >= (6, 2)
    }

    /// Returns whether the server's FAILOVER asks the replica for its offset, instead of waiting for the replica's
    /// acknowledgement, which comes once a second.
    pub fn asks_replicas(&self) -> bool {
        self.maker == Maker::Sleeve
    }

    /// Returns the format in which the server usually sends its data to a replica. A Sleeve uses a newer one if fields of
    /// hashes have deadlines.
    pub fn writes(&self) -> Format {
        match (self.maker, self.major, self.minor) {
            (Maker::Sleeve, ..) => Format::Redis(10),
            (Maker::Valkey, 9.., _) => Format::Valkey(80),
            (Maker::Valkey, ..) => Format::Redis(11),
            (Maker::Redis, 9.., _) | (Maker::Redis, 8, 4..) => Format::Redis(13),
            (Maker::Redis, 8, _) | (Maker::Redis, 7, 4..) => Format::Redis(12),
            (Maker::Redis, 7, 2..) => Format::Redis(11),
            (Maker::Redis, 7, _) => Format::Redis(10),
            (Maker::Redis, ..) => Format::Redis(9),
        }
    }

    /// Returns whether the server loads a dump of this format.
    pub fn loads(&self, format: Format) -> bool {
        let redis_max = match (self.maker, self.writes()) {
            (Maker::Sleeve, _) => 13,
            (Maker::Valkey, _) => 11,
            (Maker::Redis, Format::Redis(version) | Format::Valkey(version)) => version,
        };
        match format {
            Format::Redis(version) => version <= redis_max,
            Format::Valkey(_) => self.maker == Maker::Sleeve || self.writes() == format,
        }
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}", self.maker, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(lines: &str) -> Release {
        Release::of(&Info::parse(lines))
    }

    fn redis(version: &str) -> Release {
        release(&format!("redis_version:{version}"))
    }

    fn valkey(version: &str) -> Release {
        release(&format!("redis_version:7.2.4\nserver_name:valkey\nvalkey_version:{version}"))
    }

    fn sleeve() -> Release {
        release("redis_version:7.2.0\nserver_name:sleeve\nsleeve_version:0.1.0")
    }

    #[test]
    fn a_sleeve_stands_between_any_two() {
        for other in [redis("7.0.15"), redis("7.2.4"), redis("8.6.1"), valkey("8.1.0"), valkey("9.0.0")] {
            assert!(sleeve().loads(other.writes()), "from {other}");
            assert!(other.loads(sleeve().writes()), "to {other}");
            assert!(other.has_failover());
        }
    }

    #[test]
    fn an_older_release_does_not_load_files_of_a_newer_one() {
        let loads = |to: &Release, from: &Release| to.loads(from.writes());
        assert!(loads(&redis("8.0.2"), &redis("7.0.15")) && !loads(&redis("7.0.15"), &redis("8.0.2")));
        assert!(loads(&valkey("9.0.0"), &redis("7.2.4")) && !loads(&redis("7.2.4"), &valkey("9.0.0")));
        assert!(!loads(&valkey("8.1.0"), &redis("7.4.0")) && !loads(&valkey("8.1.0"), &valkey("9.0.0")));
        assert!(!loads(&redis("6.2.14"), &sleeve()) && loads(&sleeve(), &redis("6.2.14")));
        assert!(!redis("6.0.20").has_failover() && redis("6.2.0").has_failover());
    }

    #[test]
    fn a_release_prints_its_maker() {
        assert_eq!(
            [redis("7.0.15"), valkey("9.0.0"), sleeve()].map(|release| release.to_string()),
            ["Redis 7.0.15", "Valkey 9.0.0", "Sleeve 0.1.0"]
        );
    }
}
