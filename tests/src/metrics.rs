//! The text that Prometheus scrapes.

use std::collections::BTreeMap;

/// One scrape.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// By name.
    pub families: BTreeMap<String, Family>,
    /// The text itself.
    pub text: String,
}

/// A metric with all its series.
#[derive(Clone, Debug, Default)]
pub struct Family {
    /// Its help.
    pub help: Option<String>,
    /// `counter`, `gauge`, `histogram`, ...
    pub kind: Option<String>,
    /// Its samples, of a histogram those of its buckets, sum and count.
    pub samples: Vec<Sample>,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The name, with the suffix of a histogram's part.
    pub name: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The value.
    pub value: f64,
}

impl Sample {
    fn has(&self, labels: &[(&str, &str)]) -> bool {
        labels.iter().all(|(name, value)| self.labels.get(*name).is_some_and(|has| has == value))
    }
}

impl Metrics {
    /// Reads a scrape.
    ///
    /// # Panics
    ///
    /// On a line that is none of the format's.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut metrics = Self { text: text.to_owned(), ..Self::default() };
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
                metrics.family(name).help = Some(help.to_owned());
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
                metrics.family(name).kind = Some(kind.to_owned());
            } else {
                let sample = sample(line).unwrap_or_else(|| panic!("no sample: {line}"));
                let name = metrics.family_of(&sample.name);
                metrics.family(&name).samples.push(sample);
            }
        }
        metrics
    }

    fn family(&mut self, name: &str) -> &mut Family {
        self.families.entry(name.to_owned()).or_default()
    }

    /// The name of a sample's family, without a histogram's suffix.
    fn family_of(&self, sample: &str) -> String {
        let is_histogram = |name: &str| {
            self.families.get(name).is_some_and(|family| family.kind.as_deref() == Some("histogram"))
        };
        let stripped = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| sample.strip_suffix(suffix));
        stripped.filter(|name| is_histogram(name)).unwrap_or(sample).to_owned()
    }

    /// All samples of a name that have these labels among theirs.
    #[must_use]
    pub fn samples(&self, name: &str, labels: &[(&str, &str)]) -> Vec<&Sample> {
        let all = self.families.values().flat_map(|family| &family.samples);
        all.filter(|sample| sample.name == name && sample.has(labels)).collect()
    }

    /// The sum over those samples; `None` when there is none.
    #[must_use]
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.samples(name, labels).into_iter().map(|sample| sample.value).reduce(|sum, value| sum + value)
    }

    /// How many series there are in all.
    #[must_use]
    pub fn series(&self) -> usize {
        self.families.values().map(|family| family.samples.len()).sum()
    }
}

/// `name{label="value",…} value`
fn sample(line: &str) -> Option<Sample> {
    let (head, value) = line.rsplit_once(' ')?;
    let (name, labels) = match head.split_once('{') {
        Some((name, labels)) => (name, self::labels(labels.strip_suffix('}')?)?),
        None => (head, BTreeMap::new()),
    };
    let named =
        !name.is_empty() && name.chars().all(|sign| sign.is_ascii_alphanumeric() || "_:".contains(sign));
    named.then_some(())?;
    Some(Sample { name: name.to_owned(), labels, value: value.parse().ok()? })
}

fn labels(mut text: &str) -> Option<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"")?;
        let (mut value, mut signs) = (String::new(), rest.char_indices());
        let end = loop {
            match signs.next()? {
                (at, '"') => break at,
                (_, '\\') => value.push(match signs.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, sign) => value.push(sign),
            }
        };
        labels.insert(name.to_owned(), value);
        let rest = rest.get(end + 1..)?;
        text = rest.strip_prefix(',').unwrap_or(rest);
    }
    Some(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_is_read_whole() {
        let metrics = Metrics::parse(
            "# HELP a_total Counts.\n# TYPE a_total counter\na_total{x=\"1\",y=\"q\\\"}\"} 3\na_total{x=\"2\"} 4\n\n\
             # TYPE s histogram\ns_bucket{le=\"+Inf\"} 2\ns_sum 0.5\ns_count 2\n",
        );
        assert_eq!(metrics.value("a_total", &[]), Some(7.0));
        assert_eq!(metrics.value("a_total", &[("y", "q\"}")]), Some(3.0));
        assert_eq!(metrics.value("a_total", &[("x", "3")]), None);
        assert_eq!(metrics.families["a_total"].help.as_deref(), Some("Counts."));
        assert_eq!(metrics.families["s"].samples.len(), 3);
        assert_eq!(metrics.series(), 5);
    }
}
