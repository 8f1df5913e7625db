//! The command table: one row per command and per subcommand, with every fact that more than one place has to know.
//!
//! A row decides everything that depends on the command: which shards are locked, which gates refuse it, the answers of
//! COMMAND, COMMAND DOCS and COMMAND GETKEYS, which commands the client sends on a connection of their own, the completion
//! and the hints of the command line. The rows stand in one file per family; this file makes the enum [`Command`] and the
//! static rows of them, in one pass, so that a row without its variant, or the reverse, cannot be written. A server that
//! matches on [`Command`] without a wildcard does not compile until a new row has its arm.
//!
//! The facts are those that redis-server 7.0 prints (7.2 for later ones). It is no place for behaviour. Static data; any
//! thread.
//!
//! # The form of a row
//!
//! ```text
//! Variant "name" of Parent, Group, arity N, since "1.0.0"    (`of` and `parent|name` for subcommands)
//!     [FLAGS ...] [CATEGORIES ...]                           (those ACL categories that no flag implies)
//!     keys (1; FLAGS) (2 to -1 step 2; FLAGS; "notes")       (`to` counts from the first, or from the end)
//!          (after "WORD" 1, half; FLAGS)                      (the first half of the arguments behind a word; or `to the end`)
//!          (2 counted; FLAGS)                                (argument 2 says how many follow it; or `counted step 2`)
//!          (unknown; FLAGS; "notes")                         (no position tells)
//!     reach All                                              (which shards; without it those of its keys: see `Reach`)
//!     waits (Place::At(1), Seconds)                          (where a timeout stands, and its unit: see `Timeout`)
//!     connection Database                                    (why others cannot share its connection: see `OwnConnection`)
//!     secrets (Secrets::From(1))                             (which arguments are hidden from logs: see `Secrets`)
//!     merges (MGet, Shape::Keys, EachOrError)                (how calls of it become one: see `Merge`)
//!     repeats (Repeat::Always)                               (a write that may be executed twice: see `Repeat`)
//!     tips "..." "..."
//!     deprecated "since" "the replacement"
//!     system true                                            (DOCS calls it a system command)
//!     summary "..." complexity "..."
//!     grammar "..."                                          (see `crate::grammar`)
//! ```
//!
//! # The look-up of a row
//!
//! A row is looked up by a request's first words in a hash table that the compiler fills. A name is two words: its first and
//! its last eight bytes (they overlap below sixteen), folded to lower case all bytes at once. Names of up to sixteen bytes are
//! equal when length and words are, so a look-up is two loads, a multiplication and, nearly always, one comparison. A
//! subcommand is looked up in the same table together with its parent.

#[macro_use]
mod acl;
#[macro_use]
mod admin;
#[macro_use]
mod bitmap;
#[macro_use]
mod cluster;
#[macro_use]
mod connection;
#[macro_use]
mod geo;
#[macro_use]
mod hyperloglog;
#[macro_use]
mod hash;
#[macro_use]
mod key;
#[macro_use]
mod list;
#[macro_use]
mod monitoring;
#[macro_use]
mod scripting;
#[macro_use]
mod persistence;
#[macro_use]
mod pubsub;
#[macro_use]
mod replication;
#[macro_use]
mod set;
#[macro_use]
mod sorted_set;
#[macro_use]
mod stream;
#[macro_use]
mod string;
#[macro_use]
mod transaction;
mod flags;
mod key_spec;
mod keys;
mod merge;
mod reads;
mod repeat;
mod secrets;
mod timeout;
mod tips;

pub use flags::{Categories, Flags, Group, KeyFlags, OwnConnection};
pub use key_spec::{Begin, Find, KeySpec, Keys};
pub use keys::{KeyPositions, KeyUses};
pub use merge::{Merge, Shape, Share};
pub use reads::DecidingKey;
pub use repeat::Repeat;
pub use secrets::{SecretWords, Secrets};
pub use timeout::{Place, Timeout, Unit};
pub use tips::{RequestPolicy, ResponsePolicy, Tips};

/// The facts about a command or subcommand.
#[derive(Debug)]
pub struct Row {
    /// The command that the row describes.
    pub id: Command,
    /// The name in lower case: `get`, and `list` for CLIENT LIST.
    pub name: &'static str,
    /// The name with its container's: `get`, `client|list`.
    pub full_name: &'static str,
    /// The container, if the command is a subcommand.
    pub parent: Option<Command>,
    /// The number of arguments, names included; if negative, the least number.
    pub arity: i16,
    /// The nature of the command and the states in which it may run.
    pub flags: Flags,
    /// ACL categories, those implied by flags included.
    pub categories: Categories,
    /// The places of the keys among the arguments.
    pub keys: Keys,
    /// The shards of the keyspace that the command reads.
    pub reach: Reach,
    /// The argument with the timeout, if the command may wait.
    pub timeout: Option<Timeout>,
    /// The rules for a client that shares its connection among callers.
    pub sharing: Sharing,
    /// The arguments that are secret, if any.
    pub secrets: Option<Secrets>,
    /// The family of the command in the documentation.
    pub group: Group,
    /// True if the command is about keys and their values alone, and changes no state of the client.
    pub is_of_data: bool,
    /// Hints for routing clients.
    pub tips: Tips,
    /// The command's documentation, as COMMAND DOCS prints it.
    pub docs: Docs,
}

/// The rules by which a client that shares a connection among callers may send a command.
#[derive(Clone, Copy, Debug)]
pub struct Sharing {
    /// The reason why the command needs a connection of its own, if it does.
    pub connection: Option<OwnConnection>,
    /// The rule by which several calls become one, if they can.
    pub merge: Option<Merge>,
    /// The condition under which the command may be executed twice in a row, if there is one.
    pub repeat: Option<Repeat>,
}

/// The documentation of a command.
#[derive(Clone, Copy, Debug)]
pub struct Docs {
    /// The version of Redis that brought the command.
    pub since: &'static str,
    /// The time that the command takes.
    pub complexity: &'static str,
    /// The purpose of the command, in one sentence.
    pub summary: &'static str,
    /// The arguments; see [`crate::grammar`].
    pub grammar: &'static str,
    /// The version that deprecated the command, and its replacement.
    pub deprecated: Option<Deprecated>,
    /// True if the documentation calls it a system command: one that applications do not use.
    pub system: bool,
}

/// The shards of the keyspace that a command looks at, and so the locks that it needs: by itself, in a transaction and in a
/// script alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The shards of the keys that its arguments name; none if they name no key.
    Named,
    /// All shards, one after the other, if the command runs by itself: its reply belongs to no single instant. It changes no
    /// key by choice.
    Each,
    /// All shards at one instant: the command changes the whole keyspace, uses keys that no argument names, or must not run
    /// beside a writer.
    All,
}

/// The deprecation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deprecated {
    /// The version of Redis.
    pub since: &'static str,
    /// The replacement, in Markdown.
    pub instead: &'static str,
}

impl Row {
    /// Returns whether `count` arguments, names included, are as many as the command takes.
    #[inline]
    pub const fn takes(&self, count: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        count == least || (self.arity < 0 && count > least)
    }

    /// Returns whether this is a container of subcommands, such as CLIENT: its first one is the row after it.
    #[inline]
    pub fn is_container(&self) -> bool {
        ROWS.get(self.id as usize + 1)
            .is_some_and(|next| matches!(next.parent, Some(parent) if parent as u16 == self.id as u16))
    }

    /// Returns whether this runs a script or function, which may use keys that no argument names.
    #[inline]
    pub const fn runs_script(&self) -> bool {
        use Command::{Eval, EvalRo, EvalSha, EvalShaRo, FCall, FCallRo};
        matches!(self.id, Eval | EvalRo | EvalSha | EvalShaRo | FCall | FCallRo)
    }

    /// Returns whether the command touches only keys of its connection's database that its arguments name.
    pub fn names_its_keys(&self) -> bool {
        let is_told = self.keys.iter().all(|spec| spec.begin != Begin::Unknown && spec.find != Find::Unknown);
        let uses_other_database = matches!(self.id, Command::Move | Command::Copy);
        is_told && matches!(self.reach, Reach::Named) && !self.runs_script() && !uses_other_database
    }

    /// Returns the subcommands, in the order of the table.
    pub fn subcommands(&self) -> impl Iterator<Item = &'static Row> + use<> {
        let id = self.id;
        ROWS.iter().filter(move |row| row.parent == Some(id))
    }
}

impl Command {
    /// Returns the command's row.
    #[inline]
    pub const fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

/// Returns all rows, containers before their subcommands; a row's index is its id's number.
pub const fn all() -> &'static [Row] {
    &ROWS
}

/// Returns the part of a full name after the bar.
const fn own_name(full: &'static str) -> &'static str {
    let mut at = 0;
    while at < full.len() {
        if full.as_bytes()[at] == b'|' {
            return full.split_at(at + 1).1;
        }
        at += 1;
    }
    full
}

/// The size of the table: a power of two, at most half full.
const SLOTS: usize = 1024;
/// The length of the longest possible name, in bytes.
const LEN_MAX: usize = 64;
/// The largest length of a name, in bytes, at which its two words hold all of it.
const WHOLE_LEN_MAX: usize = 16;
/// The parent number that marks a command that is no subcommand.
const TOP: u16 = u16::MAX;

const _: () = assert!(ROWS.len() * 2 <= SLOTS, "the lookup table is too full: double SLOTS");

#[derive(Clone, Copy)]
struct Slot {
    words: Words,
    row: u16,
}

/// The name in the request's case: its first eight bytes and its last eight, or all of a shorter name in the first word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Written {
    first: u64,
    last: u64,
    len: usize,
}

/// A name in lower case, in the form that is compared.
#[derive(Clone, Copy)]
struct Words {
    first: u64,
    last: u64,
    /// The length of the name, and above that the parent; 0 belongs to no name.
    len_and_parent: u32,
}

static TABLE: [Slot; SLOTS] = fill();

const fn fill() -> [Slot; SLOTS] {
    let empty = Slot { words: Words { first: 0, last: 0, len_and_parent: 0 }, row: 0 };
    let mut table = [empty; SLOTS];
    let mut row = 0;
    while row < ROWS.len() {
        let parent = match ROWS[row].parent {
            Some(parent) => parent as u16,
            None => TOP,
        };
        let words = written(ROWS[row].name.as_bytes()).folded(parent);
        let mut at = home(words);
        while table[at].words.len_and_parent != 0 {
            at = (at + 1) % SLOTS;
        }
        table[at] = Slot { words, row: row as u16 };
        row += 1;
    }
    table
}

/// Returns the row of a command, by its name in any case. Containers are found, their subcommands are not.
#[inline]
pub const fn find(name: &[u8]) -> Option<&'static Row> {
    seek(name, written(name), TOP)
}

/// Returns the row of a subcommand, by its own name (`list`, not `client|list`) in any case.
#[inline]
pub const fn find_sub(parent: Command, name: &[u8]) -> Option<&'static Row> {
    seek(name, written(name), parent as u16)
}

/// The name that was looked up last: requests that arrive together mostly have the same name.
#[derive(Debug, Default)]
pub struct LastName {
    written: Written,
    row: Option<&'static Row>,
}

impl LastName {
    /// Finds a row as [`find`] does. It is quick if the name is that of the last call, in the same case.
    #[inline]
    pub fn find(&mut self, name: &[u8]) -> Option<&'static Row> {
        let written = written(name);
        if written != self.written || name.len() > WHOLE_LEN_MAX {
            *self = Self { written, row: seek(name, written, TOP) };
        }
        self.row
    }
}

/// Returns the row of `get` or of `client|list`, in any case: the names that ACL rules and COMMAND INFO take.
pub fn find_full(name: &[u8]) -> Option<&'static Row> {
    match memchr::memchr(b'|', name).and_then(|at| name.split_at_checked(at)) {
        None => find(name),
        Some((parent, sub)) => find_sub(find(parent)?.id, sub.get(1..)?),
    }
}

#[inline]
const fn seek(name: &[u8], written: Written, parent: u16) -> Option<&'static Row> {
    if name.is_empty() || name.len() > LEN_MAX {
        return None;
    }
    let words = written.folded(parent);
    let mut at = home(words);
    loop {
        let slot = &TABLE[at % SLOTS];
        let Words { first, last, len_and_parent } = slot.words;
        if first == words.first && last == words.last && len_and_parent == words.len_and_parent {
            let row = &ROWS[slot.row as usize];
            if name.len() <= WHOLE_LEN_MAX || is_same(row.name.as_bytes(), name) {
                return Some(row);
            }
        } else if len_and_parent == 0 {
            return None;
        }
        at += 1;
    }
}

/// Returns whether two names of the same length are equal in any case. (The slice's own method is constant from Rust 1.89
/// on.)
const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() {
        if !one[at].eq_ignore_ascii_case(&other[at]) {
            return false;
        }
        at += 1;
    }
    true
}

#[inline]
const fn written(name: &[u8]) -> Written {
    let (first, last) = if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(low), Some(high)) = (name.first_chunk(), name.last_chunk()) {
        (u32::from_le_bytes(*low) as u64 | (u32::from_le_bytes(*high) as u64) << 32, 0)
    } else if let [low, .., high] = *name {
        // If the name has two or three bytes, the second and the last overlap too.
        (low as u64 | (name[1] as u64) << 8 | (high as u64) << 16, 0)
    } else if let [only] = *name {
        (only as u64, 0)
    } else {
        (0, 0)
    };
    Written { first, last, len: name.len() }
}

impl Written {
    /// Returns the name in lower case; it has at most [`LEN_MAX`] bytes.
    #[inline]
    const fn folded(self, parent: u16) -> Words {
        let len_and_parent = self.len as u32 | (parent as u32) << 16;
        Words { first: fold(self.first), last: fold(self.last), len_and_parent }
    }
}

/// Returns the lower case of eight bytes at once; only `A` to `Z` change.
#[inline]
const fn fold(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let low = word & (0x7f * EACH);
    let from_a = low + (0x80 - b'A' as u64) * EACH;
    let past_z = low + (0x7f - b'Z' as u64) * EACH;
    let upper = (from_a ^ past_z) & !word & (0x80 * EACH);
    word | upper >> 2
}

#[inline]
const fn home(words: Words) -> usize {
    let mixed = words.first ^ words.last.rotate_left(29) ^ (words.len_and_parent as u64) << 20;
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % SLOTS
}

macro_rules! key_spec {
    ($first:literal; $($flag:ident)*$(; $notes:literal)?) => {
        key_spec!(@ Find::Range { last: 0, step: 1, limit: 0 }, $first; $($flag)* $(; $notes)?)
    };
    ($first:literal counted; $($flag:ident)*$(; $notes:literal)?) => {
        key_spec!(@ Find::Count { count: 0, first: 1, step: 1 }, $first; $($flag)* $(; $notes)?)
    };
    ($first:literal counted step $step:literal; $($flag:ident)*) => {
        key_spec!(@ Find::Count { count: 0, first: 1, step: $step }, $first; $($flag)*)
    };
    ($first:literal to $last:literal step $step:literal; $($flag:ident)*$(; $notes:literal)?) => {
        key_spec!(@ Find::Range { last: $last, step: $step, limit: 0 }, $first; $($flag)* $(; $notes)?)
    };
    (after $word:literal $from:literal; $($flag:ident)*) => {
        KeySpec {
            flags: KeyFlags::EMPTY$(.or(KeyFlags::$flag))*,
            begin: Begin::Keyword($word, $from),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: "",
        }
    };
    (after $word:literal $from:literal, to the end; $($flag:ident)*) => {
        KeySpec {
            flags: KeyFlags::EMPTY$(.or(KeyFlags::$flag))*,
            begin: Begin::Keyword($word, $from),
            find: Find::Range { last: -1, step: 1, limit: 0 },
            notes: "",
        }
    };
    (after $word:literal $from:literal, half; $($flag:ident)*) => {
        KeySpec {
            flags: KeyFlags::EMPTY$(.or(KeyFlags::$flag))*,
            begin: Begin::Keyword($word, $from),
            find: Find::Range { last: -1, step: 1, limit: 2 },
            notes: "",
        }
    };
    (unknown; $($flag:ident)*; $notes:literal) => {
        KeySpec {
            flags: KeyFlags::EMPTY$(.or(KeyFlags::$flag))*,
            begin: Begin::Unknown,
            find: Find::Unknown,
            notes: $notes,
        }
    };
    (@ $find:expr, $first:literal; $($flag:ident)*$(; $notes:literal)?) => {
        KeySpec {
            flags: KeyFlags::EMPTY$(.or(KeyFlags::$flag))*,
            begin: Begin::Index($first),
            find: $find,
            notes: concat!($($notes)?),
        }
    };
}

macro_rules! define {
    ([] $(
        $id:ident $name:literal $(of $parent:ident)?, $group:ident, arity $arity:literal, since $since:literal
        [$($flag:ident)*] [$($category:ident)*]
        $(keys $(($($spec:tt)*))+)?
        $(reach $reach:ident)?
        $(waits ($place:expr, $unit:ident))?
        $(connection $connection:ident)?
        $(secrets ($secrets:expr))?
        $(merges ($into:ident, $shape:expr, $share:ident))?
        $(repeats ($repeat:expr))?
        $(tips $($tip:literal)+)?
        $(deprecated $gone:literal $instead:literal)?
        $(system $system:literal)?
        summary $summary:literal
        complexity $complexity:literal
        grammar $grammar:literal;
    )*) => {
        /// The number of a command or subcommand in the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Command {
            $(#[doc = $summary] $id),*
        }

        static ROWS: [Row; [$(Command::$id),*].len()] = [$({
            const FLAGS: Flags = Flags::EMPTY$(.or(Flags::$flag))*;
            const KEYS: &[KeySpec] = &[$($(key_spec!($($spec)*)),+)?];
            Row {
                id: Command::$id,
                name: own_name($name),
                full_name: $name,
                parent: define!(@option $(Command::$parent)?),
                arity: $arity,
                flags: FLAGS,
                categories: Categories::EMPTY$(.or(Categories::$category))*.with_implied(FLAGS),
                keys: Keys::new(KEYS),
                reach: define!(@reach $($reach)?),
                timeout: define!(@option $(Timeout { place: $place, unit: Unit::$unit })?),
                sharing: Sharing {
                    connection: define!(@option $(OwnConnection::$connection)?),
                    merge: define!(@option $(Merge { into: Command::$into, shape: $shape, share: Share::$share })?),
                    repeat: define!(@option $($repeat)?),
                },
                secrets: define!(@option $($secrets)?),
                group: Group::$group,
                is_of_data: Group::$group.is_of_data(),
                tips: Tips(&[$($($tip),+)?]),
                docs: Docs {
                    since: $since,
                    complexity: $complexity,
                    summary: $summary,
                    grammar: $grammar,
                    deprecated: define!(@option $(Deprecated { since: $gone, instead: $instead })?),
                    system: false$( || $system)?,
                },
            }
        }),*];
    };
    (@reach $reach:ident) => { Reach::$reach };
    (@reach) => { Reach::Named };
    (@option $some:expr) => { Some($some) };
    (@option) => { None };
}

string_rows! { [geo_rows stream_rows sorted_set_rows hash_rows set_rows hyperloglog_rows list_rows bitmap_rows key_rows connection_rows transaction_rows scripting_rows pubsub_rows admin_rows monitoring_rows acl_rows persistence_rows replication_rows cluster_rows define] }
