//! The writes that may be executed twice in a row, for a client that does not know whether the first attempt was executed.
//!
//! The rule: if no other client writes the keys in between, two executions leave the same data as one, and both give the same
//! reply. So the command overwrites, and neither counts, appends, moves, depends on present data, nor reports it. DEL is out
//! because its second reply differs, EXPIRE because the key may have expired in between. If another client has written in
//! between, the second execution undoes that write. Every such write has this risk, so the client retries none unless its
//! user asked for that. The exception is a message with a number that its producer has given it (XADD with IDMP): the server
//! recognizes it, even if other clients have written in between. Constants and pure functions only; any thread.

use crate::arguments::Args;

/// The condition under which a write may be executed twice in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// The command may be repeated in any case.
    Always,
    /// If only these words and numbers follow the first so many arguments (the command's name counts as one).
    Only(usize, &'static [&'static str]),
    /// If the request has a number by which the server recognizes it: XADD's IDMP or IDMPAUTO.
    Numbered,
}

impl Repeat {
    /// Returns whether this request may be executed twice in a row: it writes, and the second time changes nothing and
    /// answers the same.
    pub fn allows(self, args: Args<'_>) -> bool {
        let is_number = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_digit);
        match self {
            Repeat::Always => true,
            Repeat::Numbered => self.is_numbered(args),
            Repeat::Only(behind, words) => {
                let mut rest = (behind..args.len()).filter_map(|index| args.get(index));
                rest.all(|word| is_number(word) || words.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(word)))
            }
        }
    }

    /// Returns whether this request may be executed again regardless of other writes: it carries a number by which the server
    /// recognizes it.
    pub fn is_numbered(self, args: Args<'_>) -> bool {
        if self != Repeat::Numbered {
            return false;
        }
        // The option stands behind the key and before the entry's id.
        let mut index = 2;
        while let Some(word) = args.get(index) {
            let is = |names: &[&str]| names.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(word));
            index += match () {
                () if is(&["IDMP", "IDMPAUTO"]) => return true,
                () if is(&["NOMKSTREAM", "KEEPREF", "DELREF", "ACKED"]) => 1,
                () if is(&["MAXLEN", "MINID"]) => 2 + usize::from(matches!(args.get(index + 1), Some(b"=" | b"~"))),
                () if is(&["LIMIT"]) => 2,
                () => return false,
            };
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::{all, find};
    use crate::arguments::OwnedArgs;

    fn may_repeat(line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        let row = find(words[0].as_bytes()).expect("it is in the table");
        let args = OwnedArgs::collect(words.iter().map(|word| word.as_bytes()));
        row.sharing.repeat.is_some_and(|repeat| repeat.allows(args.args()))
    }

    #[test]
    fn what_overwrites_may_be_repeated_and_nothing_else() {
        for line in [
            "set k v",
            "SET k NX",
            "set k v ex 10",
            "SET k v PXAT 1700000000000",
            "set k v KeepTTL",
            "setex k 10 v",
            "psetex k 10 v",
            "mset a 1 b 2",
            "hmset h f v",
            "pfmerge a b c",
            "xadd k IDMP p 1 * f v",
            "xadd k nomkstream maxlen ~ 10 limit 5 acked idmpauto p * f v",
            "xadd k MINID 10 IDMP p 1 * f v",
        ] {
            assert!(may_repeat(line), "{line}");
        }
        for line in [
            "set k v nx",
            "set k v XX EX 10",
            "set k v get",
            "set k v ex 10 get",
            "set k v ifeq 1",
            "set k v ex -1",
            "get k",
            "incr k",
            "append k v",
            "del k",
            "expire k 10",
            "getset k v",
            "msetnx a 1",
            "lpush k v",
            "hset h f v",
            "flushall",
            "eval x 0",
            "xadd k * f v",
            "xadd k * idmp p",
            "xadd k maxlen 5 1-1 idmp v",
            "xadd k nomkstream * idmp v",
            "xadd idmp * f v",
        ] {
            assert!(!may_repeat(line), "{line}");
        }
        let names: Vec<&str> =
            all().iter().filter(|row| row.sharing.repeat.is_some()).map(|row| row.full_name).collect();
        assert_eq!(names.join(" "), "mset psetex set setex xadd hmset pfmerge");
    }

    #[test]
    fn only_messages_are_numbered() {
        let is_numbered = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let args = OwnedArgs::collect(words.iter().copied());
            let row = find(words[0]).expect("it is in the table");
            row.sharing.repeat.is_some_and(|repeat| repeat.is_numbered(args.args()))
        };
        assert!(is_numbered("xadd k IDMP p 1 * f v"));
        assert!(["xadd k * f v", "set k v", "set k IDMP", "mset IDMP 1"].iter().all(|line| !is_numbered(line)));
    }
}
