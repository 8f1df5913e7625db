//! The end of a process in which a thread has panicked.
//!
//! A panic is an internal fault, and the data that the thread was changing may be half changed: the data cannot be relied on
//! any more. A server writes the panic to its log and ends at once, with a status that makes its supervisor start it again. A
//! program that embeds an engine is not ended: its engine is closed ([`crate::Engine::fail`]), and its users get an error.

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

/// Makes a panic of any thread end this process. The message goes to the server log and to the standard error, and the status
/// is that of an abort.
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

/// A panic ends the process by an exit (`use-exit-on-panic`), so that tools which look for memory leaks see it end.
static EXITS: AtomicBool = AtomicBool::new(false);

/// Sets whether a panic ends the process by an exit with status 1, or by an abort.
pub fn exit_on_panic(exits: bool) {
    EXITS.store(exits, Ordering::Relaxed);
}

/// The file with this process's number.
static PID_FILE: OnceLock<Claim> = OnceLock::new();

/// Makes a panic remove this PID file. If it is called again, the first file counts.
pub fn take_along(pid_file: Claim) {
    _ = PID_FILE.set(pid_file);
}

/// Returns a panic's message.
pub fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it did not say why")
}

/// Does DEBUG PANIC.
pub fn on_purpose() -> ! {
    panic!("DEBUG PANIC asked for it")
}
