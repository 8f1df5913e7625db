//! Figures as a report has them: with a unit, and as many digits as they deserve.

/// Returns a share as a report has it.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        share if share < 0.1 => "under 0.1 %".to_owned(),
        share if share < 9.95 => format!("{share:.1} %"),
        share => format!("{share:.0} %"),
    }
}

/// Returns microseconds as a report has them.
pub fn time(time_us: f64) -> String {
    match time_us {
        us if us < 999.5 => format!("{us:.0} us"),
        us if us < 999_500.0 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

/// Returns bytes as a report has them.
pub fn size(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1024.0 => format!("{bytes:.0} bytes"),
        bytes if bytes < 1024.0 * 1024.0 => format!("{:.0} KiB", bytes / 1024.0),
        bytes => format!("{:.1} MiB", bytes / 1024.0 / 1024.0),
    }
}
