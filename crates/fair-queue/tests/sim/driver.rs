//! The virtual-clock driver: sources of requests, a store with latency, and what came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use fairlane_fair_queue::{
    Class, ClassLimits, Demand, FairQueue, GateKey, GateLevel, Limits, Reason, Request, TenantKey, Weight,
};

use crate::bucket::{Bucket, SECOND, Store, at};
use crate::scheduler::{Scheduler, Step};

/// Numbers that look random and are the same each time.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// In (0, 1].
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) tenant: u128,
    pub(crate) weight: u32,
    /// Requests a second, at random times.
    pub(crate) rate: f64,
    /// Smallest and largest cost of a request at its last gate; the others are charged one.
    pub(crate) cost: (u64, u64),
    /// What the last gate counts; the others count requests.
    pub(crate) class: Class,
    pub(crate) gates: Vec<u128>,
    pub(crate) budget: u64,
}

impl Source {
    pub(crate) fn new(tenant: u128, weight: u32, rate: f64) -> Self {
        Self {
            tenant,
            weight,
            rate,
            cost: (1, 1),
            class: Class::Requests,
            gates: vec![1],
            budget: 5 * SECOND,
        }
    }

    pub(crate) fn cost(mut self, least: u64, most: u64) -> Self {
        self.cost = (least, most);
        self
    }

    pub(crate) fn tokens(mut self, least: u64, most: u64) -> Self {
        self.class = Class::Tokens;
        self.cost(least, most)
    }

    pub(crate) fn gates(mut self, gates: &[u128]) -> Self {
        self.gates = gates.to_vec();
        self
    }

    pub(crate) fn budget(mut self, budget: u64) -> Self {
        self.budget = budget;
        self
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) arrived: u64,
    pub(crate) admitted: u64,
    /// Cost admitted.
    pub(crate) units: u64,
    /// Of the admitted, those that had been held.
    pub(crate) waited: u64,
    pub(crate) waits: Vec<u64>,
    /// Of each admission: when it asked, when it was admitted, and its cost.
    pub(crate) served: Vec<(u64, u64, u64)>,
    /// Estimate and wait, in nanoseconds.
    pub(crate) estimates: Vec<(u64, u64)>,
    pub(crate) expired: u64,
    pub(crate) refused: BTreeMap<Reason, u64>,
    pub(crate) last_admission: u64,
    /// Longest time between two admissions.
    pub(crate) longest_gap: u64,
}

#[derive(Debug)]
struct Held {
    source: usize,
    arrived: u64,
    estimate: u64,
    demands: Vec<Demand>,
    granted: bool,
}

#[derive(Debug)]
enum Event<T> {
    Arrive(usize),
    /// A request that was let through to the limiter reaches it.
    Ask(usize, Vec<Demand>),
    Told(usize, Vec<Demand>, bool, Vec<GateLevel>),
    Attempt(T),
    Answer(T, bool, Vec<GateLevel>),
    Timer,
}

pub(crate) struct Sim<S: Scheduler> {
    pub(crate) scheduler: S,
    pub(crate) store: Store,
    pub(crate) now: u64,
    pub(crate) sources: Vec<Source>,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) attempts: u64,
    pub(crate) admissions: u64,
    /// Store round trip: least, and how much is added at random.
    pub(crate) latency: (u64, u64),
    /// In percent: another replica takes a unit just before an attempt.
    pub(crate) rivals: u64,
    /// Nothing before that counts.
    pub(crate) counted_from: u64,
    random: Random,
    held: BTreeMap<S::Ticket, Held>,
    events: BTreeMap<(u64, u64), Event<S::Ticket>>,
    serial: u64,
    timer: Option<u64>,
}

pub(crate) fn limits(depth: usize, in_flight: u32) -> Limits {
    let class = ClassLimits {
        max_held: 4096.try_into().unwrap(),
        max_held_per_tenant: depth.try_into().unwrap(),
        max_wait: Duration::MAX,
    };
    Limits {
        requests: Some(class),
        tokens: Some(class),
        max_tenants: 1024.try_into().unwrap(),
        max_in_flight: in_flight.try_into().unwrap(),
    }
}

pub(crate) fn fair(sources: Vec<Source>) -> Sim<FairQueue> {
    Sim::new(FairQueue::new(limits(32, 8)), sources)
}

impl<S: Scheduler> Sim<S> {
    pub(crate) fn new(scheduler: S, sources: Vec<Source>) -> Self {
        let mut sim = Self {
            scheduler,
            store: Store::default(),
            now: 0,
            outcomes: vec![Outcome::default(); sources.len()],
            sources,
            attempts: 0,
            admissions: 0,
            latency: (0, 0),
            rivals: 0,
            counted_from: 0,
            random: Random(1),
            held: BTreeMap::new(),
            events: BTreeMap::new(),
            serial: 0,
            timer: None,
        };
        for source in 0..sim.sources.len() {
            sim.next_arrival(source);
        }
        sim
    }

    pub(crate) fn bucket(mut self, gate: u128, bucket: Bucket) -> Self {
        self.store.buckets.insert(GateKey(gate), bucket);
        self
    }

    pub(crate) fn latency(mut self, least: u64, jitter: u64) -> Self {
        self.latency = (least, jitter);
        self
    }

    pub(crate) fn rivals(mut self, percent: u64) -> Self {
        self.rivals = percent;
        self
    }

    /// Runs for `warm_up`, then for `length`, of which it keeps count.
    pub(crate) fn run(mut self, warm_up: u64, length: u64) -> Self {
        self.run_until(warm_up * SECOND);
        self.outcomes = vec![Outcome::default(); self.sources.len()];
        (self.attempts, self.admissions, self.counted_from) = (0, 0, self.now);
        self.run_until((warm_up + length) * SECOND);
        self
    }

    pub(crate) fn run_until(&mut self, end: u64) {
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= end
        {
            let ((time, _), event) = entry.remove_entry();
            self.now = time;
            self.step(event);
        }
        self.now = end;
    }

    pub(crate) fn shares(&self) -> Vec<f64> {
        let all: u64 = self.outcomes.iter().map(|outcome| outcome.units).sum();
        self.outcomes.iter().map(|outcome| 100.0 * outcome.units as f64 / all as f64).collect()
    }

    pub(crate) fn attempts_per_admission(&self) -> f64 {
        self.attempts as f64 / self.outcomes.iter().map(|outcome| outcome.waited).sum::<u64>() as f64
    }

    fn at(&mut self, time: u64, event: Event<S::Ticket>) {
        self.serial += 1;
        self.events.insert((time, self.serial), event);
    }

    fn next_arrival(&mut self, source: usize) {
        let rate = self.sources[source].rate;
        if rate > 0.0 {
            let gap = -self.random.unit().ln() / rate * SECOND as f64;
            self.at(self.now + (gap as u64).max(1), Event::Arrive(source));
        }
    }

    /// Half a round trip.
    fn leg(&mut self) -> u64 {
        let (least, jitter) = self.latency;
        (least + if jitter > 0 { self.random.below(jitter) } else { 0 }) / 2
    }

    fn step(&mut self, event: Event<S::Ticket>) {
        match event {
            Event::Arrive(source) => {
                self.next_arrival(source);
                self.arrive(source);
            }
            Event::Ask(source, demands) => {
                let (granted, levels) = self.store.take(&demands, self.now);
                let back = self.now + self.leg();
                self.at(back, Event::Told(source, demands, granted, levels));
            }
            Event::Told(source, demands, granted, levels) => {
                if granted {
                    self.admit(source, &demands, None);
                } else {
                    self.enqueue(source, demands, &levels);
                }
            }
            Event::Attempt(ticket) => {
                let demands = self.held[&ticket].demands.clone();
                if self.rivals > 0
                    && self.random.below(100) < self.rivals
                    && let Some(bucket) = self.store.buckets.get_mut(&demands[0].gate)
                    && bucket.has(1, self.now)
                {
                    bucket.settle(-1, self.now);
                }
                let (granted, levels) = self.store.take(&demands, self.now);
                let back = self.now + self.leg();
                self.at(back, Event::Answer(ticket, granted, levels));
            }
            Event::Answer(ticket, granted, levels) => self.answer(ticket, granted, &levels),
            Event::Timer => {
                // An earlier one may have been set since; then this one no longer counts.
                if self.timer.is_some_and(|timer| timer <= self.now) {
                    self.timer = None;
                }
            }
        }
        self.drain();
    }

    fn arrive(&mut self, source: usize) {
        let spec = self.sources[source].clone();
        self.outcomes[source].arrived += 1;
        let (least, most) = spec.cost;
        let cost = least + self.random.below(most - least + 1);
        let last = spec.gates.len() - 1;
        let cost_at = |at: usize| if at == last { cost } else { 1 };
        let class_at = |at: usize| if at == last { spec.class } else { Class::Requests };
        let demand = |(at, gate): (usize, &u128)| Demand {
            gate: GateKey(*gate),
            class: class_at(at),
            cost: cost_at(at),
        };
        let demands: Vec<Demand> = spec.gates.iter().enumerate().map(demand).collect();
        if demands.iter().any(|demand| self.scheduler.contended(demand.gate)) {
            self.enqueue(source, demands, &[]);
        } else {
            let there = self.now + self.leg();
            self.at(there, Event::Ask(source, demands));
        }
    }

    fn enqueue(&mut self, source: usize, demands: Vec<Demand>, levels: &[GateLevel]) {
        let spec = &self.sources[source];
        let request = Request {
            tenant: TenantKey(spec.tenant),
            weight: Weight::new(spec.weight).unwrap(),
            demands: &demands,
            levels,
            arrived: at(self.now),
            deadline: at(self.now + spec.budget),
        };
        match self.scheduler.enqueue(request, at(self.now)) {
            Ok((ticket, estimate)) => {
                let estimate = u64::try_from(estimate.as_nanos()).unwrap_or(u64::MAX);
                let held = Held { source, arrived: self.now, estimate, demands, granted: false };
                assert!(self.held.insert(ticket, held).is_none(), "{ticket:?} was issued twice");
            }
            Err(reason) => *self.outcomes[source].refused.entry(reason).or_default() += 1,
        }
    }

    fn answer(&mut self, ticket: S::Ticket, granted: bool, levels: &[GateLevel]) {
        if granted {
            self.scheduler.admitted(ticket, levels, at(self.now));
            let held = self.held.remove(&ticket).unwrap();
            self.admit(held.source, &held.demands, Some((held.arrived, held.estimate)));
        } else if self.scheduler.refused(ticket, levels, at(self.now)) {
            self.held.get_mut(&ticket).unwrap().granted = false;
        } else {
            let held = self.held.remove(&ticket).unwrap();
            self.outcomes[held.source].expired += 1;
        }
    }

    fn admit(&mut self, source: usize, demands: &[Demand], held: Option<(u64, u64)>) {
        self.admissions += 1;
        let outcome = &mut self.outcomes[source];
        outcome.admitted += 1;
        let cost = demands.last().map_or(1, |demand| demand.cost);
        outcome.units += cost;
        outcome.served.push((held.map_or(self.now, |(arrived, _)| arrived), self.now, cost));
        let since = outcome.last_admission.max(self.counted_from);
        outcome.longest_gap = outcome.longest_gap.max(self.now - since);
        outcome.last_admission = self.now;
        if let Some((arrived, estimate)) = held {
            outcome.waited += 1;
            outcome.waits.push(self.now - arrived);
            if arrived >= self.counted_from {
                outcome.estimates.push((estimate, self.now - arrived));
            }
        } else {
            outcome.waits.push(0);
        }
    }

    fn drain(&mut self) {
        while let Some(step) = self.scheduler.poll(at(self.now)) {
            match step {
                Step::Grant(ticket) => {
                    self.attempts += 1;
                    let held = self.held.get_mut(&ticket).unwrap();
                    assert!(!held.granted, "{ticket:?} was granted twice at once");
                    held.granted = true;
                    let there = self.now + self.leg();
                    self.at(there, Event::Attempt(ticket));
                }
                Step::Expire(ticket) => {
                    let held = self.held.remove(&ticket).unwrap();
                    assert!(!held.granted, "{ticket:?} expired while its attempt was out");
                    self.outcomes[held.source].expired += 1;
                }
            }
        }
        if let Some(wakeup) = self.scheduler.next_wakeup() {
            let wakeup = wakeup.as_nanos().max(self.now);
            assert!(wakeup > self.now || self.held.is_empty(), "woken again at once at {}", self.now);
            if self.timer.is_none_or(|timer| wakeup < timer) {
                self.timer = Some(wakeup);
                self.at(wakeup.max(self.now + 1), Event::Timer);
            }
        }
    }
}

pub(crate) fn mean(waits: &[u64]) -> Duration {
    Duration::from_nanos(waits.iter().sum::<u64>() / waits.len().max(1) as u64)
}
