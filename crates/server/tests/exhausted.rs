//! A process that has no descriptor left: what cannot be accepted waits, and nobody burns a processor meanwhile.
//!
//! Alone in its file, because it takes all descriptors of its process.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sleeve_server::{Config, Engine, Opt};

/// The processor time of all worker threads of this process.
fn workers_cpu() -> Duration {
    let tasks =
        fs::read_dir("/proc/self/task").expect("the threads of this process").map(|task| task.expect("one").path());
    let workers =
        tasks.filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("worker")));
    let nanoseconds = |task: std::path::PathBuf| -> u64 {
        let text = fs::read_to_string(task.join("schedstat")).expect("its times");
        text.split(' ').next().expect("the first is the time it ran").parse().expect("a number")
    };
    Duration::from_nanos(workers.map(nanoseconds).sum())
}

#[test]
fn what_cannot_be_accepted_waits_without_a_spin() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(100), ..limit }).expect("fewer are always allowed");
    let config = Config::default();
    config.assign(Opt::Workers, &[b"2"]).expect("two workers");
    let engine = Engine::new(config);
    let server = engine.listen("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let mut files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    files.truncate(files.len() - 2);
    let one_to_look_with = File::open("/dev/null").expect("one of two is left");
    let mut stream = TcpStream::connect(server.addresses()[0]).expect("the kernel accepts by itself");
    let begun = Instant::now();
    // There is nothing to wait for: that nothing happens is what is to be seen.
    std::thread::sleep(Duration::from_millis(250));
    drop(one_to_look_with);
    drop(files.drain(..2));
    let spent = workers_cpu();
    assert!(spent < begun.elapsed() / 10, "{spent:?} of {:?} were spent on nothing", begun.elapsed());
    stream.write_all(b"PING\r\n").expect("connected");
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).expect("it is accepted when there is a descriptor again");
    assert_eq!(&reply, b"+PONG\r\n");
}
