//! Commands that wait for EXEC.
//!
//! They are packed into blocks: a block's arguments lie in one buffer, one after the other, with their places in a second and
//! the commands in a third. So a short command costs little more than its words, the queue never moves, and its memory is
//! known to the byte. Owned by one session; one thread.

use sleeve_wire::commands::Row;
use sleeve_wire::request::{Args, Span};

/// The commands of a transaction, back to back in one buffer.
#[derive(Debug, Default)]
pub struct Queue {
    blocks: Vec<Block>,
    len: usize,
    /// The memory of all blocks except the last one.
    full_bytes: usize,
}

#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    commands: Vec<Queued>,
}

#[derive(Debug)]
struct Queued {
    row: &'static Row,
    /// The first span of the command's arguments, and their number.
    first: u32,
    count: u32,
}

/// The greatest length of each of a block's three parts, unless a single command is longer.
const PART_BYTES_MAX: usize = 32 * 1024;

impl Queue {
    /// Adds a command behind the others.
    pub fn push(&mut self, row: &'static Row, args: Args<'_>) {
        if !self.blocks.last().is_some_and(|block| block.has_room(args)) {
            self.full_bytes += self.blocks.last().map_or(0, Block::heap_bytes);
            self.blocks.push(Block::default());
        }
        if let Some(block) = self.blocks.last_mut() {
            block.push(row, args);
        }
        self.len += 1;
    }

    /// Returns how many commands there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the commands in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Row, Args<'_>)> {
        self.blocks.iter().flat_map(|block| block.commands.iter().map(|queued| (queued.row, block.args(queued))))
    }

    /// Returns the memory that the queue holds outside of this struct, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let last_bytes = self.blocks.last().map_or(0, Block::heap_bytes);
        self.full_bytes + last_bytes + self.blocks.capacity() * size_of::<Block>()
    }
}

impl Block {
    fn has_room(&self, args: Args<'_>) -> bool {
        self.bytes.len() + args.bytes_len() <= PART_BYTES_MAX
            && (self.spans.len() + args.len()) * size_of::<Span>() <= PART_BYTES_MAX
            && (self.commands.len() + 1) * size_of::<Queued>() <= PART_BYTES_MAX
    }

    /// Adds a command. A request is shorter than 4 GiB, and so is a block: positions fit into 32 bits.
    fn push(&mut self, row: &'static Row, args: Args<'_>) {
        if self.commands.is_empty() && !self.has_room(args) {
            self.bytes.reserve_exact(args.bytes_len());
            self.spans.reserve_exact(args.len());
            self.commands.reserve_exact(1);
        }
        self.commands.push(Queued { row, first: self.spans.len() as u32, count: args.len() as u32 });
        for arg in args.iter() {
            self.spans.push(Span { start: self.bytes.len() as u32, len: arg.len() as u32 });
            self.bytes.extend_from_slice(arg);
        }
    }

    fn args(&self, queued: &Queued) -> Args<'_> {
        let spans = self.spans.get(queued.first as usize..).unwrap_or_default();
        Args::new(&self.bytes, spans.get(..queued.count as usize).unwrap_or_default())
    }

    fn heap_bytes(&self) -> usize {
        let places = self.spans.capacity() * size_of::<Span>();
        self.bytes.capacity() + places + self.commands.capacity() * size_of::<Queued>()
    }
}

#[cfg(test)]
mod tests {
    use sleeve_wire::commands::Command;
    use sleeve_wire::request::OwnedArgs;

    use super::*;

    #[test]
    fn commands_come_back_as_they_were_across_blocks() {
        let mut queue = Queue::default();
        let large = vec![b'x'; 3 * PART_BYTES_MAX];
        let words = |number: usize| -> Vec<Vec<u8>> {
            match number % 1_000 {
                999 => vec![b"SET".to_vec(), b"k".to_vec(), large.clone()],
                998 => (0..PART_BYTES_MAX / 4).map(|index| index.to_string().into_bytes()).collect(),
                _ => vec![b"APPEND".to_vec(), number.to_string().into_bytes(), Vec::new()],
            }
        };
        for number in 0..10_000 {
            let owned = OwnedArgs::collect(words(number).iter().map(Vec::as_slice));
            queue.push(Command::Append.row(), owned.args());
        }
        assert_eq!((queue.len(), queue.iter().count()), (10_000, 10_000));
        for (number, (row, args)) in queue.iter().enumerate() {
            assert_eq!(row.id, Command::Append);
            assert!(args.iter().eq(words(number).iter().map(Vec::as_slice)), "{number}");
        }
        let sum: usize = queue.blocks.iter().map(Block::heap_bytes).sum();
        assert_eq!(queue.heap_bytes(), sum + queue.blocks.capacity() * size_of::<Block>());
    }
}
