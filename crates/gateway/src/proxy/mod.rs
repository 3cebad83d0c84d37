//! Backends: which one, forwarding to it, and what happens when it fails.
