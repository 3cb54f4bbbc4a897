//! Tars of real files, created by GNU tar.

#![expect(clippy::disallowed_methods, reason = "the tests use real programs and files")]

use std::path::Path;
use std::process::Command;

use seal::Listing;

use crate::support::{base, seal};

fn run(program: &str, arguments: &[&str], directory: &Path) {
    let done = Command::new(program).args(arguments).current_dir(directory).output().unwrap();
    assert!(
        done.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

const SCRIPT: &str = r#"
set -e
mkdir -p tree/d/empty "tree/spaces and	tabs" tree/caf$(printf '\303\251')
printf data > tree/d/file; ln tree/d/file tree/d/hard; ln -s file tree/d/sym
mkfifo tree/d/pipe; chmod 4755 tree/d/file; chmod 1777 tree/d/empty
printf x > "tree/d/$(printf '%090d' 1)"
printf start > tree/sparse; truncate -s 300000 tree/sparse; printf end >> tree/sparse
touch -d @1000.75 tree/d/file tree/sparse tree/d/empty
find tree -type f -newermt @2000 -exec touch -d @1234 {} +
touch -h -d @1234 tree/d/sym tree/d/pipe
"#;

#[test]
fn all_formats_of_gnu_tar_seal_to_the_same() {
    let folder = tempfile::tempdir().unwrap();
    run("sh", &["-c", SCRIPT], folder.path());
    let mut sealed = Vec::new();
    for format in [
        &["--format=gnu"][..],
        &["--format=oldgnu"],
        &["--format=ustar"],
        &["--format=posix"],
        &["--format=gnu", "--sparse"],
        &["--format=oldgnu", "--sparse"],
        &["--format=posix", "--sparse"],
        &["--format=posix", "--sparse", "--sparse-version=0.0"],
        &["--format=posix", "--sparse", "--sparse-version=0.1"],
        &["--format=posix", "--sort=name"],
    ] {
        let common =
            ["--numeric-owner", "--owner=3", "--group=4", "-cf", "out.tar", "-C", "tree", "."];
        run("tar", &[format, &common].concat(), folder.path());
        let tar = std::fs::read(folder.path().join("out.tar")).unwrap();
        sealed.push((format, seal(&base(&[]), &tar).1));
    }
    for (format, bytes) in &sealed {
        let (one, other) = (&sealed[0].1, bytes);
        let list = |bytes: &[u8]| Listing::of_layer(bytes).unwrap().to_string();
        assert_eq!(list(one), list(other), "{format:?}");
        assert!(one == other, "{format:?}");
    }
    // GNU tar accepts the written tar without complaints, and unpacks the same files.
    std::fs::write(folder.path().join("sealed.tar"), &sealed[0].1).unwrap();
    let unpack = "mkdir back; tar -xf sealed.tar -C back --no-same-owner; diff -r --no-dereference \
                  --exclude=pipe tree back; test -p back/d/pipe; \
                  test $(stat -c %h back/d/hard) = 2; test $(stat -c %Y back/d/sym) = 1234";
    run("sh", &["-ec", unpack], folder.path());
}
