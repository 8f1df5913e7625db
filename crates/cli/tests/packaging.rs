//! The files that packages install use only words that this program understands, and the unit keeps the server apart.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// The unit of systemd.
const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/sleeve.service");

/// The highest level of exposure that the unit may have by the measure of systemd, in tenths.
const EXPOSURE_MAX: u32 = 25;

/// The system calls of servers on x86-64 under each driver, of a primary and of a replica, as strace has counted them: starts,
/// snapshots, AOFs and their rewrites, replication, TLS, Unix sockets, scripts, HTTP, CONFIG SET and REWRITE, and the end.
const CALLS: &str = "\
    accept4 access arch_prctl bind brk clock_gettime clone3 close connect epoll_create1 epoll_ctl epoll_pwait \
    epoll_wait eventfd2 execve exit exit_group fchmod fchown fcntl fdatasync flock fstat fsync ftruncate futex \
    getcwd getdents64 getpeername getpid getrandom getsockname gettid io_uring_enter io_uring_register \
    io_uring_setup ioctl listen lseek madvise mkdir mmap mprotect munmap newfstatat open openat poll prctl pread64 \
    prlimit64 read readlink recvfrom rename rseq rt_sigaction rt_sigprocmask sched_getaffinity \
    sched_setscheduler sched_yield sendmsg sendto set_robust_list set_tid_address setsockopt shutdown sigaltstack \
    socket socketpair statx sysinfo uname unlink write writev";

/// Runs systemd-analyze, where it is installed.
fn analyze(arguments: &[&str]) -> Option<String> {
    let output = Command::new("systemd-analyze").args(arguments).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Adds the system calls of a set such as `@aio`, or one call, to `calls`.
fn expand(name: &str, calls: &mut BTreeSet<String>) -> Option<()> {
    if !name.starts_with('@') {
        calls.insert(name.to_owned());
        return Some(());
    }
    let text = analyze(&["syscall-filter", name])?;
    let members = text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    members.into_iter().try_for_each(|member| expand(member, calls))
}

/// Returns the system calls that the unit allows.
fn allowed() -> Option<BTreeSet<String>> {
    let unit = fs::read_to_string(UNIT).expect("the unit");
    let mut allowed = BTreeSet::new();
    for filter in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let (is_denial, names) = filter.strip_prefix('~').map_or((false, filter), |names| (true, names));
        let mut calls = BTreeSet::new();
        names.split(' ').try_for_each(|name| expand(name, &mut calls))?;
        match is_denial {
            true => allowed.retain(|call| !calls.contains(call)),
            false => allowed.append(&mut calls),
        }
    }
    Some(allowed)
}

#[test]
fn the_unit_allows_all_calls_of_the_server_and_is_little_exposed() {
    let Some(allowed) = allowed() else { return };
    let refused: Vec<_> = CALLS.split(' ').filter(|call| !allowed.contains(*call)).collect();
    assert!(refused.is_empty(), "{refused:?}");
    for call in ["mount", "ptrace", "setuid", "kexec_load", "init_module", "keyctl", "sched_setaffinity", "chown"] {
        assert!(!allowed.contains(call), "{call}");
    }
    // The older systemd-analyze judges only units that are loaded.
    let Some(text) = analyze(&["security", "--offline=true", "--no-pager", UNIT]) else { return };
    let Some((_, level)) = text.split_once("Overall exposure level for ") else { return };
    let level = level.split(' ').nth(1).expect("a level").replace('.', "");
    assert!(level.parse::<u32>().expect("a number") <= EXPOSURE_MAX, "{text}");
}

#[test]
fn a_server_would_start_with_the_packages_configuration() {
    let folder = std::env::temp_dir().join(format!("sleeve-test-packaging-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/sleeve.conf")).expect("a file");
    let here = ["/var/lib/sleeve", "/var/log/sleeve", "/run/sleeve"].iter().fold(text, |text, place| {
        assert!(text.contains(place), "{place}");
        text.replace(place, folder.to_str().expect("letters"))
    });
    // Options that are only proposed have to be right too.
    let proposed: String = here
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|rest| rest.split(' ').count() == 2).unwrap_or(line))
        .flat_map(|line| [line, "\n"])
        .collect();
    assert!(
        proposed.contains("\nappendonly yes\n") && proposed.contains("\nmaxmemory-policy allkeys-lru\n"),
        "{proposed}"
    );
    fs::write(folder.join("users.acl"), "").expect("a file");
    let proposed =
        proposed.replace("/etc/sleeve", folder.to_str().expect("letters")).replace("requirepass", "# requirepass");
    for text in [here, proposed] {
        let file = folder.join("sleeve.conf");
        fs::write(&file, &text).expect("it is ours");
        let checked = Command::new(env!("CARGO_BIN_EXE_sleeve")).args(["serve", "--check"]).arg(&file).output();
        let checked = checked.expect("it can be started");
        assert!(checked.status.success(), "{}\n{text}", String::from_utf8_lossy(&checked.stderr));
    }
    fs::remove_dir_all(&folder).expect("the folder is ours");
}
