//! Which server has which slot.

use std::sync::Arc;

use redis::Value;

use crate::redis::connection::node::Node;
use crate::redis::script::Nonsense;
use crate::redis::settings::Address;

/// How many slots every cluster has.
pub(super) const SLOTS: u16 = 16_384;

/// The slot of a key without braces, or of what stands in them: CRC16 in the variant of XMODEM.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let crc = key.iter().fold(0_u16, |crc, byte| crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)]);
    crc % SLOTS
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0_u16;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
};

/// Slots that follow each other and have one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) master: Address,
}

/// Reads the answer to `CLUSTER SLOTS`. `asked`: the host that gave it, which may not know its own name.
pub(super) fn read(answer: &Value, asked: &str) -> Result<Vec<Range>, Nonsense> {
    let Value::Array(ranges) = answer else { return Err("no list of slots") };
    ranges
        .iter()
        .map(|range| read_range(range, asked).ok_or("a range of slots that makes no sense"))
        .collect()
}

fn read_range(range: &Value, asked: &str) -> Option<Range> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = &**parts else { return None };
    let [host, Value::Int(port), ..] = &**master else { return None };
    let host = match host {
        Value::BulkString(host) => String::from_utf8(host.clone()).ok()?,
        Value::Nil => String::new(),
        _ => return None,
    };
    let host = if host.is_empty() || host == "?" { asked.to_owned() } else { host };
    let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
    let master = Address::new(host, u16::try_from(*port).ok()?);
    (first <= last && last < SLOTS).then_some(Range { first, last, master })
}

/// Reads where a redirection leads to: `host:port`, without a host if it is the one that was asked.
pub(super) fn read_address(text: &str, asked: &str) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    let host = if host.is_empty() || host == "?" { asked } else { host };
    Some(Address::new(host, port.parse().ok()?))
}

/// Which node has which slot.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotMap {
    nodes: Vec<Arc<Node>>,
    /// For each slot a place among the nodes; empty before anything is known.
    owners: Vec<Option<u16>>,
}

impl SlotMap {
    /// The map with these ranges; those whose node is missing are left without an owner.
    pub(super) fn new<'a>(ranges: impl Iterator<Item = (&'a Range, Option<Arc<Node>>)>) -> Self {
        let mut map = Self { nodes: Vec::new(), owners: vec![None; usize::from(SLOTS)] };
        for (range, node) in ranges {
            let place = node.map(|node| map.place(&node));
            for owner in &mut map.owners[usize::from(range.first)..=usize::from(range.last)] {
                *owner = place;
            }
        }
        map
    }

    /// The same map, except that one slot has another owner.
    pub(super) fn with_moved(&self, slot: u16, node: &Arc<Node>) -> Self {
        let mut map = self.clone();
        let place = map.place(node);
        if let Some(owner) = map.owners.get_mut(usize::from(slot)) {
            *owner = Some(place);
        }
        map
    }

    fn place(&mut self, node: &Arc<Node>) -> u16 {
        let known = self.nodes.iter().position(|known| Arc::ptr_eq(known, node));
        let place = known.unwrap_or_else(|| {
            self.nodes.push(Arc::clone(node));
            self.nodes.len() - 1
        });
        u16::try_from(place).unwrap_or(u16::MAX)
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        let place = self.owners.get(usize::from(slot)).copied().flatten()?;
        self.nodes.get(usize::from(place))
    }

    pub(super) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// Whether every slot has an owner.
    pub(super) fn is_complete(&self) -> bool {
        !self.owners.is_empty() && self.owners.iter().all(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b""), 0);
    }

    #[test]
    fn ranges_are_read() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let node = |host, port| Value::Array(vec![host, Value::Int(port), text("id")]);
        let range = |first, last, nodes: Vec<Value>| {
            let mut parts = vec![Value::Int(first), Value::Int(last)];
            parts.extend(nodes);
            Value::Array(parts)
        };
        let answer = Value::Array(vec![
            range(0, 5, vec![node(text("10.0.0.1"), 7000), node(text("10.0.0.2"), 7000)]),
            range(6, 16_383, vec![node(Value::Nil, 7001)]),
        ]);
        let expected = [
            Range { first: 0, last: 5, master: Address::new("10.0.0.1", 7000) },
            Range { first: 6, last: 16_383, master: Address::new("seed", 7001) },
        ];
        assert_eq!(read(&answer, "seed").unwrap(), expected);
        for wrong in [
            Value::Okay,
            Value::Array(vec![Value::Nil]),
            Value::Array(vec![range(0, 16_384, vec![node(text("h"), 1)])]),
            Value::Array(vec![range(5, 4, vec![node(text("h"), 1)])]),
            Value::Array(vec![range(0, 1, vec![])]),
            Value::Array(vec![range(0, 1, vec![node(text("h"), 65_536)])]),
        ] {
            assert!(read(&wrong, "seed").is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn redirections_are_read() {
        assert_eq!(read_address("10.0.0.1:7000", "seed"), Some(Address::new("10.0.0.1", 7000)));
        assert_eq!(read_address(":7000", "seed"), Some(Address::new("seed", 7000)));
        assert_eq!(read_address("::1:7000", "seed"), Some(Address::new("::1", 7000)));
        assert_eq!(read_address("10.0.0.1", "seed"), None);
    }
}
