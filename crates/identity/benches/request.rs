//! What identity costs on a request's way, as the best of many rounds: `cargo bench -p fairlane-identity`.
#![expect(clippy::print_stdout, reason = "a benchmark reports to whoever runs it")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use fairlane_identity::{
    AddressSet, ClientPrefix, Credential, Directory, Hasher, KeyEntry, KeySecret, ModelPattern, ModelRules,
    SecretString, TrustedProxies, client_address,
};
use http::{HeaderMap, HeaderValue};

const KEYS: usize = 10_000;
const RULES: usize = 500;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `cargo test --benches` runs it once, to see that it works.
    let rounds: u32 = if std::env::args().any(|argument| argument == "--bench") { 2_000 } else { 1 };

    let hasher = Hasher::new(&[7; 32])?;
    let key = |n: usize| format!("sk-{n:048}");
    let entries =
        (0..KEYS).map(|n| KeyEntry::new(format!("k{n}"), KeySecret::Raw(SecretString::from(key(n)))));
    let directory = Directory::new(entries, &hasher)?;
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_str(&format!("Bearer {}", key(KEYS / 2)))?);
    headers.insert("x-forwarded-for", HeaderValue::from_static("9.9.9.9, 198.51.100.1, 10.0.0.2"));
    let credential = Credential::from_headers(&headers)?.ok_or("no credential")?;

    let proxies = TrustedProxies::new(AddressSet::parse(["10.0.0.0/8", "fd00::/8"])?);
    let proxy = "10.0.0.1".parse()?;
    let prefix = ClientPrefix::default();
    let rules: ModelRules =
        (0..RULES).map(|n| format!("family-{n}-*").parse::<ModelPattern>()).collect::<Result<_, _>>()?;

    report("read and hash the credential", rounds, || Credential::from_headers(black_box(&headers)).is_ok());
    report("authenticate, of 10 000 keys", rounds, || {
        directory.authenticate(black_box(&credential), 0).is_ok()
    });
    report("client address behind two proxies", rounds, || {
        client_address(black_box(proxy), &headers, &proxies)
    });
    report("client digest", rounds, || hasher.client(prefix.network(black_box(proxy))));
    report("user digest", rounds, || hasher.user(black_box("alice@example.com")));
    report("model rule, of 500 prefixes", rounds, || rules.find(black_box("family-321-large")).is_some());
    Ok(())
}

/// Runs `what` in rounds of 1 000 and prints the time of one run in the fastest round, the one least disturbed.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn report<T>(name: &str, rounds: u32, what: impl Fn() -> T) {
    const RUNS: u32 = 1_000;
    let mut best = Duration::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        for _ in 0..RUNS {
            black_box(what());
        }
        best = best.min(start.elapsed());
    }
    println!("{name:<36} {:>6.0} ns", best.as_secs_f64() * 1e9 / f64::from(RUNS));
}
