//! Reads that need not go to the primary: the ones that a client may cache until a key changes, and the ones that a replica may
//! answer.
//!
//! A reply may be cached if nothing but the value of one key and the request's own arguments decides it: the command only
//! reads, its row says which of its arguments is the key, and its output is not marked as nondeterministic.
//!
//! A command that a replica may answer reads the values of keys that its arguments name, and nothing else. Its reply must
//! depend on the data, and not on the server: the idle time of a key or its encoding may differ on a replica. A script may read
//! keys that it does not name. A command that may wait must see later writes.
//!
//! Facts that a row cannot state stand here with their reasons. Constants and pure functions only; any thread.

use super::flags::{Flags, KeyFlags};
use super::key_spec::{Begin, Find, KeySpec};
use super::{Command, Reach, Row};

/// The place of the one key that decides a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecidingKey {
    /// Its index among the arguments, the command's name being number 0.
    pub index: usize,
    /// True if the key decides the reply only when it is the request's last argument: the command takes several keys, so the
    /// request must name a single one.
    pub is_last: bool,
}

impl Row {
    /// Returns the place of the one key that decides the reply, if the reply may be cached until that key changes; none for
    /// other commands.
    pub const fn deciding_key(&self) -> Option<DecidingKey> {
        let only_reads = self.flags.contains(Flags::READONLY) && matches!(self.reach, Reach::Named);
        if !only_reads || self.timeout.is_some() || self.sharing.connection.is_some() || self.tips.is_nondeterministic()
        {
            return None;
        }
        // A script may read more than its keys. TOUCH is sent for its effect on the server's access time of the key. The
        // groups of a stream, and the memory that a key takes, change without an invalidation of the key.
        use Command::{MemoryUsage, Touch, XInfoGroups, XInfoStream};
        if self.runs_script() || matches!(self.id, MemoryUsage | Touch | XInfoGroups | XInfoStream) {
            return None;
        }
        match self.keys.specs {
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

    /// Returns whether a replica may answer the command as well as its primary, apart from writes that the replica has not
    /// received yet.
    pub const fn reads_data(&self) -> bool {
        let only_reads = self.flags.contains(Flags::READONLY) && !self.flags.contains(Flags::BLOCKING);
        let names_keys = !self.keys.specs.is_empty() && matches!(self.reach, Reach::Named);
        // TOUCH is sent for its effect on the server's access time of the key, and a cursor has a meaning only for the server
        // that returned it.
        use Command::{HScan, Object, SScan, Touch, ZScan};
        let is_of_server = matches!(self.id, Touch | HScan | SScan | ZScan) || matches!(self.parent, Some(Object));
        only_reads && names_keys && self.is_of_data && !self.runs_script() && !is_of_server
    }
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

    #[test]
    fn what_only_reads_named_keys_may_be_answered_by_a_replica() {
        let mut names: Vec<&str> = all().iter().filter(|row| row.reads_data()).map(|row| row.full_name).collect();
        names.sort_unstable();
        assert_eq!(
            names.join(" "),
            "bitcount bitfield_ro bitpos digest dump exists expiretime geodist geohash geopos georadius_ro georadiusbymember_ro \
             geosearch get getbit getrange hexists hexpiretime hget hgetall hkeys hlen hmget hpexpiretime hpttl hrandfield hstrlen httl \
             hvals lcs lindex llen lpos lrange mget pexpiretime pfcount pttl scard sdiff sdiffcard sinter sintercard sismember \
             smembers smismember srandmember strlen substr sunion sunioncard ttl type xinfo|consumers xinfo|groups xinfo|stream \
             xlen xpending xrange xrevrange zcard zcount zdiff zinter zintercard zlexcount zmscore zrandmember zrange \
             zrangebylex zrangebyscore zrank zrevrange zrevrangebylex zrevrangebyscore zrevrank zscore zunion"
        );
    }
}
