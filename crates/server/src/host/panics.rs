//! What becomes of a process in which a thread has panicked.
//!
//! A panic is a fault of ours, and what the thread was changing may be half changed: nobody may rely on the data any more.
//! A server says so in its log and ends at once, with a status that has whoever supervises it start another. A program
//! that embeds an engine is not taken along: its engine is over ([`crate::Engine::fail`]), and whoever uses it is told.

use std::any::Any;
use std::backtrace::Backtrace;
use std::panic;
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use sleeve_disk::own::Claim;

use super::crash;
use super::log;

/// Has a panic of any thread end this process: what it said goes to the log and to the standard error, and the status is
/// that of an abort.
pub fn end_process_on_panic() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let thread = thread::current();
        log::warning(&format!(
            "Sleeve {} has failed: the thread '{}' {panic}\n{}\nThe data may be half changed, so the server ends. This is a \
             fault of Sleeve's: please report it with these lines and what the clients did.",
            env!("CARGO_PKG_VERSION"),
            thread.name().unwrap_or("without a name"),
            Backtrace::force_capture(),
        ));
        print(panic);
        if let Some(pid_file) = PID_FILE.get() {
            pid_file.release();
        }
        crash::has_been_told();
        if EXITS.load(Ordering::Relaxed) {
            process::exit(1);
        }
        process::abort();
    }));
}

/// Whether a panic ends the process by an exit (`use-exit-on-panic`), in which tools that look for lost memory see it end.
static EXITS: AtomicBool = AtomicBool::new(false);

/// Has a panic end the process with status 1 from now on, or by an abort.
pub fn exit_on_panic(exits: bool) {
    EXITS.store(exits, Ordering::Relaxed);
}

/// The file with this process's number.
static PID_FILE: OnceLock<Claim> = OnceLock::new();

/// Has a panic take this file away with the process. The first one that is named counts.
pub fn take_along(pid_file: Claim) {
    _ = PID_FILE.set(pid_file);
}

/// What a panic said.
pub fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it did not say why")
}

/// DEBUG PANIC.
pub fn on_purpose() -> ! {
    panic!("DEBUG PANIC asked for it")
}
