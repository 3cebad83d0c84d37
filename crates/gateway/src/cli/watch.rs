//! Notices that a file has another content, however it came by it.
//!
//! An editor writes a file in place or renames another over it; a ConfigMap of Kubernetes is a link to a link to a folder, of
//! which the middle one is replaced. So it is folders that are watched: that of the file and, where it is a link, that of
//! each further link on the way. What happens there only gives occasion to read the file; what counts is its content.

use std::{
    collections::BTreeSet,
    fs::{self, File, Metadata},
    io::Read as _,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode},
    recommended_watcher,
};
use tokio::{sync::mpsc, time::timeout};

/// A file is read once nothing has happened for so long: whoever writes it may need more than one write.
const REST: Duration = Duration::from_millis(100);
/// It is read after so many rests that were disturbed: a folder may never come to rest.
const DISTURBED: usize = 20;
/// More than this of a file is not read: a configuration is not so long.
const MOST_BYTES: u64 = 64 * 1024 * 1024 + 1;
/// As many links as Linux follows.
const MAX_LINKS: usize = 40;

/// The digest of a file's content; none if it cannot be read.
type Content = Option<blake3::Hash>;

/// Watches a few files.
pub(super) struct FileWatch {
    watcher: RecommendedWatcher,
    occasions: mpsc::Receiver<()>,
    folders: BTreeSet<PathBuf>,
    files: Vec<(PathBuf, Content)>,
}

impl FileWatch {
    /// Watches nothing yet.
    pub(super) fn new() -> notify::Result<Self> {
        // One occasion is as good as many.
        let (tell, occasions) = mpsc::channel(1);
        let watcher = recommended_watcher(move |event: notify::Result<Event>| {
            if event.map_or(true, |event| may_change_a_file(event.kind)) {
                // Full, or nobody is there any more: neither matters.
                _ = tell.try_send(());
            }
        })?;
        Ok(Self { watcher, occasions, folders: BTreeSet::new(), files: Vec::new() })
    }

    /// Watches these files from here on, in place of those before. What has been noted of a file stays.
    ///
    /// # Errors
    ///
    /// When the system does not watch one of the folders; the others are watched.
    pub(super) fn follow(&mut self, files: impl IntoIterator<Item = PathBuf>) -> notify::Result<()> {
        let files: Vec<_> = files.into_iter().collect();
        let folders = files.iter().flat_map(|file| folders_of(file)).collect();
        let mut followed = Ok(());
        for folder in self.folders.difference(&folders) {
            // One that is gone is not watched any more.
            _ = self.watcher.unwatch(folder);
        }
        for folder in &folders {
            // Again also where it was watched: it may be another folder of the same name.
            if let Err(error) = self.watcher.watch(folder, RecursiveMode::NonRecursive) {
                followed = Err(error);
            }
        }
        self.folders = folders;
        let seen = |file: &PathBuf| self.files.iter().find(|(known, _)| known == file).map(|(_, seen)| *seen);
        let noted = files.into_iter().map(|file| (seen(&file).unwrap_or_else(|| content(&file)), file));
        self.files = noted.map(|(seen, file)| (file, seen)).collect();
        followed
    }

    /// Notes what is in the files now. To be called before they are read: a change after that is another one.
    pub(super) fn note(&mut self) {
        for (file, seen) in &mut self.files {
            *seen = content(file);
        }
    }

    /// Waits until one of the files has another content than was [noted](Self::note).
    ///
    /// # Cancel safety
    ///
    /// No change is missed: what has not been told is found with the next call.
    pub(super) async fn changed(&mut self) {
        loop {
            let differs = |(file, seen): &(PathBuf, Content)| content(file) != *seen;
            if self.files.iter().any(differs) {
                return;
            }
            if self.occasions.recv().await.is_none() {
                return std::future::pending().await;
            }
            for _ in 0..DISTURBED {
                if timeout(REST, self.occasions.recv()).await.is_err() {
                    break;
                }
            }
            // A link on the way may lead elsewhere now. Should the system refuse to watch there, what is watched remains.
            let folders: BTreeSet<_> = self.files.iter().flat_map(|(file, _)| folders_of(file)).collect();
            for folder in &folders {
                _ = self.watcher.watch(folder, RecursiveMode::NonRecursive);
            }
            self.folders.extend(folders);
        }
    }
}

/// Reading a file is an event too, and would lead to reading it again.
const fn may_change_a_file(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if !matches!(access, AccessKind::Close(AccessMode::Write)))
}

fn content(file: &Path) -> Content {
    // Opening a pipe would wait for somebody who writes to it, and a device may have no end.
    fs::metadata(file).ok().filter(Metadata::is_file)?;
    let mut content = Vec::new();
    File::open(file).ok()?.take(MOST_BYTES).read_to_end(&mut content).ok()?;
    Some(blake3::hash(&content))
}

/// The folders in which a name on the way to a file's content stands; for one that is not there, the nearest above it that
/// is, as it may come.
fn folders_of(file: &Path) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    let mut links = 0;
    follow_links(file, &mut folders, &mut links);
    let nearest = |folder: &PathBuf| folder.ancestors().find(|folder| folder.is_dir()).map(Path::to_owned);
    folders.iter().filter_map(nearest).collect()
}

/// Walks a path name by name; where a name is a link, its folder counts and the walk goes on from there.
fn follow_links(path: &Path, folders: &mut BTreeSet<PathBuf>, links: &mut usize) {
    let mut walked = PathBuf::from(if path.is_absolute() { "" } else { "." });
    let names: Vec<_> = path.components().collect();
    for (at, name) in names.iter().enumerate() {
        let folder = walked.clone();
        match name {
            Component::ParentDir => {
                // Where a link has led decides what its parent is.
                walked = fs::canonicalize(&walked).unwrap_or(walked);
                walked.pop();
                continue;
            }
            name => walked.push(name),
        }
        let is_last = at + 1 == names.len();
        if let Ok(target) = fs::read_link(&walked) {
            folders.insert(folder.clone());
            *links += 1;
            if *links > MAX_LINKS {
                return;
            }
            let rest: PathBuf = names.iter().skip(at + 1).collect();
            let onward = folder.join(target).join(rest);
            // An empty rest would add a slash.
            let onward: PathBuf = onward.components().collect();
            return follow_links(&onward, folders, links);
        }
        if is_last {
            folders.insert(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn temporary() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    async fn soon(watch: &mut FileWatch) {
        timeout(Duration::from_secs(30), watch.changed()).await.expect("no change was noticed");
    }

    /// Follows a file that holds "one", has `change` done to it, and waits for it to be noticed.
    async fn check(arrange: impl Fn(&Path) -> PathBuf, change: impl Fn(&Path)) {
        let folder = temporary();
        let file = arrange(folder.path());
        let mut watch = FileWatch::new().unwrap();
        watch.follow([file.clone()]).unwrap();
        for _ in 0..2 {
            change(folder.path());
            soon(&mut watch).await;
            watch.note();
        }
    }

    fn plain(folder: &Path) -> PathBuf {
        let file = folder.join("file");
        fs::write(&file, "one").unwrap();
        file
    }

    fn other(folder: &Path) -> String {
        format!("{:?} more", fs::read(folder.join("file")))
    }

    #[tokio::test]
    async fn a_file_that_is_written_in_place_is_noticed() {
        check(plain, |folder| fs::write(folder.join("file"), other(folder)).unwrap()).await;
    }

    #[tokio::test]
    async fn a_file_that_is_renamed_over_is_noticed() {
        check(plain, |folder| {
            fs::write(folder.join("new"), other(folder)).unwrap();
            fs::rename(folder.join("new"), folder.join("file")).unwrap();
        })
        .await;
    }

    #[tokio::test]
    async fn a_file_that_goes_and_comes_back_is_noticed() {
        let folder = temporary();
        let file = plain(folder.path());
        let mut watch = FileWatch::new().unwrap();
        watch.follow([file.clone()]).unwrap();
        fs::remove_file(&file).unwrap();
        soon(&mut watch).await;
        watch.note();
        fs::write(&file, "one").unwrap();
        soon(&mut watch).await;
    }

    #[tokio::test]
    async fn a_folder_that_goes_and_comes_back_is_noticed() {
        let above = temporary();
        let folder = above.path().join("one").join("two");
        fs::create_dir_all(&folder).unwrap();
        let file = plain(&folder);
        let mut watch = FileWatch::new().unwrap();
        watch.follow([file.clone()]).unwrap();
        for _ in 0..2 {
            fs::remove_dir_all(above.path().join("one")).unwrap();
            soon(&mut watch).await;
            watch.note();
            watch.follow([file.clone()]).unwrap();
            fs::create_dir_all(&folder).unwrap();
            fs::write(&file, "one").unwrap();
            soon(&mut watch).await;
            watch.note();
            watch.follow([file.clone()]).unwrap();
        }
    }

    #[tokio::test]
    async fn a_folder_that_is_replaced_is_noticed() {
        check(
            |above| {
                fs::create_dir(above.join("folder")).unwrap();
                plain(&above.join("folder"))
            },
            |above| {
                let (folder, new, old) = (above.join("folder"), above.join("new"), above.join("old"));
                fs::create_dir(&new).unwrap();
                fs::write(new.join("file"), other(&folder)).unwrap();
                fs::rename(&folder, &old).unwrap();
                fs::rename(&new, &folder).unwrap();
                fs::remove_dir_all(&old).unwrap();
            },
        )
        .await;
    }

    #[tokio::test]
    async fn a_link_that_leads_nowhere_is_noticed_when_it_leads_somewhere() {
        let (folder, elsewhere) = (temporary(), temporary());
        let target = elsewhere.path().join("later").join("file");
        symlink(&target, folder.path().join("link")).unwrap();
        let mut watch = FileWatch::new().unwrap();
        watch.follow([folder.path().join("link")]).unwrap();
        fs::create_dir(target.parent().unwrap()).unwrap();
        fs::write(&target, "one").unwrap();
        soon(&mut watch).await;
    }

    #[tokio::test]
    async fn what_is_no_file_has_no_content_and_is_not_waited_for() {
        let folder = temporary();
        let file = plain(folder.path());
        let mut watch = FileWatch::new().unwrap();
        watch.follow([file.clone()]).unwrap();
        fs::remove_file(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        soon(&mut watch).await;
        fs::remove_file(&file).unwrap();
        symlink("/dev/zero", &file).unwrap();
        watch.note();
        fs::remove_file(&file).unwrap();
        fs::write(&file, "two").unwrap();
        soon(&mut watch).await;
    }

    #[tokio::test]
    async fn a_path_that_goes_up_again_leads_to_the_same_file() {
        check(
            |folder| {
                fs::create_dir(folder.join("down")).unwrap();
                plain(folder);
                folder.join("down").join("..").join("file")
            },
            |folder| fs::write(folder.join("file"), other(folder)).unwrap(),
        )
        .await;
    }

    #[tokio::test]
    async fn a_mounted_folder_whose_link_is_replaced_is_noticed() {
        let turn = |folder: &Path, name: &str, content: &str| {
            fs::create_dir(folder.join(name)).unwrap();
            fs::write(folder.join(name).join("file"), content).unwrap();
            symlink(name, folder.join("..new")).unwrap();
            fs::rename(folder.join("..new"), folder.join("..data")).unwrap();
        };
        let arrange = |folder: &Path| {
            turn(folder, "..1", "one");
            symlink("..data/file", folder.join("file")).unwrap();
            folder.join("file")
        };
        check(arrange, |folder| {
            let number = fs::read_dir(folder).unwrap().count();
            turn(folder, &format!("..{number}"), &other(folder));
        })
        .await;
    }

    #[tokio::test]
    async fn a_link_into_another_folder_is_followed_there() {
        let elsewhere = temporary();
        let target = plain(elsewhere.path());
        let arrange = |folder: &Path| {
            symlink(&target, folder.join("link")).unwrap();
            folder.join("link")
        };
        check(arrange, |_| fs::write(&target, other(elsewhere.path())).unwrap()).await;
    }

    #[tokio::test]
    async fn what_is_the_same_again_is_no_change() {
        let folder = temporary();
        let file = plain(folder.path());
        let mut watch = FileWatch::new().unwrap();
        watch.follow([file.clone()]).unwrap();
        fs::write(&file, "one").unwrap();
        fs::write(folder.path().join("another"), "two").unwrap();
        let mut changed = Box::pin(watch.changed());
        tokio::select! {
            biased;
            () = &mut changed => panic!("nothing has changed"),
            () = std::future::ready(()) => {}
        }
        fs::write(&file, "two").unwrap();
        timeout(Duration::from_secs(30), changed).await.expect("no change was noticed");
    }

    #[test]
    fn every_folder_on_the_way_counts() {
        let (folder, elsewhere) = (temporary(), temporary());
        let (folder, elsewhere) =
            (folder.path().canonicalize().unwrap(), elsewhere.path().canonicalize().unwrap());
        fs::create_dir(elsewhere.join("real")).unwrap();
        fs::write(elsewhere.join("real").join("file"), "one").unwrap();
        symlink("real", elsewhere.join("data")).unwrap();
        symlink(elsewhere.join("data").join("file"), folder.join("file")).unwrap();
        let expected = [folder.clone(), elsewhere.clone(), elsewhere.join("real")].map(PathBuf::from);
        assert_eq!(folders_of(&folder.join("file")), expected.into_iter().collect());
        symlink("loop", folder.join("loop")).unwrap();
        assert_eq!(folders_of(&folder.join("loop")), [folder].into_iter().collect());
    }
}
