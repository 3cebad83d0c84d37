//! The memory store against `governor`, in one run, with one clock and keys of 128 bits.
//!
//! `cargo bench -p fairlane-limiter` prints the tables; `-- --quick` does it in a fraction of the time. Costs are
//! CPU time of the thread per operation, the best and the median of many short slices taken by turns. A ratio below
//! one means that this crate is the cheaper.
#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a program that prints tables, and is run by hand"
)]

mod clock;
mod measure;
mod subject;

use std::hint::black_box;
use std::time::Duration;

use fairlane_limiter::{
    BucketKey, Charge, Dimension, ManualClock, MemoryLimits, MemoryStore, Quota, Timestamp,
};

use crate::measure::{Effort, Tail, compare, resident_bytes, tail};
use crate::subject::{
    Mood, OurFive, OurSingle, PeerFive, PeerSingle, Sizes, Subject, digest, our_quota, our_store, peer_keyed,
};

const MILLION: u64 = 1_000_000;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let effort = if quick {
        Effort { slices: 5, slice_nanos: 5_000_000 }
    } else {
        Effort { slices: 25, slice_nanos: 20_000_000 }
    };
    // Any word that is no option picks the rows whose names contain it.
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    if only.is_none() {
        memory();
    }
    costs(effort, only.as_deref().unwrap_or_default());
    if only.is_none() {
        tails();
    }
}

fn costs(effort: Effort, only: &str) {
    println!("\ncpu-ns per operation, best/median slice");
    println!("{:<44}{:>8}{:>17}{:>17}{:>15}", "", "threads", "ours", "governor", "ratio");
    let hot = Sizes([1; 5]);
    let wide = Sizes([1, MILLION, MILLION, 100_000, 1_000]);
    for mood in [Mood::Grant, Mood::Refuse] {
        let named =
            |name: &str| format!("{name}, {}", if mood == Mood::Grant { "granted" } else { "refused" });
        for (name, keys) in
            [("one charge, 1 key", 1), ("one charge, 1k keys", 1_000), ("one charge, 1M keys", MILLION)]
        {
            if named(name).contains(only) {
                row(&named(name), &OurSingle::new(keys, mood), &PeerSingle::new(keys, mood), effort);
            }
        }
        if named("one charge, 1 key pinned").contains(only) {
            row(
                &named("one charge, 1 key pinned"),
                &OurSingle::pinned(mood),
                &PeerSingle::new(1, mood),
                effort,
            );
        }
        for (name, sizes) in [("five charges, hot", hot), ("five charges, 1+1M+1M+100k+1k keys", wide)] {
            if named(name).contains(only) {
                row(&named(name), &OurFive::new(sizes, mood), &PeerFive::new(sizes, mood), effort);
            }
        }
    }
}

fn row(name: &str, ours: &dyn Subject, peer: &dyn Subject, effort: Effort) {
    ours.prepare();
    peer.prepare();
    for threads in [1, 2] {
        let (our, its) = compare(ours, peer, threads, effort);
        println!(
            "{name:<44}{threads:>8}{:>8.1}/{:>8.1}{:>8.1}/{:>8.1}{:>8.2}/{:>6.2}",
            our.best,
            our.median,
            its.best,
            its.median,
            our.best / its.best,
            our.median / its.median,
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn memory() {
    println!("bytes per bucket at 1M buckets of 128-bit keys");
    let quota = our_quota(Mood::Grant);
    let before = resident_bytes();
    let store = our_store(1_000_000);
    for number in 0..MILLION {
        let key = BucketKey::new(Dimension::new(0), digest(number));
        assert!(black_box(store.take_now(&[Charge::new(key, quota, 1)])).is_granted());
    }
    let stats = store.stats();
    println!(
        "ours (max_buckets 1M): {:.1} allocated, {:.1} resident; {} buckets, load factor {:.2}",
        stats.allocated_bytes as f64 / MILLION as f64,
        (resident_bytes() - before) as f64 / MILLION as f64,
        stats.buckets,
        stats.buckets as f64 * 64.0 / stats.allocated_bytes as f64,
    );
    let before = resident_bytes();
    let limiter = peer_keyed(Mood::Grant);
    for number in 0..MILLION {
        black_box(limiter.check_key(&digest(number))).ok();
    }
    println!(
        "governor (no bound): {:.1} resident",
        resident_bytes().saturating_sub(before) as f64 / MILLION as f64
    );
    drop(store);
}

fn tails() {
    println!("\nsingle operations, cpu-us: worst, 99.9th percentile");
    let show = |name: &str, tail: Tail| println!("{name:<60}{:>10.1}{:>10.2}", tail.worst, tail.p999);
    let clock = ManualClock::new(Timestamp::ZERO);
    let store = MemoryStore::new(MemoryLimits { max_buckets: 1_000_000, max_pinned: 16 }, clock.clone());
    let quota = Quota::per_day(1).and_then(|quota| quota.with_capacity(100)).expect("a valid quota");
    let take = |number: u64| {
        let key = BucketKey::new(Dimension::new(0), digest(number));
        black_box(store.take_now(&[Charge::new(key, quota, 1)]).is_granted());
    };
    show("ours, growth from nothing to 1M buckets", tail(MILLION, take));
    show("ours, flood of 1M new keys at the bound", tail(MILLION, |number| take(number + MILLION)));
    clock.advance(Duration::from_secs(200 * 86_400));
    show("ours, 1M new keys replace 1M full buckets", tail(MILLION, |number| take(number + 2 * MILLION)));
    clock.advance(Duration::from_secs(200 * 86_400));
    show("ours, 1M buckets forgotten while one is used", tail(MILLION, |_| take(0)));
    let stats = store.stats();
    println!("  ({} forgotten, {} overflowed, {} left)", stats.forgotten, stats.overflowed, stats.buckets);
    let limiter = peer_keyed(Mood::Grant);
    let check = |number: u64| {
        black_box(limiter.check_key(&digest(number))).ok();
    };
    show("governor, growth from nothing to 1M keys", tail(MILLION, check));
    show("nothing at all (the measurement itself)", tail(MILLION, |_| ()));
}
