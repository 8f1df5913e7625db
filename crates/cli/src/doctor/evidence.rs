//! The measurements in plain numbers: the border between measuring and judging.
//!
//! A number that could not be read is `None` and stands in [`Evidence::unread`] with the reason; it is not guessed. The
//! requests that the doctor itself sends are taken off already.

/// The way to the server, measured by requests that cost the server next to nothing.
#[derive(Clone, Debug, Default)]
pub struct Path {
    /// The durations of PINGs, in microseconds.
    pub round_trip_us: Times,
    /// The PINGs a second of one connection that waits for each reply.
    pub alone_per_second: f64,
    /// The PINGs a second of one connection that does not wait, plus the commands that other clients sent in that time.
    pub together_per_second: f64,
    /// The time that a new connection takes until its first reply, logging in included, in microseconds.
    pub connect_us: f64,
    /// The bytes a second in one direction; `None` if the server refuses ECHO.
    pub bytes_per_second: Option<f64>,
}

/// The durations of many equal requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// The number of requests.
    pub count: usize,
    /// The time that a tenth of the requests did not exceed: the round trip over an idle way.
    pub p10: f64,
    /// The time that half of the requests did not exceed.
    pub p50: f64,
    /// The time that 99 of 100 requests did not exceed.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Times {
    /// Returns the times of these requests.
    pub fn of(mut times: Vec<f64>) -> Self {
        times.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (times.len() as f64 * share) as usize;
            times.get(place.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
        };
        Self { count: times.len(), p10: at(0.1), p50: at(0.5), p99: at(0.99), max: at(1.0) }
    }
}

/// The traffic of the program, counted by the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// The time for which commands arrived, in seconds.
    pub seconds: f64,
    /// The number of commands executed.
    pub commands: u64,
    /// The number of times that the server found bytes on a connection.
    pub reads: u64,
    /// The number of connections that were opened.
    pub connects: u64,
    /// Bytes that the server received.
    pub bytes_in: u64,
    /// Bytes that the server sent.
    pub bytes_out: u64,
    /// The average number of open connections, without the doctor's, that sent a command lately; 0 if the doctor's user may
    /// not read that.
    pub clients: f64,
}

/// The observations made while the program ran.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The way to the server.
    pub path: Path,
    /// The commands and bytes in both directions.
    pub traffic: Traffic,
    /// The number of calls of each command, and the time in it; empty if the server does not report them.
    pub calls: Vec<Calls>,
    /// The commands that the server wrote into its slow log during the watch, the slowest first.
    pub slow: Vec<SlowCommand>,
    /// A sample of commands as they arrived, if MONITOR is allowed.
    pub sample: Option<MonitorSample>,
    /// The durations of a look-up of one key, which is repeated during the watch.
    pub probe_us: Times,
    /// The server's process and memory.
    pub server: Server,
    /// The server's forks.
    pub forks: Forks,
    /// The server's AOF.
    pub log: Log,
    /// The sockets of this machine's programs that are connected to the server, if there are any.
    pub sockets: Option<Sockets>,
    /// The CPU time of the program's processes, if the doctor started the program.
    pub program: Option<Usage>,
    /// The share of TCP segments that this machine sent again, if the server is on another machine.
    pub sent_again_share: Option<f64>,
    /// The numbers that could not be read, each with the reason.
    pub unread: Vec<String>,
}

/// A command's calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calls {
    /// The full name of the command in lower case.
    pub name: String,
    /// The number of calls.
    pub count: u64,
    /// The time of the calls in the server, in microseconds.
    pub time_us: f64,
}

/// An entry of the slow log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlowCommand {
    /// The execution time, in microseconds.
    pub time_us: u64,
    /// The beginning of the command.
    pub text: String,
}

/// A sample of commands as they arrived.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MonitorSample {
    /// The number of connections that sent the commands, weighted as if all of them were equally busy; `None` if MONITOR
    /// gives no addresses.
    pub clients: Option<f64>,
    /// The number of keys that the commands named.
    pub key_count: usize,
    /// The key that was named the most, quoted, and its share.
    pub hottest: Option<(String, f64)>,
    /// The bursts of commands between pauses.
    pub bursts: Option<Bursts>,
}

/// The bursts: runs of commands that a connection sent between two pauses. A burst is usually one request of the program's
/// own users.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bursts {
    /// The number of bursts that were seen whole.
    pub count: usize,
    /// The round trips of a burst, the median.
    pub round_trips: f64,
    /// The share of bursts with about this number of round trips.
    pub alike_share: f64,
    /// The share of the time that lies between bursts.
    pub pause_share: f64,
    /// The most frequent command in bursts.
    pub command: String,
}

/// The server as a process.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// The number of threads that execute commands.
    pub workers: f64,
    /// The share of the time that the workers were busy, with their waits for a processor if those are known; `None` if it
    /// cannot be measured.
    pub busy_share: Option<f64>,
    /// The part of `busy_share` in which the workers waited for a processor.
    pub delayed_share: f64,
    /// The share of looks in which one of the server's threads waited for a disk; `None` if the server is not on this
    /// machine.
    pub disk_share: Option<f64>,
    /// The bytes of the server that are swapped out; `None` if it is not on this machine.
    pub swapped_bytes: Option<u64>,
    /// The number of pages that the server had to read from a disk during the watch.
    pub major_faults: u64,
    /// The bytes of the server's data, as the server reports them.
    pub used_bytes: u64,
    /// The server's resident memory in bytes, as the server reports it.
    pub resident_bytes: u64,
}

/// The forks of a server that forks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forks {
    /// The number of forks.
    pub count: u64,
    /// The duration of the longest fork, in microseconds.
    pub longest_us: u64,
}

/// The append-only log.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// True if the server has an AOF.
    pub is_on: bool,
    /// The value of `appendfsync`, if it may be read.
    pub policy: Option<String>,
    /// Writes that waited for the disk although they need not.
    pub delayed: u64,
}

/// Looks at the sockets that lead to the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sockets {
    /// The number of looks at the sockets.
    pub looks: u64,
    /// The number of looks in which replies had arrived and lay unread for some milliseconds.
    pub left_lying: u64,
}

/// The processor time that processes use, as shares of the time of one processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// The busiest thread's share of a processor, or the average of several busiest threads.
    pub busiest_share: f64,
    /// The share of the time in which that thread waited for a processor.
    pub delayed_share: f64,
}

impl Traffic {
    /// Returns the number of round trips: commands that were answered by one write, as far as the server can see it. A large
    /// value takes several reads, and in Redis the end of a connection is one too.
    pub fn round_trips(&self) -> u64 {
        self.reads.clamp(1, self.commands.max(1))
    }

    /// Returns the number of commands of a round trip.
    pub fn depth(&self) -> f64 {
        self.commands as f64 / self.round_trips() as f64
    }

    /// Returns the commands a second.
    pub fn per_second(&self) -> f64 {
        self.commands as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// Returns microseconds as a share of the time in which commands came.
    pub fn share_of_time(&self, time_us: f64) -> f64 {
        (time_us / (self.seconds * 1e6).max(1.0)).min(1.0)
    }
}

impl Evidence {
    /// Returns the program's share of the rate that one connection could reach.
    pub fn share_of_possible(&self) -> f64 {
        self.traffic.per_second() / self.path.together_per_second.max(1.0)
    }

    /// Returns the number of connections that share the work.
    pub fn connections(&self) -> f64 {
        self.sample.as_ref().and_then(|sample| sample.clients).unwrap_or(self.traffic.clients).max(1.0)
    }

    /// Returns the share of a connection's time that round trips take, counting only the way.
    pub fn waiting_share(&self) -> f64 {
        let waited_us = self.traffic.round_trips() as f64 * self.path.round_trip_us.p10;
        self.traffic.share_of_time(waited_us / self.connections())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_their_order() {
        let times = Times::of((1..=100).rev().map(f64::from).collect());
        assert_eq!(times, Times { count: 100, p10: 11.0, p50: 51.0, p99: 100.0, max: 100.0 });
        assert_eq!(Times::of(Vec::new()), Times::default());
    }

    #[test]
    fn the_end_of_a_connection_is_no_round_trip() {
        let traffic = Traffic { commands: 100, reads: 200, connects: 100, ..Traffic::default() };
        assert_eq!((traffic.round_trips(), traffic.depth()), (100, 1.0));
        let large = Traffic { commands: 10, reads: 500, ..Traffic::default() };
        assert_eq!(large.depth(), 1.0);
    }
}
