#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod address;
mod credential;
mod directory;
mod hasher;
mod identity;
mod key;
mod model;
mod secret;
mod tenant;

pub use address::{
    AddressSet, ClientNetwork, ClientPrefix, InvalidNetwork, InvalidPrefix, TrustedProxies, client_address,
};
pub use credential::{Credential, MalformedCredential};
pub use directory::{AuthError, Directory, DirectoryError};
pub use hasher::{Digest, DigestHash, DigestMap, Domain, EmptyHashKey, Hasher};
pub use identity::{Identity, KeyId};
pub use key::{InvalidSha256, KeyEntry, KeySecret};
pub use model::{InvalidModelPattern, ModelMatch, ModelPattern, ModelRules};
pub use tenant::{TenantDimension, TenantId, tenant};

pub use ipnet::IpNet;
pub use secrecy::SecretString;
