//! Twelve situations, each with one thing wrong.

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use sleeve_tests::connection::request;
use sleeve_tests::{Connection, Kind, Server};

use super::{KINDS, connect, examine, examine_for, lines, mixed, together, words};

/// The time that a program works beside its requests.
pub const REST: Duration = Duration::from_millis(10);

/// The round trip of a line that is longer than a busy machine's own delays.
const LONG: Duration = Duration::from_millis(2);

/// Returns a program that pipelines related requests, and has other work too.
pub fn healthy(port: u16) -> impl Fn(&dyn Fn() -> bool, usize) {
    move |goes_on, number| {
        let mut connection = connect(port);
        while goes_on() {
            together(&mut connection, &mixed(20, number * 100));
            std::thread::sleep(REST);
        }
    }
}

/// Writes so many keys with values of this length.
fn fill(connection: &mut Connection, count: usize, length: usize) {
    let value = "v".repeat(length);
    for first in (0..count).step_by(1_000) {
        let pairs = (first..first + 1_000).map(|at| format!(" key:{at} {value}")).collect::<String>();
        together(connection, &[words(&format!("MSET{pairs}"))]);
    }
}

#[test]
#[ignore = "judges how the machine is shared: cargo xtask soak doctor"]
fn a_connection_per_command() {
    for kind in KINDS {
        let server = Server::start(kind);
        let report = examine(server.port(), 1, |goes_on, _| {
            for number in (0..).take_while(|_| goes_on()) {
                together(&mut connect(server.port()), &[words(&format!("SET key:{number} value"))]);
            }
        });
        report.names("a connection per command", kind);
    }
}

#[test]
#[ignore = "judges how the machine is shared: cargo xtask soak doctor"]
fn no_pipelining() {
    for kind in KINDS {
        let server = Server::start(kind);
        let line = lines::long(&server, LONG);
        let report = examine(line.port(), 1, |goes_on, _| {
            let mut connection = connect(line.port());
            for command in mixed(5_000, 0).into_iter().cycle().take_while(|_| goes_on()) {
                together(&mut connection, &[command]);
            }
        });
        report.names("no pipelining", kind);
    }
}

#[test]
#[ignore = "judges how the machine is shared: cargo xtask soak doctor"]
fn round_trips_per_request() {
    for kind in KINDS {
        let server = Server::start(kind);
        let line = lines::long(&server, LONG * 3);
        let report = examine(line.port(), 1, |goes_on, _| {
            let mut connection = connect(line.port());
            while goes_on() {
                for key in 0..10 {
                    together(&mut connection, &[words(&format!("GET user:{key}"))]);
                }
                std::thread::sleep(REST * 12);
            }
        });
        report.names("round trips per request", kind);
        assert!(report.text.contains("MGET instead of GET"), "{}", report.text);
    }
}

#[test]
#[ignore = "judges how the machine is shared: cargo xtask soak doctor"]
fn big_values() {
    for kind in KINDS {
        let server = Server::start(kind);
        let report = examine(server.port(), 1, |goes_on, _| {
            // Bytes that are ready, and replies that are not looked at: a program may be faster than these tests' connections.
            let (stream, value) = (connect(server.port()), "v".repeat(1 << 20));
            let requests: Vec<_> = (0..20).map(|key| request(&["SET", &format!("key:{key}"), &value])).collect();
            let (mut stream, mut reply) = (stream.stream(), [0; 5]);
            for set in requests.iter().cycle().take_while(|_| goes_on()) {
                stream.write_all(set).expect("it is sent");
                stream.read_exact(&mut reply).expect("a reply");
            }
        });
        report.names("big values", kind);
    }
}

#[test]
#[ignore = "judges how the machine is shared: cargo xtask soak doctor"]
fn slow_commands() {
    for kind in KINDS {
        let server = Server::start(kind);
        fill(&mut server.connect(), 100_000, 10);
        let report = examine(server.port(), 1, |goes_on, _| {
            let mut connection = connect(server.port());
            while goes_on() {
                together(&mut connection, &[words("KEYS *:none:*")]);
                together(&mut connection, &mixed(20, 0));
            }
        });
        report.names("slow commands", kind);
        assert!(report.text.contains("KEYS: ") && report.text.contains("Use SCAN"), "{}", report.text);
    }
}

#[test]
#[ignore = "judges how the machine is shared: cargo xtask soak doctor"]
fn a_hot_key() {
    for kind in KINDS {
        let server = Server::start(kind);
        let mut commands = vec![words("GET settings:all"); 29];
        commands.extend(["GET user:1", "GET user:2", "GET user:3"].map(words));
        let bytes: Vec<u8> = commands.iter().flat_map(|words| request(words)).collect();
        let report = examine(server.port(), 2, |goes_on, _| {
            let mut connection = connect(server.port());
            while goes_on() {
                connection.send(&bytes).expect("it is sent");
                for _ in &commands {
                    connection.reply().expect("a reply");
                }
            }
        });
        report.names("a hot key", kind);
        assert!(report.text.contains("\"settings:all\": 91 %"), "{}", report.text);
    }
}

#[test]
#[ignore = "judges how the machine is shared: cargo xtask soak doctor"]
fn the_pause_of_a_fork() {
    for kind in KINDS {
        let server = Server::start_with(kind, &["--enable-debug-command", "yes"]);
        // The cost of a fork grows with the number of pages; the cost of a snapshot, with the data in them.
        assert_eq!(server.connect().command(&words("DEBUG POPULATE 400 key 1000000")).expect("a reply"), b"+OK\r\n");
        let report = examine_for("4s", server.port(), 2, |goes_on, number| {
            if number == 0 {
                return healthy(server.port())(goes_on, number);
            }
            // BGSAVE is refused while the last one is under way, which takes long on a busy machine: none begins before the
            // doctor watches.
            let mut connection = connect(server.port());
            while goes_on() {
                let stats = connection.command(&["INFO", "commandstats"]).expect("a reply");
                if String::from_utf8_lossy(&stats).contains("cmdstat_exists") {
                    together(&mut connection, &[words("BGSAVE")]);
                }
                std::thread::sleep(REST * 10);
            }
        });
        // A server that does not fork has no such fault.
        match kind {
            Kind::Redis => report.names("a fork's pause", kind),
            _ => report.is_healthy(kind),
        }
    }
}

#[test]
#[ignore = "judges how the machine is shared: cargo xtask soak doctor"]
fn fsync() {
    for kind in KINDS {
        // If temporary files are in memory, syncing costs nothing.
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("doctor-{}-{}", kind.name(), std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let place = folder.to_str().expect("a name");
        let log = ["--appendonly", "yes", "--appendfsync", "always", "--dir", place];
        let server = Server::start_with(kind, &log);
        let report = examine(server.port(), 1, |goes_on, _| {
            let mut connection = connect(server.port());
            while goes_on() {
                let writes: Vec<_> = (0..4).map(|at| words(&format!("SET key:{at} value"))).collect();
                together(&mut connection, &writes);
            }
        });
        report.names("fsync", kind);
        drop(server);
        _ = std::fs::remove_dir_all(folder);
    }
}

/// Makes the server's INFO, with a relay, that of a server with memory on disk, since test machines do not swap on demand.
#[test]
#[ignore = "judges how the machine is shared: cargo xtask soak doctor"]
fn swapping() {
    for kind in KINDS {
        let server = Server::start(kind);
        fill(&mut server.connect(), 5_000, 1_000);
        let line = lines::swapped(&server);
        examine(line.port(), 1, healthy(server.port())).names("swapping", kind);
    }
}

/// Returns the microseconds that a call of a command takes in the server.
fn time_of(connection: &mut Connection, command: &str) -> f64 {
    let stats = connection.command(&["INFO", "commandstats"]).expect("a reply");
    let stats = String::from_utf8_lossy(&stats);
    let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:"))).expect("it was called");
    line.split("usec_per_call=").nth(1).and_then(|rest| rest.split(',').next()?.parse().ok()).expect("a number")
}

#[test]
#[ignore = "judges how the machine is shared: cargo xtask soak doctor"]
fn cpu() {
    for kind in KINDS {
        let workers: &[&str] = if kind == Kind::Sleeve { &["--workers", "1"] } else { &[] };
        let server = Server::start_with(kind, workers);
        let key = |number: usize| format!("bits:{}", number % 50);
        let work: Vec<_> = (0..50).map(|at| words(&format!("BITCOUNT {}", key(at)))).collect();
        // Work for the server, and little for its clients: a call takes a tenth of the threshold for slow commands.
        let mut connection = server.connect();
        for length in (12..).map(|power| 1 << power) {
            let longer: Vec<_> = (0..50).map(|at| words(&format!("SETRANGE {} {length} x", key(at)))).collect();
            together(&mut connection, &longer);
            connection.command(&["CONFIG", "RESETSTAT"]).expect("a reply");
            together(&mut connection, &work);
            if time_of(&mut connection, "bitcount") >= 100.0 {
                break;
            }
        }
        let report = examine(server.port(), 3, |goes_on, _| {
            let mut connection = connect(server.port());
            while goes_on() {
                together(&mut connection, &work);
            }
        });
        report.names("CPU", kind);
    }
}

#[test]
#[ignore = "judges how the machine is shared: cargo xtask soak doctor"]
fn a_narrow_network() {
    for kind in KINDS {
        let server = Server::start(kind);
        fill(&mut server.connect(), 1_000, 2_000);
        let line = lines::narrow(&server, 1_000_000);
        let report = examine(line.port(), 1, |goes_on, _| {
            let mut connection = connect(line.port());
            let commands: Vec<_> = (0..20).map(|at| words(&format!("GET key:{at}"))).collect();
            while goes_on() {
                together(&mut connection, &commands);
            }
        });
        report.names("the network", kind);
    }
}

#[test]
#[ignore = "judges how the machine is shared: cargo xtask soak doctor"]
fn a_starved_executor() {
    for kind in KINDS {
        let server = Server::start(kind);
        let report = examine(server.port(), 1, |goes_on, _| {
            let mut connection = connect(server.port());
            while goes_on() {
                connection.send(&request(&["INCR", "visits"])).expect("it is sent");
                // The thread that should read the reply does something else.
                std::thread::sleep(REST * 20);
                connection.reply().expect("a reply");
            }
        });
        report.names("a starved executor", kind);
    }
}
