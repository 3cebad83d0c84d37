//! `GET /admin/queues`: who waits where, by hashed identity.

use std::collections::HashMap;

use fairlane_fair_queue::{GateKey, GateSnapshot, LaneSnapshot, Snapshot};
use serde_json::{Value, json};

use crate::{answer::whole_millis, dimension::Dimension};

/// The lanes as JSON. `null` for `snapshot` means that nothing is ever held.
pub(super) fn render(snapshot: Option<Snapshot>, dimensions: &HashMap<GateKey, Dimension>) -> Value {
    let Some(snapshot) = snapshot else { return json!({"enabled": false, "gates": []}) };
    let gates = snapshot.gates.iter().map(|gate| self::gate(gate, dimensions.get(&gate.gate)));
    json!({
        "enabled": true,
        "held": snapshot.held,
        "queued": snapshot.queued,
        "deferred": snapshot.deferred,
        "in_flight": snapshot.in_flight,
        "tenants": snapshot.tenants,
        "gates": gates.collect::<Vec<_>>(),
    })
}

fn gate(gate: &GateSnapshot, dimension: Option<&Dimension>) -> Value {
    json!({
        "gate": format!("{:032x}", gate.gate.0),
        "limit_type": dimension.map(|dimension| dimension.as_str()),
        "class": gate.class.as_str(),
        "waiting": gate.waiting,
        "in_flight": gate.in_flight,
        "room": gate.room,
        "lanes": gate.lanes.iter().map(lane).collect::<Vec<_>>(),
    })
}

fn lane(lane: &LaneSnapshot) -> Value {
    json!({
        "tenant": format!("{:032x}", lane.tenant.0),
        "weight": lane.weight.get(),
        "waiting": lane.waiting,
        "in_flight": lane.in_flight,
        "share": lane.recent_share,
        "oldest_wait_ms": lane.oldest_wait.map(whole_millis),
    })
}
