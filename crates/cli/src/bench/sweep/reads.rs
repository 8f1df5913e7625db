//! The cost of a read, synchronous and asynchronous, by the number of its bytes: the second micro-benchmark of the document
//! about asynchronous servers, which read from a stream in memory. Here the stream is a Unix socket, so that the bytes take a
//! system call, as those of a server do.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;

/// The sizes of a read in bytes: those of the document.
pub const BYTES: [usize; 5] = [256, 1024, 4096, 16_384, 65_536];

/// The number of reads of each size and kind.
const READS: u32 = 5_000;

/// A way to read, and the nanoseconds that a read of each of [`BYTES`] takes.
pub type ReadCost = (String, Vec<f64>);

/// Measures all ways to read, in half a second or so.
///
/// # Errors
/// The errors of the sockets and of the runtime.
pub fn measure() -> io::Result<Vec<ReadCost>> {
    let of = |way: fn(usize) -> io::Result<Duration>| {
        let taken: io::Result<Vec<Duration>> = BYTES.into_iter().map(way).collect();
        Ok::<_, io::Error>(taken?.iter().map(|taken| taken.as_nanos() as f64 / f64::from(READS)).collect::<Vec<_>>())
    };
    Ok(vec![
        ("synchronous, the bytes are there".to_owned(), of(synchronous)?),
        ("asynchronous, the bytes are there".to_owned(), of(|bytes| asynchronous(bytes, false))?),
        ("asynchronous, the task sleeps first".to_owned(), of(|bytes| asynchronous(bytes, true))?),
    ])
}

/// Returns both ends of a stream, and the bytes that are sent each time.
fn stream(bytes: usize) -> io::Result<(UnixStream, UnixStream, Vec<u8>)> {
    let (near, far) = UnixStream::pair()?;
    Ok((near, far, vec![b'x'; bytes]))
}

/// Returns the time of all reads by a thread that may block. The time of the writes does not count.
fn synchronous(bytes: usize) -> io::Result<Duration> {
    let (mut near, mut far, mut sent) = stream(bytes)?;
    let mut taken = Duration::ZERO;
    for _ in 0..READS {
        far.write_all(&sent)?;
        let begun = Instant::now();
        near.read_exact(&mut sent)?;
        taken += begun.elapsed();
        black_box(&sent);
    }
    Ok(taken)
}

/// Returns the time of all reads by a task of tokio. If it `sleeps` first, the bytes are sent only when the task waits for
/// them, and the runtime finds them by its event loop; the time counts from then on.
fn asynchronous(bytes: usize, sleeps: bool) -> io::Result<Duration> {
    let (near, mut far, mut sent) = stream(bytes)?;
    near.set_nonblocking(true)?;
    Builder::new_current_thread().enable_io().build()?.block_on(async {
        let near = tokio::net::UnixStream::from_std(near)?;
        let mut taken = Duration::ZERO;
        for _ in 0..READS {
            if sleeps {
                let (mut sender, message) = (far.try_clone()?, sent.clone());
                // The task below has its turn when this one waits.
                let sending = tokio::spawn(async move { sender.write_all(&message).map(|()| Instant::now()) });
                read_exact(&near, &mut sent).await?;
                let read_at = Instant::now();
                let sent_at = sending.await.map_err(io::Error::other)??;
                taken += read_at.saturating_duration_since(sent_at);
            } else {
                far.write_all(&sent)?;
                // The event loop has its turn, so that the stream is known to be readable.
                tokio::task::yield_now().await;
                let begun = Instant::now();
                read_exact(&near, &mut sent).await?;
                taken += begun.elapsed();
            }
            black_box(&sent);
        }
        Ok(taken)
    })
}

/// Reads until the room is full.
async fn read_exact(stream: &tokio::net::UnixStream, room: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while let Some(rest) = room.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        stream.readable().await?;
        match stream.try_read(rest) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_reads_every_size() {
        for (way, nanoseconds) in measure().unwrap() {
            assert_eq!(nanoseconds.len(), BYTES.len(), "{way}");
            assert!(nanoseconds.iter().all(|nanoseconds| *nanoseconds > 0.0), "{way}");
        }
    }
}
