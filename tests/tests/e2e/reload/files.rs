//! Every way in which the files of a configuration get another content.

use std::{fs, os::unix::fs::symlink, path::Path};

use fairlane_tests::{Backend, Config, Gateway};
use rustix::process::Signal;

use super::{of, users};

/// Every user may send so many requests, and one more in an hour.
fn limited(backend: &Backend, burst: usize) -> String {
    let limit = format!("per_user: {{ requests_per_hour: 1, burst_capacity: {burst} }}");
    users(Config::with(backend)).limit(&limit).yaml()
}

async fn limit(gateway: &Gateway) -> u64 {
    gateway.call(of(0)).await.number("x-ratelimit-limit-requests").expect("there is a limit")
}

#[tokio::test]
async fn it_is_written_in_place() {
    let backend = Backend::start().await;
    let gateway = Gateway::start_yaml(&limited(&backend, 10), |_| {}).await;
    assert_eq!(limit(&gateway).await, 10);
    for burst in [20, 30] {
        let write =
            async || fs::write(gateway.folder().join("fairlane.yaml"), limited(&backend, burst)).unwrap();
        gateway.reloaded("success", write).await;
        assert_eq!(limit(&gateway).await, burst as u64);
    }
}

#[tokio::test]
async fn another_is_renamed_over_it() {
    let backend = Backend::start().await;
    let gateway = Gateway::start_yaml(&limited(&backend, 10), |_| {}).await;
    for burst in [20, 30] {
        gateway.reconfigure_yaml(&limited(&backend, burst)).await;
        assert_eq!(limit(&gateway).await, burst as u64);
    }
}

/// Lays a folder with the file out beside the others, and has the link `..data` lead there, as Kubernetes does for a ConfigMap.
fn mount(folder: &Path, number: usize, yaml: &str) {
    let name = format!("..{number}");
    fs::create_dir(folder.join(&name)).unwrap();
    fs::write(folder.join(&name).join("fairlane.yaml"), yaml).unwrap();
    symlink(&name, folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
}

#[tokio::test]
async fn a_mounted_config_map_is_replaced() {
    let backend = Backend::start().await;
    let gateway = Gateway::start_yaml(&limited(&backend, 10), |_| {}).await;
    let folder = gateway.folder();
    let into_place = async || {
        mount(folder, 1, &limited(&backend, 20));
        symlink("..data/fairlane.yaml", folder.join("link")).unwrap();
        fs::rename(folder.join("link"), folder.join("fairlane.yaml")).unwrap();
    };
    gateway.reloaded("success", into_place).await;
    assert_eq!(limit(&gateway).await, 20);
    for number in 2..5 {
        let replace = async || {
            mount(folder, number, &limited(&backend, 10 * (number + 1)));
            fs::remove_dir_all(folder.join(format!("..{}", number - 1))).unwrap();
        };
        gateway.reloaded("success", replace).await;
        assert_eq!(limit(&gateway).await, 10 * (number as u64 + 1));
    }
}

#[tokio::test]
async fn a_signal_reloads_although_nothing_has_changed() {
    let backend = Backend::start().await;
    let gateway = Gateway::start_yaml(&limited(&backend, 10), |_| {}).await;
    gateway.reloaded("success", async || gateway.signal(Signal::HUP)).await;
    assert_eq!(limit(&gateway).await, 10);
}

#[tokio::test]
async fn a_file_of_keys_is_read_again_by_itself() {
    let backend = Backend::start().await;
    let keys = |keys: &[&str]| {
        let entries = keys.iter().map(|key| format!("  - {{ id: {key}, key: key-{key} }}\n"));
        format!("keys:\n{}", entries.collect::<String>())
    };
    let yaml = Config::with(&backend).yaml().replace("api_keys:", "api_keys:\n  file: keys.yaml");
    let yaml = if yaml.contains("file: keys.yaml") {
        yaml
    } else {
        format!("{yaml}\napi_keys: {{ file: keys.yaml }}\n")
    };
    let gateway = Gateway::start_yaml(&yaml, |command| {
        fs::write(command.as_std().get_current_dir().unwrap().join("keys.yaml"), keys(&["a"])).unwrap();
    })
    .await;
    let status = async |key: &str| {
        gateway.call(fairlane_tests::Call::chat("m").key(&format!("key-{key}"))).await.status
    };
    assert_eq!((status("a").await, status("b").await), (200, 401));
    gateway.reloaded("success", async || gateway.rewrite("keys.yaml", &keys(&["b"]))).await;
    assert_eq!((status("a").await, status("b").await), (401, 200));
    gateway.reloaded("failure", async || gateway.rewrite("keys.yaml", "keys: [{ id: c }]\n")).await;
    assert_eq!((status("a").await, status("b").await), (401, 200));
    gateway.reloaded("failure", async || fs::remove_file(gateway.folder().join("keys.yaml")).unwrap()).await;
    gateway.reloaded("success", async || gateway.rewrite("keys.yaml", &keys(&["a", "b"]))).await;
    assert_eq!((status("a").await, status("b").await), (200, 200));
}

#[tokio::test]
async fn a_file_of_keys_that_is_new_is_followed_from_then_on() {
    let backend = Backend::start().await;
    let gateway = Gateway::start_yaml(&users(Config::with(&backend)).yaml(), |_| {}).await;
    let status = async |key: &str| gateway.call(fairlane_tests::Call::chat("m").key(key)).await.status;
    gateway.rewrite("keys.yaml", "keys: [{ id: a, key: key-a }]\n");
    let with_file =
        users(Config::with(&backend)).yaml().replace("api_keys:\n", "api_keys:\n  file: keys.yaml\n");
    gateway.reconfigure_yaml(&with_file).await;
    assert_eq!((status("key-a").await, status("key-0").await), (200, 200));
    let more = "keys: [{ id: a, key: key-a }, { id: b, key: key-b }]\n";
    gateway.reloaded("success", async || gateway.rewrite("keys.yaml", more)).await;
    assert_eq!((status("key-b").await, status("key-0").await), (200, 200));
}

/// Has the file replaced by something that is none, and then by another one.
async fn is_survived(replace: impl Fn(&Path)) {
    let backend = Backend::start().await;
    let mut gateway = Gateway::start_yaml(&limited(&backend, 10), |_| {}).await;
    let file = gateway.folder().join("fairlane.yaml");
    let bad = async || {
        fs::remove_file(&file).unwrap();
        replace(&file);
    };
    gateway.reloaded("failure", bad).await;
    gateway.reloaded("failure", async || gateway.signal(Signal::HUP)).await;
    assert_eq!(limit(&gateway).await, 10);
    let good = async || {
        _ = fs::remove_file(&file);
        _ = fs::remove_dir(&file);
        gateway.rewrite("fairlane.yaml", &limited(&backend, 20));
    };
    gateway.reloaded("success", good).await;
    assert_eq!(limit(&gateway).await, 20);
    gateway.terminate();
    assert_eq!(gateway.exited().await, 0);
}

#[tokio::test]
async fn a_folder_in_its_place_is_survived() {
    is_survived(|file| fs::create_dir(file).unwrap()).await;
}

#[tokio::test]
async fn a_pipe_in_its_place_is_survived() {
    is_survived(|file| {
        assert!(std::process::Command::new("mkfifo").arg(file).status().unwrap().success());
    })
    .await;
}

#[tokio::test]
async fn a_link_to_itself_in_its_place_is_survived() {
    is_survived(|file| symlink("fairlane.yaml", file).unwrap()).await;
}

#[tokio::test]
async fn a_file_without_end_in_its_place_is_survived() {
    is_survived(|file| symlink("/dev/zero", file).unwrap()).await;
}

#[tokio::test]
async fn a_mounted_folder_that_is_made_anew_is_followed() {
    let backend = Backend::start().await;
    let yaml = |burst| limited(&backend, burst);
    let gateway = Gateway::start_yaml(&yaml(10), |_| {}).await;
    let (file, inner) = (gateway.folder().join("fairlane.yaml"), gateway.folder().join("inner"));
    let lead = async || {
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("fairlane.yaml"), yaml(20)).unwrap();
        symlink("inner/fairlane.yaml", gateway.folder().join("link")).unwrap();
        fs::rename(gateway.folder().join("link"), &file).unwrap();
    };
    gateway.reloaded("success", lead).await;
    gateway.reloaded("failure", async || fs::remove_dir_all(&inner).unwrap()).await;
    let again = async || {
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("fairlane.yaml"), yaml(30)).unwrap();
    };
    gateway.reloaded("success", again).await;
    assert_eq!(limit(&gateway).await, 30);
}
