//! A track's own files: they become a layer, are checked, and do not depend on the machine.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use testkit::{RandomImage, shared_registry};

use crate::built::Bench;
use crate::dsl::{Project, ran, same};

const TRACKS: &str = "versions/tracks.toml";
const HEAD: &str = "title = \"t\"\ndescription = \"d\"\n";

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Returns a project whose track `mine` has the given `files` over track `ollama`.
fn with(files: &str) -> Project {
    let project = Project::empty();
    project.write("registries.conf", "");
    project.run("init").expect(0);
    let track = format!("schema = 1\n[mine]\n{HEAD}track = \"ollama\"\nfiles = [\n{files}\n]\n");
    project.write(TRACKS, &track);
    project.write("files/start", "#!/bin/sh\nexec serve\n");
    set_mode(&project.path("files/start"), 0o755);
    project.write("files/app/config.json", "{}\n");
    project.write("files/app/data/words", "one two\n");
    symlink("data/words", project.path("files/app/words")).unwrap();
    project
}

const FILES: &str = "{ from = \"files/start\", to = \"/usr/local/bin/start\" },\n\
                     { from = \"files/app\", to = \"/opt/app\", mode = \"0640\", owner = \"1000:44\" },";

/// Lists a layer of a layout with the machine's tar.
fn listed(layout: &Path, layer: &str) -> String {
    let blob = layout.join("blobs/sha256").join(layer.trim_start_matches("sha256:"));
    let mut tar = Command::new("tar");
    tar.args(["--numeric-owner", "--full-time", "-tvzf"]).arg(blob).env("TZ", "UTC");
    ran(tar.output().unwrap()).expect(0).stdout
}

/// Returns the digests of the layers of a layout, lowest first.
fn layers(layout: &Path) -> Vec<String> {
    let image = oci::LayoutImage::read(layout).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&image.manifest).unwrap();
    let layers = manifest["layers"].as_array().unwrap().iter();
    layers.map(|layer| layer["digest"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn own_files_are_a_layer_that_needs_no_engine() {
    let host = shared_registry().host();
    let path = format!("own/files-{}", std::process::id());
    let base = RandomImage::new(7801).push(host, &path, "v1");
    let project = with(FILES);
    let pin = format!(
        "\n[image.ollama]\nrepository = \"{host}/{path}\"\ntag = \"v1\"\ndigest = \"{}\"\n",
        base.digest
    );
    let pins = project.read("versions/versions.toml");
    project.write("versions/versions.toml", &(pins + &pin));
    project
        .run("plan mine")
        .expect(0)
        .prints("/usr/local/bin/start 0755 0:0 from files/start (sha256:")
        .prints("/opt/app/ 0750 1000:44")
        .prints("/opt/app/words -> data/words 1000:44")
        .prints("label io.github.build-pipeline.files-digest=sha256:");
    let built =
        project.run("--track mine").expect(0).prints("1 layer with the project's own files here, ");
    project.run("verify mine").expect(0).prints("proven: ").prints("✓ 1 layer checked");
    project.run("verify mine --rebuild").expect(0).prints("the images are identical");
    project.run("--track mine").expect(0).prints("up to date");

    let layout = project.path("dist/mine");
    let found = layers(&layout);
    assert_eq!(found.len(), base.layers.len() + 1);
    let lines = listed(&layout, found.last().unwrap());
    let entries: Vec<Vec<&str>> =
        lines.lines().map(|line| line.split_whitespace().collect()).collect();
    let time = |words: &Vec<&str>| format!("{} {}", words[3], words[4]);
    let times: BTreeSet<String> = entries.iter().map(time).collect();
    assert_eq!(times.len(), 1, "{lines}");
    let short: Vec<String> =
        entries.iter().map(|words| [&words[..2], &words[5..]].concat().join(" ")).collect();
    assert_eq!(
        short,
        [
            "drwxr-x--- 1000/44 opt/app/",
            "-rw-r----- 1000/44 opt/app/config.json",
            "drwxr-x--- 1000/44 opt/app/data/",
            "-rw-r----- 1000/44 opt/app/data/words",
            "lrwxrwxrwx 1000/44 opt/app/words -> data/words",
            "-rwxr-xr-x 0/0 usr/local/bin/start",
        ]
    );

    // The record names the files, with their digests.
    let record = project.records().pop().unwrap();
    let digest = names::Digest::of(project.read("files/start").as_bytes()).to_string();
    assert_eq!(record["recipe"]["files"]["files/start"], digest);
    assert_eq!(record["plan"]["inputs"]["files/start"]["digest"], digest);

    // Every kind of output has the layer.
    let target = format!("{host}/own/files-pushed-{}:v1", std::process::id());
    project.run(&format!("push mine {target}")).expect(0);
    project.run(&format!("verify {target}")).expect(0).prints("proven: ");
    let target = format!("{host}/{path}:with-files");
    project.run(&format!("--track mine --push {target}")).expect(0);
    project.run(&format!("verify {target}")).expect(0).prints("proven: ");
    project.run("--track mine --output oci-archive:mine.tar").expect(0);
    let archived = project.run("verify mine.tar").expect(0).prints("proven: ");
    assert!(archived.stdout.contains(&built.digest()), "{}", archived.stdout);
    project.run("--track mine --with-layers --output oci:whole").expect(0);
    project.run("verify oci:whole").expect(0).prints("proven: ");

    // A changed file changes the image, and a damaged layer is detected.
    project.write("files/app/config.json", "{ }\n");
    let verified = project.run("verify mine").expect(8).prints("files-digest").prints("must be");
    let verified =
        verified.prints("the project or this program has changed since").says("explain mine`");
    assert_eq!(verified.stdout.matches("files-digest").count(), 1, "not for the annotation again");
    project.run("explain mine").expect(0).prints("files/app/config.json").prints("add-files-mine");
    project.write("files/app/config.json", "{}\n");
    let blob =
        layout.join("blobs/sha256").join(found.last().unwrap().trim_start_matches("sha256:"));
    let mut bytes = std::fs::read(&blob).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&blob, bytes).unwrap();
    let damaged = project.run("verify oci:dist/mine");
    assert_ne!(damaged.code, 0, "{}", damaged.stdout);
    // No registry has it.
    std::fs::remove_file(&blob).unwrap();
    project.run("verify oci:dist/mine").expect(13).prints("✗ blob of layer sha256:");
    project.run("--track mine").expect(0);
    project.run("verify oci:dist/mine").expect(0).prints("proven: ");
}

#[test]
fn a_track_on_a_track_has_the_files_of_both() {
    let project = with(FILES);
    let more = format!(
        "[more]\n{HEAD}track = \"mine\"\nfiles = [{{ from = \"root.txt\", to = \"/opt/app/config.json\" }}]\n"
    );
    project.write(TRACKS, &(project.read(TRACKS) + &more));
    project.write("root.txt", "[]\n");
    project
        .run("--track more --rehearse")
        .expect(0)
        .prints("2 layers with the project's own files");
    project.run("verify rehearsal-more").expect(0).prints("proven: ");
    let found = layers(&project.path("dist/rehearsal-more"));
    let layout = project.path("dist/rehearsal-more");
    assert!(listed(&layout, &found[found.len() - 2]).contains("opt/app/words"));
    assert!(listed(&layout, found.last().unwrap()).contains("opt/app/config.json"));
    // Both layers are in the label, and the lower track's files are inputs of the upper one.
    let digest = |text: &str| {
        let label = "files-digest=";
        text.lines().find_map(|line| line.split_once(label)).unwrap().1.to_owned()
    };
    let (mine, both) = (
        project.run("plan mine --rehearse").expect(0),
        project.run("plan more --rehearse").expect(0),
    );
    assert_ne!(digest(&mine.stdout), digest(&both.stdout));
    let gpus = project.run("plan more --rehearse --gpu gfx1100").expect(0);
    assert_eq!(digest(&gpus.stdout), digest(&both.stdout));
    project.write("files/start", "changed\n");
    project.run("verify rehearsal-more").expect(8);
}

#[test]
fn equal_files_give_one_image_on_every_machine() {
    let mut digests = BTreeSet::new();
    for round in 0..6 {
        let project = with(FILES);
        let moved = project.path("files");
        // The rounds differ in the order of creation, times, owners, permission bits of the group
        // and others, modes of folders, the umask and the current folder.
        if round % 2 == 1 {
            std::fs::rename(&moved, project.path("before")).unwrap();
            for name in ["app/data/words", "start", "app/config.json"] {
                let to = moved.join(name);
                std::fs::create_dir_all(to.parent().unwrap()).unwrap();
                std::fs::copy(project.path("before").join(name), to).unwrap();
            }
            symlink("data/words", moved.join("app/words")).unwrap();
        }
        std::fs::create_dir_all(moved.join("app/empty/folder")).unwrap();
        set_mode(&moved.join("start"), [0o755, 0o700, 0o711, 0o777, 0o4755, 0o750][round]);
        set_mode(&moved.join("app/config.json"), [0o644, 0o600, 0o666, 0o640, 0o664, 0o444][round]);
        set_mode(&moved.join("app"), [0o755, 0o700, 0o2775, 0o1777, 0o750, 0o711][round]);
        let words = moved.join("app/data/words");
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_hours(10_000 * round as u64);
        std::fs::File::open(&words).unwrap().set_modified(time).unwrap();
        if round > 2 && rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&words, Some(4321), Some(1234)).unwrap();
        }
        let mask = ["022", "077", "000"][round % 3];
        let script = format!(
            "umask {mask}; exec {} --track mine --rehearse",
            env!("CARGO_BIN_EXE_build-pipeline")
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(project.path(["", "versions"][round % 2]));
        command.env_clear().env("HOME", project.path("home")).env("PATH", "/usr/bin:/bin");
        digests.insert(ran(command.output().unwrap()).expect(0).digest());
    }
    assert_eq!(digests.len(), 1, "{digests:?}");
    // Only what git records counts: content, links, and the executable bit.
    for change in ["content", "bit", "link", "name"] {
        let project = with(FILES);
        match change {
            "content" => project.write("files/start", "other\n"),
            "bit" => set_mode(&project.path("files/start"), 0o644),
            "name" => std::fs::rename(
                project.path("files/app/config.json"),
                project.path("files/app/config.yml"),
            )
            .unwrap(),
            _ => {
                std::fs::remove_file(project.path("files/app/words")).unwrap();
                symlink("config.json", project.path("files/app/words")).unwrap();
            }
        }
        let built = project.run("--track mine --rehearse").expect(0);
        assert!(digests.insert(built.digest()), "{change}");
    }
}

#[test]
fn rows_that_cannot_be_used_are_refused_with_their_places() {
    let row =
        |from: &str, to: &str, rest: &str| format!("{{ from = \"{from}\", to = \"{to}\"{rest} }},");
    let opt = |from: &str| row(from, "/opt/x", "");
    let start = |to: &str| row("files/start", to, "");
    let of = |rest: &str| row("files/start", "/opt/x", rest);
    for (rows, says) in [
        (opt("/etc/passwd"), "`/etc/passwd` is outside the project"),
        (opt("../secret"), "`../secret` contains `..`, which may point outside the project"),
        (opt("files/../../secret"), "contains `..`, which may point outside the project"),
        (opt("."), "has an empty part or a `.`"),
        (opt(".git/config"), "belongs to git"),
        (opt("files/strat"), "did you mean `files/start`?"),
        (opt("nothing"), "the project has no file or folder `nothing`"),
        (opt("files/start/x"), "the project has no file or folder `files/start/x`"),
        (opt("out"), "`out` is a symbolic link to `/etc`"),
        (opt("out/passwd"), "`out` is a symbolic link to `/etc`"),
        (
            opt("links/absolute"),
            "`links/absolute/link` is a link to `/etc/passwd`, which is an absolute path",
        ),
        (
            opt("links/upwards"),
            "`links/upwards/sub/link` is a link to `../../x`, which is outside the folder",
        ),
        (opt("special"), "`special/pipe` is a FIFO"),
        (opt("special/pipe"), "`special/pipe` is a FIFO"),
        (opt("sockets"), "`sockets/s` is a socket"),
        (opt("clone"), "`clone/.git` belongs to git"),
        (opt("bare"), "`bare` contains no file"),
        (opt("white"), "has a name that starts with `.wh.`"),
        (start("opt/x"), "`opt/x` is not an absolute path"),
        (start("/opt/../x"), "`/opt/../x` contains `..`"),
        (start("/opt//x"), "has an empty part or a `.`"),
        (start("/opt/x/"), "has an empty part or a `.`"),
        (start("/usr/local/bin"), "write the full path: `/usr/local/bin/start`"),
        (start("/"), "write the full path: `/start`"),
        (start("/bin/start"), "write `/usr/bin/start`"),
        (start("/proc/x"), "cannot be seen in a container, which has its own `/proc`"),
        (start("/etc/hosts"), "its own `/etc/hosts`"),
        (start("/tmp/x"), "is in `/tmp`, which is for files of running programs"),
        (start("/opt/.wh.x"), "has a name that starts with `.wh.`"),
        (of(", mode = \"4755\""), "`4755` sets the setuid bit"),
        (of(", mode = \"2755\""), "sets the setgid bit"),
        (of(", mode = \"1755\""), "sets the sticky bit"),
        (of(", mode = \"rwx\""), "`rwx` is not a file mode"),
        (of(", mode = 755"), "write it in quotes"),
        (of(", owner = \"root\""), "`root` is not an owner"),
        (of(", owner = \"1000:\""), "`1000:` is not an owner"),
        (of(", owner = \"4294967295\""), "is not an owner"),
        (of(", user = \"0\""), "`user` is not a key of `files`"),
        ("{ from = \"files/start\" },".to_owned(), "`to` is missing from `files`"),
        ("{ to = \"/opt/x\" },".to_owned(), "`from` is missing from `files`"),
        (opt("files/start") + &opt("files/start"), "is listed twice"),
        (
            opt("files/start") + &opt("root.txt"),
            "`/opt/x` would be both `files/start` and `root.txt`",
        ),
        (
            row("files/app", "/opt/app", "") + &row("root.txt", "/opt/app/config.json", ""),
            "would be both `files/app/config.json` and `root.txt`",
        ),
        (
            opt("files/start") + &row("root.txt", "/opt/x/y", ""),
            "is below `/opt/x`, which is not a folder",
        ),
        (
            row("root.txt", "/opt/x/y", "") + &opt("files/start"),
            "is below `/opt/x`, which is not a folder",
        ),
        (
            row("files/app", "/opt/app", "") + &row("files", "/opt", ", owner = \"7\""),
            "`/opt/app` would have two owners or modes",
        ),
    ] {
        let project = with(&rows);
        project.write("root.txt", "x");
        symlink("/etc", project.path("out")).unwrap();
        project.write("links/absolute/x", "x");
        symlink("/etc/passwd", project.path("links/absolute/link")).unwrap();
        project.write("links/upwards/sub/x", "x");
        symlink("../../x", project.path("links/upwards/sub/link")).unwrap();
        project.write("special/x", "x");
        let pipe = project.path("special/pipe");
        ran(Command::new("mkfifo").arg(pipe).output().unwrap()).expect(0);
        project.write("sockets/x", "x");
        let _socket = std::os::unix::net::UnixListener::bind(project.path("sockets/s")).unwrap();
        project.write("clone/.git/HEAD", "x");
        std::fs::create_dir_all(project.path("bare/empty")).unwrap();
        project.write("white/.wh.x", "x");
        // A FIFO cannot be read, so only the data files are compared.
        let before = project.read(TRACKS);
        project.run("plan mine").expect(2).says(says).says("versions/tracks.toml:").says("help: ");
        project.run("--track mine --rehearse").expect(2).says(says);
        assert_eq!(project.read(TRACKS), before);
        assert!(!project.path("dist").exists(), "{says}");
    }
}

#[test]
fn several_problems_are_reported_at_once() {
    let project = with(
        "{ from = \"nothing\", to = \"/opt/a\" },\n{ from = \"links\", to = \"/opt/b\" },\n\
         { from = \"files/start\", to = \"/usr/bin\" },",
    );
    project.write("links/x", "x");
    symlink("/a", project.path("links/one")).unwrap();
    symlink("/b", project.path("links/two")).unwrap();
    let more =
        format!("[more]\n{HEAD}track = \"mine\"\nfiles = [{{ from = \"gone\", to = \"/c\" }}]\n");
    project.write(TRACKS, &(project.read(TRACKS) + &more));
    let before = project.files();
    project
        .run("plan more")
        .expect(2)
        .says("no file or folder `nothing`")
        .says("`links/one` is a link")
        .says("`links/two` is a link")
        .says("`/usr/bin` is a folder of the image")
        .says("no file or folder `gone`")
        .says("versions/tracks.toml:7:")
        .says("versions/tracks.toml:9:");
    same(&project.files(), &before, "a refused plan");
    // Tracks without these files are not affected.
    project.run("plan official").expect(0);
}

#[test]
fn an_engine_builds_over_and_under_own_files() {
    let bench = Bench::new("ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN cat /opt/low > /copied\n");
    let project = &bench.project;
    let tracks = format!(
        "{}\n[low]\n{HEAD}base = \"tiny\"\nfiles = [{{ from = \"low\", to = \"/opt/low\" }}]\n\
         [tool]\n{HEAD}track = \"low\"\nfiles = [{{ from = \"tool\", to = \"/opt/tool\", mode = \"0700\" }}]\n\
         [[tool.stage]]\nname = \"tool\"\ndockerfile = \"dockerfiles/tiny.Dockerfile\"\n\
         [top]\n{HEAD}track = \"tool\"\nfiles = [{{ from = \"top\", to = \"/opt/dir/top\", owner = \"12:34\" }}]\n",
        project.read(TRACKS)
    );
    project.write(TRACKS, &tracks);
    for name in ["low", "tool", "top"] {
        project.write(name, &format!("{name}\n"));
    }
    let run = |line: &str| ran(bench.command_at(line, shared_registry().host()).output().unwrap());
    let podman = run("--track top --load --output oci:dist/top --engine podman").expect(0);
    run("status").expect(0).prints("  engine:localhost/build-pipeline/top:latest (podman)");
    run("verify top").expect(0).prints("as planned");
    run("verify top --rebuild --engine podman").expect(0).prints("the images are identical");
    let docker = run("--track top --output oci:dist/top --engine docker --fresh").expect(0);
    assert_eq!(podman.digest(), docker.digest());
    let script = "cat /copied /opt/tool /opt/dir/top; stat -c '%a %u:%g' /opt/tool /opt/dir/top /opt/dir /opt";
    let image = "localhost/build-pipeline/top:latest";
    let shown = bench.container("podman", image, &["/bin/sh", "-c", script]);
    assert_eq!(shown, "low\ntool\ntop\n700 0:0\n644 12:34\n755 0:0\n755 0:0\n");
    project.write("top", "changed\n");
    run("verify top").expect(8).prints("layer of step add-files-top");
    run("--track top --output oci:dist/top --engine none-of-them").expect(2);
    let again = bench.project.command(&[
        "--track",
        "top",
        "--mirror",
        &format!("registry.example.org={}", shared_registry().host()),
    ]);
    let mut again = again;
    // No engine is needed, because only the last layer is made.
    again.env("PATH", "/nowhere");
    ran(again.output().unwrap()).expect(0);
}

/// Returns track `tool` with a stage whose build context contains the project's own files.
fn in_context(files: &str, more: &str) -> String {
    format!(
        "\n[tool]\n{HEAD}base = \"tiny\"\n[[tool.stage]]\nname = \"tool\"\n\
         dockerfile = \"dockerfiles/tiny.Dockerfile\"\nfiles = {files}\n{more}"
    )
}

#[test]
fn a_stage_copies_own_files_from_its_context() {
    let bench = Bench::new(
        "ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nCOPY files /opt/files\nCOPY start /opt/\n\
         RUN cat /opt/files/app/link > /copied && ls -l /opt/start /opt/files/plain | cut -c1-10 >> /copied\n",
    );
    let project = &bench.project;
    let tracks = project.read(TRACKS) + &in_context("[\"files\", \"start\"]", "");
    project.write(TRACKS, &tracks);
    project.write("files/app/value", "one\n");
    project.write("files/plain", "p\n");
    project.write("start", "#!/bin/sh\n");
    // Only the owner's executable bit counts.
    for (file, mode) in [("start", 0o700), ("files/plain", 0o666)] {
        fs::set_permissions(project.path(file), fs::Permissions::from_mode(mode)).unwrap();
    }
    symlink("value", project.path("files/app/link")).unwrap();
    let run = |line: &str| ran(bench.command_at(line, shared_registry().host()).output().unwrap());
    let plan = run("plan tool").expect(0);
    plan.prints("context files/app/link -> value")
        .prints("context start from the project (sha256:")
        .prints("label io.github.build-pipeline.files-digest=sha256:");
    let podman = run("--track tool --load --output oci:dist/tool --engine podman").expect(0);
    run("verify tool").expect(0).prints("as planned");
    let docker = run("--track tool --output oci:dist/tool --engine docker --fresh").expect(0);
    assert_eq!(podman.digest(), docker.digest());
    let image = "localhost/build-pipeline/tool:latest";
    let shown = bench.container("podman", image, &["/bin/cat", "/copied"]);
    assert_eq!(shown, "one\n-rw-r--r--\n-rwxr-xr-x\n");
    // A change that does not count triggers no rebuild.
    fs::set_permissions(project.path("files/plain"), fs::Permissions::from_mode(0o644)).unwrap();
    project.write("unused", "x");
    run("explain tool").expect(0).prints("nothing changed");
    // A changed file builds its stage again.
    project.write("files/app/value", "two\n");
    run("explain tool").expect(0).prints("build-tool");
    run("verify tool").expect(8).prints("files-digest");
    let changed = run("--track tool --output oci:dist/tool --engine podman").expect(0);
    assert_ne!(changed.digest(), podman.digest());
    run("verify tool --rebuild --engine podman").expect(0).prints("the images are identical");
    // A track on top of it has the files too.
    project.write(TRACKS, &format!("{tracks}\n[top]\n{HEAD}track = \"tool\"\n"));
    run("plan top").expect(0).prints("context files/app/value from the project");
}

#[test]
fn own_files_that_cannot_be_in_a_context_are_refused_with_their_places() {
    let (project, _) = crate::built::tiny_project("ARG BASE\nFROM ${BASE}\n");
    let tracks = project.read(TRACKS);
    project.write("files/start", "x");
    project.write("packages/x", "x");
    symlink("/etc", project.path("files/etc")).unwrap();
    symlink("files", project.path("link")).unwrap();
    for (files, more, says) in [
        ("[\"files/strat\"]", "", "did you mean `files/start`?"),
        ("[\"../secret\"]", "", "contains `..`, which may point outside the project"),
        ("[\"/etc/passwd\"]", "", "is outside the project"),
        ("[\".\"]", "", "has an empty part or a `.`"),
        ("[\"files\"]", "", "`files/etc` is a link to `/etc`"),
        ("[\"link\"]", "", "`link` is a symbolic link to `files`"),
        ("[\"Dockerfile\"]", "", "`Dockerfile` has a special meaning for engines"),
        ("[\".dockerignore\"]", "", "cannot be in a build context"),
        ("[\"files/start\", \"files/start\"]", "", "listed twice"),
        ("\"files/start\"", "", "write `files = [\"files/start\"]`"),
        ("[{ from = \"files/start\", to = \"/x\" }]", "", "should be"),
        ("[\"vllm/x\"]", "sources = { \"vllm\" = \"vllm\" }\n", "would be in the context twice"),
        ("[\"a\"]", "sources = { \"a/b\" = \"vllm\" }\n", "would be in the context twice"),
        ("[\"python\"]", "python = \"vllm\"\n", "would be in the context twice"),
    ] {
        project.write(TRACKS, &format!("{tracks}{}", in_context(files, more)));
        let before = project.files();
        project.run("plan tool").expect(2).says(says).says("versions/tracks.toml:");
        same(&project.files(), &before, files);
    }
    // A folder may have that name if the stage has no packages.
    project.write(TRACKS, &format!("{tracks}{}", in_context("[\"packages\"]", "")));
    project.run("plan tool").expect(0).prints("context packages/x from the project");
}
