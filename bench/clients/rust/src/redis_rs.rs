//! redis-rs: multiplexed connections of tokio, one a database, and pipelines.

use redis::aio::MultiplexedConnection;

use crate::workload::{COUNTER, DATABASES, Done, KEY, Library, MASS_VALUE, PIPELINE, VALUE, expect, mass_key};

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
