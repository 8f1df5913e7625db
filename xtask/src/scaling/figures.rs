//! The measurements that the simulation is fed with, in nanoseconds, and where each comes from.
//!
//! Totals are CPU time of the server as `cargo xtask bench --only workers` measures it (bench/results). How much of it is under
//! the lock follows from instructions: `cargo xtask walk` says how many of a command's are executed there, `cargo xtask counts`
//! how many a look-up takes, and the store's example `contention` how long that takes.

/// One kind of command, as it comes.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    pub name: &'static str,
    /// Requests that come together.
    pub depth: usize,
    /// Keys of each.
    pub keys: usize,
    /// What a request takes with no shard locked: the kernel's part, parsing, finding the command, gates, accounting.
    pub outside_ns: u64,
    /// How much of that is there because there are several shards: one worker saves it.
    pub many_shards_ns: u64,
    /// What it takes for each key with the shard locked.
    pub inside_ns: u64,
    /// What it takes under the one lock of the journal, with its shards still locked; 0 where nobody reads the journal.
    pub journal_ns: u64,
    /// One request in so many takes all shards for so long, as a script does; 0: none.
    pub all_shards: (u64, u64),
}

/// What looking ahead takes for each key with the shard locked, once for each shard of a batch.
pub const LOOK_AHEAD: u64 = 15;

/// What it takes to get a shard that another worker has had last: its lock and its head come from another processor's cache.
/// Fitted: with it two workers on two processors take 1.19 and 1.18 of one worker's CPU time for a GET and a SET at depth 16 on
/// spread keys; of the server 1.09 to 1.16 and 1.18 were measured.
pub const HAND_OVER: u64 = 80;

/// The same as the store's example sees it, with two threads that do nothing else on a busy virtual machine: 0.21 us a GET on
/// spread keys instead of 0.043, where every other time the other thread was there last. The entries move there too.
pub const HAND_OVER_MAX: u64 = 330;

/// How long a thread spins and yields before it sleeps: the ten rounds of `parking_lot_core::SpinWait`, seven of which
/// are calls of `sched_yield`.
pub const SPIN: u64 = 2_500;

/// What a sleeping thread costs whoever wakes it, and after how long it runs: assumed.
pub const WAKE: (u64, u64) = (1_500, 8_000);

const GET: Command = Command {
    name: "GET, depth 16",
    depth: 16,
    keys: 1,
    // 520 ns with two workers on one processor, of which some 400 instructions are under the lock, 206 of them in 27 ns.
    outside_ns: 435,
    many_shards_ns: 50,
    inside_ns: 70,
    journal_ns: 0,
    all_shards: (0, 0),
};

/// What is simulated.
pub const COMMANDS: [Command; 6] = [
    Command { name: "GET, one at a time", depth: 1, outside_ns: 5_500, many_shards_ns: 100, ..GET },
    GET,
    Command { name: "SET, depth 16", inside_ns: 90, ..GET },
    // The piece of a SET is copied into the journal, and its lock comes from another worker's cache each time.
    Command { name: "SET, depth 16, with a log", inside_ns: 90, journal_ns: 60, ..GET },
    // 1.5 us; ten keys, whose shards are locked together.
    Command { name: "MSET of 10, depth 16", keys: 10, outside_ns: 600, many_shards_ns: 100, inside_ns: 90, ..GET },
    Command { name: "GET, depth 16, and one script of 4 us in 1,000", all_shards: (1_000, 4_000), ..GET },
];
