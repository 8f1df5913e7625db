//! redis-rs: multiplexed connections of tokio, one a database, and pipelines; for threads, a pool of blocking connections.

use redis::aio::MultiplexedConnection;

use crate::blocking;
use crate::workload::{
    COUNTER, DATABASES, Done, KEY, Library, MASS_VALUE, Measured, PIPELINE, VALUE, Workload, expect, mass_key,
};

/// The number of connections of the pool: one for each thread of the largest workload that is measured with threads.
const POOL_SIZE: u32 = 64;

#[derive(Clone)]
pub struct RedisRs(Vec<MultiplexedConnection>);

fn told(error: redis::RedisError) -> String {
    error.to_string()
}

impl Library for RedisRs {
    async fn connect(url: &str) -> Result<Self, String> {
        let mut connections = Vec::new();
        for database in 0..DATABASES {
            let client = redis::Client::open(format!("{url}/{database}")).map_err(told)?;
            connections.push(client.get_multiplexed_async_connection().await.map_err(told)?);
        }
        Ok(RedisRs(connections))
    }

    async fn prepare(&self) -> Done {
        redis::cmd("SET").arg(KEY).arg(VALUE).exec_async(&mut self.0[0].clone()).await.map_err(told)
    }

    async fn get(&self) -> Done {
        let value: String = redis::cmd("GET").arg(KEY).query_async(&mut self.0[0].clone()).await.map_err(told)?;
        expect(&value)
    }

    async fn ping(&self) -> Done {
        redis::cmd("PING").exec_async(&mut self.0[0].clone()).await.map_err(told)
    }

    async fn increment(&self, database: u32) -> Done {
        let mut connection = self.0[database as usize].clone();
        redis::cmd("INCR").arg(COUNTER).exec_async(&mut connection).await.map_err(told)
    }

    async fn mass_set(&self, calls: u64) -> Done {
        let mut connection = self.0[0].clone();
        for first in (0..calls).step_by(PIPELINE as usize) {
            let mut pipeline = redis::Pipeline::with_capacity(PIPELINE as usize);
            for number in first..(first + PIPELINE).min(calls) {
                pipeline.cmd("SET").arg(mass_key(number)).arg(MASS_VALUE).ignore();
            }
            pipeline.exec_async(&mut connection).await.map_err(told)?;
        }
        Ok(())
    }
}

/// Runs callers that are threads, each with a blocking connection that it takes from a pool and keeps.
///
/// # Errors
/// When a call fails or gives something wrong, or there are more threads than connections.
pub fn in_threads(url: &str, workload: Workload) -> Result<Measured, String> {
    let client = redis::Client::open(url).map_err(told)?;
    let pool = r2d2::Pool::builder().max_size(POOL_SIZE).build(client).map_err(|error| error.to_string())?;
    let mut first = pool.get().map_err(|error| error.to_string())?;
    redis::cmd("SET").arg(KEY).arg(VALUE).exec(&mut first).map_err(told)?;
    drop(first);
    blocking::measure(workload, || {
        let mut connection = pool.get().map_err(|error| error.to_string())?;
        Ok(move || expect(&redis::cmd("GET").arg(KEY).query::<String>(&mut connection).map_err(told)?))
    })
}
