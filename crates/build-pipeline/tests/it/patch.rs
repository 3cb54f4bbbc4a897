//! `patch check|diff|apply|revert`: every verdict through the command line, and the files that are
//! written.

use serde_json::Value;

use crate::dsl::{Project, Ran, ran, same};

/// The header of a patch file of component `demo`.
pub(crate) fn head(id: &str) -> String {
    format!(
        "schema = 1\nid = \"{id}\"\ncomponent = \"demo\"\n\n[provenance]\ndescription = \"A demonstration.\"\n\
         author = \"us\"\norigin = \"other\"\nforwarded = \"no\"\nlast_update = 2026-11-20\n\n"
    )
}

/// An edit that appends `gfx1151` to the list in a file.
pub(crate) fn list_edit(file: &str) -> String {
    format!(
        "[[edit]]\nfiles = [\"{file}\"]\nanchor = '''^list = \"(?P<list>[a-z0-9;]+)\"'''\nexpect = 1\n\
         op = \"list-append\"\nitem = \"{{gpu}}\"\nsep = \";\"\n"
    )
}

const ANY: &str = "[applies]\nversions = \"*\"\n\n";

/// A project with one patch of component `demo`, and a tree with one file.
fn demo(patch: &str, text: &str) -> Project {
    let project = Project::new();
    project.write("patches/demo/demo-list.toml", &format!("{}{patch}", head("demo-list")));
    project.write("tree/a.txt", text);
    project
}

/// Returns the JSON output of a command.
pub(crate) fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap()
}

/// Returns the verdict of the first patch.
fn verdict(document: &Value) -> Value {
    document["trees"][0]["report"]["patches"][0]["verdict"]["kind"].clone()
}

#[test]
fn every_verdict_is_told_and_failures_write_nothing() {
    let list = list_edit("a.txt");
    let plain = format!("{ANY}{list}");
    let insert = "[[edit]]\nfiles = [\"b.txt\"]\nif_absent = \"skip\"\nanchor = '''^list'''\nexpect = 1\n\
        op = \"insert-before\"\ntext = \"x\"\nalready = '''^x$'''\n";
    let bounded =
        "[applies]\nversions = \">=1.0\"\nbelow = { then = \"skip\", because = \"it is old\" }\n";
    let refused = bounded.replace("skip", "refuse");
    let other_gpu = "[applies]\nversions = \"*\"\ngpus = \"gfx12[0-9a-f]{2}\"\n";
    let satisfied = format!("{plain}satisfied_by = '''^all = yes$'''\n");
    let partial = format!("{plain}{}", list_edit("c.txt"));
    let absent = "[[assert]]\nfiles = [\"a.txt\"]\nabsent = '''gfx1100'''\n";
    let probe = "[[probe]]\nname = \"compiles\"\nkind = \"python-compile\"\nfiles = [\"a.txt\"]\n";
    let cases: [(&str, String, &str, &str, i32); 14] = [
        ("applied", plain.clone(), "list = \"gfx1100\"\n", "applied(1)", 0),
        ("already-present", plain.clone(), "list = \"gfx1151\"\n", "the text is already there", 0),
        ("satisfied-otherwise", satisfied, "all = yes\n", "in another way", 0),
        ("not-applicable", format!("{bounded}{list}"), "unused", "it is old", 0),
        ("not-applicable", format!("{refused}{list}"), "unused", "it is old", 7),
        ("not-applicable", format!("{other_gpu}{list}"), "unused", "not for `gfx1151`", 0),
        ("not-applicable", format!("{ANY}{insert}"), "unused", "the tree has no b.txt", 0),
        ("partial-upstream", partial, "list = \"gfx1151\"\n", "at 1 of 2 places", 7),
        (
            "anchor-missing",
            plain.clone(),
            "# a\nlists = \"gfx1100\"\n",
            "line 2 is the most similar",
            7,
        ),
        ("anchor-missing", plain.replace("a.txt", "no.txt"), "", "none of its files exists", 7),
        (
            "ambiguous",
            plain.clone(),
            "list = \"a\"\n\nlist = \"b\"\n",
            "(lines 1, 3), expected 1",
            7,
        ),
        (
            "post-condition-failed",
            format!("{plain}{absent}"),
            "list = \"gfx1100\"\n",
            "should not match",
            7,
        ),
        ("probe-failed", format!("{plain}{probe}"), "list = \"gfx1100\"\n(\n", "SyntaxError", 7),
        ("unreadable", plain.replace("a.txt", "folder"), "", "it is a directory", 7),
    ];
    for (kind, patch, text, says, code) in cases {
        let project = demo(&patch, text);
        project.write("tree/folder/x", "");
        project.write("tree/c.txt", "list = \"gfx1100\"\n");
        let before = project.files();
        let line = "demo --root tree --version 0.5";
        project.run(&format!("patch check {line}")).expect(code).prints(says).prints(kind);
        let checked = project.run(&format!("patch check {line} --format json")).expect(code);
        let checked = json(&checked);
        assert_eq!(verdict(&checked), kind);
        assert_eq!((&checked["schema"], &checked["ok"]), (&1.into(), &(code == 0).into()));
        crate::schemas::check(&project, "patch", &[checked]);
        let diff = project.run(&format!("patch diff {line}")).expect(code);
        assert_eq!(diff.stdout.is_empty(), kind != "applied", "{}", diff.stdout);
        same(&project.files(), &before, &format!("{kind}: nothing is written"));
        let applied = project.run(&format!("patch apply {line}")).expect(code);
        match kind {
            "applied" => assert_eq!(project.read("tree/a.txt"), "list = \"gfx1100;gfx1151\"\n"),
            _ => same(&project.files(), &before, kind),
        }
        if code == 7 {
            applied.says("1 of 1 patch did not apply; nothing was written to `").says("hint: ");
        }
    }
}

#[test]
fn patches_that_exclude_each_other_conflict() {
    let project = demo(&format!("{ANY}{}", list_edit("a.txt")), "list = \"gfx1100\"\n");
    let second = format!(
        "{}{ANY}{}[relations]\nconflicts = [\"demo-list\"]\n",
        head("demo-other"),
        list_edit("a.txt")
    );
    project.write("patches/demo/demo-other.toml", &second);
    let ran = project.run("patch check demo --root tree").expect(7);
    ran.prints("conflict").prints("the two patches conflict").says("2 of 2 patches");
    project.run("patch check demo --root tree --only demo-other").expect(0).prints("applied(1)");
}

#[test]
fn a_file_that_somebody_changed_is_told_apart() {
    let project = demo(&format!("{ANY}{}", list_edit("a.txt")), "list = \"gfx1100\"\n");
    project.run("patch apply demo --root tree").expect(0);
    project.run("patch check demo --root tree").expect(0).prints("it was applied earlier");
    project.write("tree/a.txt", "list = \"gfx1100;gfx1151\"\n# mine\n");
    let before = project.files();
    let ran = project.run("patch apply demo --root tree").expect(7).prints("base-dirty");
    ran.prints("someone changed `").says("patch revert");
    project.run("patch revert demo --root tree").expect(7).says("`a.txt` was changed after");
    same(&project.files(), &before, "files");
}

#[test]
fn what_is_applied_is_reverted_byte_by_byte() {
    let project = demo(&format!("{ANY}{}", list_edit("a.txt")), "list = \"gfx1100\"\n");
    let before = project.files();
    let applied = project.run("patch apply demo --root tree --format json").expect(0);
    assert_eq!(json(&applied)["trees"][0]["written"], true);
    let receipt: Value =
        serde_json::from_str(&project.read("tree/.build-pipeline/patches.json")).unwrap();
    assert_eq!(receipt["receipts"][0]["files"][0]["path"], "a.txt");
    project.run("patch apply demo --root tree").expect(0).prints("nothing to write");
    project.run("patch revert demo --root tree").expect(0).prints("restored  a.txt");
    same(&project.files(), &before, "the receipts are removed too");
    project.run("patch revert demo --root tree").expect(2).says("no patch of `demo` was applied");

    project.run("patch apply demo --root tree").expect(0);
    project.run("patch revert dmo --root tree").expect(2).says("did you mean `demo`?");
    let reverted = project.run("patch revert demo --root tree --format json").expect(0);
    crate::schemas::check(&project, "patch-revert", &[json(&reverted)]);
}

#[test]
fn a_later_run_adds_to_the_receipt_and_all_goes_back() {
    let project = demo(&format!("{ANY}{}", list_edit("a.txt")), "list = \"gfx1100\"\n");
    let before = project.files();
    project.run("patch apply demo --root tree").expect(0);
    project.run("patch apply demo --root tree --gpu gfx1150").expect(0);
    assert_eq!(project.read("tree/a.txt"), "list = \"gfx1100;gfx1151;gfx1150\"\n");
    let ledger: Value =
        serde_json::from_str(&project.read("tree/.build-pipeline/patches.json")).unwrap();
    assert_eq!(ledger["receipts"].as_array().unwrap().len(), 1);
    project.run("patch revert demo --root tree").expect(0);
    same(&project.files(), &before, "files");

    // A package manager restores the original; the next run starts from it.
    project.run("patch apply demo --root tree").expect(0);
    project.run("patch apply demo --root tree --gpu gfx1150").expect(0);
    project.write("tree/a.txt", "list = \"gfx1100\"\n");
    project.run("patch apply demo --root tree").expect(0).prints("changed  a.txt");
    project.run("patch revert demo --root tree").expect(0);
    same(&project.files(), &before, "files");
}

#[test]
fn the_diff_is_one_that_patch_takes() {
    let project =
        demo(&format!("{ANY}{}", list_edit("a.txt")), "\u{feff}list = \"gfx1100\"\r\nend");
    let diff = project.run("patch diff demo --root tree").expect(0).stdout;
    project.write("changes.diff", &diff);
    let mut patch = std::process::Command::new("git");
    patch.args(["apply", "-p1", "../changes.diff"]).current_dir(project.path("tree"));
    ran(patch.output().unwrap()).expect(0);
    assert_eq!(project.read("tree/a.txt"), "\u{feff}list = \"gfx1100;gfx1151\"\r\nend");
    let document = project.run("patch diff demo --root tree --format json").expect(0);
    assert_eq!(json(&document)["trees"][0]["diff"], "");
}

/// The diff of a file that is not UTF-8 can be applied.
#[test]
fn the_diff_of_any_bytes_is_one_that_git_takes() {
    let file = "a b.txt";
    let list = list_edit(file);
    for (name, before, after) in [
        (
            "latin 1",
            b"caf\xe9\nlist = \"a\"\n\xff\n".to_vec(),
            b"caf\xe9\nlist = \"a;gfx1151\"\n\xff\n".to_vec(),
        ),
        (
            "lone returns",
            b"x\ry\nlist = \"a\"\nz\rw".to_vec(),
            b"x\ry\nlist = \"a;gfx1151\"\nz\rw".to_vec(),
        ),
        (
            "other separators",
            "a\u{2028}b\u{85}\u{c}\nlist = \"a\"".into(),
            "a\u{2028}b\u{85}\u{c}\nlist = \"a;gfx1151\"".into(),
        ),
    ] {
        let project = demo(&format!("{ANY}{list}"), "");
        let path = project.path(&format!("tree/{file}"));
        std::fs::write(&path, &before).unwrap();
        let output =
            project.command(&["patch", "diff", "demo", "--root", "tree"]).output().unwrap();
        assert!(output.status.success(), "{name}");
        std::fs::write(project.path("changes.diff"), &output.stdout).unwrap();
        let mut git = std::process::Command::new("git");
        git.args(["apply", "-p1", "../changes.diff"]).current_dir(project.path("tree"));
        ran(git.output().unwrap()).expect(0);
        assert_eq!(std::fs::read(&path).unwrap(), after, "{name}");
    }
}

#[test]
fn strict_asks_for_patches_that_are_needed_and_probes_that_ran() {
    let probe = "[[probe]]\nname = \"compiles\"\nkind = \"python-compile\"\nfiles = [\"a.txt\"]\n";
    let patch = format!("{ANY}{}{probe}", list_edit("a.txt"));
    let project = demo(&patch, "list = \"gfx1100\"\n");
    let line = "demo --root tree";
    project.run(&format!("patch check {line} --strict")).expect(0).prints("`compiles`: ✓ passed");
    let ran = project.run(&format!("patch check {line} --no-probes")).expect(0);
    ran.prints("not run: probes were not requested").says("[probe-not-run]");
    project.run(&format!("patch apply {line} --no-probes --strict")).expect(7).says("not run");
    assert_eq!(project.read("tree/a.txt"), "list = \"gfx1100\"\n");

    let mut command = project.command(&["patch", "check", "demo", "--root", "tree"]);
    let ran = crate::dsl::ran(command.env("PATH", project.path("home")).output().unwrap());
    ran.expect(0).prints("not run: python3 is not installed").says("python3 is not installed");

    project.write("tree/a.txt", "list = \"gfx1151\"\n");
    project.run(&format!("patch check {line} --strict")).expect(7).prints("retire the patch");
    project.run(&format!("patch check {line}")).expect(0);
}

#[test]
fn wrong_patch_files_are_shown_with_their_places() {
    let project = demo(&format!("{ANY}{}", list_edit("a.txt")), "");
    let wrong = format!("{}{ANY}{}", head("demo-wrong"), list_edit("../a.txt"))
        .replace("expect = 1", "expct = 1");
    project.write("patches/demo/demo-wrong.toml", &wrong);
    project.write("patches/demo/demo-worse.toml", "schema = 2\n");
    project
        .run("patch check demo --root tree --color never")
        .expect(2)
        .says("patches/demo/demo-wrong.toml:")
        .says("`../a.txt` is not a path inside a tree")
        .says("did you mean `expect`?")
        .says("patches/demo/demo-worse.toml")
        .says("newer build-pipeline");
    project.write("patches/demo/demo-worse.toml", &head("x").replace("demo", "dem0"));
    std::fs::remove_file(project.path("patches/demo/demo-wrong.toml")).unwrap();
    project.run("patch check demo --root tree").expect(2);
}

#[test]
fn wrong_words_get_a_next_step() {
    let project = demo(&format!("{ANY}{}", list_edit("a.txt")), "list = \"gfx1100\"\n");
    let before = project.files();
    for (line, error, hint) in [
        ("check vlm --root tree", "no patches for component `vlm`", "did you mean `vllm`?"),
        ("check nothing --root tree", "no patches for component", "the components are aiter, demo"),
        ("check demo", "no pin uses `patches = \"demo\"`", "--root DIR"),
        (
            "check demo --root nowhere",
            "`nowhere` is not a folder that can be read",
            "pass the folder",
        ),
        ("check demo --root tree/a.txt", "is not a folder that can be read", "pass the folder"),
        (
            "check demo --root tree --only demo-lst",
            "there is no patch `demo-lst`",
            "did you mean `demo-list`?",
        ),
        ("check demo --root tree --gpu gfx11x", "`gfx11x` is not", "gfx1151"),
        ("check demo --root tree --gpu gfx1511", "the GPU `gfx1511` is not known", "gfx1151"),
        ("check demo --root tree --version one", "`one` is not a version", "--version 0.11.0"),
        ("check vllm --root tree", "cannot determine the version of `vllm`", "--version VERSION"),
        (
            "check vllm --root tree --version 0.10.2 --only vllm-arch-list",
            "requires `vllm-paged-attention`, which is not selected",
            "--only vllm-paged-attention",
        ),
        ("revert demo", "required", "--root <DIR>"),
    ] {
        project.run(&format!("patch {line}")).expect(2).says(error).says("hint: ").says(hint);
    }
    project.run("patch apply demo --root tree --write --dry-run").expect(2);
    same(&project.files(), &before, "files");
}

#[test]
fn receipts_that_cannot_be_read_stop_everything() {
    let project = demo(&format!("{ANY}{}", list_edit("a.txt")), "list = \"gfx1100\"\n");
    for (text, says) in [
        ("{\"schema\":2,\"news\":[]}", "was made by a newer build-pipeline"),
        ("{\"schema\":1,\"receipts\":[{}]}", "is not a list of receipts"),
        ("nonsense", "is not a list of receipts"),
    ] {
        project.write("tree/.build-pipeline/patches.json", text);
        let before = project.files();
        for command in ["check", "apply", "revert"] {
            project.run(&format!("patch {command} demo --root tree")).expect(2).says(says);
        }
        same(&project.files(), &before, "files");
    }
}

#[test]
fn a_damaged_receipt_does_not_lead_back() {
    let project = demo(&format!("{ANY}{}", list_edit("a.txt")), "list = \"gfx1100\"\n");
    project.run("patch apply demo --root tree").expect(0);
    project.edit("tree/.build-pipeline/patches.json", ";gfx1151", ";gfx1152");
    let before = project.files();
    project.run("patch revert demo --root tree").expect(7).says("does not restore");
    same(&project.files(), &before, "files");
}

#[test]
fn the_version_is_read_from_the_tree() {
    let bounded =
        "[applies]\nversions = \">=1.0\"\nbelow = { then = \"skip\", because = \"old\" }\n";
    let vllm = |project: &Project, line: &str| {
        project.run(&format!("patch check vllm --root {line} --only vllm-platform-fallback"))
    };
    let project = demo(&format!("{bounded}{}", list_edit("a.txt")), "list = \"gfx1100\"\n");
    let platform =
        "def f(is_rocm):\n    return \"vllm.platforms.rocm.RocmPlatform\" if is_rocm else None\n";
    for (folder, file, text) in [
        ("sdist", "PKG-INFO", "Metadata-Version: 2.1\nName: vllm\nVersion: 0.10.2\n\n"),
        ("scm", "vllm/_version.py", "__version__ = version = '0.10.2'\n"),
        ("wheel", "vllm-0.10.2.dist-info/METADATA", "Name: vllm\nVersion: 0.10.2+rocm641\n\n"),
        ("old", "setup.py", "setup(\n    name=\"vllm\",\n    version=\"0.10.2\",\n)\n"),
    ] {
        project.write(&format!("{folder}/{file}"), text);
        project.write(&format!("{folder}/vllm/platforms/__init__.py"), platform);
        let ran = vllm(&project, &format!("{folder} --no-probes"));
        let from = file.strip_suffix("/METADATA").unwrap_or(file);
        ran.expect(0).prints("vllm 0.10.2").prints(&format!("({from})")).prints("applied(1)");
    }
    // The metadata of a package with a different name is ignored.
    project.write("other/PKG-INFO", "Name: not-vllm\nVersion: 0.10.2\n\n");
    vllm(&project, "other").expect(2).says("--version VERSION");
}

#[test]
fn an_audit_says_from_when_on_a_patch_can_be_retired() {
    let project = demo(&format!("{ANY}{}", list_edit("a.txt")), "");
    for (version, text) in [
        ("0.10.0", "list = \"gfx1100\"\n"),
        ("0.9.0", "list = \"gfx1030\"\n"),
        ("0.11.0", "list = \"gfx1151;gfx1200\"\n"),
    ] {
        project.write(&format!("trees/{version}/a.txt"), text);
    }
    let line = "patch audit demo trees/0.11.0 trees/0.9.0 trees/0.10.0";
    let ran = project.run(line).expect(0).prints("demo-list can be retired as of 0.11.0");
    let rows: Vec<&str> = ran.stdout.lines().filter(|line| line.contains('✓')).collect();
    assert_eq!(rows.len(), 3);
    for (row, start) in rows.iter().zip(["0.9.0 ", "0.10.0 ", "0.11.0 "]) {
        assert!(row.trim_start().starts_with(start), "{row}");
    }
    let document = json(&project.run(&format!("{line} --format json")).expect(0));
    assert_eq!(document["retirements"]["demo-list"]["version"], "0.11.0");
    assert_eq!(document["versions"].as_array().unwrap().len(), 3);
    crate::schemas::check(&project, "patch-audit", &[document]);
    project
        .run("patch audit demo trees/0.9.0 trees/0.10.0")
        .expect(0)
        .prints("still needed by the newest");
    project.write("trees/0.12.0/a.txt", "lists = \"gfx1100\"\n");
    project
        .run(&format!("{line} trees/0.12.0"))
        .expect(7)
        .prints("✗ 0.12.0 demo-list: the anchor was not found")
        .prints("still needed");
    project.write("trees/demo-v0.8.0/a.txt", "list = \"gfx1100\"\n");
    project
        .run("patch audit demo trees/demo-v0.8.0")
        .expect(0)
        .prints("\n  0.8.0 ")
        .prints("✓ applied(1)");
    project.write("trees/new/a.txt", "");
    project.run(&format!("{line} trees/new")).expect(2).says("rename the folder to its version");
}
