//! The client's address, and what a caller can do about it: nothing.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fairlane_identity::{
    AddressSet, ClientPrefix, Hasher, InvalidNetwork, InvalidPrefix, TrustedProxies, client_address,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn proxies() -> TrustedProxies {
    TrustedProxies::new(AddressSet::parse(["10.0.0.0/8", "192.0.2.7", "fd00::/8"]).unwrap())
}

fn forwarded(lines: &[impl AsRef<[u8]>]) -> HeaderMap {
    let name = HeaderName::from_static("x-forwarded-for");
    lines.iter().map(|line| (name.clone(), HeaderValue::from_bytes(line.as_ref()).unwrap())).collect()
}

#[track_caller]
fn check(peer: &str, lines: &[&str], expected: &str) {
    let found = client_address(address(peer), &forwarded(lines), &proxies());
    assert_eq!(found, address(expected), "{peer} sent {lines:?}");
}

#[test]
fn a_peer_that_is_no_proxy_is_the_client() {
    check("203.0.113.1", &["198.51.100.1"], "203.0.113.1");
    check("2001:db8::1", &["198.51.100.1"], "2001:db8::1");
    check("::ffff:203.0.113.1", &["198.51.100.1"], "203.0.113.1");
    let nobody = TrustedProxies::default();
    let headers = forwarded(&["198.51.100.1"]);
    assert_eq!(client_address(address("10.0.0.1"), &headers, &nobody), address("10.0.0.1"));
}

#[test]
fn the_right_most_untrusted_entry_is_the_client() {
    check("10.0.0.1", &[], "10.0.0.1");
    check("10.0.0.1", &["198.51.100.1"], "198.51.100.1");
    check("10.0.0.1", &["9.9.9.9, 198.51.100.1"], "198.51.100.1");
    check("10.0.0.1", &["9.9.9.9, 198.51.100.1, 10.0.0.2,192.0.2.7"], "198.51.100.1");
    check("fd00::1", &["9.9.9.9,2001:db8::5, fd12::3"], "2001:db8::5");
    check("::ffff:10.0.0.1", &["9.9.9.9, ::ffff:198.51.100.1, ::ffff:10.0.0.2"], "198.51.100.1");
}

#[test]
fn all_lines_are_one_list() {
    check("10.0.0.1", &["9.9.9.9", "198.51.100.1"], "198.51.100.1");
    check("10.0.0.1", &["9.9.9.9, 198.51.100.1", "10.0.0.2"], "198.51.100.1");
    check("10.0.0.1", &["198.51.100.1", "10.0.0.3, 10.0.0.2", "192.0.2.7"], "198.51.100.1");
}

#[test]
fn if_all_are_trusted_the_left_most_is_the_client() {
    check("10.0.0.1", &["10.0.0.4, 10.0.0.3", "10.0.0.2"], "10.0.0.4");
}

#[test]
fn ports_brackets_and_quotes_are_dropped() {
    for entry in ["198.51.100.1:443", "\"198.51.100.1\"", "\"198.51.100.1:443\"", "  198.51.100.1\t"] {
        check("10.0.0.1", &[entry], "198.51.100.1");
    }
    for entry in ["[2001:db8::1]", "[2001:db8::1]:443", "\"[2001:db8::1]:443\"", "\"2001:db8::1\""] {
        check("10.0.0.1", &[entry], "2001:db8::1");
    }
    check("10.0.0.1", &["[::ffff:198.51.100.1]:443"], "198.51.100.1");
}

#[test]
fn what_is_no_address_ends_the_walk() {
    for entry in [
        "unknown",
        "_hidden",
        "localhost",
        "198.51.100",
        "198.51.100.1:x",
        "198.51.100.1:",
        "198.51.100.1:99999",
        "198.51.100.01",
        "[198.51.100.1]",
        "[2001:db8::1",
        "2001:db8::1]",
        "\"198.51.100.1",
        "198.51.100.1\"",
        "198.51.100.1 8.8.8.8",
        "198.51.100.0/24",
        "for=198.51.100.1",
        "\"\"",
        "\"",
    ] {
        check("10.0.0.1", &[entry], "10.0.0.1");
        check("10.0.0.1", &[&format!("9.9.9.9, {entry}, 10.0.0.2")], "10.0.0.2");
        check("10.0.0.1", &[&format!("{entry}, 198.51.100.1")], "198.51.100.1");
    }
    let headers = forwarded(&[b"9.9.9.9, \xff\xfe, 10.0.0.2"]);
    assert_eq!(client_address(address("10.0.0.1"), &headers, &proxies()), address("10.0.0.2"));
}

#[test]
fn empty_entries_are_skipped() {
    check("10.0.0.1", &["", " , ,", ", 198.51.100.1, ,", ""], "198.51.100.1");
    check("10.0.0.1", &["", ","], "10.0.0.1");
}

#[test]
fn address_sets_hold_what_they_say() {
    let set = AddressSet::parse(["::ffff:10.1.0.0/112", "203.0.113.9/24", "2001:db8::1"]).unwrap();
    for inside in ["10.1.2.3", "::ffff:10.1.2.3", "203.0.113.200", "2001:db8::1"] {
        assert!(set.contains(address(inside)), "{inside}");
    }
    for outside in ["10.2.0.0", "203.0.114.1", "2001:db8::2", "::a01:203"] {
        assert!(!set.contains(address(outside)), "{outside}");
    }
    assert!(AddressSet::parse(["::/0"]).unwrap().contains(address("2001:db8::1")));
    assert!(!AddressSet::parse(["::/0"]).unwrap().contains(address("10.1.2.3")));
    assert_eq!(AddressSet::parse(["10.0.0.1", "10.0.0.0/33"]), Err(InvalidNetwork { index: 1 }));
    assert_eq!(AddressSet::parse(["localhost"]), Err(InvalidNetwork { index: 0 }));
}

#[test]
fn impossible_prefix_lengths_are_refused() {
    for (v4, v6) in [(0, 64), (33, 64), (32, 0), (32, 129)] {
        assert_eq!(ClientPrefix::new(v4, v6), Err(InvalidPrefix), "{v4} {v6}");
    }
    assert_eq!(ClientPrefix::new(32, 64), Ok(ClientPrefix::default()));
}

#[test]
fn a_client_is_a_network() {
    let hasher = Hasher::new(b"key").unwrap();
    let prefix = ClientPrefix::new(24, 64).unwrap();
    let client = |text: &str| hasher.client(prefix.network(address(text)));
    assert_eq!(client("198.51.100.1"), client("198.51.100.200"));
    assert_eq!(client("198.51.100.1"), client("::ffff:198.51.100.9"));
    assert_ne!(client("198.51.100.1"), client("198.51.101.1"));
    assert_eq!(client("2001:db8:0:1::1"), client("2001:db8:0:1:ffff::1"));
    assert_ne!(client("2001:db8:0:1::1"), client("2001:db8:0:2::1"));
    assert_eq!(prefix.network(address("2001:db8:0:1::1")).to_string(), "2001:db8:0:1::/64");
}

fn any_address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
        any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))),
    ]
}

fn untrusted() -> impl Strategy<Value = IpAddr> {
    any_address()
        .prop_map(|address| address.to_canonical())
        .prop_filter("trusted", |address| !proxies().contains(*address))
}

fn trusted() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 3]>().prop_map(|[a, b, c]| IpAddr::from([10, a, b, c])),
        any::<[u8; 3]>().prop_map(|[a, b, c]| IpAddr::V6(Ipv4Addr::new(10, a, b, c).to_ipv6_mapped())),
        (0..1_u128 << 120).prop_map(|low| IpAddr::V6(Ipv6Addr::from_bits(0xfd << 120 | low))),
    ]
}

/// An address as some proxy may write it.
fn written(address: IpAddr, form: u8) -> String {
    match (form % 4, address) {
        (1, IpAddr::V4(address)) => format!("{address}:4711"),
        (1, IpAddr::V6(address)) => format!("[{address}]:4711"),
        (2, address) => format!("\"{address}\""),
        (3, IpAddr::V4(address)) => address.to_ipv6_mapped().to_string(),
        (3, IpAddr::V6(address)) => format!("[{address}]"),
        (_, address) => address.to_string(),
    }
}

/// Lines as a caller may send them: entries that look right, and any bytes that a header may hold.
fn forged() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let bytes = prop_oneof![Just(b','), Just(b'"'), Just(b' '), 0x20..=0x7e_u8, 0x80..=0xff_u8];
    let entry = (any_address(), any::<u8>()).prop_map(|(address, form)| written(address, form).into_bytes());
    let trusted = trusted().prop_map(|address| address.to_string().into_bytes());
    let part = prop_oneof![entry, trusted, prop::collection::vec(bytes, 0..12)];
    prop::collection::vec(prop::collection::vec(part, 0..4).prop_map(|parts| parts.join(&b", "[..])), 0..4)
}

/// What arrives after proxies appended `entries`, each to the last line or as a line of its own.
fn appended(mut lines: Vec<Vec<u8>>, entries: &[(String, bool)]) -> Vec<Vec<u8>> {
    for (entry, own_line) in entries {
        match lines.last_mut() {
            Some(line) if !own_line => line.extend_from_slice(format!(", {entry}").as_bytes()),
            _ => lines.push(entry.clone().into_bytes()),
        }
    }
    lines
}

proptest! {
    #[test]
    fn what_a_client_sends_never_changes_its_address(
        forged in forged(),
        (client, form, own_line) in (untrusted(), any::<u8>(), any::<bool>()),
        chain in prop::collection::vec((trusted(), any::<u8>(), any::<bool>()), 0..4),
        peer in trusted(),
    ) {
        let mut entries = vec![(written(client, form), own_line)];
        entries.extend(chain.iter().map(|(proxy, form, own_line)| (written(*proxy, *form), *own_line)));
        let lines = appended(forged, &entries);
        prop_assert_eq!(client_address(peer, &forwarded(&lines), &proxies()), client);
    }

    #[test]
    fn a_client_its_proxy_cannot_name_counts_as_the_proxy(
        forged in forged(),
        // No address: that would take a dot or a colon.
        (garbage, own_line) in ("[a-z_]{1,9}", any::<bool>()),
        chain in prop::collection::vec((trusted(), any::<u8>(), any::<bool>()), 0..4),
        peer in trusted(),
    ) {
        let mut entries = vec![(garbage, own_line)];
        entries.extend(chain.iter().map(|(proxy, form, own_line)| (written(*proxy, *form), *own_line)));
        let expected = chain.first().map_or(peer, |(proxy, _, _)| *proxy).to_canonical();
        let lines = appended(forged, &entries);
        prop_assert_eq!(client_address(peer, &forwarded(&lines), &proxies()), expected);
    }

    #[test]
    fn a_direct_client_is_its_peer(forged in forged(), client in untrusted()) {
        prop_assert_eq!(client_address(client, &forwarded(&forged), &proxies()), client);
    }

    #[test]
    fn clients_are_one_exactly_if_their_networks_are(
        (a, b) in (any::<u128>(), any::<u128>()),
        shared in 0..=128_u32,
        (v4, v6) in (1..=32_u8, 1..=128_u8),
        four in any::<bool>(),
    ) {
        // `b` begins with `shared` bits of `a`, so that near misses are tried at every length.
        let mask = u128::MAX.checked_shr(shared).unwrap_or(0);
        let b = (a & !mask) | (b & mask);
        let (a, b, is_one) = if four {
            let [a, b] = [a, b].map(|bits| u32::try_from(bits >> 96).unwrap());
            let same = (a ^ b).leading_zeros();
            (IpAddr::V4(Ipv4Addr::from_bits(a)), IpAddr::V4(Ipv4Addr::from_bits(b)), same >= u32::from(v4))
        } else {
            let same = (a ^ b).leading_zeros();
            (IpAddr::V6(Ipv6Addr::from_bits(a)), IpAddr::V6(Ipv6Addr::from_bits(b)), same >= u32::from(v6))
        };
        prop_assume!(a.to_canonical() == a && b.to_canonical() == b);
        let prefix = ClientPrefix::new(v4, v6).unwrap();
        let hasher = Hasher::new(b"key").unwrap();
        prop_assert_eq!(hasher.client(prefix.network(a)) == hasher.client(prefix.network(b)), is_one);
    }
}
