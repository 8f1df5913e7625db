//! The origin of an instruction: the source file from which it was compiled, and that file's crate.
//!
//! The process's memory map says which file an address was loaded from and where; `addr2line` reads the debug information of
//! the program. It names the innermost function's file, so inlined code counts for the file in which it is written.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::Command;

use crate::steps::output_of;

/// The origin of an instruction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The crate or, for other code, its origin: `std`, a package, a shared library.
    pub room: String,
    /// The file, below the crate's `src`, if the crate is one of this workspace.
    pub file: Option<String>,
}

/// Returns the place of each instruction, given the program's file and the memory map of the process that ran it.
///
/// # Errors
/// A map that does not name the program, or an error of addr2line.
pub fn find(program: &Path, map: &str, instructions: &[u64]) -> Result<Vec<Place>, String> {
    let regions = regions(map);
    let name = program.to_string_lossy();
    let base = regions.iter().filter(|region| region.file == name).map(|region| region.start).min();
    let base = base.ok_or_else(|| format!("the process has no {name} in its memory"))?;
    let mut addresses = instructions.to_vec();
    addresses.sort_unstable();
    addresses.dedup();
    let (own, foreign): (Vec<u64>, Vec<u64>) =
        addresses.into_iter().partition(|&address| region_of(&regions, address).is_some_and(|file| file == name));
    let lines = lines(program, &own.iter().map(|address| address - base).collect::<Vec<_>>())?;
    let mut places: HashMap<u64, Place> = own.into_iter().zip(places_of(&lines)).collect();
    places.extend(foreign.into_iter().map(|address| {
        let library = region_of(&regions, address).and_then(|file| file.rsplit('/').next()).unwrap_or_default();
        (address, Place { room: library_name(library), file: None })
    }));
    Ok(instructions.iter().map(|address| places[address].clone()).collect())
}

/// A stretch of memory that a file was loaded into.
struct Region<'a> {
    start: u64,
    end: u64,
    file: &'a str,
}

/// Returns the files of a memory map in the form of `/proc/PID/maps`.
fn regions(map: &str) -> Vec<Region<'_>> {
    let region = |line| -> Option<Region<'_>> {
        let (range, rest): (&str, &str) = str::split_once(line, ' ')?;
        let (start, end) = range.split_once('-')?;
        let file = &rest[rest.find('/')?..];
        Some(Region { start: u64::from_str_radix(start, 16).ok()?, end: u64::from_str_radix(end, 16).ok()?, file })
    };
    map.lines().filter_map(region).collect()
}

fn region_of<'a>(regions: &[Region<'a>], address: u64) -> Option<&'a str> {
    let region = regions.iter().find(|region| (region.start..region.end).contains(&address));
    region.map(|region| region.file)
}

/// Returns `libc` for `libc.so.6`; the system's libraries are named as they are linked.
fn library_name(file: &str) -> String {
    let name = file.split(".so").next().unwrap_or_default();
    if name.is_empty() { "elsewhere".to_owned() } else { name.to_owned() }
}

/// Returns the source file and line of each offset in a program, as addr2line prints them.
fn lines(program: &Path, offsets: &[u64]) -> Result<Vec<String>, String> {
    let list = std::env::temp_dir().join(format!("sleeve-walk-{}", std::process::id()));
    let text: String = offsets.iter().map(|offset| format!("{offset:#x}\n")).collect();
    std::fs::write(&list, text).map_err(|error| format!("cannot write {}: {error}", list.display()))?;
    let output = output_of(Command::new("addr2line").arg("-e").arg(program).arg(format!("@{}", list.display())));
    let _ = std::fs::remove_file(&list);
    let lines: Vec<String> = output?.lines().map(str::to_owned).collect();
    if lines.len() == offsets.len() { Ok(lines) } else { Err("addr2line answered something else".to_owned()) }
}

/// Returns the places of lines of source. An instruction that serves several lines has a file but no line, `PATH:?`. Such a
/// place alone is no sign that the file was entered, because the file may be one that was not.
fn places_of(lines: &[String]) -> Vec<Place> {
    let has_line =
        |line: &&String| line.split(':').nth(1).is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()));
    let entered: HashSet<Place> = lines.iter().filter(has_line).map(|line| place(line)).collect();
    let nowhere = Place { room: "without a source line".to_owned(), file: None };
    let of_file = |place: &Place| place.file.is_none() || entered.contains(place);
    lines.iter().map(|line| Some(place(line)).filter(of_file).unwrap_or_else(|| nowhere.clone())).collect()
}

/// Returns the place of a line of source, `PATH:LINE`.
fn place(line: &str) -> Place {
    let path = line.split(':').next().unwrap_or_default();
    let foreign = |room: &str| Place { room: room.to_owned(), file: None };
    if let Some((_, package)) = path.split_once("/registry/src/") {
        // Behind the registry's name stand the package and its version, as in `memchr-2.8.3/src/lib.rs`.
        let package = package.split('/').nth(1).unwrap_or_default();
        return foreign(package.rsplit_once('-').map_or(package, |(name, _)| name));
    }
    if path.starts_with("library/") || path.contains("/library/") {
        return foreign("std");
    }
    let own = path.split_once("crates/").and_then(|(_, path)| path.split_once('/'));
    match own.and_then(|(room, path)| Some((room, path.strip_prefix("src/")?))) {
        Some((room, file)) => Place { room: room.to_owned(), file: Some(file.to_owned()) },
        None if path.ends_with("benches/walk.rs") => foreign("the caller's own program"),
        None => foreign("without a source file"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, find, place, places_of, region_of, regions};

    #[test]
    fn a_line_of_source_belongs_to_a_crate() {
        let told = |line: &str| {
            let Place { room, file } = place(line);
            file.map_or(room.clone(), |file| format!("{room}: {file}"))
        };
        assert_eq!(told("/somewhere/crates/server/src/net/epoll.rs:12"), "server: net/epoll.rs");
        assert_eq!(told("crates/wire/src/request.rs:7 (discriminator 3)"), "wire: request.rs");
        assert_eq!(told("/cargo/registry/src/index.crates.io-19/parking_lot-0.12.5/src/mutex.rs:9"), "parking_lot");
        assert_eq!(told("/cargo/registry/src/index-19/libmimalloc-sys-0.1.49/c_src/page.c:9"), "libmimalloc-sys");
        assert_eq!(told("/rustc/59807/library/core/src/../../stdarch/crates/core_arch/src/simd.rs:1"), "std");
        assert_eq!(told("library/core/src/option.rs:1"), "std");
        assert_eq!(told("/somewhere/crates/client/benches/walk.rs:30"), "the caller's own program");
        assert_eq!(told("??:0"), "without a source file");
    }

    #[test]
    fn a_file_of_which_no_line_is_known_was_not_entered() {
        let lines =
            ["crates/wire/src/request.rs:7", "crates/wire/src/request.rs:?", "crates/wire/src/reply.rs:?", "??:0"];
        let places = places_of(&lines.map(str::to_owned));
        assert_eq!((&places[0], places[0].file.as_deref()), (&places[1], Some("request.rs")));
        assert_eq!(places[2].room, "without a source line");
        assert_eq!(places[3].room, "without a source file");
    }

    const MAP: &str = "\
00108000-0012c000 r--p 00000000 fe:00 512 /somewhere/sleeve
0012c000-00130000 r-xp 00023000 fe:00 512 /somewhere/sleeve
04840000-04862000 r-xp 00001000 fe:00 77 /lib/libc.so.6
1ffefff000-1fff001000 rw-p 00000000 00:00 0 [stack]
";

    #[test]
    fn an_address_belongs_to_the_file_that_was_loaded_there() {
        let regions = regions(MAP);
        assert_eq!(region_of(&regions, 0x12_c000), Some("/somewhere/sleeve"));
        assert_eq!(region_of(&regions, 0x13_0000), None);
        assert_eq!(region_of(&regions, 0x484_0001), Some("/lib/libc.so.6"));
        assert!(find("/somewhere/else".as_ref(), MAP, &[1]).is_err_and(|reason| reason.contains("/somewhere/else")));
    }

    #[test]
    fn this_program_is_found_in_itself() {
        let program = std::env::current_exe().expect("a running test has a file");
        let map = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
        let address = find as fn(&std::path::Path, &str, &[u64]) -> _ as usize as u64;
        let found = find(&program, &map, &[address, 1, address]).expect("binutils are there");
        assert_eq!(found[0], found[2]);
        assert_eq!(found[1].room, "elsewhere");
        assert_eq!(found[0].room, "without a source file", "xtask is none of the crates");
    }
}
