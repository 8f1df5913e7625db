//! The report of a fatal signal in the server log: the signal, the thread, and the stack trace.
//!
//! When this runs, the process is broken, and locks may be held for ever. So the report takes no lock and allocates no
//! memory: it is made on the handler's stack and written directly to the server log's descriptor. Functions are given as
//! offsets into the program's file, because finding their names would need locks and memory; `addr2line` finds them. Then the
//! signal has its former effect: that of the previous handler (Rust's, which detects a stack overflow) or the system's.
//!
//! The handler is installed once, by the thread that starts a server; embedded engines leave the signals of their program
//! alone. Threads that serve have a separate stack for the handler, because their own may have overflowed.

use std::fmt::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use libc::{c_int, c_void};

use super::log;

const SIGNALS: [(c_int, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGABRT, "SIGABRT"),
];

/// The previous action of each of the signals.
static BEFORE: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();

/// Reports are enabled (`crash-log-enabled`).
static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// The stage of the report: not begun, being written by a thread, written.
static STAGE: AtomicU8 = AtomicU8::new(NOT_BEGUN);
const NOT_BEGUN: u8 = 0;
const BEGUN: u8 = 1;
const WRITTEN: u8 = 2;

/// The most stack frames that a trace shows.
const FRAMES_MAX: usize = 100;

/// The size of the handler's stack: a signal's frame of a few kilobytes, the trace, and the needs of the unwinder.
const STACK_BYTES: usize = 64 * 1024;

/// Switches the reports of fatal signals on or off.
pub fn set_wanted(is_wanted: bool) {
    IS_WANTED.store(is_wanted, Ordering::Relaxed);
    if is_wanted {
        BEFORE.get_or_init(install);
    }
}

/// Notes that the fault has been logged already, so that the signal that ends the process because of it is not reported
/// again.
pub fn has_been_told() {
    STAGE.store(WRITTEN, Ordering::Relaxed);
}

fn install() -> [libc::sigaction; SIGNALS.len()] {
    // The first trace loads the unwinder, which the handler must not do.
    let mut frame = [ptr::null_mut(); 1];
    // SAFETY: the function writes at most one pointer to `frame`.
    unsafe { libc::backtrace(frame.as_mut_ptr(), 1) };
    SIGNALS.map(|(signal, _)| {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: both actions are valid, zero being a value for each of their parts; the handler is of the form that
        // SA_SIGINFO asks for, and does only things that a handler may do.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = report as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            // All signals are blocked during the handler. A fault in the handler itself then ends the process at once.
            libc::sigfillset(&raw mut action.sa_mask);
            libc::sigaction(signal, &raw const action, before.as_mut_ptr());
            before.assume_init()
        }
    })
}

/// A separate stack for the handler. The thread that made it uses it until this is dropped; it cannot move to another thread.
#[derive(Debug)]
pub struct HandlerStack {
    /// The thread's previous stack for handlers: Rust gives its threads a small one.
    before: libc::stack_t,
    /// The memory of the stack, freed when the thread no longer uses it.
    _memory: Box<[u8]>,
}

impl HandlerStack {
    /// Gives the calling thread a stack for the handler.
    pub fn give() -> Self {
        let mut memory = vec![0_u8; STACK_BYTES].into_boxed_slice();
        let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK_BYTES };
        let mut before = MaybeUninit::<libc::stack_t>::zeroed();
        // SAFETY: only the thread uses the memory until it has its former stack again; the former description is written if
        // it can be, and zero is a description too.
        let before = unsafe {
            libc::sigaltstack(&raw const stack, before.as_mut_ptr());
            before.assume_init()
        };
        Self { before, _memory: memory }
    }
}

impl Drop for HandlerStack {
    fn drop(&mut self) {
        // SAFETY: the thread's former stack still exists, because Rust frees it only after this, when the thread ends. The
        // pointer in this type keeps it from being sent to another thread.
        unsafe { libc::sigaltstack(&raw const self.before, ptr::null_mut()) };
    }
}

/// The handler of fatal signals: writes the report.
extern "C" fn report(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the system hands over a valid description.
    let info = unsafe { &*info };
    let stage = STAGE.compare_exchange(NOT_BEGUN, BEGUN, Ordering::Relaxed, Ordering::Relaxed);
    match stage {
        Ok(_) => {
            if IS_WANTED.load(Ordering::Relaxed) {
                write_report(signal, info);
            }
            STAGE.store(WRITTEN, Ordering::Relaxed);
        }
        // Another thread is writing its report, and will end the process with all threads.
        Err(BEGUN) => loop {
            // SAFETY: it only waits.
            unsafe { libc::pause() };
        },
        Err(_) => {}
    }
    let is_fault = info.si_code > 0 && matches!(signal, libc::SIGSEGV | libc::SIGBUS);
    let before = BEFORE.get().filter(|_| is_fault && stage.is_ok());
    let index = SIGNALS.iter().position(|(own, _)| *own == signal).unwrap_or(0);
    // SAFETY: the action is one that was in force before, or zero, which is the system's own. After the return a faulting
    // instruction faults again; a signal that was sent is sent again, and arrives then.
    unsafe {
        let default = MaybeUninit::zeroed().assume_init();
        libc::sigaction(signal, before.map_or(&raw const default, |before| &raw const before[index]), ptr::null_mut());
        if before.is_none() {
            libc::raise(signal);
        }
    }
}

fn write_report(signal: c_int, info: &libc::siginfo_t) {
    let Some(descriptor) = log::descriptor() else { return };
    let mut line = Line { descriptor, bytes: [0; 512], len: 0 };
    // If the line cannot be written, there is no other place to report it.
    _ = line.head(signal, info);
    let mut frames = [ptr::null_mut(); FRAMES_MAX];
    // SAFETY: the functions read and write within `frames`, and the second writes to the descriptor only.
    unsafe {
        let count = libc::backtrace(frames.as_mut_ptr(), FRAMES_MAX as c_int);
        libc::backtrace_symbols_fd(frames.as_ptr(), count, descriptor);
    }
    _ = line.write_str("=== The report of the crash ends here ===\n");
    line.flush();
}

/// Text on its way to the server log, a few hundred bytes at a time.
struct Line {
    descriptor: RawFd,
    bytes: [u8; 512],
    len: usize,
}

impl Line {
    fn head(&mut self, signal: c_int, info: &libc::siginfo_t) -> fmt::Result {
        let name = SIGNALS.iter().find(|(own, _)| *own == signal).map_or("", |(_, name)| name);
        let mut thread = [0_u8; 16];
        // SAFETY: the system writes at most 16 bytes, the last of which is zero.
        let process = unsafe {
            libc::prctl(libc::PR_GET_NAME, thread.as_mut_ptr());
            libc::getpid()
        };
        let thread = thread.split(|byte| *byte == 0).next().and_then(|name| str::from_utf8(name).ok()).unwrap_or("?");
        let version = env!("CARGO_PKG_VERSION");
        writeln!(self, "\n{process}:M {} # === The report of a crash begins here ===", log::Stamp::in_crash())?;
        writeln!(self, "Sleeve {version} crashed by signal: {signal} ({name}), si_code: {}", info.si_code)?;
        // SAFETY: the description of a signal that a process has sent holds the sender, that of a fault the address. Both are
        // read as plain numbers, and each is used only if it applies.
        let (sender, address) = unsafe { (info.si_pid(), info.si_addr()) };
        match info.si_code {
            ..=0 => writeln!(self, "Sent by process {sender}, to the thread '{thread}'")?,
            _ => writeln!(self, "At address {address:p}, in the thread '{thread}'")?,
        }
        writeln!(
            self,
            "Stack trace; addr2line -Cfie PROGRAM OFFSET names the functions, the offset is behind the '+':"
        )?;
        self.flush();
        Ok(())
    }

    fn flush(&mut self) {
        let mut left = &self.bytes[..self.len];
        while !left.is_empty() {
            // SAFETY: the bytes are those of a slice.
            let count = unsafe { libc::write(self.descriptor, left.as_ptr().cast(), left.len()) };
            let Ok(count @ 1..) = usize::try_from(count) else { break };
            left = left.get(count..).unwrap_or_default();
        }
        self.len = 0;
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if self.len == self.bytes.len() {
                self.flush();
            }
            self.bytes[self.len] = byte;
            self.len += 1;
        }
        Ok(())
    }
}

/// Does DEBUG SEGFAULT: writes to memory that may not be written.
pub fn on_purpose() {
    // SAFETY: this is a mapping of its own, to which nothing else has a pointer. That it may not be written is intended: the
    // system ends the process for it.
    unsafe {
        let page = libc::mmap(ptr::null_mut(), 1, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        page.cast::<u8>().write_volatile(0);
    }
}
