//! Tests the files that `run --print` writes: their bytes, and whether the programs that read them
//! accept them.

use std::path::Path;
use std::process::{Command, Output};

use host::run::{Folder, Form, Network, RunError, VariableFile, Variables, Wish, container};
use testkit::newer_package;

use crate::machine;
use crate::run::{engines, rows, wish};

const FORMS: [(&str, Form); 4] = [
    ("shell", Form::Shell),
    ("quadlet", Form::Quadlet),
    ("compose", Form::Compose),
    ("distrobox", Form::Distrobox),
];

/// Calls `check` with the name and text of each file of a form, for every engine and track, and for
/// some requests with special characters.
fn each(form: Form, mut check: impl FnMut(&str, &str)) {
    let (rows, machine) = (rows(), machine::read("strix-halo", ""));
    for (engine_name, engine) in engines() {
        for track in rows.keys() {
            let plain = wish(track.as_str(), &rows, &machine, &engine);
            for (kind, change) in WISHES {
                let mut wish = plain.clone();
                change(&mut wish);
                let container = container(&wish).unwrap();
                match container.print(form) {
                    Ok(text) => check(&format!("{engine_name}-{track}-{kind}"), &text),
                    Err(error) => assert!(matches!(error, RunError::Quadlet { .. }), "{error}"),
                }
            }
        }
    }
}

/// A word with characters that are special in the file formats.
const HARD: &str = "it's \"$HOME\" 50% \\ `a`; #b";

type Change = fn(&mut Wish<'_>);

/// Adds variables and volumes of the caller.
fn with_more(wish: &mut Wish<'_>) {
    wish.variables = Variables {
        values: [("HOME", "/elsewhere"), ("MODE", "fast")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        passed: ["HF_TOKEN".to_owned()].into(),
        files: vec![VariableFile {
            path: "/srv/my variables.env".to_owned(),
            names: ["USER".to_owned()].into(),
        }],
    };
    let volume = |host: &str, container: &str, is_read_only| Folder {
        host: host.to_owned(),
        container: container.to_owned(),
        is_made: false,
        is_read_only,
    };
    wish.volumes = vec![volume("/srv/data", "/data", true), volume("/srv/my out", "/out", false)];
    wish.is_detached = true;
}

const WISHES: [(&str, Change); 5] = [
    ("plain", |_| {}),
    ("hard", |wish| {
        wish.command = ["sh", "-c", HARD].map(str::to_owned).to_vec();
        wish.environment.insert("HARD".to_owned(), HARD.to_owned());
        wish.models = Some("/srv/my models".to_owned());
    }),
    ("network", |wish| {
        wish.network = Network::Host;
        wish.entrypoint = Some("bash".to_owned());
    }),
    ("no-gpu", |wish| wish.has_gpu = false),
    ("more", with_more),
];

/// Runs a program, and fails the test if the program fails.
#[track_caller]
fn good(command: &mut Command, what: &str, text: &str) -> Output {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {said}\n{text}");
    output
}

#[test]
fn files_are_the_same_bytes_for_the_same_wish() {
    let (rows, machine) = (rows(), machine::read("strix-halo", ""));
    for (engine_name, engine) in engines() {
        for track in ["official", "vulkan", "trainer"] {
            let container = container(&wish(track, &rows, &machine, &engine)).unwrap();
            let texts = FORMS.map(|(name, form)| match container.print(form) {
                Ok(text) => format!("━━ {name}\n{text}"),
                Err(error) => format!("━━ {name}\n{error}\n"),
            });
            insta::assert_snapshot!(format!("{engine_name}-{}", track), texts.concat());
        }
    }
    let [(_, engine), ..] = engines();
    for (name, change) in [WISHES[1], WISHES[4]] {
        let mut wish = wish("vulkan", &rows, &machine, &engine);
        change(&mut wish);
        let container = container(&wish).unwrap();
        let texts =
            FORMS.map(|(name, form)| format!("━━ {name}\n{}", container.print(form).unwrap()));
        insta::assert_snapshot!(name, texts.concat());
    }
}

#[test]
fn scripts_pass_the_shell_and_shellcheck() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    each(Form::Shell, |name, text| {
        let path = folder.path().join(format!("{name}.sh"));
        std::fs::write(&path, text).unwrap();
        good(Command::new("sh").arg("-n").arg(&path), name, text);
        files.push(path);
    });
    assert!(files.len() > 60);
    // `$HOME` in single quotes is intended.
    let mut shellcheck = Command::new("shellcheck");
    let output = shellcheck.args(["--exclude", "SC2016"]).args(&files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let smoke = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../versions/smoke");
    for entry in std::fs::read_dir(smoke).unwrap().flatten() {
        let path = entry.path();
        let mut check = match path.extension().unwrap().to_str().unwrap() {
            "py" => {
                let mut python = Command::new("python3");
                python.args(["-c", "import ast,sys; ast.parse(open(sys.argv[1]).read())"]);
                python
            }
            shell => {
                let mut check = Command::new("shellcheck");
                check.args(["--shell", shell]);
                check
            }
        };
        good(check.arg(&path), &path.display().to_string(), "");
    }
}

/// The script calls the engine with the intended words: a fake `podman` prints them.
#[test]
fn scripts_hand_every_word_over() {
    let folder = tempfile::tempdir().unwrap();
    let engine = folder.path().join("podman");
    std::fs::write(&engine, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").unwrap();
    good(Command::new("chmod").arg("+x").arg(&engine), "chmod", "");
    let (rows, machine) = (rows(), machine::read("strix-halo", ""));
    let [(_, engine), ..] = engines();
    let mut hard = wish("vulkan", &rows, &machine, &engine);
    hard.has_gpu = false;
    WISHES[1].1(&mut hard);
    let text = container(&hard).unwrap().print(Form::Shell).unwrap();
    let run = |arguments: &[&str]| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &text, "run.sh"]).args(arguments).env_clear();
        shell.env("HOME", folder.path()).env("PATH", format!("{}:/bin", folder.path().display()));
        String::from_utf8(good(&mut shell, "run.sh", &text).stdout).unwrap()
    };
    let words = run(&[]);
    let words: Vec<&str> = words.lines().collect();
    assert_eq!(words[words.len() - 3..], ["sh", "-c", HARD]);
    assert!(words.contains(&format!("HARD={HARD}").as_str()));
    assert!(words.contains(&"/srv/my models:/models:z"));
    assert!(!words.contains(&"--tty"));
    assert!(folder.path().join(".cache/build-pipeline/home/vulkan").is_dir());
    assert!(run(&["echo", "a b"]).ends_with("\necho\na b\n"));
}

#[test]
fn podmans_generator_takes_the_quadlets() {
    let quadlet = newer_package("podman").join("usr/libexec/podman/quadlet");
    let mut count = 0;
    each(Form::Quadlet, |name, text| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("it.container"), text).unwrap();
        for user in [&["--user"][..], &[]] {
            let mut generator = Command::new(&quadlet);
            generator.arg("--dryrun").args(user).env("QUADLET_UNIT_DIRS", folder.path());
            let output = good(&mut generator, name, text);
            let unit = String::from_utf8(output.stdout).unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            // The generator only warns about unknown keys.
            assert!(
                !said.contains("unsupported") && !said.contains("converting"),
                "{said}\n{text}"
            );
            assert!(
                unit.contains("ExecStart=") && unit.contains("--security-opt=no-new-privileges")
            );
            assert!(!unit.contains("--privileged") && !unit.contains("--ipc"), "{unit}");
            assert_eq!(unit.contains("--device /dev/kfd"), text.contains("AddDevice=/dev/kfd"));
            assert_eq!(unit.contains("--device /dev/dri"), text.contains("AddDevice=/dev/dri"));
            let groups = unit.matches("--group-add").count();
            assert_eq!(groups, text.matches("GroupAdd=").count(), "{unit}");
        }
        count += 1;
    });
    assert!(count > 40);
}

/// A generator refuses a file with a key that it does not know.
#[test]
fn a_quadlet_has_only_keys_that_the_podman_knows() {
    let (rows, machine) = (rows(), machine::read("strix-halo", ""));
    let keys = ["WorkingDir=", "ShmSize=", "Entrypoint=", "GroupAdd="];
    let options = ["--workdir=", "--shm-size=", "--entrypoint=", "--group-add="];
    for (version, known, is_too_old) in [
        (Some("4.3.1+ds1-8"), [false, false, false, false], true),
        (Some("3.4.4"), [false, false, false, false], true),
        (Some("4.4.0"), [false, false, false, false], false),
        (Some("4.6.1"), [true, false, false, false], false),
        (Some("4.9.3"), [true, true, false, false], false),
        (Some("5.0.3"), [true, true, true, false], false),
        (Some("5.1.0-rc1"), [true, true, true, true], false),
        (Some("5.10.0"), [true, true, true, true], false),
        (Some("unknown"), [true, true, true, true], false),
        (None, [true, true, true, true], false),
    ] {
        for (name, mut engine) in engines().into_iter().filter(|(name, _)| *name != "docker") {
            engine.version = version.map(str::to_owned);
            let mut wish = wish("trainer", &rows, &machine, &engine);
            wish.entrypoint = Some("bash".to_owned());
            let container = container(&wish).unwrap();
            let text = container.print(Form::Quadlet).unwrap();
            for ((key, option), is_known) in keys.iter().zip(options).zip(known) {
                let (as_key, as_option) = (format!("\n{key}"), format!("\nPodmanArgs={option}"));
                assert_eq!(text.contains(&as_key), is_known, "{version:?} {key}\n{text}");
                assert_eq!(text.contains(&as_option), !is_known, "{version:?} {key}\n{text}");
            }
            assert_eq!(container.too_old_for(Form::Quadlet).is_some(), is_too_old, "{name}");
            assert_eq!(text.contains("has no quadlets"), is_too_old, "{text}");
            assert_eq!(container.too_old_for(Form::Shell), None);
        }
    }
}

#[test]
fn dockers_parser_takes_the_compose_files() {
    let compose =
        newer_package("docker-compose").join("usr/libexec/docker/cli-plugins/docker-compose");
    each(Form::Compose, |name, text| {
        let folder = tempfile::tempdir().unwrap();
        let mut parser = Command::new(&compose);
        parser.args(["--file", "compose.yaml", "config", "--format", "json"]);
        parser.current_dir(folder.path()).env_clear().env("HOME", "/home/kim");
        parser.env("HF_TOKEN", "hf_abc");
        let text = &text.replace("/srv/my variables.env", "my variables.env");
        std::fs::write(folder.path().join("compose.yaml"), text).unwrap();
        std::fs::write(folder.path().join("my variables.env"), "USER=kim\n").unwrap();
        let output = good(&mut parser, name, text);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, "", "{name}: {text}");
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let services = document["services"].as_object().unwrap();
        assert_eq!(services.len(), 1);
        let service = services.values().next().unwrap();
        assert_eq!(service["security_opt"], serde_json::json!(["no-new-privileges:true"]));
        assert!(service.get("privileged").is_none() && service.get("ipc").is_none());
        let home = &service["volumes"][0]["source"];
        assert!(home.as_str().unwrap().starts_with("/home/kim/.cache/build-pipeline/home/"));
        if name.ends_with("-hard") {
            // Compose prints the document so that it can be read again, with `$` doubled.
            let hard = HARD.replace('$', "$$");
            assert_eq!(service["command"][2], hard);
            assert_eq!(service["environment"]["HARD"], hard);
        }
        if name.ends_with("-more") {
            let environment = &service["environment"];
            assert_eq!(
                (&environment["HF_TOKEN"], &environment["USER"], &environment["HOME"]),
                (&"hf_abc".into(), &"kim".into(), &"/elsewhere".into())
            );
            assert!(
                service["volumes"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|one| { one["target"] == "/data" && one["read_only"] == true })
            );
        }
        let user = service.get("user").and_then(|user| user.as_str());
        assert_eq!(user, (!name.contains("crun")).then_some("1000:1000"));
    });
}

#[test]
fn distrobox_takes_the_manifests() {
    let assemble = newer_package("distrobox").join("usr/bin/distrobox-assemble");
    // distrobox needs an engine on the path, but does not call it in a dry run.
    let engines = tempfile::tempdir().unwrap();
    for name in ["podman", "docker"] {
        let path = engines.path().join(name);
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        good(Command::new("chmod").arg("+x").arg(&path), "chmod", "");
    }
    each(Form::Distrobox, |name, text| {
        // Each call takes a second.
        if name.ends_with("-network") || name.contains("-spoof-") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let manifest = folder.path().join("distrobox.ini");
        std::fs::write(&manifest, text).unwrap();
        let mut dry = Command::new(&assemble);
        let path = format!("{}:/usr/bin:/bin", engines.path().display());
        dry.args(["create", "--dry-run", "--file"]).arg(&manifest).env("PATH", path);
        dry.env("HOME", folder.path()).env("USER", "kim").env("DBX_CONTAINER_MANAGER", "podman");
        // As root, distrobox asks for confirmation.
        dry.env("DBX_SUDO_PROGRAM", "true");
        let output = good(&mut dry, name, text);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("--device /dev/kfd") == text.contains("/dev/kfd"), "{said}\n{text}");
        assert!(said.contains("--device /dev/dri") == text.contains("/dev/dri"), "{said}\n{text}");
        assert!(said.contains("--group-add") == text.contains("--group-add"), "{said}\n{text}");
    });
}
