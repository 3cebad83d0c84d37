//! Patterns over model names, and the most specific of many that matches.

use std::{collections::HashMap, fmt, str::FromStr};

/// An exact model name, or a prefix of model names written with a trailing `*`. Case matters.
///
/// # Examples
///
/// ```
/// use fairlane_identity::ModelPattern;
///
/// let pattern: ModelPattern = "gpt-4o*".parse()?;
/// assert!(pattern.matches("gpt-4o-mini"));
/// assert!(!pattern.matches("gpt-4"));
/// # Ok::<(), fairlane_identity::InvalidModelPattern>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelPattern {
    text: Box<str>,
    is_prefix: bool,
}

/// A text is no model pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidModelPattern {
    /// The text is empty.
    #[error("a model pattern is empty")]
    Empty,
    /// A `*` stands elsewhere than at the end.
    #[error("a model pattern may have a `*` at its end only")]
    InnerWildcard,
}

/// Many patterns, asked for the most specific one that matches: an exact name first, then the longest prefix.
///
/// A look-up costs one hash and one binary search, however many patterns there are.
///
/// # Examples
///
/// ```
/// use fairlane_identity::{ModelPattern, ModelRules};
///
/// let patterns = ["*", "gpt-4o*", "gpt-4o-mini"].map(|text| text.parse::<ModelPattern>());
/// let rules: ModelRules = patterns.into_iter().collect::<Result<_, _>>()?;
/// assert_eq!(rules.find("gpt-4o-mini").map(|found| found.index), Some(2));
/// assert_eq!(rules.find("gpt-4o-2024").map(|found| found.pattern.as_str()), Some("gpt-4o*"));
/// assert_eq!(rules.find("claude").map(|found| found.index), Some(0));
/// # Ok::<(), fairlane_identity::InvalidModelPattern>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct ModelRules {
    patterns: Vec<ModelPattern>,
    exact: HashMap<Box<str>, usize>,
    /// Sorted by prefix, without duplicates.
    prefixes: Vec<Prefix>,
}

#[derive(Debug, Clone)]
struct Prefix {
    /// Index into `patterns`.
    pattern: usize,
    /// Index into `prefixes` of the longest other prefix that begins this one.
    parent: Option<usize>,
}

/// The pattern that [`ModelRules::find`] chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelMatch<'r> {
    /// Its place in the list the rules were made from.
    pub index: usize,
    /// The pattern, whose text names the rule.
    pub pattern: &'r ModelPattern,
}

// === impl ModelPattern ===

impl ModelPattern {
    /// The pattern as configured, with its `*`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern stands for `model`.
    #[must_use]
    pub fn matches(&self, model: &str) -> bool {
        if self.is_prefix { model.starts_with(self.stem()) } else { model == self.stem() }
    }

    /// Whether the pattern is one model's name.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        !self.is_prefix
    }

    /// The pattern without its `*`.
    fn stem(&self) -> &str {
        &self.text[..self.text.len() - usize::from(self.is_prefix)]
    }
}

impl FromStr for ModelPattern {
    type Err = InvalidModelPattern;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(InvalidModelPattern::Empty);
        }
        let stem = text.strip_suffix('*');
        if stem.unwrap_or(text).contains('*') {
            return Err(InvalidModelPattern::InnerWildcard);
        }
        Ok(Self { text: text.into(), is_prefix: stem.is_some() })
    }
}

impl fmt::Display for ModelPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

// === impl ModelRules ===

impl ModelRules {
    /// Sorts the patterns for look-up. Of equal patterns the first counts.
    #[must_use]
    pub fn new(patterns: Vec<ModelPattern>) -> Self {
        let mut exact = HashMap::new();
        let mut order = Vec::new();
        for (index, pattern) in patterns.iter().enumerate() {
            if pattern.is_prefix {
                order.push(index);
            } else {
                exact.entry(pattern.text.clone()).or_insert(index);
            }
        }
        // The sort is stable, so the first of equal patterns is the one `dedup` keeps.
        order.sort_by_key(|&index| patterns[index].stem());
        order.dedup_by_key(|index| patterns[*index].stem());

        let mut prefixes: Vec<Prefix> = Vec::with_capacity(order.len());
        for pattern in order {
            let nearest = prefixes.len().checked_sub(1);
            let parent = longest_beginning(&patterns, &prefixes, nearest, patterns[pattern].stem());
            prefixes.push(Prefix { pattern, parent });
        }
        Self { patterns, exact, prefixes }
    }

    /// The most specific pattern that matches `model`.
    #[must_use]
    pub fn find(&self, model: &str) -> Option<ModelMatch<'_>> {
        let index = self.exact.get(model).copied().or_else(|| {
            let nearest = match &*self.prefixes {
                // Whether it sorts after the name or not: it begins the name, or nothing does.
                [_] => 0,
                prefixes => {
                    let sorts_before = |prefix: &Prefix| self.patterns[prefix.pattern].stem() <= model;
                    prefixes.partition_point(sorts_before).checked_sub(1)?
                }
            };
            let found = longest_beginning(&self.patterns, &self.prefixes, Some(nearest), model)?;
            Some(self.prefixes[found].pattern)
        })?;
        Some(ModelMatch { index, pattern: &self.patterns[index] })
    }

    /// Whether some pattern matches `model`.
    #[must_use]
    pub fn matches(&self, model: &str) -> bool {
        self.find(model).is_some()
    }

    /// The patterns in the order given.
    #[must_use]
    pub fn patterns(&self) -> &[ModelPattern] {
        &self.patterns
    }
}

impl FromIterator<ModelPattern> for ModelRules {
    fn from_iter<I: IntoIterator<Item = ModelPattern>>(patterns: I) -> Self {
        Self::new(patterns.into_iter().collect())
    }
}

/// The longest prefix that begins `text`, given the greatest one that does not sort after it.
///
/// Every string that sorts between a prefix of `text` and `text` begins with that prefix too. So whatever begins
/// `text` also begins its nearest neighbour, and lies on the neighbour's chain of parents.
fn longest_beginning(
    patterns: &[ModelPattern],
    prefixes: &[Prefix],
    nearest: Option<usize>,
    text: &str,
) -> Option<usize> {
    std::iter::successors(nearest, |&index| prefixes[index].parent)
        .find(|&index| text.starts_with(patterns[prefixes[index].pattern].stem()))
}
