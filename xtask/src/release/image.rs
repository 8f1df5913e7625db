//! `image`: the image of containers, built without a daemon, and tried.
//!
//! buildah builds `packaging/image/Dockerfile` as any builder would, on a base that mmdebstrap makes of Debian's packages,
//! because a registry of images may be out of reach. Containers do not run everywhere, so `packaging/image/trial.sh` runs the
//! entrypoint in the image's root file system: in namespaces of its own, as the user and with the capabilities, environment
//! and folder of a container. The same forms run with Debian's redis-server and redis-tools, and the script compares exit
//! status and output. The base stays in `target/image`, and so does the image itself, in the file that `docker load` reads.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sleeve_tests::Kind;
use sleeve_tests::server::workspace_root;

use crate::peers::apt_get_install;
use crate::release::{dist, sbom};
use crate::steps::{Count, build_sleeve, is_installed, output_of, run, target_folder};

/// The most that the image may add to its base, in bytes.
const ADDED_MAX: u64 = 25_000_000;

/// The programs that build the image, and Debian's packages that have them.
const PROGRAMS: [(&str, &str); 2] = [("buildah", "buildah"), ("mmdebstrap", "mmdebstrap")];

/// The suite of Debian that the recipe's base is of.
const SUITE: &str = "bookworm";

/// Files that the base of the recipe does not have either.
const LEFT_OUT: [&str; 4] = ["/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*"];

/// The name that the image has where it is loaded.
const TAG: &str = "sleeve:latest";

/// The binary in the image.
#[derive(Debug, Default, clap::Args)]
pub struct Options {
    /// Put this binary into the image instead of a release that is built now; debug information is left out
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Try only the forms with this text in their name
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// Builds the image and tries it.
///
/// # Errors
/// The forms in which it behaves in another way than Redis, or the reason why it could not be built.
pub fn run_chore(options: &Options) -> Result<(), String> {
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => build_sleeve("release")?,
    };
    let count = build_and_try(&binary, options.only.as_deref().unwrap_or_default(), Peers::Present)?;
    if count.failed > 0 { Err(format!("{} forms failed", count.failed)) } else { Ok(()) }
}

/// Builds the image with a binary that is already built, and tries it, if this machine allows it.
///
/// # Errors
/// The reason why the image could not be built. The forms that fail are counted.
pub fn check(binary: &Path) -> Result<Count, String> {
    let may = rustix::process::geteuid().is_root()
        && is_installed("dpkg")
        && Command::new("unshare")
            .args(["--mount", "--net", "--pid", "--fork", "true"])
            .status()
            .is_ok_and(|done| done.success());
    if !may {
        println!("skipped: an image is built and tried as root, on Debian, where the kernel has namespaces");
        return Ok(Count { skipped: 1, ..Count::default() });
    }
    build_and_try(binary, "", Peers::All)
}

/// The servers that the image has to be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peers {
    /// All peers: one that is missing is a fault.
    All,
    /// Peers of this machine: forms that need another one are skipped.
    Present,
}

fn build_and_try(binary: &Path, only: &str, peers: Peers) -> Result<Count, String> {
    let missing: Vec<&str> =
        PROGRAMS.iter().filter(|(program, _)| !is_installed(program)).map(|(_, package)| *package).collect();
    if !missing.is_empty() {
        apt_get_install(&missing)?;
    }
    let folder = target_folder()?.join("image");
    let base = base(&folder)?;
    let context = context(binary, &folder)?;
    let image = Store(&folder).build(&context, base)?;
    let root = folder.join("root");
    let result = Store(&folder)
        .unpack(&image, &root)
        .and_then(|()| Store(&folder).archive(&image))
        .and_then(|()| try_out(&root, &folder, only, peers));
    Store(&folder).forget(&image)?;
    result
}

/// Makes the root file system of the base, if it is not there yet.
fn base(folder: &Path) -> Result<&'static str, String> {
    const NAME: &str = "localhost/sleeve-base";
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    if output_of(Store(folder).buildah().args(["inspect", "--type", "image", NAME])).is_ok() {
        return Ok(NAME);
    }
    let archive = folder.join("base.tar");
    let mut make = Command::new("mmdebstrap");
    make.args(["--quiet", "--variant=essential", "--include=passwd", "--dpkgopt=force-unsafe-io"]);
    make.args(LEFT_OUT.map(|files| format!("--dpkgopt=path-exclude={files}")));
    output_of(make.arg(SUITE).arg(&archive))?;
    let container = Store(folder).from("scratch")?;
    output_of(Store(folder).buildah().arg("add").arg(&container).arg(&archive).arg("/"))?;
    output_of(Store(folder).buildah().args(["commit", "--quiet", "--rm", &container, NAME]))?;
    std::fs::remove_file(&archive).map_err(|error| format!("{}: {error}", archive.display()))?;
    Ok(NAME)
}

/// Lays out the files that the recipe copies: the binary, its libraries' list and the scripts.
fn context(binary: &Path, folder: &Path) -> Result<PathBuf, String> {
    let context = folder.join("context");
    let place = context.join("packaging/image");
    std::fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let [stripped, _] = dist::split(binary, folder)?;
    let root = workspace_root();
    for (from, to) in [
        (stripped, place.join("sleeve")),
        (root.join("packaging/image/Dockerfile"), place.join("Dockerfile")),
        (root.join("packaging/image/entrypoint.sh"), place.join("entrypoint.sh")),
        (root.join("packaging/image/healthcheck.sh"), place.join("healthcheck.sh")),
        (root.join(sbom::FILE), context.join(sbom::FILE)),
    ] {
        std::fs::copy(&from, &to).map_err(|error| format!("{}: {error}", from.display()))?;
    }
    Ok(context)
}

/// buildah's store of images, in a folder of cargo's output.
#[derive(Debug)]
struct Store<'a>(&'a Path);

impl Store<'_> {
    fn buildah(&self) -> Command {
        let mut command = Command::new("buildah");
        command.arg("--root").arg(self.0.join("store")).arg("--runroot").arg(self.0.join("run"));
        command.env("BUILDAH_ISOLATION", "chroot");
        command
    }

    fn from(&self, image: &str) -> Result<String, String> {
        output_of(self.buildah().args(["from", "--quiet", image])).map(|name| name.trim().to_owned())
    }

    /// Builds the recipe; returns the image's name.
    fn build(&self, context: &Path, base: &str) -> Result<String, String> {
        const NAME: &str = "localhost/sleeve";
        let mut build = self.buildah();
        // A health check is a part of Docker's format alone.
        build.args(["build", "--quiet", "--format", "docker", "--tag", NAME]);
        for stage in ["BASE", "BUILD"] {
            build.arg("--build-arg").arg(format!("{stage}={base}"));
        }
        output_of(build.arg("--file").arg(context.join("packaging/image/Dockerfile")).arg(context))?;
        let [whole, below] = [NAME, base].map(|name| self.bytes(name));
        let added = whole?.saturating_sub(below?);
        println!("    the image adds {:.1} MB to its base", added as f64 / 1e6);
        if added > ADDED_MAX {
            return Err(format!("the image adds {added} bytes to its base, more than {ADDED_MAX}"));
        }
        Ok(NAME.to_owned())
    }

    fn bytes(&self, image: &str) -> Result<u64, String> {
        let container = self.from(image)?;
        let place = output_of(self.buildah().args(["mount", &container]))?;
        let used = output_of(
            Command::new("du").args(["--summarize", "--block-size=1", "--one-file-system"]).arg(place.trim()),
        )?;
        output_of(self.buildah().args(["rm", &container]))?;
        let used = used.split_whitespace().next().and_then(|used| used.parse().ok());
        used.ok_or_else(|| format!("du told no size of {image}"))
    }

    /// Copies the files of the image into a folder, and writes its configuration into files beside it.
    fn unpack(&self, image: &str, root: &Path) -> Result<(), String> {
        let container = self.from(image)?;
        let place = output_of(self.buildah().args(["mount", &container]))?;
        if root.exists() {
            std::fs::remove_dir_all(root).map_err(|error| format!("{}: {error}", root.display()))?;
        }
        let copied = output_of(Command::new("cp").arg("--archive").arg(place.trim()).arg(root));
        let inspected = output_of(self.buildah().args(["inspect", "--type", "image", image]));
        output_of(self.buildah().args(["rm", &container]))?;
        copied?;
        let image: Value = parse(&inspected?)?;
        let config = &image["Docker"]["config"];
        for (field, file) in [
            ("/Entrypoint", "entrypoint"),
            ("/Cmd", "command"),
            ("/Env", "environment"),
            ("/Healthcheck/Test", "health"),
        ] {
            let words = config.pointer(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            // The first word of a health check says that the others are a command.
            let words: Vec<&str> = words.filter(|word| file != "health" || *word != "CMD").collect();
            let file = root.with_file_name(file);
            std::fs::write(&file, words.join("\n") + "\n").map_err(|error| format!("{}: {error}", file.display()))?;
        }
        let says = |field: &str, wanted: &str| match config[field].to_string().contains(wanted) {
            true => Ok(()),
            false => Err(format!("the image's {field} is {}, without {wanted}", config[field])),
        };
        says("WorkingDir", "\"/data\"")?;
        says("Volumes", "\"/data\"")?;
        says("ExposedPorts", "\"6379/tcp\"")?;
        says("Healthcheck", "\"CMD\",\"docker-healthcheck.sh\"")
    }

    /// Writes the image into a file that Docker and podman load.
    fn archive(&self, image: &str) -> Result<(), String> {
        let file = self.0.join("sleeve.tar");
        // An archive that is there would be added to.
        std::fs::remove_file(&file).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(format!("{}: {error}", file.display())),
        })?;
        let target = format!("docker-archive:{}:{TAG}", file.display());
        output_of(self.buildah().args(["push", "--quiet", image]).arg(target))?;
        println!("    the image: {}", file.display());
        println!("    load it: docker load -i {0}    or: podman load -i {0}", file.display());
        Ok(())
    }

    fn forget(&self, image: &str) -> Result<(), String> {
        output_of(self.buildah().args(["rmi", image])).map(|_| ())
    }
}

/// Runs every form in the image's files and with Redis's programs, and counts.
fn try_out(root: &Path, folder: &Path, only: &str, peers: Peers) -> Result<Count, String> {
    let report = folder.join("report");
    let mut trial = Command::new(workspace_root().join("packaging/image/trial.sh"));
    trial.arg(root).arg(&report).arg(only);
    for (variable, kind) in
        [("REDIS_SERVER", Kind::Redis), ("REDIS8_SERVER", Kind::Redis8), ("VALKEY_SERVER", Kind::Valkey)]
    {
        match kind.binary() {
            Ok(binary) => trial.env(variable, binary),
            Err(_) if peers == Peers::Present => trial.env(variable, ""),
            Err(reason) => return Err(reason),
        };
    }
    let ended = run(&mut trial);
    let lines = std::fs::read_to_string(&report).map_err(|error| format!("{}: {error}", report.display()))?;
    let count = |word: &str| lines.lines().filter(|line| line.starts_with(word)).count();
    let said = lines.lines().filter(|line| line.starts_with("failed")).map(str::to_owned).collect();
    let count = Count { passed: count("passed"), failed: count("failed"), skipped: count("skipped"), said };
    // A trial that broke off before it counted a failure is one.
    if count.failed == 0 { ended.map(|()| count) } else { Ok(count) }
}

fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}
