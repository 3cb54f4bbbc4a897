//! Defects that a person found in files from repositories that nobody had read before.

use super::{NONE, expect};

#[test]
fn a_comment_silences_no_rule() {
    let cmd = "FROM localhost/a\n# ENTRYPOINT python main.py\nCMD [\"/bin/bash\",\"-c\"]\n";
    let own = "FROM localhost/a\nENTRYPOINT [\"/run.sh\"]\nCMD [\"/bin/bash\",\"-c\"]\n";
    let cases: &[(&str, &str, &[&str])] =
        &[("Dockerfile", cmd, &["3 warning"]), ("Dockerfile", own, &[])];
    expect("command-missing", NONE, cases);
    let build = "# no pipefail here\ndocker build . | tee log\n";
    expect("build-status-lost", NONE, &[("a.sh", build, &["2 warning"])]);
    let groups =
        "# sudo is not needed\npodman run --device /dev/kfd --group-add video localhost/a\n";
    expect("rootless-groups", NONE, &[("a.sh", groups, &["2 information"])]);
}

#[test]
fn a_table_of_containers_is_read() {
    let table = "declare -A T\nT[\"a\"]=\"docker.io/a/b:rocm --device /dev/kfd --group-add video --group-add sudo --security-opt seccomp=unconfined\"\n";
    let used = format!("{table}toolbox create a --image \"${{T[a]%% *}}\" -- ${{T[a]#* }}\n");
    let cases: &[(&str, &str, &[&str])] =
        &[("a.sh", &used, &["2 information"]), ("a.sh", table, &[])];
    expect("container-unconfined", NONE, cases);
    expect("rootless-groups", NONE, &[("a.sh", &used, &["2 information"])]);
    expect("image-unpinned", NONE, &[("a.sh", &used, &["2 warning"])]);
}

#[test]
fn hip_counts_within_the_gpus_that_rocr_leaves() {
    let run = |hip: &str| {
        format!("docker run -e ROCR_VISIBLE_DEVICES=1 -e HIP_VISIBLE_DEVICES={hip} localhost/a\n")
    };
    let (masked, right) = (run("1"), run("0"));
    let two = "services:\n  a:\n    image: localhost/a\n    environment:\n      - ROCR_VISIBLE_DEVICES=0\n  b:\n    image: localhost/a\n    environment:\n      - HIP_VISIBLE_DEVICES=1\n";
    let cases: &[(&str, &str, &[&str])] =
        &[("a.sh", &masked, &["1 warning"]), ("a.sh", &right, &[]), ("compose.yml", two, &[])];
    expect("visible-devices-form", NONE, cases);
}
