//! The contents of a store, in a form in which two instants can be compared, and the same from a snapshot's records.

use std::collections::{BTreeMap, BTreeSet};

use sleeve_store::snapshot::{Bytes, Large, Record};
use sleeve_store::{
    Digits, EntryRef, Kind, List, Map, MapRef, Pending, Set, SetRef, SortedSet, Store, Stream, StreamEntry, StreamId,
    ValueRef,
};

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    Text(Vec<u8>),
    List(Vec<Vec<u8>>),
    Set(BTreeSet<Vec<u8>>),
    SortedSet(BTreeMap<Vec<u8>, u64>),
    Hash(BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>),
    /// A stream: its blocks or entries, then everything else.
    Stream(Vec<(StreamId, Vec<Vec<u8>>)>, String),
}

/// All keys by database and name, with deadline and value.
pub type Whole = BTreeMap<(usize, Vec<u8>), (Option<i64>, Seen)>;

pub fn text(value: ValueRef<'_>) -> Vec<u8> {
    value.bytes(&mut Digits::default()).to_vec()
}

fn beside_blocks(stream: &Stream) -> String {
    let groups: Vec<String> = stream
        .groups()
        .map(|(name, group)| {
            // The numbers of consumers are internal, so they are not compared.
            let holder =
                |pending: &Pending| String::from_utf8_lossy(&group.consumer(pending.consumer).name).into_owned();
            let pending: Vec<_> = group
                .pending_in(StreamId::MIN..=StreamId::MAX)
                .map(|(id, pending)| (id, holder(&pending), pending.delivered_ms, pending.deliveries))
                .collect();
            let consumers: Vec<_> = group.consumers().collect();
            format!("{name:?} {:?} {:?} {pending:?} {consumers:?}", group.last_id, group.entries_read)
        })
        .collect();
    format!("{} {:?} {:?} {groups:?}", stream.len(), stream.first_id(), stream.counters())
}

fn of_set(set: SetRef<'_>) -> Seen {
    let mut members = BTreeSet::new();
    set.for_each(|member| assert!(members.insert(text(member))));
    Seen::Set(members)
}

fn of_map(map: MapRef<'_>) -> Seen {
    let mut fields = BTreeMap::new();
    map.for_each_with_deadline(i64::MIN, |field, value, deadline| {
        assert!(fields.insert(text(field), (text(value), deadline)).is_none());
    });
    Seen::Hash(fields)
}

fn of_sorted_set(set: sleeve_store::SortedSetRef<'_>) -> Seen {
    let mut members = BTreeMap::new();
    set.visit(0..set.len(), false, |name, score| assert!(members.insert(text(name), score.to_bits()).is_none()));
    Seen::SortedSet(members)
}

pub fn seen(entry: &EntryRef<'_>) -> Seen {
    match entry.kind() {
        Kind::String => Seen::Text(text(entry.value())),
        Kind::List => Seen::List(entry.collection::<List>().unwrap().iter().map(text).collect()),
        Kind::Set => of_set(entry.collection::<Set>().unwrap()),
        Kind::Hash => of_map(entry.collection::<Map>().unwrap()),
        Kind::SortedSet => of_sorted_set(entry.collection::<SortedSet>().unwrap()),
        Kind::Stream => {
            let stream = entry.collection::<Stream>().unwrap();
            let blocks = stream.blocks().map(|(id, packed)| (id, packed.iter().map(text).collect())).collect();
            Seen::Stream(blocks, beside_blocks(stream))
        }
    }
}

/// Returns the same as [`seen`], with the entries of a stream instead of its blocks, which a file does not keep as they are.
pub fn seen_in_file(entry: &EntryRef<'_>) -> Seen {
    let Some(stream) = entry.collection::<Stream>() else { return seen(entry) };
    let fields = |entry: StreamEntry<'_>| entry.fields().flat_map(|(name, value)| [text(name), text(value)]).collect();
    let entries = stream.range(StreamId::MIN, StreamId::MAX).map(|entry| (entry.id, fields(entry))).collect();
    Seen::Stream(entries, beside_blocks(stream))
}

/// Returns the contents of a store, copied without a snapshot.
pub fn copy(store: &Store, seen: fn(&EntryRef<'_>) -> Seen) -> Whole {
    let all = store.lock_all();
    let mut whole = Whole::new();
    for shard in 0..store.shards() {
        for db in 0..store.databases() {
            all.shard(shard).for_each(db, |entry| {
                whole.insert((db, entry.key().to_vec()), (entry.deadline(), seen(&entry)));
            });
        }
    }
    whole
}

/// The sum of the records of a snapshot.
#[derive(Default)]
pub struct Gathered {
    pub whole: Whole,
    open: Option<Seen>,
    parts: usize,
    pending: BTreeMap<(u32, StreamId), Pending>,
    /// The number of values that came in parts.
    pub opened: usize,
}

impl Gathered {
    pub fn take(&mut self, record: Record<'_>) {
        match record {
            Record::Keys(keys) => {
                assert!(self.open.is_none(), "nothing comes between the parts of a value");
                let db = keys.db();
                keys.for_each(|entry| {
                    let value = (entry.deadline(), seen(&entry));
                    let before = self.whole.insert((db, entry.key().to_vec()), value);
                    assert_eq!(before, None, "key {:?} came twice", entry.key());
                });
            }
            Record::Open(large) => {
                assert!(self.open.is_none());
                self.open = Some(empty(large));
                (self.parts, self.opened) = (0, self.opened + usize::from(!large.is_packed()));
            }
            Record::Members(_, members) => {
                let open = self.open.as_mut().unwrap();
                members.for_each(|entry| {
                    self.parts += 1;
                    add_member(open, &entry);
                });
            }
            Record::Part(large, bytes) => {
                self.parts += 1;
                add_part(self.open.as_mut().unwrap(), large, &bytes);
            }
            Record::Pending(_, pendings) => {
                for copy in pendings.iter() {
                    self.parts += 1;
                    assert_eq!(self.pending.insert((copy.group, copy.id), copy.pending), None);
                }
            }
            Record::Close(large) => {
                if let (Some(Seen::Stream(_, beside)), Some(stream)) = (&mut self.open, large.stream()) {
                    *beside = beside_blocks(&with_pending(stream, &std::mem::take(&mut self.pending)));
                }
                assert_eq!(self.parts, large.parts_len());
                let value = (large.deadline(), self.open.take().unwrap());
                assert_eq!(self.whole.insert((large.db(), large.key().to_vec()), value), None);
            }
        }
    }
}

fn empty(large: &Large) -> Seen {
    match large.kind() {
        Kind::String => Seen::Text(Vec::new()),
        Kind::List => Seen::List(Vec::new()),
        Kind::Set => Seen::Set(BTreeSet::new()),
        Kind::SortedSet => Seen::SortedSet(BTreeMap::new()),
        Kind::Hash => Seen::Hash(BTreeMap::new()),
        Kind::Stream => Seen::Stream(Vec::new(), String::new()),
    }
}

/// Returns the same stream with these pending entries, which stand under the numbers of their groups.
fn with_pending(stream: &Stream, pending: &BTreeMap<(u32, StreamId), Pending>) -> Stream {
    let mut stream = stream.clone();
    let names: Vec<Vec<u8>> = stream.groups().map(|(name, _)| name.to_vec()).collect();
    for (number, name) in (0..).zip(names) {
        let of_group = pending.range((number, StreamId::MIN)..=(number, StreamId::MAX));
        stream.change_group(&name, |group, _| of_group.for_each(|((_, id), pending)| group.set_pending(*id, *pending)));
    }
    stream
}

fn add_member(seen: &mut Seen, entry: &EntryRef<'_>) {
    let name = entry.key().to_vec();
    let is_new = match seen {
        Seen::Set(members) => members.insert(name),
        Seen::SortedSet(members) => members.insert(name, entry.value().integer().unwrap() as u64).is_none(),
        Seen::Hash(fields) => fields.insert(name, (text(entry.value()), entry.deadline())).is_none(),
        other => panic!("{other:?} has no members"),
    };
    assert!(is_new, "a member came twice");
}

fn add_part(seen: &mut Seen, large: &Large, bytes: &Bytes<'_>) {
    if large.is_packed() {
        *seen = match large.kind() {
            Kind::List => Seen::List(bytes.collection::<List>(large).unwrap().iter().map(text).collect()),
            Kind::Set => of_set(bytes.collection::<Set>(large).unwrap()),
            Kind::Hash => of_map(bytes.collection::<Map>(large).unwrap()),
            Kind::SortedSet => of_sorted_set(bytes.collection::<SortedSet>(large).unwrap()),
            other => panic!("{other:?} is not packed"),
        };
        return;
    }
    match seen {
        Seen::List(elements) => elements.extend(bytes.pack().as_packed().iter().map(text)),
        Seen::Stream(blocks, _) => blocks.push((bytes.id(), bytes.pack().as_packed().iter().map(text).collect())),
        Seen::Text(whole) => whole.extend_from_slice(&bytes.bytes()),
        other => panic!("{other:?} has no parts that are bytes"),
    }
}
