//! Callers on nodes of a test's own network: a caller on the other side of a cut is a process there.
//!
//! The test program runs itself once more, as the one test that is named, with a job in its environment ([`job`]). It writes
//! keys one after the other and prints on standard output those that were acknowledged.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};
use std::thread;
use std::time::Duration;

use sleeve_tests::network::Network;

/// The environment variable with the job of such a process.
const JOB: &str = "SLEEVE_CALLER_BESIDE";

/// The prefix of keys that callers beside a server report, behind the text that the job names.
const PREFIX: &str = "beside:";

/// Returns the job of this process, if it is such a caller.
pub fn job() -> Option<String> {
    std::env::var(JOB).ok()
}

/// Runs such a caller: it writes for ever by `put`, which returns whether a key was acknowledged. The keys begin with `tag`.
pub fn run(tag: &str, put: impl FnMut(&str) -> bool) {
    write(&format!("{tag}{PREFIX}{}", std::process::id()), put, |key| {
        println!("{}", key.as_deref().unwrap_or("-"));
        true
    });
}

/// Writes for as long as there is a listener, and reports each acknowledged key to it.
pub fn write(name: &str, mut put: impl FnMut(&str) -> bool, mut tell: impl FnMut(Option<String>) -> bool) {
    let mut number = 0_u64;
    loop {
        number += 1;
        let key = format!("{name}:{number}");
        let told = put(&key);
        if !told {
            // Without a connection the write fails at once.
            thread::sleep(Duration::from_millis(1));
        }
        if !tell(told.then_some(key)) {
            return;
        }
    }
}

/// A caller on a node, in a process of its own, that writes until it is dropped.
pub struct Beside {
    child: Child,
    lines: BufReader<ChildStdout>,
    known: Vec<String>,
}

impl Beside {
    /// Starts one that runs the test with this name.
    ///
    /// # Panics
    /// When the program does not run.
    pub fn start(network: &Network, node: usize, test: &str, job: &str) -> Self {
        let itself = std::env::current_exe().expect("the running test has a name");
        let mut command = network.place(node).command(&itself);
        command.args([test, "--exact", "--nocapture"]).env(JOB, job);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it runs");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, lines, known: Vec::new() }
    }

    /// Ends the process, and returns all keys that it reported.
    ///
    /// # Panics
    /// When its output is no text.
    pub fn end(mut self) -> Vec<String> {
        self.kill();
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).expect("text");
        let mut known = std::mem::take(&mut self.known);
        // The last line may be cut.
        let whole = rest.rsplit_once('\n').map_or("", |(whole, _)| whole);
        known.extend(whole.lines().filter(|line| line.contains(PREFIX)).map(str::to_owned));
        known
    }

    fn kill(&mut self) {
        // Both calls fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Reads reports of the next writes until this holds of a reported key, or of a write without one.
    ///
    /// # Panics
    /// When the process has ended.
    pub fn until(&mut self, mut holds: impl FnMut(Option<&str>) -> bool) {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).expect("it speaks"), 0, "it has ended");
            let key = line.contains(PREFIX).then(|| line.trim_end().to_owned());
            self.known.extend(key.clone());
            if (key.is_some() || line == "-\n") && holds(key.as_deref()) {
                return;
            }
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.kill();
    }
}
