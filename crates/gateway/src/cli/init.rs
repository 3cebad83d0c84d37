//! `fairlane init`.

use std::{
    fs::File,
    io::{self, Write as _},
    path::Path,
};

use fairlane_config::Format;

use super::{
    Exit,
    output::{print, say},
};

/// A configuration to begin with.
const START: &str = include_str!("init.yaml");

/// The schema that its first line names: what an editor needs to complete and check it.
const SCHEMA: &str = "fairlane.schema.json";

/// Writes a configuration to begin with, and the schema beside it. What is there already is left.
pub(super) fn init(file: &Path) -> Exit {
    if Format::of(file) != Some(Format::Yaml) {
        say(format!("error: {}: a file to begin with is YAML, and so ends in .yaml or .yml", file.display()));
        return Exit::Usage;
    }
    if let Err(error) = write_new(file, START) {
        let said = match error.kind() {
            io::ErrorKind::AlreadyExists => "it is there already, and is left as it is".to_owned(),
            _ => format!("it cannot be written: {error}"),
        };
        say(format!("error: {}: {said}", file.display()));
        return Exit::Failed;
    }
    let schema = file.with_file_name(SCHEMA);
    match write_new(&schema, &format!("{:#}\n", fairlane_config::schema())) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            say(format!("warning: {} is there already, and is left as it is", schema.display()));
        }
        // The configuration is good without it.
        Err(error) => say(format!("warning: {}: it cannot be written: {error}", schema.display())),
    }
    let file = file.display();
    print(&format!(
        "{file} is a configuration to begin with, and {} what editors know its keys by.\n\
         Next: put the URL of your backend in, then `fairlane check {file}` and `fairlane serve --config {file}`.\n",
        schema.display()
    ))
}

/// Writes a file that must not be there yet, not even as a link to nowhere.
fn write_new(file: &Path, text: &str) -> io::Result<()> {
    File::create_new(file)?.write_all(text.as_bytes())
}
