//! The kernel's facts about this process and this machine, for INFO.
//!
//! Facts are read when they are needed and never kept. A fact that cannot be read is zero or empty, so that INFO does not
//! fail for the lack of a figure. Linux only; any thread.

use std::fs;

/// CPU time, in microseconds; the kernel counts it in ticks of usually 10 ms.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuTimes {
    /// The time used by the program itself.
    pub user_us: u64,
    /// The time used by the kernel on the program's behalf.
    pub system_us: u64,
    /// The user time of child processes that have ended.
    pub children_user_us: u64,
    /// The system time of child processes that have ended.
    pub children_system_us: u64,
}

/// Returns the CPU time of the whole process.
pub fn cpu_times() -> CpuTimes {
    cpu_times_in("/proc/self/stat")
}

/// Returns the CPU time of the process's first thread.
pub fn main_thread_cpu_times() -> CpuTimes {
    cpu_times_in(&format!("/proc/self/task/{}/stat", std::process::id()))
}

fn cpu_times_in(path: &str) -> CpuTimes {
    let stat = fs::read_to_string(path).unwrap_or_default();
    // The second field is the program's name in parentheses and may contain any characters; the other fields are counted from
    // its end.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let tick_us = 1_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let field_us = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) * tick_us;
    CpuTimes {
        user_us: field_us(11),
        system_us: field_us(12),
        children_user_us: field_us(13),
        children_system_us: field_us(14),
    }
}

/// Returns the bytes of physical memory that the process occupies, and how many of them belong to no file: its data, its
/// heaps and the stacks of its threads.
pub fn resident() -> (u64, u64) {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut fields = statm.split_whitespace().skip(1).map(|text| text.parse::<u64>().unwrap_or(0));
    let [resident, shared] = [(); 2].map(|()| fields.next().unwrap_or(0) * rustix::param::page_size() as u64);
    (resident, resident.saturating_sub(shared))
}

/// Returns the bytes of the machine's physical memory.
pub fn machine_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram * u64::from(info.mem_unit)
}

/// Returns the system's name, release and machine, as in `Linux 6.1.0 x86_64`.
pub fn system_name() -> String {
    let name = rustix::system::uname();
    [name.sysname(), name.release(), name.machine()].map(|part| part.to_string_lossy().into_owned()).join(" ")
}

/// Returns the path of the running program.
pub fn executable() -> String {
    std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default()
}

/// The identity of a process: its number together with the kernel and the namespace in which the number is valid, so that
/// another process can tell whether it means the same process.
#[derive(Debug)]
pub struct Whereabouts {
    /// The id of the running kernel, which it chooses when it starts.
    pub boot: String,
    /// The namespace in which the process's number is valid.
    pub processes: String,
    /// The process's number in that namespace.
    pub process: u32,
}

/// Returns the identity of this process; None if the kernel does not tell it.
pub fn whereabouts() -> Option<Whereabouts> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim_end().to_owned();
    let processes = fs::read_link("/proc/self/ns/pid").ok()?.to_str()?.to_owned();
    Some(Whereabouts { boot, processes, process: std::process::id() })
}

/// Returns the network namespace of this process, in which its addresses and ports are valid; None if the kernel does not
/// tell it.
pub fn network() -> Option<String> {
    Some(fs::read_link("/proc/self/ns/net").ok()?.to_str()?.to_owned())
}

/// The number of descriptors that are not for clients: listening sockets, files, the workers' own.
const DESCRIPTORS_RESERVED: u64 = 32;

/// Returns how many of the `wanted` clients the process may have at a time. Raises its limit of descriptors as far as the
/// system allows.
pub fn clients_possible(wanted: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let needed = wanted.saturating_add(DESCRIPTORS_RESERVED);
    let now = getrlimit(Resource::Nofile);
    let current = now.current.unwrap_or(u64::MAX);
    if current >= needed {
        return wanted;
    }
    let most = now.maximum.unwrap_or(u64::MAX);
    // Only a privileged process may go beyond the hard limit; any other process takes the hard limit itself.
    let tries = [(needed, most.max(needed)), (needed.min(most), most)];
    for (soft, hard) in tries {
        let limit = Rlimit { current: Some(soft), maximum: Some(hard).filter(|hard| *hard != u64::MAX) };
        if setrlimit(Resource::Nofile, limit).is_ok() {
            return soft.saturating_sub(DESCRIPTORS_RESERVED).min(wanted);
        }
    }
    current.saturating_sub(DESCRIPTORS_RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_this_process() {
        let (resident_bytes, own_bytes) = resident();
        assert!(own_bytes > 0 && own_bytes < resident_bytes);
        assert!(machine_bytes() > resident_bytes);
        assert!(system_name().starts_with("Linux "));
        assert!(executable().starts_with('/'));
        let times = cpu_times();
        let main = main_thread_cpu_times();
        assert!(main.user_us <= times.user_us.max(main.user_us));
    }
}
