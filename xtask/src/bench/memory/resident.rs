//! Resident memory once it has come to rest: servers tidy up in the background.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::super::effort::Effort;
use super::super::fleet::Contender;
use super::super::process;
use sleeve_tests::Server;

/// The name that `--only` takes.
pub const NAME: &str = "memory";

/// The time without shrinking after which memory is at rest, and the longest time to wait for that.
const REST: Duration = Duration::from_secs(2);
const REST_MAX: Duration = Duration::from_secs(30);

/// Returns the servers to measure. Sizes need no rounds, but a tenth of them would be another size, so a quick run leaves out
/// the other servers instead.
pub fn contenders(effort: Effort) -> Vec<Contender> {
    let all = [Contender::SLEEVE, Contender::REDIS, Contender::REDIS8, Contender::VALKEY];
    all[..if effort.divisor > 1 { 1 } else { all.len() }].to_vec()
}

/// Returns the resident memory of a server that has come to rest.
///
/// # Errors
/// When there is no such process.
pub fn at_rest(server: &Server) -> Result<u64, String> {
    let begun = Instant::now();
    let (mut least, mut since) = (process::resident_bytes(server.process_id())?, begun);
    while since.elapsed() < REST && begun.elapsed() < REST_MAX {
        sleep(Duration::from_millis(100));
        let now = process::resident_bytes(server.process_id())?;
        // A page or two come and go.
        if now + 64 * 1024 < least {
            (least, since) = (now, Instant::now());
        }
    }
    process::resident_bytes(server.process_id())
}
