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
    let lines: [&[&str]; 9] = [
        &[],
        &["unknown"],
        &["--unknown"],
        &["serve", "--unknown"],
        &["serve", "positional"],
        &["check", "a.yaml", "--config", "b.yaml"],
        &["check", "--format", "xml"],
        &["completions", "cmd"],
        &["completions"],
    ];
    for line in lines {
        let finished = fairlane(line).await;
        assert_eq!(finished.code, 2, "{line:?}: {}", finished.printed());
        assert!(finished.stdout.is_empty() && finished.stderr.contains("--help"), "{line:?}: {finished:?}");
    }
}

#[tokio::test]
async fn help_and_version_are_printed_and_0() {
    let help = fairlane(&["--help"]).await;
    assert_eq!(help.code, 0);
    for part in ["serve", "check", "schema", "config", "init", "explain", "completions", "--version"] {
        assert!(help.stdout.contains(part), "{}", help.stdout);
    }
    let version = fairlane(&["--version"]).await;
    assert_eq!((version.code, version.stdout), (0, format!("fairlane {}\n", env!("CARGO_PKG_VERSION"))));
    for command in ["serve", "check", "schema", "config", "init", "explain", "completions"] {
        assert_eq!(fairlane(&[command, "--help"]).await.code, 0, "{command}");
    }
}

#[tokio::test]
async fn the_examples_are_good() {
    for example in ["quickstart", "full", "redis", "tokens"].map(|name| format!("examples/{name}.yaml")) {
        let example = example.as_str();
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
        let place = format!("fairlane.yaml:{line}:{column}\n");
        let problems = || report.split("\n\n");
        let problem =
            problems().find(|problem| problem.contains(&place) && problem.contains(&format!("]: {path}: ")));
        let problem = problem.unwrap_or_else(|| panic!("no `{place}` of {path} in:\n{report}"));
        assert!(problem.contains(right), "no `{right}` in: {problem}");
        // The line itself, and the place in it.
        let shown = text.lines().nth(line - 1).unwrap();
        assert!(problem.contains(&format!("{line} | ")) && problem.contains('^'), "{problem}");
        assert!(
            path.contains("secnd") || path.contains("byte") || problem.contains(shown),
            "{shown}: {problem}"
        );
    }
    assert_eq!(report.matches("error[").count(), wanted.len(), "{report}");
    assert!(!report.contains('\x1b'), "no colours but on a terminal");
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
    // It may become a log: place and class, and no word of the file.
    assert!(finished.stderr.contains("bad.yaml:3:1: error: unknown key\n"), "{}", finished.stderr);

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
    // The values are the same; where they stand is not.
    let values = |text: &String| -> Vec<String> {
        text.lines().map(|line| line.split(" # ").next().unwrap_or_default().trim_end().to_owned()).collect()
    };
    assert!(shown.iter().all(|text| values(text) == values(&shown[0])), "{shown:?}");
}

/// The address that `fairlane config` says it would listen on.
fn listens(finished: &Finished) -> &str {
    assert_eq!(finished.code, 0, "{}", finished.printed());
    let line = finished.stdout.lines().map(str::trim).find_map(|line| line.strip_prefix("listen: "));
    line.unwrap_or_default().split(" #").next().unwrap_or_default().trim().trim_matches('"')
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

fn json(finished: &Finished) -> serde_json::Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {}", finished.printed()))
}

#[tokio::test]
async fn check_has_forms_for_reading_and_for_programs() {
    let folder = folder();
    let bad = write(folder.path(), "bad.yaml", &format!("{GOOD}log: {{ levle: info }}\n"));
    let short = fairlane(&["check", "--format", "short", &bad]).await;
    assert_eq!((short.code, short.stdout.as_str()), (78, ""));
    assert_eq!(
        short.stderr,
        format!("{bad}:3:8: error: log.levle: there is no such key here\n  help: did you mean `level`?\n")
    );
    let told = fairlane(&["check", "--format", "json", &bad]).await;
    assert_eq!((told.code, told.stderr.as_str()), (78, ""));
    let problem = &json(&told)["problems"][0];
    assert_eq!(problem["code"], "unknown_key");
    assert_eq!([&problem["line"], &problem["column"], &problem["end_column"]], [3, 8, 13]);

    // Good, with a warning, and not there: the same form.
    let good = write(folder.path(), "good.yaml", GOOD);
    let told = json(&fairlane(&["check", "--format", "json", &good]).await);
    assert_eq!((&told["good"], &told["problems"]), (&true.into(), &serde_json::json!([])));
    let warned = format!("{GOOD}admin: {{ token: written }}\n");
    let warned = write(folder.path(), "warned.yaml", &warned);
    let finished = fairlane(&["check", "--format", "json", &warned]).await;
    let told = json(&finished);
    assert_eq!((finished.code, &told["good"], &told["warnings"]), (0, &true.into(), &1.into()));
    let mut nothing = command(&["check", "--format", "json"]);
    nothing.current_dir(folder.path());
    let finished = run(nothing).await;
    assert_eq!((finished.code, &json(&finished)["file"]), (78, &serde_json::Value::Null));
}

#[tokio::test]
async fn config_tells_where_each_value_comes_from() {
    let folder = folder();
    let text = format!("{GOOD}log: {{ level: \"${{LEVEL}}\" }}\nserver: {{ max_connections: 7 }}\n");
    let file = write(folder.path(), "fairlane.yaml", &text);
    let with = |arguments: &[&str]| {
        let mut command = command(arguments);
        command.env("LEVEL", "debug").env("FAIRLANE_ADMIN_LISTEN", "127.0.0.1:5");
        command
    };
    let shown = run(with(&["config", &file, "--listen", "127.0.0.1:4"])).await;
    assert_eq!(shown.code, 0, "{}", shown.printed());
    for (value, origin) in [
        ("listen: \"127.0.0.1:4\"", "flag: --listen"),
        ("admin_listen: \"127.0.0.1:5\"", "environment: FAIRLANE_ADMIN_LISTEN"),
        ("max_connections: 7", &format!("{file}:4")),
        ("max_body_bytes: 10485760", "default"),
        ("level: debug", &format!("environment: LEVEL ({file}:3)")),
    ] {
        let found = shown.stdout.lines().any(|line| {
            line.trim().split_once(" # ").is_some_and(|(shown, from)| shown.trim() == value && from == origin)
        });
        assert!(found, "no `{value} # {origin}` in:\n{}", shown.stdout);
    }
    let told = json(&run(with(&["config", "--format", "json", &file])).await);
    let values = told["values"].as_array().expect("a list");
    let of = |path: &str| values.iter().find(|value| value["path"] == path).expect("a value").clone();
    assert_eq!(of("log.level")["variables"][0], "LEVEL");
    assert_eq!(
        (&of("server.max_connections")["origin"], &of("server.max_connections")["line"]),
        (&"file".into(), &4.into())
    );
    assert_eq!(of("server.listen")["origin"], "default");
}

#[tokio::test]
async fn keys_may_be_in_a_file_of_their_own() {
    let backend = Backend::start().await;
    let folder = folder();
    write(folder.path(), "more/keys.toml", "[[keys]]\nid = \"k2\"\nkey = \"key-of-bob\"\nuser = \"bob\"\n");
    let text = format!(
        "server: {{ listen: \"127.0.0.1:0\", admin_listen: null }}\nbackends: [{{ name: b, url: \"{}\", models: [\"*\"] }}]\napi_keys:\n  keys: [{{ id: k1, key: \"${{ALICE_KEY:-key-of-alice}}\" }}]\n  file: more/keys.toml\n",
        backend.url()
    );
    let file = write(folder.path(), "fairlane.yaml", &text);
    let finished = fairlane(&["check", &file]).await;
    assert_eq!((finished.code, finished.stderr.as_str()), (0, ""), "{}", finished.printed());
    let absolute = folder.path().join("more/keys.toml");
    let gateway =
        Gateway::start_yaml(&text.replace("more/keys.toml", absolute.to_str().unwrap()), |_| {}).await;
    for (key, status) in [("key-of-alice", 200), ("key-of-bob", 200), ("key-of-eve", 401)] {
        assert_eq!(gateway.call(Call::chat("m").key(key)).await.status, status, "{key}");
    }

    // What is wrong in it is told under its own name and places.
    write(folder.path(), "more/keys.toml", "[[keys]]\nid = \"k1\"\nkey = \"key-of-bob\"\nusr = \"bob\"\n");
    let finished = fairlane(&["check", "--format", "short", &file]).await;
    assert_eq!(finished.code, 78);
    for place in ["more/keys.toml:2:6: error: keys[0].id: ", "more/keys.toml:4:1: error: keys[0].usr: "] {
        assert!(finished.stderr.contains(place), "no `{place}` in: {}", finished.stderr);
    }
    assert!(!finished.printed().contains("key-of"), "{}", finished.printed());
}

#[tokio::test]
async fn init_writes_a_file_that_is_good_and_never_over_another() {
    let folder = folder();
    let init = |file: &str| {
        let mut command = command(&["init", file]);
        command.current_dir(folder.path());
        run(command)
    };
    let finished = init("fairlane.yaml").await;
    assert_eq!(finished.code, 0, "{}", finished.printed());
    let path = folder.path().join("fairlane.yaml");
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(written.starts_with("# yaml-language-server: $schema=fairlane.schema.json\n"));
    let schema = std::fs::read_to_string(folder.path().join("fairlane.schema.json")).unwrap();
    assert_eq!(schema, fairlane(&["schema"]).await.stdout);
    let checked = fairlane(&["check", path.to_str().unwrap()]).await;
    assert_eq!((checked.code, checked.stderr.as_str()), (0, ""), "{}", checked.printed());

    // A file that is there stays as it is, and so does what a link points to.
    write(folder.path(), "mine.yaml", "mine");
    std::os::unix::fs::symlink(folder.path().join("nowhere.yaml"), folder.path().join("link.yaml")).unwrap();
    for file in ["fairlane.yaml", "mine.yaml", "link.yaml"] {
        let finished = init(file).await;
        assert_eq!(finished.code, 1, "{file}: {}", finished.printed());
        assert!(finished.stderr.contains("there already"), "{}", finished.stderr);
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), written);
    assert_eq!(std::fs::read_to_string(folder.path().join("mine.yaml")).unwrap(), "mine");
    assert!(!folder.path().join("nowhere.yaml").exists());
    assert_eq!(init("fairlane.ini").await.code, 2);
    assert_eq!(init("no/such/folder.yaml").await.code, 1);
}

#[tokio::test]
async fn explain_knows_codes_reasons_metrics_and_keys() {
    for (name, part) in [
        ("rate_limit_exceeded", "retry-after-ms"),
        ("tenant_queue_full", "max_queue_depth_per_tenant"),
        ("rate_limit_store_up", "gauge"),
        ("rate_limiting.fair_queuing.max_wait_ms", "milliseconds"),
        ("max_wait_ms", "deferred_admission.max_wait_ms"),
        ("unknown_key", "problem of a configuration"),
    ] {
        let finished = fairlane(&["explain", name]).await;
        assert_eq!(finished.code, 0, "{name}: {}", finished.printed());
        assert!(finished.stdout.contains(part), "no `{part}` in: {}", finished.stdout);
    }
    let finished = fairlane(&["explain", "tenant_queue_ful"]).await;
    assert_eq!((finished.code, finished.stdout.as_str()), (2, ""));
    assert!(finished.stderr.contains("did you mean `tenant_queue_full`?"), "{}", finished.stderr);
    let all = fairlane(&["explain"]).await.stdout;
    assert!(all.contains("hold_full") && all.contains("backends[].weight"), "{all}");
}

#[tokio::test]
async fn every_code_and_metric_of_a_running_gateway_is_explained() {
    let backend = Backend::start().await;
    let gateway = Gateway::start(&Config::with(&backend).permissive()).await;
    let scraped = gateway.admin().call(Call::get("/metrics")).await;
    let printed = scraped.printed();
    let mut seen = 0;
    for name in printed.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
        seen += 1;
        assert_eq!(fairlane(&["explain", name]).await.code, 0, "{name}");
    }
    assert!(seen > 10, "{printed}");
    let refused = gateway.call(Call::get("/nowhere")).await;
    assert_eq!(fairlane(&["explain", &refused.code()]).await.code, 0);
}

#[tokio::test]
async fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let finished = fairlane(&["completions", shell]).await;
        assert_eq!((finished.code, finished.stderr.as_str()), (0, ""), "{shell}");
        for command in ["serve", "check", "explain", "completions"] {
            assert!(finished.stdout.contains(command), "{shell} has no {command}");
        }
    }
}

/// Whatever a command is given, it shows no secret: neither of the file, nor of the file of keys, nor of the environment.
#[tokio::test]
async fn no_command_shows_a_secret() {
    const CANARY: &str = "canary-4b1d";
    let folder = folder();
    let keys = format!("keys:\n  - {{ id: k2, key: {CANARY}-2, user: bob }} # {CANARY}\n");
    write(folder.path(), "keys.yaml", &keys);
    let good = format!(
        "backends: [{{ name: a, url: \"builtin:echo\", models: [\"*\"], api_key: {CANARY}-b }}] # {CANARY}\nadmin: {{ token: {CANARY}-t }}\nidentity: {{ hash_key: \"${{SECRET}}\" }}\napi_keys:\n  file: keys.yaml\n  keys:\n    - {{ id: k1, key: {CANARY}-1, user: alice }}\nrate_limiting:\n  redis: {{ url: \"redis://u:{CANARY}@127.0.0.1\" }}\n  fair_queuing: {{ weights: [{{ tenant: {CANARY}-3, weight: 2 }}] }}\n"
    );
    let bad = [
        good.replace("user: alice", "usr: alice"),
        good.replace("token:", "tokne:"),
        good.replace("weight: 2", "weight: 0"),
        good.replace("api_keys:", "api_keys: }"),
        good.replace(" }] }", " ] }"),
        good.replace("@127.0.0.1", "@127.0.0.1/x/y"),
        good.replace("hash_key: \"${SECRET}\"", "hash_key: [\"${SECRET}\"]"),
        good.replace("id: k1", "id: k2"),
    ];
    let good = write(folder.path(), "good.yaml", &good);
    let mut files = vec![(good, 0)];
    for (n, text) in bad.iter().enumerate() {
        files.push((write(folder.path(), &format!("bad{n}.yaml"), text), 78));
    }
    let mut said = String::new();
    for (file, code) in &files {
        let lines: [&[&str]; 7] = [
            &["check", file],
            &["check", "--format", "short", file],
            &["check", "--format", "json", file],
            &["config", file],
            &["config", "--format", "json", file],
            &["init", file],
            &["serve", "--config", file, "--listen", "192.0.2.1:1", "--admin-listen", "off"],
        ];
        for line in lines {
            let mut command = command(line);
            command.env("SECRET", format!("{CANARY}-s"));
            let finished = run(command).await;
            let expected = match line[0] {
                "init" => 1,
                "serve" if *code == 0 => 1,
                _ => *code,
            };
            assert_eq!(finished.code, expected, "{line:?}: {}", finished.printed());
            assert!(!finished.printed().contains(CANARY), "{line:?}: {}", finished.printed());
            said.push_str(&finished.printed());
        }
    }
    for line in [&["explain", CANARY][..], &["schema"], &["completions", "bash"]] {
        assert!(!fairlane(line).await.printed().contains(CANARY), "{line:?}");
    }
    // A control: the lines with the secrets were shown, without them.
    assert!(said.contains("key: ***") && said.contains("\"***\""), "{said}");
}
