//! `build-pipeline man`: writes the manual pages.

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory as _;
use failure::{Failure, Kind};

use crate::cli::Cli;

/// The first line of a page names its command.
const START: &[u8] = b".TH build-pipeline";

/// Writes one manual page per command. Never overwrites a file that is not such a page.
pub(crate) fn run(folder: &Path) -> Result<(), Failure> {
    let failed = |error: &io::Error| {
        let what = format!("writing manual pages into `{}` failed", folder.display());
        Failure::caused(Kind::of_write(error), what, error)
            .hint("choose a folder that you can write to or create")
    };
    let pages = pages().map_err(|error| failed(&error))?;
    for (name, _) in &pages {
        let path = folder.join(name);
        let is_other = match fs::symlink_metadata(&path) {
            Err(error) => error.kind() != io::ErrorKind::NotFound,
            Ok(found) if !found.is_file() => true,
            Ok(_) => project::read_bytes(&path).map_or(true, |text| !is_page(&text)),
        };
        if is_other && folder.is_dir() {
            let what = format!("`{}` exists, and `man` did not write it", path.display());
            return Err(Failure::new(Kind::Input, what)
                .hint("nothing was written; choose another folder, or move this file away first"));
        }
    }
    let write = || {
        fs::create_dir_all(folder)?;
        pages.iter().try_for_each(|(name, text)| fs::write(folder.join(name), text))
    };
    write().map_err(|error| failed(&error))
}

/// Returns whether a text is a page that this command wrote.
fn is_page(text: &[u8]) -> bool {
    text.is_empty() || text.split(|byte| *byte == b'\n').any(|line| line.starts_with(START))
}

/// Returns the pages with the names of their files.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add(command, &mut pages)?;
    Ok(pages)
}

/// Adds the pages of a command and its subcommands.
fn add(command: clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        add(below.clone(), pages)?;
    }
    let (page, mut text) = (clap_mangen::Man::new(command), Vec::new());
    page.render(&mut text)?;
    pages.push((page.get_filename(), text));
    Ok(())
}
