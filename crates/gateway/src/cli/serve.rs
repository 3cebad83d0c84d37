//! The command line: what is asked, and with which status the process ends.

use std::{
    ffi::OsString,
    fmt,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use clap::{Args, Parser, Subcommand};
use fairlane_config::{
    Loader, Overrides, ProcessEnvironment, Report, Validated, discover,
    model::{Log, LogFormat, LogLevel},
};
use fairlane_gateway::{
    edge::Workers,
    gateway::{Cut, Gateway},
    telemetry::Exporter,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};
use tracing_subscriber::filter::LevelFilter;

use crate::connect::{self, Found};

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All was done.
    Done = 0,
    /// Something failed while running.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The configuration is not good (`EX_CONFIG`).
    Configuration = 78,
}

/// Fairlane: a fair admission gateway for LLM and API traffic.
#[derive(Debug, Parser)]
#[command(name = "fairlane", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway
    Serve {
        #[command(flatten)]
        file: ConfigFlag,
        #[command(flatten)]
        listeners: Listeners,
    },
    /// Check a configuration and tell everything that is wrong with it
    Check {
        #[command(flatten)]
        file: ConfigFile,
        #[command(flatten)]
        listeners: Listeners,
        /// Also connect to the store of the limits, and tell what it is
        #[arg(long)]
        connect: bool,
    },
    /// Print the JSON schema of the configuration
    Schema,
    /// Print the configuration in effect, with secrets and identities masked
    Config {
        #[command(flatten)]
        file: ConfigFile,
        #[command(flatten)]
        listeners: Listeners,
    },
}

#[derive(Debug, Args)]
struct ConfigFlag {
    /// The configuration file (.yaml, .toml or .json)
    ///
    /// Without it: $FAIRLANE_CONFIG, ./fairlane.yaml, $XDG_CONFIG_HOME/fairlane/fairlane.yaml,
    /// /etc/fairlane/fairlane.yaml.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ConfigFile {
    /// The configuration file (.yaml, .toml or .json)
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    #[command(flatten)]
    flag: ConfigFlag,
}

#[derive(Debug, Args)]
struct Listeners {
    /// Listen here for requests, whatever the file says [env: FAIRLANE_LISTEN]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Listen here for the admin plane, or `off` [env: FAIRLANE_ADMIN_LISTEN]
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<String>,
}

impl ConfigFile {
    fn given(&self) -> Option<&Path> {
        self.file.as_deref().or(self.flag.config.as_deref())
    }
}

impl From<Listeners> for Overrides {
    fn from(Listeners { listen, admin_listen }: Listeners) -> Self {
        Self { listen, admin_listen }
    }
}

/// Runs a command line, program name first.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(told) => {
            // Help and version are errors to clap, and go to standard output.
            let exit = if told.use_stderr() { Exit::Usage } else { Exit::Done };
            return if told.print().is_ok() { exit } else { Exit::Failed };
        }
    };
    match cli.command {
        Command::Serve { file, listeners } => serve(file.config.as_deref(), listeners.into()),
        Command::Check { file, listeners, connect } => check(file.given(), listeners.into(), connect),
        Command::Schema => print(&format!("{:#}\n", fairlane_config::schema())),
        Command::Config { file, listeners } => match load(file.given(), listeners.into()) {
            Ok(config) => print(&config.effective_yaml()),
            Err(exit) => exit,
        },
    }
}

fn check(given: Option<&Path>, overrides: Overrides, connect: bool) -> Exit {
    match load(given, overrides) {
        Ok(config) => {
            complain(config.warnings());
            let (file, warnings) = (config.file().display(), config.warnings().diagnostics().len());
            let exit = print(&format!("{file}: good ({warnings} warnings)\n"));
            if connect && exit == Exit::Done { try_store(&config) } else { exit }
        }
        Err(exit) => exit,
    }
}

/// Connects to the store of the limits. That it does not answer says nothing against the configuration.
fn try_store(config: &Validated) -> Exit {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let Found { report, warnings, problems } = runtime.block_on(connect::connect(config));
    let exit = print(&report);
    warnings.iter().for_each(|warning| say(format!("warning: {warning}")));
    problems.iter().for_each(|problem| say(format!("error: {problem}")));
    if problems.is_empty() { exit } else { Exit::Failed }
}

/// Why there is no configuration.
enum Refusal {
    NotFound(String),
    Report(Report),
}

fn find(given: Option<&Path>) -> Result<PathBuf, Refusal> {
    discover(given, &ProcessEnvironment).map_err(|not_found| Refusal::NotFound(format!("error: {not_found}")))
}

fn load_file(path: &Path, overrides: Overrides) -> Result<Validated, Refusal> {
    Loader::new(&ProcessEnvironment).overrides(overrides).load(path).map_err(Refusal::Report)
}

/// Finds and loads the file; what is wrong with it is told here.
fn load(given: Option<&Path>, overrides: Overrides) -> Result<Validated, Exit> {
    find(given).and_then(|path| load_file(&path, overrides)).map_err(|refusal| {
        match refusal {
            Refusal::NotFound(told) => say(told),
            Refusal::Report(report) => complain(&report),
        }
        Exit::Configuration
    })
}

fn complain(report: &Report) {
    if !report.is_empty() {
        say(report);
    }
}

fn serve(given: Option<&Path>, overrides: Overrides) -> Exit {
    let config = match find(given).and_then(|path| load_file(&path, overrides)) {
        Ok(config) => config,
        Err(Refusal::NotFound(told)) => {
            say(told);
            return Exit::Configuration;
        }
        // What a service prints ends up in a log, where no name of a tenant belongs.
        Err(Refusal::Report(report)) if !io::IsTerminal::is_terminal(&io::stderr()) => {
            report.redacted().for_each(say);
            say("`fairlane check` tells more");
            return Exit::Configuration;
        }
        Err(Refusal::Report(report)) => {
            complain(&report);
            return Exit::Configuration;
        }
    };
    start_log(&config.log);
    for warning in config.warnings().redacted() {
        tracing::warn!("{warning}");
    }
    let started = tokio::runtime::Runtime::new().and_then(|runtime| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok((runtime, Workers::start(cores)?))
    });
    let (runtime, workers) = match started {
        Ok(started) => started,
        Err(error) => return fail(&error),
    };
    let served = runtime.block_on(async {
        let exporter = Exporter::install().map_err(|error| fail(&error))?;
        let gateway = Gateway::bind(&config, exporter).map_err(|error| fail(&error))?.served_by(workers);
        let mut signals = Signals::listen().map_err(|error| fail(&error))?;
        announce(&gateway);
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = gateway.serve(async { stopped.await.unwrap_or(()) });
        let impatience = async {
            let name = signals.asked_to_stop().await;
            tracing::info!("{name}");
            _ = stop.send(());
            signals.asked_to_stop().await
        };
        tokio::select! {
            cut = serving => Ok(cut),
            name = impatience => {
                tracing::warn!("{name} again: stopping at once");
                Err(Exit::Failed)
            }
        }
    });
    match served {
        Ok(cut) => {
            tell_cut(cut);
            Exit::Done
        }
        Err(exit) => exit,
    }
}

fn announce(gateway: &Gateway) {
    match (gateway.local_addr(), gateway.admin_addr()) {
        (Ok(listen), Ok(Some(admin))) => tracing::info!(%listen, %admin, "serving"),
        (Ok(listen), _) => tracing::info!(%listen, "serving, without an admin plane"),
        (Err(error), _) => tracing::info!(%error, "serving"),
    }
}

fn tell_cut(cut: Cut) {
    if cut == Cut::default() {
        tracing::info!("drained");
    } else {
        let Cut { held, running } = cut;
        tracing::warn!(held, running, "the drain timeout cut requests");
    }
}

/// The signals that mean something to a server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for one that asks to stop, and tells its name.
    async fn asked_to_stop(&mut self) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                // Its default would end the process of an operator who means to reload.
                _ = self.hang_up.recv() => tracing::warn!("SIGHUP: reloading is not supported; restart instead"),
            }
        }
    }
}

fn start_log(log: &Log) {
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let subscriber = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr);
    match log.format {
        LogFormat::Json => subscriber.json().init(),
        _ => subscriber.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).init(),
    }
}

fn fail(error: &dyn std::error::Error) -> Exit {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    let told = causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"));
    say(format!("error: {told}"));
    Exit::Failed
}

/// To standard output, where a closed pipe is the reader's choice.
fn print(text: &str) -> Exit {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => Exit::Done,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(_) => Exit::Failed,
    }
}

/// To standard error; who has closed that does not want to know.
fn say(text: impl fmt::Display) {
    _ = writeln!(io::stderr().lock(), "{text}");
}
