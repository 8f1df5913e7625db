//! The states in which a server refuses, how each begins and ends, and where in them a request stands.

use std::time::{Duration, Instant};

use sleeve_tests::{Connection, Kind, Server};

/// The arguments with which a server is started.
pub const ARGUMENTS: &[&str] = &["--enable-protected-configs", "yes", "--enable-debug-command", "yes", "--save", ""];

/// Further arguments of a real server, with which it serves its clients often enough while it loads.
pub const ARGUMENTS_OF_PEERS: &[&str] = &["--loading-process-events-interval-bytes", "1024"];

/// The time limit for a state to begin or to end. Only a defect gets near it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A state in which the server refuses requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Healthy,
    ReadOnlyReplica,
    StaleReplica,
    StaleReadOnlyReplica,
    OutOfMemory,
    FewReplicas,
    FailedSnapshot,
    Busy,
    Loading,
    CommandDenied,
    KeyDenied,
    ChannelDenied,
    Unauthenticated,
    Subscriber,
    PausedWrites,
    Redirected,
}

/// The position of a request: alone, in a transaction or in a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The request is sent alone.
    Plain,
    /// The request is queued in a transaction while the state holds.
    Queued,
    /// The request is queued in a transaction before the state begins.
    Changed,
    /// The request is called by a script.
    Script,
}

impl Position {
    const ALL: [Self; 4] = [Self::Plain, Self::Queued, Self::Changed, Self::Script];

    pub fn name(self) -> &'static str {
        ["plain", "queued", "queued before", "in a script"][self as usize]
    }
}

impl State {
    pub const ALL: [Self; 16] = [
        Self::Healthy,
        Self::ReadOnlyReplica,
        Self::StaleReplica,
        Self::StaleReadOnlyReplica,
        Self::OutOfMemory,
        Self::FewReplicas,
        Self::FailedSnapshot,
        Self::Busy,
        Self::Loading,
        Self::CommandDenied,
        Self::KeyDenied,
        Self::ChannelDenied,
        Self::Unauthenticated,
        Self::Subscriber,
        Self::PausedWrites,
        Self::Redirected,
    ];

    pub fn name(self) -> &'static str {
        [
            "healthy",
            "read-only replica",
            "stale replica",
            "stale read-only replica",
            "out of memory",
            "few replicas",
            "failed snapshot",
            "busy",
            "loading",
            "command denied",
            "key denied",
            "channel denied",
            "unauthenticated",
            "subscriber",
            "writes paused",
            "redirected",
        ][self as usize]
    }

    /// Returns whether only this state is asked for, or all are: `SLEEVE_STATE` may name one.
    pub fn is_wanted(self) -> bool {
        std::env::var("SLEEVE_STATE").map_or(true, |name| self.name().contains(&name))
    }

    /// Returns the positions that mean something in it.
    pub fn positions(self) -> &'static [Position] {
        match self {
            Self::Healthy => &[Position::Plain, Position::Queued, Position::Script],
            Self::Busy | Self::Loading | Self::Redirected => &[Position::Plain, Position::Queued, Position::Changed],
            Self::Subscriber | Self::PausedWrites => &[Position::Plain, Position::Changed],
            Self::Unauthenticated | Self::StaleReadOnlyReplica => &[Position::Plain],
            _ => &Position::ALL,
        }
    }

    pub fn is_pause(self) -> bool {
        self == Self::PausedWrites
    }

    /// Returns whether this server is asked. If memory has run out, Redis 8 and Valkey 9 queue a command that does not grow;
    /// Sleeve refuses it, as 7.0 does.
    pub fn is_asked(self, kind: Kind, position: Position) -> bool {
        match kind {
            Kind::Redis => self != Self::Redirected,
            Kind::Redis8 => self != Self::Redirected && !(self == Self::OutOfMemory && position == Position::Queued),
            Kind::Valkey => !(self == Self::OutOfMemory && position == Position::Queued),
            Kind::Sleeve => true,
        }
    }

    /// Returns the rules of a user that lacks a right.
    fn rules(self) -> Option<&'static str> {
        match self {
            Self::CommandDenied => Some("-@all +eval +multi +exec"),
            Self::KeyDenied => Some("resetkeys ~other"),
            Self::ChannelDenied => Some("resetchannels"),
            _ => None,
        }
    }
}

/// Returns whether an answer may stand for others: Redis 8 does not ask again for the keys of a queued command, as 7.0 and
/// Valkey do.
pub fn is_of_use(place: &(&'static str, &'static str), name: &str, kind: Kind) -> bool {
    let is_of_keys = *place == (State::KeyDenied.name(), Position::Changed.name()) && !name.contains(':');
    !(is_of_keys && kind == Kind::Redis8)
}

/// Returns the server with the answers that count for a request in a state and position.
pub fn reference(place: &(&'static str, &'static str), name: &str) -> Kind {
    let is_script = name.contains(':');
    let is_denied = place.0.ends_with("denied") && (is_script || place.1 != Position::Changed.name());
    match place {
        (state, _) if *state == State::Redirected.name() => Kind::Valkey,
        (_, position) if is_denied || *position == Position::Script.name() => Kind::Redis8,
        _ => Kind::Redis,
    }
}

/// Returns the state and position that a title names.
pub fn place(title: &str) -> Option<(&'static str, &'static str)> {
    let (state, position) = title.split_once(" | ")?;
    let state = State::ALL.into_iter().find(|known| known.name() == state)?;
    let position = Position::ALL.into_iter().find(|known| known.name() == position)?;
    Some((state.name(), position.name()))
}

/// Sends the first request of a connection that is in a state by itself.
pub fn before(state: State, connection: &mut Connection) {
    if state == State::Subscriber {
        connection.command(&["SUBSCRIBE", "channel"]).expect("a reply");
    }
}

/// A server with states that begin and end.
pub struct Stage<'s> {
    server: &'s Server,
    control: Connection,
    /// The connection of the command that runs for as long as the state holds.
    running: Option<Connection>,
}

impl<'s> Stage<'s> {
    pub fn new(server: &'s Server) -> Self {
        let mut stage = Self { server, control: server.connect(), running: None };
        stage.do_all(&["CONFIG SET rdbcompression no", "DEBUG POPULATE 5000 key 1000"]);
        stage
    }

    /// Sends a line of words; `_` stands for a space in a word.
    fn say(&mut self, line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(|word| word.trim_matches('"').replace('_', " ")).collect();
        String::from_utf8_lossy(&self.control.command(&words).expect("a reply")).into_owned()
    }

    fn do_all(&mut self, lines: &[&str]) {
        for line in lines {
            let said = self.say(line);
            assert!(!said.starts_with('-'), "{line}: {said}");
        }
    }

    fn say_until(&mut self, line: &str, is_meant: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_meant(&self.say(line)) {
            assert!(Instant::now() < deadline, "{line} never says what it should");
            std::thread::yield_now();
        }
    }

    /// Sends a command that lasts over a connection of its own.
    fn run(&mut self, words: &[&str]) {
        let mut connection = self.server.connect();
        connection.send(&sleeve_tests::connection::request(words)).expect("the server listens");
        self.running = Some(connection);
    }

    /// A round trip.
    pub fn look(&mut self) {
        self.say("PING");
    }

    /// Sets the server up for a state, before connections are opened.
    pub fn prepare(&mut self, state: State) {
        if state.rules().is_some() {
            self.do_all(&["ACL SETUSER probe reset on nopass +@all ~* &*"]);
        }
        if state == State::Unauthenticated {
            self.do_all(&["CONFIG SET requirepass secret"]);
        }
    }

    pub fn connect(&mut self, state: State) -> Connection {
        let mut connection = match state {
            State::Unauthenticated => Connection::open(self.server.address()).expect("the server listens"),
            _ => self.server.connect(),
        };
        if state.rules().is_some() {
            connection.command(&["AUTH", "probe", "x"]).expect("a reply");
        }
        if state == State::Redirected {
            connection.command(&["CLIENT", "CAPA", "redirect"]).expect("a reply");
        }
        connection
    }

    pub fn begin(&mut self, state: State) {
        match state {
            State::Healthy | State::Unauthenticated | State::Subscriber => {}
            State::ReadOnlyReplica | State::Redirected => self.do_all(&["REPLICAOF 127.0.0.1 1"]),
            State::StaleReplica => {
                self.do_all(&["CONFIG SET replica-serve-stale-data no replica-read-only no", "REPLICAOF 127.0.0.1 1"])
            }
            State::StaleReadOnlyReplica => {
                self.do_all(&["CONFIG SET replica-serve-stale-data no", "REPLICAOF 127.0.0.1 1"]);
            }
            State::OutOfMemory => self.do_all(&["CONFIG SET maxmemory 1"]),
            State::FewReplicas => self.do_all(&["CONFIG SET min-replicas-to-write 1"]),
            State::FailedSnapshot => self.fail_snapshot(),
            State::Busy => {
                self.do_all(&["CONFIG SET busy-reply-threshold 1"]);
                self.run(&["EVAL", "while true do end", "0"]);
                self.say_until("GET 1", |said| said.starts_with("-BUSY"));
            }
            State::Loading => {
                self.do_all(&["CONFIG SET key-load-delay 5000"]);
                self.run(&["DEBUG", "RELOAD"]);
                self.say_until("GET 1", |said| said.starts_with("-LOADING"));
            }
            State::CommandDenied | State::KeyDenied | State::ChannelDenied => {
                let rules = state.rules().unwrap_or_default();
                self.do_all(&[&format!("ACL SETUSER probe {rules}")]);
            }
            State::PausedWrites => self.do_all(&["CLIENT PAUSE 600000 WRITE"]),
        }
    }

    pub fn end(&mut self, state: State) {
        match state {
            State::Healthy | State::Subscriber => {}
            State::ReadOnlyReplica | State::StaleReplica | State::StaleReadOnlyReplica | State::Redirected => {
                self.do_all(&["REPLICAOF NO ONE", "CONFIG SET replica-serve-stale-data yes replica-read-only yes"])
            }
            State::OutOfMemory => self.do_all(&["CONFIG SET maxmemory 0"]),
            State::FewReplicas => self.do_all(&["CONFIG SET min-replicas-to-write 0"]),
            State::FailedSnapshot => {
                self.do_all(&["CONFIG SET dbfilename dump.rdb", "BGSAVE"]);
                self.say_until("INFO persistence", |said| said.contains("rdb_last_bgsave_status:ok"));
                self.do_all(&["CONFIG SET save \"\""]);
            }
            State::Busy => {
                self.do_all(&["SCRIPT KILL"]);
                self.finish();
                self.do_all(&["CONFIG SET busy-reply-threshold 5000"]);
            }
            State::Loading => {
                self.do_all(&["CONFIG SET key-load-delay 0"]);
                self.finish();
            }
            State::CommandDenied | State::KeyDenied | State::ChannelDenied => self.do_all(&["ACL DELUSER probe"]),
            State::Unauthenticated => self.do_all(&["CONFIG SET requirepass \"\""]),
            State::PausedWrites => self.end_pause(),
        }
    }

    pub fn end_pause(&mut self) {
        self.do_all(&["CLIENT UNPAUSE"]);
    }

    fn finish(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.reply().expect("it ends");
        }
    }

    /// A snapshot cannot take the place of a folder.
    fn fail_snapshot(&mut self) {
        let folder = self.say("CONFIG GET dir");
        let folder = folder.lines().next_back().expect("a folder").to_owned();
        std::fs::create_dir_all(format!("{folder}/folder.rdb/full")).expect("a folder can be made");
        self.do_all(&["CONFIG SET dbfilename folder.rdb", "CONFIG SET save 3600_1", "BGSAVE"]);
        self.say_until("INFO persistence", |said| said.contains("rdb_last_bgsave_status:err"));
    }
}
