//! An editor, as far as it speaks to a language server: it opens files, and asks what to show at a place.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::wait::within;

/// Names the folder with the packages of `tests/editor/package-lock.json`.
const TOOLS: &str = "FAIRLANE_EDITOR_TOOLS";

/// Marks in a text where the cursor is.
pub const CURSOR: char = '¦';

/// The folder of a package: in the folder given, or in the one that `cargo xtask test` makes beside the build.
///
/// # Panics
///
/// When the package is not there.
#[must_use]
pub fn package(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    // target/<profile>/deps/e2e-<hash>
    let beside =
        || test.ancestors().nth(3).expect("a test lies three folders deep").join("editor/node_modules");
    let package = std::env::var_os(TOOLS).map_or_else(beside, PathBuf::from).join(name);
    assert!(package.exists(), "there is no {}; run `cargo xtask test`", package.display());
    package
}

/// Node.js, in an environment that holds nothing of the machine's but where programs are.
#[must_use]
pub fn node() -> Command {
    let mut command = Command::new("node");
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// What a file has a squiggle under, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Squiggle {
    /// The text that is underlined, to the end of its first line at most.
    pub under: String,
    /// The number of its line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// What an editor offers to write at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// How it is listed.
    pub label: String,
    /// What is shown beside the list.
    pub documentation: String,
}

/// A yaml-language-server, and what it has said of the files opened.
#[derive(Debug)]
pub struct Editor {
    // Ends the server with the editor.
    _server: Child,
    requests: ChildStdin,
    messages: BufReader<ChildStdout>,
    /// The folder in which all files are said to be; the server needs only their text.
    folder: PathBuf,
    /// The number of messages that want an answer, and of files.
    count: u64,
    published: HashMap<String, Value>,
}

impl Editor {
    /// Starts a server for files in a folder, and waits until it has its settings.
    pub async fn start(folder: &Path) -> Self {
        let mut command = node();
        command.arg(package("yaml-language-server").join("bin/yaml-language-server")).arg("--stdio");
        let mut server =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Node.js starts");
        let mut editor = Self {
            requests: server.stdin.take().unwrap(),
            messages: BufReader::new(server.stdout.take().unwrap()),
            _server: server,
            folder: folder.canonicalize().unwrap(),
            count: 0,
            published: HashMap::new(),
        };
        let capabilities = json!({ "workspace": { "configuration": true } });
        let about = json!({
            "processId": std::process::id(), "rootUri": null, "capabilities": capabilities,
        });
        editor.ask("initialize", about).await;
        editor.tell("initialized", json!({})).await;
        within("the server to ask for its settings", async {
            while editor.hear().await != "workspace/configuration" {}
        })
        .await;
        editor
    }

    /// What is shown when the pointer rests at the cursor.
    pub async fn hover(&mut self, text: &str) -> String {
        let place = self.open_at_cursor(text).await;
        let hover = self.ask("textDocument/hover", place).await;
        hover.pointer("/contents/value").and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// What is offered at the cursor.
    pub async fn completions(&mut self, text: &str) -> Vec<Offer> {
        let place = self.open_at_cursor(text).await;
        let list = self.ask("textDocument/completion", place).await;
        let offers = list["items"].as_array().or(list.as_array()).expect("a list of completions");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let offer = |offer: &Value| Offer {
            label: text(&offer["label"]),
            documentation: text(offer.pointer("/documentation/value").unwrap_or(&offer["documentation"])),
        };
        offers.iter().map(offer).collect()
    }

    /// What is wrong in a file, by its place.
    pub async fn squiggles(&mut self, text: &str) -> Vec<Squiggle> {
        let uri = self.open(text).await;
        let found = within("the server to have checked a file", async {
            loop {
                if let Some(found) = self.published.remove(&uri) {
                    return found;
                }
                self.hear().await;
            }
        })
        .await;
        let mut squiggles: Vec<_> =
            found.as_array().expect("a list").iter().map(|found| squiggle(text, found)).collect();
        squiggles.sort_by_key(|squiggle| squiggle.line);
        squiggles
    }

    /// Opens a file of its own for a text, and returns the place of the cursor in it.
    async fn open_at_cursor(&mut self, text: &str) -> Value {
        let (before, after) = text.split_once(CURSOR).expect("a text with a cursor");
        let uri = self.open(&format!("{before}{after}")).await;
        let column = before.rsplit('\n').next().unwrap_or_default().encode_utf16().count();
        json!({
            "textDocument": { "uri": uri },
            "position": { "line": before.matches('\n').count(), "character": column },
        })
    }

    async fn open(&mut self, text: &str) -> String {
        self.count += 1;
        let uri = format!("file://{}/{}.yaml", self.folder.display(), self.count);
        let file = json!({ "uri": uri, "languageId": "yaml", "version": 1, "text": text });
        self.tell("textDocument/didOpen", json!({ "textDocument": file })).await;
        uri
    }

    /// Sends a request and awaits its answer.
    async fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.count += 1;
        let id = self.count;
        self.send(json!({ "id": id, "method": method, "params": parameters })).await;
        within(method, async {
            loop {
                let mut message = self.receive().await;
                if message["id"] == id && message.get("method").is_none() {
                    assert!(message.get("error").is_none(), "{method}: {message}");
                    return message["result"].take();
                }
                self.take_note(message).await;
            }
        })
        .await
    }

    async fn tell(&mut self, method: &str, parameters: Value) {
        self.send(json!({ "method": method, "params": parameters })).await;
    }

    /// Takes the next message that is no answer, and returns its method.
    async fn hear(&mut self) -> String {
        let message = self.receive().await;
        let method = message["method"].as_str().expect("no answer that nobody waits for").to_owned();
        self.take_note(message).await;
        method
    }

    /// Does with a message of the server's own what an editor would.
    async fn take_note(&mut self, mut message: Value) {
        if message["method"] == "textDocument/publishDiagnostics" {
            let uri = message["params"]["uri"].as_str().unwrap().to_owned();
            self.published.insert(uri, message["params"]["diagnostics"].take());
        }
        if let Some(id) = message.get("id") {
            // Every section that is asked for is an object; no schemas are looked for on the network.
            let items = message.pointer("/params/items").and_then(Value::as_array);
            let settings: Vec<_> =
                items.into_iter().flatten().map(|_| json!({ "schemaStore": { "enable": false } })).collect();
            self.send(json!({ "id": id, "result": settings })).await;
        }
    }

    async fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        let body = message.to_string();
        let message = format!("Content-Length: {}\r\n\r\n{body}", body.len());
        self.requests.write_all(message.as_bytes()).await.expect("the server listens");
    }

    async fn receive(&mut self) -> Value {
        let mut length = None;
        loop {
            let mut line = String::new();
            self.messages.read_line(&mut line).await.expect("the server speaks");
            match line.trim_end().split_once(": ") {
                Some(("Content-Length", digits)) => length = digits.parse().ok(),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length.expect("the server is there, and its message has a length")];
        self.messages.read_exact(&mut body).await.expect("the server ends its messages");
        serde_json::from_slice(&body).expect("a message is JSON")
    }
}

fn squiggle(text: &str, found: &Value) -> Squiggle {
    let number =
        |pointer: &str| usize::try_from(found.pointer(pointer).and_then(Value::as_u64).unwrap()).unwrap();
    let (line, start) = (number("/range/start/line"), number("/range/start/character"));
    let end = if number("/range/end/line") == line { number("/range/end/character") } else { usize::MAX };
    let units: Vec<u16> = text.lines().nth(line).unwrap_or_default().encode_utf16().collect();
    let under = units.get(start..end.min(units.len())).unwrap_or_default();
    Squiggle {
        under: String::from_utf16_lossy(under),
        line: line + 1,
        message: found["message"].as_str().unwrap_or_default().to_owned(),
    }
}
