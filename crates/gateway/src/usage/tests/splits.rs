//! Where a stream is cut makes no difference.

use proptest::prelude::*;

use super::{
    EVENTS, read,
    samples::{Sample, all},
    watch,
};

/// Reads a sample in these chunks, with and without hiding.
fn check(sample: &Sample, parts: &[&[u8]]) {
    let sizes = || parts.iter().map(|part| part.len()).collect::<Vec<_>>();
    let (text, outcome) = read(watch(sample.api, false), EVENTS, parts.iter().copied());
    assert_eq!(text, sample.stream, "{} in {:?}", sample.name, sizes());
    assert_eq!(outcome, sample.outcome(), "{} in {:?}", sample.name, sizes());

    let (text, outcome) = read(watch(sample.api, true), EVENTS, parts.iter().copied());
    assert_eq!(text, sample.without_extra(), "{} in {:?}", sample.name, sizes());
    assert_eq!(outcome, sample.outcome(), "{} in {:?}", sample.name, sizes());
}

#[test]
fn cut_once_anywhere() {
    for sample in all() {
        for cut in 0..=sample.stream.len() {
            let (one, two) = sample.stream.as_bytes().split_at(cut);
            check(&sample, &[one, two]);
        }
    }
}

#[test]
fn cut_everywhere() {
    for sample in all() {
        for size in 1..8 {
            let parts: Vec<_> = sample.stream.as_bytes().chunks(size).collect();
            check(&sample, &parts);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn cut_anyhow(which in any::<prop::sample::Index>(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let samples = all();
        let sample = which.get(&samples);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(sample.stream.len() + 1)).collect();
        cuts.sort_unstable();
        let (mut parts, mut from) = (Vec::new(), 0);
        for cut in cuts {
            parts.push(&sample.stream.as_bytes()[from..cut]);
            from = cut;
        }
        parts.push(&sample.stream.as_bytes()[from..]);
        check(sample, &parts);
    }
}
