//! rustis: a client for each database, which gathers the commands that its tasks send at once, and pipelines them.

use rustis::client::{BatchPreparedCommand, Client};
use rustis::commands::StringCommands;
use rustis::resp::cmd;

use crate::workload::{COUNTER, DATABASES, Done, KEY, Library, MASS_VALUE, PIPELINE, VALUE, expect, mass_key};

#[derive(Clone)]
pub struct Rustis(Vec<Client>);

fn told(error: rustis::Error) -> String {
    error.to_string()
}

impl Library for Rustis {
    async fn connect(url: &str) -> Result<Self, String> {
        let mut clients = Vec::new();
        for database in 0..DATABASES {
            clients.push(Client::connect(format!("{url}/{database}").as_str()).await.map_err(told)?);
        }
        Ok(Rustis(clients))
    }

    async fn prepare(&self) -> Done {
        self.0[0].set(KEY, VALUE).await.map_err(told)
    }

    async fn get(&self) -> Done {
        let value: String = self.0[0].get(KEY).await.map_err(told)?;
        expect(&value)
    }

    async fn ping(&self) -> Done {
        let reply: String = self.0[0].send(cmd("PING"), None).await.map_err(told)?;
        if reply == "PONG" { Ok(()) } else { Err(format!("PING gave {reply:?}")) }
    }

    async fn increment(&self, database: u32) -> Done {
        self.0[database as usize].incr(COUNTER).await.map(drop).map_err(told)
    }

    async fn mass_set(&self, calls: u64) -> Done {
        for first in (0..calls).step_by(PIPELINE as usize) {
            let mut pipeline = self.0[0].create_pipeline();
            for number in first..(first + PIPELINE).min(calls) {
                pipeline.set(mass_key(number), MASS_VALUE).forget();
            }
            let () = pipeline.execute().await.map_err(told)?;
        }
        Ok(())
    }
}
