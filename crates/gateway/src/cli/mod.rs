//! The command line: what is asked, and with which status the process ends.

mod check;
mod explain;
mod init;
mod load;
mod log;
mod output;
mod reload;
mod serve;
mod show;
#[cfg(test)]
mod tests;
mod watch;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use fairlane_config::Overrides;

use self::{load::Form, output::print, show::Shown};

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
        /// The form of the report
        #[arg(long, value_enum, default_value_t, value_name = "FORM")]
        format: Form,
        /// Also connect to the store of the limits, and tell what it is
        #[arg(long)]
        connect: bool,
    },
    /// Print the JSON schema of the configuration
    Schema {
        /// That of a file of keys instead, as `api_keys.file` names it
        #[arg(long)]
        keys: bool,
    },
    /// Print the configuration in effect and where each value comes from, with secrets and identities masked
    Config {
        #[command(flatten)]
        file: ConfigFile,
        #[command(flatten)]
        listeners: Listeners,
        /// The form in which it is shown
        #[arg(long, value_enum, default_value_t, value_name = "FORM")]
        format: Shown,
    },
    /// Write a configuration to begin with, and its schema for editors; never over a file that is there
    Init {
        /// The file to write (.yaml)
        #[arg(value_name = "FILE", default_value = "fairlane.yaml")]
        file: PathBuf,
    },
    /// Tell what an error code, a reason, a metric or a key of the configuration means, and what to do
    Explain {
        /// The name; without one, all names are listed
        name: Option<String>,
    },
    /// Print the completions of this command line for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Debug, Args)]
struct ConfigFlag {
    /// The configuration file (.yaml, .toml or .json)
    ///
    /// Without it: $FAIRLANE_CONFIG, ./fairlane.yaml, $XDG_CONFIG_HOME/fairlane/fairlane.yaml
    /// ($HOME/.config where that is unset), /etc/fairlane/fairlane.yaml.
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
        Command::Serve { file, listeners } => serve::serve(file.config.as_deref(), listeners.into()),
        Command::Check { file, listeners, format, connect } => {
            check::check(file.given(), listeners.into(), format, connect)
        }
        Command::Schema { keys: false } => print(&format!("{:#}\n", fairlane_config::schema())),
        Command::Schema { keys: true } => print(&format!("{:#}\n", fairlane_config::keys_schema())),
        Command::Config { file, listeners, format } => show::show(file.given(), listeners.into(), format),
        Command::Init { file } => init::init(&file),
        Command::Explain { name } => explain::explain(name.as_deref()),
        Command::Completions { shell } => completions(shell),
    }
}

fn completions(shell: Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "fairlane", &mut script);
    print(&String::from_utf8_lossy(&script))
}
