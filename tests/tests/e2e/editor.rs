//! What an editor shows of a configuration, by the programs that editors run: yaml-language-server for YAML, taplo for
//! TOML. Both have their schema from the first line of the file, as the documentation says.

use std::{fs, path::PathBuf};

use fairlane_tests::{
    command,
    editor::{CURSOR, Editor, Squiggle, node, package},
    run,
};
use serde_json::Value;

/// What each text here begins with: all that a configuration must have.
const HEAD: &str = "\
# yaml-language-server: $schema=../schemas/fairlane.schema.json
backends: [{ name: a, url: 'builtin:echo', models: ['*'] }]
";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn schema_file() -> PathBuf {
    root().join("schemas/fairlane.schema.json")
}

/// The published schema of a section.
fn section(pointer: &str) -> Value {
    let schema: Value = serde_json::from_slice(&fs::read(schema_file()).unwrap()).unwrap();
    schema.pointer(pointer).cloned().unwrap_or_else(|| panic!("no {pointer} in the schema"))
}

fn fair_queuing() -> Value {
    section("/properties/rate_limiting/properties/fair_queuing/properties")
}

async fn editor() -> Editor {
    Editor::start(&root().join("examples")).await
}

/// What a hover says, without the marks that keep letters from being taken for markup.
fn plain(hover: &str) -> String {
    hover.replace('\\', "")
}

fn squiggle(line: usize, under: &str, message: &str) -> Squiggle {
    Squiggle { under: under.to_owned(), line, message: message.to_owned() }
}

#[tokio::test]
async fn every_key_of_a_section_is_offered_with_its_description() {
    let mut editor = editor().await;

    let text = format!("{HEAD}rate_limiting:\n  fair_queuing:\n    {CURSOR}\n");
    let offers = editor.completions(&text).await;

    let keys = fair_queuing();
    let mut expected: Vec<_> = keys.as_object().unwrap().keys().cloned().collect();
    let mut offered: Vec<_> = offers.iter().map(|offer| offer.label.clone()).collect();
    expected.sort();
    offered.sort();
    assert!(expected.contains(&"max_wait_ms".to_owned()));
    assert_eq!(offered, expected);
    for offer in offers {
        assert_eq!(keys[&offer.label]["description"], offer.documentation, "{}", offer.label);
    }
}

#[tokio::test]
async fn keys_that_are_there_are_not_offered_again() {
    let mut editor = editor().await;

    let text = format!("{HEAD}rate_limiting:\n  fair_queuing:\n    enabled: true\n    {CURSOR}\n");
    let labels: Vec<_> = editor.completions(&text).await.into_iter().map(|offer| offer.label).collect();

    assert!(labels.contains(&"max_wait_ms".to_owned()), "{labels:?}");
    assert!(!labels.contains(&"enabled".to_owned()), "{labels:?}");
}

/// A default of `null` at one section would hide it, and all after it.
#[tokio::test]
async fn every_section_is_offered() {
    let mut editor = editor().await;

    let text = format!("{HEAD}{CURSOR}\n");
    let offered: Vec<_> = editor.completions(&text).await.into_iter().map(|offer| offer.label).collect();

    let sections = section("/properties");
    for name in sections.as_object().unwrap().keys().filter(|name| *name != "backends") {
        assert!(offered.contains(name), "{name} is not among {offered:?}");
    }
}

#[tokio::test]
async fn every_choice_is_offered_with_its_meaning() {
    let mut editor = editor().await;

    let text = format!("{HEAD}rate_limiting:\n  fair_queuing:\n    tenant_dimension: {CURSOR}\n");
    let offers = editor.completions(&text).await;

    let meanings = ["user", "team", "api_key"].map(|choice| {
        let offer = offers.iter().find(|offer| offer.label == choice);
        offer.map(|offer| offer.documentation.lines().next().unwrap_or_default())
    });
    assert_eq!(meanings, [Some("The user."), Some("The team."), Some("The API key.")], "{offers:?}");
}

#[tokio::test]
async fn a_key_is_explained_with_its_unit_default_and_range() {
    let mut editor = editor().await;

    let text = format!("{HEAD}rate_limiting:\n  fair_queuing:\n    max_wa{CURSOR}it_ms: 2000\n");
    let hover = plain(&editor.hover(&text).await);

    let description = fair_queuing()["max_wait_ms"]["description"].as_str().unwrap().to_owned();
    assert!(hover.contains(&description), "{hover}");
    for part in ["Max wait (ms)", "in milliseconds", "Default: `5000`.", "from 1 to 86,400,000"] {
        assert!(hover.contains(part), "{part} is missing: {hover}");
    }
}

/// Of several descriptions that fit, the server shows one: it has to be that of the choice made, and of the key.
#[tokio::test]
async fn a_choice_is_explained_with_its_key() {
    let mut editor = editor().await;

    let text = format!("{HEAD}rate_limiting:\n  fair_queuing:\n    tenant_dim{CURSOR}ension: team\n");
    let hover = plain(&editor.hover(&text).await);

    assert!(hover.contains("The team.") && !hover.contains("The user."), "{hover}");
    assert!(hover.contains("The identity that has a lane of its own."), "{hover}");
    assert!(hover.contains("Default: `user`."), "{hover}");
}

#[tokio::test]
async fn a_section_is_explained_with_an_example() {
    let mut editor = editor().await;

    let hover =
        editor.hover(&format!("{HEAD}rate_limiting:\n  fair_{CURSOR}queuing:\n    enabled: true\n")).await;

    assert!(hover.contains("Fair queuing") && hover.contains("wait in a fair queue"), "{hover}");
    assert!(hover.contains("enabled: true\nmax_wait_ms: 5000"), "{hover}");
}

#[tokio::test]
async fn a_wrong_key_and_a_wrong_type_are_underlined() {
    let mut editor = editor().await;

    let text = format!("{HEAD}rate_limiting:\n  fair_queuing:\n    max_wait: 5000\n    max_tenants: many\n");
    let squiggles = editor.squiggles(&text).await;

    let expected = [
        squiggle(5, "max_wait", "Property max_wait is not allowed."),
        squiggle(6, "many", "Incorrect type. Expected \"integer\"."),
    ];
    assert_eq!(squiggles, expected);
}

#[tokio::test]
async fn what_is_out_of_range_no_choice_or_missing_is_underlined() {
    let mut editor = editor().await;

    let text = format!(
        "{HEAD}rate_limiting:\n  storage: disk\n  fair_queuing: {{ max_wait_ms: 0, weights: [{{}}] }}\n"
    );
    let squiggles = editor.squiggles(&text).await;

    let lines: Vec<_> = squiggles.iter().map(|squiggle| (squiggle.line, squiggle.under.as_str())).collect();
    assert_eq!(lines[0], (4, "disk"), "{squiggles:?}");
    assert!(lines.contains(&(5, "0")), "{squiggles:?}");
    assert!(squiggles.iter().any(|squiggle| squiggle.message.contains("\"tenant\"")), "{squiggles:?}");
}

#[tokio::test]
async fn a_reference_to_the_environment_may_stand_for_any_string() {
    let mut editor = editor().await;

    let text =
        format!("{HEAD}log: {{ level: '${{LEVEL:-info}}' }}\nserver: {{ drain_timeout: '${{DRAIN}}' }}\n");

    assert_eq!(editor.squiggles(&text).await, []);
}

/// Checks that a text is checked, and that nothing in it is underlined.
async fn has_no_squiggle(editor: &mut Editor, text: &str, name: &str) {
    // Without a schema nothing would be wrong either.
    let spoiled = format!("{text}\nno_such_section: 1\n");
    let line = spoiled.lines().count();
    let expected = squiggle(line, "no_such_section", "Property no_such_section is not allowed.");
    assert_eq!(editor.squiggles(&spoiled).await, [expected], "{name}");

    assert_eq!(editor.squiggles(text).await, [], "{name}");
}

#[tokio::test]
async fn what_init_writes_has_no_squiggle() {
    let folder = tempfile::tempdir().unwrap();
    let mut init = command(&["init", "fairlane.yaml"]);
    init.current_dir(folder.path());
    let finished = run(init).await;
    assert_eq!(finished.code, 0, "{}", finished.printed());

    // The schema that its first line names was written beside it.
    let mut editor = Editor::start(folder.path()).await;
    let text = fs::read_to_string(folder.path().join("fairlane.yaml")).unwrap();
    has_no_squiggle(&mut editor, &text, "fairlane.yaml").await;
}

#[tokio::test]
async fn the_examples_have_no_squiggle() {
    let mut editor = editor().await;
    let mut seen = 0;
    for entry in fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "yaml") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        has_no_squiggle(&mut editor, &text, &path.display().to_string()).await;
        seen += 1;
    }
    assert!(seen >= 4, "{seen}");
}

#[tokio::test]
async fn a_file_of_keys_is_checked_against_its_own_schema() {
    let mut editor = editor().await;

    let head = "# yaml-language-server: $schema=../schemas/fairlane-keys.schema.json\n";
    let key = "keys: [{ id: k1, key: '${ALICE_KEY}', user: alice }]\n";
    let wrong = key.replace("user", "usr");

    let expected = [squiggle(2, "usr", "Property usr is not allowed.")];
    assert_eq!(editor.squiggles(&format!("{head}{wrong}")).await, expected);
    assert_eq!(editor.squiggles(&format!("{head}{key}")).await, []);
}

/// Lints a file of TOML beside the schema, and returns whether it is right, and what was printed.
async fn lint(text: &str) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(schema_file(), folder.path().join("fairlane.schema.json")).unwrap();
    let file = folder.path().join("fairlane.toml");
    fs::write(&file, format!("#:schema ./fairlane.schema.json\n{text}")).unwrap();
    let mut taplo = node();
    taplo.arg(package("@taplo/cli").join("dist/cli.js")).arg("lint").arg(&file).current_dir(folder.path());
    let finished = run(taplo).await;
    (finished.code == 0, finished.printed())
}

const TOML: &str = "\
[[backends]]
name = \"a\"
url = \"builtin:echo\"
models = [\"*\"]

[server]
drain_timeout = \"${DRAIN:-30s}\"

[rate_limiting.fair_queuing]
tenant_dimension = \"team\"
max_wait_ms = 5000
";

#[tokio::test]
async fn toml_is_checked_against_the_same_schema() {
    let (right, printed) = lint(TOML).await;
    assert!(right, "{printed}");

    let (right, printed) = lint(&format!("{TOML}max_wait = 5000\nmax_tenants = \"many\"\n")).await;
    assert!(!right, "{printed}");
    assert!(printed.contains("'max_wait' was unexpected"), "{printed}");
    assert!(printed.contains("\"many\" is not of type \"integer\""), "{printed}");
}

/// Other tools refuse a schema with keywords or formats that they do not know.
#[tokio::test]
async fn the_strictest_validator_accepts_the_schemas() {
    const COMPILE: &str = "
        const [ajv, file, keyword] = process.argv.slice(1);
        const schema = JSON.parse(require('fs').readFileSync(file));
        if (keyword) schema.properties.server[keyword] = true;
        new (require(ajv))({ strict: true }).compile(schema);
    ";
    let compile = async |name: &str, keyword: &str| {
        let mut command = node();
        let schema = schema_file().with_file_name(name);
        command.args(["-e", COMPILE]).arg(package("ajv")).arg(schema).arg(keyword);
        run(command).await
    };

    for name in ["fairlane.schema.json", "fairlane-keys.schema.json"] {
        let accepted = compile(name, "").await;
        assert_eq!(accepted.code, 0, "{name}: {}", accepted.printed());
    }

    let refused = compile("fairlane.schema.json", "x-unknown").await;
    assert!(refused.code != 0 && refused.stderr.contains("x-unknown"), "{}", refused.printed());
}
