//! Looking ahead: what is found out about a batch before it runs.
//!
//! A batch of pipelined requests is prepared in groups: every command is looked up and every key hashed; then a first pass
//! asks the processor for the keys' buckets and a second for their entries, so that the run finds them in the cache. What
//! was learned about the data is only a hint for the cache; the run itself looks everything up under its locks.

use std::ops::Range;

use sleeve_store::Store;
use sleeve_wire::commands::{self, Row};
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

    /// Looks up and hashes requests from `first` on, until the group is full; returns where the next group begins.
    pub fn fill(&mut self, store: &Store, batch: &Batch, buffer: &[u8], first: usize) -> usize {
        self.requests.clear();
        self.keys.clear();
        let mut next = first;
        while next < batch.len() && self.keys.len() < GROUP_KEYS && self.requests.len() < GROUP_KEYS {
            let ready = self.look_up(store, batch.get(next, buffer));
            self.requests.push(ready);
            next += 1;
        }
        next
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

    /// The two passes over the group's keys: buckets, then entries. A lone key is not worth them.
    #[inline]
    pub fn fetch_ahead(&self, locks: &mut Locks<'_>, database: usize) {
        if self.keys.len() < 2 {
            return;
        }
        for key in &self.keys {
            locks.take_one(key.hash);
            locks.shard(key.hash).prefetch_bucket(database, key.hash);
        }
        for key in &self.keys {
            locks.take_one(key.hash);
            locks.shard(key.hash).prefetch_entry(database, key.hash);
        }
    }
}

#[inline]
fn find(args: Args<'_>) -> Found {
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
