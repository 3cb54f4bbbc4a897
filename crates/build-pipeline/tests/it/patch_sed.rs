//! `patch lint-sed`: shows what `sed -i` lines do to a tree, by running them on copies.

use crate::dsl::{Project, same};

/// Writes a tree in the shape of vLLM 0.10.2, with this list of targets.
fn vllm_tree(project: &Project, folder: &str, list: &str) {
    let write = |file: &str, text: &str| project.write(&format!("{folder}/{file}"), text);
    write("CMakeLists.txt", &format!("project(vllm)\nset(HIP_SUPPORTED_ARCHS \"{list}\")\n"));
    write("pyproject.toml", "[build-system]\nrequires = [\n    \"torch == 2.8.0\",\n]\n");
    write("PKG-INFO", "Name: vllm\nVersion: 0.10.2\n\n");
    let platform = "def rocm_platform_plugin():\n    is_rocm = False\n    try:\n        import amdsmi\n        \
        is_rocm = True\n    except Exception:\n        pass\n    return \"vllm.platforms.rocm.RocmPlatform\" \
        if is_rocm else None\n";
    write("vllm/platforms/__init__.py", platform);
}

/// Typical lines from Dockerfiles that people share, and the expected findings.
const SEDS: &str = r#"FROM docker.io/library/debian
ARG GFX=gfx1151
WORKDIR /app
RUN git clone https://example.org/vllm && cd vllm && \
    # a prefix
    sed -i 's/set(HIP_SUPPORTED_ARCHS "/set(HIP_SUPPORTED_ARCHS "gfx1151;/' CMakeLists.txt && \
    sed -i "s/from typing import (Any,)/from typing import Any, List/" vllm/platforms/__init__.py
RUN sed -i -E -e "s/gfx1200;gfx1201/gfx1200;gfx1201;${GFX}/" -e '/torch == 2.8.0,/d' \
        "/app/vllm/CMakeLists.txt"
RUN sed -i '/torch == 2.8.0,/d' vllm/pyproject.toml
RUN sed -i 's/try:\n        import amdsmi/import amdsmi/' vllm/vllm/platforms/__init__.py
RUN sed -i '/^        import amdsmi/i \        import os' vllm/vllm/platforms/__init__.py
RUN sed -i 's/^    try:$/    try: pass\n    try:/' vllm/vllm/platforms/__init__.py
RUN sed -ie 's|gfx906;|gfx906;gfx908;|' vllm/CMakeLists.txt; sed 's/a/b/' README.md
RUN find . -name '*.py' -exec sed -i 's/a/b/' {} +
RUN sed -i 's/archive/mirror/' /etc/apt/sources.list && sed -i "s/$(uname -m)/x/" vllm/CMakeLists.txt
RUN sed -i 's/(broken/x/;s/a\(b/c/' vllm/CMakeLists.txt && sed -i 's/a/id/e' vllm/CMakeLists.txt
"#;

/// `("0", "0")` is not a duplicate.
#[test]
fn sed_lines_are_judged_by_what_they_do() {
    let project = Project::new();
    project.write("Dockerfile", &SEDS.replace("\\\\\n", "\\\n").replace("\\\\", "\\"));
    vllm_tree(&project, "tree", "gfx906;gfx1100;gfx1200;gfx1201");
    let before = project.files();
    let line = "patch lint-sed Dockerfile --root tree";
    let document = crate::patch::json(&project.run(&format!("{line} --format json")).expect(1));
    let found: Vec<(u64, &str)> = document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["line"].as_u64().unwrap(), one["rule"].as_str().unwrap()))
        .collect();
    assert_eq!(
        found,
        [
            (6, "sed-not-idempotent"),
            (7, "sed-no-op"),
            (8, "sed-no-op"),
            (8, "sed-doubles"),
            (8, "sed-not-idempotent"),
            (10, "sed-no-op"),
            (11, "sed-line-end"),
            (12, "sed-not-idempotent"),
            (13, "sed-breaks-syntax"),
            (13, "sed-not-idempotent"),
            (14, "sed-suffix"),
            (14, "sed-not-idempotent"),
            (15, "sed-not-checked"),
            (16, "sed-not-checked"),
            (16, "sed-not-checked"),
            (17, "sed-error"),
            (17, "sed-not-checked"),
        ]
    );
    crate::schemas::check(&project, "patch-lint-sed", &[document]);
    project
        .run(line)
        .expect(1)
        .prints(
            "✗ Dockerfile:6: a second run over `CMakeLists.txt` adds `gfx1151` (line 2) once more",
        )
        .prints("--only vllm-arch-list,vllm-paged-attention`")
        .prints("its part `/torch == 2.8.0,/d` changes nothing")
        .prints("e/r/w commands disabled in sandbox mode")
        .says("13 faults in 13 calls");
    same(&project.files(), &before, "nothing was written");
    let words = project.run("patch lint-sed Dockerfile").expect(1);
    words.prints("[sed-line-end]").prints("[sed-suffix]").prints("without `--root DIR`");
    project.run("patch lint-sed nowhere").expect(2).says("reading `nowhere` failed");
}

/// `sed` exits with status 2 if a file is missing.
#[test]
fn a_missing_file_is_an_error_as_it_is_for_sed() {
    let project = Project::new();
    vllm_tree(&project, "tree", "gfx906;gfx1100");
    for (file, code, says) in [
        ("setup.cfg", 1, "the tree has no `setup.cfg`, so sed fails [sed-no-file]"),
        ("/app/vllm/setup.cfg", 1, "so sed fails [sed-no-file]"),
        (
            "/etc/apt/sources.list",
            0,
            "`/etc/apt/sources.list` is not in the tree [sed-not-checked]",
        ),
        ("\"$SRC/setup.cfg\"", 0, "is not in the tree [sed-not-checked]"),
    ] {
        project.write("fix.sh", &format!("sed -i 's/a/b/' {file}\n"));
        project.run("patch lint-sed fix.sh --root tree").expect(code).prints(says);
    }
}

#[test]
fn sed_lines_against_a_release_that_has_the_target() {
    let project = Project::new();
    vllm_tree(&project, "tree", "gfx906;gfx1100;gfx1150;gfx1151;gfx1200;gfx1201");
    let list = "gfx906;gfx942;gfx1100;gfx1151";
    let script = format!(
        "#!/bin/sh\nset -e\nsed -i 's/HIP_SUPPORTED_ARCHS \"[^\"]*\"/HIP_SUPPORTED_ARCHS \"{list}\"/' \"$SRC/CMakeLists.txt\"\n\
         sed -i 's/HIP_SUPPORTED_ARCHS \"/&gfx1151;/' CMakeLists.txt\n"
    );
    project.write("patch.sh", &script);
    let ran = project.run("patch lint-sed patch.sh --root tree").expect(1);
    ran.prints(
        "✗ patch.sh:3: removes `gfx1150`, `gfx1200`, `gfx1201` (line 2) from `CMakeLists.txt`",
    )
    .prints("✗ patch.sh:4: adds `gfx1151` (line 2) to `CMakeLists.txt` a second time")
    .prints(
        "instead: nothing, because upstream already contains `vllm-arch-list` (already-present)",
    );
    project.write("good.sh", "sed -i 's/gfx906;//' CMakeLists.txt\n");
    project.run("patch lint-sed good.sh --root tree").expect(1).prints("removes `gfx906`");
    project.write(
        "good.sh",
        "sed -i 's/^project(vllm)$/project(vllm LANGUAGES CXX)/' CMakeLists.txt\n",
    );
    project
        .run("patch lint-sed good.sh --root tree")
        .expect(0)
        .prints("1 call of `sed -i`, 0 faults");
}
