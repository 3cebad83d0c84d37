//! A weighted fair queue as a pure state machine: who may try a rate-limited bucket next.
