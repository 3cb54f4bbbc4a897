//! Files that COPY gives to root, and the users who change them.

use super::{NONE, expect};

const CLEAN: &[&str] = &[];

#[test]
fn only_root_and_the_owner_can_change_a_copied_file() {
    let base = "FROM docker.io/a/b@sha256:1\n";
    let file = |lines: &str| format!("{base}{lines}");
    for (lines, expected) in [
        ("USER app\nCOPY a.sh /a.sh\nRUN chmod +x /a.sh\n", &["4 error"][..]),
        ("COPY a.sh /a.sh\nUSER app\nRUN chmod +x /a.sh\n", &["4 error"]),
        ("WORKDIR /app\nCOPY . .\nUSER 1000\nRUN chmod 755 a.sh\n", &["5 error"]),
        (
            "WORKDIR /app\nUSER app\nCOPY a.sh .\nRUN true && \\\n    chmod 755 /app/a.sh\n",
            &["6 error"],
        ),
        ("USER app\nADD [\"a.sh\", \"/bin/\"]\nRUN chown app /bin/a.sh\n", &["4 error"]),
        // Who owns the file, or who runs the command, is another question.
        ("USER app\nCOPY --chown=app a.sh /a.sh\nRUN chmod +x /a.sh\n", CLEAN),
        ("USER app\nCOPY --chmod=755 a.sh /a.sh\nRUN chmod +x /a.sh\n", CLEAN),
        ("COPY a.sh /a.sh\nRUN chmod +x /a.sh\nUSER app\n", CLEAN),
        ("COPY a.sh /a.sh\nRUN chown app /a.sh\nUSER app\nRUN chmod +x /a.sh\n", CLEAN),
        ("USER app\nCOPY a.sh /a.sh\nRUN sudo chmod +x /a.sh\n", CLEAN),
        ("USER app\nCOPY a.sh /a.sh\nUSER root\nRUN chmod +x /a.sh\n", CLEAN),
        ("USER ${USER}\nCOPY a.sh /a.sh\nRUN chmod +x /a.sh\n", CLEAN),
        ("USER app\nCOPY a.sh /a.sh\nRUN chmod +x /b.sh\n", CLEAN),
        ("USER app\nCOPY a.sh /a.sh\nRUN cp /a.sh /tmp/a.sh && chmod +x /tmp/a.sh\n", CLEAN),
        ("USER app\nCOPY a.sh /a.sh\nRUN chmod +x /a.sh || true\n", CLEAN),
    ] {
        let text = file(lines);
        expect("copy-not-owned", NONE, &[("Dockerfile", &text, expected)]);
    }
}
