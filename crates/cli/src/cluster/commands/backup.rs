//! `backup`: a snapshot of each primary, and the cluster's configuration, in a folder.
//!
//! A primary sends its snapshot as it would send it to a replica. It is written under a temporary name first, so that a transfer
//! that breaks leaves no file that looks like a backup.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use sleeve_disk::own;

use super::super::check;
use super::super::console::{Reported, complain};
use super::super::manager::Manager;
use super::super::node::Node;
use super::super::peer::Door;
use crate::endpoint::without_number;
use crate::output;

/// The length of the mark with which a snapshot of unknown length ends.
const MARK_LENGTH: usize = 40;

/// The longest line with which a snapshot begins.
const LINE_LENGTH_MAX: u64 = 4_096;

/// Writes the backup.
pub fn run(manager: &mut Manager) -> Result<(), Reported> {
    manager.load_by_first()?;
    let verdict = check::check(manager, false)?;
    let folder = manager.texts().get(1).cloned().unwrap_or_default();
    let errors = if verdict.is_sound { 0 } else { verdict.errors };
    let mut objects = Vec::new();
    let console = manager.console;
    for node in manager.view.members.iter().map(|member| &member.node) {
        objects.push(node.json(errors));
        if !node.is_replica() {
            console.step(format_args!(">>> Node {} -> Saving RDB...", node.address));
            save_snapshot(&manager.door, node, Path::new(&folder))?;
        }
    }
    let path = Path::new(&folder).join("nodes.json");
    console.step(format_args!("Saving cluster configuration to: {}", path.display()));
    let text = format!("[\n{}\n]", objects.join(",\n"));
    if let Err(error) = own::replace(&path, text.as_bytes(), 0o644) {
        console.error(format_args!("Could not save nodes to: {}: {}", path.display(), without_number(&error)));
        return console.fail(format_args!("[ERR] Failed to back cluster!"));
    }
    if !verdict.is_sound {
        console.warn(format_args!(
            "*** Cluster seems to have some problems, please be aware of it if you're going to restore this backup."
        ));
    }
    console.success(format_args!("[OK] Backup created into: {folder}"));
    Ok(())
}

/// Writes the snapshot of a primary to its file.
fn save_snapshot(door: &Door, node: &Node, folder: &Path) -> Result<(), Reported> {
    let name = format!("redis-node-{}-{}-{}.rdb", node.address.host, node.address.port, node.id);
    let path = folder.join(&name);
    let beside = folder.join(format!("{name}.{}.tmp", std::process::id()));
    let mut peer = door.open(&node.address)?;
    // A server that does not know the word sends the writes that follow too, which are not read.
    _ = peer.try_ask(&["REPLCONF", "rdb-only", "1"]);
    let Some(socket) = peer.socket() else { return Err(Reported) };
    let written = transfer(socket, &beside, &path);
    if let Err(error) = written {
        // The first error is the one to report.
        _ = own::remove(&beside);
        return complain(format_args!("Error saving '{}': {}", path.display(), without_number(&error)));
    }
    eprintln!("Transfer finished with success.");
    Ok(())
}

/// Asks for a snapshot and writes it, first beside its file.
fn transfer<S: Copy + Read + Write>(mut socket: S, beside: &Path, path: &Path) -> io::Result<()> {
    let mut file = own::open_or_create(beside, OpenOptions::new().write(true).create(true).truncate(true))?;
    socket.write_all(b"SYNC\r\n")?;
    let mut reader = BufReader::new(socket);
    let header = read_header(&mut reader)?;
    output::flush();
    match header.strip_prefix("EOF:").map(str::as_bytes) {
        Some(mark) if mark.len() == MARK_LENGTH => {
            eprintln!("SYNC sent to master, writing bytes of bulk transfer until EOF marker to '{}'", path.display());
            copy_to_mark(&mut reader, mark, &mut file)?;
        }
        _ => {
            let length: u64 =
                header.parse().map_err(|_| io::Error::other(format!("the snapshot begins with '${header}'")))?;
            eprintln!("SYNC sent to master, writing {length} bytes to '{}'", path.display());
            if io::copy(&mut reader.take(length), &mut file)? < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
    file.sync_all()?;
    own::rename(beside, path)
}

/// Reads the line before a snapshot, behind the empty lines with which the server says that it is still there.
fn read_header(reader: &mut impl BufRead) -> io::Result<String> {
    loop {
        let mut line = Vec::new();
        if reader.take(LINE_LENGTH_MAX).read_until(b'\n', &mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        match line.strip_prefix('$') {
            Some(header) => return Ok(header.to_owned()),
            None if line.is_empty() => {}
            None => return Err(io::Error::other(format!("SYNC with master failed: {line}"))),
        }
    }
}

/// Copies until the mark, which is not written.
fn copy_to_mark(reader: &mut impl Read, mark: &[u8], file: &mut File) -> io::Result<()> {
    let (mut kept, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    while !kept.ends_with(mark) {
        let length = reader.read(&mut chunk)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        kept.extend_from_slice(chunk.get(..length).unwrap_or_default());
        let ready = kept.len().saturating_sub(MARK_LENGTH);
        if !kept.ends_with(mark) {
            file.write_all(&kept[..ready])?;
            kept.drain(..ready);
        }
    }
    file.write_all(&kept[..kept.len() - mark.len()])
}
