//! The limits that run before anybody is known: everything, and each client address.

use std::net::IpAddr;

use fairlane_identity::{AddressSet, ClientPrefix, Hasher};
use ipnet::IpNet;

use super::{Charges, PeriodQuota};
use crate::dimension::Dimension;

/// The `global` and `per_client` limits.
#[derive(Debug)]
pub struct EdgeLimits {
    /// The charges of `global`, the same for every request.
    pub global: Charges,
    /// The quotas of `per_client`.
    pub client: Vec<PeriodQuota>,
    /// Other quotas for clients in these ranges, the narrowest range first.
    pub client_overrides: Vec<(IpNet, Vec<PeriodQuota>)>,
    /// How much of an address is one client.
    pub prefix: ClientPrefix,
    /// Addresses that pass without any limit.
    pub whitelist: AddressSet,
    /// Names a client's bucket.
    pub hasher: Hasher,
}

impl EdgeLimits {
    /// What a request from `client` is charged.
    #[must_use]
    pub fn charges(&self, client: IpAddr) -> Charges {
        let mut charges = Charges::default();
        charges.extend(&self.global);
        let special = self.client_overrides.iter().find(|(range, _)| range.contains(&client));
        let quotas = special.map_or(&self.client, |(_, quotas)| quotas);
        if !quotas.is_empty() {
            let digest = self.hasher.client(self.prefix.network(client));
            charges.push_identity(Dimension::Client, digest, quotas);
        }
        charges
    }

    /// Whether requests from `client` pass without any limit.
    #[must_use]
    pub fn bypasses(&self, client: IpAddr) -> bool {
        self.whitelist.contains(client)
    }
}
