//! `sleeve cli --pipe`: mass insertion.
//!
//! One thread copies standard input to the socket as it is, then sends an ECHO of bytes that are in no other request. The
//! caller's thread counts replies and prints errors until that echo comes back.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sleeve_wire::frame::Scanner;

use crate::endpoint::{Stream, encode, without_number};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::output;
use crate::replies::cut;

/// The number of bytes copied at once.
const CHUNK_LENGTH: usize = 64 * 1024;
/// The interval at which the reader checks whether it has waited too long.
const PATIENCE: Duration = Duration::from_millis(100);

/// Transfers standard input; `timeout` bounds the wait for a reply after all data was sent, `None` waits for ever.
///
/// Ctrl-C ends the transfer with the counts so far.
pub fn run(stream: &Stream, timeout: Option<Duration>, interrupt: &Interrupt) -> ExitCode {
    let mark = mark();
    let sent = AtomicBool::new(false);
    // The line is printed before the echo is sent, so that the reader's lines come after it.
    let all_read = || output::line(format_args!("All data transferred. Waiting for the last reply..."));
    let outcome = std::thread::scope(|scope| {
        let writer = scope.spawn(|| send(&mut io::stdin().lock(), stream, &mark, &sent, &all_read));
        let outcome = receive(stream, &mark, &sent, timeout, &|| interrupt.is_heard());
        // The writer may still wait for input that is not needed any more; the process ends without it.
        if outcome.is_err() || !writer.is_finished() {
            finish(&outcome, interrupt);
        }
        outcome
    });
    ExitCode::from(code(report(&outcome), interrupt))
}

/// Transfers this input in the same way, prints nothing but errors of requests, and returns the number of replies.
///
/// # Errors
/// If the connection breaks, or the server has refused requests.
pub fn insert(stream: &Stream, input: &mut (impl Read + Send)) -> io::Result<u64> {
    let mark = mark();
    let sent = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| send(input, stream, &mark, &sent, &|| ()));
        let (counts, _) = receive(stream, &mark, &sent, None, &|| false)?;
        writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        match counts.errors {
            0 => Ok(counts.replies),
            errors => Err(io::Error::other(format!("Server refused {errors} requests"))),
        }
    })
}

/// Ends the process while the writer is blocked in a read of standard input.
fn finish(outcome: &io::Result<(Counts, End)>, interrupt: &Interrupt) -> ! {
    let clean = report(outcome);
    output::flush();
    std::process::exit(code(clean, interrupt).into());
}

fn code(clean: bool, interrupt: &Interrupt) -> u8 {
    if interrupt.is_heard() { INTERRUPTED } else { u8::from(!clean) }
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    errors: u64,
    replies: u64,
}

/// The reason why a transfer is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The echo behind the last request has come back.
    LastReply,
    /// The caller has asked for it.
    Interrupt,
    /// The time without a reply was this long.
    Timeout(Duration),
}

/// Prints the closing lines; returns true if there was no error.
fn report(outcome: &io::Result<(Counts, End)>) -> bool {
    match outcome {
        Ok((counts, end)) => {
            match end {
                End::LastReply => output::line(format_args!("Last reply received from server.")),
                End::Timeout(limit) => eprintln!("No replies for {} seconds: exiting.", limit.as_secs()),
                End::Interrupt => {}
            }
            output::line(format_args!("errors: {}, replies: {}", counts.errors, counts.replies));
            counts.errors == 0
        }
        Err(error) => {
            eprintln!("Error reading from the server: {}", without_number(error));
            false
        }
    }
}

/// Returns twenty hexadecimal digits that no reply holds by chance; the standard library seeds its hashers at random.
fn mark() -> Vec<u8> {
    let digits = |_| format!("{:016x}", RandomState::new().build_hasher().finish());
    (0..2).map(digits).collect::<String>().into_bytes().into_iter().take(20).collect()
}

/// Sends the input and the echo; `all_read` is called between the two.
fn send(
    input: &mut impl Read,
    mut stream: &Stream,
    mark: &[u8],
    sent: &AtomicBool,
    all_read: &dyn Fn(),
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_LENGTH];
    loop {
        match input.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => stream.write_all(chunk.get(..length).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    // A line end comes first, because the input's last inline command may have none.
    let mut closing = b"\r\n".to_vec();
    encode(&[b"ECHO", mark], &mut closing);
    all_read();
    stream.write_all(&closing)?;
    sent.store(true, Ordering::Release);
    Ok(())
}

fn receive(
    mut stream: &Stream,
    mark: &[u8],
    sent: &AtomicBool,
    timeout: Option<Duration>,
    is_interrupted: &dyn Fn() -> bool,
) -> io::Result<(Counts, End)> {
    let last = [format!("${}\r\n", mark.len()).as_bytes(), mark, b"\r\n"].concat();
    let mut counts = Counts::default();
    let mut scanner = Scanner::new();
    let (mut buffer, mut chunk) = (Vec::new(), vec![0; CHUNK_LENGTH]);
    let mut heard = Instant::now();
    stream.set_read_timeout(Some(PATIENCE))?;
    loop {
        if is_interrupted() {
            return Ok((counts, End::Interrupt));
        }
        match stream.read(&mut chunk) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "Server closed the connection")),
            Ok(length) => buffer.extend_from_slice(chunk.get(..length).unwrap_or_default()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                if !sent.load(Ordering::Acquire) {
                    heard = Instant::now();
                }
                if let Some(limit) = timeout.filter(|limit| heard.elapsed() > *limit) {
                    counts.errors += 1;
                    return Ok((counts, End::Timeout(limit)));
                }
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        heard = Instant::now();
        if take(&mut buffer, &mut scanner, &last, &mut counts)? {
            return Ok((counts, End::LastReply));
        }
    }
}

/// Counts the whole replies of the buffer and removes them; returns true if the echo was among them.
fn take(buffer: &mut Vec<u8>, scanner: &mut Scanner, last: &[u8], counts: &mut Counts) -> io::Result<bool> {
    let mut taken = 0;
    let mut done = false;
    loop {
        let rest = buffer.get(taken..).unwrap_or_default();
        let Some(reply) = cut(scanner, rest)?.and_then(|length| rest.get(..length)) else { break };
        taken += reply.len();
        if reply == last {
            done = true;
            break;
        }
        counts.replies += 1;
        if let Some(text) = reply.strip_prefix(b"-") {
            counts.errors += 1;
            eprintln!("{}", String::from_utf8_lossy(text).trim_end_matches(['\r', '\n']));
        }
    }
    buffer.drain(..taken);
    Ok(done)
}
