//! The wire: accepting connections, timing them, and refusing what a proxy must not pass on.
