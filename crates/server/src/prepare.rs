//! Looking ahead: what is found out about a batch before it runs.
//!
//! A batch of pipelined requests is prepared in groups. A first pass looks every command up, hashes every key and asks the
//! processor for its bucket; a second asks for the entries; then the group runs, and finds both in the cache. Where members
//! of large sets are sought, two more passes do the same for them. What was learned about the data is only a hint for the
//! cache; the run itself looks everything up under its locks.

use std::ops::Range;

use sleeve_store::{EntryRef, MemberPlace, Set, SetRef, Store};
use sleeve_wire::commands::{self, Group, Row};
use sleeve_wire::request::{Args, Batch};

use crate::locks::Locks;
use crate::request::{KeyAt, hash_keys};

/// Keys whose buckets and entries are fetched ahead together: what the caches of a core hold without loss.
const GROUP_KEYS: usize = 64;

/// What was found out about a group of requests ahead of running them.
#[derive(Debug, Default)]
pub struct Prepared {
    requests: Vec<Ready>,
    keys: Vec<KeyAt>,
    members: Vec<(KeyAt, usize, MemberPlace)>,
}

#[derive(Debug)]
struct Ready {
    found: Found,
    keys: Range<u32>,
}

/// What the name of a request stands for.
#[derive(Debug, Clone, Copy)]
pub enum Found {
    /// A command, with as many arguments as it takes.
    Command(&'static Row),
    /// The name is in no row.
    Unknown,
    /// The name is that of a container, the second argument is none of its subcommands.
    UnknownSubcommand(&'static Row),
    /// Too few or too many arguments.
    Arity(&'static Row),
}

impl Prepared {
    /// The requests of the group in order: what each one is, and its keys.
    pub fn group(&self) -> impl Iterator<Item = (Found, &[KeyAt])> {
        let keys = |ready: &Ready| &self.keys[ready.keys.start as usize..ready.keys.end as usize];
        self.requests.iter().map(move |ready| (ready.found, keys(ready)))
    }

    /// Looks up and hashes requests from `first` on, until the group is full; returns where the next group begins. A
    /// key's bucket is asked for as soon as it is hashed, and its entry when all are: a lone key is not worth either.
    /// Nothing is fetched from a shard that another thread has locked, or a script of this one.
    pub fn fill(
        &mut self,
        (batch, buffer): (&Batch, &[u8]),
        first: usize,
        (store, locks): (&Store, &mut Locks<'_>),
        database: usize,
    ) -> usize {
        self.requests.clear();
        self.keys.clear();
        let mut next = first;
        while next < batch.len() && self.keys.len() < GROUP_KEYS && self.requests.len() < GROUP_KEYS {
            let before = self.keys.len();
            let ready = self.look_up(store, batch.get(next, buffer));
            self.requests.push(ready);
            next += 1;
            if batch.len() > 1 || self.keys.len() > 1 {
                for key in &self.keys[before..] {
                    if locks.take_one_now(key.hash) {
                        locks.shard(key.hash).prefetch_bucket(database, key.hash);
                    }
                }
            }
        }
        if self.keys.len() > 1 {
            for key in &self.keys {
                if locks.take_one_now(key.hash) {
                    locks.shard(key.hash).prefetch_entry(database, key.hash);
                }
            }
            self.fetch_members((batch, buffer), first, locks, database);
        }
        next
    }

    /// Asks for the buckets of the members that the requests are about, and then for their entries.
    fn fetch_members(
        &mut self,
        (batch, buffer): (&Batch, &[u8]),
        first: usize,
        locks: &mut Locks<'_>,
        database: usize,
    ) {
        self.members.clear();
        for (index, ready) in (first..).zip(&self.requests) {
            let Found::Command(row) = ready.found else { continue };
            let args = batch.get(index, buffer);
            if !matches!(row.group, Group::Set) || row.lone_key().is_none() || args.len() < 3 {
                continue;
            }
            let key = self.keys[ready.keys.start as usize];
            let member = args.arg(args.len() - 1);
            let place = large_set(locks, database, args, key).and_then(|set| set.prefetch_bucket(member));
            self.members.extend(place.map(|place| (key, index, place)));
        }
        for &(key, index, place) in &self.members {
            if let Some(set) = large_set(locks, database, batch.get(index, buffer), key) {
                set.prefetch_entry(place);
            }
        }
    }

    #[inline]
    fn look_up(&mut self, store: &Store, args: Args<'_>) -> Ready {
        let found = find(args);
        let first = self.keys.len() as u32;
        if let Found::Command(row) = found {
            hash_keys(store, row, args, &mut self.keys);
        }
        Ready { found, keys: first..self.keys.len() as u32 }
    }
}

/// The set of a key, whatever its deadline.
fn large_set<'l>(locks: &'l mut Locks<'_>, database: usize, args: Args<'_>, key: KeyAt) -> Option<SetRef<'l>> {
    if !locks.take_one_now(key.hash) {
        return None;
    }
    let name = args.get(key.index as usize)?;
    locks.shard(key.hash).get(database, key.hash, name, i64::MIN).as_ref().and_then(EntryRef::collection::<Set>)
}

/// What the name of a request stands for.
#[inline]
pub fn find(args: Args<'_>) -> Found {
    let Some(row) = args.get(0).and_then(commands::find) else { return Found::Unknown };
    let row = match args.get(1) {
        Some(name) if row.is_container() => match commands::find_sub(row.id, name) {
            Some(row) => row,
            None => return Found::UnknownSubcommand(row),
        },
        _ => row,
    };
    if row.takes(args.len()) { Found::Command(row) } else { Found::Arity(row) }
}
