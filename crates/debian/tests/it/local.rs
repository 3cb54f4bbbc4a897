//! A real apt installs from a local package source, without a network and without a key for it.

use std::path::Path;
use std::process::{Command, Output};

use debian::{LocalSource, LocalSourceError, write_local_source};

use crate::support::{EPOCH, SUITE, architecture, fetched, local_source};

/// Returns the `sources.list` line for the current path of the folder.
fn apt_line(source: &LocalSource) -> String {
    format!("deb [trusted=yes] copy:{} ./", source.folder().display())
}

/// Runs apt-get for an empty machine whose only source is `line`.
fn apt_get(line: &str, arguments: &[&str]) -> (Output, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for name in ["state/lists/partial", "cache/archives/partial", "etc/apt.conf.d", "log"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    std::fs::write(root.join("status"), "").unwrap();
    std::fs::write(root.join("etc/sources.list"), format!("{line}\n")).unwrap();
    let configuration = format!(
        "Dir \"{0}\"; Dir::State \"state\"; Dir::State::status \"{0}/status\"; Dir::Cache \"cache\";\nDir::Etc \"etc\"; Dir::Log \"log\"; APT::Architecture \"{1}\"; APT::Sandbox::User \"root\";\n",
        root.display(),
        architecture()
    );
    std::fs::write(root.join("apt.conf"), configuration).unwrap();
    let run = |arguments: &[&str]| {
        Command::new("apt-get")
            .args(arguments)
            .env("APT_CONFIG", root.join("apt.conf"))
            .env("LC_ALL", "C.UTF-8")
            .current_dir(root)
            .output()
            .unwrap()
    };
    let updated = run(&["-q", "-o", "APT::Update::Error-Mode=any", "update"]);
    assert!(updated.status.success(), "{updated:?}");
    (run(arguments), folder)
}

#[tokio::test]
async fn apt_installs_what_is_there_with_all_that_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let source = local_source(&["base", "tools"], &folder.path().join("packages")).await;
    let (output, _state) = apt_get(
        &apt_line(&source),
        &["-q", "--simulate", "--no-install-recommends", "install", "jq"],
    );
    let plan = String::from_utf8_lossy(&output.stdout).into_owned();
    for name in ["jq", "libjq1", "libonig5", "libc6"] {
        assert!(plan.contains(&format!("\nInst {name} ")), "{name}: {plan}");
    }
}

#[tokio::test]
async fn apt_takes_the_very_files() {
    let folder = tempfile::tempdir().unwrap();
    let source = local_source(&["tools"], &folder.path().join("packages")).await;
    let (output, state) = apt_get(&apt_line(&source), &["-q", "download", "hello"]);
    assert!(output.status.success(), "{output:?}");
    let packages = fetched(&["tools"]).await;
    let hello = packages.iter().find(|fetched| fetched.package.name == "hello").unwrap();
    let taken = std::fs::read(state.path().join(hello.package.file_name())).unwrap();
    assert_eq!(taken, std::fs::read(&hello.path).unwrap());
}

#[tokio::test]
async fn apt_does_not_take_a_file_that_was_changed_later() {
    let folder = tempfile::tempdir().unwrap();
    let source = local_source(&["tools"], &folder.path().join("packages")).await;
    let packages = fetched(&["tools"]).await;
    let hello = packages.iter().find(|fetched| fetched.package.name == "hello").unwrap();
    let path = source.folder().join(hello.package.file_name());
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let (output, _state) = apt_get(&apt_line(&source), &["-q", "download", "hello"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("Hash Sum mismatch"), "{output:?}");
}

#[tokio::test]
async fn the_same_packages_give_the_same_tree_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let first = local_source(&["tools"], &folder.path().join("first")).await;
    let mut packages = fetched(&["tools"]).await;
    packages.reverse();
    let second = write_local_source(&packages, SUITE, EPOCH, &folder.path().join("second"));
    let digest = |source: &debian::LocalSource| source.tree().unwrap().digest().unwrap();
    assert_eq!(digest(&first), digest(&second.unwrap()));
    let names: Vec<String> =
        first.tree().unwrap().paths().map(|(path, _)| path.to_string()).collect();
    for name in ["Packages", "Release", "sources.list"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
    assert_eq!(names.len(), packages.len() + 3, "{names:?}");
}

#[tokio::test]
async fn a_folder_with_something_in_it_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine"), "mine").unwrap();
    let error = write_local_source(&[], SUITE, EPOCH, folder.path()).unwrap_err();
    assert!(matches!(error, LocalSourceError::NotEmpty { .. }), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn files_that_changed_or_are_other_packages_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let packages = fetched(&["tools"]).await;
    let hello = packages.iter().find(|fetched| fetched.package.name == "hello").unwrap();
    let write = |name: &str, packages: &[debian::FetchedPackage]| {
        let to = folder.path().join(name);
        write_local_source(packages, SUITE, EPOCH, &to).unwrap_err()
    };

    let mut changed = hello.clone();
    changed.path = folder.path().join("changed.deb");
    std::fs::write(&changed.path, "another file").unwrap();
    let error = write("changed", std::slice::from_ref(&changed));
    assert!(matches!(error, LocalSourceError::Changed { .. }), "{error}");

    let mut renamed = hello.clone();
    renamed.package.name = "goodbye".to_owned();
    let error = write("renamed", &[renamed]);
    assert!(matches!(error, LocalSourceError::Other { .. }), "{error}");

    let error = write("twice", &[hello.clone(), hello.clone()]);
    assert!(matches!(error, LocalSourceError::Twice { .. }), "{error}");

    let mut missing = hello.clone();
    missing.path = Path::new("/nowhere.deb").to_owned();
    let error = write("missing", &[missing]);
    assert!(matches!(error, LocalSourceError::Disk { .. }), "{error}");
}
