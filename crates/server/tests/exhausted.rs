//! A test of a process without free descriptors: connections that cannot be accepted wait, and no thread spins meanwhile.
//!
//! The test has its own program, because it uses all descriptors of its process.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sleeve_server::boot;
use sleeve_server::{Config, Engine, Opt};

/// The kernel's statistics of this process's worker threads. Their files are opened before the descriptors run out.
struct Workers {
    schedstat: Vec<File>,
    status: Vec<File>,
}

impl Workers {
    /// Waits until this many workers run; each sets its name when it starts.
    fn find(count: usize) -> Self {
        let is_worker =
            |task: &PathBuf| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("worker"));
        let workers = loop {
            let tasks = fs::read_dir("/proc/self/task").expect("the threads of this process");
            let workers: Vec<PathBuf> = tasks.map(|task| task.expect("one").path()).filter(is_worker).collect();
            if workers.len() == count {
                break workers;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let open = |name: &str| workers.iter().map(|task| File::open(task.join(name)).expect("a file of it")).collect();
        Self { schedstat: open("schedstat"), status: open("status") }
    }

    /// Returns the processor time of the workers.
    fn cpu(&mut self) -> Duration {
        Duration::from_nanos(sum(&mut self.schedstat, |text| text.split(' ').next()))
    }

    /// Returns the number of times that the workers have gone to sleep.
    fn sleeps(&mut self) -> u64 {
        sum(&mut self.status, |text| text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")))
    }
}

/// Returns the sum of the numbers that `figure` finds in each file's present text.
fn sum(files: &mut [File], figure: fn(&str) -> Option<&str>) -> u64 {
    let number = |file: &mut File| -> u64 {
        let mut text = String::new();
        file.rewind().and_then(|()| file.read_to_string(&mut text)).expect("the thread still runs");
        figure(&text).expect("the kernel's form").trim().parse().expect("a number")
    };
    files.iter_mut().map(number).sum()
}

#[test]
fn what_cannot_be_accepted_waits_without_a_spin() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(100), ..limit }).expect("fewer are always allowed");
    let config = Config::default();
    config.assign(Opt::Workers, &[b"2"]).expect("two workers");
    let engine = Engine::new(config);
    let server = boot::listen(&engine, "127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let mut workers = Workers::find(2);
    let mut files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    files.pop();
    let mut stream = TcpStream::connect(server.addresses()[0]).expect("the kernel accepts by itself");
    let (begun, spent_before, sleeps_before) = (Instant::now(), workers.cpu(), workers.sleeps());
    // A spinning worker never sleeps. A waiting worker sleeps several times a second, between its other work.
    while workers.sleeps() < sleeps_before + 6 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the workers do not sleep");
        std::thread::sleep(Duration::from_millis(1));
    }
    let spent = workers.cpu() - spent_before;
    assert!(spent < begun.elapsed() / 10, "{spent:?} of {:?} were spent on nothing", begun.elapsed());
    drop(files.drain(..2));
    stream.write_all(b"PING\r\n").expect("connected");
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).expect("it is accepted when there is a descriptor again");
    assert_eq!(&reply, b"+PONG\r\n");
}
