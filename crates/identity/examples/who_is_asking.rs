//! Tells who is asking, whose lane it is and where from, for a handful of requests.
//!
//! Run it with `cargo run -p fairlane-identity --example who_is_asking`.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::{
    collections::HashMap,
    error::Error,
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
};

use fairlane_identity::{
    AddressSet, ClientPrefix, Credential, Digest, Directory, Hasher, KeyEntry, KeySecret, SecretString,
    TenantDimension, TrustedProxies, client_address,
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// 2026-01-01, in seconds since the Unix epoch: the caller owns the clock.
const NOW: i64 = 1_767_225_600;

/// What tenants are told apart by.
const DIMENSION: TenantDimension = TenantDimension::User;

struct Door {
    hasher: Hasher,
    proxies: TrustedProxies,
    directory: RwLock<Arc<Directory>>,
}

impl Door {
    fn directory(&self) -> Arc<Directory> {
        Arc::clone(&self.directory.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn reload(&self, entries: Vec<KeyEntry>) -> Result<(), Box<dyn Error>> {
        // A list that is refused changes nothing: the error leaves before the swap.
        let directory = Arc::new(Directory::new(entries, &self.hasher)?);
        *self.directory.write().unwrap_or_else(PoisonError::into_inner) = directory;
        Ok(())
    }

    fn ask(&self, title: &str, peer: IpAddr, headers: &HeaderMap, weights: &HashMap<Digest, u32>) {
        let client = ClientPrefix::default().network(client_address(peer, headers, &self.proxies));
        println!("{title}\n  client {:.12} ({client})", self.hasher.client(client));
        let credential = match Credential::from_headers(headers) {
            Ok(Some(credential)) => credential,
            Ok(None) => return println!("  anonymous"),
            Err(malformed) => return println!("  refused: {malformed}"),
        };
        match self.directory().authenticate(&credential, NOW) {
            Ok(identity) => {
                let tenant = identity.tenant(DIMENSION);
                let weight = weights.get(&tenant.digest()).unwrap_or(&1);
                println!("  lane {} {:.12}, weight {weight}", tenant.dimension(), tenant.digest());
                println!("  may use gpt-4o: {}", identity.allows_model("gpt-4o"));
            }
            Err(rejected) => println!("  refused: {rejected}"),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let hasher = Hasher::new(b"32 random bytes, kept by the operator")?;
    let door = Door {
        proxies: AddressSet::parse(["10.0.0.0/8"])?.into(),
        directory: RwLock::new(Arc::new(Directory::new([], &hasher)?)),
        hasher,
    };
    door.reload(vec![
        KeyEntry { user: Some("alice".to_owned()), ..entry("k1", "sk-alice") },
        KeyEntry {
            team: Some("research".to_owned()),
            models: Some(vec!["claude-*".parse()?]),
            ..entry("k2", "sk-research")
        },
        KeyEntry { expires_at: Some(NOW), ..entry("k3", "sk-expired") },
    ])?;

    // Weights name tenants as a person would; the names are matched here, once, and then forgotten.
    let mut weights = HashMap::new();
    for (name, weight) in [("alice", 3), ("research", 2), ("nobody", 9)] {
        let tenants = door.directory().tenants_named(name, DIMENSION, None);
        println!("a weight of {weight} matches {} tenant(s)", tenants.len());
        weights.extend(tenants.into_iter().map(|tenant| (tenant.digest(), weight)));
    }

    let direct: IpAddr = "2001:db8:0:1::5".parse()?;
    let proxy: IpAddr = "10.0.0.1".parse()?;
    door.ask("alice, direct", direct, &headers(&[("authorization", "Bearer sk-alice")])?, &weights);
    let forged = headers(&[("x-api-key", "sk-research"), ("x-forwarded-for", "1.1.1.1, 198.51.100.7")])?;
    door.ask("a key without a user, behind a proxy", proxy, &forged, &weights);
    door.ask("no key", direct, &headers(&[])?, &weights);
    door.ask("another scheme", direct, &headers(&[("authorization", "Basic YWxpY2U6")])?, &weights);
    door.ask("an expired key", direct, &headers(&[("x-api-key", "sk-expired")])?, &weights);

    door.reload(vec![KeyEntry { user: Some("alice".to_owned()), ..entry("k1", "sk-rotated") }])?;
    door.ask("alice's old key", direct, &headers(&[("x-api-key", "sk-alice")])?, &weights);
    door.ask("alice's new key: the same lane", direct, &headers(&[("x-api-key", "sk-rotated")])?, &weights);
    Ok(())
}

fn entry(id: &str, key: &str) -> KeyEntry {
    KeyEntry::new(id.to_owned(), KeySecret::Raw(SecretString::from(key)))
}

fn headers(lines: &[(&'static str, &'static str)]) -> Result<HeaderMap, http::Error> {
    lines
        .iter()
        .map(|&(name, value)| Ok((HeaderName::from_static(name), HeaderValue::from_str(value)?)))
        .collect()
}
