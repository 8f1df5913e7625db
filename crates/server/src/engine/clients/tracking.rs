//! Client-side caching: sends clients an invalidation when a key that they have read changes.
//!
//! A client that tracks is recorded under each key that it reads, under the lock of the key's shard. A thread that changes a
//! key removes the clients that are recorded there and posts each a letter. A client that tracks in broadcasting mode is
//! recorded under prefixes instead and is sent every change below them, gathered until the end of the batch that made the
//! changes. Keys are names without regard to their database, as in Redis. Invalidations to the changing client itself are
//! sent behind its reply.
//!
//! While no client tracks, a change costs one relaxed load. The receiver of a letter decides about the form of the message
//! (`tracking_delivery`). Any thread may call this module, also with shards locked.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use sleeve_wire::reply::{Protocol, Writer};

use super::client_info::ClientInfo;
use crate::host::dice::Dice;
use crate::messaging::mail::Letter;
use crate::messaging::wakeups::Wakeups;

/// The clients that have read each key, and the clients that follow each prefix.
#[derive(Debug, Default)]
pub struct Tracking {
    clients: AtomicUsize,
    broadcasting: AtomicUsize,
    members: Mutex<BTreeMap<u64, Member>>,
    table: Mutex<Table>,
    prefixes: Mutex<BTreeMap<Box<[u8]>, Followers>>,
}

/// A client that tracks.
#[derive(Debug)]
struct Member {
    client: Arc<ClientInfo>,
    /// The client is sent changes below its prefixes, and no longer those of keys that it read while it tracked in another
    /// mode.
    is_broadcasting: bool,
    /// NOLOOP: the client is not sent its own changes, including those that another thread makes for it when its waiting
    /// ends.
    no_loop: bool,
}

/// The clients that follow one prefix, by id.
type Followers = BTreeMap<u64, PrefixFollower>;

/// The clients under each key that was read, and a list of the keys, from which a random one can be drawn.
#[derive(Debug, Default)]
struct Table {
    readers: HashMap<Arc<[u8]>, Readers>,
    keys: Vec<Arc<[u8]>>,
    items: usize,
    name_bytes: usize,
}

/// The number of keys that are forgotten while the table is locked once.
const KEYS_A_STEP: usize = 256;

/// The estimated bytes that a recorded key takes in addition to its name, and the bytes that each client under it takes.
const KEY_BYTES: usize = 120;
const ITEM_BYTES: usize = 24;

#[derive(Debug)]
struct Readers {
    ids: BTreeSet<u64>,
    /// The index of the key in the list of keys.
    place: usize,
}

#[derive(Debug)]
struct PrefixFollower {
    client: Arc<ClientInfo>,
    /// NOLOOP: the client is not sent its own changes.
    no_loop: bool,
}

/// The client that makes a change: its id, and whether it is not sent its own changes.
pub type Changer = Option<(u64, bool)>;

impl Tracking {
    /// Returns whether any client tracks.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.clients.load(Ordering::Relaxed) != 0
    }

    /// Returns how many clients track.
    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Returns the numbers of remembered keys, of clients under them, and of prefixes.
    pub fn counts(&self) -> (usize, usize, usize) {
        let table = self.table.lock();
        (table.keys.len(), table.items, self.prefixes.lock().len())
    }

    /// Returns the memory of the remembered keys, in bytes.
    pub fn bytes(&self) -> usize {
        let table = self.table.lock();
        table.name_bytes + table.keys.len() * KEY_BYTES + table.items * ITEM_BYTES
    }

    /// Begins tracking for a client, in broadcasting mode if it names prefixes. A client that tracks already may change its
    /// options; its old prefixes stay.
    pub fn enter(&self, client: &Arc<ClientInfo>, prefixes: &[Box<[u8]>], no_loop: bool) {
        let member = Member { client: Arc::clone(client), is_broadcasting: !prefixes.is_empty(), no_loop };
        if self.members.lock().insert(client.id, member).is_none() {
            self.clients.fetch_add(1, Ordering::Relaxed);
        }
        let mut followed = self.prefixes.lock();
        for prefix in prefixes {
            let follower = PrefixFollower { client: Arc::clone(client), no_loop };
            if followed.entry(prefix.clone()).or_default().insert(client.id, follower).is_none() {
                self.broadcasting.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Ends tracking for a client with these prefixes. The keys that it has read are forgotten when they change.
    pub fn leave(&self, id: u64, prefixes: &[Box<[u8]>]) {
        if self.members.lock().remove(&id).is_some() {
            self.clients.fetch_sub(1, Ordering::Relaxed);
        }
        let mut followed = self.prefixes.lock();
        for prefix in prefixes {
            let Some(followers) = followed.get_mut(prefix) else { continue };
            if followers.remove(&id).is_some() {
                self.broadcasting.fetch_sub(1, Ordering::Relaxed);
            }
            if followers.is_empty() {
                followed.remove(prefix);
            }
        }
    }

    /// Remembers that a client has read a key. If there are more than `keys_max` keys (0 is no limit), forgets random keys
    /// and sends their readers invalidations.
    pub fn remember(&self, id: u64, key: &[u8], (keys_max, dice): (usize, &Dice), out: &mut Wakeups) {
        let mut table = self.table.lock();
        table.add(key, id);
        self.trim(&mut table, keys_max, (dice, id), out);
    }

    /// Applies a new limit `keys_max` (0 is no limit): forgets random keys until it holds; `id` is the running client. Other
    /// threads get the table between two steps.
    pub fn limit(&self, id: u64, keys_max: usize, dice: &Dice, out: &mut Wakeups) {
        loop {
            let mut table = self.table.lock();
            let step_max = table.keys.len().saturating_sub(KEYS_A_STEP).max(keys_max);
            self.trim(&mut table, if keys_max == 0 { 0 } else { step_max }, (dice, id), out);
            if keys_max == 0 || table.keys.len() <= keys_max {
                return;
            }
        }
    }

    /// Forgets random keys and sends their readers invalidations. Clients with NOLOOP get them too, because they are not
    /// about a change of their own.
    fn trim(&self, table: &mut Table, keys_max: usize, (dice, id): (&Dice, u64), out: &mut Wakeups) {
        while keys_max != 0 && table.keys.len() > keys_max {
            let key = Arc::clone(&table.keys[dice.below(table.keys.len())]);
            let ids = table.remove(&key);
            let reads = |member: &Member| !member.is_broadcasting;
            if ids.contains(&id) && self.members.lock().get(&id).is_some_and(reads) {
                out.invalid.push(Some((&*key).into()));
            }
            self.tell(ids.into_iter().filter(|reader| *reader != id).collect(), &key, None, out);
        }
    }

    /// Sends invalidations of a changed key. The lock of its shard is held.
    #[cold]
    pub fn changed(&self, key: &[u8], by: Changer, out: &mut Wakeups) {
        if self.broadcasting.load(Ordering::Relaxed) != 0 {
            out.changed.push((key.into(), by.map(|(id, _)| id)));
        }
        let ids = self.table.lock().remove(key);
        self.tell(ids, key, by, out);
    }

    fn tell(&self, ids: BTreeSet<u64>, key: &[u8], by: Changer, out: &mut Wakeups) {
        let members = self.members.lock();
        for id in ids {
            // A client that has changed to broadcasting mode is notified of the key only by its prefixes.
            let Some(member) = members.get(&id).filter(|member| !member.is_broadcasting) else { continue };
            match by {
                Some((own_id, no_loop)) if own_id == id => {
                    if !(no_loop || member.no_loop) {
                        out.invalid.push(Some(key.into()));
                    }
                }
                _ => post(&member.client, Some(array_of(&[key])), out),
            }
        }
    }

    /// Sends invalidations of all keys.
    pub fn changed_all(&self, by: Option<u64>, out: &mut Wakeups) {
        *self.table.lock() = Table::default();
        for (id, member) in self.members.lock().iter() {
            if by == Some(*id) { out.invalid.push(None) } else { post(&member.client, None, out) }
        }
    }

    /// Sends the followers of prefixes the changes below them, once for each prefix.
    pub fn broadcast(&self, out: &mut Wakeups) {
        if out.changed.is_empty() {
            return;
        }
        let mut changed = std::mem::take(&mut out.changed);
        changed.sort();
        changed.dedup();
        for (prefix, followers) in self.prefixes.lock().iter() {
            let below: Vec<&(Box<[u8]>, Option<u64>)> =
                changed.iter().filter(|(key, _)| key.starts_with(prefix)).collect();
            for (id, follower) in followers {
                let hears = |(_, by): &&&(Box<[u8]>, Option<u64>)| !follower.no_loop || *by != Some(*id);
                let mut keys: Vec<&[u8]> = below.iter().filter(hears).map(|(key, _)| &**key).collect();
                keys.dedup();
                if !keys.is_empty() {
                    post(&follower.client, Some(array_of(&keys)), out);
                }
            }
        }
    }
}

fn post(client: &Arc<ClientInfo>, keys: Option<Arc<Vec<u8>>>, out: &mut Wakeups) {
    client.mailbox.put(Letter::Invalidate { id: client.id, keys });
    out.remember(&client.mailbox);
}

/// Returns the names as an array, which has the same form in both protocols.
pub fn array_of(keys: &[&[u8]]) -> Arc<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut reply = Writer::new(&mut bytes, Protocol::Resp3);
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
    Arc::new(bytes)
}

impl Table {
    fn add(&mut self, key: &[u8], id: u64) {
        let is_new = match self.readers.get_mut(key) {
            Some(readers) => readers.ids.insert(id),
            None => {
                let key: Arc<[u8]> = key.into();
                self.readers.insert(Arc::clone(&key), Readers { ids: [id].into(), place: self.keys.len() });
                self.name_bytes += key.len();
                self.keys.push(key);
                true
            }
        };
        self.items += usize::from(is_new);
    }

    /// Forgets a key, and returns the clients that had read it.
    fn remove(&mut self, key: &[u8]) -> BTreeSet<u64> {
        let Some(Readers { ids, place }) = self.readers.remove(key) else { return BTreeSet::new() };
        self.items -= ids.len();
        self.name_bytes -= key.len();
        self.keys.swap_remove(place);
        if let Some(moved) = self.keys.get(place)
            && let Some(readers) = self.readers.get_mut(moved)
        {
            readers.place = place;
        }
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_keys_follows_the_table() {
        let mut table = Table::default();
        for number in 0..100_u64 {
            table.add(number.to_string().as_bytes(), number % 3);
            table.add(number.to_string().as_bytes(), 7);
        }
        assert_eq!((table.keys.len(), table.items), (100, 200));
        for number in (0..100_u64).step_by(2) {
            assert_eq!(table.remove(number.to_string().as_bytes()), [number % 3, 7].into());
        }
        for (place, key) in table.keys.iter().enumerate() {
            assert_eq!(table.readers[key].place, place);
        }
        assert_eq!((table.keys.len(), table.items), (50, 100));
    }
}
