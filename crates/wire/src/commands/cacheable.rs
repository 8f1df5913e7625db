//! Which replies a client may cache that is told when a key changes, and which argument is that key.
//!
//! A reply may be cached if nothing but the value of one key and the request's own arguments decides it: the command only
//! reads, its row says which of its arguments is the key, and its output is not marked as nondeterministic. Facts that a row
//! cannot state stand here with their reasons. Constants and pure functions only; any thread.

use super::flags::{Flags, KeyFlags};
use super::key_spec::{Begin, Find, KeySpec};
use super::{Command, Reach, Row};

/// The tip in COMMAND INFO of commands with replies that depend on more than the data. If it names the order only, any order
/// is as good as another.
const NONDETERMINISTIC: &[u8] = b"nondeterministic_output";

/// Where the key stands that decides a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecidingKey {
    /// Its index among the arguments, the command's name being number 0.
    pub index: usize,
    /// Only where it is the last argument: the command takes several keys, and this request names one.
    pub is_last: bool,
}

impl Row {
    /// Returns where the one key stands that decides the reply, for a reply that may be kept until that key changes; none for
    /// another.
    pub const fn deciding_key(&self) -> Option<DecidingKey> {
        let only_reads = self.flags.contains(Flags::READONLY) && matches!(self.reach, Reach::Named);
        if !only_reads || self.timeout.is_some() || self.connection.is_some() || self.is_nondeterministic() {
            return None;
        }
        // A script may read more than its keys. TOUCH is sent for its effect on the server's access time of the key. The
        // groups of a stream, and the memory that a key takes, change without an invalidation of the key.
        use Command::{MemoryUsage, Touch, XInfoGroups, XInfoStream};
        if self.runs_script() || matches!(self.id, MemoryUsage | Touch | XInfoGroups | XInfoStream) {
            return None;
        }
        match self.keys {
            [KeySpec { flags, begin: Begin::Index(index), find, .. }]
                if flags.contains(KeyFlags::RO) && !flags.contains(KeyFlags::NOT_KEY) =>
            {
                let index = *index as usize;
                match find {
                    Find::Range { last: 0, .. } => Some(DecidingKey { index, is_last: false }),
                    Find::Range { last: -1, step: 1, .. } => Some(DecidingKey { index, is_last: true }),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    const fn is_nondeterministic(&self) -> bool {
        let mut tip = 0;
        while tip < self.tips.len() {
            if is_same(self.tips[tip].as_bytes(), NONDETERMINISTIC) {
                return true;
            }
            tip += 1;
        }
        false
    }
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

#[cfg(test)]
mod tests {
    use super::super::all;
    use super::*;

    #[test]
    fn what_one_key_decides_may_be_kept_and_nothing_else() {
        let names = |is_last: bool| {
            let rows = all().iter().filter(|row| row.deciding_key().is_some_and(|key| key.is_last == is_last));
            rows.map(|row| row.full_name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            names(false),
            "digest get getrange strlen substr geodist geohash geopos georadius_ro georadiusbymember_ro geosearch xlen xrange \
             xrevrange zcard zcount zlexcount zmscore zrange zrangebylex zrangebyscore zrank zrevrange zrevrangebylex \
             zrevrangebyscore zrevrank zscore hexists hexpiretime hget hgetall hkeys hlen hmget hpexpiretime hstrlen hvals \
             scard sismember smismember smembers lindex llen lpos lrange bitcount bitfield_ro bitpos getbit expiretime \
             pexpiretime type"
        );
        assert_eq!(names(true), "mget sdiff sinter sunion exists");
        assert_eq!(Command::Get.row().deciding_key(), Some(DecidingKey { index: 1, is_last: false }));
    }
}
