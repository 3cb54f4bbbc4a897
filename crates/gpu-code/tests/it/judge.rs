//! Verdicts.

use gpu_code::{CodeTarget, Verdict, Wish};

/// Judges the code for some targets (separated by spaces) on a GPU.
fn judge(gpu: &str, forced: Option<&str>, spoof: Option<&str>, code: &str) -> Verdict {
    let version = |text: Option<&str>| text.map(|text| text.parse().unwrap());
    let wish = Wish { gpu: gpu.parse().unwrap(), forced: version(forced), spoof: version(spoof) };
    let targets: Vec<CodeTarget> =
        code.split_whitespace().map(|one| one.parse().unwrap()).collect();
    wish.judge(&targets)
}

#[test]
fn the_best_code_decides() {
    for (code, wanted) in [
        ("", "host only"),
        ("gfx1151", "native"),
        ("gfx1100 gfx11-generic gfx1151", "native"),
        ("gfx1100 gfx11-generic", "generic"),
        ("amdgcnspirv", "generic"),
        ("gfx1100 gfx942:xnack+", "none"),
    ] {
        assert_eq!(judge("gfx1151", None, None, code).to_string(), wanted, "{code}");
    }
    assert_eq!(judge("gfx942", None, None, "gfx942:xnack-"), Verdict::Native);
}

#[test]
fn a_forced_version_needs_its_own_code() {
    for (forced, code, wanted) in [
        ("11.0.0", "gfx1100", "only with spoof 11.0.0"),
        ("11.0.0", "gfx1100 gfx1151", "only with spoof 11.0.0"),
        ("11.0.0", "gfx11-generic", "only with spoof 11.0.0"),
        ("11.0.0", "gfx1151", "none"),
        ("11.0.0", "", "host only"),
        ("10.3.0", "gfx11-generic gfx1151", "none"),
        ("63.255.255", "gfx1151", "none"),
        // Forcing the GPU's own version changes nothing.
        ("11.5.1", "gfx1151", "native"),
        ("11.5.1", "gfx11-generic", "generic"),
        ("11.5.1", "gfx1100", "none"),
    ] {
        let verdict = judge("gfx1151", Some(forced), None, code);
        assert_eq!(verdict.to_string(), wanted, "{forced}: {code}");
    }
    // A version that could be imitated does not help if another is forced.
    assert_eq!(judge("gfx1151", Some("10.3.0"), Some("11.0.0"), "gfx1100"), Verdict::None);
}

#[test]
fn a_possible_spoof_is_the_last_resort() {
    for (code, wanted) in [
        ("gfx1100", "only with spoof 11.0.0"),
        ("gfx1100 gfx1151", "native"),
        ("gfx1100 gfx11-generic", "generic"),
        ("gfx1030", "none"),
        ("", "host only"),
    ] {
        let verdict = judge("gfx1151", None, Some("11.0.0"), code);
        assert_eq!(verdict.to_string(), wanted, "{code}");
    }
}
