//! A store in Redis while the servers and the way to them fail in every way that they can.
//!
//! Whatever the fault: each call is answered in time, none is granted that no bucket was charged for, no answer reaches
//! another call than its own, and the store serves again by itself within a second of the fault's end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "what was measured is shown to whoever asks for it")]

mod answers;
mod bounds;
mod cluster;
mod exactness;
mod failover;
mod faults;
mod flapping;
mod keys;
mod liar;
mod load;
mod logs;
mod scripts;
mod servers;
mod settlements;
mod storm;
mod support;
mod trial;
