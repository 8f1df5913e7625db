//! Sleeve: one connection; a reply is on its way when it is made, and fire-and-forget replies are not waited for.

use std::collections::VecDeque;

use sleeve::prelude::*;
use sleeve::{Client, Reply};

use crate::blocking;
use crate::workload::{COUNTER, Done, KEY, Library, MASS_VALUE, Measured, VALUE, Workload, expect, mass_key};

#[derive(Clone)]
pub struct Sleeve(Client);

fn told(error: sleeve::Error) -> String {
    error.to_string()
}

impl Library for Sleeve {
    async fn connect(url: &str) -> Result<Self, String> {
        Client::connect_async(url).await.map(Sleeve).map_err(told)
    }

    async fn prepare(&self) -> Done {
        self.0.set(KEY, VALUE).await.map(drop).map_err(told)
    }

    async fn get(&self) -> Done {
        expect(&self.0.get::<String>(KEY).await.map_err(told)?)
    }

    async fn ping(&self) -> Done {
        self.0.ping().await.map(drop).map_err(told)
    }

    async fn increment(&self, database: u32) -> Done {
        self.0.db(database).incr(COUNTER).await.map(drop).map_err(told)
    }

    async fn fan_out(&self, calls: u64, at_once: usize) -> Done {
        let mut flying: VecDeque<Reply<String>> = VecDeque::with_capacity(at_once);
        for _ in 0..calls {
            if flying.len() == at_once
                && let Some(reply) = flying.pop_front()
            {
                expect(&reply.await.map_err(told)?)?;
            }
            flying.push_back(self.0.get(KEY));
        }
        for reply in flying {
            expect(&reply.await.map_err(told)?)?;
        }
        Ok(())
    }

    async fn mass_set(&self, calls: u64) -> Done {
        for number in 0..calls {
            self.0.set(mass_key(number), MASS_VALUE).forget();
        }
        // Replies come in order.
        self.ping().await
    }
}

/// Runs callers that are threads and share one client.
///
/// # Errors
/// When a call fails or gives something wrong.
pub fn in_threads(url: &str, workload: Workload) -> Result<Measured, String> {
    let client = Client::connect(url).map_err(told)?;
    client.set(KEY, VALUE).wait().map_err(told)?;
    blocking::measure(workload, || {
        let client = client.clone();
        Ok(move || expect(&client.get::<String>(KEY).wait().map_err(told)?))
    })
}
