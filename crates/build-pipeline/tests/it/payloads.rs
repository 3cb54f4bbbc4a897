//! Terminal escapes never reach a terminal, whichever input contains them and whatever is printed.

use serde_json::Value;
use testkit::{Answer, FaultProxy, TERMINAL_PAYLOADS, gate_cases, gate_passed, shared_registry};

use crate::dsl::{Base, Project, Ran};

/// The output modes: text, colours, JSON, JSON progress, and verbose logging.
const FORMS: [&str; 5] =
    ["--color never", "--color always", "--format json", "--progress json", "-vv"];

/// Fails the test if a text contains terminal escapes. The program's own colours are removed first.
#[track_caller]
fn is_harmless(what: &str, text: &str, has_colours: bool) {
    let mut rest = text.to_owned();
    if has_colours {
        // Only this payload uses this colour, and the program never does.
        assert!(!rest.contains("\x1b[31mred"), "{what}: {rest}");
        while let Some(start) = rest.find("\x1b[") {
            let end = rest[start..].find('m').expect("a colour ends") + start;
            let is_colour = rest[start + 2..end].bytes().all(|b| b.is_ascii_digit() || b == b';');
            assert!(is_colour, "{what}: {rest}");
            rest.replace_range(start..=end, "");
        }
    }
    let overrides = "\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}\u{200e}\u{200f}\u{61c}";
    let is_bad = |c: char| (c.is_control() && c != '\n' && c != '\t') || overrides.contains(c);
    let bad: Vec<char> = rest.chars().filter(|c| is_bad(*c)).collect();
    assert!(bad.is_empty(), "{what}: {bad:?} in {text:?}");
}

/// Runs a line. Fails the test if its output contains terminal escapes or does not contain
/// `marker`.
#[track_caller]
fn check(project: &Project, line: &str, form: &str, marker: &str) -> Ran {
    let mut command = project.command(&format!("{line} {form}").split(' ').collect::<Vec<_>>());
    if form == "-vv" {
        command.env("RUST_LOG", "trace");
    }
    let ran = crate::dsl::ran(command.output().unwrap());
    assert_ne!(ran.code, 0, "{line}: {}", ran.stdout);
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    for text in [&ran.stdout, &ran.stderr] {
        is_harmless(&format!("{line} {form}"), text, form == "--color always");
    }
    let all = format!("{}{}", ran.stdout, ran.stderr);
    assert!(all.contains(marker), "{line} {form} does not contain `{marker}`: {all}");
    ran
}

#[test]
fn no_payload_acts_on_a_terminal_in_any_form_of_output() {
    let payloads = gate_cases(2, TERMINAL_PAYLOADS.len());
    let host = shared_registry().host();
    let (project, base) = (Project::new(), Base::push(1501));
    let mirror = format!("--mirror docker.io/rocm/vllm-dev={host}/{}", base.path);
    project.run(&base.locked_spoof(host)).expect(0);
    let mut tried = 0;
    // A few of different kinds: the overrides are last, the escapes first.
    for payload in TERMINAL_PAYLOADS.iter().rev().step_by(TERMINAL_PAYLOADS.len() / payloads) {
        let hostile = format!("before{payload}behind");
        // A label of an image, which `verify` shows.
        let set = |config: &mut Value| {
            config["config"]["Labels"]["io.github.build-pipeline.gpu"] = hostile.as_str().into();
        };
        crate::verify::forge(&project, set, |_| {});
        // A registry that sends the payload in an error.
        let proxy = FaultProxy::to(host);
        let error = serde_json::json!({ "errors": [{ "code": "DENIED", "message": hostile }] });
        proxy.on("GET", "/manifests/").does(Answer::new(403).body(error.to_string()));
        // A data file that an error quotes.
        let other = Project::new();
        let escaped: String = hostile.chars().map(|c| format!("\\U{:08x}", u32::from(c))).collect();
        other.edit(
            "versions/tracks.toml",
            "base = \"vllm-openai-rocm\"",
            &format!("base = \"{escaped}\""),
        );
        for form in FORMS {
            check(&project, &format!("verify oci:dist/locked-spoof {mirror}"), form, "before");
            let refused = Project::new();
            let line = base.pinned_at(&refused, &proxy.host());
            check(&refused, &line, form, "before");
            check(&other, "plan --track official", form, "before");
            tried += 1;
        }
    }
    gate_passed(17, tried);
}
