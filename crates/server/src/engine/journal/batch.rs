//! Effects on their way into the journal, encoded while the commands run.
//!
//! Effects are gathered in the open piece until it is sealed: a single effect stands alone, several stand between MULTI and
//! EXEC. If the database changes, a SELECT stands before the effect, and before the MULTI. Only the journal knows which
//! database is selected when the first piece of a batch comes, so the journal puts a SELECT before that piece if it is
//! needed. Effects for replicas alone concern no database; their positions are kept. One thread.

use std::ops::Range;

use sleeve_wire::reply::{Protocol, Writer};

const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// The mark for a piece that began with an effect that concerns no database: the database at the beginning of the batch is
/// meant.
const FIRST_DATABASE: u32 = u32::MAX;

/// Pieces that go into the journal together: complete ones, and the open one.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// The position at which the open piece begins.
    open_at: usize,
    /// The number of effects in the open piece.
    effects: usize,
    /// The number of complete pieces.
    pieces: u64,
    /// The databases of the first effect and of the last one.
    databases: Option<(u32, u32)>,
    /// The database of the open piece's first effect.
    open_database: u32,
    /// The positions of effects that are for replicas alone, in order.
    for_replicas: Vec<Range<usize>>,
    /// The number of these effects in the open piece.
    effects_for_replicas: usize,
    /// The batch is a part of another server's journal.
    is_foreign: bool,
}

/// The contents of a batch, to be moved into the journal.
#[derive(Debug)]
pub struct TakenBatch<'s> {
    /// The bytes, which the journal moves out.
    pub bytes: &'s mut Vec<u8>,
    /// The number of pieces.
    pub count: u64,
    /// The database of the first effect, for which the bytes have no SELECT, and the one that is selected after the last
    /// effect; None if the bytes concern no database.
    pub databases: Option<(u32, u32)>,
    /// The ranges of the bytes that are for replicas alone, in order.
    pub for_replicas: &'s mut Vec<Range<usize>>,
    /// The bytes are a part of another server's journal, which has its own SELECTs.
    pub is_foreign: bool,
}

impl Batch {
    /// Gives the empty batch a buffer that was used before.
    pub fn set_room(&mut self, room: Vec<u8>) {
        debug_assert!(self.bytes.is_empty() && room.is_empty(), "nothing is lost");
        self.bytes = room;
    }

    /// Returns whether the batch is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns whether there are effects that do not belong to a complete piece yet.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.effects != 0
    }

    /// Returns the number of bytes in the batch.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the capacity of the buffer.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Adds an effect on `database` with so many arguments, which the caller writes as bulk strings.
    #[inline]
    pub fn effect(&mut self, database: u32, words: usize) -> Writer<'_> {
        self.begin(database);
        let mut writer = Writer::new(&mut self.bytes, Protocol::Resp2);
        writer.array(words);
        writer
    }

    /// Adds an effect on `database` that is in the journal's form already.
    #[inline]
    pub fn verbatim(&mut self, database: u32, request: &[u8]) {
        self.begin(database);
        self.bytes.extend_from_slice(request);
    }

    /// Adds a request for replicas alone, in the journal's form.
    #[cold]
    pub fn for_replicas(&mut self, request: &[u8]) {
        self.effects += 1;
        if self.effects == 1 {
            self.open_database = self.databases.map_or(FIRST_DATABASE, |(_, last)| last);
        } else {
            self.frame();
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(request);
        self.effects_for_replicas += 1;
        self.for_replicas.push(start..self.bytes.len());
    }

    /// Adds a part of another server's journal as it came: a whole request, or a whole transaction. After it, `database` is
    /// selected. The batch is taken before anything else is added to it.
    pub fn foreign(&mut self, database: u32, bytes: &[u8], is_for_replicas: bool) {
        debug_assert!(self.effects == 0 && (self.is_foreign || self.bytes.is_empty()), "one server's effects alone");
        self.is_foreign = true;
        self.pieces += 1;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.open_at = self.bytes.len();
        self.databases = Some((database, database));
        if is_for_replicas {
            self.for_replicas.push(start..self.open_at);
        }
    }

    /// Puts MULTI before the open piece when its second effect is added.
    fn frame(&mut self) {
        if self.effects == 2 {
            self.bytes.splice(self.open_at..self.open_at, MULTI.iter().copied());
            let moved = self.for_replicas.iter_mut().filter(|range| range.start >= self.open_at);
            moved.for_each(|range| *range = range.start + MULTI.len()..range.end + MULTI.len());
        }
    }

    #[inline]
    fn begin(&mut self, database: u32) {
        self.effects += 1;
        if self.effects == 1 {
            self.open_database = database;
        } else {
            self.frame();
        }
        if self.databases.is_none_or(|(_, last)| last != database) {
            self.select(database);
        }
    }

    #[cold]
    fn select(&mut self, database: u32) {
        let Some((_, last)) = &mut self.databases else {
            self.databases = Some((database, database));
            return;
        };
        *last = database;
        write_select(&mut self.bytes, database);
        if self.effects == 1 {
            self.open_at = self.bytes.len();
        }
    }

    /// Ends the open piece.
    pub fn seal(&mut self) {
        if self.effects > 1 {
            self.bytes.extend_from_slice(EXEC);
        }
        if self.effects_for_replicas != 0 && self.effects_for_replicas == self.effects {
            // All effects are for replicas alone, so the AOF does not get MULTI and EXEC either.
            self.for_replicas.truncate(self.for_replicas.len() - self.effects);
            self.for_replicas.push(self.open_at..self.bytes.len());
        }
        self.effects_for_replicas = 0;
        self.pieces += u64::from(self.effects != 0);
        self.effects = 0;
        self.open_at = self.bytes.len();
    }

    /// Drops the open piece, which will not be completed, because the thread fails or the server ends.
    pub fn drop_open(&mut self) {
        self.bytes.truncate(self.open_at);
        let kept = self.for_replicas.len() - std::mem::take(&mut self.effects_for_replicas);
        self.for_replicas.truncate(kept);
        if std::mem::take(&mut self.effects) != 0
            && let Some((first, last)) = &mut self.databases
        {
            // A SELECT before the piece stays; those within it are gone.
            *last = if self.open_database == FIRST_DATABASE { *first } else { self.open_database };
        }
    }

    /// Takes the contents, all of them sealed; returns None if the batch is empty.
    pub fn take(&mut self) -> Option<TakenBatch<'_>> {
        debug_assert!(self.effects == 0, "every piece is whole");
        self.open_at = 0;
        if self.bytes.is_empty() {
            self.databases = None;
            return None;
        }
        let (databases, count) = (self.databases.take(), std::mem::take(&mut self.pieces));
        let is_foreign = std::mem::take(&mut self.is_foreign);
        Some(TakenBatch { bytes: &mut self.bytes, count, databases, for_replicas: &mut self.for_replicas, is_foreign })
    }

    /// Returns the buffer, to be used again.
    pub fn into_room(self) -> Vec<u8> {
        self.bytes
    }
}

/// Adds a SELECT to the end.
pub fn write_select(bytes: &mut Vec<u8>, database: u32) {
    let mut writer = Writer::new(bytes, Protocol::Resp2);
    writer.array(2);
    writer.bulk(b"SELECT");
    writer.bulk_integer(i64::from(database));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(batch: &mut Batch, database: u32, word: &str) {
        batch.effect(database, 1).bulk(word.as_bytes());
    }

    /// Returns the words of a batch, and the database of its first effect.
    fn words(batch: &mut Batch) -> (Vec<String>, u32) {
        let pieces = batch.take().expect("something is in it");
        let text = String::from_utf8(std::mem::take(pieces.bytes)).expect("text");
        let lines = text.split("\r\n").filter(|line| !line.is_empty() && !line.starts_with(['*', '$']));
        (lines.map(str::to_owned).collect(), pieces.databases.expect("they are about databases").0)
    }

    #[test]
    fn several_effects_stand_between_multi_and_exec_and_a_single_one_alone() {
        let mut batch = Batch::default();
        add(&mut batch, 3, "a");
        batch.seal();
        for word in ["b", "c", "d"] {
            add(&mut batch, 3, word);
        }
        assert!(batch.is_open());
        batch.seal();
        batch.seal();
        batch.verbatim(3, b"*1\r\n$1\r\ne\r\n");
        batch.seal();
        assert_eq!(batch.pieces, 3);
        assert_eq!(words(&mut batch), (["a", "MULTI", "b", "c", "d", "EXEC", "e"].map(str::to_owned).to_vec(), 3));
        assert!(batch.take().is_none() && batch.is_empty());
    }

    #[test]
    fn a_select_stands_before_multi_and_wherever_the_database_changes_inside() {
        let mut batch = Batch::default();
        add(&mut batch, 0, "a");
        batch.seal();
        for (database, word) in [(1, "b"), (1, "c"), (2, "d"), (1, "e")] {
            add(&mut batch, database, word);
        }
        batch.seal();
        add(&mut batch, 0, "f");
        batch.seal();
        let expected = "a SELECT 1 MULTI b c SELECT 2 d SELECT 1 e EXEC SELECT 0 f";
        assert_eq!(words(&mut batch).0.join(" "), expected);
    }

    #[test]
    fn what_did_not_come_to_its_end_is_dropped_alone() {
        let mut batch = Batch::default();
        add(&mut batch, 0, "a");
        batch.seal();
        add(&mut batch, 0, "b");
        add(&mut batch, 0, "c");
        batch.drop_open();
        batch.seal();
        assert_eq!(words(&mut batch).0, ["a"]);
    }

    /// Returns the part of a batch that is for replicas alone, and the part that is for AOFs too.
    fn parts(batch: &mut Batch) -> [String; 2] {
        let pieces = batch.take().expect("something is in it");
        let mut for_logs = pieces.bytes.clone();
        let mut for_replicas = Vec::new();
        pieces.for_replicas.iter().for_each(|range| for_replicas.extend_from_slice(&pieces.bytes[range.clone()]));
        pieces.for_replicas.drain(..).rev().for_each(|range| _ = for_logs.drain(range));
        pieces.bytes.clear();
        [for_replicas, for_logs].map(|bytes| {
            let text = String::from_utf8(bytes).expect("text");
            let lines = text.split("\r\n").filter(|line| !line.is_empty() && !line.starts_with(['*', '$']));
            lines.collect::<Vec<_>>().join(" ")
        })
    }

    #[test]
    fn bytes_for_replicas_alone_keep_their_place_and_an_aof_gets_whole_pieces() {
        let (mut batch, message) = (Batch::default(), b"*1\r\n$1\r\np\r\n".as_slice());
        batch.for_replicas(message);
        batch.seal();
        add(&mut batch, 3, "a");
        batch.for_replicas(message);
        batch.seal();
        batch.for_replicas(message);
        batch.for_replicas(message);
        batch.seal();
        batch.for_replicas(message);
        add(&mut batch, 4, "b");
        batch.seal();
        batch.for_replicas(message);
        batch.drop_open();
        add(&mut batch, 4, "c");
        batch.seal();
        assert_eq!(parts(&mut batch), ["p p MULTI p p EXEC p", "MULTI a EXEC MULTI SELECT 4 b EXEC c"]);
        batch.for_replicas(message);
        batch.seal();
        let pieces = batch.take().expect("a piece");
        assert_eq!((pieces.databases, pieces.count), (None, 1));
        assert_eq!(pieces.for_replicas.first(), Some(&(0..message.len())));
    }

    #[test]
    fn behind_a_dropped_piece_the_database_is_selected_that_it_had_changed() {
        for (before, inside, behind, expected) in [
            (0, vec![0, 5], 5, "a SELECT 5 c"),
            (0, vec![0, 5], 0, "a c"),
            (0, vec![5, 0], 5, "a SELECT 5 c"),
            (0, vec![5, 0], 0, "a SELECT 5 SELECT 0 c"),
        ] {
            let mut batch = Batch::default();
            add(&mut batch, before, "a");
            batch.seal();
            inside.into_iter().for_each(|database| add(&mut batch, database, "b"));
            batch.drop_open();
            add(&mut batch, behind, "c");
            batch.seal();
            assert_eq!(words(&mut batch).0.join(" "), expected);
        }
    }
}
