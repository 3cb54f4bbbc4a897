//! A project's files are read and written only in its folder: no symbolic link leads out of it.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use crate::dsl::{Project, same};

/// The text of every file outside the project. No message may contain it.
const SECRET: &str = "root-password-0451";
const TRACKS: &str = "versions/tracks.toml";

/// A folder outside the project. Every file that the project could have is in it.
fn elsewhere(project: &Project) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, _) in project.files() {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{SECRET}\n")).unwrap();
    }
    folder
}

/// Replaces a file or folder of the project with a link to the same path outside.
fn replace(project: &Project, outside: &TempDir, name: &str) {
    let path = project.path(name);
    if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.unwrap();
    symlink(outside.path().join(name), path).unwrap();
}

#[test]
fn no_file_of_a_project_is_behind_a_link_that_leads_out_of_it() {
    const PLAN: &str = "plan vulkan";
    for (name, lines) in [
        ("dockerfiles", vec![PLAN, "lint"]),
        ("dockerfiles/vulkan", vec![PLAN]),
        ("dockerfiles/vulkan/debian.Dockerfile", vec![PLAN]),
        ("patches", vec![PLAN]),
        ("patches/llama.cpp", vec![PLAN]),
        ("patches/llama.cpp/llama.cpp-rdna3-macro.toml", vec![PLAN]),
        ("versions", vec![PLAN, "pins show", "bump vllm", "lint", "lock --check"]),
        ("versions/versions.toml", vec![PLAN, "pins show", "bump vllm", "outdated", "lint"]),
        ("versions/tracks.toml", vec![PLAN, "status", "lint"]),
        ("versions/gpus.toml", vec![PLAN]),
        ("versions/compat.toml", vec!["plan trainer"]),
        ("versions/python.toml", vec!["lock --check", "lint"]),
        ("versions/run.toml", vec!["run official --print shell"]),
        ("versions/failures.toml", vec!["diagnose registries.conf"]),
        ("versions/locks", vec![PLAN, "lock --check", "lock debian"]),
        ("versions/locks/debian.toml", vec![PLAN, "lock debian"]),
        ("versions/locks/pylock.flash-attention.toml", vec!["lock --check flash-attention"]),
    ] {
        let project = Project::new();
        let outside = elsewhere(&project);
        replace(&project, &outside, name);
        let before = project.files();
        for line in lines {
            let ran = project.run(line).expect(2);
            let all = format!("{}{}", ran.stdout, ran.stderr);
            assert!(!all.contains(SECRET), "{name}, {line}:\n{all}");
            let says = format!("`{name}` is a symbolic link to ");
            let ran = ran.says(&says).says("which is outside the project");
            ran.says("replace the link with a copy");
            same(&project.files(), &before, line);
        }
        let read = fs::read_to_string(outside.path().join(TRACKS)).unwrap();
        assert_eq!(read.trim_end(), SECRET);
    }
}

#[test]
fn the_error_names_the_line_with_the_dockerfile() {
    let project = Project::new();
    let outside = elsewhere(&project);
    symlink(outside.path(), project.path("out")).unwrap();
    let tool = "[tool]\ntitle = \"T\"\ndescription = \"D\"\npackages = \"debian\"\n\
                [[tool.stage]]\nname = \"tool\"\ndockerfile = \"out/registries.conf\"\n";
    project.write(TRACKS, &(project.read(TRACKS) + tool));
    let line = project.read(TRACKS).lines().count();
    let ran = project.run("plan tool").expect(2);
    assert!(!format!("{}{}", ran.stdout, ran.stderr).contains(SECRET));
    ran.says(&format!("{TRACKS}:{line}:14"))
        .says("`out/registries.conf` cannot be used: `out` is a symbolic link to")
        .says("which is outside the project")
        .says("replace the link with a copy");
}

#[test]
fn links_inside_a_project_and_to_a_project_are_followed() {
    let project = Project::new();
    let plan = |line: &str| project.run(line).expect(0).stdout;
    let before = plan("plan vulkan");
    fs::rename(project.path("dockerfiles"), project.path("recipes")).unwrap();
    symlink("recipes", project.path("dockerfiles")).unwrap();
    fs::rename(project.path(TRACKS), project.path("versions/all.toml")).unwrap();
    symlink(project.path("versions/all.toml"), project.path(TRACKS)).unwrap();
    assert_eq!(plan("plan vulkan"), before);
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(project.path(""), elsewhere.path().join("link")).unwrap();
    let line = format!("-C {} plan vulkan", elsewhere.path().join("link").display());
    assert_eq!(plan(&line), before);
}
