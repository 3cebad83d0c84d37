//! What a decision costs over the bare script, and what it would cost if each borrowed a connection from a pool, on a
//! server of its own.
//!
//! All sides send the same requests to the same server through the same client, and take turns, so that whatever else
//! the machine does hits all of them. The bare side sends `EVALSHA` over one connection with the arguments ready-made,
//! and looks at nothing but the first letter of the answer; the pools do the same over connections that each request
//! checks out.
//!
//! ```console
//! $ cargo bench -p fairlane-limiter --features redis --bench redis
//! $ cargo bench -p fairlane-limiter --features redis --bench redis -- 5 256    # five keys, 256 tasks
//! $ cargo bench -p fairlane-limiter --features redis --bench redis -- pools    # the pools alone
//! ```
#![expect(clippy::print_stdout, reason = "a benchmark tells what it has measured")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails says so by a panic")]
#![expect(clippy::disallowed_methods, reason = "time is what is measured")]

mod bare;
mod pooled;
mod store;
mod turn;

use std::time::Duration;

use fairlane_limiter::redis::{Mode, RedisSettings, RedisStore};
use fairlane_limiter::{BucketKey, Charge, Dimension, Quota};
use fairlane_redis_servers::Server;

use self::bare::Bare;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let wanted = if let [keys, tasks] = *numbers { Some((u8::try_from(keys).unwrap(), tasks)) } else { None };
    let pools_alone = words.iter().any(|word| word == "pools");
    let mut cases: Vec<(u8, u64)> =
        [1, 5].into_iter().flat_map(|keys| [1, 32, 256].map(|tasks| (keys, tasks))).collect();
    cases.retain(|case| wanted.is_none_or(|wanted| wanted == *case));
    // As a program would have it.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::start().await;
        let bare = Bare::connect(&server.url()).await;
        println!("{}", pooled::HEADER);
        for &(keys, tasks) in &cases {
            pooled::compare(&server.url(), &bare, keys, tasks).await;
        }
        if pools_alone {
            return;
        }
        let mut settings = RedisSettings::parse(&server.url(), Mode::Standalone).unwrap();
        settings.timeout = Duration::from_secs(5);
        let store = RedisStore::new(settings).unwrap();
        println!("\n{}", store::HEADER);
        for &(keys, tasks) in &cases {
            store::compare(&store, &bare, keys, tasks).await;
        }
        server.stop();
        store::refuse(&store).await;
    });
}

/// The charges of one request: some of everybody's, some of one identity's.
fn charges(keys: u8, identity: u64) -> Vec<Charge> {
    let quota = Quota::per_second(1_000_000).and_then(|quota| quota.with_capacity(1_000_000_000)).unwrap();
    let digest = |dimension| if dimension % 2 == 0 { u128::from(identity) } else { 0 };
    (0..keys).map(|one| Charge::new(BucketKey::new(Dimension::new(one), digest(one)), quota, 1)).collect()
}
