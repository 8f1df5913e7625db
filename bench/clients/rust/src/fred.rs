//! fred: a client a database, and pipelines.

use fred::prelude::*;

use crate::workload::{COUNTER, DATABASES, Done, KEY, Library, MASS_VALUE, PIPELINE, VALUE, expect, mass_key};

#[derive(Clone)]
pub struct Fred(Vec<Client>);

fn told(error: Error) -> String {
    error.to_string()
}

impl Library for Fred {
    async fn connect(url: &str) -> Result<Self, String> {
        let mut clients = Vec::new();
        for database in 0..DATABASES {
            let config = Config::from_url(&format!("{url}/{database}")).map_err(told)?;
            let client = Builder::from_config(config).build().map_err(told)?;
            client.init().await.map_err(told)?;
            clients.push(client);
        }
        Ok(Fred(clients))
    }

    async fn prepare(&self) -> Done {
        self.0[0].set(KEY, VALUE, None, None, false).await.map_err(told)
    }

    async fn get(&self) -> Done {
        let value: String = self.0[0].get(KEY).await.map_err(told)?;
        expect(&value)
    }

    async fn ping(&self) -> Done {
        self.0[0].ping(None).await.map_err(told)
    }

    async fn increment(&self, database: u32) -> Done {
        self.0[database as usize].incr(COUNTER).await.map_err(told)
    }

    async fn mass_set(&self, calls: u64) -> Done {
        for first in (0..calls).step_by(PIPELINE as usize) {
            let pipeline = self.0[0].pipeline();
            for number in first..(first + PIPELINE).min(calls) {
                let queued: Result<(), Error> = pipeline.set(mass_key(number), MASS_VALUE, None, None, false).await;
                queued.map_err(told)?;
            }
            let _: Vec<Value> = pipeline.all().await.map_err(told)?;
        }
        Ok(())
    }
}
