//! An embedded OpenAI-compatible backend, so that Fairlane can be tried with nothing else running.
