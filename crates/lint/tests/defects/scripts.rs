//! Scripts that go on after an error.

use super::together::{self, Texts};
use super::{NONE, expect};

const SCRIPTS: Texts = &[
    ("lax.sh", "#!/bin/bash\ncmake -B build\ncmake --build build\npip install a\n"),
    ("strict.sh", "#!/bin/bash\nset -e\ncmake -B build\ncmake --build build\npip install a\n"),
    ("chain.sh", "#!/bin/bash\ncmake -B build && cmake --build build && pip install a\n"),
    (
        "docker/lax.sh",
        "#!/bin/bash\ngit clone https://a.example/b\ncmake --build b\nmake install\n",
    ),
];

#[test]
fn a_build_succeeds_although_its_script_fails() {
    let says = |line: usize| {
        let what = "goes on after a failed download, build or installation";
        format!("{line} `lax.sh` {what}: a later step may fail, or the result may lack parts")
    };
    for (steps, lines) in [
        ("COPY lax.sh /\nRUN bash /lax.sh\n", &[3][..]),
        ("COPY docker /src\nWORKDIR /src\nRUN ./lax.sh && ./lax.sh\n", &[4]),
        ("COPY lax.sh /\nRUN bash -e /lax.sh\n", &[]),
        ("COPY strict.sh /\nRUN bash /strict.sh\n", &[]),
        ("COPY chain.sh /\nRUN bash /chain.sh\n", &[]),
        ("COPY lax.sh /\nRUN chmod +x /lax.sh\n", &[]),
        ("RUN bash /lax.sh\n", &[]),
    ] {
        let text = format!("FROM docker.io/a/b@sha256:1\n{steps}");
        let expected: Vec<String> = lines.iter().map(|line| says(*line)).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        together::expect("errors-ignored", SCRIPTS, "Dockerfile", &text, &expected);
    }
}

#[test]
fn a_missing_environment_is_not_noticed() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "source ~/env/bin/activate\npython a.py\n", &["1 information"]),
        ("a.sh", "cd /srv/a\n. .venv/bin/activate\nexec uvicorn a:b\n", &["2 information"]),
        ("a.sh", "set -e\nsource ~/env/bin/activate\npython a.py\n", &[]),
        ("a.sh", "source ~/env/bin/activate || exit 1\npython a.py\n", &[]),
        ("a.sh", "python3 -m venv env\nsource env/bin/activate\npython a.py\n", &[]),
        ("a.sh", "if [ -d env ]; then source env/bin/activate; fi\npython a.py\n", &[]),
        ("a.sh", "source env/bin/activate && python a.py\n", &[]),
        ("a.sh", "source env/bin/activate\necho done\n", &[]),
    ];
    expect("errors-ignored", NONE, cases);
}
