//! Model patterns, and the most specific one against a search through all.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use fairlane_identity::{InvalidModelPattern, ModelPattern, ModelRules};
use proptest::prelude::*;

fn rules(texts: &[impl AsRef<str>]) -> ModelRules {
    texts.iter().map(|text| text.as_ref().parse::<ModelPattern>().unwrap()).collect()
}

#[track_caller]
fn check(texts: &[&str], model: &str, expected: Option<&str>) {
    let rules = rules(texts);
    let found = rules.find(model);
    assert_eq!(found.map(|found| found.pattern.as_str()), expected);
    assert_eq!(found.map(|found| texts[found.index]), expected);
}

#[test]
fn impossible_patterns_are_refused() {
    assert_eq!("".parse::<ModelPattern>(), Err(InvalidModelPattern::Empty));
    for text in ["*gpt", "g*t", "gpt**", "*a*"] {
        assert_eq!(text.parse::<ModelPattern>(), Err(InvalidModelPattern::InnerWildcard), "{text}");
    }
}

#[test]
fn the_most_specific_pattern_wins() {
    let texts = ["*", "gpt-4*", "gpt-4o", "gpt-4o*", "gpt-4o-mini*"];
    check(&texts, "claude", Some("*"));
    check(&texts, "", Some("*"));
    check(&texts, "gpt-4", Some("gpt-4*"));
    check(&texts, "gpt-4-turbo", Some("gpt-4*"));
    check(&texts, "gpt-4o", Some("gpt-4o"));
    check(&texts, "gpt-4o-audio", Some("gpt-4o*"));
    check(&texts, "gpt-4o-mini-2", Some("gpt-4o-mini*"));
    // Sorts after `gpt-4o-mini*` without beginning with it: found through the parents.
    check(&texts, "gpt-4o-z", Some("gpt-4o*"));
    check(&texts, "gpt-4z", Some("gpt-4*"));
    check(&texts, "z", Some("*"));
}

#[test]
fn nothing_matches_without_a_rule() {
    check(&["gpt-4o", "gpt-4o-*"], "gpt-4", None);
    check(&["gpt-4o", "gpt-4o-*"], "GPT-4o", None);
    check(&["gpt-4o", "gpt-4o-*"], "a", None);
    check(&[], "gpt-4o", None);
}

#[test]
fn of_equal_patterns_the_first_counts() {
    let rules = rules(&["a*", "b", "a*", "b"]);
    assert_eq!(rules.find("ab").map(|found| found.index), Some(0));
    assert_eq!(rules.find("b").map(|found| found.index), Some(1));
}

/// What the look-up has to agree with: a search through all patterns.
fn slowly(rules: &ModelRules, model: &str) -> Option<usize> {
    let mut best: Option<(bool, usize, usize)> = None;
    for (index, pattern) in rules.patterns().iter().enumerate() {
        let candidate = (pattern.is_exact(), pattern.as_str().len(), index);
        if pattern.matches(model) && best.is_none_or(|best| (candidate.0, candidate.1) > (best.0, best.1)) {
            best = Some(candidate);
        }
    }
    best.map(|(_, _, index)| index)
}

proptest! {
    // Few letters, so that prefixes nest and names meet patterns; `é` has two bytes.
    #[test]
    fn look_up_agrees_with_a_search(
        texts in prop::collection::vec("[abé]{0,5}\\*|[abé]{1,5}", 0..30),
        models in prop::collection::vec("[abé]{0,7}", 1..20),
    ) {
        let rules = rules(&texts);
        for model in models {
            let found = rules.find(&model).map(|found| found.index);
            prop_assert_eq!(found, slowly(&rules, &model), "{} in {:?}", model, texts);
        }
    }
}
