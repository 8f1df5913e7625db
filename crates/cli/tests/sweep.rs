//! `sleeve bench sweep` from outside: servers that run and servers that it starts, and what is left of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sleeve_tests::{Kind, Server};

fn sleeve(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sleeve")).args(["bench", "sweep"]).args(words).output().expect("it can be started")
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
    let words = ["--tests", "ping_inline,set", "--depths", "4", "--memory-keys", "2000", "-o", folder.path()];
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
    assert!(read(&folder.0, "sweep.svg").starts_with("<svg"));
    // What runs already keeps its data, and what was started has gone with its folder.
    assert_eq!(running.connect().command(&["DBSIZE"]).expect("it goes on"), b":64\r\n");
    let left = fs::read_dir(std::env::temp_dir())
        .expect("a folder")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pattern = "sleeve-sweep-";
    for name in left.filter(|name| name.starts_with(pattern)) {
        let process = name.trim_start_matches(pattern).split('-').next().unwrap_or_default().to_owned();
        assert!(Path::new("/proc").join(&process).exists(), "{name} is left of a sweep that has ended");
    }
}

#[test]
fn what_cannot_be_measured_is_named() {
    let folder = Folder::new("wrong");
    let refusals = [
        (&["--server", "nothing"][..], "give name=URL or name=COMMAND"),
        (&["--server", "gone=redis://127.0.0.1:1"], "127.0.0.1:1"),
        (&["--server", "no=false {port}"], "has ended with"),
        (&["--tests", "nope"], "Unknown test 'nope'"),
        (&["--time", "5"], "a time needs a unit"),
        (&["--clients", "0"], "0 is not in"),
    ];
    for (words, expected) in refusals {
        let output = sleeve(&[words, &["-o", folder.path()]].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && errors.contains(expected), "{words:?}: {errors}");
    }
}
