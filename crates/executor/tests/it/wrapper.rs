//! The script that starts spoofed images, run by the real shells of this machine.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output};

use planner::{OPT_OUT_VARIABLE, OVERRIDE_VARIABLE, WRAPPER_SCRIPT};

/// Every shell that is used as `/bin/sh`: dash in Debian, bash in Fedora, busybox in Alpine.
fn shells() -> Vec<Vec<&'static str>> {
    let all = [&["/bin/sh"][..], &["dash"], &["bash"], &["bash", "--posix"], &["busybox", "sh"]];
    let is_there = |words: &&[&str]| {
        let run = Command::new(words[0]).args(&words[1..]).args(["-c", ":"]).output();
        run.is_ok_and(|output| output.status.success())
    };
    let found: Vec<_> = all.into_iter().filter(is_there).map(<[_]>::to_vec).collect();
    assert!(found.contains(&vec!["/bin/sh"]));
    found
}

/// Returns the command of a container with a spoofed image, with exactly these variables.
fn wrapped(shell: &[&str], env: &[(&str, &str)], command: &[&str]) -> Command {
    let mut all = Command::new(shell[0]);
    all.args(&shell[1..]).args(["-c", WRAPPER_SCRIPT, "build-pipeline-spoof"]).args(command);
    all.env_clear().env("PATH", "/usr/bin:/bin").envs(env.iter().copied());
    all
}

fn run(shell: &[&str], env: &[(&str, &str)], command: &[&str]) -> Output {
    wrapped(shell, env, command).output().unwrap()
}

/// Returns the value of the override that the command sees, if it is set.
fn seen(shell: &[&str], env: &[(&str, &str)]) -> Option<String> {
    let output = run(shell, env, &["env"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let prefix = format!("{OVERRIDE_VARIABLE}=");
    text.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
}

#[test]
fn the_override_is_kept_unless_it_is_empty_or_the_user_opts_out() {
    let (spoof, opt_out) = (OVERRIDE_VARIABLE, OPT_OUT_VARIABLE);
    for shell in shells() {
        for (env, wanted) in [
            // As the image sets it, and as a user sets it with `-e`.
            (&[(spoof, "11.0.0")][..], Some("11.0.0")),
            (&[(spoof, "10.3.0")], Some("10.3.0")),
            (&[(spoof, "a b\"c'$d*")], Some("a b\"c'$d*")),
            // With an empty value, the HSA runtime does not start.
            (&[(spoof, "")], None),
            (&[], None),
            (&[(spoof, "11.0.0"), (opt_out, "off")], None),
            (&[(spoof, "11.0.0"), (opt_out, "0")], None),
            (&[(spoof, "11.0.0"), (opt_out, "no")], None),
            (&[(spoof, ""), (opt_out, "off")], None),
            (&[(opt_out, "off")], None),
            (&[(spoof, "11.0.0"), (opt_out, "")], Some("11.0.0")),
            (&[(spoof, "11.0.0"), (opt_out, "on")], Some("11.0.0")),
            (&[(spoof, "11.0.0"), (opt_out, "1")], Some("11.0.0")),
            (&[(spoof, "11.0.0"), (opt_out, "offline")], Some("11.0.0")),
            (&[(spoof, "11.0.0"), (opt_out, "*")], Some("11.0.0")),
        ] {
            assert_eq!(seen(&shell, env).as_deref(), wanted, "{shell:?} {env:?}");
        }
    }
}

#[test]
fn nothing_else_of_the_environment_changes() {
    for shell in shells() {
        let env = [("A", "1"), ("B", "a b\nc"), (OVERRIDE_VARIABLE, "11.0.0"), ("EMPTY", "")];
        let output = run(&shell, &env, &["env", "-0"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let all: Vec<_> = text.split('\0').collect();
        for (name, value) in env {
            assert!(all.contains(&&*format!("{name}={value}")), "{shell:?} {name}: {all:?}");
        }
    }
}

#[test]
fn arguments_pass_unchanged() {
    let arguments = [
        "",
        " ",
        "a b",
        "'",
        "\"",
        "\\",
        "\\n",
        "a\nb",
        "$HOME",
        "$(false)",
        "`false`",
        "*",
        "~",
        "-c",
        "--",
        "-",
        ";",
        "&",
        "ü\u{1f300}",
        "#",
        "!",
        "%s",
        "a=b",
    ];
    for shell in shells() {
        let command = [&["printf", "%s\\0"], &arguments[..]].concat();
        let output = run(&shell, &[], &command);
        let text = String::from_utf8(output.stdout).unwrap();
        let found: Vec<_> = text.strip_suffix('\0').unwrap().split('\0').collect();
        assert_eq!(found, arguments, "{shell:?}");
    }
}

#[test]
fn the_command_takes_the_place_of_the_shell() {
    for shell in shells() {
        let mut command = wrapped(&shell, &[], &["sh", "-c", "echo $$"]);
        command.stdout(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        let id = child.id().to_string();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), id, "{shell:?}");
    }
}

#[test]
fn exit_codes_and_signals_are_those_of_the_command() {
    for shell in shells() {
        for code in [0, 1, 42, 126, 255] {
            let output = run(&shell, &[], &["sh", "-c", &format!("exit {code}")]);
            assert_eq!(output.status.code(), Some(code), "{shell:?}");
        }
        let output = run(&shell, &[], &["/no/such/command"]);
        assert_eq!(output.status.code(), Some(127), "{shell:?}");
        let output = run(&shell, &[], &["sh", "-c", "kill -KILL $$"]);
        assert_eq!(output.status.signal(), Some(9), "{shell:?}");

        // A signal to the started process reaches the command.
        let script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done";
        let mut command = wrapped(&shell, &[], &["sh", "-c", script]);
        command.stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let id = child.id().to_string();
        assert!(Command::new("sh").args(["-c", "kill -TERM $0", &id]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(7), "{shell:?}");
    }
}

#[test]
fn without_a_command_it_says_so() {
    for shell in shells() {
        let output = run(&shell, &[(OVERRIDE_VARIABLE, "11.0.0")], &[]);
        assert_eq!(output.status.code(), Some(127), "{shell:?}");
        assert!(output.stdout.is_empty());
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(message, "no command: this image has no default, name one\n", "{shell:?}");
    }
}
