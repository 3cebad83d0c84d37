//! Reloading the configuration of a gateway that serves.

use std::path::{Path, PathBuf};

use fairlane_config::{Fixed, Inspected, Loader, Overrides, ProcessEnvironment, Report, Validated};
use fairlane_gateway::reload::Reloader;
use tokio::signal::unix::Signal;

use super::{
    log::{self, Level},
    output::with_causes,
    watch::FileWatch,
};

/// Puts the configuration in force again whenever it is asked to, or a file of it changes.
pub(super) struct Reloading {
    file: PathBuf,
    overrides: Overrides,
    fixed: Fixed,
    reloader: Reloader,
    level: Level,
    watch: Option<FileWatch>,
}

impl Reloading {
    /// For the gateway that began with `running`, loaded with these `overrides`.
    pub(super) fn new(running: &Inspected, overrides: Overrides, reloader: Reloader, level: Level) -> Self {
        let watch = FileWatch::new().inspect_err(unwatched).ok();
        let config = running.config();
        let (file, fixed) = (config.file().to_owned(), running.fixed());
        let mut reloading = Self { file, overrides, fixed, reloader, level, watch };
        reloading.follow(config.api_keys.file.as_deref());
        reloading
    }

    /// Does so for ever.
    pub(super) async fn go_on(mut self, mut hang_up: Signal) {
        loop {
            let changed = async {
                match &mut self.watch {
                    Some(watch) => watch.changed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = hang_up.recv() => tracing::info!("SIGHUP: reloading the configuration"),
                () = changed => tracing::info!("the configuration has changed: reloading it"),
            }
            self.reload().await;
        }
    }

    async fn reload(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.note();
        }
        match self.load() {
            Ok(config) => {
                match self.reloader.reload(&config).await {
                    Ok(()) => {
                        self.level.set(config.log.level);
                        log::warnings(config.warnings());
                        tracing::info!("the configuration is reloaded");
                    }
                    Err(error) => tracing::error!("{UNCHANGED}: {}", with_causes(&error)),
                }
                self.follow(config.api_keys.file.as_deref());
            }
            Err(report) => {
                self.reloader.refused();
                for problem in report.redacted() {
                    tracing::error!("{problem}");
                }
                tracing::error!("{UNCHANGED}; `fairlane check` tells more");
                self.follow(report.keys_file());
            }
        }
    }

    fn load(&self) -> Result<Validated, Report> {
        let loader = Loader::new(&ProcessEnvironment).overrides(self.overrides.clone());
        loader.keeping(self.fixed.clone()).load(&self.file)
    }

    /// Watches the file, and that of the keys if there is one.
    fn follow(&mut self, keys: Option<&Path>) {
        if let Some(watch) = &mut self.watch {
            let files = [Some(&*self.file), keys].into_iter().flatten().map(Path::to_owned);
            // It stays with those that the system does watch.
            _ = watch.follow(files).inspect_err(unwatched);
        }
    }
}

const UNCHANGED: &str = "the configuration is not reloaded, and nothing has changed";

fn unwatched(error: &notify::Error) {
    tracing::warn!("changes of the configuration may go unnoticed, SIGHUP does not: {error}");
}
