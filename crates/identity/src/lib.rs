//! API keys to hashed identities, tenants, and client addresses behind trusted proxies.
