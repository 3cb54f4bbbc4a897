//! What happens if a place no longer contains what a command expects there: another image is not
//! taken for that of the last build, and no command replaces something of another kind.

use std::os::unix::fs::symlink;

use testkit::{RandomImage, shared_registry};

use crate::dsl::{Project, Ran};

/// A project with tracks `mine` and `other`, which have the same base.
fn two_tracks(seed: u64) -> Project {
    let host = shared_registry().host();
    let path = format!("replaced/{seed}-{}", std::process::id());
    let base = RandomImage::new(seed).push(host, &path, "v1");
    let project = Project::empty();
    project.write("registries.conf", "");
    project.run("init").expect(0);
    let pin = format!(
        "\n[image.one]\nrepository = \"{host}/{path}\"\ntag = \"v1\"\ndigest = \"{}\"\n",
        base.digest
    );
    let pins = project.read("versions/versions.toml");
    project.write("versions/versions.toml", &(pins + &pin));
    let track = |name: &str| {
        format!("\n[{name}]\ntitle = \"{name}\"\ndescription = \"d\"\nbase = \"one\"\n")
    };
    let tracks = format!("schema = 1\n{}{}", track("mine"), track("other"));
    project.write("versions/tracks.toml", &tracks);
    project
}

/// Checks that a command does not use the image of track `other` as that of `mine`.
fn is_told(ran: Ran, built: &str, other: &str) {
    ran.expect(13)
        .says("no longer contains the image that the last build of `mine` wrote")
        .says(&format!("says {built}"))
        .says("track `other`")
        .says(other)
        .says("build the track again");
}

#[test]
fn another_image_is_not_taken_for_that_of_the_last_build() {
    let project = two_tracks(8101);
    let registry =
        format!("registry:{}/replaced/tag-{}:1", shared_registry().host(), std::process::id());
    for place in ["oci:dist/mine", "oci:elsewhere", "oci-archive:mine.tar", &registry] {
        let line = format!("--track mine --with-layers --output {place}");
        let built = project.run(&line).expect(0).digest();
        project.run("verify mine").expect(0).prints("proven");
        let status = project.run("status").expect(0).stdout;
        let line_of_mine = status.lines().find(|line| line.starts_with("mine ")).unwrap();
        assert!(!line_of_mine.contains("(replaced"), "{status}");
        for rehearse in ["", " --rehearse"] {
            let line = format!("--track other --with-layers --output {place}{rehearse}");
            let other = project.run(&line).expect(0).digest();
            for command in
                ["verify mine", "diff mine mine", "audit mine", "slim mine --output oci:slim"]
            {
                is_told(project.run(command), &built, &other);
            }
            let push = format!("push mine {}/replaced/no:1", shared_registry().host());
            is_told(project.run(&push), &built, &other);
            if place != registry {
                let status = project.run("status").expect(0);
                status.prints("(replaced: an image of track `other`").prints(&other);
            }
            // The location itself still selects the image that is there.
            let ran = project.run(&format!("verify {place}"));
            ran.expect(0).prints(&other);
        }
        // A build of the track repairs it.
        project.run(&line).expect(0);
        project.run("verify mine").expect(0).prints("proven");
    }
}

#[test]
fn an_intact_output_is_used_if_another_one_was_replaced() {
    let project = two_tracks(8102);
    project.run("--track mine --output oci:a --output oci:b").expect(0);
    project.run("--track other --output oci:a").expect(0);
    project.run("verify mine").expect(0).prints("/b  sha256:");
}

#[test]
fn a_newer_image_of_the_track_is_used_even_if_its_run_failed_elsewhere() {
    let project = two_tracks(8103);
    let first = project.run("--track mine").expect(0).digest();
    project.edit("versions/tracks.toml", "title = \"mine\"", "title = \"newer\"");
    let ran = project.run("--track mine --output oci:dist/mine --push 127.0.0.1:1/x:1");
    assert_ne!(ran.code, 0);
    let verified = project.run("verify mine");
    if project.read("dist/mine/index.json").contains(&first) {
        verified.expect(8);
    } else {
        verified.expect(0).prints("proven");
    }
}

#[test]
fn without_a_record_the_folder_of_a_track_must_contain_its_image() {
    let project = two_tracks(8104);
    project.run("--track other --output oci:dist/mine").expect(0);
    let told = project.run("verify mine").expect(13);
    told.says("does not contain an image of track `mine`").says("track `other`");
    project.run("--track mine --output oci:dist/mine").expect(0);
    std::fs::remove_dir_all(project.path("home/.local/state/build-pipeline/records")).unwrap();
    project.run("verify mine").expect(0).prints("proven");
}

#[test]
fn an_output_that_is_an_input_is_refused_by_all_its_names() {
    let project = two_tracks(8105);
    project.run("bundle mine -o a.tar").expect(0);
    project.run("--track mine --output oci-archive:image.tar").expect(0);
    for file in ["a.tar", "image.tar"] {
        symlink(file, project.path(&format!("link-{file}"))).unwrap();
        std::fs::hard_link(project.path(file), project.path(&format!("hard-{file}"))).unwrap();
    }
    let bytes = |name: &str| std::fs::read(project.path(name)).unwrap();
    let before = [bytes("a.tar"), bytes("image.tar")];
    let full = |file: &str| project.path(file).display().to_string();
    for (file, line) in [
        ("a.tar", "bundle mine --since a.tar -o"),
        ("a.tar", "bundle mine --bundle a.tar -o"),
        ("image.tar", "slim image.tar --gpu gfx1151 -o oci-archive:"),
    ] {
        let names = [
            file.to_owned(),
            format!("./dist/../{file}"),
            format!("link-{file}"),
            format!("hard-{file}"),
            full(file),
        ];
        std::fs::create_dir_all(project.path("dist")).unwrap();
        for name in names {
            let space = if line.ends_with(':') { "" } else { " " };
            let told = project.run(&format!("{line}{space}{name}")).expect(2);
            told.says("itself, and would be replaced");
            assert!([bytes("a.tar"), bytes("image.tar")] == before, "{line} {name}");
        }
    }
}

#[test]
fn nothing_of_another_kind_is_replaced() {
    let project = two_tracks(8106);
    project.run("mirror mine --to dir:copy").expect(0);
    project.run("bundle mine -o bundle.tar").expect(0);
    project.run("--track mine --output oci-archive:image.tar").expect(0);
    let copied = project.read("copy/index.json");
    let bytes = |name: &str| std::fs::read(project.path(name)).unwrap();
    let before = [bytes("bundle.tar"), bytes("image.tar")];
    for (line, says) in [
        ("--track mine --output oci:copy", "not an image but a copy of inputs"),
        ("--track other --output oci:copy", "not an image but a copy of inputs"),
        ("--track mine --output oci-archive:bundle.tar", "is a bundle, not an archive of an image"),
        ("bundle mine -o image.tar", "is an archive of an image, not a bundle"),
    ] {
        project.run(line).expect(2).says(says).says("choose another location");
    }
    assert_eq!(project.read("copy/index.json"), copied);
    assert!([bytes("bundle.tar"), bytes("image.tar")] == before);
    // The same kind is replaced.
    project.run("bundle other -o bundle.tar").expect(0);
    project.run("--track other --output oci-archive:image.tar").expect(0);
    project.run("bundle --check bundle.tar").expect(0).prints("other: ");
    // Of two images, neither is lost.
    project.run("--track mine --output oci:two").expect(0);
    let mut index: serde_json::Value =
        serde_json::from_str(&project.read("two/index.json")).unwrap();
    let mut second = index["manifests"][0].clone();
    second["annotations"]["org.opencontainers.image.ref.name"] = "second".into();
    index["manifests"].as_array_mut().unwrap().push(second);
    project.write("two/index.json", &index.to_string());
    project.run("--track mine --output oci:two").expect(2).says("contains 2 images");
    project
        .run("bundle mine -o https://user:secret@example.org/x")
        .expect(2)
        .says("is a URL")
        .says("mirror TRACK --to");
    assert!(!project.path("https:").exists());
}

#[test]
fn init_and_man_write_through_no_link_and_over_no_foreign_file() {
    let project = Project::empty();
    for (number, link) in ["versions", "schemas", ".gitignore"].iter().enumerate() {
        let (inside, outside) = (format!("in-{number}"), format!("out-{number}"));
        std::fs::create_dir_all(project.path(&inside)).unwrap();
        match *link {
            ".gitignore" => project.write(&outside, "kept\n"),
            _ => std::fs::create_dir_all(project.path(&outside)).unwrap(),
        }
        symlink(project.path(&outside), project.path(&format!("{inside}/{link}"))).unwrap();
        let told = project.run(&format!("init {inside}")).expect(2);
        told.says(&format!("{link}` is a symbolic link")).says("nothing was written");
        assert_eq!(std::fs::read_dir(project.path(&inside)).unwrap().count(), 1);
    }
    assert_eq!(project.read("out-2"), "kept\n");

    project.run("man pages").expect(0);
    project.run("man pages").expect(0);
    project.write("pages/build-pipeline-verify.1", "my own notes\n");
    std::fs::remove_file(project.path("pages/build-pipeline.1")).unwrap();
    project.run("man pages").expect(2).says("build-pipeline-verify.1` exists");
    assert_eq!(project.read("pages/build-pipeline-verify.1"), "my own notes\n");
    assert!(!project.path("pages/build-pipeline.1").exists(), "nothing was written");
}
