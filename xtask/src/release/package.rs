//! `package`: the binary as a package of Debian, with its unit, configuration, documents, man pages and completions, and a
//! second package of links, under which it answers to the names of Redis's and Valkey's programs and services.
//!
//! The files that are not generated lie in `packaging/`. The packages go into `target/package`. A trial installs, removes and
//! purges them on a copy of this machine's files (`packaging/debian/trial.sh`), and has lintian look at them where that is there.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::release::{dist, sbom};
use crate::steps::{Count, cargo, is_installed, output_of, run, target_folder};

/// The binary that is packed, and the use of the package.
#[derive(Debug, Default, clap::Args)]
pub struct Options {
    /// Pack this binary instead of a release that is built now; debug information is left out
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Install, remove and purge it on a copy of this machine's files in memory, as root, and have lintian look at it
    #[arg(long)]
    trial: bool,
    /// Spend little time on making the package small
    #[arg(long)]
    fast: bool,
}

/// The path of each shell's completions, and the name of the shell.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/sleeve"),
    ("zsh", "usr/share/zsh/vendor-completions/_sleeve"),
    ("fish", "usr/share/fish/vendor_completions.d/sleeve.fish"),
];

/// Files of the repository, and their places in the package.
const FILES: [(&str, &str); 9] = [
    ("packaging/sleeve.service", "lib/systemd/system/sleeve.service"),
    ("packaging/sleeve.conf", "etc/sleeve/sleeve.conf"),
    ("packaging/sleeve.logrotate", "etc/logrotate.d/sleeve"),
    ("packaging/debian/copyright", "usr/share/doc/sleeve/copyright"),
    ("packaging/debian/lintian-overrides", "usr/share/lintian/overrides/sleeve"),
    ("packaging/grafana/sleeve.json", "usr/share/doc/sleeve/grafana/sleeve.json"),
    (sbom::FILE, "usr/share/doc/sleeve/sbom.cdx.json"),
    ("README.md", "usr/share/doc/sleeve/README.md"),
    ("CHANGELOG.md", "usr/share/doc/sleeve/changelog"),
];

/// The folder of the documents.
const DOCUMENTS: &str = "usr/share/doc/sleeve";

/// The scripts that run when the package is installed and removed.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// The scripts of the package of links.
const SCRIPTS_OF_LINKS: [&str; 2] = ["postinst", "postrm"];

/// The programs of Redis and Valkey behind `redis-` and `valkey-`, and the man page that describes each.
pub const PROGRAMS: [(&str, &str); 6] = [
    ("server", "sleeve-serve"),
    ("sentinel", "sleeve"),
    ("cli", "sleeve-cli"),
    ("benchmark", "sleeve-bench"),
    ("check-rdb", "sleeve-check-rdb"),
    ("check-aof", "sleeve-check-aof"),
];

/// The beginnings of the programs' names.
pub const FAMILIES: [&str; 2] = ["redis", "valkey"];

/// The units as which `sleeve.service` is known too.
const UNITS: [&str; 3] = ["redis-server", "redis", "valkey-server"];

/// Builds the release and packs it.
///
/// # Errors
/// When it does not compile, or a program that packs is missing or fails.
pub fn run_chore(options: &Options) -> Result<(), String> {
    if !is_installed("dpkg-deb") {
        return Err("dpkg-deb is missing: packages are made on Debian and its kin".to_owned());
    }
    let folder = target_folder()?.join("package");
    let binary = match &options.binary {
        None => dist::build()?,
        Some(binary) => dist::split(binary, &folder)?[0].clone(),
    };
    let root = folder.join("root");
    // Files of an earlier run would be packed too.
    if root.exists() {
        fs::remove_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    }
    let packages = [assemble(&binary, &root, &folder, options.fast)?, links(&binary, &folder, options.fast)?];
    for package in &packages {
        println!("{}", output_of(Command::new("dpkg-deb").arg("--info").arg(package))?);
        println!("{}", package.display());
    }
    if !options.trial {
        return Ok(());
    }
    run(Command::new(repository().join("packaging/debian/trial.sh")).args(&packages))?;
    if options.fast {
        return Ok(());
    }
    match is_installed("lintian") {
        true => run(Command::new("lintian")
            .args(["--fail-on", "error,warning", "--tag-display-limit", "0"])
            .args(&packages)),
        false => {
            println!("lintian is not there; `apt-get install lintian` installs it");
            Ok(())
        }
    }
}

/// Packs a binary that is already built and tries the package, if this machine allows it.
///
/// # Errors
/// The faults of the package.
pub fn check(binary: &Path) -> Result<Count, String> {
    let overlays = fs::read_to_string("/proc/filesystems").is_ok_and(|names| names.contains("\toverlay"));
    let may = is_installed("unshare")
        && Command::new("unshare")
            .args(["--mount", "--net", "--pid", "--fork", "true"])
            .status()
            .is_ok_and(|done| done.success());
    let programs = ["dpkg-deb", "objcopy", "adduser", "deb-systemd-helper"];
    if !overlays || !may || !programs.iter().all(|program| is_installed(program)) {
        println!("skipped: a package is tried as root, on Debian, where the kernel has overlays and namespaces");
        return Ok(Count { skipped: 1, ..Count::default() });
    }
    run_chore(&Options { binary: Some(binary.to_owned()), trial: true, fast: true })?;
    Ok(Count { passed: 1, ..Count::default() })
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Lays the package's files out below `root` and packs them.
fn assemble(binary: &Path, root: &Path, folder: &Path, is_fast: bool) -> Result<PathBuf, String> {
    let repository = repository();
    put(&read(binary)?, &root.join("usr/bin/sleeve"), 0o755)?;
    for (from, to) in FILES {
        put(&read(&repository.join(from))?, &root.join(to), 0o644)?;
    }
    let sleeve = || Command::new(binary);
    for (shell, to) in COMPLETIONS {
        put(output_of(sleeve().args(["reference", "completions", shell]))?.as_bytes(), &root.join(to), 0o644)?;
    }
    let pages = root.join("usr/share/man/man1");
    output_of(sleeve().args(["reference", "man"]).arg(&pages))?;
    output_of(Command::new("gzip").args(["-9n", "-r"]).arg(&pages))?;
    let version = env!("CARGO_PKG_VERSION");
    documents(root)?;
    let architecture = output_of(Command::new("dpkg").arg("--print-architecture"))?.trim().to_owned();
    put(b"/etc/sleeve/sleeve.conf\n/etc/logrotate.d/sleeve\n", &root.join("DEBIAN/conffiles"), 0o644)?;
    let sources = repository.join("packaging/debian");
    let package = folder.join(format!("sleeve_{version}-1_{architecture}.deb"));
    pack(root, &text(&sources.join("control"))?, &sources, &SCRIPTS, &package, is_fast)
}

/// Lays the links out and packs them: names of programs, of their man pages, and of the unit.
fn links(binary: &Path, folder: &Path, is_fast: bool) -> Result<PathBuf, String> {
    let root = folder.join("root-of-links");
    if root.exists() {
        fs::remove_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    }
    for family in FAMILIES {
        for (program, page) in PROGRAMS {
            link("sleeve", &root.join(format!("usr/bin/{family}-{program}")))?;
            link(&format!("{page}.1.gz"), &root.join(format!("usr/share/man/man1/{family}-{program}.1.gz")))?;
        }
    }
    for unit in UNITS {
        link("sleeve.service", &root.join(format!("lib/systemd/system/{unit}.service")))?;
    }
    let documents = root.join("usr/share/doc/sleeve-redis");
    let repository = repository();
    put(&read(&repository.join("packaging/debian/copyright"))?, &documents.join("copyright"), 0o644)?;
    let overrides = read(&repository.join("packaging/debian/redis/lintian-overrides"))?;
    put(&overrides, &root.join("usr/share/lintian/overrides/sleeve-redis"), 0o644)?;
    changes("sleeve-redis", &documents)?;
    let version = env!("CARGO_PKG_VERSION");
    let package = folder.join(format!("sleeve-redis_{version}-1_all.deb"));
    let redis = output_of(Command::new(binary).arg0("redis-cli").arg("--version"))?;
    let redis = redis.split_whitespace().nth(1).ok_or("redis-cli tells no version")?;
    let sources = repository.join("packaging/debian/redis");
    let control = text(&sources.join("control"))?.replace("{redis}", redis);
    pack(&root, &control, &sources, &SCRIPTS_OF_LINKS, &package, is_fast)
}

/// Packs what lies below `root`, with this control file and the scripts of a folder.
fn pack(
    root: &Path,
    control: &str,
    sources: &Path,
    scripts: &[&str],
    package: &Path,
    is_fast: bool,
) -> Result<PathBuf, String> {
    let architecture = output_of(Command::new("dpkg").arg("--print-architecture"))?;
    let kibibytes = output_of(Command::new("du").arg("-sk").arg(root))?;
    let kibibytes = kibibytes.split_whitespace().next().unwrap_or("0");
    let control = control
        .replace("{version}", concat!(env!("CARGO_PKG_VERSION"), "-1"))
        .replace("{architecture}", architecture.trim())
        .replace("{kibibytes}", kibibytes);
    put(control.as_bytes(), &root.join("DEBIAN/control"), 0o644)?;
    for script in scripts {
        put(&read(&sources.join(script))?, &root.join("DEBIAN").join(script), 0o755)?;
    }
    let compression: &[&str] = if is_fast { &["-Zgzip", "-z1"] } else { &[] };
    output_of(
        Command::new("dpkg-deb").args(compression).args(["--root-owner-group", "--build"]).args([root, package]),
    )?;
    Ok(package.to_owned())
}

/// Writes the changelog of a package of Debian into its folder of documents.
fn changes(package: &str, folder: &Path) -> Result<(), String> {
    let repository = repository();
    let date = output_of(Command::new("git").args(["log", "-1", "--format=%cD"]).current_dir(&repository))?;
    let changes = text(&repository.join("packaging/debian/changelog"))?
        .replace("{package}", package)
        .replace("{version}", env!("CARGO_PKG_VERSION"))
        .replace("{date}", date.trim());
    put(changes.as_bytes(), &folder.join("changelog.Debian"), 0o644)?;
    output_of(Command::new("gzip").arg("-9n").arg(folder.join("changelog.Debian")))?;
    Ok(())
}

/// Writes the documents: files of the repository, and those that are made of them.
fn documents(root: &Path) -> Result<(), String> {
    let repository = repository();
    let folder = root.join(DOCUMENTS);
    let entries = fs::read_dir(repository.join("docs")).map_err(|error| format!("docs: {error}"))?;
    for entry in entries {
        let entry = entry.map_err(|error| format!("docs: {error}"))?;
        put(&read(&entry.path())?, &folder.join("docs").join(entry.file_name()), 0o644)?;
    }
    let libraries =
        ["tree", "--package", "sleeve-cli", "--edges", "normal", "--prefix", "none", "--format", "{p}: {l}"];
    let libraries = output_of(cargo().args(libraries))?;
    // The libraries of this repository are left out, because their lines would name its folder.
    let mut libraries: Vec<&str> = libraries.lines().filter(|line| !line.starts_with("sleeve")).collect();
    libraries.sort_unstable();
    libraries.dedup();
    let head = "Libraries that are linked into the binary, with their versions and licences. Their texts are in their sources,\n\
                at https://crates.io.\n\n";
    put(format!("{head}{}\n", libraries.join("\n")).as_bytes(), &folder.join("third-party.txt"), 0o644)?;
    output_of(Command::new("gzip").arg("-9n").arg(folder.join("changelog")))?;
    changes("sleeve", &folder)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes a file with these permissions, and its folders.
fn put(bytes: &[u8], path: &Path, mode: u32) -> Result<(), String> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
        fs::write(path, bytes)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
    });
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// Makes a symbolic link, and its folders.
fn link(to: &str, path: &Path) -> Result<(), String> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| symlink(to, path));
    made.map_err(|error| format!("{}: {error}", path.display()))
}
