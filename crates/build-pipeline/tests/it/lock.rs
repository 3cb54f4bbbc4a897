//! `lock` looks up packages at Debian's real mirrors and on PyPI, and writes them with their
//! hashes. It refuses packages that are stale, were replaced, or are for CUDA.

use std::io::Write as _;
use std::process::Command;

use serde_json::Value;

use crate::dsl::{Project, ran, same};
use crate::full_disk::on_small_disk;
use crate::patch_pinned::Index;

const PYTHON: &str = "versions/python.toml";
const PYLOCK: &str = "versions/locks/pylock.demo.toml";
const REQUIREMENTS: &str = "versions/locks/demo.requirements.lock";

/// A project with the given Python requirements.
fn asks_for(requirements: &str, provided: &str) -> Project {
    let project = Project::new();
    project.write(PYTHON, &set(requirements, provided));
    project
}

fn set(requirements: &str, provided: &str) -> String {
    format!(
        "schema = 1\n[demo]\npython = \"3.13\"\nplatform = \"x86_64-manylinux_2_40\"\nrequirements = [{requirements}]\nprovided = [{provided}]\n"
    )
}

#[test]
fn torch_of_the_default_index_is_refused_with_what_brought_it() {
    let project = asks_for("\"compressed-tensors==0.11.0\"", "");
    let before = project.files();
    let ran = project.run("lock demo").expect(2);
    let ran = ran
        .says("lock `demo` would take `torch` ")
        .says("caused by: versions/python.toml -> compressed-tensors -> torch")
        .says("it also adds ")
        .says("nvidia-");
    assert!(ran.stdout.is_empty(), "{}", ran.stdout);
    same(&project.files(), &before, "a refused lock");
    // torch is also refused if it is requested by name, or in a version for CUDA.
    project.write(PYTHON, &set("\"torch==2.8.0\"", ""));
    project.run("lock demo").expect(2).says("caused by: versions/python.toml -> torch");

    // Packages that the image provides are left out, even if others need them.
    project.write(PYTHON, &set("\"compressed-tensors==0.11.0\"", "\"torch\", \"triton\""));
    let json = project.run("lock demo --format json").expect(0).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    crate::schemas::check(&project, "lock", std::slice::from_ref(&json));
    let change = &json["locks"][0];
    assert_eq!((&change["name"], &change["written"]), (&"demo".into(), &true.into()));
    let added = change["added"].as_array().unwrap();
    let has = |name: &str| added.iter().any(|one| one["name"] == name);
    assert!(has("compressed-tensors") && has("transformers"), "{added:?}");
    for text in [project.read(PYLOCK), project.read(REQUIREMENTS)] {
        assert!(text.contains("compressed-tensors"), "{text}");
        for none in ["torch\"", "torch==", "nvidia", "triton", "https:"] {
            assert!(!text.contains(none), "{none}: {text}");
        }
    }
    project.run("lock demo --check").expect(0);
}

/// The version suffix of a release. Versions without it are for CUDA.
const FOR_ROCM: &str = "+rocm7.14.0";
/// The index of a release's packages.
const AMD: &str = "https://amd.example/whl/";
/// A set of packages from a release.
const DEMO_OF_RELEASE: &str =
    "[demo]\npython = \"3.13\"\nplatform = \"x86_64-manylinux_2_40\"\nrelease = \"rocm\"\n";

/// Creates a wheel like those on AMD's index, with only its metadata.
const MAKE_WHEEL: &str = r#"
import hashlib, sys, zipfile
name, version, needs, folder = sys.argv[1:]
file = f"{name}-{version}-cp313-cp313-manylinux_2_28_x86_64.whl"
info = f"{name}-{version}.dist-info"
with zipfile.ZipFile(f"{folder}/{file}", "w") as wheel:
    wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: false\nTag: cp313-cp313-manylinux_2_28_x86_64\n")
    wheel.writestr(f"{info}/RECORD", "")
digest = hashlib.sha256(open(f"{folder}/{file}", "rb").read()).hexdigest()
print(f'<!DOCTYPE html><a href="../{file.replace("+", "%2B")}#sha256={digest}">{file}</a>')
"#;

/// Adds a wheel to an index.
fn publish(index: &Index, name: &str, version: &str, needs: &str) {
    let folder = index.folder.path().join("whl");
    std::fs::create_dir_all(folder.join(name)).unwrap();
    let output = std::process::Command::new("python3")
        .args(["-c", MAKE_WHEEL, name, version, needs, folder.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut page = std::fs::OpenOptions::new();
    let page = page.create(true).append(true).open(folder.join(name).join("index.html"));
    page.unwrap().write_all(&output.stdout).unwrap();
}

/// A project whose set `demo` is one package, of which a local index has several versions.
pub(crate) struct Release {
    pub(crate) project: Project,
    index: Index,
}

impl Release {
    pub(crate) fn new(versions: &[&str]) -> Self {
        let (project, index) = (Project::new(), Index::start());
        let publish = |version| publish(&index, "torch", &format!("{version}{FOR_ROCM}"), "");
        versions.iter().for_each(publish);
        project.write(PYTHON, &format!("schema = 1\n{DEMO_OF_RELEASE}"));
        Self { project, index }
    }

    /// Makes the project require a version.
    pub(crate) fn ask_for(&self, version: &str) {
        let packages = format!("packages = {{ torch = \"{version}{FOR_ROCM}\" }}");
        self.project.write(
            "versions/versions.toml",
            &format!("schema = 1\nsource-date-epoch = 1795132800\n[release.rocm]\nindex = \"{AMD}\"\n{packages}\n"),
        );
    }

    /// Returns the command that looks up the required version.
    pub(crate) fn lock(&self) -> String {
        format!("lock demo --mirror {AMD}=http://127.0.0.1:{}/whl/", self.index.port)
    }
}

#[test]
fn a_release_is_looked_up_on_its_own_index_and_all_else_on_the_default_one() {
    let index = Index::start();
    publish(&index, "torch", "2.11.0+rocm7.14.0", "Requires-Dist: filelock\nRequires-Dist: triton");
    publish(&index, "triton", "3.6.0+rocm7.14.0", "");
    let project = Project::new();
    let run = |line: &str| {
        let mirror = format!("--mirror {AMD}=http://127.0.0.1:{}/whl/", index.port);
        project.run(&format!("{mirror} {line}"))
    };
    let with = |version: &str| {
        project.write(
            "versions/versions.toml",
            &format!(
                "schema = 1\nsource-date-epoch = 1795132800\n[release.rocm]\nindex = \"{AMD}\"\npackages = {{ torch = \"{version}\" }}\n"
            ),
        );
    };
    with("2.11.0+rocm7.14.0");
    project.write(PYTHON, &format!("schema = 1\n{DEMO_OF_RELEASE}"));
    // A lock that does not exist yet is like an unresolved pin.
    run("lock --check").expect(0).says("lock `demo` does not exist yet");
    run("lock demo --check").expect(8).says("lock `demo` is stale");
    run("lock demo").expect(0);
    let text = project.read(PYLOCK);
    for line in [
        "wheels/torch-2.11.0+rocm7.14.0-cp313-cp313-manylinux_2_28_x86_64.whl",
        "wheels/triton-3.6.0+rocm7.14.0-cp313",
        "name = \"filelock\"",
        &format!("index = \"{AMD}\""),
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("nvidia"), "{text}");
    run("lock demo --check").expect(0);
    // The default index has a different torch of that version, which is not used instead.
    with("2.8.0");
    run("lock demo --check").expect(8).says("lock `demo` is stale");
    run("lock demo").expect(2).says("uv found no set of packages that meets the requirements");
    assert_eq!(project.read(PYLOCK), text);
}

#[test]
fn a_lock_is_known_by_what_it_was_made_from_and_a_replaced_file_is_refused() {
    let project = asks_for("\"tqdm==4.67.1\"", "");
    project
        .run("lock demo --check")
        .expect(8)
        .says("`versions/locks/pylock.demo.toml` does not exist");
    project.run("lock demo --dry-run").expect(0).prints("+ tqdm 4.67.1");
    assert!(!project.path(PYLOCK).exists());
    project.run("lock demo").expect(0).prints("+ tqdm 4.67.1").prints(REQUIREMENTS);
    let written = project.files();
    project.run("lock demo").expect(0).prints("demo: 1 package, unchanged");
    same(&project.files(), &written, "a second look-up");
    project.run("lock demo --locked").expect(0);

    let whole = project.read(PYTHON);
    project.write(PYTHON, &set("\"tqdm==4.67.1\", \"six==1.17.0\"", ""));
    project
        .run("lock demo --check")
        .expect(8)
        .says("it was made from a different `versions/python.toml`")
        .says("`build-pipeline lock demo` updates it");
    project.run("lock demo").expect(0).prints("1 added, 0 removed").prints("+ six 1.17.0");
    project.write(PYTHON, &whole);
    project.run("lock demo").expect(0).prints("0 added, 1 removed").prints("- six 1.17.0");

    for (file, from, to) in
        [(REQUIREMENTS, "tqdm==4.67.1", "tqdm==4.67.0"), (PYLOCK, "4.67.1", "4.67.0")]
    {
        let text = project.read(file);
        project.edit(file, from, to);
        project.run("lock demo --check").expect(8);
        project.write(file, &text);
    }
    // The index has a different file under a locked name.
    let hash = project.read(PYLOCK);
    let hash = hash.split("sha256 = \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    project.edit(PYLOCK, &hash, &"0".repeat(64));
    let before = project.files();
    project
        .run("lock demo")
        .expect(6)
        .says(&format!("its hash was `{}`, and is now `{hash}`", "0".repeat(64)))
        .says("--accept-moved");
    same(&project.files(), &before, "a refused lock");
    project.run("lock demo --accept-moved").expect(0);
    same(&project.files(), &written, "the lock is unchanged");
    testkit::gate_passed(12, 3);
}

#[test]
fn the_lock_of_this_project_is_what_is_asked_for() {
    let project = Project::new();
    // No requests are made: only the pinned source counts.
    project.run("lock vllm-legacy --check").expect(0);
    project.edit(
        "versions/versions.toml",
        "57608f44cf61f5d80fb182c98e06e524cb2925bb528258a7b247c8e43a52d13e",
        &"1".repeat(64),
    );
    project.run("lock --check").expect(8).says("lock `vllm-legacy` is stale");
}

#[test]
fn a_plan_uses_no_stale_lock() {
    let project = Project::new();
    project.edit(
        "versions/tracks.toml",
        "packages = [\"vulkan-build\", \"vulkan-runtime\"]",
        "packages = [\"vulkan-build\", \"vulkan-runtime\"]\npython = \"vllm-legacy\"",
    );
    let ran = project.run("plan --track vulkan --format json").expect(0);
    let plan: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(plan["inputs"]["versions/locks/pylock.vllm-legacy.toml"]["kind"], "lock");
    let steps = plan["steps"].as_array().unwrap();
    let step = |id: &str| steps.iter().find(|step| step["id"] == id).unwrap();
    assert_eq!(step("fetch-wheels-vllm-legacy")["action"]["do"], "fetch-wheels");
    let build = step("build-llama-cpp");
    assert_eq!(build["action"]["context"]["python"], "fetch-wheels-vllm-legacy");
    // An image that must have code for its GPU gets only wheels that were checked.
    let before = "[vulkan.variants.debian]\n";
    project.edit("versions/tracks.toml", before, &format!("{before}gpu-code = true\n"));
    let ran = project.run("plan --track vulkan --format json").expect(0);
    let plan: Value = serde_json::from_str(&ran.stdout).unwrap();
    let steps = plan["steps"].as_array().unwrap();
    let step = |id: &str| steps.iter().find(|step| step["id"] == id).unwrap();
    let audit = &step("audit-wheels-vllm-legacy")["action"];
    assert_eq!(audit["wheels"], "fetch-wheels-vllm-legacy");
    assert_eq!(audit["gpu"], "gfx1151");
    let build = step("build-llama-cpp");
    assert_eq!(build["action"]["context"]["python"], "audit-wheels-vllm-legacy");
    project.edit(PYTHON, "python = \"3.13\"", "python = \"3.12\"");
    project.run("plan --track vulkan").expect(8).says("lock `vllm-legacy` is stale");
    project.run("--track vulkan").expect(8).says("lock `vllm-legacy` is stale");
    // A track that does not use it can still be built.
    project.run("plan --track locked-spoof").expect(0);
}

#[test]
fn what_is_not_asked_for_well_is_said() {
    let project = Project::new();
    project.run("lock vulkan --check").expect(0).prints("1 lock matches");
    let debian = project.read("versions/locks/debian.toml");
    std::fs::remove_file(project.path("versions/locks/debian.toml")).unwrap();
    for line in ["lock vulkan --check", "lock --check", "lock vulkan"] {
        project.run(line).expect(2).says("uses lock `debian`");
    }
    project.write("versions/locks/debian.toml", &debian);
    project.run("lock debain").expect(2).says("did you mean `debian`?");
    project.run("lock official").expect(2).says("track `official` uses no lock");
    project.write(PYTHON, &set("\"git+https://h.example/x\"", ""));
    project.run("lock demo").expect(2).says("is not a requirement");
    project.write(PYTHON, &set("\"no-such-package-of-build-pipeline==1\"", ""));
    project
        .run("lock demo")
        .expect(2)
        .says("uv found no set of packages that meets the requirements");
    project.write(PYTHON, &set("\"six\"", "").replace("[demo]", "[debian]"));
    project
        .run("lock")
        .expect(2)
        .says("`debian` is the name of both a Debian lock and a Python lock");
}

#[test]
fn debian_packages_are_looked_up_anew() {
    let project = Project::new();
    let lock = "versions/locks/tiny.toml";
    let wanted = |names: &str| {
        format!(
            "schema = 1\nsuite = \"trixie\"\narchitecture = \"amd64\"\nchecked = 2026-11-21\n\n[set.one]\nwanted = [{names}]\npackages = []\n"
        )
    };
    project.write(lock, &wanted("\"hello\""));
    project
        .run("lock tiny --check")
        .expect(8)
        .says("wants `hello`, which is not among its packages");
    let before = project.files();
    project.run("lock tiny --snapshot --dry-run").expect(0).prints("would have").prints("+ hello ");
    same(&project.files(), &before, "a dry run");
    project
        .run("lock tiny --snapshot")
        .expect(0)
        .prints("+ libc6 ")
        .prints("wrote versions/locks/tiny.toml");
    project.run("lock tiny --check").expect(0);
    let text = project.read(lock);
    assert!(text.contains("name = \"hello\"") && text.contains("sha256 = "), "{text}");

    // A new name is looked up, and a name that does not exist is reported.
    project.edit(lock, "wanted = [\"hello\"]", "wanted = [\"hello\", \"no-such-package\"]");
    project
        .run("lock tiny --snapshot")
        .expect(2)
        .says("no-such-package")
        .says("nothing was written");
    // A file was replaced without a change of its name.
    let hash = text.split("hello_").nth(1).unwrap().split("sha256 = \"").nth(1).unwrap();
    let replaced = text.replace(&hash[..64], &"0".repeat(64));
    let date = text.split_once("date = \"").unwrap().1;
    let newer = text.replace(&date[..20], "2099-01-01T00:00:00Z");
    // New requirements do not hide either of these.
    let more = |text: &str| text.replace("wanted = [\"hello\"]", "wanted = [\"hello\", \"sl\"]");
    let set = |text: &str| format!("{text}\n[set.two]\non = [\"one\"]\nwanted = [\"sl\"]\n");
    for (wrong, said) in [(&replaced, "--accept-moved"), (&newer, "the lock has a newer one")] {
        for edited in [wrong.clone(), more(wrong), set(wrong)] {
            project.write(lock, &edited);
            project.run("lock tiny --snapshot").expect(6).says(said);
            assert_eq!(project.read(lock), edited);
        }
    }
    project.write(lock, &set(&text));
    let ran = project.run("lock tiny --snapshot --dry-run").expect(0);
    ran.prints("3 added, 0 removed").prints("+ sl ");
}

/// A python3 whose pip writes a uv of one MiB. Like the real one, it reports success without
/// writing anything if the folder exists.
const PYTHON3: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do
    [ "$1" = --target ] && target=$2
    shift
done
[ -n "$target" ] || exit 1
[ -e "$target" ] && exit 0
/bin/mkdir -p "$target/bin"
if { /bin/cat "${0%/*}/fake-uv"; /bin/head -c 1000000 /dev/zero; } 2>/dev/null > "$target/bin/uv"; then
    exec /bin/chmod 755 "$target/bin/uv"
fi
echo 'ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device' >&2
exit 1
"#;
/// A uv that has all features and answers with `$answer`.
const UV: &str = r#"#!/bin/sh
case "$*" in *--help*) echo "--excludes pylock.toml" ;; *) echo "$answer" >&2; exit 1 ;; esac
exit 0
"#;

/// A project with a fake python3, on a machine without uv.
struct WithoutUv {
    project: Project,
    index: Index,
}

impl WithoutUv {
    fn new(python3: &str) -> Self {
        let (project, index) = (asks_for("\"six==1.17.0\"", ""), Index::start());
        let page = index.folder.path().join("simple/uv/index.html");
        std::fs::create_dir_all(page.parent().unwrap()).unwrap();
        std::fs::write(page, r#"{"meta":{"api-version":"1.0"},"files":[]}"#).unwrap();
        let new = Self { project, index };
        new.program("python3", python3);
        new.project.write("bin/fake-uv", &UV.replace("$answer", "No solution found"));
        new
    }

    fn program(&self, name: &str, text: &str) {
        self.project.write(&format!("bin/{name}"), text);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.project.path(&format!("bin/{name}")), mode).unwrap();
    }

    fn lock(&self) -> Command {
        let index = format!("http://127.0.0.1:{}/simple", self.index.port);
        let whole = self.project.command(&["lock", "demo", "--index", &index]);
        let mut command = Command::new("env");
        command.arg(format!("PATH={}", self.project.path("bin").display()));
        command.arg(whole.get_program()).args(whole.get_args());
        command.envs(whole.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(whole.get_current_dir().unwrap());
        command
    }
}

#[test]
fn a_uv_that_did_not_fit_on_the_disk_is_installed_again() {
    let machine = WithoutUv::new(PYTHON3);
    let cache = machine.project.path("home/.cache");
    let after = machine.project.path("after");
    on_small_disk(&machine.lock(), &cache, &after, 400)
        .expect(3)
        .says("cannot write into")
        .says(".cache/build-pipeline/tools`: the disk is full")
        .says("`XDG_CACHE_HOME`");
    // With enough space, the same files are no obstacle. The fake uv finds no packages.
    std::fs::remove_dir_all(&cache).unwrap();
    std::fs::rename(&after, &cache).unwrap();
    ran(machine.lock().output().unwrap()).expect(2).says("uv found no set of packages");

    // An incomplete uv that an earlier version of this tool left is replaced.
    let uv = cache.join("build-pipeline/tools").read_dir().unwrap().next().unwrap().unwrap();
    let uv = uv.path().join("bin/uv");
    std::fs::write(&uv, "#!/bin/sh\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&uv, mode).unwrap();
    ran(machine.lock().output().unwrap())
        .expect(2)
        .says("installing uv")
        .says("uv found no set of packages");
    let again = ran(machine.lock().output().unwrap()).expect(2);
    assert!(!again.stderr.contains("installing uv"), "{}", again.stderr);
}

#[test]
fn a_machine_without_pip_is_told_how_to_get_it() {
    let missing = "#!/bin/sh\necho '/usr/bin/python3: No module named pip' >&2\nexit 1\n";
    ran(WithoutUv::new(missing).lock().output().unwrap())
        .expect(3)
        .says("No module named pip")
        .says("hint: install pip: `apt install python3-pip` (Debian, Ubuntu)");
}

#[test]
fn a_cache_that_uv_cannot_write_is_named() {
    let machine = WithoutUv::new(PYTHON3);
    for (answer, why) in [
        (
            "Could not acquire lock: Read-only file system (os error 30)",
            "the file system is read-only",
        ),
        ("No space left on device (os error 28)", "the disk is full"),
    ] {
        machine.program("uv", &UV.replace("$answer", answer));
        ran(machine.lock().output().unwrap())
            .expect(3)
            .says(&format!(".cache/build-pipeline/uv`: {why}"))
            .says("`XDG_CACHE_HOME`");
    }
}
