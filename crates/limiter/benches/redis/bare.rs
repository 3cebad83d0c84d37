//! The script without a store around it.

use std::sync::{Arc, LazyLock};

use fairlane_limiter::Charge;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Script, Value};

use crate::charges;
use crate::turn::{IDENTITIES, Side};

/// The same text, from the same file.
const SCRIPT: &str = include_str!("../../src/redis/script.lua");

static DIGEST: LazyLock<String> = LazyLock::new(|| Script::new(SCRIPT).get_hash().to_owned());

/// The client alone.
pub(crate) struct Bare {
    connection: MultiplexedConnection,
}

/// The arguments of a request, ready-made.
pub(crate) struct Request {
    keys: Vec<String>,
    head: Vec<u8>,
    items: Vec<u8>,
}

impl Bare {
    pub(crate) async fn connect(url: &str) -> Self {
        let client = Client::open(url).unwrap();
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).exec_async(&mut connection).await.unwrap();
        Self { connection }
    }

    /// Asks for so many keys at once.
    pub(crate) fn asked(&self, keys: u8) -> Asked {
        Asked { connection: self.connection.clone(), requests: ready(keys) }
    }
}

/// The client alone, and what it asks.
#[derive(Clone)]
pub(crate) struct Asked {
    connection: MultiplexedConnection,
    requests: Arc<Vec<Request>>,
}

impl Side for Asked {
    async fn ask(&self, identity: usize) {
        let mut connection = self.connection.clone();
        let answer: Value = self.requests[identity].command().query_async(&mut connection).await.unwrap();
        assert!(is_granted(&answer));
    }
}

/// The requests of all identities, ready-made.
pub(crate) fn ready(keys: u8) -> Arc<Vec<Request>> {
    Arc::new((0..IDENTITIES).map(|identity| Request::new(&charges(keys, identity))).collect())
}

impl Request {
    fn new(charges: &[Charge]) -> Self {
        let mut items = Vec::new();
        for charge in charges {
            for number in [charge.cost, charge.quota.capacity(), charge.quota.refill_per_day()] {
                items.extend_from_slice(&(number as f64).to_le_bytes());
            }
        }
        let name = |charge: &Charge| {
            format!("fairlane:v1:{}:{:032x}", charge.key.dimension().number(), charge.key.digest())
        };
        Self { keys: charges.iter().map(name).collect(), head: b"t........".to_vec(), items }
    }

    pub(crate) fn command(&self) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(DIGEST.as_str()).arg(self.keys.len()).arg(&self.keys);
        command.arg(&self.head).arg(&self.items);
        command
    }
}

/// As little as there is to look at in an answer.
pub(crate) fn is_granted(answer: &Value) -> bool {
    matches!(answer, Value::BulkString(bytes) if bytes.first() == Some(&b'g'))
}
