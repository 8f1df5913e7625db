//! Tests of requests that the server refuses: the order in which they are sent again, and the requests that leave in between.

use super::super::hold::passing;
use super::*;
use crate::config::Resend;
use crate::error::Effect;
use crate::error::Error;
use crate::pipe::queue::write_select;
use crate::pipe::reply_reader::ReplyReader;
use crate::pipe::slot::Completions;
use crate::pipe::slot::Handle;
use crate::pipe::testing::source;
use crate::resp::request::{EncodedRequest, Request};

const LOADING: &str = "-LOADING Redis is loading the dataset in memory\r\n";
const BUSY: &str = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n";

/// A connection without a server: the bytes that leave are inspected, and the replies are made up.
struct Wire {
    pipe: Pipe,
    reply_reader: ReplyReader,
    now_ms: u32,
    retries: bool,
}

fn select(database: u32) -> String {
    let mut bytes = Vec::new();
    write_select(&mut bytes, database);
    String::from_utf8(bytes).expect("a request")
}

impl Wire {
    fn new() -> Self {
        let mut pipe = Pipe::new(0, source());
        pipe.connect();
        Self { pipe, reply_reader: ReplyReader::default(), now_ms: 0, retries: true }
    }

    /// Gathers a command that is known by this name, with any bytes.
    fn push(&mut self, database: u32, name: &[&str], bytes: &str) -> Handle {
        let request = EncodedRequest { bytes: bytes.as_bytes(), name: Name::of(name) };
        self.pipe.push(database, request, self.now_ms)
    }

    fn write(&mut self, database: u32, bytes: &str) -> Handle {
        self.push(database, &["INCR"], bytes)
    }

    /// Returns the bytes that may leave, and sends them.
    fn sent(&mut self) -> String {
        let mut text = String::new();
        while let Some((bytes, written)) = self.pipe.lend() {
            text.push_str(&String::from_utf8_lossy(&bytes[written..]));
            let length = bytes.len() - written;
            self.pipe.wrote(bytes, length);
        }
        text
    }

    /// Returns the bytes that leave as `sent` does, after the pause.
    fn sent_after_pause(&mut self) -> String {
        assert!(self.pipe.refusals.is_pausing());
        assert_eq!(self.sent(), "");
        self.now_ms += self.pipe.pause_left_ms(self.now_ms).expect("there is a pause");
        self.pipe.refusals.end_pause();
        self.sent()
    }

    /// Takes these replies, which arrive together.
    fn receive(&mut self, replies: &str) -> Result<(), Error> {
        self.reply_reader.room()[..replies.len()].copy_from_slice(replies.as_bytes());
        let count = self.reply_reader.filled(replies.len())?;
        assert!(self.pipe.take(count, &mut self.reply_reader.pending));
        let refusals = self.reply_reader.take_refusals();
        if !refusals.is_empty() {
            self.pipe.put_off(&mut self.reply_reader.pending, refusals, self.now_ms, Some(60_000), self.retries);
        }
        assert!(self.reply_reader.deliver(&mut Completions::default())?.is_none());
        Ok(())
    }

    fn cut(&mut self, resend: Resend) {
        let mut lost = self.pipe.cut(self.reply_reader.cut(), resend);
        let error = Error::disconnected("it was cut");
        lost.iter_mut().for_each(|entry| entry.asker.fail(&error, &mut Completions::default()));
        self.pipe.connect();
    }
}

fn effect(handle: Handle) -> Effect {
    handle.take().ok().expect("it is done").frame().map_or_else(|error| error.effect(), |_| Effect::Answered)
}

#[test]
fn the_oldest_goes_alone_and_nothing_else_leaves_before_it_is_executed() {
    let mut wire = Wire::new();
    let first = ["A", "B", "C"].map(|bytes| wire.write(0, bytes));
    assert_eq!(wire.sent(), "ABC");
    wire.receive(&LOADING.repeat(3)).expect("they are refusals");
    let meanwhile = wire.write(0, "D");
    for _ in 0..3 {
        assert_eq!(wire.sent_after_pause(), "A");
        let later = wire.write(0, "E");
        assert_eq!(wire.sent(), "");
        wire.receive(LOADING).expect("it is a refusal");
        drop(later);
    }
    assert_eq!(wire.sent_after_pause(), "A");
    wire.receive(":1\r\n").expect("it is an answer");
    assert_eq!(wire.sent(), "BCDEEE");
    wire.receive(&":1\r\n".repeat(6)).expect("they are answers");
    assert!(first.into_iter().chain([meanwhile]).all(|handle| effect(handle) == Effect::Answered));
    assert!(wire.pipe.is_idle() && wire.pipe.queue.held == 0);
}

#[test]
fn each_is_in_its_database_when_it_goes_again() {
    let mut wire = Wire::new();
    for (database, bytes) in [(0, "A"), (3, "B"), (3, "C"), (0, "D")] {
        wire.write(database, bytes).forget();
    }
    assert_eq!(wire.sent(), format!("A{}BC{}D", select(3), select(0)));
    wire.receive(&format!("{LOADING}+OK\r\n{LOADING}{LOADING}+OK\r\n{LOADING}")).expect("they are refusals");
    wire.write(3, "E").forget();
    assert_eq!(wire.sent_after_pause(), "A");
    wire.receive(":1\r\n").expect("it is an answer");
    assert_eq!(wire.sent(), format!("{}BC{}D{}E", select(3), select(0), select(3)));
    wire.receive(&format!("+OK\r\n{LOADING}{LOADING}+OK\r\n:1\r\n+OK\r\n:1\r\n")).expect("they are replies");
    // The refused request is in another database than the connection: its SELECT goes alone too.
    wire.write(3, "F").forget();
    wire.write(0, "G").forget();
    assert_eq!(wire.sent_after_pause(), "B");
    wire.receive(LOADING).expect("it is a refusal");
    wire.write(0, "H").forget();
    assert_eq!(wire.sent_after_pause(), "B");
    wire.receive(":1\r\n").expect("it is an answer");
    assert_eq!(wire.sent(), format!("CF{}GH", select(0)));
    wire.receive(&format!("{LOADING}:1\r\n+OK\r\n:1\r\n:1\r\n")).expect("they are replies");
    assert_eq!(wire.sent_after_pause(), select(3));
    wire.receive("+OK\r\n").expect("it is selected");
    assert_eq!(wire.sent(), "C");
    wire.write(0, "I").forget();
    wire.receive(":1\r\n").expect("it is an answer");
    assert_eq!(wire.sent(), format!("{}I", select(0)));
}

#[test]
fn a_command_that_ends_a_script_leaves_ahead_of_held_back_requests() {
    let kills: [(&[&str], &str); 3] = [
        (&["SCRIPT", "KILL"], "*2\r\n$6\r\nSCRIPT\r\n$4\r\nKILL\r\n"),
        (&["FUNCTION", "KILL"], "*2\r\n$8\r\nFUNCTION\r\n$4\r\nKILL\r\n"),
        (&["SHUTDOWN"], "*2\r\n$8\r\nSHUTDOWN\r\n$6\r\nnosave\r\n"),
    ];
    for (name, kill) in kills {
        // The command that ends a script is gathered before any refusal, in the pause, while a probe is in flight, or before
        // the next probe.
        for phase in 0..4 {
            let mut wire = Wire::new();
            let handle = wire.write(0, "A");
            assert_eq!(wire.sent(), "A");
            let behind = wire.write(5, "B");
            let mut told = (phase == 0).then(|| wire.push(7, name, kill));
            wire.receive(BUSY).expect("it is a refusal");
            if phase == 2 {
                assert_eq!(wire.sent_after_pause(), "A");
            } else if phase == 3 {
                wire.pipe.refusals.end_pause();
            }
            let told = told.take().unwrap_or_else(|| wire.push(7, name, kill));
            let (sent, wanted) = (wire.sent(), if phase == 3 { format!("{kill}A") } else { kill.to_owned() });
            assert_eq!(sent, wanted, "{phase}");
            let replies = match phase {
                2 => format!("{BUSY}+OK\r\n"),
                3 => "+OK\r\n:1\r\n".to_owned(),
                _ => "+OK\r\n".to_owned(),
            };
            wire.receive(&replies).expect("they are replies");
            assert_eq!(effect(told), Effect::Answered);
            if phase != 3 {
                assert_eq!(wire.sent_after_pause(), "A");
                wire.receive(":1\r\n").expect("it is an answer");
            }
            assert_eq!((effect(handle), wire.sent()), (Effect::Answered, format!("{}B", select(5))));
            wire.receive("+OK\r\n:1\r\n").expect("it is an answer");
            assert!(effect(behind) == Effect::Answered && wire.pipe.queue.held == 0);
        }
    }
    // SHUTDOWN with a save would save without the effects of the refused requests, so it must not overtake them.
    let mut wire = Wire::new();
    wire.write(0, "A").forget();
    assert_eq!(wire.sent(), "A");
    wire.receive(BUSY).expect("it is a refusal");
    wire.push(0, &["SHUTDOWN"], "*1\r\n$8\r\nSHUTDOWN\r\n").forget();
    assert_eq!(wire.sent(), "");
}

#[test]
fn a_select_that_is_turned_away_is_sent_again_before_anything_else() {
    let mut wire = Wire::new();
    let handle = wire.write(3, "A");
    assert_eq!(wire.sent(), format!("{}A", select(3)));
    wire.receive(BUSY).expect("it is a refusal");
    wire.receive(BUSY).expect("it is a refusal");
    let behind = wire.write(3, "B");
    for _ in 0..2 {
        assert_eq!(wire.sent_after_pause(), select(3));
        wire.receive(BUSY).expect("it is a refusal");
    }
    assert_eq!(wire.sent_after_pause(), select(3));
    wire.receive("+OK\r\n").expect("it is selected");
    assert_eq!(wire.sent(), "A");
    wire.receive(":1\r\n").expect("it is an answer");
    assert_eq!(wire.sent(), "B");
    wire.receive(":1\r\n").expect("it is an answer");
    assert_eq!([handle, behind].map(effect), [Effect::Answered; 2]);
    // The refusal arrives before the writer of the request has given the bytes back.
    let mut wire = Wire { retries: false, ..Wire::new() };
    let handle = wire.write(3, "A");
    let (bytes, _) = wire.pipe.lend().expect("it may leave");
    wire.receive(BUSY).expect("it is a refusal");
    let length = bytes.len();
    wire.pipe.wrote(bytes, length);
    wire.receive(BUSY).expect("it is a refusal");
    assert_eq!(effect(handle), Effect::Refused);
    wire.write(3, "B").forget();
    assert_eq!(wire.sent(), format!("{}B", select(3)));
    // If nothing is sent again, the error is the caller's, and the next command finds its database.
    let mut wire = Wire { retries: false, ..Wire::new() };
    let handle = wire.write(3, "A");
    assert_eq!(wire.sent(), format!("{}A", select(3)));
    wire.receive(&BUSY.repeat(2)).expect("they are refusals");
    assert_eq!(effect(handle), Effect::Refused);
    let handle = wire.write(3, "B");
    assert_eq!(wire.sent(), format!("{}B", select(3)));
    wire.receive("+OK\r\n:1\r\n").expect("it is an answer");
    assert_eq!(effect(handle), Effect::Answered);
}

#[test]
fn a_command_executed_in_another_database_ends_the_connection() {
    let mut wire = Wire::new();
    let kill = wire.push(3, &["SCRIPT", "KILL"], "K");
    let (first, second) = (wire.write(3, "A"), wire.write(3, "B"));
    assert_eq!(wire.sent(), format!("{}KAB", select(3)));
    wire.receive(&format!("{BUSY}+OK\r\n{BUSY}")).expect("none was executed where it should not");
    assert_eq!(effect(kill), Effect::Answered);
    let error = wire.receive(":1\r\n").expect_err("its database was not selected");
    assert!(error.message().contains("SELECT was answered with -BUSY"), "{error}");
    wire.cut(Resend::Reads);
    assert_eq!(effect(second), Effect::Unknown);
    assert_eq!(wire.sent(), select(3));
    wire.receive("+OK\r\n").expect("it is selected");
    assert_eq!(wire.sent(), "A");
    wire.receive(":1\r\n").expect("it is an answer");
    assert_eq!(effect(first), Effect::Answered);
}

#[test]
fn a_refused_request_stays_ahead_of_later_ones_after_a_lost_connection() {
    // The connection breaks in the pause: requests that had left behind the refused one come after it, whole or not.
    let mut wire = Wire::new();
    let away = wire.write(0, "A");
    assert_eq!(wire.sent(), "A");
    let (read, half) = (wire.push(0, &["GET"], "B"), wire.write(2, "C"));
    let (bytes, _) = wire.pipe.lend().expect("they may leave");
    wire.pipe.wrote(bytes, 3);
    wire.receive(LOADING).expect("it is a refusal");
    wire.write(2, "D").forget();
    wire.cut(Resend::Reads);
    assert_eq!(wire.sent(), "A");
    wire.receive(":1\r\n").expect("it is an answer");
    assert_eq!(wire.sent(), format!("B{}CD", select(2)));
    wire.receive("$-1\r\n+OK\r\n:1\r\n:1\r\n").expect("they are answers");
    assert_eq!([away, read, half].map(effect), [Effect::Answered; 3]);
    // The probe is older than the other refused requests, whether it has left whole or not.
    for (name, written) in [("GET", 2), ("INCR", 1)] {
        let mut wire = Wire::new();
        let _waiting = ["AA", "B"].map(|bytes| wire.push(0, &[name], bytes));
        assert_eq!(wire.sent(), "AAB");
        wire.receive(&LOADING.repeat(2)).expect("they are refusals");
        wire.pipe.refusals.end_pause();
        let (bytes, _) = wire.pipe.lend().expect("it may leave");
        assert_eq!(bytes, b"AA");
        wire.pipe.wrote(bytes, written);
        wire.cut(Resend::Reads);
        assert_eq!(wire.sent(), "AA", "{name}");
        wire.receive(":1\r\n").expect("it is an answer");
        assert_eq!(wire.sent(), "B", "{name}");
    }
}

/// Returns a read as it travels.
fn read(key: &str) -> String {
    let bytes = Request::bytes_of(|request| _ = request.word("GET").word(key)).expect("a request");
    String::from_utf8(bytes).expect("a request")
}

/// Checks a fault of the past: each read caused a copy of all gathered bytes.
#[test]
fn a_later_refusal_moves_neither_gathered_nor_retried_bytes() {
    const COUNT: usize = if cfg!(miri) { 50 } else { 2000 };
    let mut wire = Wire::new();
    let request = read("key");
    let first: Vec<Handle> = (0..COUNT).map(|_| wire.push(0, &["GET"], &request)).collect();
    wire.sent();
    let behind: Vec<Handle> = (0..COUNT).map(|_| wire.push(3, &["GET"], &request)).collect();
    let (mut places, gathered) = (Vec::new(), wire.pipe.queue.out.bytes.as_ptr());
    for _ in 0..COUNT {
        wire.receive(LOADING).expect("it is a refusal");
        places.push(wire.pipe.queue.backlog[0].bytes.as_ptr());
        assert_eq!((wire.pipe.queue.backlog.len(), wire.pipe.queue.out.bytes.as_ptr()), (1, gathered));
    }
    // The bytes move only when their memory is full; it then doubles.
    places.dedup();
    assert!(places.len() <= COUNT.ilog2() as usize + 2, "{} times", places.len());
    assert_eq!(wire.sent_after_pause(), request);
    wire.receive("$-1\r\n").expect("it is an answer");
    assert_eq!(wire.sent(), request.repeat(COUNT - 1) + &select(3) + &request.repeat(COUNT));
    drop((first, behind));
    // Each index is checked once.
    let looks = std::cell::Cell::new(0);
    let mut taken: VecDeque<Entry> = wire.pipe.in_flight.drain(..COUNT).collect();
    wire.pipe.answered += taken.iter().map(|entry| entry.length as u64).sum::<u64>();
    let refusals = (0..COUNT).inspect(|_| looks.set(looks.get() + 1));
    wire.pipe.put_off(&mut taken, refusals, 0, None, true);
    assert_eq!(looks.get(), COUNT);
}

#[test]
fn a_refusal_that_passes_is_told_from_one_that_stays() {
    for (text, elsewhere, passes) in [
        ("-LOADING Redis is loading the dataset in memory\r\n", false, true),
        (BUSY, false, true),
        ("-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n", false, true),
        ("-READONLY You can't write against a read only replica.\r\n", true, true),
        ("-READONLY You can't write against a read only replica.\r\n", false, false),
        ("-BUSYKEY Target key name already exists.\r\n", true, false),
        ("-BUSYGROUP Consumer Group name already exists\r\n", true, false),
        ("-OOM command not allowed when used memory > 'maxmemory'.\r\n", true, false),
        ("-LOADING is what my script calls it\r\n", true, false),
        ("+LOADING Redis is loading the dataset in memory\r\n", true, false),
    ] {
        assert_eq!(passing(text.as_bytes(), elsewhere).is_some(), passes, "{text}");
    }
}
