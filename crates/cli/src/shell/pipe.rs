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
    let outcome = std::thread::scope(|scope| {
        let writer = scope.spawn(|| send(stream, &mark, &sent));
        let outcome = receive(stream, &mark, &sent, timeout, interrupt);
        // The writer may still wait for input that is not needed any more; the process ends without it.
        if outcome.is_err() || !writer.is_finished() {
            finish(&outcome, interrupt);
        }
        outcome
    });
    ExitCode::from(code(report(&outcome), interrupt))
}

/// Ends the process while the writer is blocked in a read of standard input.
fn finish(outcome: &io::Result<Counts>, interrupt: &Interrupt) -> ! {
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

/// Prints the closing line; returns true if there was no error.
fn report(outcome: &io::Result<Counts>) -> bool {
    match outcome {
        Ok(counts) => {
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

fn send(mut stream: &Stream, mark: &[u8], sent: &AtomicBool) -> io::Result<()> {
    let mut input = io::stdin().lock();
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
    // The line is printed before the echo is sent, so that the reader's lines come after it.
    output::line(format_args!("All data transferred. Waiting for the last reply..."));
    stream.write_all(&closing)?;
    sent.store(true, Ordering::Release);
    Ok(())
}

fn receive(
    mut stream: &Stream,
    mark: &[u8],
    sent: &AtomicBool,
    timeout: Option<Duration>,
    interrupt: &Interrupt,
) -> io::Result<Counts> {
    let last = [format!("${}\r\n", mark.len()).as_bytes(), mark, b"\r\n"].concat();
    let mut counts = Counts::default();
    let mut scanner = Scanner::new();
    let (mut buffer, mut chunk) = (Vec::new(), vec![0; CHUNK_LENGTH]);
    let mut heard = Instant::now();
    stream.set_read_timeout(Some(PATIENCE))?;
    loop {
        if interrupt.is_heard() {
            return Ok(counts);
        }
        match stream.read(&mut chunk) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "Server closed the connection")),
            Ok(length) => buffer.extend_from_slice(chunk.get(..length).unwrap_or_default()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                if !sent.load(Ordering::Acquire) {
                    heard = Instant::now();
                }
                if let Some(limit) = timeout.filter(|limit| heard.elapsed() > *limit) {
                    eprintln!("No replies for {} seconds: exiting.", limit.as_secs());
                    counts.errors += 1;
                    return Ok(counts);
                }
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        heard = Instant::now();
        if take(&mut buffer, &mut scanner, &last, &mut counts)? {
            output::line(format_args!("Last reply received from server."));
            return Ok(counts);
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
