//! Facts about a server's process from the kernel (proc(5)).

use std::fs;

/// CPU time of all present and former threads of a process, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct CpuTime {
    /// The time in the program itself.
    pub user: f64,
    /// The time in the kernel on the program's behalf.
    pub kernel: f64,
}

/// Returns the CPU time of a process: fields 14 and 15 of `stat`, in hundredths of a second. The kernel may have taken the
/// share of each from samples.
///
/// # Errors
/// When there is no such process.
pub fn cpu_time(process_id: u32) -> Result<CpuTime, String> {
    let text = fs::read_to_string(format!("/proc/{process_id}/stat")).map_err(|error| error.to_string())?;
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: Vec<u64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    match ticks[..] {
        [user, kernel] => Ok(CpuTime { user: user as f64 / 100.0, kernel: kernel as f64 / 100.0 }),
        _ => Err("no times in stat".to_owned()),
    }
}

/// Returns the CPU time of a process, in seconds.
///
/// # Errors
/// As [`cpu_time`].
pub fn cpu_seconds(process_id: u32) -> Result<f64, String> {
    cpu_time(process_id).map(|time| time.user + time.kernel)
}

/// Returns the resident memory of a process.
///
/// # Errors
/// As [`cpu_time`].
pub fn resident_bytes(process_id: u32) -> Result<u64, String> {
    status(process_id, "VmRSS:")
}

/// Returns the largest resident memory since [`forget_peak`].
///
/// # Errors
/// As [`cpu_time`].
pub fn peak_bytes(process_id: u32) -> Result<u64, String> {
    status(process_id, "VmHWM:")
}

/// Resets the peak of resident memory.
///
/// # Errors
/// When the system does not allow it.
pub fn forget_peak(process_id: u32) -> Result<(), String> {
    fs::write(format!("/proc/{process_id}/clear_refs"), "5").map_err(|error| error.to_string())
}

/// Returns a line of `status`, which Linux gives in KiB.
fn status(process_id: u32, name: &str) -> Result<u64, String> {
    let text = fs::read_to_string(format!("/proc/{process_id}/status")).map_err(|error| error.to_string())?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let line = line.ok_or_else(|| format!("the process has no {name}"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().map_err(|_| format!("{name} is no number"))?;
    Ok(kib * 1024)
}
