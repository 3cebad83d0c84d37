//! From a key to an identity to a tenant.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::{Arc, RwLock};

use fairlane_identity::{
    AuthError, Credential, Directory, DirectoryError, Hasher, Identity, InvalidSha256, KeyEntry, KeySecret,
    SecretString, TenantDimension, TenantId, tenant,
};
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

fn hasher() -> Hasher {
    Hasher::new(b"key").unwrap()
}

fn entry(id: &str, key: &str) -> KeyEntry {
    KeyEntry::new(id.to_owned(), KeySecret::Raw(SecretString::from(key)))
}

fn owned(id: &str, key: &str, user: &str, team: &str) -> KeyEntry {
    KeyEntry { user: Some(user.to_owned()), team: Some(team.to_owned()), ..entry(id, key) }
}

fn directory(entries: impl IntoIterator<Item = KeyEntry>) -> Directory {
    Directory::new(entries, &hasher()).unwrap()
}

fn present(key: &str) -> Credential {
    let mut headers = HeaderMap::new();
    headers.insert("x-api-key", HeaderValue::from_str(key).unwrap());
    Credential::from_headers(&headers).unwrap().unwrap()
}

#[test]
fn a_key_is_found_raw_or_by_its_sha256() {
    // The SHA-256 of `abc`, from FIPS 180-2, in digits of both cases.
    let sha256 = "BA7816BF8F01CFEA414140DE5DAE2223b00361a396177a9cb410ff61f20015ad";
    let directory = directory([
        entry("raw", "sk-raw"),
        KeyEntry::new("hashed".to_owned(), KeySecret::from_sha256_hex(sha256).unwrap()),
    ]);
    let id = |key: &str| directory.authenticate(&present(key), 0).map(|identity| &**identity.key().name());
    assert_eq!(id("sk-raw"), Ok("raw"));
    assert_eq!(id("abc"), Ok("hashed"));
    assert_eq!(id("abd"), Err(AuthError::Unknown));
    assert_eq!(id("sk-ra"), Err(AuthError::Unknown));
    assert_eq!(id(sha256), Err(AuthError::Unknown), "a stolen hash is no key");
    for text in ["", "ba78", &sha256[1..], &sha256.replace('B', "g"), &format!("{sha256}00")] {
        assert_eq!(KeySecret::from_sha256_hex(text).err(), Some(InvalidSha256));
    }
}

#[test]
fn keys_that_are_not_accepted_look_alike() {
    let directory = directory([
        KeyEntry { enabled: false, ..entry("off", "sk-off") },
        KeyEntry { expires_at: Some(1_000), ..entry("old", "sk-old") },
        KeyEntry { enabled: false, expires_at: Some(1_000), ..entry("both", "sk-both") },
    ]);
    let answer = |key: &str, now| directory.authenticate(&present(key), now).err();
    assert_eq!(answer("sk-none", 0), Some(AuthError::Unknown));
    assert_eq!(answer("sk-off", 0), Some(AuthError::Disabled));
    assert_eq!(answer("sk-both", 1_000), Some(AuthError::Disabled));
    assert_eq!(answer("sk-old", 999), None);
    assert_eq!(answer("sk-old", 1_000), Some(AuthError::Expired));
    assert_eq!(answer("sk-old", i64::MAX), Some(AuthError::Expired));
    assert_eq!(AuthError::Unknown.to_string(), AuthError::Disabled.to_string());
    assert_eq!(AuthError::Unknown.to_string(), AuthError::Expired.to_string());
}

#[test]
fn a_list_that_contradicts_itself_is_refused() {
    let refused = |entries: Vec<KeyEntry>| Directory::new(entries, &hasher()).err();
    assert_eq!(refused(vec![entry("a", "1"), entry("", "2")]), Some(DirectoryError::EmptyId { index: 1 }));
    assert_eq!(
        refused(vec![entry("a", "1"), entry("b", "2"), entry("a", "3")]),
        Some(DirectoryError::DuplicateId { first: 0, second: 2 }),
    );
    let hashed =
        KeySecret::from_sha256_hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let hashed = KeyEntry { enabled: false, ..KeyEntry::new("b".to_owned(), hashed.unwrap()) };
    assert_eq!(
        refused(vec![entry("a", "abc"), hashed]),
        Some(DirectoryError::DuplicateSecret { first: 0, second: 1 }),
    );
    for key in ["", "two words", "line\n", "ключ"] {
        assert_eq!(refused(vec![entry("a", key)]), Some(DirectoryError::UnusableSecret { index: 0 }));
    }
}

#[test]
fn settings_find_keys_by_id() {
    let directory = directory([entry("k1", "sk-1"), KeyEntry { enabled: false, ..entry("k2", "sk-2") }]);
    assert_eq!(directory.by_id("k2").map(|identity| &**identity.key().name()), Some("k2"));
    assert!(directory.by_id("sk-1").is_none());
    let ids: Vec<_> = directory.identities().iter().map(|identity| &**identity.key().name()).collect();
    assert_eq!(ids, ["k1", "k2"]);
}

#[test]
fn models_are_those_the_key_lists() {
    let models = |texts: &[&str]| Some(texts.iter().map(|text| text.parse().unwrap()).collect());
    let directory = directory([
        entry("all", "1"),
        KeyEntry { models: models(&[]), ..entry("none", "2") },
        KeyEntry { models: models(&["gpt-4o", "claude-*"]), ..entry("some", "3") },
    ]);
    let allows = |id: &str, model: &str| directory.by_id(id).unwrap().allows_model(model);
    assert!(allows("all", "anything"));
    assert!(!allows("none", "anything"));
    assert!(allows("some", "gpt-4o") && allows("some", "claude-3") && !allows("some", "gpt-4"));
}

#[test]
fn the_fallback_is_user_then_team_then_key() {
    use TenantDimension::{ApiKey, Team, User};
    let name = |present: bool| present.then(|| "same name".to_owned());
    for (user, team, configured, expected) in [
        (true, true, User, User),
        (true, true, Team, Team),
        (true, true, ApiKey, ApiKey),
        (true, false, User, User),
        (true, false, Team, User),
        (true, false, ApiKey, ApiKey),
        (false, true, User, Team),
        (false, true, Team, Team),
        (false, true, ApiKey, ApiKey),
        (false, false, User, ApiKey),
        (false, false, Team, ApiKey),
        (false, false, ApiKey, ApiKey),
    ] {
        let entry = KeyEntry { user: name(user), team: name(team), ..entry("same name", "sk-1") };
        let directory = directory([entry]);
        let identity = directory.by_id("same name").unwrap();
        let found = identity.tenant(configured);
        assert_eq!(found.dimension(), expected, "user {user}, team {team}, configured {configured}");
        let digest = match expected {
            User => hasher().user("same name"),
            Team => hasher().team("same name"),
            ApiKey => hasher().api_key_id("same name"),
        };
        assert_eq!(found.digest(), digest);
        assert_eq!(tenant(Some(identity), configured), Some(found));
        assert_eq!(tenant(None, configured), None);
    }
}

#[test]
fn an_empty_name_is_nobody() {
    let directory = directory([KeyEntry { tier: Some(String::new()), ..owned("k1", "sk-1", "", "") }]);
    let identity = directory.by_id("k1").unwrap();
    assert_eq!((identity.user(), identity.team(), identity.tier()), (None, None, None));
    assert_eq!(identity.tenant(TenantDimension::User).dimension(), TenantDimension::ApiKey);
}

#[test]
fn a_raw_name_finds_the_tenants_it_stands_for() {
    use TenantDimension::{ApiKey, Team, User};
    let user_only = KeyEntry { team: None, ..owned("k3", "k3", "carol", "") };
    let directory = directory([
        owned("k1", "sk-1", "alice", "research"),
        owned("k2", "k1", "", "alice"),
        user_only,
        entry("k4", "sk-4"),
    ]);
    let check = |name: &str, dimension, only, expected: &[TenantId]| {
        assert_eq!(directory.tenants_named(name, dimension, only), expected, "{name} by {dimension}");
    };
    let tenant = |id: &str, dimension| directory.by_id(id).unwrap().tenant(dimension);

    // The user of one key, and the team that another falls back to.
    check("alice", User, None, &[tenant("k1", User), tenant("k2", User)]);
    check("alice", User, Some(Team), &[tenant("k2", Team)]);
    check("alice", User, Some(ApiKey), &[]);
    check("alice", Team, None, &[tenant("k2", Team)]);
    check("alice", ApiKey, None, &[]);
    // A team that no request resolves to while users come first.
    check("research", User, None, &[]);
    check("research", Team, None, &[tenant("k1", Team)]);
    // A key by its text; by its id, which is the text of another; by an id that is its own text.
    check("sk-1", ApiKey, None, &[tenant("k1", ApiKey)]);
    check("sk-1", User, None, &[]);
    check("k1", ApiKey, None, &[tenant("k1", ApiKey), tenant("k2", ApiKey)]);
    check("k3", ApiKey, None, &[tenant("k3", ApiKey)]);
    // A key that belongs to nobody is its own tenant by every dimension.
    check("sk-4", Team, None, &[tenant("k4", User)]);
    check("nobody", User, None, &[]);
}

#[test]
fn every_identity_of_an_entry_is_known() {
    use TenantDimension::{ApiKey, Team, User};
    let directory = directory([owned("k1", "sk-1", "alice", "research")]);
    let hasher = hasher();
    assert!(directory.knows(User, hasher.user("alice")));
    assert!(directory.knows(Team, hasher.team("research")));
    assert!(directory.knows(ApiKey, hasher.api_key_id("k1")));
    assert!(!directory.knows(User, hasher.user("research")));
    assert!(!directory.knows(Team, hasher.user("alice")));
    assert!(!directory.knows(ApiKey, hasher.api_key_secret("sk-1")));
}

#[test]
fn a_reload_swaps_directories_and_keeps_tenants() {
    let alice = |key: &str| owned("k1", key, "alice", "research");
    let current = RwLock::new(Arc::new(directory([alice("sk-old"), entry("k2", "sk-2")])));
    let ask = |key: &str| -> Result<Arc<Identity>, AuthError> {
        let directory = Arc::clone(&current.read().unwrap());
        directory.authenticate(&present(key), 0).cloned()
    };

    let held = ask("sk-old").unwrap();
    *current.write().unwrap() = Arc::new(directory([alice("sk-new")]));

    assert_eq!(ask("sk-old").err(), Some(AuthError::Unknown));
    assert_eq!(ask("sk-2").err(), Some(AuthError::Unknown));
    let rotated = ask("sk-new").unwrap();
    for dimension in TenantDimension::ALL {
        assert_eq!(rotated.tenant(dimension), held.tenant(dimension), "{dimension}");
    }
}

proptest! {
    #[test]
    fn the_same_key_always_lands_in_the_same_lane(
        owners in prop::collection::vec((prop::option::of("[ab]{0,2}"), prop::option::of("[ab]{0,2}")), 1..12),
        rotation in any::<prop::sample::Index>(),
    ) {
        let mut entries: Vec<_> = owners
            .into_iter()
            .enumerate()
            .map(|(n, (user, team))| KeyEntry { user, team, ..entry(&format!("k{n}"), &format!("sk-{n}")) })
            .collect();
        let before = directory(entries.clone());
        let count = entries.len();
        entries.rotate_left(rotation.index(count));
        let after = directory(entries.clone());
        for (n, dimension) in (0..count).flat_map(|n| TenantDimension::ALL.map(|dimension| (n, dimension))) {
            let credential = present(&format!("sk-{n}"));
            let before = before.authenticate(&credential, 0).unwrap();
            let after = after.authenticate(&credential, 0).unwrap();
            prop_assert_eq!(before.tenant(dimension), after.tenant(dimension));
            prop_assert_eq!(&**before.key().name(), format!("k{n}"));
            // Where the key has the configured identity, no fallback is taken.
            if let Some(digest) = before.of(dimension) {
                prop_assert_eq!(before.tenant(dimension).digest(), digest);
                prop_assert_eq!(before.tenant(dimension).dimension(), dimension);
            }
        }
    }
}
