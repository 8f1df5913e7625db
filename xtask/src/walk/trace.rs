//! Reads the trace of valgrind's tool `lackey`, and cuts it into calls: one window for each.
//!
//! A line `I  0401ab70,3` is one instruction, by its address and its bytes; ` L`, ` S` and ` M` are loads and stores, which
//! are skipped. With `--trace-syscalls=yes` system calls stand between them: `SYSCALL[27,1](110) sys_getppid ( )[sync] -->
//! Success(0x1a)`, or, if other threads may run during the call, a line that ends with `--> [async] ...` and later
//! `SYSCALL[27,1](0) ... [async] --> Success(0x5)`. Valgrind runs one thread at a time, so the lines are in the order of
//! execution. The trace is read as a stream, and only the last windows are kept.

use std::collections::{HashMap, VecDeque};
use std::io::BufRead;

/// The instructions and system calls of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The address of each instruction, in order.
    pub instructions: Vec<u64>,
    /// The name of each call of the kernel, in order.
    pub kernel_calls: Vec<String>,
}

/// The border between one call and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut<'a> {
    /// A system call of this name, which is part of neither call.
    At(&'a str),
    /// The moment at which a server that sleeps between requests has woken up to receive one.
    AtRequests,
}

/// Reads a trace and returns its last complete windows, at most `count`, by their number of instructions.
///
/// # Errors
/// An error of reading.
pub fn windows(trace: impl BufRead, cut: Cut<'_>, count: usize) -> Result<Vec<Window>, String> {
    let (current, windows, under_way) = Default::default();
    let mut cutter = Cutter { cut, count, begun: false, current, windows, under_way, woken: None };
    for line in trace.split(b'\n') {
        let line = line.map_err(|error| format!("cannot read the trace: {error}"))?;
        cutter.line(&String::from_utf8_lossy(&line));
    }
    let mut windows = Vec::from(cutter.windows);
    windows.sort_by_key(|window| window.instructions.len());
    Ok(windows)
}

/// A stream that is being cut.
#[derive(Debug)]
struct Cutter<'a> {
    cut: Cut<'a>,
    count: usize,
    /// True if `current` began at a cut; instructions before the first cut belong to no call.
    begun: bool,
    current: Window,
    windows: VecDeque<Window>,
    /// The system call that each thread is in.
    under_way: HashMap<String, String>,
    /// The thread that woke up last and has received nothing since, and how much of `current` was before.
    woken: Option<(String, (usize, usize))>,
}

impl Cutter<'_> {
    fn line(&mut self, line: &str) {
        if let Some(instruction) = line.strip_prefix("I  ") {
            let address = instruction.split(',').next().unwrap_or_default();
            if let Ok(address) = u64::from_str_radix(address, 16) {
                self.current.instructions.push(address);
            }
        } else if let Some(call) = line.strip_prefix("SYSCALL[") {
            self.kernel_call(call);
        }
    }

    /// Reads the line of a system call that begins, ends, or both.
    fn kernel_call(&mut self, line: &str) {
        let Some((thread, rest)) = line.split_once(']') else { return };
        let Some((_, rest)) = rest.split_once(") ").or_else(|| rest.split_once(')')) else { return };
        if !rest.starts_with("...") {
            let name = rest.split([' ', '(']).next().unwrap_or_default();
            let name = name.strip_prefix("sys_").unwrap_or(name);
            self.under_way.insert(thread.to_owned(), name.to_owned());
            self.begin(name);
        }
        let result = rest.rsplit("--> ").next().filter(|result| !result.starts_with("[async]"));
        if let (Some(result), Some(name)) = (result, self.under_way.get(thread).cloned()) {
            let is_more_than_zero = result.starts_with("Success(0x") && !result.starts_with("Success(0x0)");
            self.end(thread, &name, is_more_than_zero);
        }
    }

    fn begin(&mut self, name: &str) {
        if self.cut == Cut::At(name) {
            self.cut_at((self.current.instructions.len(), self.current.kernel_calls.len()));
        } else {
            self.current.kernel_calls.push(name.to_owned());
        }
    }

    fn end(&mut self, thread: &str, name: &str, is_more_than_zero: bool) {
        if self.cut != Cut::AtRequests {
            return;
        }
        if name.starts_with("epoll_") && name.contains("wait") {
            let place = (self.current.instructions.len(), self.current.kernel_calls.len());
            self.woken = Some((thread.to_owned(), place));
        } else if name.starts_with("recv")
            && is_more_than_zero
            && let Some((_, place)) = self.woken.take_if(|(woken, _)| woken == thread)
        {
            self.cut_at(place);
        }
    }

    /// Ends the current window at so many instructions and system calls; the remaining ones begin the next.
    fn cut_at(&mut self, (instructions, kernel_calls): (usize, usize)) {
        let next = Window {
            instructions: self.current.instructions.split_off(instructions),
            kernel_calls: self.current.kernel_calls.split_off(kernel_calls),
        };
        let window = std::mem::replace(&mut self.current, next);
        if std::mem::replace(&mut self.begun, true) {
            self.windows.push_back(window);
        }
        if self.windows.len() > self.count {
            self.windows.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cut, Window, windows};

    fn window(instructions: &[u64], kernel_calls: &[&str]) -> Window {
        let kernel_calls = kernel_calls.iter().map(|&name| name.to_owned()).collect();
        Window { instructions: instructions.to_vec(), kernel_calls }
    }

    const CALLER: &str = "\
==27== Lackey, an example Valgrind tool
I  00000001,3
SYSCALL[27,1](110) sys_getppid ( )[sync] --> Success(0x1a)
I  00000010,3
 S 1fff000748,8
SYSCALL[27,1](44) sys_sendto ( 7, 0x19c7d3, 1, 64, 0x0, 0 ) --> [async] ...
I  00000020,1
SYSCALL[27,2](131) sigaltstack ( 0x1fff0003a8, 0x0 ) --> [pre-success] Success(0x0)
SYSCALL[27,1](44) ... [async] --> Success(0x1)
 L 1fff000748,8
I  1ffeffe970,2
SYSCALL[27,1](110) sys_getppid ( )[sync] --> Success(0x1a)
I  00000030,3
SYSCALL[27,1](110) sys_getppid ()[sync] --> Success(0x1a)
I  00000040,3
";

    #[test]
    fn the_instructions_between_two_marks_are_one_call() {
        let found = windows(CALLER.as_bytes(), Cut::At("getppid"), 9).expect("it is read");
        let long = window(&[0x10, 0x20, 0x1f_feff_e970], &["sendto", "sigaltstack"]);
        assert_eq!(found, [window(&[0x30], &[]), long]);
        let last = windows(CALLER.as_bytes(), Cut::At("getppid"), 1).expect("it is read");
        assert_eq!(last, [window(&[0x30], &[])], "the last ones are kept");
        assert_eq!(windows(CALLER.as_bytes(), Cut::At("getpid"), 9).expect("it is read"), [], "no such mark");
    }

    const SERVER: &str = "\
SYSCALL[9,3](281) sys_epoll_pwait ( 8, 0x20000400000, 1024, 100, 0x0, 0 ) --> [async] ...
SYSCALL[9,3](281) ... [async] --> Success(0x1)
I  00000001,3
SYSCALL[9,3](45) sys_recvfrom ( 13, 0x20000500000, 65536, 0, 0x0, 0x0 ) --> [async] ...
SYSCALL[9,2](45) sys_recvfrom ( 6, 0x4f78748, 1024, 64, 0x0, 0x0 ) --> [async] ...
SYSCALL[9,2](45) ... [async] --> Success(0x1)
SYSCALL[9,3](45) ... [async] --> Success(0x14)
I  00000002,3
SYSCALL[9,3](281) sys_epoll_pwait ( 8, 0x20000400000, 1024, 85, 0x0, 0 ) --> [async] ...
SYSCALL[9,3](281) ... [async] --> Success(0x0)
I  00000003,3
SYSCALL[9,3](281) sys_epoll_pwait ( 8, 0x20000400000, 1024, 85, 0x0, 0 ) --> [async] ...
SYSCALL[9,3](281) ... [async] --> Success(0x1)
SYSCALL[9,3](45) sys_recvfrom ( 13, 0x20000500000, 65536, 0, 0x0, 0x0 ) --> [async] ...
SYSCALL[9,3](45) ... [async] --> Success(0x0)
SYSCALL[9,3](281) sys_epoll_pwait ( 8, 0x20000400000, 1024, 85, 0x0, 0 ) --> [async] ...
SYSCALL[9,3](281) ... [async] --> Success(0x1)
I  00000004,3
SYSCALL[9,3](45) sys_recvfrom ( 13, 0x20000500000, 65536, 0, 0x0, 0x0 ) --> [async] ...
SYSCALL[9,3](45) ... [async] --> Success(0x14)
I  00000005,3
";

    #[test]
    fn a_server_begins_a_call_where_it_wakes_up_and_receives() {
        let found = windows(SERVER.as_bytes(), Cut::AtRequests, 9).expect("it is read");
        let calls = ["recvfrom", "recvfrom", "epoll_pwait", "epoll_pwait", "recvfrom", "epoll_pwait"];
        assert_eq!(found, [window(&[1, 2, 3], &calls)], "a timer and a lost connection begin none");
    }
}
