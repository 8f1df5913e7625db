//! Streams: their entries, their counters, their groups with their consumers and pending entries. SORT refuses them.
//!
//! XCLAIM makes an entry pending only if the stream has it. So for a pending entry that was deleted, an entry is added in its
//! place, and deleted again after the claims. A large stream with pending entries is therefore held in memory until all its
//! parts have arrived. The entries of messages that producers have numbered are added with their message ids; for deleted
//! ones, entries are added and deleted in the same way.

use sleeve_store::snapshot::{Bytes, Large, Pendings};
use sleeve_store::{Digits, EntryRef, Pending, PendingCopy, Producers, Stream, StreamEntry, StreamGroup, StreamId};
use sleeve_wire::reply::{Protocol, Writer};

use super::digest::Digest;
use super::request_writer::RequestWriter;
use super::value_type::{LargeRequests, ValueType, collection_of};

/// The operations of streams.
pub struct StreamType;

impl ValueType for StreamType {
    fn number(&self) -> u32 {
        6
    }

    /// Adds the entries in their order; the groups do not count.
    fn digest(&self, digest: &mut Digest, entry: &EntryRef<'_>) {
        for entry in collection_of::<Stream>(entry).range(StreamId::MIN, StreamId::MAX) {
            digest.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
            for (name, value) in entry.fields() {
                digest.mix(name.bytes(&mut Digits::default()));
                digest.mix(value.bytes(&mut Digits::default()));
            }
        }
    }

    fn write(&self, writer: &mut RequestWriter, entry: &EntryRef<'_>) {
        whole_stream(writer, entry.key(), collection_of::<Stream>(entry));
    }

    fn begin(&self, large: &Large) -> Box<dyn LargeRequests> {
        let has_producers = large.stream().is_some_and(|stream| stream.producers().is_some());
        let is_held = large.parts_len() > large.blocks_len() || has_producers;
        Box::new(LargeStream { is_held, entries: Vec::new(), entries_bytes: 0, pending: Vec::new() })
    }
}

/// A pending entry: the number of its group, its id, and its state.
type Claimed = (u32, StreamId, Pending);

/// The approximate size of the request that makes an entry pending.
const CLAIM_BYTES: usize = 200;

/// Writes a stream that is complete in memory.
fn whole_stream(writer: &mut RequestWriter, key: &[u8], stream: &Stream) {
    let groups = (0..).zip(stream.groups());
    let pending = groups.flat_map(|(number, (_, group))| {
        group.pending_in(StreamId::MIN..=StreamId::MAX).map(move |(id, pending)| (number, id, pending))
    });
    let mut tail = Tail::begin(writer, key, (pending.collect(), stream.producers()));
    for entry in stream.range(StreamId::MIN, StreamId::MAX) {
        tail.ghosts_before(writer, entry.id);
        add(&mut writer.block, key, stream.producers(), &entry);
        writer.settle();
    }
    tail.write(writer, stream);
}

/// The parts of a large stream that have arrived and are not written yet.
struct LargeStream {
    /// Blocks are held until all parts have arrived.
    is_held: bool,
    /// The requests that add the entries, each with its id.
    entries: Vec<(StreamId, Vec<u8>)>,
    /// The bytes of these requests.
    entries_bytes: usize,
    /// The pending entries, in no particular order.
    pending: Vec<PendingCopy>,
}

impl LargeRequests for LargeStream {
    fn part(&mut self, writer: &mut RequestWriter, large: &Large, bytes: &Bytes<'_>) {
        let producers = large.stream().and_then(Stream::producers);
        bytes.for_each_entry(|entry| {
            if self.is_held {
                let mut request = Vec::new();
                add(&mut request, large.key(), producers, entry);
                // Many requests wait in memory, and none of them grows any more.
                request.shrink_to_fit();
                self.entries_bytes += request.len();
                self.entries.push((entry.id, request));
            } else {
                add(&mut writer.block, large.key(), producers, entry);
                writer.settle();
            }
        });
    }

    fn pending(&mut self, pending: &Pendings<'_>) {
        self.pending.extend(pending.iter());
    }

    fn held_len(&self) -> usize {
        let entries = self.entries.capacity() * size_of::<(StreamId, Vec<u8>)>() + 2 * self.entries_bytes;
        let pending = self.pending.capacity() * size_of::<PendingCopy>();
        entries + pending + self.pending.len() * (size_of::<Claimed>() + size_of::<StreamId>() + CLAIM_BYTES)
    }

    fn close(self: Box<Self>, writer: &mut RequestWriter, large: &Large) {
        let Some(stream) = large.stream() else { return };
        let mut pending: Vec<Claimed> = self.pending.iter().map(|copy| (copy.group, copy.id, copy.pending)).collect();
        pending.sort_unstable_by_key(|&(group, id, _)| (group, id));
        let mut tail = Tail::begin(writer, large.key(), (pending, stream.producers()));
        for (id, request) in self.entries {
            tail.ghosts_before(writer, id);
            writer.block.extend_from_slice(&request);
            writer.settle();
        }
        tail.write(writer, stream);
    }
}

/// The requests after the entries, and the substitute entries: those that are added only so that they can be claimed, or
/// because a producer's known message belongs to them.
struct Tail<'a> {
    key: &'a [u8],
    pending: Vec<Claimed>,
    producers: Option<&'a Producers>,
    /// The ids of pending entries, and of known messages, that were not reached yet, the last first.
    ids: Vec<StreamId>,
    /// The first entry of the stream.
    first_entry: Option<StreamId>,
    /// The ids of the substitute entries, each with whether it is before all entries of the stream.
    ghosts: Vec<(StreamId, bool)>,
}

impl<'a> Tail<'a> {
    /// Begins the tail. For a stream without entries, first writes the state of its producers.
    fn begin(
        writer: &mut RequestWriter,
        key: &'a [u8],
        (pending, producers): (Vec<Claimed>, Option<&'a Producers>),
    ) -> Self {
        let mut ids: Vec<StreamId> = pending.iter().map(|(_, id, _)| *id).collect();
        if let Some(producers) = producers {
            ids.extend(producers.messages().map(|(entry, ..)| entry));
            let (limits, mut duration, mut maxsize) = (producers.limits(), Digits::default(), Digits::default());
            let (duration, maxsize) = (duration.write(limits.duration_s as i64), maxsize.write(limits.ids_max as i64));
            writer.request(&[b"XGROUP", b"CREATE", key, b"-", b"0", b"MKSTREAM"]);
            writer.request(&[b"XCFGSET", key, b"IDMP-DURATION", duration, b"IDMP-MAXSIZE", maxsize]);
            writer.request(&[b"XGROUP", b"DESTROY", key, b"-"]);
        }
        ids.sort_unstable_by(|one, other| other.cmp(one));
        ids.dedup();
        Self { key, pending, producers, ids, first_entry: None, ghosts: Vec::new() }
    }

    /// Adds substitutes for the pending or known ids without an entry up to `id`, which has an entry.
    fn ghosts_before(&mut self, writer: &mut RequestWriter, id: StreamId) {
        let first = *self.first_entry.get_or_insert(id);
        while let Some(ghost) = self.ids.pop_if(|ghost| *ghost <= id) {
            if ghost < id {
                self.add_ghost(writer, ghost, ghost < first);
            }
        }
    }

    fn add_ghost(&mut self, writer: &mut RequestWriter, id: StreamId, is_in_front: bool) {
        let message = self.producers.and_then(|producers| producers.message_of(id));
        let numbered: Vec<&[u8]> = message.map_or(Vec::new(), |(producer, message)| vec![b"IDMP", producer, message]);
        let head: [&[u8]; 2] = [b"XADD", self.key];
        writer.request(&[&head, numbered.as_slice(), &[id.to_string().as_bytes(), b"-", b"-"]].concat());
        self.ghosts.push((id, is_in_front));
    }

    fn write(mut self, writer: &mut RequestWriter, stream: &Stream) {
        while let Some(ghost) = self.ids.pop() {
            self.add_ghost(writer, ghost, false);
        }
        if self.first_entry.is_none() && self.ghosts.is_empty() && stream.is_empty() {
            // There is no other way to make a stream without entries.
            writer.request(&[b"XADD", self.key, b"MAXLEN", b"0", b"0-1", b"-", b"-"]);
        }
        for (number, (name, group)) in (0..).zip(stream.groups()) {
            self.write_group(writer, number, name, group);
            writer.settle();
        }
        self.remove_ghosts(writer, stream);
        let (counters, mut digits) = (stream.counters(), Digits::default());
        let (last_id, deleted) = (counters.last_id.to_string(), counters.max_deleted_id.to_string());
        let added = digits.write(counters.entries_added as i64);
        let head: [&[u8]; 3] = [b"XSETID", self.key, last_id.as_bytes()];
        writer.request(&[&head, &[b"ENTRIESADDED", added, b"MAXDELETEDID", deleted.as_bytes()][..]].concat());
    }

    fn write_group(&self, writer: &mut RequestWriter, number: u32, name: &[u8], group: &StreamGroup) {
        let read = group.entries_read.map_or(-1, |read| read as i64);
        let (last_id, mut digits) = (group.last_id.to_string(), Digits::default());
        let head: [&[u8]; 5] = [b"XGROUP", b"CREATE", self.key, name, last_id.as_bytes()];
        writer.request(&[&head, &[b"ENTRIESREAD", digits.write(read)][..]].concat());
        for consumer in group.consumers() {
            writer.request(&[b"XGROUP", b"CREATECONSUMER", self.key, name, &consumer.name]);
        }
        for (_, id, pending) in self.pending.iter().filter(|(group, ..)| *group == number) {
            let consumer = group.consumer(pending.consumer);
            self.claim(writer, (name, &consumer.name), *id, *pending);
            writer.settle();
        }
    }

    fn claim(&self, writer: &mut RequestWriter, (group, consumer): (&[u8], &[u8]), id: StreamId, pending: Pending) {
        let (id, mut time, mut count) = (id.to_string(), Digits::default(), Digits::default());
        let head: [&[u8]; 6] = [b"XCLAIM", self.key, group, consumer, b"0", id.as_bytes()];
        let time = time.write(pending.delivered_ms);
        let count = count.write(pending.deliveries as i64);
        writer.request(&[&head, &[b"TIME", time, b"RETRYCOUNT", count, b"JUSTID", b"FORCE"][..]].concat());
    }

    /// Removes the substitute entries. Those before all other entries are trimmed, which leaves no trace in the counters.
    fn remove_ghosts(&self, writer: &mut RequestWriter, stream: &Stream) {
        if self.ghosts.is_empty() {
            return;
        }
        let Some(first) = self.first_entry.filter(|_| !stream.is_empty()) else {
            return writer.request(&[b"XTRIM", self.key, b"MAXLEN", b"0"]);
        };
        for (ghost, _) in self.ghosts.iter().filter(|(_, is_in_front)| !is_in_front) {
            writer.request(&[b"XDEL", self.key, ghost.to_string().as_bytes()]);
        }
        if self.ghosts.iter().any(|(_, is_in_front)| *is_in_front) {
            writer.request(&[b"XTRIM", self.key, b"MINID", first.to_string().as_bytes()]);
        }
    }
}

/// Appends the request that adds an entry.
fn add(out: &mut Vec<u8>, key: &[u8], producers: Option<&Producers>, entry: &StreamEntry<'_>) {
    let message = producers.and_then(|producers| producers.message_of(entry.id));
    let mut writer = Writer::new(out, Protocol::Resp2);
    writer.array(3 + 3 * usize::from(message.is_some()) + 2 * entry.fields_len());
    writer.bulks(&[b"XADD", key]);
    if let Some((producer, message)) = message {
        writer.bulks(&[b"IDMP", producer, message]);
    }
    writer.bulk(entry.id.to_string().as_bytes());
    for (name, value) in entry.fields() {
        writer.bulk(name.bytes(&mut Digits::default()));
        writer.bulk(value.bytes(&mut Digits::default()));
    }
}
