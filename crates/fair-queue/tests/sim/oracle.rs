//! The order by the book: smooth weighted round-robin in virtual time, O(n) a pick, nothing clever.

/// One unit of virtual time is 2^32 steps, as in the queue: the roundings are part of the definition.
const UNIT: i128 = 1 << 32;

#[derive(Clone, Debug)]
struct Member {
    weight: i128,
    ready: bool,
    /// Service received, while ready; the lag kept, while not.
    tally: i128,
    /// The largest turn since its lag was last not below zero, rounded up to a power of two.
    largest: i128,
}

/// Virtual time is `whole + part / total` steps.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    members: Vec<Member>,
    whole: i128,
    part: i128,
    total: i128,
    last_cost: i128,
    /// The costs granted, latest last.
    granted: Vec<i128>,
}

impl Oracle {
    pub(crate) fn new() -> Self {
        Self { members: Vec::new(), whole: 0, part: 0, total: 1, last_cost: 1, granted: Vec::new() }
    }

    /// A new member, not ready.
    pub(crate) fn join(&mut self, weight: u32) -> usize {
        self.members.push(Member { weight: weight.into(), ready: false, tally: 0, largest: 0 });
        self.members.len() - 1
    }

    /// The largest cost lately granted: of the last full 256 grants and those after them.
    fn largest(&self) -> i128 {
        let from = (self.granted.len().saturating_sub(1) / 256).saturating_sub(1) * 256;
        self.granted[from..].iter().copied().max().unwrap_or(1)
    }

    fn due(&self, weight: i128) -> i128 {
        weight * self.whole + weight * self.part / self.total
    }

    pub(crate) fn ready(&mut self, member: usize) {
        let due = self.due(self.members[member].weight);
        let most = self.largest() * UNIT;
        let member = &mut self.members[member];
        assert!(!member.ready);
        let least = -most.max(member.largest * UNIT);
        member.tally = due - member.tally.clamp(least, most);
        member.ready = true;
    }

    pub(crate) fn unready(&mut self, member: usize) {
        let due = self.due(self.members[member].weight);
        let member = &mut self.members[member];
        assert!(member.ready);
        member.tally = due - member.tally;
        member.ready = false;
    }

    pub(crate) fn members(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn is_ready(&self, member: usize) -> bool {
        self.members[member].ready
    }

    fn advance(&mut self, cost: i128, total: i128) {
        if self.total != total {
            self.part = self.part * total / self.total;
            self.total = total;
        }
        let sum = self.part + cost * UNIT;
        self.whole += sum / total;
        self.part = sum % total;
    }

    /// Whose turn it is: by the lag at the time when one more like the last has been served.
    pub(crate) fn peek(&self) -> Option<usize> {
        let total: i128 = self.members.iter().filter(|member| member.ready).map(|member| member.weight).sum();
        if total == 0 {
            return None;
        }
        let mut then = self.clone_time();
        then.advance(self.last_cost, total);
        // In 1/total of a step, so that nothing is rounded.
        let lag =
            |member: &Member| total * (member.weight * then.whole - member.tally) + member.weight * then.part;
        let mut best: Option<(i128, usize)> = None;
        for (at, member) in self.members.iter().enumerate().filter(|(_, member)| member.ready) {
            let lag = lag(member);
            if best.is_none_or(|(most, _)| lag > most) {
                best = Some((lag, at));
            }
        }
        best.map(|(_, at)| at)
    }

    fn clone_time(&self) -> Self {
        Self { members: Vec::new(), ..self.clone() }
    }

    /// Serves the member whose turn it is.
    pub(crate) fn pick(&mut self, cost: u64) -> Option<usize> {
        let total: i128 = self.members.iter().filter(|member| member.ready).map(|member| member.weight).sum();
        let at = self.peek()?;
        let cost = i128::from(cost);
        let due = self.due(self.members[at].weight);
        let member = &mut self.members[at];
        let power = i128::try_from(cost.unsigned_abs().next_power_of_two()).unwrap();
        member.largest = if due < member.tally { member.largest.max(power) } else { power };
        self.advance(cost, total);
        self.members[at].tally += cost * UNIT;
        self.last_cost = cost;
        self.granted.push(cost);
        Some(at)
    }
}

/// nginx's own form: everybody gains its weight, the richest is picked and pays the total.
#[derive(Clone, Debug)]
pub(crate) struct Nginx {
    peers: Vec<(i64, i64)>,
}

impl Nginx {
    pub(crate) fn new(weights: &[u32]) -> Self {
        Self { peers: weights.iter().map(|weight| (i64::from(*weight), 0)).collect() }
    }

    pub(crate) fn pick(&mut self) -> usize {
        let total: i64 = self.peers.iter().map(|(weight, _)| weight).sum();
        let mut best = 0;
        for at in 0..self.peers.len() {
            self.peers[at].1 += self.peers[at].0;
            if self.peers[at].1 > self.peers[best].1 {
                best = at;
            }
        }
        self.peers[best].1 -= total;
        best
    }
}

fn letters(picks: impl Iterator<Item = usize>) -> String {
    picks.map(|pick| char::from(b'a' + u8::try_from(pick).unwrap())).collect()
}

fn oracle_letters(weights: &[u32], picks: usize) -> String {
    let mut oracle = Oracle::new();
    for weight in weights {
        let member = oracle.join(*weight);
        oracle.ready(member);
    }
    letters((0..picks).map(|_| oracle.pick(1).unwrap()))
}

/// As printed by nginx 1.22.1.
#[test]
fn the_oracles_know_the_textbook_orders() {
    for (weights, order) in [(&[5, 1, 1][..], "aabacaa"), (&[7, 3, 2, 1], "abacadabacaba"), (&[1, 1], "abab")]
    {
        let mut nginx = Nginx::new(weights);
        assert_eq!(letters((0..order.len()).map(|_| nginx.pick())), order);
        assert_eq!(oracle_letters(weights, order.len()), order);
    }
}

#[test]
fn the_oracle_keeps_a_lag_over_an_absence() {
    // After "a" of 1 : 1 it is b's turn, however long b is away.
    let mut oracle = Oracle::new();
    let (a, b) = (oracle.join(1), oracle.join(1));
    oracle.ready(a);
    oracle.ready(b);
    assert_eq!(oracle.pick(1), Some(a));
    oracle.unready(b);
    for _ in 0..100 {
        assert_eq!(oracle.pick(1), Some(a));
    }
    oracle.ready(b);
    // Half a turn was owed, and no more than that.
    assert_eq!(letters((0..6).map(|_| oracle.pick(1).unwrap())), "bababa");
    oracle.unready(a);
    oracle.unready(b);
    assert_eq!(oracle.pick(1), None);
}

#[test]
fn the_oracle_shares_costs_by_weight() {
    let mut oracle = Oracle::new();
    let (a, b) = (oracle.join(3), oracle.join(1));
    oracle.ready(a);
    oracle.ready(b);
    let mut units = [0; 2];
    for _ in 0..10_000 {
        let at = oracle.peek().unwrap();
        let cost = if at == a { 7 } else { 100 };
        assert_eq!(oracle.pick(cost), Some(at));
        units[at] += cost;
    }
    let share = units[0] as f64 / (units[0] + units[1]) as f64;
    assert!((share - 0.75).abs() < 0.001, "{share}");
}
