//! Where a request came from, behind proxies that may be believed.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// A set of addresses, given as single ones and as networks.
///
/// IPv4-mapped IPv6 counts as IPv4, in networks and in what is looked up; so a network of other IPv6 addresses,
/// even `::/0`, holds no IPv4 address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressSet(Vec<IpNet>);

/// The proxies whose `X-Forwarded-For` is believed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(AddressSet);

/// A text is neither an address nor a network in CIDR form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("entry {index} is neither an address nor a network in cidr form")]
pub struct InvalidNetwork {
    /// Its place in the list, from 0.
    pub index: usize,
}

/// How many leading bits of an address name one client.
///
/// A subscriber to IPv6 commonly holds a whole /64: counted by address, one caller could have 2⁶⁴ buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientPrefix {
    v4: u8,
    v6: u8,
}

/// A prefix length is zero, or longer than an address of its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a prefix length is from 1 to 32 for ipv4 and from 1 to 128 for ipv6")]
pub struct InvalidPrefix;

/// The network that counts as one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientNetwork(IpNet);

/// The address of the client that sent a request.
///
/// That is `peer`, unless `peer` is a trusted proxy: then it is the right-most untrusted entry of
/// `X-Forwarded-For`, all lines of that name taken as one list. Each proxy appends the address it was reached
/// from, so the right-most entries are the ones that trusted proxies wrote; whatever a client sends itself lies to
/// the left of its own address, where the walk never comes.
///
/// - If every entry is trusted, the left-most one is the client: it is a machine of ours.
/// - An entry that is no address (`unknown`, a name, garbage) ends the walk, and the last trusted address stands:
///   all such requests share that proxy's bucket, and none buys a fresh one. Empty entries are skipped
///   (RFC 9110, section 5.6.1).
/// - A port, brackets around IPv6, and quotes around the whole entry are understood and dropped.
/// - IPv4-mapped IPv6 (`::ffff:192.0.2.1`) is the IPv4 address it holds, whether as peer or as entry.
#[must_use]
pub fn client_address(peer: IpAddr, headers: &HeaderMap, proxies: &TrustedProxies) -> IpAddr {
    let mut client = peer.to_canonical();
    if !proxies.contains(client) {
        return client;
    }
    // Commas split always, even inside quotes: an opening quote sent by the client must not reach over the
    // entries that our proxies append after it.
    let entries = headers
        .get_all(&X_FORWARDED_FOR)
        .iter()
        .rev()
        .flat_map(|line| line.as_bytes().rsplit(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|entry| !entry.is_empty());
    for entry in entries {
        let Some(address) = parse_entry(entry) else { break };
        client = address;
        if !proxies.contains(address) {
            break;
        }
    }
    client
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`, or one of them in quotes.
fn parse_entry(entry: &[u8]) -> Option<IpAddr> {
    let entry = str::from_utf8(entry).ok()?;
    let entry = match entry.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"')?,
        None => entry,
    };
    let address = entry
        .parse()
        .or_else(|_| entry.parse::<SocketAddr>().map(|socket| socket.ip()))
        .ok()
        .or_else(|| entry.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6))?;
    Some(address.to_canonical())
}

// === impl AddressSet ===

impl AddressSet {
    /// Reads addresses and networks in CIDR form.
    ///
    /// # Errors
    ///
    /// [`InvalidNetwork`] for the first text that is neither.
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, InvalidNetwork> {
        let network = |(index, text): (usize, &str)| {
            let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
            network.map_err(|_| InvalidNetwork { index })
        };
        texts.into_iter().enumerate().map(network).collect()
    }

    /// Whether the address is in the set.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Whether the set has no address.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<IpNet> for AddressSet {
    fn from_iter<I: IntoIterator<Item = IpNet>>(networks: I) -> Self {
        Self(networks.into_iter().map(canonical).collect())
    }
}

/// A network of IPv4-mapped IPv6 as the IPv4 network it is.
fn canonical(network: IpNet) -> IpNet {
    const MAPPED_BITS: u8 = 96;
    match (network.addr().to_canonical(), network.prefix_len().checked_sub(MAPPED_BITS)) {
        (IpAddr::V4(address), Some(length)) if network.max_prefix_len() == 128 => {
            ipnet::Ipv4Net::new(address, length).map_or(network, IpNet::V4)
        }
        _ => network,
    }
}

// === impl TrustedProxies ===

impl TrustedProxies {
    /// Believes the proxies at these addresses.
    #[must_use]
    pub const fn new(addresses: AddressSet) -> Self {
        Self(addresses)
    }

    /// Whether a proxy at this address is believed.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(address)
    }
}

impl From<AddressSet> for TrustedProxies {
    fn from(addresses: AddressSet) -> Self {
        Self::new(addresses)
    }
}

// === impl ClientPrefix ===

impl ClientPrefix {
    /// Counts clients by the leading `v4` bits of IPv4 and the leading `v6` bits of IPv6 addresses.
    ///
    /// # Errors
    ///
    /// [`InvalidPrefix`] if a length is zero (all callers would be one client) or longer than an address.
    pub const fn new(v4: u8, v6: u8) -> Result<Self, InvalidPrefix> {
        if v4 == 0 || v4 > 32 || v6 == 0 || v6 > 128 {
            return Err(InvalidPrefix);
        }
        Ok(Self { v4, v6 })
    }

    /// The client that an address belongs to.
    #[must_use]
    pub fn network(self, address: IpAddr) -> ClientNetwork {
        let address = address.to_canonical();
        let length = if address.is_ipv4() { self.v4 } else { self.v6 };
        // The lengths were checked; a network of the single address is what is left to say otherwise.
        ClientNetwork(IpNet::new(address, length).map_or_else(|_| address.into(), |network| network.trunc()))
    }
}

/// IPv4 by address, IPv6 by /64.
impl Default for ClientPrefix {
    fn default() -> Self {
        Self { v4: 32, v6: 64 }
    }
}

// === impl ClientNetwork ===

impl ClientNetwork {
    /// Family, length and address at fixed places: no two networks have the same encoding.
    pub(crate) fn encode(self) -> [u8; 18] {
        let mut bytes = [0; 18];
        bytes[1] = self.0.prefix_len();
        match self.0.addr() {
            IpAddr::V4(address) => {
                bytes[0] = 4;
                bytes[2..6].copy_from_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                bytes[0] = 6;
                bytes[2..].copy_from_slice(&address.octets());
            }
        }
        bytes
    }
}

impl fmt::Display for ClientNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
