//! Looking ahead: the facts about a batch that are found out before it runs.
//!
//! A batch of pipelined requests is prepared in groups. A first pass looks every command up and hashes every key; then, a
//! pass for each step, the keys' segments, buckets and entries are prefetched; then the group runs, and finds them in the
//! cache. If several requests in a row look for members of one large collection, more passes prefetch these members too. The
//! facts about the data are only a hint for the cache; the run itself looks everything up under its locks.

use std::ops::Range;

use sleeve_store::{EntryRef, Hash, MemberPlace, PrefetchStep, Store};
use sleeve_wire::commands::{self, Command, Flags, Group, LastName, Row};
use sleeve_wire::request::{Args, Batch};

use super::Cx;
use crate::engine::keyspace::locks::Locks;
use crate::engine::observe::key_samples::SAMPLE_RATIO;
use crate::engine::observe::stats::Counters;
use crate::host::dice::Dice;
use crate::request::renamed_commands::RenamedCommands;
use crate::request::{Key, KeyAt, place_keys};

/// The most keys of one group, so that their buckets and entries fit together into the caches of a core.
const GROUP_KEYS: usize = 64;

/// The number of keys for which room is kept from batch to batch.
const KEPT_KEYS: usize = 4 * 1024;

/// The facts about a group of requests, found out ahead of running them.
#[derive(Debug, Default)]
pub struct Lookahead {
    last_name: LastName,
    requests: Vec<Ready>,
    keys: Vec<KeyAt>,
    /// The hashes of the keys. If a key is named twice in a row, its hash stands here once.
    hashes: Vec<Hash>,
    lookups: Vec<MemberLookup>,
    members: Vec<(MemberLookup, MemberPlace)>,
    sampler: Sampler,
}

/// The choice of the keys to sample, for one thread: one in [`SAMPLE_RATIO`] on average, at random distances, so that a
/// regular pattern of requests does not distort the samples. If no key of a group is due, this costs one subtraction for the
/// group.
#[derive(Debug)]
struct Sampler {
    /// The number of keys that are skipped before the next sample.
    left: usize,
    dice: Dice,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { left: SAMPLE_RATIO, dice: Dice::new(SAMPLE_RATIO as u64) }
    }
}

impl Sampler {
    /// Returns whether any of the next `keys` is to be sampled; if so, [`Sampler::take`] says which.
    #[inline]
    fn is_due(&mut self, keys: usize) -> bool {
        match self.left.checked_sub(keys) {
            Some(left) => {
                self.left = left;
                false
            }
            None => true,
        }
    }

    /// Calls `show` with the positions of those of `keys` that are to be sampled.
    #[cold]
    fn take(&mut self, keys: usize, mut show: impl FnMut(usize)) {
        while self.left < keys {
            show(self.left);
            self.left += 1 + self.dice.below(2 * SAMPLE_RATIO - 1);
        }
        self.left -= keys;
    }
}

/// The steps of the prefetch. Each reads the memory that the one before has asked for.
const STEPS: [PrefetchStep; 3] = [PrefetchStep::Segment, PrefetchStep::Bucket, PrefetchStep::Entry];

/// A member or field that a request is about.
#[derive(Debug, Clone, Copy)]
struct MemberLookup {
    key: KeyAt,
    /// The request's place in the batch.
    request: usize,
    which: Which,
}

#[derive(Debug, Clone, Copy)]
enum Which {
    /// The member's place among the arguments.
    Argument(usize),
    /// The member that the next random number chooses.
    Random,
}

#[derive(Debug)]
struct Ready {
    found: Found,
    keys: Range<u32>,
}

/// The meaning of the name of a request.
#[derive(Debug, Clone, Copy)]
pub enum Found {
    /// A command, with as many arguments as it takes.
    Command(&'static Row),
    /// The name is in no row.
    Unknown,
    /// The name is that of a container, and the second argument is none of its subcommands.
    UnknownSubcommand(&'static Row),
    /// The command has too few or too many arguments.
    Arity(&'static Row),
}

impl Lookahead {
    /// Returns the requests of the group in order: the command of each one, and its keys.
    pub fn group(&self) -> impl Iterator<Item = (Found, &[KeyAt])> {
        let keys = |ready: &Ready| &self.keys[ready.keys.start as usize..ready.keys.end as usize];
        self.requests.iter().map(move |ready| (ready.found, keys(ready)))
    }

    /// Counts some keys of the group, which begins with request `first`, as samples for the statistics of the keys that are
    /// used most.
    #[inline]
    pub fn sample(&mut self, batch: (&Batch, &[u8]), first: usize, counters: &Counters) {
        if self.sampler.is_due(self.keys.len()) {
            self.take_samples(batch, first, counters);
        }
    }

    #[cold]
    fn take_samples(&mut self, (batch, buffer): (&Batch, &[u8]), first: usize, counters: &Counters) {
        let Self { requests, keys, sampler, .. } = self;
        let mut samples = counters.key_samples.lock();
        sampler.take(keys.len(), |at| {
            let request = requests.partition_point(|ready| ready.keys.end as usize <= at);
            // A command that asks for the memory of a key does not use it.
            if matches!(requests[request].found, Found::Command(row) if row.group == Group::Server) {
                return;
            }
            let name = batch.get(first + request, buffer).arg(keys[at].index as usize);
            samples.add(Key { name, hash: keys[at].hash }, 1);
        });
    }

    /// Looks up and hashes requests from `first` on, until the group is full, and prefetches the entries of their keys;
    /// returns the index at which the next group begins. For a lone key nothing is prefetched, because that is not worth it.
    /// Nothing is prefetched from a shard that another thread or a script of this thread has locked.
    pub fn fill(&mut self, (batch, buffer): (&Batch, &[u8]), first: usize, cx: &mut Cx<'_>) -> usize {
        let (engine, dice, database, locks) = (cx.engine, cx.dice, cx.database(), &mut cx.locks);
        self.requests.clear();
        self.keys.clear();
        self.lookups.clear();
        self.hashes.clear();
        // One request may have named a million keys.
        self.keys.shrink_to(KEPT_KEYS);
        self.hashes.shrink_to(KEPT_KEYS);
        let (mut next, mut last_key) = (first, None);
        for args in batch.from(first, buffer).take(GROUP_KEYS) {
            self.look_up(&engine.names, (&engine.keyspace.store, &mut last_key), args, next);
            next += 1;
            if self.keys.len() >= GROUP_KEYS {
                break;
            }
        }
        if self.keys.len() > 1 {
            self.hashes.extend(self.keys.iter().map(|key| key.hash));
            self.hashes.dedup();
            locks.take_free(self.hashes.iter().copied());
            if self.hashes.len() > 1 {
                for step in STEPS {
                    locks.show_held(&self.hashes, |shard, keys| shard.prefetch(database, keys, step));
                }
            }
            if self.lookups.len() > 1 {
                self.fetch_members((batch, buffer), (dice, locks), database);
            }
            locks.end_command();
        }
        next
    }

    /// Prefetches the members that the requests name, if several requests in a row use one collection.
    fn fetch_members(
        &mut self,
        (batch, buffer): (&Batch, &[u8]),
        (dice, locks): (&Dice, &mut Locks<'_>),
        database: usize,
    ) {
        self.members.clear();
        // The numbers that the dice will give, unless another draw comes in between.
        let ahead = dice.clone();
        let alike = self.lookups.chunk_by(|one, other| is_same_key(&one.key, &other.key));
        for alike in alike.filter(|alike| alike.len() > 1) {
            let Some(entry) = entry_of(locks, database, batch.get(alike[0].request, buffer), alike[0].key) else {
                continue;
            };
            for lookup in alike {
                let place = match lookup.which {
                    Which::Argument(index) => entry.place_of(batch.get(lookup.request, buffer).arg(index)),
                    Which::Random => Some(MemberPlace::Random(ahead.number())),
                };
                self.members.extend(place.map(|place| (*lookup, place)));
            }
        }
        for step in STEPS {
            for alike in self.members.chunk_by(|(one, _), (other, _)| is_same_key(&one.key, &other.key)) {
                let (MemberLookup { key, request, .. }, _) = alike[0];
                if let Some(entry) = entry_of(locks, database, batch.get(request, buffer), key) {
                    alike.iter().for_each(|(_, place)| entry.prefetch(*place, step));
                }
            }
        }
    }

    /// Looks up the command of the request at this place in the batch, hashes its keys, and adds it to the group. A key that
    /// is the same as the one before is not hashed again.
    #[inline]
    fn look_up<'b>(
        &mut self,
        names: &RenamedCommands,
        (store, last_key): (&Store, &mut Option<Key<'b>>),
        args: Args<'b>,
        request: usize,
    ) {
        let find = |name: &[u8]| match &names.changes {
            // The requests of a batch mostly have the same name.
            None => self.last_name.find(name),
            Some(changes) => changes.find(name),
        };
        let found = find_by(find, args);
        let first = self.keys.len();
        if let Found::Command(row) = found {
            place_keys(row, args, &mut self.keys, |name| match last_key {
                Some(last) if is_same_name(last.name, name) => last.hash,
                _ => last_key.insert(store.key(name)).hash,
            });
            if let (Some(which), Some(&key)) = (member_of(row, args.len()), self.keys.get(first)) {
                self.lookups.push(MemberLookup { key, request, which });
            }
        }
        self.requests.push(Ready { found, keys: first as u32..self.keys.len() as u32 });
    }
}

/// Returns whether two names are equal. It compares the ends first, because most different names differ there.
#[inline]
fn is_same_name(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.last_chunk::<8>() == other.last_chunk() && one == other
}

fn is_same_key(one: &KeyAt, other: &KeyAt) -> bool {
    one.hash == other.hash
}

/// Returns which member or field of a collection a request looks for. If it looks for several, the first is enough.
#[inline]
fn member_of(row: &Row, len: usize) -> Option<Which> {
    if matches!(row.id, Command::SPop | Command::SRandMember) && len == 2 {
        return Some(Which::Random);
    }
    if len < 3 || !row.flags.contains(Flags::FAST) || row.keys.lone.is_none() {
        return None;
    }
    match row.group {
        Group::Hash => Some(Which::Argument(2)),
        Group::Set | Group::SortedSet => Some(Which::Argument(len - 1)),
        _ => None,
    }
}

/// Returns the entry of a key, expired or not.
fn entry_of<'l>(locks: &'l mut Locks<'_>, database: usize, args: Args<'_>, key: KeyAt) -> Option<EntryRef<'l>> {
    let name = args.get(key.index as usize)?;
    locks.held(key.hash)?.get(database, Key { name, hash: key.hash }, i64::MIN)
}

/// Returns the meaning of the name of a request.
pub fn find(names: &RenamedCommands, args: Args<'_>) -> Found {
    find_by(|name| names.find(name), args)
}

#[inline]
fn find_by(find: impl FnOnce(&[u8]) -> Option<&'static Row>, args: Args<'_>) -> Found {
    let Some(row) = args.get(0).and_then(find) else { return Found::Unknown };
    let row = match args.get(1) {
        Some(name) if row.is_container() => match commands::find_sub(row.id, name) {
            Some(row) => row,
            None => return Found::UnknownSubcommand(row),
        },
        _ => row,
    };
    if row.takes(args.len()) { Found::Command(row) } else { Found::Arity(row) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_in_so_many_is_chosen_however_they_come() {
        for group in [1, 3, 63, 64, 65, 1_000] {
            let (mut sampler, mut taken, mut seen) = (Sampler::default(), 0, 0);
            while seen < 1_280_000 {
                if sampler.is_due(group) {
                    sampler.take(group, |at| {
                        assert!(at < group);
                        taken += 1;
                    });
                }
                seen += group;
            }
            assert!((9_500..10_500).contains(&taken), "{taken} with {group} at once");
        }
    }

    #[test]
    fn a_rhythm_of_the_requests_does_not_hide_a_key() {
        let (mut sampler, mut taken) = (Sampler::default(), [0; SAMPLE_RATIO]);
        for _ in 0..20_000 {
            if sampler.is_due(SAMPLE_RATIO) {
                sampler.take(SAMPLE_RATIO, |at| taken[at] += 1);
            }
        }
        assert!(taken.iter().all(|&times| (90..220).contains(&times)), "{taken:?}");
    }
}
