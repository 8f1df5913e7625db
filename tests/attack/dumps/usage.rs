//! The commands that use a value that may be damaged: every command of its type.
//!
//! The commands come from the command table: each row of the type's group, with the value in the place of its first key.
//! Reading commands come first, then a copy of the value takes the writing ones, and in the end both are removed. One thread
//! uses it at a time.

use sleeve_tests::generator::{Generator, Words};
use sleeve_wire::commands::{Begin, Flags, Group, Row, all};

/// The key that is restored.
pub const KEY: &[u8] = b"restored";

/// Requests for a value of any type, in their order.
const OF_ANY: &[&str] = &[
    "DEBUG DIGEST-VALUE restored",
    "DEBUG OBJECT restored",
    "OBJECT ENCODING restored",
    "OBJECT FREQ restored",
    "MEMORY USAGE restored SAMPLES 0",
    "DUMP restored",
    "COPY restored again REPLACE",
    "COPY restored kept REPLACE",
    "SORT restored ALPHA",
    "SORT restored BY nosort DESC LIMIT 0 3",
    "TTL restored",
];

/// Requests that read the whole value.
const WHOLE: &[&str] = &[
    "GET restored",
    "PFCOUNT restored",
    "LRANGE restored 0 -1",
    "SMEMBERS restored",
    "HGETALL restored",
    "HTTL restored FIELDS 1 f",
    "ZRANGE restored 0 -1 WITHSCORES",
    "ZREVRANGEBYSCORE restored +inf -inf LIMIT 1 3",
    "XRANGE restored - +",
    "XREVRANGE restored + -",
    "XINFO STREAM restored FULL COUNT 0",
    "XPENDING restored g - + 100",
];

/// Requests that remove the value.
const AT_LAST: &[&str] = &[
    "DEBUG DIGEST",
    "MEMORY USAGE kept",
    "DUMP kept",
    "RENAME kept again",
    "EXPIRE restored 100",
    "UNLINK restored",
    "DEL again kept",
];

/// Returns the commands that use a value of this type.
pub fn commands(kind: &[u8], generator: &mut Generator) -> Vec<Words> {
    let is_own = |row: &&Row| {
        let suits = match row.group {
            Group::String | Group::Bitmap | Group::HyperLogLog => kind == b"string",
            Group::List => kind == b"list",
            Group::Set => kind == b"set",
            Group::Hash => kind == b"hash",
            Group::SortedSet | Group::Geo => kind == b"zset",
            Group::Stream => kind == b"stream",
            _ => false,
        };
        suits
            && !row.is_container()
            && !row.flags.contains(Flags::BLOCKING)
            && !row.keys.is_empty()
            && row.full_name != "pfselftest"
    };
    let plain = |lines: &[&str]| {
        lines.iter().map(|line| line.split(' ').map(|word| word.as_bytes().to_vec()).collect()).collect::<Vec<Words>>()
    };
    let own: Vec<&'static Row> = all().iter().filter(is_own).collect();
    let (writes, reads): (Vec<&'static Row>, Vec<&'static Row>) =
        own.into_iter().partition(|row| row.flags.contains(Flags::WRITE));
    let mut commands = [plain(OF_ANY), plain(WHOLE)].concat();
    commands.extend(reads.into_iter().map(|row| aimed(row, generator)));
    commands.extend(writes.into_iter().map(|row| aimed(row, generator)));
    [commands, plain(WHOLE), plain(OF_ANY), plain(AT_LAST)].concat()
}

/// Returns a command of this row with the value as its first key.
fn aimed(row: &'static Row, generator: &mut Generator) -> Words {
    let mut words = generator.command_of(row);
    let place = row.keys.first().and_then(|keys| match keys.begin {
        Begin::Index(place) => Some(usize::from(place)),
        _ => None,
    });
    // If the number of keys comes first, the first key stands behind it.
    let is_counted = matches!(row.keys.first().map(|keys| keys.find), Some(sleeve_wire::commands::Find::Count { .. }));
    let place = place.map(|place| place + usize::from(is_counted));
    // These commands return as many elements as their count asks for, however small the value is, so the count is kept small.
    if row.full_name.contains("rand") {
        let is_huge = |word: &Vec<u8>| word.starts_with(b"-") && word.len() > 5;
        words.iter_mut().filter(|word| is_huge(word)).for_each(|word| *word = b"-99".to_vec());
    }
    if let Some(word) = place.and_then(|place| words.get_mut(place)) {
        *word = KEY.to_vec();
    }
    words
}
