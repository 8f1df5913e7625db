//! The machine that the figures were read on, as far as figures depend on it: CPU, memory, kernel. Never a path.

use std::time::{SystemTime, UNIX_EPOCH};

/// The facts about the machine that the page states.
#[derive(Debug)]
pub struct Machine {
    /// `YYYY-MM-DD`, UTC.
    pub date: String,
    /// The processor's name.
    pub cpu: String,
    /// A name for files: small letters, digits and hyphens.
    pub short_name: String,
    pub cpus: usize,
    pub memory_gib: u64,
    pub kernel: String,
}

/// Reads it from the kernel.
pub fn describe() -> Machine {
    let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = field("/proc/meminfo", "MemTotal").unwrap_or_default();
    let memory_kib: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    Machine {
        date: date_of(seconds),
        short_name: format!("{}-{cpus}cpu", short(&cpu)),
        cpu,
        cpus,
        memory_gib: (memory_kib + (1 << 19)) >> 20,
        kernel: kernel.trim().to_owned(),
    }
}

/// Returns the first `name: value` of one of the kernel's files.
fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns the words of a processor's name that tell it from others.
fn short(cpu: &str) -> String {
    let cpu = cpu.split('@').next().unwrap_or_default().to_lowercase().replace("(r)", "").replace("(tm)", "");
    let noise = ["cpu", "processor", "with", "@"];
    let words = cpu.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty() && !noise.contains(word)).take(5).collect::<Vec<_>>().join("-")
}

/// Returns the civil date of a time since the epoch, by counting days in 400-year cycles that begin in March (the proleptic
/// Gregorian calendar, ISO 8601).
fn date_of(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (cycle, day_of_cycle) = (days / 146_097, days % 146_097);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = cycle * 400 + year_of_cycle + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::{date_of, short};

    #[test]
    fn dates() {
        assert_eq!(date_of(0), "1970-01-01");
        assert_eq!(date_of(951_782_400), "2000-02-29");
        assert_eq!(date_of(1_735_689_599), "2024-12-31");
        assert_eq!(date_of(4_107_542_400), "2100-03-01");
    }

    #[test]
    fn processors() {
        assert_eq!(short("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz"), "intel-xeon-e5-2680-v4");
        assert_eq!(short("AMD EPYC 7B13"), "amd-epyc-7b13");
    }
}
