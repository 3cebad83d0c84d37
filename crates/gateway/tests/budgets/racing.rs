//! Tokens that come back in the moment in which somebody begins to wait for them.

use std::{sync::Barrier, thread, time::Duration};

use fairlane_fair_queue::ClassLimits;
use tokio::{runtime::Handle, time::Instant};

use crate::house::{BUDGET, House, Kept, deferring, reservation};

const ROUNDS: u32 = 5_000;

#[tokio::test(start_paused = true)]
async fn what_comes_back_while_somebody_joins_is_not_overlooked() {
    let house = House::new(Kept::Here, deferring(ClassLimits::default()));
    let (runtime, barrier) = (Handle::current(), Barrier::new(2));
    for _ in 0..ROUNDS {
        let all = house.admit(house.ask(1, reservation(BUDGET, 0))).await.unwrap();
        let (start, ask) = (Instant::now(), house.ask(2, reservation(BUDGET, 0)));
        // A store in memory has decided, and a request that is held has its place, when this returns.
        let admitting = thread::scope(|scope| {
            let leaving = scope.spawn(|| {
                let _time = runtime.enter();
                barrier.wait();
                drop(all);
            });
            barrier.wait();
            let admitting = house.admission.admit(ask);
            leaving.join().unwrap();
            admitting
        });
        drop(admitting.await.unwrap());
        assert!(start.elapsed() < Duration::from_millis(5), "it waited for {:?}", start.elapsed());
    }
}
