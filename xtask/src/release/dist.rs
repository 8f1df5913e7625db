//! `dist`: the binary as it is handed on, stripped, with its debug information in a file beside it.
//!
//! The binary names that file (a `.gnu_debuglink` section, as GDB's manual describes it under "Separate Debug Files"), so
//! debuggers, `perf` and the backtraces of the program itself find it when both lie in one folder. Without it, the
//! program runs all the same, and a backtrace has addresses only.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::{build_sleeve, is_installed, output_of, target_folder};

/// Builds for release and puts both files into `target/dist`.
///
/// # Errors
/// When it does not compile, or `objcopy` is missing or fails.
pub fn run() -> Result<(), String> {
    let stripped = build()?;
    print!("{}", output_of(Command::new(&stripped).arg("--version"))?);
    Ok(())
}

/// Builds as [`run`] does, and returns the path of the stripped binary.
///
/// # Errors
/// As [`run`].
pub fn build() -> Result<PathBuf, String> {
    let folder = target_folder()?.join("dist");
    let files = split(&build_sleeve("release")?, &folder)?;
    for file in &files {
        let bytes = std::fs::metadata(file).map_err(|error| error.to_string())?.len();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        println!("target/dist/{name:<14} {:>6.1} MB", bytes as f64 / 1e6);
    }
    let [stripped, _] = files;
    Ok(stripped)
}

/// Writes a stripped copy of a binary and its debug information into a folder; returns their paths in this order.
///
/// # Errors
/// When `objcopy` is missing or fails.
pub fn split(binary: &Path, folder: &Path) -> Result<[PathBuf; 2], String> {
    if !is_installed("objcopy") {
        return Err("objcopy is missing, on Debian: apt-get install binutils".to_owned());
    }
    std::fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let name = binary.file_name().unwrap_or_default();
    let debug = folder.join(name).with_extension("debug");
    let stripped = folder.join(name);
    output_of(objcopy().args(["--only-keep-debug", "--compress-debug-sections"]).args([binary, &debug]))?;
    // The link holds the file's bare name and a sum of its content, so it is made where the file is.
    let link = format!("--add-gnu-debuglink={}", debug.display());
    output_of(objcopy().args(["--strip-all", &link]).args([binary, &stripped]))?;
    Ok([stripped, debug])
}

fn objcopy() -> Command {
    Command::new("objcopy")
}

#[cfg(test)]
mod tests {
    use super::split;
    use crate::steps::output_of;
    use std::process::Command;

    #[test]
    fn a_stripped_program_runs_and_names_its_debug_information() {
        let this = std::env::current_exe().expect("a running test has a file");
        let folder = std::env::temp_dir().join(format!("sleeve-dist-{}", std::process::id()));
        let [stripped, debug] = split(&this, &folder).expect("objcopy comes with the linker");
        let size = |path| std::fs::metadata(path).expect("it was written").len();
        assert!(size(&stripped) < size(&this), "{} of {}", size(&stripped), size(&this));
        let bytes = std::fs::read(&stripped).expect("it was written");
        let name = debug.file_name().expect("a file").to_str().expect("our own name").as_bytes();
        assert!(bytes.windows(name.len()).any(|window| window == name), "no link");
        let tests = output_of(Command::new(&stripped).arg("--list")).expect("it runs");
        assert!(tests.contains("a_stripped_program_runs"), "{tests}");
        std::fs::remove_dir_all(&folder).expect("the folder is ours");
    }
}
