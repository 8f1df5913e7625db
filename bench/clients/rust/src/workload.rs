//! The workloads, the same for each library, and how they are measured.

use std::future::Future;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use rustix::time::{ClockId, clock_gettime};

/// The key that is read.
pub const KEY: &str = "clients:key";
/// Its value.
pub const VALUE: &str = "a value of some length";
/// The counter of a database.
pub const COUNTER: &str = "clients:counter";
/// Databases in which counters are incremented, from 0 on.
pub const DATABASES: u32 = 5;

/// Commands of one pipeline, where SETs travel in pipelines.
pub const PIPELINE: u64 = 10_000;

/// The result of a call.
pub type Done = Result<(), String>;

/// A client library in its own idiom. A clone stands for the same connections.
pub trait Library: Clone + Send + Sync + 'static {
    /// Opens the connections that the workloads need: one for each database, or one for all where the library can do that.
    fn connect(url: &str) -> impl Future<Output = Result<Self, String>> + Send;

    /// Writes the keys that the workloads read.
    fn prepare(&self) -> impl Future<Output = Done> + Send;

    /// GET of [`KEY`], its value compared.
    fn get(&self) -> impl Future<Output = Done> + Send;

    /// PING.
    fn ping(&self) -> impl Future<Output = Done> + Send;

    /// INCR of [`COUNTER`] in a database.
    fn increment(&self, database: u32) -> impl Future<Output = Done> + Send;

    /// GETs of [`KEY`] from one task, `at_once` of them in flight at any time, as the library does that best.
    fn fan_out(&self, calls: u64, at_once: usize) -> impl Future<Output = Done> + Send {
        async move {
            let mut flying = FuturesUnordered::new();
            for _ in 0..calls {
                if flying.len() == at_once {
                    flying.next().await.unwrap_or(Ok(()))?;
                }
                flying.push(self.get());
            }
            while let Some(done) = flying.next().await {
                done?;
            }
            Ok(())
        }
    }

    /// SETs of distinct keys ([`mass_key`]) to the same 16 bytes, as the library does that best; done when the server has
    /// answered them all.
    fn mass_set(&self, calls: u64) -> impl Future<Output = Done> + Send;
}

/// Returns the key of a SET of the workload `mass-set`.
pub fn mass_key(number: u64) -> String {
    format!("set:{number:012}")
}

/// The value of each.
pub const MASS_VALUE: &str = "0123456789abcdef";

/// Compares the value that was read.
///
/// # Errors
/// When it is something else.
pub fn expect(value: &str) -> Done {
    if value == VALUE { Ok(()) } else { Err(format!("GET gave {value:?}")) }
}

/// The kind of calls that a run makes.
#[derive(Clone, Copy, Debug)]
pub enum Workload {
    /// So many tasks, each of which awaits one GET after the other.
    Callers(u64),
    /// One task awaits 1,000 PINGs one after the other, again and again.
    PingsAwaited,
    /// 1,000 PINGs joined in one task, again and again.
    Pings,
    /// 5,000 INCRs over five databases joined in one task, again and again.
    Increments,
    /// One task with 10,000 GETs in flight.
    FanOut,
    /// 1,000,000 SETs.
    MassSet,
}

impl Workload {
    /// Returns the workload of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn parse(name: &str) -> Result<Workload, String> {
        let known = [
            ("callers-1", Workload::Callers(1)),
            ("callers-64", Workload::Callers(64)),
            ("callers-512", Workload::Callers(512)),
            ("pings-awaited", Workload::PingsAwaited),
            ("pings", Workload::Pings),
            ("increments", Workload::Increments),
            ("fan-out", Workload::FanOut),
            ("mass-set", Workload::MassSet),
        ];
        let found = known.iter().find(|(known, _)| *known == name).map(|(_, workload)| *workload);
        found.ok_or_else(|| format!("there is no workload {name:?}: {}", known.map(|(name, _)| name).join(", ")))
    }

    /// Runs it.
    ///
    /// # Errors
    /// When a call fails or gives something wrong.
    pub async fn run<L: Library>(self, library: L) -> Result<Measured, String> {
        library.get().await?;
        let (watch, calls, mut latencies) = (Watch::start(), self.calls(), Vec::new());
        match self {
            Workload::Callers(tasks) => latencies = callers(&library, tasks, calls / tasks).await?,
            Workload::PingsAwaited => {
                for _ in 0..calls {
                    library.ping().await?;
                }
            }
            Workload::Pings => {
                for _ in 0..calls / 1_000 {
                    try_join_all((0..1_000).map(|_| library.ping())).await?;
                }
            }
            Workload::Increments => {
                for _ in 0..calls / 5_000 {
                    try_join_all((0..5_000).map(|number| library.increment(number % DATABASES))).await?;
                }
            }
            Workload::FanOut => library.fan_out(calls, 10_000).await?,
            Workload::MassSet => library.mass_set(calls).await?,
        }
        Ok(watch.stop(calls, latencies))
    }

    /// Returns true if a single task makes every call, so that the task itself belongs on the runtime.
    pub fn is_one_task(self) -> bool {
        matches!(self, Workload::PingsAwaited)
    }

    /// Returns how many calls are made.
    pub fn calls(self) -> u64 {
        match self {
            Workload::Callers(1) | Workload::PingsAwaited => 20_000,
            Workload::Callers(tasks) => 400_000 / tasks * tasks,
            Workload::Pings | Workload::Increments => 200_000,
            Workload::FanOut | Workload::MassSet => 1_000_000,
        }
    }
}

/// Tasks that each await one GET after the other; how long each call took.
async fn callers<L: Library>(library: &L, tasks: u64, calls_each: u64) -> Result<Vec<Duration>, String> {
    let start = |_| {
        let library = library.clone();
        tokio::spawn(async move {
            let mut latencies = Vec::with_capacity(calls_each as usize);
            for _ in 0..calls_each {
                let begun = Instant::now();
                library.get().await?;
                latencies.push(begun.elapsed());
            }
            Ok::<_, String>(latencies)
        })
    };
    let started: Vec<_> = (0..tasks).map(start).collect();
    let mut all = Vec::new();
    for task in started {
        all.extend(task.await.map_err(|error| error.to_string())??);
    }
    Ok(all)
}

/// Time and CPU time since a moment.
pub struct Watch(Instant, Duration);

impl Watch {
    /// Begins to measure.
    pub fn start() -> Watch {
        Watch(Instant::now(), own_cpu())
    }

    /// Ends the measurement, of so many calls.
    pub fn stop(self, calls: u64, latencies: Vec<Duration>) -> Measured {
        Measured { calls, elapsed: self.0.elapsed(), cpu: own_cpu().saturating_sub(self.1), latencies }
    }
}

/// CPU time of all threads of this process, those that have ended included.
fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The result of a run.
#[derive(Debug)]
pub struct Measured {
    calls: u64,
    elapsed: Duration,
    cpu: Duration,
    latencies: Vec<Duration>,
}

impl Measured {
    /// Returns the result as one line of JSON.
    pub fn into_json(mut self) -> String {
        self.latencies.sort_unstable();
        let p99 = self.latencies.get(self.latencies.len() * 99 / 100);
        let p99 = p99.map_or("null".to_owned(), |latency| format!("{:.1}", latency.as_secs_f64() * 1e6));
        let (seconds, cpu) = (self.elapsed.as_secs_f64(), self.cpu.as_secs_f64());
        format!("{{\"calls\":{},\"seconds\":{seconds:.6},\"cpu_seconds\":{cpu:.6},\"p99_us\":{p99}}}", self.calls)
    }
}
