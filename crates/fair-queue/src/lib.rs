//! A weighted fair queue as a pure state machine: who may try a rate-limited bucket next.
//!
//! Start with [`FairQueue`] and its example; the README tells what a driver has to do. What follows is why it
//! works.
//!
//! # Words
//!
//! A *gate* is one token bucket, as the scheduler sees it. A *lane* is one tenant's first-in-first-out queue at
//! one gate, a *waiter* one held request. A *grant* is the leave to ask the limiter once; an *admission* is a
//! grant that the limiter accepted.
//!
//! # Why not simply retry in turn
//!
//! Let every refused request wait for its own Retry-After, give turns by weight, and let newcomers ask the
//! limiter directly: that seems fair, and is not. Newcomers take the unit that the waiters wait for; of
//! several tenants whose time comes at the same instant one gets the unit and all have used up their turn. In
//! simulation, weights 3 : 1 give 52 : 48. So here
//!
//! - nobody passes a gate where others wait ([`FairQueue::contended`]);
//! - a gate opens for all its waiters at once, when its bucket can serve again, and lets out only what the
//!   bucket has room for: the limiter's last word, moved on by the refill, less the attempts that are out;
//! - a turn is charged with the grant and given back if the attempt is refused, fails or is dropped.
//!
//! # Requests and tokens
//!
//! A gate's units are requests or tokens ([`Class`]). Both kinds of gate work alike: what is said of costs, turns and
//! shares below holds for either, and a tenant's share of a bucket of tokens is a share of tokens, however many requests
//! they are asked for in. What differs is whose sake a request is held for, and so by which bounds and reasons: where
//! requests are counted it is *queued*, where tokens are *deferred*. It waits in one lane at a time, and counts against
//! the bounds of that lane's class alone. If buckets of both have no room for it, it is queued first; when its turn has
//! come there it moves on, if the other class may hold one more, or is told that class's reason. One deadline covers
//! both: the first hold sets it, and a class that it comes to later can only draw it nearer.
//!
//! A class may be held or not. Where it is not, nobody waits, and so nobody can tell what comes back to those buckets
//! meanwhile: the limiter alone decides, and a request that it refuses for their sake is
//! [not held](Reason::NotHeld).
//!
//! # Several buckets
//!
//! A request with several buckets waits at the one where it waits longest. If its turn comes there while
//! another of its gates has no room, or has waiters whose turn it would take, it moves there with its
//! seniority, so it never blocks those behind it. It moves on for such a reason at most once per gate, until
//! a bucket has changed; and if it has had its turn at two gates that never have room at the same moment, the
//! one it leaves keeps room for it.
//!
//! # The order
//!
//! Each gate has a virtual time `V`: serving cost `c` while tenants of total weight `W` wait moves it by
//! `c / W`, the service an ideal fluid would have given to each unit of weight. A tenant of weight `w` served
//! `s` has the lag `w V - s`, what it was due less what it got. The next turn goes to the largest lag as it
//! will be once another cost like the last has been served, and of equals to the tenant that came first.
//!
//! With a fixed set of tenants and cost 1 this is the smooth weighted round-robin of nginx pick for pick: 5, 1, 1
//! gives a a b a c a a. It differs when the set changes. nginx keeps credits in points of the total weight at
//! the time, so that if all but one of n tenants leave, that one may have n/2 turns in a row outstanding. A lag
//! is in units of service, whoever else is there: a tenant that leaves keeps it, clamped to the largest cost
//! lately granted (or, if it is ahead of its due, to its own largest, if that is more), and has it back on its return; a
//! new tenant starts at zero.
//!
//! Alternatives, and why not: to join at the present virtual time (start-time fair queuing and its kin) lets a
//! flood of tenants that each ask once starve those that stay; a plain stride of 1/w serves the heavy ones in
//! bursts; deficit or interleaved round-robin has gaps in proportion to the weights; a lag that grows while
//! its tenant is idle is a burst to come.
//!
//! Lanes of one weight stay in the order of their service while they wait, so each weight has an ordered set of
//! its own and a pick compares one lane of each: O(K + log n) for K distinct weights and n tenants. All of it is
//! in integers, with remainders carried: ties are ties, on every machine, for costs up to 2^40 units, about 10^12, and
//! buckets of any size that 64 bits can tell. Estimates, which decide no turn, are in floats: of 10^15 units they are
//! off by less than one.
//!
//! A turn goes to the largest lag, whatever it costs. So a large ask gets its turn like any other, the bucket is saved
//! up for it, and it is charged in full: its tenant then waits until the others have had as much for their weights. It is
//! served within its *fair time*, which is when it would be through if its tenant had its share of the refill to itself,
//! and a small one within its own plus the time in which one large ask flows in.
//!
//! # Bounds
//!
//! Memory is bounded by [`Limits`]: waiters by `max_held` of each class, tenants and remembered lanes by
//! `max_tenants`, gates by those. A lane's lag is remembered for ten seconds after its last request, and for
//! as long as it is ahead of its due where others wait. Shares of admissions are off by at most the attempts in
//! flight and a turn per tenant. Every call costs O(log n) amortised, apart from `reconfigure` and `snapshot`,
//! which walk over everything, and a move between gates, which looks for its place in the lane.

mod action;
mod backlog;
mod class;
mod deadlines;
mod debts;
mod estimate;
mod gate;
mod grants;
mod ids;
mod index;
mod lane;
mod limits;
mod list;
mod mirror;
mod queue;
mod ready;
mod refusal;
mod request;
mod run;
mod slab;
mod snapshot;
mod time;
mod virtual_time;
mod waiter;
mod window;

pub use action::Action;
pub use class::Class;
pub use ids::{GateKey, TenantKey, Ticket, Weight};
pub use limits::{ClassLimits, Limits};
pub use queue::FairQueue;
pub use refusal::{Reason, Refusal, Requeue};
pub use request::{Demand, GateLevel, Place, Request};
pub use snapshot::{GateSnapshot, LaneSnapshot, Snapshot};
pub use time::Timestamp;

/// The example of the README, run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
