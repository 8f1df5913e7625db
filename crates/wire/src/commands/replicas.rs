//! The commands that a replica may answer in the place of its primary.
//!
//! Such a command reads the values of keys that its arguments name, and nothing else. Its reply must depend on the data, and
//! not on the server: the idle time of a key or its encoding may differ on a replica. A script may read keys that it does not
//! name. A command that may wait must see later writes. Constants and pure functions only; any thread.

use super::flags::Flags;
use super::{Command, Reach, Row};

impl Row {
    /// Returns whether a replica may answer it as well as its primary, apart from writes that the replica has not received
    /// yet.
    pub const fn reads_data(&self) -> bool {
        let only_reads = self.flags.contains(Flags::READONLY) && !self.flags.contains(Flags::BLOCKING);
        let names_keys = !self.keys.is_empty() && matches!(self.reach, Reach::Named);
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
