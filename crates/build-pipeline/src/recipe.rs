//! The commit of the recipe: which state of `versions/`, `patches/` and `dockerfiles/` an image is from.
//!
//! It is the last commit that changed one of those folders, not the newest of all, so that a commit
//! to a README gives no image another digest. In a shallow clone that commit may lie beyond what was
//! fetched; then the oldest one there is stands in for it, with a warning.

use std::path::Path;

use git2::{ErrorCode, Oid, Repository, RepositoryOpenFlags, StatusOptions, Tree};
use plan::Recipe;

use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::output;

/// The folders that images are made from.
const FOLDERS: [&str; 3] = ["versions", "patches", "dockerfiles"];

/// Reads the recipe's commit, where the project is a git checkout with a commit.
pub(crate) fn read(root: &Path) -> Result<Option<Recipe>, CommandError> {
    // Objects are looked at here, not built from; checking their hashes is half of what this takes.
    git2::opts::strict_hash_verification(false);
    // Only the project's own repository counts, not one that some folder above happens to be.
    let opened = Repository::open_ext(root, RepositoryOpenFlags::NO_SEARCH, &[] as &[&Path]);
    let repository = match opened {
        Ok(repository) => repository,
        Err(error) if error.code() == ErrorCode::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(root, &error)),
    };
    let read = || {
        let head = match repository.head() {
            Ok(head) => head.peel_to_commit()?,
            Err(error) if matches!(error.code(), ErrorCode::UnbornBranch | ErrorCode::NotFound) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let commit = last_change(&repository, head)?;
        let modified = is_modified(&repository)?;
        Ok(Some(Recipe { url: origin(&repository), commit: commit.to_string(), modified }))
    };
    read().map_err(|error| unreadable(root, &error))
}

fn unreadable(root: &Path, error: &git2::Error) -> CommandError {
    let told = CommandError::caused(
        ExitCode::Machine,
        format!("reading the git repository `{}` failed", root.display()),
        error,
    );
    match error.code() {
        ErrorCode::Owner => told.hint(format!("the folder belongs to someone else; `git config --global --add safe.directory {}` trusts it", root.display())),
        _ => told.hint("`git status` tells whether git can read it"),
    }
}

/// Returns the last commit on the first-parent line that changed one of the folders.
fn last_change(repository: &Repository, head: git2::Commit<'_>) -> Result<Oid, git2::Error> {
    let state =
        |tree: &Tree<'_>| FOLDERS.map(|folder| tree.get_name(folder).map(|entry| entry.id()));
    let wanted = state(&head.tree()?);
    let mut newest = head;
    loop {
        let Ok(parent) = newest.parent(0) else {
            if newest.parent_count() > 0 || repository.is_shallow() {
                output::warn(
                    "shallow-clone",
                    "the commit that last changed the recipe may lie outside this shallow clone, so the image's revision, and with it its digest, may differ from a full clone's; `git fetch --unshallow` mends it",
                );
            }
            return Ok(newest.id());
        };
        if state(&parent.tree()?) != wanted {
            return Ok(newest.id());
        }
        newest = parent;
    }
}

/// Returns whether the folders differ from the commit.
fn is_modified(repository: &Repository) -> Result<bool, git2::Error> {
    let mut options = StatusOptions::new();
    // Literal prefixes, not patterns: then only these folders are walked, not the whole checkout.
    options.disable_pathspec_match(true);
    options.include_untracked(true).include_ignored(false).recurse_untracked_dirs(false);
    for folder in FOLDERS {
        options.pathspec(folder);
    }
    Ok(!repository.statuses(Some(&mut options))?.is_empty())
}

/// Returns the address that the checkout was cloned from, where everybody can read it: `https`,
/// without credentials, so that clones by https and by ssh agree.
fn origin(repository: &Repository) -> Option<String> {
    let remote = repository.find_remote("origin").ok()?;
    public_address(remote.url().ok()?)
}

fn public_address(url: &str) -> Option<String> {
    let rest = if let Some(rest) =
        url.strip_prefix("https://").or_else(|| url.strip_prefix("ssh://"))
    {
        rest.to_owned()
    } else if url.contains("://") {
        return None;
    } else {
        // The short form of ssh: `git@host:path`.
        let (host, path) =
            url.split_once(':').filter(|(host, _)| host.contains('@') && !host.contains('/'))?;
        format!("{host}/{path}")
    };
    let (host, path) = rest.split_once('/')?;
    let host = host.rsplit('@').next()?;
    let path = path.trim_end_matches('/').trim_end_matches(".git");
    let is_plain = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && !"?#'\"`\\<>".contains(c))
    };
    (is_plain(host) && is_plain(path)).then(|| format!("https://{host}/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_address_drops_credentials_and_agrees_over_protocols() {
        for (url, wanted) in [
            ("https://example.org/a/b.git", Some("https://example.org/a/b")),
            ("https://user:secret@example.org/a/b", Some("https://example.org/a/b")),
            ("git@example.org:a/b.git", Some("https://example.org/a/b")),
            ("ssh://git@example.org/a/b.git", Some("https://example.org/a/b")),
            ("file:///srv/git/b", None),
            ("/srv/git/b", None),
            ("http://example.org/a/b", None),
            ("https://example.org", None),
            ("https://example.org/a?token=x", None),
            ("../b", None),
        ] {
            assert_eq!(public_address(url).as_deref(), wanted, "{url}");
        }
    }
}
