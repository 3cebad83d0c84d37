//! The script without a store around it.

use fairlane_limiter::Charge;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Script, Value};

/// The same text, from the same file.
const SCRIPT: &str = include_str!("../../src/redis/script.lua");

/// The client alone.
#[derive(Clone)]
pub(crate) struct Bare {
    connection: MultiplexedConnection,
    digest: String,
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
        let digest = Script::new(SCRIPT).get_hash().to_owned();
        redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).exec_async(&mut connection).await.unwrap();
        Self { connection, digest }
    }

    pub(crate) fn request(charges: &[Charge]) -> Request {
        let mut items = Vec::new();
        for charge in charges {
            for number in [charge.cost, charge.quota.capacity(), charge.quota.refill_per_day()] {
                items.extend_from_slice(&(number as f64).to_le_bytes());
            }
        }
        let name = |charge: &Charge| {
            format!("fairlane:v1:{}:{:032x}", charge.key.dimension().number(), charge.key.digest())
        };
        Request { keys: charges.iter().map(name).collect(), head: b"t........".to_vec(), items }
    }

    pub(crate) async fn ask(&self, request: &Request) {
        let mut connection = self.connection.clone();
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.digest).arg(request.keys.len()).arg(&request.keys);
        command.arg(&request.head).arg(&request.items);
        let answer: Value = command.query_async(&mut connection).await.unwrap();
        assert!(matches!(answer, Value::BulkString(bytes) if bytes.first() == Some(&b'g')));
    }
}
