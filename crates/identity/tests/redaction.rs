//! No printed form of anything shows a key, a user or a team.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::{Debug, Display};

use fairlane_identity::{
    ClientPrefix, Credential, Directory, DirectoryError, Hasher, KeyEntry, KeySecret, SecretString,
    TenantDimension,
};
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

/// Everything that was printed, to be searched for what must not be in it.
#[derive(Default)]
struct Printed(Vec<String>);

impl Printed {
    fn debug(&mut self, value: &impl Debug) {
        self.0.extend([format!("{value:?}"), format!("{value:#?}")]);
    }

    fn display(&mut self, value: &(impl Debug + Display)) {
        self.debug(value);
        self.0.push(value.to_string());
    }

    /// The first printed text that holds the canary: as text, plain or escaped, in letters of either case, as a
    /// list of bytes, or in hexadecimal digits.
    fn leak(&self, canary: &(impl AsRef<[u8]> + ?Sized)) -> Option<&String> {
        let inside = |text: String| text[1..text.len() - 1].to_lowercase();
        let canary = canary.as_ref();
        let mut forms = vec![hex::encode(canary), inside(format!("{canary:?}"))];
        if let Ok(text) = str::from_utf8(canary) {
            forms.extend([text.to_lowercase(), inside(format!("{text:?}"))]);
        }
        self.0.iter().find(|text| {
            let text = text.to_lowercase();
            forms.iter().any(|form| text.contains(form))
        })
    }
}

#[test]
fn a_leak_would_be_found() {
    const CANARY: &str = "Canary\\1";
    let leaks: [&dyn Debug; 4] =
        [&format_args!("key {CANARY}"), &CANARY, &CANARY.as_bytes(), &hex::encode_upper(CANARY)];
    for leaky in leaks {
        let mut printed = Printed::default();
        printed.debug(&leaky);
        assert!(printed.leak(CANARY).is_some(), "{leaky:?}");
        assert!(printed.leak("Canary-2").is_none());
    }
}

proptest! {
    #[test]
    fn nothing_raw_is_printed(
        hash_key in "hash-[!-~]{12,20}",
        key in "key-[!-~]{12,20}",
        user in "user-[ -~]{12,20}",
        team in "team-[ -~]{12,20}",
    ) {
        let mut printed = Printed::default();
        let hasher = Hasher::new(hash_key.as_bytes()).unwrap();
        printed.debug(&hasher);
        let secret = KeySecret::Raw(SecretString::from(key.as_str()));
        printed.debug(&secret);
        printed.debug(&KeySecret::Sha256([7; 32]));
        let entry = KeyEntry {
            user: Some(user.clone()),
            team: Some(team.clone()),
            tier: Some("gold".to_owned()),
            expires_at: Some(10),
            models: Some(vec!["gpt-*".parse().unwrap()]),
            ..KeyEntry::new("k1".to_owned(), secret)
        };
        printed.debug(&entry);

        let twice = [entry.clone(), KeyEntry { id: "k2".to_owned(), ..entry.clone() }];
        printed.display(&Directory::new(twice, &hasher).unwrap_err());
        let twice = [entry.clone(), entry.clone()];
        printed.display(&Directory::new(twice, &hasher).unwrap_err());
        let unusable = KeySecret::Raw(SecretString::from(format!("{key} {key}")));
        let unusable = Directory::new([KeyEntry { secret: unusable, ..entry.clone() }], &hasher).unwrap_err();
        prop_assert_eq!(unusable, DirectoryError::UnusableSecret { index: 0 });
        printed.display(&unusable);
        printed.display(&KeySecret::from_sha256_hex(&key).unwrap_err());

        let directory = Directory::new([entry], &hasher).unwrap();
        printed.debug(&directory);
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_str(&format!("Bearer {key}")).unwrap());
        let credential = Credential::from_headers(&headers).unwrap().unwrap();
        printed.debug(&credential);
        let identity = directory.authenticate(&credential, 0).unwrap();
        printed.debug(identity);
        printed.debug(identity.key());
        printed.display(&directory.authenticate(&credential, 10).unwrap_err());
        for dimension in TenantDimension::ALL {
            printed.display(&identity.tenant(dimension));
            printed.display(&identity.tenant(dimension).digest());
        }
        for name in [&key, &user, &team] {
            for dimension in TenantDimension::ALL {
                printed.debug(&directory.tenants_named(name, dimension, None));
            }
        }

        headers.insert("x-api-key", HeaderValue::from_str(&user).unwrap());
        printed.display(&Credential::from_headers(&headers).unwrap_err());
        headers.insert("authorization", HeaderValue::from_str(&format!("Basic {key}")).unwrap());
        printed.display(&Credential::from_headers(&headers).unwrap_err());
        printed.debug(&ClientPrefix::default());

        for canary in [&hash_key, &key, &user, &team] {
            prop_assert_eq!(printed.leak(canary), None);
        }
        // A hash of a key is no key, but what a thief would search a list of guesses for.
        prop_assert_eq!(printed.leak(&Sha256::digest(&key)), None);
        prop_assert_eq!(printed.leak(&[7; 32]), None);
    }
}
