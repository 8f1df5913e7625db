//! Which commands a replica may answer in the place of its primary.
//!
//! One that reads the values of keys that its arguments name, and nothing else. What it tells must be of the data, and not of
//! the server: how long ago a key was used there, how it is kept. A script may read what it does not name, and one that may
//! wait is to hear of what comes. Constants and pure functions only; any thread.

use super::flags::Flags;
use super::{Command, Reach, Row};

impl Row {
    /// Whether a replica may answer it as well as its primary, but for what it has not heard of yet.
    pub const fn reads_data(&self) -> bool {
        let only_reads = self.flags.contains(Flags::READONLY) && !self.flags.contains(Flags::BLOCKING);
        let names_keys = !self.keys.is_empty() && matches!(self.reach, Reach::Named);
        // TOUCH is sent for what it does to the server's clock of the key, and a cursor says something to who gave it alone.
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
