//! `sleeve bench sweep` from outside: servers that run and servers that it starts, and their remains.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use sleeve_tests::{Kind, Server};

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sleeve"));
    command.args(["bench", "sweep"]).args(words);
    command
}

fn sleeve(words: &[&str]) -> Output {
    command(words).output().expect("it can be started")
}

/// Returns the temporary folders of a sweep's servers.
fn folders_of(is_of: impl Fn(u32) -> bool) -> Vec<String> {
    let all = fs::read_dir(std::env::temp_dir()).expect("a folder");
    let names = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let process = |name: &str| name.strip_prefix("sleeve-sweep-")?.split('-').next()?.parse().ok();
    names.filter(|name| process(name).is_some_and(&is_of)).collect()
}

/// A folder that ends with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sleeve-test-sweep-{}-{name}", std::process::id()));
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a name of letters")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).expect("it was written")
}

const SHORT: [&str; 6] = ["--rounds", "2", "--time", "20ms", "--clients", "1,8"];

#[test]
fn each_server_is_measured_at_each_point_and_shown() {
    let (folder, running) = (Folder::new("points"), Server::start(Kind::Redis));
    let here = format!("here=redis://{}", running.address());
    let started = format!("started='{}' serve", env!("CARGO_BIN_EXE_sleeve"));
    let words =
        ["--tests", "ping_inline,set", "--depths", "4", "--memory-keys", "2000", "--cpu", "0", "-o", folder.path()];
    let output = sleeve(&[&SHORT[..], &words, &["--server", &here, "--server", &started]].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let rows = read(&folder.0, "sweep.csv");
    let rows: Vec<Vec<&str>> = rows.lines().map(|line| line.split(',').collect()).collect();
    let (head, rows) = rows.split_first().expect("a heading");
    assert_eq!(rows.len(), 2 * 2 * 3, "two servers, two tests, two numbers of clients and a depth");
    for name in ["rps", "p50_ms", "server_cpu_us", "switches"] {
        let column = head.iter().position(|heading| *heading == name).expect("it is there");
        for row in rows {
            assert!(row[column].parse::<f64>().is_ok_and(|figure| figure >= 0.0), "{name} in {row:?}");
        }
    }
    let json = read(&folder.0, "sweep.json");
    assert_eq!(json.matches("\"server\":\"here\"").count(), 6);
    assert_eq!(json.matches("\"rps\":").count(), 2 * rows.len(), "each round has its figures");
    let page = read(&folder.0, "sweep.html");
    for part in ["id=\"PING_INLINE\"", "id=\"SET\"", "<td>started<td>", "id=\"calls\""] {
        assert!(page.contains(part), "{part}");
    }
    for part in [" GMT with sleeve ", "bench sweep --rounds 2", "Linux ", "<td>redis 7", "<td>sleeve 0"] {
        assert!(page.contains(part), "{part}");
    }
    let processors = std::thread::available_parallelism().expect("a number");
    assert!(page.contains(&format!("<p>{processors} CPU")), "whatever the generator is confined to");
    assert!(read(&folder.0, "sweep.svg").starts_with("<svg"));
    let again = Folder::new("again");
    let record = folder.0.join("sweep.json");
    let output = sleeve(&["--redraw", record.to_str().expect("letters"), "-o", again.path()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in ["sweep.html", "sweep.svg"] {
        assert!(read(&again.0, name) == read(&folder.0, name), "{name} is drawn as it was");
    }
    // A server that runs already keeps its data, and a server that was started has gone with its folder.
    assert_eq!(running.connect().command(&["DBSIZE"]).expect("it goes on"), b":64\r\n");
    let left = folders_of(|process| !Path::new("/proc").join(process.to_string()).exists());
    assert!(left.is_empty(), "{left:?} are left of sweeps that have ended");
}

#[test]
fn a_sweep_ended_by_a_signal_keeps_its_results_and_leaves_no_server() {
    for signal in [Signal::INT, Signal::TERM] {
        let folder = Folder::new("ended");
        let started = format!("started='{}' serve --save '' --port {{port}}", env!("CARGO_BIN_EXE_sleeve"));
        let words = ["--tests", "ping_inline", "--memory-keys", "0", "-o", folder.path(), "--server", &started];
        let mut child = command(&words).process_group(0).stdout(Stdio::piped()).spawn().expect("it can be started");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let first = lines.next().expect("a point").expect("it is text");
        assert!(first.starts_with("PING_INLINE, 1 clients"), "{first}");
        assert_eq!(folders_of(|process| process == child.id()).len(), 1);
        // As a terminal does: it sends the signal to the whole process group.
        kill_process_group(Pid::from_child(&child), signal).expect("it runs");
        let rest: Vec<String> = lines.map(|line| line.expect("it is text")).collect();
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest:?}");
        assert!(read(&folder.0, "sweep.csv").lines().nth(1).is_some_and(|row| row.starts_with("\"started\"")));
        assert!(read(&folder.0, "sweep.html").contains("ended before its last point"));
        assert_eq!(folders_of(|process| process == child.id()), [""; 0], "they end with their servers");
    }
}

#[test]
fn a_server_that_cannot_be_measured_is_named() {
    let folder = Folder::new("wrong");
    let refusals = [
        (&["--server", "nothing"][..], "give name=URL or name=COMMAND"),
        (&["--server", "gone=redis://127.0.0.1:1"], "127.0.0.1:1"),
        (&["--server", "no=false {port}"], "has ended with"),
        (&["--tests", "nope"], "Unknown test 'nope'"),
        (&["--time", "5"], "a time needs a unit"),
        (&["--clients", "0"], "0 is not in"),
        (&["--redraw", "/dev/null"], "/dev/null"),
    ];
    for (words, expected) in refusals {
        let output = sleeve(&[words, &["-o", folder.path()]].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && errors.contains(expected), "{words:?}: {errors}");
    }
}
