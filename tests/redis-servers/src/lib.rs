//! Real Redis servers for tests.
