//! Faults at random, one after the other, while callers go on.

use std::{
    env,
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use fairlane_redis_servers::{Fault, wait::pass};
use tokio::{sync::watch, task::JoinSet, time::Instant};

use crate::{
    support::{TIMEOUT, breathe, bucket, fresh, remaining, serving, take},
    trial::{Setup, settled},
};

const CALLERS: usize = 8;

/// Room in a bucket that runs empty before the end.
const SCARCE: u64 = 1_500;

/// How long it lasts, in milliseconds; more by the environment variable of this name.
const STORM_MS: &str = "FAIRLANE_STORM_MS";
const USUAL_STORM_MS: u64 = 3_000;

/// Replays a storm, as far as scheduling allows.
const SEED: &str = "FAIRLANE_STORM_SEED";

fn variable(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn fault(&mut self) -> Fault {
        match self.below(12) {
            0 => Fault::Hold,
            1 => Fault::Delay(Duration::from_millis(self.below(200))),
            2 => Fault::BlackHole,
            3 => Fault::Refuse,
            4 => Fault::cut_reply(usize::try_from(self.below(60)).unwrap()),
            5 => Fault::garbage(),
            6 => Fault::error("LOADING Redis is loading the dataset in memory"),
            7 => Fault::script_error("READONLY You can't write against a read only replica."),
            8 => Fault::script_error("NOSCRIPT No matching script."),
            9 => Fault::script_answer(":1\r\n"),
            _ => Fault::Pass,
        }
    }
}

/// What is granted was charged, whatever happens; what was charged and not granted is no more than what is counted as
/// lost.
#[tokio::test]
async fn a_storm_of_faults_admits_nothing_that_was_not_charged() {
    let seed = variable(SEED).unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("{SEED}={seed}");
    let mut random = Random(seed);
    let setup = Setup::new().await;
    let Setup { server, proxy, store } = &setup;
    let (plenty, scarce) = (bucket(fresh(), 10_000_000, 3), bucket(fresh(), SCARCE, 1));
    let (stop, stopped) = watch::channel(false);
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (store, stopped) = (store.clone(), stopped.clone());
        callers.spawn(async move {
            // Grants and failures, of the bucket with plenty and of the scarce one.
            let mut sums = [[0_u64; 2]; 2];
            while !*stopped.borrow() {
                for (charge, sum) in [plenty, scarce].into_iter().zip(&mut sums) {
                    let taken = take(&store, charge).await;
                    taken.assert_in_time("in a storm");
                    sum[0] += u64::from(taken.is_granted());
                    sum[1] += u64::from(taken.result.is_err());
                }
                breathe().await;
            }
            sums
        });
    }
    let end = Instant::now() + Duration::from_millis(variable(STORM_MS).unwrap_or(USUAL_STORM_MS));
    let mut faults = 0;
    while Instant::now() < end {
        let fault = random.fault();
        match random.below(8) {
            0 => proxy.cut(),
            1 => drop(server.try_query::<String>(&["SCRIPT", "FLUSH"]).await),
            2 => server.pause(),
            _ => {}
        }
        proxy.set(fault);
        faults += 1;
        pass(Duration::from_millis(random.below(u64::try_from(TIMEOUT.as_millis()).unwrap() * 3 / 2))).await;
        server.resume();
        if random.below(2) == 0 {
            proxy.pass();
            pass(Duration::from_millis(random.below(200))).await;
        }
    }
    proxy.pass();
    stop.send_replace(true);
    let mut sums = [[0; 2]; 2];
    while let Some(caller) = callers.join_next().await {
        for (sum, own) in sums.iter_mut().flatten().zip(caller.unwrap().iter().flatten()) {
            *sum += own;
        }
    }
    serving(store).await;
    let [[granted, failed], [few, failed_few]] = sums;
    println!(
        "{faults} faults: {granted} and {few} grants, {failed} and {failed_few} failures, {:?}",
        store.stats()
    );
    assert!(granted > 0 && failed > 0, "neither a storm nor calm");
    settled(store, plenty, granted, None, "plenty").await;
    settled(store, scarce, few, None, "scarce").await;
    // What is left can still be had, and no more.
    let left = remaining(store, scarce).await;
    let mut more = 0;
    while take(store, scarce).await.is_granted() {
        more += 1;
    }
    assert!(more >= left.unsigned_abs() && few + more <= SCARCE, "{few} and {more} grants, {left} were left");
}
