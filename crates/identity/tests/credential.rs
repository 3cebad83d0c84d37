//! What counts as a credential, and what stops a request.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use fairlane_identity::{
    Credential, Directory, Hasher, KeyEntry, KeySecret, MalformedCredential, SecretString,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

fn headers(lines: &[(&'static str, &[u8])]) -> HeaderMap {
    lines
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap()))
        .collect()
}

/// `Ok(Some(key))` if the headers present exactly that key.
#[track_caller]
fn check(lines: &[(&'static str, &[u8])], expected: Result<Option<&str>, MalformedCredential>) {
    let found = Credential::from_headers(&headers(lines));
    match (found, expected) {
        (Ok(Some(credential)), Ok(Some(key))) => assert!(is(&credential, key), "another key was read"),
        (Ok(None), Ok(None)) => {}
        (Err(found), Err(expected)) => assert_eq!(found, expected),
        (found, expected) => panic!("found {found:?}, expected {expected:?}"),
    }
}

fn is(credential: &Credential, key: &str) -> bool {
    let entry = KeyEntry::new("only".to_owned(), KeySecret::Raw(SecretString::from(key)));
    let directory = Directory::new([entry], &Hasher::new(b"key").unwrap()).unwrap();
    directory.authenticate(credential, 0).is_ok()
}

const AUTHORIZATION: &str = Credential::HEADERS[0];
const X_API_KEY: &str = Credential::HEADERS[1];

#[test]
fn nothing_presented_is_no_credential() {
    check(&[], Ok(None));
    check(&[("accept", b"*/*"), ("proxy-authorization", b"Bearer sk-1")], Ok(None));
}

#[test]
fn both_forms_are_read() {
    check(&[(AUTHORIZATION, b"Bearer sk-1")], Ok(Some("sk-1")));
    check(&[(AUTHORIZATION, b"bEARER sk-1")], Ok(Some("sk-1")));
    check(&[(AUTHORIZATION, b"Bearer   sk-1 ")], Ok(Some("sk-1")));
    check(&[(X_API_KEY, b"sk-1")], Ok(Some("sk-1")));
    check(&[(X_API_KEY, b" sk-1\t")], Ok(Some("sk-1")));
    check(&[(X_API_KEY, b"sk-1"), (AUTHORIZATION, b"Bearer sk-1")], Ok(Some("sk-1")));
}

#[test]
fn another_scheme_is_malformed() {
    for value in [b"Basic YTpi".as_slice(), b"sk-1", b"Bearersk-1", b"Bearer\tsk-1", b"Bearer,sk-1"] {
        check(&[(AUTHORIZATION, value)], Err(MalformedCredential::Scheme));
    }
    check(&[(AUTHORIZATION, b"Basic YTpi"), (X_API_KEY, b"sk-1")], Err(MalformedCredential::Scheme));
}

#[test]
fn an_empty_key_is_malformed() {
    for value in [b"".as_slice(), b"Bearer", b"Bearer ", b"Bearer  \t"] {
        check(&[(AUTHORIZATION, value)], Err(MalformedCredential::Empty));
    }
    check(&[(X_API_KEY, b"")], Err(MalformedCredential::Empty));
    check(&[(AUTHORIZATION, b"Bearer sk-1"), (X_API_KEY, b" ")], Err(MalformedCredential::Empty));
}

#[test]
fn characters_that_no_key_has_are_malformed() {
    for value in [b"sk 1".as_slice(), b"sk\t1", b"sk-\xc3\xa9", b"\xff"] {
        check(&[(X_API_KEY, value)], Err(MalformedCredential::Character));
        check(&[(AUTHORIZATION, &[b"Bearer ", value].concat())], Err(MalformedCredential::Character));
    }
}

#[test]
fn repeated_and_conflicting_headers_are_malformed() {
    check(&[(X_API_KEY, b"sk-1"), (X_API_KEY, b"sk-1")], Err(MalformedCredential::Repeated));
    check(
        &[(AUTHORIZATION, b"Bearer sk-1"), (AUTHORIZATION, b"Basic YTpi")],
        Err(MalformedCredential::Repeated),
    );
    check(&[(AUTHORIZATION, b"Bearer sk-1"), (X_API_KEY, b"sk-2")], Err(MalformedCredential::Conflict));
}

fn header_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(b' '), Just(b'\t'), 0x20..=0x7e_u8, 0x80..=0xff_u8], 0..24)
}

proptest! {
    #[test]
    fn a_header_that_is_there_never_counts_as_absent(
        authorization in prop::option::of(header_bytes()),
        bearer in any::<bool>(),
        plain in prop::option::of(header_bytes()),
    ) {
        let mut lines = Vec::new();
        let authorization =
            authorization.map(|value| if bearer { [b"Bearer ", value.as_slice()].concat() } else { value });
        lines.extend(authorization.as_deref().map(|value| (AUTHORIZATION, value)));
        lines.extend(plain.as_deref().map(|value| (X_API_KEY, value)));
        let is_absent = matches!(Credential::from_headers(&headers(&lines)), Ok(None));
        prop_assert_eq!(is_absent, lines.is_empty());
    }

    #[test]
    fn every_visible_key_is_read_whole(key in "[!-~]{1,40}") {
        let bearer = format!("Bearer {key}");
        let credential = Credential::from_headers(&headers(&[(AUTHORIZATION, bearer.as_bytes())]));
        prop_assert!(is(&credential.unwrap().unwrap(), &key));
        let credential = Credential::from_headers(&headers(&[(X_API_KEY, key.as_bytes())]));
        prop_assert!(is(&credential.unwrap().unwrap(), &key));
    }
}
