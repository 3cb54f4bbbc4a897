//! Files of tracks and of build contexts: paths, owners, modes, and what they must not hide.

use super::{message, refused};
use crate::{
    NamedFiles, Owner, TrackFile, Tracks, check_destination, is_system_folder, named_files,
    parse_tracks,
};

/// Returns the files of a track, or the messages about them.
fn files(lines: &str) -> Result<Vec<TrackFile>, Vec<String>> {
    let text = format!(
        "schema = 1\ngpu = \"gfx1151\"\n[mine]\ntitle = \"t\"\ndescription = \"d\"\nbase = \"a\"\nfiles = [{lines}]\n"
    );
    match parse_tracks("tracks.toml", &text) {
        Ok(Tracks { mut tracks, .. }) => Ok(tracks.pop_first().unwrap().1.files),
        Err(error) => Err(error.problems.iter().map(|one| one.message.clone()).collect()),
    }
}

/// Returns the files of a stage's context, or the messages about them.
fn context(lines: &str) -> Result<Vec<String>, Vec<String>> {
    let text = format!(
        "schema = 1\ngpu = \"gfx1151\"\n[mine]\ntitle = \"t\"\ndescription = \"d\"\npackages = \"lock\"\n\
         [[mine.stage]]\nname = \"s\"\ndockerfile = \"D\"\n{lines}\n"
    );
    match parse_tracks("tracks.toml", &text) {
        Ok(Tracks { mut tracks, .. }) => {
            let track = tracks.pop_first().unwrap().1;
            let variants = track.variants().unwrap();
            let files = &variants.variants["default"].stages[0].files;
            assert!(files.iter().all(|file| file.from == file.to && file.mode.is_none()));
            Ok(files.iter().map(|file| file.from.clone()).collect())
        }
        Err(error) => Err(error.problems.iter().map(|one| one.message.clone()).collect()),
    }
}

#[test]
fn a_file_has_a_place_a_mode_and_an_owner() {
    let read = files(
        "{ from = \"a/b\", to = \"/opt/c\", mode = \"0755\", owner = \"1000:44\" }, { from = \"a\", to = \"/opt/d\" }",
    )
    .unwrap();
    assert_eq!((read[0].from.as_str(), read[0].to.as_str()), ("a/b", "/opt/c"));
    assert_eq!(read[0].mode, Some("0755".parse().unwrap()));
    assert_eq!(read[0].owner, Owner { uid: 1000, gid: 44 });
    assert_eq!((read[1].mode, read[1].owner), (None, Owner { uid: 0, gid: 0 }));
    assert!(
        read[0].from_span.end <= read[0].to_span.start
            && read[0].to_span.end <= read[1].from_span.start
    );
}

#[test]
fn owners_are_numbers_up_to_the_last_real_one() {
    let owner = |text: &str| {
        files(&format!("{{ from = \"a\", to = \"/opt/a\", owner = \"{text}\" }}"))
            .map(|files| (files[0].owner.uid, files[0].owner.gid))
    };
    assert_eq!(owner("7"), Ok((7, 7)), "the group is the user's");
    assert_eq!(owner("0:5"), Ok((0, 5)));
    assert_eq!(owner("2147483646:2147483646"), Ok((2_147_483_646, 2_147_483_646)));
    for bad in ["2147483647", "0:2147483647", "root", "1:", ":1", "1:2:3", "+1", "-1", "1 "] {
        assert!(owner(bad).is_err(), "{bad}");
    }
    assert_eq!(owner("root"), Err(vec!["`root` is not an owner".to_owned()]));
}

#[test]
fn modes_are_octal_and_give_no_rights_of_others() {
    let mode = |text: &str| {
        files(&format!("{{ from = \"a\", to = \"/opt/a\", mode = \"{text}\" }}"))
            .map(|files| files.len())
    };
    assert_eq!((mode("0644"), mode("0500")), (Ok(1), Ok(1)));
    assert_eq!(mode("rwx"), Err(vec!["`rwx` is not a file mode".to_owned()]));
    let special = mode("4755").unwrap_err();
    assert!(
        special[0].starts_with("`4755` sets the ")
            && special[0].ends_with("which files of a track cannot have"),
        "{special:?}"
    );
}

#[test]
fn a_file_that_is_listed_twice_is_refused_but_may_have_two_places() {
    let one = "{ from = \"a\", to = \"/opt/a\" }";
    let other = "{ from = \"a\", to = \"/opt/b\" }";
    assert_eq!(files(&format!("{one}, {other}")).unwrap().len(), 2);
    assert_eq!(
        files(&format!("{one}, {one}")),
        Err(vec!["`a` is listed twice in `files`".to_owned()])
    );
}

#[test]
fn a_source_is_inside_the_project() {
    let source = |text: &str| {
        files(&format!("{{ from = '{text}', to = \"/opt/a\" }}")).map(|files| files[0].from.clone())
    };
    let longest = "a".repeat(255);
    for good in ["a", "a/b", ".github/x", "a b", "..a", &longest] {
        assert_eq!(source(good).as_deref(), Ok(good));
    }
    for (text, why) in [
        ("/a", "is outside the project"),
        ("~/a", "is outside the project"),
        ("a/../b", "contains `..`, which may point outside the project"),
        ("a\\b", "has a backslash"),
        ("a//b", "has an empty part or a `.`"),
        ("./a", "has an empty part or a `.`"),
        ("a/", "has an empty part or a `.`"),
        (".git/config", "belongs to git, and differs between clones"),
        ("a/.git", "belongs to git, and differs between clones"),
    ] {
        assert_eq!(source(text), Err(vec![format!("`{text}` {why}")]));
    }
    assert!(source(&format!("{longest}a")).is_err());
}

#[test]
fn a_destination_hides_nothing_of_the_base_or_of_the_engine() {
    let longest = format!("/opt/{}", "a".repeat(995));
    assert_eq!(longest.len(), 1000);
    for good in [
        "/",
        "/opt",
        "/opt/a b",
        "/usr/bin/x",
        "/binary",
        "/libs/x",
        "/device",
        "/etc/hosts.d",
        "/running",
        "/tmpfiles",
        "/var/tmpl",
        "/opt/.whx",
        "/opt/.a",
        &longest,
    ] {
        assert!(check_destination(good).is_ok(), "{good}");
    }
    for (text, why, help) in [
        ("opt/a", "is not an absolute path", "write the full path in the image"),
        ("", "is not an absolute path", "write the full path in the image"),
        ("/opt/../a", "contains `..`", "write the full path in the image"),
        ("/opt//a", "has an empty part or a `.`", "write single slashes"),
        ("/opt/./a", "has an empty part or a `.`", "write single slashes"),
        ("/opt/", "has an empty part or a `.`", "write single slashes"),
        ("/opt/a\tb", "has a control character or more than 1000 bytes", "choose another path"),
        ("/opt/.wh.a", "has a name that starts with `.wh.`", "rename it"),
        ("/.wh..opq", "has a name that starts with `.wh.`", "rename it"),
        (
            "/bin/a",
            "is in `/bin`, which is a symbolic link in most images; the file would hide the link",
            "write `/usr/bin/a`",
        ),
        (
            "/lib64",
            "is in `/lib64`, which is a symbolic link in most images; the file would hide the link",
            "write `/usr/lib64`",
        ),
        (
            "/proc/a",
            "cannot be seen in a container, which has its own `/proc`",
            "choose another path, for example under `/opt`",
        ),
        (
            "/etc/hosts",
            "cannot be seen in a container, which has its own `/etc/hosts`",
            "choose another path",
        ),
        (
            "/tmp/a",
            "is in `/tmp`, which is for files of running programs",
            "choose another path, for example under `/opt`",
        ),
        (
            "/var/tmp",
            "is in `/var/tmp`, which is for files of running programs",
            "choose another path",
        ),
    ] {
        let (told, advice) = refused(check_destination(text));
        assert!(told.ends_with(why), "{text}: {told}");
        assert!(advice.starts_with(help), "{text}: {advice}");
    }
    assert!(message(check_destination(&format!("{longest}a"))).ends_with("more than 1000 bytes"));
    for folder in ["/", "/etc", "/usr/local/bin", "/var/spool"] {
        assert!(is_system_folder(folder), "{folder}");
    }
    for folder in ["", "/opt/a", "/etc/", "usr", "/usr/local/bin/x"] {
        assert!(!is_system_folder(folder), "{folder}");
    }
}

#[test]
fn a_file_of_a_context_has_the_same_path_there_and_no_other_folders() {
    assert_eq!(context("files = [\"a/b\", \"c\"]"), Ok(vec!["a/b".to_owned(), "c".to_owned()]));
    let packages = "packages = [\"build\"]\nfiles = ";
    let python = "python = \"lock\"\nfiles = ";
    let sources = "sources = { \"vendor/x\" = \"a\" }\nfiles = ";
    let twice = |path: &str| Err(vec![format!("`{path}` would be in the context twice")]);
    assert_eq!(context(&format!("{packages}[\"packages/a\"]")), twice("packages/a"));
    assert_eq!(context(&format!("{packages}[\"packages2\"]")), Ok(vec!["packages2".to_owned()]));
    assert_eq!(context("files = [\"packages/a\"]"), Ok(vec!["packages/a".to_owned()]));
    assert_eq!(context(&format!("{python}[\"python\"]")), twice("python"));
    assert_eq!(context("files = [\"python\"]"), Ok(vec!["python".to_owned()]));
    // A folder that contains the other folder would also provide it.
    assert_eq!(context(&format!("{sources}[\"vendor\"]")), twice("vendor"));
    assert_eq!(context(&format!("{sources}[\"vendor/x/y\"]")), twice("vendor/x/y"));
    assert_eq!(context(&format!("{sources}[\"vendor/y\"]")), Ok(vec!["vendor/y".to_owned()]));
    for name in names::CONTEXT_NAMES {
        let told = context(&format!("files = [\"{name}\"]"));
        assert_eq!(told, Err(vec![format!("`{name}` cannot be in a build context")]));
    }
}

#[test]
fn the_files_that_a_text_names_are_found_even_in_tracks_with_other_problems() {
    let text = "schema = 1\n[one]\nfiles = [{ from = \"a\", to = 1 }, { from = \"/b\" }, 3, {}]\n\
        [[one.stage]]\ndockerfile = \"D1\"\nfiles = [\"c\", 4, \"../d\"]\n\
        [two.variants.v]\n[[two.variants.v.stage]]\ndockerfile = \"D2\"\nfiles = [\"e\"]\n\
        [[two.variants.w.stage]]\ndockerfile = \"/D3\"\n[three]\nstage = 1\nvariants = 2\n";
    let named = named_files(text);
    let paths = |all: &[(std::ops::Range<usize>, String)]| {
        for (span, path) in all {
            assert_eq!(text[span.clone()], format!("\"{path}\""), "the place is that of the path");
        }
        all.iter().map(|(_, path)| path.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        (paths(&named.files), paths(&named.dockerfiles)),
        ("a c e".to_owned(), "D1 D2".to_owned())
    );
    assert_eq!(named_files("= broken"), NamedFiles::default());
}
