//! What the tests share: the corpus, its environment, and a verdict of the schema that uses none of our readers.
#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use fairlane_config::{Environment, Format, GatewayConfig, Report, Validated};
use jsonschema::Validator;
use serde_json::Value;

/// Secrets of the environment below, and one that files give themselves: no output may ever show one.
pub(crate) const SECRETS: [&str; 6] = [
    "alice-secret-value",
    "bob-secret-value",
    "has blank",
    "admin-secret-value",
    "redis-secret-value",
    "written-secret-value",
];

pub(crate) fn environment() -> impl Environment {
    |name: &str| {
        let value = match name {
            "ALICE_KEY" => SECRETS[0],
            "BOB_KEY" => SECRETS[1],
            "BLANK" => SECRETS[2],
            "TOKEN" => SECRETS[3],
            "REDIS_PASSWORD" => SECRETS[4],
            "EMPTY" => "",
            "PORT" => "8080",
            _ => return None,
        };
        Some(value.to_owned())
    }
}

pub(crate) fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// The files of a folder of the corpus, by name.
pub(crate) fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(corpus().join(folder)).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

pub(crate) fn load(path: &Path) -> Result<Validated, Report> {
    GatewayConfig::load(path, &environment())
}

/// Loads a text as if it were in a file of that form.
pub(crate) fn load_text(text: &str, format: Format) -> Result<Validated, Report> {
    fairlane_config::Loader::new(&environment()).load_bytes(text.as_bytes(), format, Path::new("test"))
}

pub(crate) fn yaml(text: &str) -> Result<Validated, Report> {
    load_text(text, Format::Yaml)
}

pub(crate) static SCHEMA: LazyLock<Validator> =
    LazyLock::new(|| jsonschema::draft7::new(&fairlane_config::schema()).unwrap());

/// The file as other readers see it.
pub(crate) fn independent(path: &Path) -> Value {
    independent_text(&fs::read_to_string(path).unwrap(), Format::of(path).unwrap())
}

/// A text as other readers see it.
pub(crate) fn independent_text(text: &str, format: Format) -> Value {
    match format {
        Format::Toml => toml::from_str(text).unwrap(),
        Format::Json => serde_json::from_str(text).unwrap(),
        // As YAML 1.2 has it, where `yes` is a string.
        _ => serde_saphyr::from_str_with_options(text, serde_saphyr::options! { strict_booleans: true })
            .unwrap(),
    }
}

/// A report without the folder that the tests happen to run in.
pub(crate) fn text(report: &Report) -> String {
    let folder = report.file().parent().unwrap().display().to_string();
    report.to_string().replace(&format!("{folder}/"), "")
}
