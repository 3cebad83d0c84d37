//! The command line: what each command prints, and with which code it ends.

use std::path::{Path, PathBuf};

use fairlane_tests::{Backend, Call, Config, Finished, Gateway, command, run};
use tempfile::TempDir;

const GOOD: &str =
    "backends: [ { name: echo, url: \"builtin:echo\", models: [\"*\"] } ]\napi_keys: { mode: permissive }\n";

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is ours");
    std::fs::write(&path, text).expect("it is ours");
    path.to_str().expect("a plain name").to_owned()
}

/// A file of this project.
fn project(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

async fn fairlane(arguments: &[&str]) -> Finished {
    run(command(arguments)).await
}

async fn check(text: &str) -> Finished {
    let folder = folder();
    let file = write(folder.path(), "fairlane.yaml", text);
    fairlane(&["check", &file]).await
}

#[tokio::test]
async fn a_command_line_that_makes_no_sense_is_2() {
    let lines: [&[&str]; 6] = [
        &[],
        &["unknown"],
        &["--unknown"],
        &["serve", "--unknown"],
        &["serve", "positional"],
        &["check", "a.yaml", "--config", "b.yaml"],
    ];
    for line in lines {
        let finished = fairlane(line).await;
        assert_eq!(finished.code, 2, "{line:?}: {}", finished.printed());
        assert!(finished.stdout.is_empty() && finished.stderr.contains("Usage"), "{line:?}: {finished:?}");
    }
}

#[tokio::test]
async fn help_and_version_are_printed_and_0() {
    let help = fairlane(&["--help"]).await;
    assert_eq!(help.code, 0);
    for part in ["serve", "check", "schema", "config", "--version"] {
        assert!(help.stdout.contains(part), "{}", help.stdout);
    }
    let version = fairlane(&["--version"]).await;
    assert_eq!((version.code, version.stdout), (0, format!("fairlane {}\n", env!("CARGO_PKG_VERSION"))));
    for command in ["serve", "check", "schema", "config"] {
        assert_eq!(fairlane(&[command, "--help"]).await.code, 0, "{command}");
    }
}

#[tokio::test]
async fn the_examples_are_good() {
    for example in ["examples/quickstart.yaml", "examples/full.yaml"] {
        let path = project(example);
        let finished = fairlane(&["check", path.to_str().unwrap()]).await;
        assert_eq!(finished.code, 0, "{example}: {}", finished.printed());
        assert!(!finished.printed().contains("error"), "{}", finished.printed());
    }
}

#[tokio::test]
async fn check_tells_all_problems_at_once_each_with_its_place_and_what_would_be_right() {
    let text = "\
server:
  listen: nonsense
  max_body_byte: 5
backends:
  - { name: a, url: \"http://127.0.0.1:1\", models: [] }
  - { name: a, url: \"http://127.0.0.1:1\", models: [\"*\"], weight: 0 }
api_keys:
  keys:
    - { id: k, key: \"${UNSET_NAME}\" }
rate_limiting:
  limits:
    per_user: { requests_per_secnd: 1 }
    per_team: { requests_per_second: -1 }
    per_model: { requests_per_second: 0 }
  fair_queuing:
    enabled: 1
    max_wait_ms: \"5s\"
";
    let finished = check(text).await;
    assert_eq!(finished.code, 78, "{}", finished.printed());
    let report = finished.printed();
    let wanted = [
        (2, 11, "server.listen", ""),
        (3, 3, "server.max_body_byte", "max_body_bytes"),
        (5, 51, "backends[0].models", ""),
        (6, 13, "backends[1].name", ""),
        (6, 66, "backends[1].weight", "1"),
        (9, 21, "api_keys.keys[0].key", "UNSET_NAME"),
        (12, 17, "rate_limiting.limits.per_user.requests_per_secnd", "requests_per_second"),
        (13, 38, "rate_limiting.limits.per_team.requests_per_second", ""),
        (14, 39, "rate_limiting.limits.per_model.requests_per_second", ""),
        (16, 14, "rate_limiting.fair_queuing.enabled", "true"),
        (17, 18, "rate_limiting.fair_queuing.max_wait_ms", ""),
    ];
    for (line, column, path, right) in wanted {
        let place = format!("fairlane.yaml:{line}:{column}: error: {path}: ");
        let at = report.find(&place).unwrap_or_else(|| panic!("no `{place}` in:\n{report}"));
        let problem = report[at..].split("\n/").next().unwrap_or_default();
        assert!(problem.contains(right), "no `{right}` in: {problem}");
    }
    assert_eq!(report.matches(": error: ").count(), wanted.len(), "{report}");
}

#[tokio::test]
async fn text_that_is_no_yaml_is_78_with_its_place() {
    let finished = check("server: [\nbackends: }\n").await;
    assert_eq!(finished.code, 78);
    assert!(finished.printed().contains("fairlane.yaml:2:"), "{}", finished.printed());
}

#[tokio::test]
async fn what_can_match_nothing_is_a_warning_and_0() {
    let finished = check(&format!(
        "{GOOD}rate_limiting:\n  limits:\n    per_user: {{ requests_per_second: 1, overrides: {{ nobody: {{ requests_per_second: 2 }} }} }}\n"
    ))
    .await;
    assert_eq!(finished.code, 0, "{}", finished.printed());
    assert!(
        finished.printed().contains("warning") && finished.printed().contains("nobody"),
        "{}",
        finished.printed()
    );
}

#[tokio::test]
async fn an_admin_plane_that_others_can_reach_needs_a_token() {
    let open = format!("{GOOD}server: {{ admin_listen: \"0.0.0.0:9090\" }}\n");
    let finished = check(&open).await;
    assert_eq!(finished.code, 78);
    assert!(finished.printed().contains("admin.token"), "{}", finished.printed());
    assert_eq!(check(&format!("{open}admin: {{ token: a-token }}\n")).await.code, 0);
}

#[tokio::test]
async fn a_file_that_is_missing_or_cannot_be_read_is_78() {
    let folder = folder();
    let missing = folder.path().join("missing.yaml");
    let directory = folder.path().join("folder.yaml");
    std::fs::create_dir(&directory).unwrap();
    let unknown = write(folder.path(), "fairlane.ini", GOOD);
    for file in [missing.to_str().unwrap(), directory.to_str().unwrap(), &unknown] {
        for command in ["check", "config", "serve"] {
            let finished = fairlane(&[command, "--config", file]).await;
            assert_eq!(finished.code, 78, "{command} {file}: {}", finished.printed());
            assert!(finished.stderr.contains(file), "{command}: {}", finished.printed());
        }
    }
    let mut nothing = command(&["check"]);
    nothing.current_dir(folder.path());
    let finished = run(nothing).await;
    assert_eq!(finished.code, 78, "{}", finished.printed());
    assert!(finished.stderr.contains("fairlane.yaml"), "it says where it looked: {}", finished.stderr);
}

#[tokio::test]
async fn serve_with_a_bad_file_is_78_and_with_a_taken_address_1() {
    let folder = folder();
    let bad = write(folder.path(), "bad.yaml", &format!("{GOOD}unknown: 1\n"));
    let finished = fairlane(&["serve", "--config", &bad]).await;
    assert_eq!(finished.code, 78);
    assert!(finished.stderr.contains("bad.yaml:3:1: error: unknown"), "{}", finished.stderr);

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let good = write(folder.path(), "good.yaml", GOOD);
    let arguments = ["serve", "--config", &good, "--listen", &address, "--admin-listen", "off"];
    let finished = fairlane(&arguments).await;
    assert_eq!(finished.code, 1, "{}", finished.printed());
    assert!(finished.stderr.contains(&address), "{}", finished.stderr);
}

#[tokio::test]
async fn the_schema_printed_is_the_committed_one() {
    let finished = fairlane(&["schema"]).await;
    let committed = std::fs::read_to_string(project("schemas/fairlane.schema.json")).unwrap();
    assert_eq!((finished.code, finished.stdout), (0, committed));
}

#[tokio::test]
async fn yaml_toml_and_json_are_told_by_their_ending() {
    let folder = folder();
    let files = [
        write(folder.path(), "a.yaml", GOOD),
        write(
            folder.path(),
            "a.toml",
            "[[backends]]\nname = \"echo\"\nurl = \"builtin:echo\"\nmodels = [\"*\"]\n[api_keys]\nmode = \"permissive\"\n",
        ),
        write(
            folder.path(),
            "a.json",
            r#"{"backends": [{"name": "echo", "url": "builtin:echo", "models": ["*"]}], "api_keys": {"mode": "permissive"}}"#,
        ),
    ];
    let mut shown = Vec::new();
    for file in &files {
        let finished = fairlane(&["config", file]).await;
        assert_eq!(finished.code, 0, "{file}: {}", finished.printed());
        shown.push(finished.stdout);
    }
    assert!(shown.iter().all(|text| *text == shown[0]), "{shown:?}");
}

/// The address that `fairlane config` says it would listen on.
fn listens(finished: &Finished) -> &str {
    assert_eq!(finished.code, 0, "{}", finished.printed());
    let line = finished.stdout.lines().map(str::trim).find_map(|line| line.strip_prefix("listen: "));
    line.unwrap_or_default().trim_matches('"')
}

#[tokio::test]
async fn the_file_is_found_in_the_order_that_is_documented() {
    let folder = folder();
    let listening = |port: u16| format!("{GOOD}server: {{ listen: \"127.0.0.1:{port}\" }}\n");
    let flag = write(folder.path(), "flag.yaml", &listening(1));
    let variable = write(folder.path(), "variable.yaml", &listening(2));
    write(folder.path(), "here/fairlane.yaml", &listening(3));
    write(folder.path(), "home/fairlane/fairlane.yaml", &listening(4));
    let here = folder.path().join("here");
    let elsewhere = folder.path().join("home");
    let found = async |arguments: &[&str], directory: &Path, variable: Option<&str>| {
        let mut command = command(arguments);
        command.current_dir(directory).env("XDG_CONFIG_HOME", &elsewhere);
        if let Some(variable) = variable {
            command.env("FAIRLANE_CONFIG", variable);
        }
        listens(&run(command).await).to_owned()
    };
    assert_eq!(found(&["config", "--config", &flag], &here, Some(&variable)).await, "127.0.0.1:1");
    assert_eq!(found(&["config", &flag], &here, Some(&variable)).await, "127.0.0.1:1");
    assert_eq!(found(&["config"], &here, Some(&variable)).await, "127.0.0.1:2");
    assert_eq!(found(&["config"], &here, None).await, "127.0.0.1:3");
    assert_eq!(found(&["config"], &elsewhere, None).await, "127.0.0.1:4");
}

#[tokio::test]
async fn the_variable_goes_before_the_file_and_the_flag_before_the_variable() {
    let folder = folder();
    let file =
        write(folder.path(), "fairlane.yaml", &format!("{GOOD}server: {{ listen: \"127.0.0.1:1\" }}\n"));
    assert_eq!(listens(&fairlane(&["config", &file]).await), "127.0.0.1:1");
    let mut with_variable = command(&["config", &file]);
    with_variable.env("FAIRLANE_LISTEN", "127.0.0.1:2");
    assert_eq!(listens(&run(with_variable).await), "127.0.0.1:2");
    let mut with_both = command(&["config", &file, "--listen", "127.0.0.1:3"]);
    with_both.env("FAIRLANE_LISTEN", "127.0.0.1:2");
    assert_eq!(listens(&run(with_both).await), "127.0.0.1:3");
    let mut bad = command(&["check", &file]);
    bad.env("FAIRLANE_LISTEN", "nonsense");
    let finished = run(bad).await;
    assert_eq!(finished.code, 78);
    assert!(finished.printed().contains("FAIRLANE_LISTEN"), "{}", finished.printed());
}

#[tokio::test]
async fn the_listeners_variables_move_a_running_gateway() {
    let backend = Backend::start().await;
    // An address that nobody may listen on: only the variables make it serve.
    let yaml = Config::with(&backend).permissive().yaml().replace("127.0.0.1:0", "192.0.2.1:1");
    let gateway = Gateway::start_yaml(&format!("admin: {{ token: a-token }}\n{yaml}"), |command| {
        command.env("FAIRLANE_LISTEN", "127.0.0.1:0").env("FAIRLANE_ADMIN_LISTEN", "127.0.0.1:0");
    })
    .await;
    assert!(gateway.listen().ip().is_loopback() && gateway.admin_listen().unwrap().ip().is_loopback());
    assert_eq!(gateway.call(Call::chat("m")).await.status, 200);
}

#[tokio::test]
async fn config_prints_what_is_in_effect_as_a_file_that_is_good() {
    let folder = folder();
    let text = format!(
        "{GOOD}rate_limiting: {{ limits: {{ per_model: {{ requests_per_second: 7 }} }} }}\nlog: {{ level: \"${{LEVEL:-debug}}\" }}\n"
    );
    let file = write(folder.path(), "fairlane.yaml", &text);
    let finished = fairlane(&["config", &file]).await;
    assert_eq!(finished.code, 0, "{}", finished.printed());
    for line in ["level: debug", "requests_per_second: 7", "max_body_bytes: 10485760", "max_wait_ms: 5000"] {
        assert!(finished.stdout.contains(line), "no `{line}` in:\n{}", finished.stdout);
    }
    assert_eq!(check(&finished.stdout).await.code, 0, "{}", finished.stdout);
}

#[tokio::test]
async fn serve_prints_nothing_and_logs_to_standard_error() {
    let backend = Backend::start().await;
    let mut gateway = Gateway::start(&Config::with(&backend).permissive()).await;
    assert_eq!(gateway.call(Call::chat("m")).await.status, 200);
    gateway.terminate();
    assert_eq!(gateway.exited().await, 0);
    assert_eq!(gateway.stdout().whole().await, "");
    assert!(gateway.stderr().whole().await.contains("serving"));
}

#[tokio::test]
async fn the_log_may_be_json_line_by_line() {
    let backend = Backend::start().await;
    let config = Config::with(&backend).permissive().section("log: { format: json, level: debug }");
    let mut gateway = Gateway::start(&config).await;
    assert_eq!(gateway.call(Call::chat("m")).await.status, 200);
    gateway.terminate();
    assert_eq!(gateway.exited().await, 0);
    let log = gateway.stderr().whole().await;
    assert!(log.lines().count() >= 3, "{log}");
    for line in log.lines() {
        let line: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        assert!(line["timestamp"].is_string() && line["level"].is_string(), "{line}");
    }
}
