//! What a request costs in allocations: none.

use std::hint::black_box;

use fairlane_identity::{
    AddressSet, ClientPrefix, Credential, Directory, Hasher, KeyEntry, KeySecret, ModelPattern, ModelRules,
    SecretString, TenantDimension, TrustedProxies, client_address,
};
use http::{HeaderMap, HeaderValue};

#[track_caller]
fn check(what: impl FnOnce()) {
    assert_eq!(allocation_counter::measure(what).count_total, 0);
}

#[test]
fn an_allocation_would_be_counted() {
    assert!(allocation_counter::measure(|| drop(black_box(vec![1_u8]))).count_total > 0);
}

#[test]
fn the_way_of_a_request_allocates_nothing() {
    let hasher = Hasher::new(b"key").unwrap();
    let entry = KeyEntry::new("k1".to_owned(), KeySecret::Raw(SecretString::from("sk-1")));
    let directory = Directory::new([entry], &hasher).unwrap();
    let proxies = TrustedProxies::new(AddressSet::parse(["10.0.0.0/8"]).unwrap());
    let models: ModelRules =
        ["*", "gpt-4o", "gpt-4*"].into_iter().map(|text| text.parse::<ModelPattern>().unwrap()).collect();
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_static("Bearer sk-1"));
    headers.insert("x-forwarded-for", HeaderValue::from_static("9.9.9.9, [2001:db8::1]:443, 10.0.0.2"));
    let peer = "10.0.0.1".parse().unwrap();

    check(|| {
        let client = client_address(black_box(peer), &headers, &proxies);
        black_box(hasher.client(ClientPrefix::default().network(client)));
    });
    check(|| {
        let credential = Credential::from_headers(black_box(&headers)).unwrap().unwrap();
        let identity = directory.authenticate(&credential, 0).unwrap();
        black_box(identity.tenant(TenantDimension::User));
        black_box(identity.allows_model("gpt-4o"));
    });
    check(|| {
        black_box(models.find(black_box("gpt-4o-mini")));
    });
}
