//! Targets, and which code matches which GPU.

use gpu_code::{CodeTarget, Fit};

fn target(text: &str) -> CodeTarget {
    text.parse().unwrap()
}

#[test]
fn targets_are_printed_in_one_form() {
    for (text, processor, printed) in [
        ("gfx1151", "gfx1151", "gfx1151"),
        ("gfx90a", "gfx90a", "gfx90a"),
        ("gfx11-generic", "gfx11-generic", "gfx11-generic"),
        ("gfx9-4-generic:xnack-", "gfx9-4-generic", "gfx9-4-generic:xnack-"),
        ("amdgcnspirv", "amdgcnspirv", "amdgcnspirv"),
        ("gfx942:xnack+", "gfx942", "gfx942:xnack+"),
        ("gfx90a:sramecc+:xnack-", "gfx90a", "gfx90a:sramecc+:xnack-"),
        ("gfx90a:xnack-:sramecc+", "gfx90a", "gfx90a:sramecc+:xnack-"),
    ] {
        let target = target(text);
        assert_eq!((target.processor(), target.to_string().as_str()), (processor, printed));
    }
}

#[test]
fn what_is_no_target_is_refused() {
    for (text, wanted) in [
        ("", "`` is not a GPU target"),
        ("gfx", "`gfx` is not a GPU target"),
        ("gfxabcd", "`gfxabcd` is not a GPU target"),
        ("GFX1151", "`GFX1151` is not a GPU target"),
        ("gfx1151 ", "`gfx1151 ` is not a GPU target"),
        ("gfx11xx", "`gfx11xx` is not a GPU target"),
        ("sm_80", "`sm_80` is not a GPU target"),
        ("\x1b[2J", "`\\u{1b}[2J` is not a GPU target"),
        ("gfx1151:", "`` is not a feature of a GPU target"),
        ("gfx942:xnack", "`xnack` is not a feature of a GPU target"),
        ("gfx942:xnack++", "`xnack++` is not a feature of a GPU target"),
        ("gfx942:wave64+", "`wave64+` is not a feature of a GPU target"),
        ("gfx942:sramecc+:", "`` is not a feature of a GPU target"),
    ] {
        assert_eq!(text.parse::<CodeTarget>().unwrap_err(), wanted);
    }
}

#[test]
fn code_fits_its_processor_and_generic_code_fits_its_members() {
    let (exact, generic) = (Some(Fit::Exact), Some(Fit::Generic));
    for (code, gpu, wanted) in [
        ("gfx1151", "gfx1151", exact),
        ("gfx1151", "gfx1150", None),
        ("gfx1100", "gfx1151", None),
        ("gfx11-generic", "gfx1151", generic),
        ("gfx11-generic", "gfx1100", generic),
        ("gfx11-generic", "gfx1201", None),
        ("gfx11-generic", "gfx1030", None),
        ("gfx10-3-generic", "gfx1030", generic),
        ("gfx10-3-generic", "gfx1010", None),
        ("gfx10-1-generic", "gfx1010", generic),
        ("gfx9-generic", "gfx906", generic),
        ("gfx9-generic", "gfx942", None),
        ("gfx9-4-generic", "gfx942", generic),
        ("gfx12-generic", "gfx1201", generic),
        ("gfx12-5-generic", "gfx1250", generic),
        ("amdgcnspirv", "gfx1151", generic),
        // Whether xnack is on depends on the machine.
        ("gfx942:xnack+", "gfx942", exact),
        ("gfx942:xnack-", "gfx942", exact),
        ("gfx90a:sramecc+:xnack-", "gfx90a", exact),
        ("gfx90a:xnack+", "gfx908", None),
    ] {
        assert_eq!(target(code).fits(&gpu.parse().unwrap()), wanted, "{code} on {gpu}");
    }
}
