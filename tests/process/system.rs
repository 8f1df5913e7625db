//! A server process as the system sees it: its title, its score when memory runs out, its log, its end by a signal.

use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use sleeve_tests::server::free_port;
use sleeve_tests::{Connection, Kind, Server};

fn ask(connection: &mut Connection, words: &[&str]) -> String {
    String::from_utf8_lossy(&connection.command(words).expect("a reply")).into_owned()
}

fn of_process(server: &Server, file: &str) -> String {
    let path = format!("/proc/{}/{file}", server.process_id());
    let content = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    String::from_utf8_lossy(&content).trim_end_matches(['\0', '\n']).to_owned()
}

#[test]
fn the_title_follows_the_template() {
    let long = "long ".repeat(12) + "{port}";
    let server = Server::start_with(Kind::Sleeve, &["--proc-title-template", &long]);
    let mut connection = server.connect();
    let port = server.port();
    assert_eq!(of_process(&server, "cmdline"), long.replace("{port}", &port.to_string()));
    let template = "A {listen-addr} {port} {tls-port} {config-file} {unixsocket}";
    assert_eq!(ask(&mut connection, &["CONFIG", "SET", "proc-title-template", template]), "+OK\r\n");
    assert_eq!(of_process(&server, "cmdline"), format!("A 127.0.0.1:{port} {port} 0 -"), "no trace of the longer one");
    assert_eq!(ask(&mut connection, &["CONFIG", "SET", "proc-title-template", "{title}: {title}"]), "+OK\r\n");
    let program = of_process(&server, "cmdline");
    assert!(program.split(": ").all(|program| program.ends_with("sleeve")), "{program}");
    assert!(ask(&mut connection, &["CONFIG", "SET", "proc-title-template", "{nosuch}"]).starts_with("-ERR"));
    assert_eq!(of_process(&server, "cmdline"), program);
}

#[test]
fn without_a_title_the_arguments_stay() {
    let server = Server::start_with(Kind::Sleeve, &["--set-proc-title", "no"]);
    assert_eq!(ask(&mut server.connect(), &["CONFIG", "SET", "proc-title-template", "x"]), "+OK\r\n");
    assert!(of_process(&server, "cmdline").ends_with("--set-proc-title\0no"));
}

#[test]
fn a_title_that_is_too_long_is_cut() {
    let server = Server::start_with(Kind::Sleeve, &["--proc-title-template", &"x".repeat(5_000)]);
    let title = of_process(&server, "cmdline");
    assert!(title.len() <= 4_095 && title.bytes().all(|byte| byte == b'x'));
    assert_eq!(ask(&mut server.connect(), &["PING"]), "+PONG\r\n");
}

#[test]
fn the_score_follows_the_options_and_comes_back() {
    let server = Server::start(Kind::Sleeve);
    let mut connection = server.connect();
    let score = || of_process(&server, "oom_score_adj").parse::<i64>().expect("a number");
    let before = score();
    let mut set = |words: &[&str]| ask(&mut connection, &[&["CONFIG", "SET"], words].concat());
    assert_eq!(set(&["oom-score-adj-values", "10 20 30"]), "+OK\r\n");
    assert_eq!(score(), before, "nobody has asked for it yet");
    assert_eq!(set(&["oom-score-adj", "yes"]), "+OK\r\n");
    assert_eq!(score(), before + 10);
    assert_eq!(set(&["oom-score-adj-values", "15 20 30", "oom-score-adj", "absolute"]), "+OK\r\n");
    assert_eq!(score(), 15);
    assert_eq!(set(&["oom-score-adj", "no"]), "+OK\r\n");
    assert_eq!(score(), before);
    // If one of several changes cannot be applied, the others are reverted.
    let refused = set(&["oom-score-adj", "yes", "hz", "33", "tls-port", &server.port().to_string()]);
    assert!(refused.starts_with("-ERR CONFIG SET failed (possibly related to argument 'tls-port')"), "{refused}");
    assert_eq!(score(), before);
    assert!(ask(&mut connection, &["CONFIG", "GET", "hz"]).ends_with("$2\r\n10\r\n"));
}

#[test]
fn a_signal_ends_the_server_as_its_option_says() {
    for (signal, option) in [("INT", "shutdown-on-sigint"), ("TERM", "shutdown-on-sigterm")] {
        let mut server = Server::start_with(Kind::Sleeve, &[&format!("--{option}"), "save", "force"]);
        let mut connection = server.connect();
        assert_eq!(ask(&mut connection, &["SET", "a", "1"]), "+OK\r\n");
        assert!(ask(&mut connection, &["CONFIG", "GET", option]).ends_with("\r\nsave force\r\n"));
        let sent = Command::new("kill").args([format!("-{signal}"), server.process_id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
        assert!(server.wait_for_exit(Duration::from_secs(30)).expect("it ends").success());
        assert!(server.log().contains("DB saved on disk"), "{}", server.log());
        server.restart().expect("it starts again");
        assert_eq!(ask(&mut server.connect(), &["GET", "a"]), "$1\r\n1\r\n");
    }
}

#[test]
fn a_signal_ends_the_server_although_a_script_runs_for_ever() {
    for save in ["", "3600 1"] {
        let arguments = ["--busy-reply-threshold", "20", "--save", save];
        let mut server = Server::start_with(Kind::Sleeve, &arguments);
        let (mut runner, mut other) = (server.connect(), server.connect());
        assert_eq!(ask(&mut other, &["SET", "a", "1"]), "+OK\r\n");
        runner.send(b"*3\r\n$4\r\nEVAL\r\n$17\r\nwhile true do end\r\n$1\r\n0\r\n").expect("connected");
        while !ask(&mut other, &["PING"]).starts_with("-BUSY ") {}
        let sent = Command::new("kill").args(["-TERM".to_owned(), server.process_id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
        assert!(server.wait_for_exit(Duration::from_secs(30)).expect("it ends").success());
        assert_eq!(server.log().contains("DB saved on disk"), !save.is_empty(), "{}", server.log());
    }
}

#[test]
fn systemd_is_notified_when_the_server_is_ready_and_when_it_ends() {
    let folder = std::env::temp_dir().join(format!("sleeve-notify-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder of our own");
    let path = folder.join("notify");
    let socket = UnixDatagram::bind(&path).expect("a free path");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let heard = || {
        let mut buffer = [0; 200];
        let len = socket.recv(&mut buffer).expect("a message");
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    };
    let port = free_port().to_string();
    // The server writes its last snapshot into its folder.
    let arguments = ["serve", "--supervised", "systemd", "--bind", "127.0.0.1", "--port", &port, "--dir"];
    // The title is so long that it lies over the environment, which must stay readable all the same.
    let title = "x".repeat(3_000);
    let mut server = Command::new(Kind::Sleeve.binary().expect("a binary"))
        .args(arguments)
        .arg(&folder)
        .args(["--proc-title-template", &title, "--shutdown-on-sigterm", "now"])
        .env("NOTIFY_SOCKET", &path)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    assert!(heard().contains("READY=1\n"));
    let sent = Command::new("kill").args(["-TERM", &server.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    assert_eq!(heard(), "STOPPING=1\n");
    assert!(server.wait().expect("it ends").success());
    assert!(folder.join("dump.rdb").exists(), "it saves, as servers do by default");
    _ = std::fs::remove_dir_all(&folder);
}

fn send_signal(server: &Server, signal: &str) {
    let sent = Command::new("kill").args([format!("-{signal}"), server.process_id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "{signal}");
}

#[test]
fn signals_of_a_terminal_or_a_peer_that_goes_end_nothing() {
    let server = Server::start(Kind::Sleeve);
    let mut connection = server.connect();
    assert_eq!(ask(&mut connection, &["SET", "k", "v"]), "+OK\r\n");
    // The kernel delivers a signal before it answers the next question about the process; two make sure.
    for signal in ["HUP", "PIPE", "HUP", "PIPE"] {
        send_signal(&server, signal);
    }
    assert_eq!(ask(&mut connection, &["GET", "k"]), "$1\r\nv\r\n");
    let ignored = of_process(&server, "status");
    let ignored = ignored.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask of ignored signals");
    let ignored = u64::from_str_radix(ignored.trim(), 16).expect("hexadecimal");
    assert_eq!(ignored & 1, 1, "SIGHUP is number 1");
}

#[test]
fn a_log_that_was_moved_away_begins_anew() {
    let server = Server::start_with(Kind::Sleeve, &["--logfile", "a.log", "--enable-debug-command", "yes"]);
    let mut connection = server.connect();
    let (path, old) = (server.folder().join("a.log"), server.folder().join("a.log.1"));
    let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap_or_default();
    let mut say = |text: &str| assert_eq!(ask(&mut connection, &["DEBUG", "LOG", text]), "+OK\r\n");
    say("first");
    std::fs::rename(&path, &old).expect("moved");
    say("second");
    say("third");
    assert!(read(&old).contains("first") && !read(&old).contains("second"), "{}", read(&old));
    assert!(read(&path).contains("second") && read(&path).contains("third"), "{}", read(&path));
    // The log is moved as logrotate does with `create`, and once more without a new file in its place.
    std::fs::rename(&path, &old).expect("moved");
    std::fs::write(&path, "").expect("created");
    say("fourth");
    std::fs::remove_file(&path).expect("removed");
    say("fifth");
    assert!(read(&path).contains("fifth") && !read(&path).contains("fourth"), "{}", read(&path));
    // If the folder is gone no rewrite can begin, and no client is held up.
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", server.process_id())).expect("descriptors").count();
    let before = descriptors();
    for round in 0..20 {
        std::fs::remove_file(&path).expect("removed");
        say(&format!("round {round}"));
    }
    // A descriptor that was about to be closed may be gone by now; a round that leaves one open would show twenty more.
    assert!(descriptors() <= before, "a descriptor was left open");
}

#[test]
fn a_pid_file_that_cannot_be_written_is_a_warning() {
    let server = Server::start_with(Kind::Sleeve, &["--pidfile", "/nonexistent/sleeve.pid"]);
    assert_eq!(ask(&mut server.connect(), &["PING"]), "+PONG\r\n");
    let log = server.log();
    let line = "Failed to write the pid file '/nonexistent/sleeve.pid': No such file or directory";
    assert!(log.contains(line), "{log}");
}

#[test]
fn info_has_the_figures_of_the_allocator_and_of_the_start_checks() {
    let server = Server::start(Kind::Sleeve);
    let mut connection = server.connect();
    let field = |connection: &mut Connection, name: &str| {
        let info = ask(connection, &["INFO", "everything"]);
        let value = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")).map(str::to_owned));
        value.unwrap_or_else(|| panic!("{name} is missing in {info}")).trim().parse::<f64>().expect(name)
    };
    assert_eq!(field(&mut connection, "dump_payload_sanitizations"), 0.0);
    assert_eq!(ask(&mut connection, &["SET", "k", "v"]), "+OK\r\n");
    let dump = connection.command(&["DUMP", "k"]).expect("a dump");
    let payload = &dump[dump.iter().position(|&byte| byte == b'\n').expect("a header") + 1..dump.len() - 2];
    let restored = connection.command(&[b"RESTORE".as_slice(), b"copy", b"0", payload]).expect("a reply");
    assert_eq!(restored, b"+OK\r\n");
    assert_eq!(field(&mut connection, "dump_payload_sanitizations"), 1.0);
    let resident = field(&mut connection, "used_memory_rss");
    let held = field(&mut connection, "allocator_active");
    assert!(held > 100_000.0 && held == field(&mut connection, "allocator_resident"), "{held}");
    let beside = field(&mut connection, "rss_overhead_bytes");
    assert!((resident - held - beside).abs() < 20_000_000.0, "{resident} {held} {beside}");
    assert!(field(&mut connection, "rss_overhead_ratio") > 0.0);
}

/// Returns the timestamp of a log line of a server that was started with this time zone.
fn stamp_in(kind: Kind, zone: &str) -> String {
    let folder = std::env::temp_dir().join(format!("sleeve-zone-{}-{}", std::process::id(), kind.name()));
    std::fs::create_dir_all(&folder).expect("a folder of our own");
    let (log, port) = (folder.join("log"), free_port().to_string());
    let binary = kind.binary().expect("a binary");
    let mut command = Command::new(binary);
    if kind == Kind::Sleeve {
        command.arg("serve");
    }
    let arguments = ["--bind", "127.0.0.1", "--port", &port, "--save", "", "--logfile"];
    let mut child = command.args(arguments).arg(&log).env("TZ", zone).spawn().expect("it starts");
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    let line = loop {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        if let Some(line) = text.lines().find(|line| line.contains("Ready to accept connections")) {
            break line.to_owned();
        }
        assert!(std::time::Instant::now() < deadline, "{text}");
        std::thread::sleep(Duration::from_millis(5));
    };
    child.kill().and_then(|()| child.wait()).expect("it ends");
    _ = std::fs::remove_dir_all(&folder);
    // The stamp is in lines such as `pid:M 21 Nov 2026 10:45:52.123 * ...`.
    line.split(' ').skip(1).take(4).collect::<Vec<_>>().join(" ")
}

/// Minutes since the first of the month; within an hour at the turn of a month they are not compared.
fn minutes(stamp: &str) -> i64 {
    let words: Vec<&str> = stamp.split([' ', ':', '.']).collect();
    let number = |index: usize| words[index].parse::<i64>().expect(stamp);
    (number(0) * 24 + number(3)) * 60 + number(4)
}

#[test]
fn the_log_speaks_local_time_as_in_redis() {
    // The zone is ten and a half hours ahead of universal time, by a rule that needs no file of zones.
    let zone = "XXX-10:30";
    let [ours, redis] = [Kind::Sleeve, Kind::Redis].map(|kind| stamp_in(kind, zone));
    let universal = stamp_in(Kind::Sleeve, "UTC");
    assert_eq!(ours.len(), redis.len(), "{ours} and {redis}");
    let [ours, redis, universal] = [&ours, &redis, &universal].map(|stamp| minutes(stamp));
    let month = 20 * 24 * 60;
    assert!(redis - ours <= 10 || redis < ours - month, "{ours} and {redis}");
    let ahead = ours - universal;
    assert!((620..=630).contains(&ahead) || ahead < -month, "{ahead} minutes ahead");
}

#[test]
fn a_fatal_signal_leaves_a_report_and_ends_the_process_by_that_signal() {
    for (signal, number) in [("SEGV", 11), ("BUS", 7), ("FPE", 8), ("ILL", 4), ("ABRT", 6)] {
        let mut server = Server::start(Kind::Sleeve);
        send_signal(&server, signal);
        let status = server.wait_for_exit(Duration::from_secs(60)).expect("it ends");
        assert_eq!(status.signal(), Some(number), "{status}");
        let log = server.log();
        assert!(log.contains(&format!("crashed by signal: {number} (SIG{signal})")), "{log}");
        assert!(log.contains("Sent by process") && log.contains("Stack trace"), "{log}");
    }
}

#[test]
fn a_fault_of_a_worker_is_reported_with_its_way_there() {
    let debug = ["--enable-debug-command", "yes", "--workers", "2", "--logfile", "crash.log"];
    let mut server = Server::start_with(Kind::Sleeve, &debug);
    assert!(server.connect().command(&["DEBUG", "SEGFAULT"]).is_err(), "nobody answers");
    let status = server.wait_for_exit(Duration::from_secs(60)).expect("it ends");
    assert_eq!(status.signal(), Some(11), "{status}");
    let log = std::fs::read_to_string(server.folder().join("crash.log")).expect("a log");
    let report = log.split_once("The report of a crash begins here").expect(&log).1;
    assert!(report.contains("crashed by signal: 11 (SIGSEGV)") && report.contains("At address 0x"), "{report}");
    assert!(report.contains("in the thread 'worker-"), "{report}");
    assert!(report.ends_with("=== The report of the crash ends here ===\n"), "{report}");
    let frames = report.lines().filter(|line| line.contains("(+0x")).count();
    assert!(frames > 5, "{report}");
}

#[test]
fn no_report_is_written_where_none_is_wanted() {
    let mut server = Server::start_with(Kind::Sleeve, &["--crash-log-enabled", "yes"]);
    let mut connection = server.connect();
    assert_eq!(ask(&mut connection, &["CONFIG", "SET", "crash-log-enabled", "no"]), "+OK\r\n");
    send_signal(&server, "SEGV");
    let status = server.wait_for_exit(Duration::from_secs(60)).expect("it ends");
    assert_eq!(status.signal(), Some(11), "{status}");
    assert!(!server.log().contains("crash"), "{}", server.log());
}

#[test]
fn a_panic_is_reported_once_and_ends_the_process() {
    let pid_file = std::env::temp_dir().join(format!("sleeve-panic-{}.pid", std::process::id()));
    let path = pid_file.to_str().expect("a name in Unicode");
    for (exits, signal, code) in [("no", Some(6), None), ("yes", None, Some(1))] {
        let words = ["--enable-debug-command", "yes", "--pidfile", path, "--use-exit-on-panic", exits];
        let mut server = Server::start_with(Kind::Sleeve, &words);
        assert!(pid_file.exists());
        assert!(server.connect().command(&["DEBUG", "PANIC"]).is_err(), "nobody answers");
        let status = server.wait_for_exit(Duration::from_secs(60)).expect("it ends");
        assert_eq!((status.signal(), status.code()), (signal, code), "{status}");
        assert!(!pid_file.exists(), "the pid file stayed");
        let log = server.log();
        assert!(log.contains(" has failed: ") && !log.contains("crashed by signal"), "{log}");
    }
}

/// The processes in the background of a test, which are ended with it.
struct Background(Vec<u32>);

impl Drop for Background {
    fn drop(&mut self) {
        for pid in &self.0 {
            if let Some(pid) = rustix::process::Pid::from_raw(*pid as i32) {
                _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

/// Starts a server with `daemonize yes` by the program of a kind, and returns the outcome of the process that started it.
fn start_in_background(kind: Kind, folder: &std::path::Path, words: &[&str], input: &str) -> std::process::Output {
    use std::io::Write;
    let mut command = Command::new(kind.binary().expect("its program"));
    if kind == Kind::Sleeve {
        command.arg("serve");
    }
    let folder = folder.to_str().expect("a path");
    command.args(words).args(["--daemonize", "yes", "--dir", folder, "--save", ""]);
    if !input.is_empty() {
        command.arg("-");
    }
    command.env_remove("NOTIFY_SOCKET").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("it starts");
    process.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("written");
    process.wait_with_output().expect("it ends")
}

#[test]
fn a_server_goes_to_the_background() {
    for kind in [Kind::Sleeve, Kind::Redis] {
        let folder = std::env::temp_dir().join(format!("sleeve-background-{}-{}", std::process::id(), kind.name()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (port, pid_file) = (free_port(), folder.join("server.pid"));
        let words = ["--port", &port.to_string(), "--pidfile", pid_file.to_str().expect("a path"), "--logfile", "log"];
        let output = start_in_background(kind, &folder, &words, "maxclients 77\n");
        assert!(output.status.success(), "{}: {output:?}", kind.name());
        // Redis's first process ends before the second one has opened anything.
        let pid = loop {
            let text = std::fs::read_to_string(&pid_file).unwrap_or_default();
            if let Ok(pid) = text.trim().parse::<u32>() {
                break pid;
            }
        };
        let _background = Background(vec![pid]);
        let mut connection = loop {
            if let Ok(connection) = Connection::open(([127, 0, 0, 1], port).into()) {
                break connection;
            }
        };
        assert_eq!(ask(&mut connection, &["CONFIG", "GET", "daemonize"]), "*2\r\n$9\r\ndaemonize\r\n$3\r\nyes\r\n");
        assert_eq!(ask(&mut connection, &["CONFIG", "GET", "maxclients"]), "*2\r\n$10\r\nmaxclients\r\n$2\r\n77\r\n");
        let parent = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
        let session = parent.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(3)).expect("a session");
        assert_eq!(session, pid.to_string(), "{}: a session of its own", kind.name());
        connection.command(&["SHUTDOWN"]).expect_err("a server that ends answers nothing");
        while pid_file.exists() {
            std::thread::yield_now();
        }
        _ = std::fs::remove_dir_all(&folder);
    }
}

#[test]
fn a_server_that_cannot_go_to_the_background_says_why() {
    let folder = std::env::temp_dir().join(format!("sleeve-no-background-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let pid_file = folder.join("pid");
    let words = ["--port", &port, "--bind", "127.0.0.1", "--pidfile", pid_file.to_str().expect("a path")];
    let output = start_in_background(Kind::Sleeve, &folder, &words, "");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && complaint.contains("Address already in use"), "{complaint}");
    let output = start_in_background(Kind::Sleeve, &folder, &[&words[..], &["--logfile", "log"]].concat(), "");
    let complaint = String::from_utf8_lossy(&output.stderr);
    let log = format!("the last line of its log '{}' is:", folder.join("log").display());
    assert!(complaint.contains(&log) && complaint.contains("Address already in use"), "{complaint}");
    let output = start_in_background(Kind::Sleeve, &folder, &["--nosuch", "1"], "");
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("nosuch"));
    _ = std::fs::remove_dir_all(&folder);
}
