//! `package`: the binary as a package of Debian, with its unit, configuration, man pages and completions.
//!
//! The files that are not generated lie in `packaging/`. The package goes into `target/package`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dist;
use crate::steps::{is_installed, output_of, target_folder};

/// Where completions of a shell go, and the name of the shell.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/sleeve"),
    ("zsh", "usr/share/zsh/vendor-completions/_sleeve"),
    ("fish", "usr/share/fish/vendor_completions.d/sleeve.fish"),
];

/// Files of the repository, and where they go.
const FILES: [(&str, &str); 5] = [
    ("packaging/sleeve.service", "usr/lib/systemd/system/sleeve.service"),
    ("packaging/sleeve.conf", "etc/sleeve/sleeve.conf"),
    ("packaging/sleeve.logrotate", "etc/logrotate.d/sleeve"),
    ("LICENSE", "usr/share/doc/sleeve/copyright"),
    ("CHANGELOG.md", "usr/share/doc/sleeve/changelog"),
];

/// Scripts that run when it is installed and removed.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Builds the release and packs it.
///
/// # Errors
/// When it does not compile, or a program that packs is missing or fails.
pub fn run() -> Result<(), String> {
    if !is_installed("dpkg-deb") {
        return Err("dpkg-deb is missing: packages are made on Debian and its kin".to_owned());
    }
    let binary = dist::build()?;
    let folder = target_folder()?.join("package");
    let root = folder.join("root");
    // What an earlier run has left would be packed too.
    if root.exists() {
        fs::remove_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    }
    let package = assemble(&binary, &root, &folder)?;
    println!("{}", output_of(Command::new("dpkg-deb").arg("--info").arg(&package))?);
    println!("{}", package.display());
    Ok(())
}

/// Lays the package's files out below `root` and packs them.
fn assemble(binary: &Path, root: &Path, folder: &Path) -> Result<PathBuf, String> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
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
    output_of(Command::new("gzip").arg("-9n").arg(root.join("usr/share/doc/sleeve/changelog")))?;
    let architecture = output_of(Command::new("dpkg").arg("--print-architecture"))?.trim().to_owned();
    let kibibytes = output_of(Command::new("du").arg("-sk").arg(root))?;
    let kibibytes = kibibytes.split_whitespace().next().unwrap_or("0");
    let version = env!("CARGO_PKG_VERSION");
    let control = String::from_utf8_lossy(&read(&repository.join("packaging/debian/control"))?)
        .replace("{version}", version)
        .replace("{architecture}", &architecture)
        .replace("{kibibytes}", kibibytes);
    put(control.as_bytes(), &root.join("DEBIAN/control"), 0o644)?;
    put(b"/etc/sleeve/sleeve.conf\n/etc/logrotate.d/sleeve\n", &root.join("DEBIAN/conffiles"), 0o644)?;
    for script in SCRIPTS {
        let text = read(&repository.join("packaging/debian").join(script))?;
        put(&text, &root.join("DEBIAN").join(script), 0o755)?;
    }
    let package = folder.join(format!("sleeve_{version}_{architecture}.deb"));
    output_of(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).args([root, &package]))?;
    Ok(package)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes a file with these permissions, and its folders.
fn put(bytes: &[u8], path: &Path, mode: u32) -> Result<(), String> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
        fs::write(path, bytes)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
    });
    written.map_err(|error| format!("{}: {error}", path.display()))
}
