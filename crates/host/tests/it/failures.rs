//! Tests the catalogue of known failures on logs: each failure is recognised, and clean logs match
//! none.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Read};

use host::failures::{Failures, parse_failures};

pub(crate) const CATALOGUE: &str = include_str!("../../../../versions/failures.toml");
pub(crate) const FAILING: &str = include_str!("../logs/failing.txt");
const CLEAN: &str = include_str!("../logs/clean.txt");

pub(crate) fn catalogue() -> Failures {
    parse_failures("versions/failures.toml", CATALOGUE).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the logs of a file, with their names.
pub(crate) fn logs(text: &str) -> Vec<(&str, &str)> {
    text.split("━━ ").skip(1).map(|log| log.split_once('\n').unwrap()).collect()
}

pub(crate) fn names(failures: &Failures, log: &[u8]) -> Vec<String> {
    let found = failures.diagnose(log).unwrap().found;
    found.into_iter().map(|one| one.failure.name.clone()).collect()
}

#[test]
fn every_failure_is_recognised_in_its_log_and_no_other() {
    let failures = catalogue();
    let (mut covered, mut wrong) = (BTreeSet::new(), String::new());
    for (name, log) in logs(FAILING) {
        let found = names(&failures, log.as_bytes());
        if found != [name] {
            writeln!(wrong, "{name}: found {found:?} in\n{log}").unwrap();
        }
        covered.insert(name);
    }
    assert_eq!(wrong, "");
    assert_eq!(covered, failures.names().collect(), "each failure has a log");
    assert!(covered.len() >= 50, "{}", covered.len());
}

/// A crash far from the check, or of other software, is not a ROCm failure.
#[test]
fn no_clean_log_is_accused() {
    let failures = catalogue();
    let clean = logs(CLEAN);
    assert!(clean.len() >= 290, "{}", clean.len());
    let accused: Vec<String> = clean
        .into_iter()
        .map(|(name, log)| format!("{name}: {:?}", names(&failures, log.as_bytes())))
        .filter(|line| !line.ends_with(": []"))
        .collect();
    assert_eq!(accused, [""; 0]);
}

#[test]
fn all_that_a_log_shows_is_told_in_its_order_with_lines() {
    let failures = catalogue();
    let log = "platform rocm\ntwo\nunable to find group render\r\nfour\n\
        RuntimeError: operator torchvision::nms does not exist\nunable to find group render";
    let all = failures.diagnose(log.as_bytes()).unwrap();
    assert_eq!((all.lines, all.bytes), (6, log.len() as u64));
    let told: Vec<_> = all
        .found
        .iter()
        .map(|one| (one.failure.name.as_str(), one.lines[0].number, one.count))
        .collect();
    assert_eq!(told, [("unknown-group", 3, 2), ("torchvision-nms", 5, 1)]);
    assert_eq!(all.found[0].lines[0].text, "unable to find group render");
}

/// `--no-mmap` fixes a different fault, which the same GitHub issue describes.
#[test]
fn memory_in_use_needs_another_rocm_and_no_option() {
    let failures = catalogue();
    let logs = logs(FAILING);
    let (_, log) = logs.iter().find(|(name, _)| *name == "memory-in-use").unwrap();
    let found = failures.diagnose(log.as_bytes()).unwrap().found;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].fix, ["use ROCm 7.13 or newer"]);
}

/// Missing firmware cancels `gpu-init-failed` only where `firmware-missing` is reported instead.
#[test]
fn a_gpu_that_does_not_start_has_one_cause() {
    let failures = catalogue();
    let missing = [
        "Direct firmware load for amdgpu/gc_11_5_1_pfp.bin failed with error -2",
        "amdgpu/polaris10_pfp.bin failed with error -2",
        "gfx8: Failed to load firmware \"amdgpu/polaris10_pfp.bin\"",
        "could not load firmware image 'amdgpu/sienna_cichlid_sos.bin'",
    ];
    let broken = [
        "Fatal error during GPU init",
        "hw_init of IP block <psp> failed -22",
        "PSP firmware loading failed",
    ];
    for (firmware, start) in missing.iter().flat_map(|one| broken.iter().map(move |two| (one, two)))
    {
        let start = format!("amdgpu 0000:01:00.0: {start}");
        let log = |lines: usize| format!("{firmware}{}{start}", "\n".repeat(lines));
        assert_eq!(names(&failures, log(1).as_bytes()), ["firmware-missing"], "{firmware} {start}");
        assert_eq!(names(&failures, log(60).as_bytes()), ["firmware-missing"]);
        assert_eq!(names(&failures, log(61).as_bytes()), ["gpu-init-failed"]);
        let reverse = format!("{start}\n{firmware}");
        assert_eq!(names(&failures, reverse.as_bytes()), ["firmware-missing"]);
    }
}

/// A GPU whose queues do not answer is supported by the driver. The kernel's messages often come
/// long after the program's.
#[test]
fn a_gpu_that_does_not_answer_is_not_called_unsupported() {
    let failures = catalogue();
    let refused = "Unable to open /dev/kfd read-write: Bad address";
    let ring = "amdgpu 0000:03:00.0: [drm:amdgpu_ib_ring_tests [amdgpu]] *ERROR* IB test failed on";
    for (lines, test, found) in [
        (1, "comp_1.0.1 (-110).", &["gpu-ring-test-failed"][..]),
        (300, "gfx (-110).", &["gpu-ring-test-failed"]),
        (301, "sdma0 (-110).", &["kfd-refused", "gpu-ring-test-failed"]),
        (1, "vcn_dec (-110).", &["kfd-refused"]),
    ] {
        let log = format!("{refused}{}{ring} {test}", "\n".repeat(lines));
        assert_eq!(names(&failures, log.as_bytes()), found, "{lines} {test}");
    }
    let reset = format!("amdgpu 0000:03:00.0: amdgpu: GPU reset begin!\n{ring} sdma0 (-110).");
    assert_eq!(names(&failures, reset.as_bytes()), ["gpu-context-lost"]);
}

/// A GPU that left the bus, or did not resume, explains the timeouts and faults around it.
#[test]
fn a_gpu_that_is_gone_is_the_only_cause() {
    let failures = catalogue();
    let gpu = "amdgpu 0000:03:00.0: ";
    let consequences = [
        ("mes-timeout", 100, "MES failed to respond to msg=REMOVE_QUEUE"),
        ("ring-timeout", 100, "ring sdma1 timeout, signaled seq=1, emitted seq=3"),
        ("page-fault-in-kernel-log", 300, "[gfxhub] page fault (src_id:0 ring:24 vmid:6)"),
        ("gpu-context-lost", 300, "Failed to initialize parser -125!"),
        ("gpu-queue-stopped", 300, "Trying to push to a killed entity"),
        ("gpu-hang", 200, "HW Exception by GPU node-1 reason :GPU Hang"),
    ];
    for (cause, message) in [
        ("gpu-lost-from-bus", "device lost from bus!"),
        ("gpu-lost-from-bus", "SMU: bus error for message: Any(18) response:0xFFFFFFFF"),
        ("gpu-resume-failed", "amdgpu_device_ip_resume failed (-62)."),
    ] {
        for (other, within, consequence) in consequences {
            let log = |lines| format!("{gpu}{message}{}{gpu}{consequence}", "\n".repeat(lines));
            assert_eq!(names(&failures, log(within).as_bytes()), [cause], "{message} {other}");
            assert_eq!(names(&failures, log(within + 1).as_bytes()), [cause, other], "{message}");
            let reverse = format!("{gpu}{consequence}\n{gpu}{message}");
            assert_eq!(names(&failures, reverse.as_bytes()), [cause], "{message} {other}");
        }
    }
    let answer = format!("{gpu}SMU: bus error for message: Any(18) response:0x00000001");
    assert_eq!(names(&failures, answer.as_bytes()), [""; 0]);
    let reset =
        format!("{gpu}resume of IP block <gfx_v11_0> failed -110\n{gpu}ring gfx_0.0.0 timeout");
    assert_eq!(names(&failures, reset.as_bytes()), ["ring-timeout"]);
}

/// A reset, a fault of the IOMMU and a frozen screen are often consequences. The error that comes
/// with them is the cause.
#[test]
fn a_consequence_is_reported_only_without_its_cause() {
    let failures = catalogue();
    let gpu = "amdgpu 0000:03:00.0: ";
    for (consequence, message) in [
        ("gpu-context-lost", "amdgpu: GPU reset begin!"),
        ("iommu-fault", "AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000f address=0x1000]"),
        ("display-frozen", "[drm] *ERROR* [CRTC:91:crtc-1] flip_done timed out"),
    ] {
        let alone = format!("{gpu}{message}");
        assert_eq!(names(&failures, alone.as_bytes()), [consequence]);
        for (cause, error) in [
            ("ring-timeout", "ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3"),
            ("mes-timeout", "MES failed to respond to msg=REMOVE_QUEUE"),
            ("gpu-lost-from-bus", "device lost from bus!"),
        ] {
            for lines in [1, 300] {
                let log = format!("{gpu}{error}{}{gpu}{message}", "\n".repeat(lines));
                assert_eq!(names(&failures, log.as_bytes()), [cause], "{message} {lines}");
            }
            let log = format!("{gpu}{error}{}{gpu}{message}", "\n".repeat(301));
            assert_eq!(names(&failures, log.as_bytes()), [cause, consequence], "{message}");
        }
    }
}

/// A HIP error that no other row matches is `hip-unclear-error`; the others keep their own rows.
#[test]
fn an_error_of_hip_has_one_answer() {
    let failures = catalogue();
    for (error, found) in [
        ("out of memory", "gpu-out-of-memory"),
        ("invalid device function", "no-kernel-image"),
        ("invalid argument", "hip-invalid-argument"),
        ("an illegal memory access was encountered", "illegal-access"),
        ("unspecified launch failure", "launch-failure"),
        ("device kernel image is invalid", "kernel-image-invalid"),
        ("no ROCm-capable device is detected", "no-hip-gpu"),
        ("invalid device ordinal", "hip-device-number"),
        ("named symbol not found", "hip-symbol-not-found"),
        ("device-side assert triggered", "hip-device-assert"),
        ("operation not permitted when stream is capturing", "hip-graph-capture"),
        ("the operation cannot be performed in the present state", "hip-unclear-error"),
        ("an error that nobody has seen", "hip-unclear-error"),
    ] {
        let log = format!("torch.AcceleratorError: HIP error: {error}");
        assert_eq!(names(&failures, log.as_bytes()), [found], "{error}");
    }
}

/// A reader that returns a text in pieces of varying size.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = (self.1 * 7 + 3) % 97 + 1;
        let length = self.1.min(self.0.len()).min(buffer.len());
        buffer[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        Ok(length)
    }
}

#[test]
fn how_a_log_arrives_changes_nothing() {
    let failures = catalogue();
    // Far apart, so that no log affects the next one.
    let all = FAILING.replace("━━ ", &format!("{}━━ ", "\n".repeat(2500)));
    let whole = failures.diagnose(all.as_bytes()).unwrap();
    let found: BTreeSet<&str> = whole.found.iter().map(|one| &*one.failure.name).collect();
    let missing: Vec<&str> = failures.names().filter(|name| !found.contains(name)).collect();
    assert_eq!(missing, [""; 0]);
    assert_eq!(whole.found.len(), found.len());
    assert_eq!(failures.diagnose(Pieces(all.as_bytes(), 1)).unwrap(), whole);
    let windows = all.replace('\n', "\r\n");
    let found = failures.diagnose(windows.as_bytes()).unwrap().found;
    assert_eq!(found.len(), whole.found.len());
}

/// Compose, Kubernetes and others write something before each line.
#[test]
fn what_stands_before_each_line_hides_nothing() {
    let failures = catalogue();
    let rows = ["command-not-in-image", "make-command-missing", "vllm-op-missing"];
    for (name, log) in logs(FAILING).into_iter().filter(|(name, _)| rows.contains(name)) {
        for prefix in ["vllm-1  | ", "2026-10-01T12:00:00.123456789Z ", "#12 34.56 "] {
            let log: String = log.lines().map(|line| format!("{prefix}{line}\n")).collect();
            assert_eq!(names(&failures, log.as_bytes()), [name], "{log}");
        }
    }
}

#[test]
fn long_lines_colours_and_rubbish_hide_nothing() {
    let failures = catalogue();
    let fault = "Memory access fault by GPU node-1 (Agent handle: 0x5)";
    let long = format!("{}{fault}{}", "x".repeat(600_000), "y".repeat(600_000));
    assert_eq!(names(&failures, long.as_bytes()), ["memory-access-fault"]);
    let coloured = "\x1b[1;31mMemory access \x1b[0mfault by GPU node-1\n";
    assert_eq!(names(&failures, coloured.as_bytes()), ["memory-access-fault"]);
    let mut rubbish: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
    rubbish.extend_from_slice(b"\n\xff\xfe Memory access fault by GPU node-1 \xff\n\0");
    assert_eq!(names(&failures, &rubbish), ["memory-access-fault"]);
    assert_eq!(names(&failures, b""), [""; 0]);
}

#[test]
fn a_fault_at_any_place_of_a_large_log_is_found() {
    let failures = catalogue();
    let line = "[1422/2610] Building HIP object CMakeFiles/_C.dir/csrc/attention/attention.hip.o\n";
    for before in (12_900..13_300).step_by(7) {
        let log = format!(
            "{}clang++: error: unable to execute command: Killed\n{line}",
            line.repeat(before)
        );
        let all = failures.diagnose(log.as_bytes()).unwrap();
        assert_eq!(all.found.len(), 1, "{before}");
        assert_eq!(all.found[0].lines[0].number, before as u64 + 1);
        assert_eq!(all.lines, before as u64 + 2);
    }
}

/// A trace of Python shows the start of a statement, and the message at its end.
#[test]
fn the_message_of_an_exception_is_shown_and_not_its_statement() {
    let failures = catalogue();
    let log = "    raise OfflineModeIsEnabled(\n\
        huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach https://huggingface.co: offline\n";
    let told = failures.diagnose(log.as_bytes()).unwrap();
    let numbers: Vec<u64> = told.found[0].lines.iter().map(|line| line.number).collect();
    assert_eq!((told.found.len(), &numbers[..]), (1, &[2][..]));
    let statement = log.lines().next().unwrap();
    assert_eq!(names(&failures, statement.as_bytes()), [""; 0]);
}

/// A catalogue with one failure for each kind of evidence.
const SMALL: &str = "schema = 1
mentions = ['^ *[0-9]+ [|]', 'PASSED$']
unknown-names = ['NameError: .it broke']
errors = ['[a-z]Error: [^ ]', 'it fails:']
follow-ups = ['StepError:']
[about.rocm]
signs = ['ROCm is here']
against = ['NVIDIA is here']
[about.some]
signs = ['for some']
advice = ['Some:']
[about.most]
signs = ['for most']
against = ['not for']
advice = ['Most:']
[failure.both]
all = ['first half', 'second half']
within = 3
cause = 'a'
fix = ['b']
known = 'vendor'
evidence = 'c'
[failure.unless]
any = ['it broke']
unless = ['it works']
within = 2
cause = 'a'
reasons = ['Some: b', 'Most: c', 'd']
fix = ['b', 'Some: c', 'Most: d']
known = 'vendor'
evidence = 'c'
[failure.about]
any = ['it failed']
about = 'rocm'
within = 2
cause = 'a'
fix = ['b']
known = 'vendor'
evidence = 'c'
[failure.presumed]
any = ['it stopped']
details = ['part [0-9]+ was at work']
about = 'rocm'
presumed = true
cause = 'a'
fix = ['b']
known = 'vendor'
evidence = 'c'
[failure.fine]
any = ['never mind']
harmless = true
cause = 'a'
fix = ['b']
known = 'vendor'
evidence = 'c'
[failure.unclear]
any = ['no idea why']
unclear = true
within = 3
cause = 'a'
fix = ['b']
known = 'vendor'
evidence = 'c'
[failure.unclear-too]
any = ['who knows']
unclear = true
within = 1
cause = 'a'
fix = ['b']
known = 'vendor'
evidence = 'c'
";

#[test]
fn evidence_is_weighed_by_what_is_near_it() {
    let failures = parse_failures("failures.toml", SMALL).unwrap();
    for (log, found) in [
        // Lines that belong together are close, in any order.
        ("first half\n\n\nsecond half", &["both"][..]),
        ("second half\nfirst half", &["both"]),
        ("first half and second half", &["both"]),
        ("first half\n\n\n\nsecond half", &[]),
        ("first half\n\n\n\n\nfirst half\nsecond half", &["both"]),
        ("first half", &[]),
        // Counter-evidence cancels what is near it, before and after.
        ("it broke", &["unless"]),
        ("it broke, but it works", &[]),
        ("it works\n\nit broke", &[]),
        ("it works\n\n\nit broke", &["unless"]),
        ("it broke\n\nit works", &[]),
        ("it broke\n\n\nit works", &["unless"]),
        ("it broke\nit works\n\n\n\nit broke", &["unless"]),
        // The log must come from the subject.
        ("it failed", &[]),
        ("ROCm is here\n\n\n\n\nit failed", &["about"]),
        ("it failed\n\n\n\n\nROCm is here", &["about"]),
        ("NVIDIA is here\nit failed", &[]),
        // In a log about both, the sign must be near.
        ("ROCm is here\n\n\n\nit failed\nNVIDIA is here", &[]),
        ("ROCm is here\n\nit failed\nNVIDIA is here", &["about"]),
        ("NVIDIA is here\n\n\n\nit failed\n\nROCm is here", &["about"]),
        ("NVIDIA is here\nit failed\n\n\n\nit failed\nROCm is here", &["about"]),
        ("it stopped", &["presumed"]),
        ("it stopped\nNVIDIA is here", &[]),
        ("never mind", &["fine"]),
    ] {
        assert_eq!(names(&failures, log.as_bytes()), found, "{log}");
        let is_failure = found.iter().any(|name| *name != "fine");
        assert_eq!(failures.diagnose(log.as_bytes()).unwrap().has_failure(), is_failure, "{log}");
    }
    let all = failures.diagnose(&b"x\nsecond half\nfirst half\nfirst half\n"[..]).unwrap();
    let lines: Vec<u64> = all.found[0].lines.iter().map(|line| line.number).collect();
    assert_eq!((lines, all.found[0].count), (vec![2, 3], 3));
    // A line with both patterns counts once.
    let all = failures.diagnose(&b"first half, second half\nfirst half\n"[..]).unwrap();
    assert_eq!(all.found[0].count, 2);
}

#[test]
fn what_is_only_for_other_logs_is_left_out() {
    let failures = parse_failures("failures.toml", SMALL).unwrap();
    for (log, cause, fix) in [
        ("it broke", "a. Most: c. d", &["b", "Most: d"][..]),
        ("it broke, not for you", "a. d", &["b"]),
        ("it broke, not for you but for most", "a. Most: c. d", &["b", "Most: d"]),
        ("it broke\n\n\n\nfor some, not for you", "a. Some: b. d", &["b", "Some: c"]),
    ] {
        let found = failures.diagnose(log.as_bytes()).unwrap().found;
        assert_eq!((found[0].cause.as_str(), &found[0].fix[..]), (cause, &told(fix)[..]), "{log}");
    }
}

/// The message of ggml names the device that failed; the other GPUs of its list work.
#[test]
fn advice_is_for_the_device_that_failed() {
    let failures = catalogue();
    let log = |device: &str| {
        format!(
            "ggml_cuda_init: found 2 ROCm devices:\n  Device 0: AMD Radeon RX 9070, gfx1201\n  \
             Device 1: AMD Radeon 740M Graphics, gfx1103\nROCm error: invalid device function\n  \
             current device: {device}, in function f\n"
        )
    };
    for (device, about, other) in [("0", "gfx1200 and", "gfx1101"), ("1", "gfx1101", "gfx1200 and")]
    {
        let all = failures.diagnose(log(device).as_bytes()).unwrap();
        assert_eq!((all.lines, all.bytes), (5, log(device).len() as u64));
        let has = |text: &str| all.found[0].fix.iter().any(|one| one.starts_with(text));
        assert!(has(about) && !has(other) && has("Several GPUs:"), "{:?}", all.found[0].fix);
        let lines: Vec<u64> = all.found[0].lines.iter().map(|line| line.number).collect();
        assert_eq!(lines, [4, if device == "0" { 2 } else { 3 }, 5]);
    }
}

fn told(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn a_line_that_only_mentions_a_failure_shows_none() {
    let failures = parse_failures("failures.toml", SMALL).unwrap();
    for (log, found) in [
        ("  12 | it broke", &[][..]),
        ("test it broke PASSED", &[]),
        ("test it broke FAILED", &["unless"]),
        ("  12 | it broke\nit broke", &["unless"]),
        ("it broke\n  12 | it broke", &["unless"]),
        ("  12 | first half\nsecond half", &[]),
        ("  12 | first half\nsecond half\nfirst half", &["both"]),
        ("NameError: 'it broke' is unknown", &[]),
        ("NameError: 'it broke' is unknown\nit broke", &["unless"]),
        // A mention is counter-evidence and a sign as every other line is.
        ("it broke\n  12 | it works", &[]),
        ("  12 | ROCm is here\nit failed", &["about"]),
    ] {
        assert_eq!(names(&failures, log.as_bytes()), found, "{log}");
    }
    let all = failures.diagnose(&b"NameError: 'it broke' is unknown\n"[..]).unwrap();
    assert_eq!(all.errors.count, 1, "the line states an error");
    let all = failures.diagnose(&b"it broke\n  12 | it broke\n"[..]).unwrap();
    assert_eq!(all.found[0].count, 1);
}

#[test]
fn what_a_log_states_is_shown_if_no_failure_explains_it() {
    let failures = parse_failures("failures.toml", SMALL).unwrap();
    for (log, count, shown) in [
        ("fine\nalso fine", 0, &[][..]),
        ("fine\nValueError: no\nfine", 1, &[2]),
        ("ValueError: it fails: no\nfine", 1, &[1]),
        ("it fails: a\nfine\nKeyError: b\nfine\nit fails: c\nfine", 3, &[1, 5]),
        // A mention states nothing.
        ("  12 | it fails: a\nKeyError: b", 1, &[2]),
        // A harmless failure explains nothing, and what comes before an unclear one may explain it.
        ("never mind\nit fails: a", 1, &[2]),
        ("it broke\nit fails: a", 0, &[]),
        ("no idea why\nit fails: a", 0, &[]),
        ("KeyError: b\nfine\nno idea why\nit fails: a", 1, &[1]),
        ("KeyError: b\nfine\nKeyError: c\nno idea why", 2, &[1, 3]),
        ("StepError: b\nno idea why", 0, &[]),
        ("KeyError: b\nno idea why\nit broke", 0, &[]),
        ("it broke, but it works\nit fails: a", 1, &[2]),
    ] {
        let errors = failures.diagnose(log.as_bytes()).unwrap().errors;
        let numbers: Vec<u64> = errors.lines.iter().map(|line| line.number).collect();
        assert_eq!((errors.count, &numbers[..]), (count, shown), "{log}");
        for line in errors.lines {
            let text = log.lines().nth(line.number as usize - 1).unwrap();
            assert_eq!(line.text, text, "{log}");
        }
    }
}

#[test]
fn lines_that_tell_more_are_shown_after_the_failure() {
    let failures = parse_failures("failures.toml", SMALL).unwrap();
    let part = |number| format!("part {number} was at work\n");
    for (log, lines) in [
        ("it stopped\n".to_owned(), &[1][..]),
        (format!("{}{}{}it stopped\n{}", part(1), part(2), part(3), part(4)), &[4, 2, 3]),
        (format!("{}fine\nit stopped\n{}{}", part(1), part(2), part(3)), &[3, 1, 4]),
        (format!("{}{}it stopped\n", part(1), "\n".repeat(199)), &[201, 1]),
        (format!("{}{}it stopped\n", part(1), "\n".repeat(200)), &[202]),
        (format!("it stopped, {}{}", part(1), part(2)), &[1, 2]),
    ] {
        let found = failures.diagnose(log.as_bytes()).unwrap().found;
        let numbers: Vec<u64> = found[0].lines.iter().map(|line| line.number).collect();
        assert_eq!(numbers, lines, "{log}");
    }
}

/// What only follows from another error is left out, and the lines that continue an error belong
/// to it, however the log arrives.
#[test]
fn an_error_is_quoted_with_what_explains_it() {
    let failures = parse_failures("failures.toml", SMALL).unwrap();
    let long = format!("ValueError: {}, because of b", "a".repeat(400));
    let long_line = format!("KeyError: {}", "a".repeat(70));
    let repeated = format!("{long_line}\nit fails: b\n").repeat(4) + &long_line;
    for (log, quoted) in [
        ("KeyError: a\nStepError: b\nfine", &["KeyError: a"][..]),
        ("fine\nStepError: b\nStepError: c\nStepError: d", &["StepError: b", "StepError: d"]),
        ("KeyError: a:\n\nthe reason\nmore", &["KeyError: a: the reason"]),
        ("KeyError: a:\r\nthe reason\r\n", &["KeyError: a: the reason"]),
        ("KeyError: a\n    the reason\n  more\n  too far", &["KeyError: a the reason more"]),
        ("  KeyError: a\n  not the reason", &["KeyError: a"]),
        ("KeyError: a\n    7 | source code", &["KeyError: a"]),
        // A compiler's message is one line; older ones quote source code without a number.
        (
            " a.c:7:3: error: it fails: b\n      code(b)\n        ^~",
            &["a.c:7:3: error: it fails: b"],
        ),
        ("a.c:7: fatal error: it fails: b\n  code", &["a.c:7: fatal error: it fails: b"]),
        ("error: it fails: b\n  the reason", &["error: it fails: b the reason"]),
        // The same line again and again looks as long as the terminal is wide.
        (&repeated, &[&long_line, &long_line]),
        (&long, &[&long]),
    ] {
        for log in [log.to_owned(), format!("{log}\n{}", "fine\n".repeat(9))] {
            let told = failures.diagnose(log.as_bytes()).unwrap().errors.lines;
            let texts: Vec<&str> = told.iter().map(|line| line.text.as_str()).collect();
            assert_eq!(texts, quoted, "{log}");
            let pieces = failures.diagnose(Pieces(log.as_bytes(), 1)).unwrap().errors.lines;
            assert_eq!(pieces, told, "{log}");
        }
    }
}

#[test]
fn an_unclear_failure_is_reported_only_if_no_other_one_explains_it() {
    let failures = parse_failures("failures.toml", SMALL).unwrap();
    for (log, found) in [
        ("no idea why", &["unclear"][..]),
        ("it broke\n\n\nno idea why", &["unless"]),
        ("no idea why\n\n\nit broke", &["unless"]),
        ("it broke\n\n\n\nno idea why", &["unless", "unclear"]),
        ("first half\n\nsecond half\n\nno idea why", &["both"]),
        // What was cancelled, or is harmless, explains nothing.
        ("it broke, but it works\nno idea why", &["unclear"]),
        ("never mind\nno idea why", &["fine", "unclear"]),
        // Of two, the first is reported, at the distance of the second.
        ("no idea why\nwho knows", &["unclear"]),
        ("no idea why\n\nwho knows", &["unclear", "unclear-too"]),
        ("who knows\n\n\nno idea why", &["unclear-too"]),
        ("who knows, no idea why", &["unclear", "unclear-too"]),
        // Close lines can be far apart in time.
        ("[   10.000001] it broke\n[  610.000001] no idea why", &["unless"]),
        ("[   10.000001] it broke\n[ 4810.000001] no idea why", &["unless", "unclear"]),
        ("Nov 12 10:00:00 it broke\nNov 12 10:09:00 no idea why", &["unless"]),
        ("Nov 12 10:00:00 it broke\nNov 12 11:20:00 no idea why", &["unless", "unclear"]),
    ] {
        assert_eq!(names(&failures, log.as_bytes()), found, "{log}");
    }
}

/// These lines are in nearly every trace, compiler message and test log of a working program.
#[test]
fn names_of_errors_in_working_programs_are_no_failure() {
    let failures = catalogue();
    for line in [
        "  211 |   if (err == hipErrorOutOfMemory || err == hipErrorNoDevice) {",
        "hip_runtime_api.h:301:5: note: 'hipErrorInvalidValue' declared here",
        "hipPointerGetAttributes: Returned hipErrorInvalidValue :",
        "hipify: hipErrorNoDevice -> cudaErrorNoDevice",
        "[       OK ] Unit_hipGetErrorName.hipErrorNoDevice (0 ms)",
        "test_errors.py::test_message[HIP error: invalid device function] PASSED [ 41%]",
        "HEAD is now at 6c1f2b7d Drop the workaround for hipErrorInvalidDeviceFunction",
    ] {
        assert_eq!(names(&failures, format!("gfx1100 \n{line}").as_bytes()), [""; 0], "{line}");
    }
    for (line, found) in [
        ("hipMalloc: Returned hipErrorOutOfMemory :", "gpu-out-of-memory"),
        ("RuntimeError: hipErrorNoDevice", "no-hip-gpu"),
        ("test_errors.py::test_add FAILED: HIP error: invalid device function", "no-kernel-image"),
    ] {
        assert_eq!(names(&failures, format!("gfx1100 \n{line}").as_bytes()), [found], "{line}");
    }
}

#[test]
fn a_line_without_end_is_searched_from_end_to_end() {
    let failures = parse_failures("failures.toml", SMALL).unwrap();
    for at in [0, 8_000, 1_040_000, 1_048_570, 2_090_000, 3_000_000] {
        let log = format!("{}it broke{}", "first half, ".repeat(at / 12), "y".repeat(40_000));
        let all = failures.diagnose(log.as_bytes()).unwrap();
        assert_eq!(all.found.len(), 1, "{at}");
        assert!(all.found[0].lines[0].text.contains("it broke"), "{at}");
        assert_eq!((all.lines, all.found[0].count), (1, 1), "{at}");
    }
}

#[test]
fn a_wrong_catalogue_is_answered_with_places() {
    let cases = [
        ("unknown table", "[failures.a]\n"),
        (
            "name",
            "[failure.A]\nany = ['abcdef']\ncause = 'a'\nfix = ['b']\nknown = 'vendor'\nevidence = 'c'\n",
        ),
        ("nothing in it", "[failure.a]\n"),
        (
            "any and all",
            "[failure.a]\nany = ['abcdef']\nall = ['abcdef']\ncause = 'a'\nfix = ['b']\nknown = 'vendor'\nevidence = 'c'\n",
        ),
        (
            "not a pattern",
            "[failure.a]\nany = ['abcdef(']\ncause = 'a'\nfix = ['b']\nknown = 'vendor'\nevidence = 'c'\n",
        ),
        (
            "look-around",
            "[failure.a]\nany = ['abcdef(?=x)']\ncause = 'a'\nfix = ['b']\nknown = 'vendor'\nevidence = 'c'\n",
        ),
        (
            "no fixed text",
            "[failure.a]\nany = ['[a-z]+ (ab|abcdef)']\ncause = 'a'\nfix = ['b']\nknown = 'vendor'\nevidence = 'c'\n",
        ),
        (
            "too large",
            "[failure.a]\nany = ['abcdef[a-z]{1000}{1000}']\ncause = 'a'\nfix = ['b']\nknown = 'vendor'\nevidence = 'c'\n",
        ),
        (
            "within is a word",
            "[failure.a]\nany = ['abcdef']\nwithin = 'near'\ncause = 'a'\nfix = ['b']\nknown = 'vendor'\nevidence = 'c'\n",
        ),
        (
            "within is nothing",
            "[failure.a]\nany = ['abcdef']\nwithin = 0\ncause = 'a'\nfix = ['b']\nknown = 'vendor'\nevidence = 'c'\n",
        ),
        (
            "an unknown subject",
            "[about.rocm]\nsigns = ['abcdef']\n[failure.a]\nany = ['abcdef']\nabout = 'rocn'\ncause = 'a'\nfix = ['b']\nknown = 'vendor'\nevidence = 'c'\n",
        ),
        ("a subject without signs", "[about.rocm]\nagainst = ['abcdef']\n"),
        (
            "known in another way",
            "[failure.a]\nany = ['abcdef']\ncause = 'a'\nfix = ['b']\nknown = 'hearsay'\nevidence = 'c'\n",
        ),
        ("a mention that is not a pattern", "mentions = ['abc(']\n"),
        ("newer", "schema = 2\n"),
    ];
    let mut answers = String::new();
    for (name, body) in cases {
        let head = if body.starts_with("schema") { "" } else { "schema = 1\n" };
        let error = parse_failures("failures.toml", &format!("{head}{body}")).unwrap_err();
        writeln!(answers, "━━ {name}\n{error}").unwrap();
    }
    insta::assert_snapshot!(answers);
}
