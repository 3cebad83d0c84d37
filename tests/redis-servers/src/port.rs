//! Ports that are free.

use std::{
    hash::{BuildHasher, RandomState},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    ops::Range,
    sync::atomic::{AtomicU16, Ordering},
};

/// Below the ports that systems give to outgoing connections (from 32768 on Linux), so that nobody's connection takes
/// the port of a server that is down for a moment. And low enough that the bus of a cluster fits in, too.
const PORTS: Range<u16> = 11_000..21_000;

/// A cluster's nodes talk to each other on a port that is so much higher.
const BUS: u16 = 10_000;

/// An address on loopback.
pub(crate) const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// A port that is free now, and whose bus port is free too.
///
/// Another process may take it before it is used, so whoever gets one must be ready to ask for the next. Within this
/// process no port is given twice, until all have been given.
pub(crate) fn free() -> u16 {
    let mut candidates = PORTS.map(|_| next());
    let free = |port: &u16| TcpListener::bind(loopback(*port)).and(TcpListener::bind(loopback(*port + BUS)));
    candidates.find(|port| free(port).is_ok()).expect("some port is free")
}

/// Walks through all ports, from a random one on: test processes that run at once should not meet.
fn next() -> u16 {
    static PLACE: AtomicU16 = AtomicU16::new(0);
    static START: std::sync::OnceLock<u16> = std::sync::OnceLock::new();
    let count = PORTS.end - PORTS.start;
    let start = START.get_or_init(|| {
        let random = RandomState::new().hash_one(std::process::id());
        u16::try_from(random % u64::from(count)).expect("smaller than a count of ports")
    });
    let place = PLACE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |place| Some((place + 1) % count));
    PORTS.start + (start + place.expect("always updated")) % count
}

#[test]
fn ports_differ_and_are_free() {
    let (one, other) = (free(), free());
    assert_ne!(one, other);
    let taken = TcpListener::bind(loopback(one)).unwrap();
    assert!(PORTS.contains(&taken.local_addr().unwrap().port()));
}
