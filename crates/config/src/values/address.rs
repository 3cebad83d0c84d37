//! Addresses and ranges of addresses.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use ipnet::IpNet;

use super::ValueError;

/// The shape of an address or a CIDR; the numbers are for the parser.
pub(crate) const PATTERN: &str = "^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$";

/// One address or a range of them in CIDR form: `10.0.0.0/8`, `2001:db8::/32`, `192.0.2.7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressRange(IpNet);

impl AddressRange {
    /// The range as a network; a single address is one of full length.
    #[must_use]
    pub fn network(&self) -> IpNet {
        self.0
    }

    /// Whether the address is in the range.
    #[must_use]
    pub fn contains(&self, address: &IpAddr) -> bool {
        self.0.contains(address)
    }
}

impl FromStr for AddressRange {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let range = match text.parse::<IpAddr>() {
            Ok(address) => IpNet::from(address),
            Err(_) => text.parse::<IpNet>().map_err(|_| {
                ValueError::new(
                    "an address such as 192.0.2.7 or 2001:db8::1, or a CIDR such as 10.0.0.0/8, is due",
                )
            })?,
        };
        if range != range.trunc() {
            // Almost always a slip in the length, and the two readings differ by whom they trust.
            return Err(ValueError::new(format!(
                "the address has bits beyond the prefix length: the range is {}, the single address {}",
                range.trunc(),
                range.addr()
            )));
        }
        Ok(Self(range))
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() { self.0.addr().fmt(f) } else { self.0.fmt(f) }
    }
}

/// Reads an address to listen on, such as `127.0.0.1:8080` or `[::]:8080`.
///
/// # Errors
///
/// When the text is not an IP address with a port.
pub fn parse_listen(text: &str) -> Result<SocketAddr, ValueError> {
    text.parse().map_err(|_| {
        ValueError::new("an IP address with a port is due, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::]:8080")
    })
}
