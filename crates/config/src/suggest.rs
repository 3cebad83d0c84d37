//! "Did you mean".

/// The candidate most like a word, if one is like it enough to be what was meant.
#[must_use]
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Below this, what is offered is a guess rather than a correction (`strsim`'s scale goes from 0 to 1).
    const ENOUGH: f64 = 0.75;
    let normal = word.to_lowercase().replace('-', "_");
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&normal, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= ENOUGH)
        // Of two that are as like, the one that comes first by name: candidates may come in any order.
        .max_by(|(a, one), (b, other)| a.total_cmp(b).then_with(|| other.cmp(one)))
        .map(|(_, candidate)| candidate)
}

/// The same among names that a file gives; among very many the search would take longer than it is worth.
pub(crate) fn closest_name<'a>(word: &str, names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    const MOST: usize = 1000;
    if names.clone().nth(MOST).is_some() { None } else { closest(word, names) }
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn a_slip_is_corrected() {
        let keys = ["requests_per_second", "requests_per_minute", "burst_capacity", "overrides"];
        assert_eq!(closest("request_per_second", keys), Some("requests_per_second"));
        assert_eq!(closest("burstCapacity", keys), Some("burst_capacity"));
        assert_eq!(closest("Burst-Capacity", keys), Some("burst_capacity"));
        assert_eq!(closest("colour", keys), None);
    }
}
