//! Files that come close to a problem of layers, instructions or shells, and do not have it; and
//! files on which `lint` once reported too much.

use super::{NONE, PROJECT, expect};

/// Checks that a rule has no finding in any of these files.
fn innocent(rule: &str, cases: &[(&str, &str)]) {
    for (file, text) in cases {
        expect(rule, NONE, &[(file, text, &[])]);
    }
}

#[test]
fn files_that_are_removed_in_their_own_layer_or_stage_are_not_reported() {
    let base = "FROM rocm/dev-ubuntu-24.04:7.2.1-complete\n";
    let clone = "RUN git clone https://h.example/ucx /tmp/ucx && cd /tmp/ucx && make install\n";
    expect(
        "removed-later",
        NONE,
        &[
            (
                "Dockerfile",
                &format!("FROM a/b\n{clone}RUN rm -rf /tmp/ucx && rm -rf /tmp/ompi\n"),
                &["3 information"],
            ),
            (
                "Dockerfile",
                "FROM a/b\nRUN apt-get update && apt-get install -y c\nRUN apt-get clean && rm -rf /var/lib/apt/lists/*\n",
                &["3 information"],
            ),
            (
                "Dockerfile",
                "FROM a/b\nRUN pip install c==1\nRUN rm -vrf /root/.cache/pip\n",
                &["3 information"],
            ),
            ("Dockerfile", &format!("{base}RUN rm -rf /opt/rocm/share/doc\n"), &["2 information"]),
        ],
    );
    innocent(
        "removed-later",
        &[
            (
                "Dockerfile",
                &format!(
                    "FROM a/b\n{}",
                    clone.replace("install\n", "install && rm -rf /tmp/ucx\n")
                ),
            ),
            (
                "Dockerfile",
                &format!(
                    "{base}RUN apt-get install -y migraphx && rm -rf /opt/rocm/share/miopen\n"
                ),
            ),
            (
                "Dockerfile",
                &format!(
                    "{base}RUN rm -rf /opt/rocm/share\nFROM scratch\nCOPY --from=0 /opt /opt\n"
                ),
            ),
            ("Dockerfile", &format!("# docker build --squash\n{base}RUN rm -rf /opt/rocm/share\n")),
            ("Dockerfile", &format!("{base}RUN rm /etc/apt/sources.list.d/amdgpu.list\n")),
            ("Dockerfile", "FROM a/b\nRUN rm -rf /opt/rocm /tmp/x /root/.cache\n"),
            (
                "Dockerfile",
                "FROM a/b\nRUN apt-get update && apt-get install -y c && rm -rf /var/lib/apt/lists/*\nRUN rm -rf /var/lib/apt/lists/*\n",
            ),
            (
                "Dockerfile",
                "FROM a/b\nRUN pip install --no-cache-dir c==1\nRUN rm -rf /root/.cache\n",
            ),
        ],
    );
}

#[test]
fn a_volume_without_content_is_not_reported() {
    expect(
        "volume-content",
        NONE,
        &[(
            "Dockerfile",
            "FROM a/b\nARG APP=/app\nVOLUME [ ${APP} ]\nWORKDIR ${APP}\nRUN git clone https://h.example/a\n",
            &["5 information"],
        )],
    );
    innocent(
        "volume-content",
        &[
            ("Dockerfile", "FROM a/b\nCOPY . /app\nVOLUME /app\n"),
            (
                "Dockerfile",
                "FROM a/b\nVOLUME /models\nRUN mkdir -p /models/a && chown a /models\nCOPY . /app\n",
            ),
            ("Dockerfile", "FROM a/b\nVOLUME /app\nWORKDIR /app\nRUN apt-get install -y c\n"),
            ("Dockerfile", "FROM a/b AS c\nVOLUME /app\nFROM a/b\nCOPY . /app\n"),
            ("Dockerfile", "FROM a/b\nVOLUME /app\nCOPY . /apps\n"),
        ],
    );
}

#[test]
fn packages_are_stored_twice_only_if_the_base_has_them() {
    let two = |base: &str, path: &str| {
        format!("FROM {base} AS build\nRUN a\nFROM {base}\nCOPY --from=build {path} {path}\n")
    };
    innocent(
        "rocm-twice",
        &[
            ("Dockerfile", &two("rocm/dev-ubuntu-24.04:7.2.1", "/opt/venv")),
            ("Dockerfile", &two("ubuntu:24.04", "/usr/local/lib/python3.12/dist-packages")),
            (
                "Dockerfile",
                &two("rocm/pytorch:rocm7.2.1", "/opt/venv/lib/python3.12/site-packages/a"),
            ),
            (
                "Dockerfile",
                "FROM rocm/pytorch:a AS build\nFROM rocm/pytorch:b\nCOPY --from=build /opt/venv /opt/venv\n",
            ),
        ],
    );
    let base = "FROM rocm/dev-ubuntu-22.04:7.2.1\n";
    let torch = "RUN pip install torch --index-url https://download.pytorch.org/whl/rocm7.2\n";
    innocent(
        "rocm-twice",
        &[
            ("Dockerfile", &format!("{base}{torch}RUN apt-get install -y ocl-icd-opencl-dev\n")),
            ("Dockerfile", &format!("{base}{torch}RUN rocminfo\n")),
            ("Dockerfile", &format!("{base}{torch}RUN pip install git+https://h.example/a\n")),
            ("Dockerfile", &format!("{base}{torch}RUN apt-get install -y rocblas\n")),
            ("Dockerfile", &format!("{base}RUN pip install torch\n")),
        ],
    );
}

#[test]
fn libraries_of_the_build_can_come_from_elsewhere() {
    let build =
        "FROM rocm/dev-ubuntu-22.04:7.2.1 AS build\nRUN apt-get install -y hipblas-dev && make\n";
    let last = |base: &str, text: &str| {
        format!("{build}FROM {base}\n{text}COPY --from=build /a/bin/server /app/\n")
    };
    let slim = "rocm/dev-ubuntu-22.04:7.2.1";
    expect("math-libraries-missing", NONE, &[("Dockerfile", &last(slim, ""), &["3 warning"])]);
    innocent(
        "math-libraries-missing",
        &[
            ("Dockerfile", &last(slim, "RUN apt-get install -y hipblas rocblas\n")),
            ("Dockerfile", &last(slim, "COPY --from=build /opt/rocm/lib /opt/rocm/lib\n")),
            ("Dockerfile", &last("rocm/dev-ubuntu-22.04:7.2.1-complete", "")),
            ("Dockerfile", &last("rocm/dev-ubuntu-22.04:7.14.1-full", "")),
            ("Dockerfile", &last("scratch", "")),
            ("Dockerfile", &last("build", "")),
            ("Dockerfile", &last(slim, "RUN ./install.sh\n")),
            ("Dockerfile", &last(slim, "").replace("&& make", "&& ldd a | xargs cp -t /a/bin")),
            ("Dockerfile", &format!("{build}FROM {slim}\nCOPY . /app\n")),
        ],
    );
}

#[test]
fn lines_of_here_documents_and_templates_are_no_instructions() {
    expect(
        "instruction-unknown",
        NONE,
        &[
            ("Dockerfile", "FROM a/b\nRUN c\n    && sudo d\nEND\n", &["3 error"]),
            ("Dockerfile", "FROM a/b\nRUN c && \\\n  d\ne f\n", &["4 error"]),
        ],
    );
    innocent(
        "instruction-unknown",
        &[
            ("Dockerfile", "FROM a/b\nRUN cat > x.sh << 'EOF'\npip install c\nEOF\nCMD x\n"),
            ("Dockerfile", "FROM a/b\nRUN <<-\"EOF\"\n\tpip install c\n\tEOF\nonbuild run x\n"),
            ("Dockerfile", "FROM a/b\nRUN <<A cat && <<B cat\nx\nA\ny\nB\n"),
            ("Dockerfile", "FROM a/b\nRUN c \\\n  # comment\n\n  && d\n"),
            ("Dockerfile", "# syntax=devthefuture/dockerfile-x\nFROM a/b\nINCLUDE c\n"),
            ("Dockerfile", "# escape=`\nFROM a/b\nRUN c `\n  d\n"),
            ("Dockerfile", "FROM a/b\n{% if x %}\nRUN c\n{% endif %}\n"),
            ("Dockerfile", "FROM a/b\n@RUN@\n"),
            ("Dockerfile", "FROM a/b\nRUN c \\ \n  d\n"),
        ],
    );
}

#[test]
fn lists_and_commands_of_the_right_form_are_not_reported() {
    innocent(
        "list-not-json",
        &[
            ("Dockerfile", "FROM a/b\nVOLUME [ \"$HOME/models\" ]\nCMD [\"a\", \"b\"]\n"),
            ("Dockerfile", "FROM a/b\nCMD [ -f a ] && [ -f b ]\nVOLUME /a /b\n"),
            ("Dockerfile", "FROM a/b\nCMD [\"a\", \\\n  \"b\"]\n"),
        ],
    );
    innocent(
        "command-not-run",
        &[
            ("Dockerfile", "FROM a/b\nCMD [\"/bin/bash\"]\nRUN c\n"),
            ("Dockerfile", "FROM a/b\nCMD cd /app && python a.py\nRUN c\n"),
            ("Dockerfile", "FROM a/b\nENTRYPOINT [\"a\"]\nCMD pip install\nRUN c\n"),
            ("Dockerfile", "FROM a/b\nRUN c\nCMD cp a b\n"),
        ],
    );
}

#[test]
fn escapes_that_the_shell_interprets_are_not_reported() {
    innocent(
        "echo-escape",
        &[
            ("Dockerfile", "FROM a/b\nRUN echo \"[global]\\nindex-url = x\" > ~/.pip/pip.conf\n"),
            ("a.sh", "#!/bin/sh\necho \"a\\nb\" > c\n"),
            ("a.sh", "#!/bin/bash\necho -e \"a\\nb\" > c\n"),
            ("a.sh", "#!/bin/bash\necho \"a\\nb\"\n"),
            ("a.sh", "#!/bin/bash\necho \"a\\\\nb\" > c\n"),
            ("a.sh", "#!/bin/bash\nprintf \"a\\nb\" > c\n"),
            ("a.sh", "#!/bin/bash\necho 'print(\"a\\nb\")' > c.py\n"),
            ("a.sh", "#!/bin/bash\nshopt -s xpg_echo\necho \"a\\nb\" > c\n"),
        ],
    );
    innocent(
        "jobs-unlimited",
        &[
            ("a.sh", "make -j $(nproc)\n"),
            ("a.sh", "nproc=$(nproc)\nmake -j ${nproc}\n"),
            ("a.sh", "make -j ${nproc:-4}\n"),
            ("a.sh", "make -j ${NPROC}\n"),
            ("a.sh", "source env.sh\nmake -j ${nproc}\n"),
            ("a.sh", "read -r nproc\nmake -j ${nproc}\n"),
        ],
    );
}

#[test]
fn pip_may_write_elsewhere() {
    let base = "FROM ubuntu:24.04\nRUN apt-get update && apt-get install -y python3-pip\n";
    expect(
        "pip-refused",
        NONE,
        &[
            ("Dockerfile", &format!("{base}RUN python3 -m pip install a==1\n"), &["3 error"]),
            (
                "Dockerfile",
                "FROM rocm/dev-ubuntu-24.04:7.2.1\nRUN pip3 install a==1\n",
                &["2 error"],
            ),
        ],
    );
    innocent(
        "pip-refused",
        &[
            ("Dockerfile", &format!("{base}RUN pip install --break-system-packages a==1\n")),
            ("Dockerfile", &format!("{base}ENV PIP_BREAK_SYSTEM_PACKAGES=1\nRUN pip install a\n")),
            ("Dockerfile", &format!("{base}RUN python3 -m venv /v\nRUN pip install a==1\n")),
            (
                "Dockerfile",
                &format!("{base}RUN rm /usr/lib/python3*/EXTERNALLY-MANAGED && pip install a\n"),
            ),
            ("Dockerfile", &format!("{base}RUN pip install --target /app a==1\n")),
            ("Dockerfile", &format!("{base}RUN pip --version\n")),
            ("Dockerfile", &format!("{}RUN pip install a==1\n", base.replace("24.04", "22.04"))),
            ("Dockerfile", "FROM python:3.12\nRUN pip install a==1\n"),
            ("Dockerfile", "FROM ubuntu:24.04\nCOPY --from=x / /\nRUN pip install a==1\n"),
        ],
    );
}

#[test]
fn commands_of_other_lines_are_no_arguments() {
    innocent(
        "operator-missing",
        &[
            (
                "Dockerfile",
                "FROM a/b\nRUN apt-get install -y c && apt-get clean && rm -rf /var/lib\n",
            ),
            (
                "Dockerfile",
                "FROM a/b\nRUN <<EOF\napt-get install -y c\napt-get clean\nrm -rf /x\nEOF\n",
            ),
            ("Dockerfile", "FROM a/b\nRUN pip install pip setuptools\n"),
            ("Dockerfile", "FROM a/b\nRUN pip install --upgrade pip && pip install c\n"),
        ],
    );
    expect(
        "operator-missing",
        NONE,
        &[("a.sh", "pip3 install c sudo pip3 install d\n", &["1 error"])],
    );
}

#[test]
fn overrides_of_the_gpus_own_generation_are_no_foreign_ones() {
    let text = |gpus: &str| format!("FROM a/b\n# {gpus}\nENV HSA_OVERRIDE_GFX_VERSION=11.0.0\n");
    innocent(
        "hsa-override-other",
        &[
            ("Dockerfile", &text("RX 7800 XT, RX 7700 XT")),
            ("Dockerfile", &text("MI300X, gfx1030")),
        ],
    );
}

#[test]
fn scripts_can_install_torch_again_or_elsewhere() {
    let torch = "pip install torch --index-url https://download.pytorch.org/whl/rocm7.2\n";
    innocent(
        "torch-replaced",
        &[
            ("a.sh", &format!("{torch}pip install --no-deps sglang\n")),
            ("a.sh", &format!("pip install sglang\n{torch}")),
            ("a.sh", &format!("{torch}pip install sglang\n{torch}")),
            ("a.sh", &format!("python -m venv a\n{torch}python -m venv b\npip install sglang\n")),
            ("a.sh", "pip install torch\npip install sglang\n"),
        ],
    );
}

#[test]
fn a_release_that_another_package_decides_is_pinned() {
    let index = "--index-url https://h.example/a";
    expect(
        "index-unpinned",
        NONE,
        &[
            ("a.sh", &format!("pip install torch==2.9.1 torchvision torchaudio {index}\n"), &[]),
            ("a.sh", &format!("pip install torch torchvision {index}\n"), &["1 information"]),
            (
                "a.sh",
                &format!("pip install torch==2.9.1 {index}\npip install torchvision\n"),
                &["2 information"],
            ),
            (
                "a.sh",
                "if a; then\n  pip install b\nelse\n  pip install b -i c\nfi\n",
                &["2 information"],
            ),
            ("a.sh", "pip install pytest ruff black nbstripout\n", &[]),
        ],
    );
}

#[test]
fn a_start_script_can_read_its_own_variables() {
    let file = |end: &str| {
        format!("FROM ollama/ollama:rocm\nENV OLLAMA_MODEL=a\nCOPY entrypoint.sh /\n{end}\n")
    };
    expect(
        "variable-does-not-exist",
        PROJECT,
        &[
            ("Dockerfile", &file("ENTRYPOINT [\"/entrypoint.sh\"]"), &["2 information"]),
            ("Dockerfile", &file("CMD [\"serve\"]"), &["2 error"]),
        ],
    );
}

#[test]
fn a_comment_that_explains_gfx942_is_no_list() {
    expect(
        "retired-target",
        NONE,
        &[
            ("Dockerfile", "FROM a/b\n# gfx940/941/942 = MI300\n", &[]),
            ("Dockerfile", "FROM a/b\n# gfx940 = MI300A\n", &["2 information"]),
            ("Dockerfile", "FROM a/b\nENV GPU_TARGETS=\"gfx940;gfx942\"\n", &["2 information"]),
        ],
    );
}

#[test]
fn a_script_in_the_working_directory_is_found() {
    let file =
        |copy: &str| format!("FROM a/b\nWORKDIR /app\n{copy}\nCMD [\"python\", \"src/main.py\"]\n");
    innocent(
        "script-missing",
        &[
            ("Dockerfile", &file("COPY src/ ./src/")),
            ("Dockerfile", &file("COPY src /app/src")),
            ("Dockerfile", &file("COPY src /src\nCOPY . .")),
            ("Dockerfile", &file("COPY src /src\nCOPY *.py a ./")),
            ("Dockerfile", &file("COPY src /src\nCOPY . /app")),
            ("Dockerfile", &file("COPY src /src\nRUN ln -s /src /app/src")),
            ("Dockerfile", &file("COPY src /src\nRUN git clone https://h.example/a .")),
            ("Dockerfile", &file("COPY src /src").replace("\"src/", "\"/src/")),
            ("Dockerfile", &file("RUN pip install a")),
        ],
    );
}
