//! Digests: stable, keyed, and apart by domain.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashSet;

use fairlane_identity::{ClientPrefix, Digest, Domain, EmptyHashKey, Hasher};
use proptest::prelude::*;

fn hasher(key: &[u8]) -> Hasher {
    Hasher::new(key).unwrap()
}

#[test]
fn an_empty_key_is_refused() {
    assert_eq!(Hasher::new(b"").err(), Some(EmptyHashKey));
}

/// Replicas of different releases share a store: a digest that changes resets every bucket in it.
///
/// The answers were made with another implementation of BLAKE3, the bindings for Python.
#[test]
fn digests_are_the_same_in_every_release() {
    let hasher = hasher(b"known answer");
    let network = ClientPrefix::default().network("192.0.2.1".parse().unwrap());
    let answers = [
        (hasher.user("alice"), "c513243d28790eaae89389e0ac2a61e9"),
        (hasher.team("alice"), "a77e94918dc7a28e817ea72eccb8ea8d"),
        (hasher.api_key_id("alice"), "141a586901e4c361d7fdbb1df51e728e"),
        (hasher.api_key_secret("alice"), "317d66e1ec1c0e825837d8e79b5e617d"),
        (hasher.client(network), "c9571823c3b92c4e221f1c5e58c035bc"),
        (hasher.model("alice"), "8bf24365d68a8e77483c1c11a11c2824"),
        (hasher.backend("alice"), "233a821a9827edbd0e58ff2f8eb619bb"),
    ];
    for (digest, expected) in answers {
        assert_eq!(digest.to_string(), expected);
    }
}

#[test]
fn domains_stand_in_the_order_of_their_discriminants() {
    for (index, domain) in Domain::ALL.into_iter().enumerate() {
        assert_eq!(domain as usize, index);
    }
}

#[test]
fn a_precision_shortens_what_is_shown() {
    let digest = hasher(b"key").user("alice");
    let whole = digest.to_string();
    assert_eq!(whole.len(), 2 * Digest::LENGTH);
    assert_eq!(format!("{digest:.12}"), whole[..12]);
    assert_eq!(format!("{digest:?}"), format!("Digest({}…)", &whole[..12]));
}

#[test]
fn a_key_and_its_sha256_have_one_digest() {
    // The first test vector of FIPS 180-2: the SHA-256 of `abc`.
    let sha256 = hex::decode("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad").unwrap();
    let hasher = hasher(b"key");
    assert_eq!(hasher.api_key_secret("abc"), hasher.api_key_sha256(&sha256.try_into().unwrap()));
}

proptest! {
    #[test]
    fn domains_keys_and_values_all_matter(
        values in prop::collection::hash_set(prop::collection::vec(any::<u8>(), 0..100), 1..8),
        keys in prop::collection::hash_set(prop::collection::vec(any::<u8>(), 1..40), 1..4),
    ) {
        let mut seen = HashSet::new();
        for key in &keys {
            let hasher = hasher(key);
            for domain in Domain::ALL {
                for value in &values {
                    prop_assert!(seen.insert(hasher.digest(domain, value)));
                    prop_assert_eq!(hasher.digest(domain, value), self::hasher(key).digest(domain, value));
                }
            }
        }
    }
}
