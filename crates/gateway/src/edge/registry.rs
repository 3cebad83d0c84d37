//! The open connections: how many each client has, and whom to tell of a drain.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

use super::EdgeSettings;
use super::activity::Activity;
use super::state::ConnectionState;

/// The open connections of one edge. Its lock is taken when a connection opens or closes, never for a request.
#[derive(Debug)]
pub(super) struct Registry {
    open: Mutex<Open>,
    activity: Activity,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, Arc<ConnectionState>>,
    per_client: HashMap<IpAddr, usize>,
    draining: bool,
}

impl Registry {
    pub(super) fn new(activity: Activity) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), activity })
    }

    /// Counts a connection from `peer`; `None` if its client has too many already.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr, settings: &EdgeSettings) -> Option<Place> {
        self.activity.accepted_one();
        let client = client_of(peer, settings);
        let mut open = self.open.lock();
        if let Some(client) = client {
            let count = open.per_client.entry(client).or_default();
            if *count >= settings.max_connections_per_client {
                drop(open);
                self.activity.refused_one();
                return None;
            }
            *count += 1;
        }
        let number = open.next;
        open.next += 1;
        drop(open);
        self.activity.connection_opened();
        Some(Place { registry: Arc::clone(self), number, client })
    }

    /// Tells every open connection, and every one still to be opened, to end.
    pub(super) fn drain(&self) {
        let connections: Vec<_> = {
            let mut open = self.open.lock();
            open.draining = true;
            open.connections.values().cloned().collect()
        };
        for connection in connections {
            connection.drain();
        }
    }
}

/// A counted connection; dropping it takes it off the count.
#[derive(Debug)]
pub(super) struct Place {
    registry: Arc<Registry>,
    number: u64,
    client: Option<IpAddr>,
}

impl Place {
    /// Enters the connection's state, so that it hears of a drain.
    pub(super) fn occupy(&self, state: &Arc<ConnectionState>) {
        let mut open = self.registry.open.lock();
        open.connections.insert(self.number, Arc::clone(state));
        let draining = open.draining;
        drop(open);
        if draining {
            state.drain();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.registry.open.lock();
        open.connections.remove(&self.number);
        if let Some(client) = self.client
            && let Some(count) = open.per_client.get_mut(&client)
        {
            *count -= 1;
            if *count == 0 {
                open.per_client.remove(&client);
            }
        }
        drop(open);
        self.registry.activity.connection_closed();
    }
}

/// The address that stands for all of one client's; none for peers without a bound.
pub(super) fn client_of(peer: IpAddr, settings: &EdgeSettings) -> Option<IpAddr> {
    // A socket for both families shows IPv4 peers in their IPv6 form.
    let peer = peer.to_canonical();
    if (settings.exempt)(peer) {
        return None;
    }
    Some(match peer {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(settings.ipv4_prefix.into())).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask =
                u128::MAX.checked_shl(128_u32.saturating_sub(settings.ipv6_prefix.into())).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    })
}
