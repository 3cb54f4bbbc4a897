//! The variables of a GPU, its override, and the variables that images must not set.

use super::{message, refused};
use crate::environment::{name, value};
use crate::{Gpus, OVERRIDE, When, parse_gpus, refused_variable, unknown_ollama_variable};
use names::GpuTarget;

const GPUS: &str = r#"schema = 1
[gfx1151]
name = "a"
family = "f"
integrated = true
spoof = "11.0.0"
spoof-rocm = ["6.4 or newer"]
spoof-risk = "programs crash"
native-since = "7.2.1"
evidence = "source of gfx1151"
[gfx1150]
name = "b"
family = "f"
spoof = "11.0.0"
spoof-on-request = true
[gfx1201]
name = "c"
family = "f"
not-beside = ["gfx1151"]
[limit.one]
gpus = ["gfx1151", "gfx1201"]
rocm = ["7.1 or older"]
why = "no code for {gpu}"
instead = "ROCm 7.2 (`device-{gpu}`)"
known = "one source"
evidence = "e5"
[limit.two]
gpus = ["gfx1201"]
why = "never"
instead = "Vulkan"
known = "vendor"
evidence = "e6"
[variable.A_ALL]
value = "{gpu};{gpu}"
when = ["build", "run"]
why = "all"
evidence = "e1"
[variable.B_ONE]
value = "1"
when = ["run"]
gpus = ["gfx1151"]
why = "one"
evidence = "e2"
[variable.C_ROCM]
value = "1"
when = ["build"]
rocm = ["7.2.1 or newer"]
why = "rocm"
evidence = "e3"
[variable.AMD_LOG_LEVEL]
value = "3"
when = ["debug"]
why = "debug"
evidence = "e4"
"#;

fn gpus() -> Gpus {
    parse_gpus("gpus.toml", GPUS).unwrap_or_else(|error| panic!("{error}"))
}

fn gpu(text: &str) -> GpuTarget {
    text.parse().unwrap()
}

#[test]
fn facts_about_a_gpu_are_read_key_by_key() {
    let gpus = gpus();
    let one = &gpus.gpus[&gpu("gfx1151")];
    assert_eq!((one.name.as_str(), one.family.as_str()), ("a", "f"));
    assert_eq!(one.spoof.unwrap().to_string(), "11.0.0");
    assert!(one.is_integrated && !one.is_spoof_on_request && one.not_beside.is_empty());
    assert_eq!(one.native_since.as_deref(), Some("7.2.1"));
    assert_eq!(one.spoof_risk.as_deref(), Some("programs crash"));
    assert_eq!(one.evidence.as_deref(), Some("source of gfx1151"));
    let other = &gpus.gpus[&gpu("gfx1201")];
    assert!(!other.is_integrated && other.spoof.is_none() && other.native_since.is_none());
    assert_eq!(other.not_beside, [gpu("gfx1151")]);
    assert!(gpus.gpus[&gpu("gfx1150")].is_spoof_on_request);
    assert_eq!(gpus.variables["A_ALL"].when, [When::Build, When::Run]);
    assert_eq!(gpus.variables["B_ONE"].gpus, [gpu("gfx1151")]);
}

#[test]
fn a_variable_is_set_for_its_time_its_gpu_and_its_release() {
    let names = |target: &str, rocm: Option<&str>, asked: &[When]| {
        let settings = gpus().environment(&gpu(target), rocm, asked, None);
        settings.into_iter().map(|one| one.name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("gfx1151", None, &[When::Run]), "A_ALL B_ONE");
    assert_eq!(names("gfx1150", None, &[When::Run]), "A_ALL");
    assert_eq!(names("gfx1151", None, &[When::Build]), "A_ALL", "the release is unknown");
    assert_eq!(names("gfx1151", Some("7.2.1"), &[When::Build]), "A_ALL C_ROCM");
    assert_eq!(names("gfx1151", Some("7.2"), &[When::Build]), "A_ALL C_ROCM");
    assert_eq!(names("gfx1151", Some("7.2.0"), &[When::Build]), "A_ALL");
    assert_eq!(names("gfx1151", None, &[When::Debug]), "AMD_LOG_LEVEL");
    assert_eq!(names("gfx1151", None, &[]), "");
}

#[test]
fn a_setting_has_the_first_time_that_was_asked_for() {
    let settings =
        gpus().environment(&gpu("gfx1150"), None, &[When::Debug, When::Run, When::Build], None);
    let all: Vec<_> = settings.iter().map(|one| (one.name.as_str(), one.when)).collect();
    assert_eq!(all, [("AMD_LOG_LEVEL", When::Debug), ("A_ALL", When::Run)]);
    let one = &settings[1];
    assert_eq!(
        (one.value.as_str(), one.why.as_str(), one.evidence.as_str()),
        ("gfx1150;gfx1150", "all", "e1")
    );
}

#[test]
fn an_override_comes_first_and_code_is_built_for_the_gpu_that_it_names() {
    let spoof = Some("11.0.0".parse().unwrap());
    let settings = gpus().environment(&gpu("gfx1151"), None, &[When::Run], spoof);
    let all: Vec<_> = settings.iter().map(|one| (one.name.as_str(), one.value.as_str())).collect();
    assert_eq!(all, [(OVERRIDE, "11.0.0"), ("A_ALL", "gfx1100;gfx1100"), ("B_ONE", "1")]);
    assert_eq!((settings[0].when, settings[0].evidence.as_str()), (When::Run, "source of gfx1151"));
    assert!(settings[0].why.contains("a GPU other than gfx1151"), "{}", settings[0].why);
    assert_eq!(settings[1].why, "all: with HSA_OVERRIDE_GFX_VERSION, the runtime reports gfx1100");
    assert_eq!(settings[2].why, "one", "the value names no GPU");
    // Only a running program sees the override.
    let built = gpus().environment(&gpu("gfx1151"), None, &[When::Build], spoof);
    assert_eq!((built[0].name.as_str(), built[0].value.as_str()), ("A_ALL", "gfx1151;gfx1151"));
    // A GPU that is not in the file can have an override too.
    let unknown = gpus().environment(&gpu("gfx900"), None, &[When::Run], spoof);
    assert_eq!((unknown[0].name.as_str(), unknown[0].evidence.as_str()), (OVERRIDE, ""));
}

#[test]
fn an_override_is_wanted_until_a_release_is_native() {
    let wanted =
        |target: &str, rocm: Option<&str>| gpus().wanted_override(&gpu(target), rocm).is_some();
    assert!(wanted("gfx1151", None) && wanted("gfx1151", Some("7.2.0")));
    assert!(!wanted("gfx1151", Some("7.2.1")) && !wanted("gfx1151", Some("8.0")));
    assert!(!wanted("gfx1151", Some("7.2")), "7.2 means all releases 7.2.*");
    assert!(!wanted("gfx1150", None), "only on request");
    assert!(!wanted("gfx1201", None) && !wanted("gfx900", None));
    let native = |target: &str, rocm: &str| gpus().is_native(&gpu(target), rocm);
    assert!(native("gfx1151", "7.2.1") && !native("gfx1151", "7.1"));
    assert!(!native("gfx1150", "99.0"), "the file does not say so");
    assert!(!wanted("gfx1151", Some("6.3")), "6.3 has no code for the GPU that the spoof names");
    assert!(wanted("gfx1151", Some("6.4")));
}

#[test]
fn a_limit_is_a_sentence_for_its_gpus_and_releases() {
    let limits = |target: &str, rocm: Option<&str>| {
        let all = gpus().limits(&gpu(target), rocm);
        all.into_iter().map(|limit| limit.text).collect::<Vec<_>>().join("|")
    };
    let one = "no code for gfx1151 (one report); use ROCm 7.2 (`device-gfx1151`)";
    assert_eq!(limits("gfx1151", Some("7.1")), one);
    assert_eq!(limits("gfx1151", Some("7.1.2")), one);
    assert_eq!(limits("gfx1151", Some("7.2")), "");
    assert_eq!(limits("gfx1151", None), "", "the release is unknown");
    assert_eq!(limits("gfx1201", None), "never; use Vulkan");
    assert!(limits("gfx1201", Some("7.0")).ends_with("|never; use Vulkan"));
    assert_eq!(limits("gfx1150", Some("7.0")), "");
    let told = |lines: &str| {
        let text = format!("schema = 1\n[limit.a]\nwhy = \"w\"\nevidence = \"e\"\n{lines}\n");
        let error = parse_gpus("f", &text).unwrap_err();
        error.problems.iter().map(|one| one.message.clone()).collect::<Vec<_>>().join("|")
    };
    let missing = told("gpus = []");
    for key in ["gpus", "instead", "known"] {
        assert!(missing.contains(&format!("`{key}` is missing")), "{missing}");
    }
}

#[test]
fn rows_of_a_project_replace_rows_of_the_same_name() {
    let own = "schema = 1\n[gfx1151]\nname = \"mine\"\nfamily = \"f\"\n\
               [variable.B_ONE]\nvalue = \"2\"\nwhen = [\"run\"]\nwhy = \"mine\"\nevidence = \"e\"\n";
    let all = parse_gpus("own.toml", own).unwrap().over(gpus());
    assert_eq!(all.gpus.len(), 3);
    assert_eq!(all.gpus[&gpu("gfx1151")].name, "mine");
    assert!(all.gpus[&gpu("gfx1151")].spoof.is_none(), "rows are not mixed");
    assert_eq!((all.variables.len(), all.variables["B_ONE"].value.as_str()), (4, "2"));
    assert_eq!(all.variables["A_ALL"].why, "all");
    assert_eq!(all.limits.len(), 2);
}

#[test]
fn a_variable_needs_a_time_and_only_a_debugging_one_may_be_harmful() {
    let told = |lines: &str| {
        let text = format!(
            "schema = 1\n[variable.AMD_LOG_LEVEL]\nvalue = \"3\"\nwhy = \"w\"\nevidence = \"e\"\n{lines}\n"
        );
        match parse_gpus("f", &text) {
            Ok(_) => Vec::new(),
            Err(error) => error.problems.iter().map(|one| one.message.clone()).collect(),
        }
    };
    assert_eq!(told("when = [\"debug\"]"), Vec::<String>::new());
    let harmful = "`AMD_LOG_LEVEL` is for debugging and logs every call of the HIP runtime";
    assert_eq!(told("when = [\"debug\", \"run\"]"), [harmful]);
    assert!(
        told("when = []").iter().any(|one| one.starts_with("`when` is missing")),
        "{:?}",
        told("when = []")
    );
    assert!(told("when = [\"runs\"]").contains(&"`runs` is not a value of `when`".to_owned()));
}

#[test]
fn names_of_variables_have_a_form_and_a_largest_length() {
    let longest = "A".repeat(128);
    for good in ["A", "_a1", "VLLM_ROCM_USE_AITER", &longest] {
        assert_eq!(name(good).unwrap(), good);
    }
    for bad in ["", "1A", "A-B", "A B", "A=B", "ä", &format!("{longest}A")] {
        assert!(message(name(bad)).ends_with("is not the name of a variable"), "{bad}");
    }
    for spoof in ["HSA_OVERRIDE_GFX_VERSION", "HSA_OVERRIDE_GFX_VERSION_0"] {
        assert_eq!(
            message(name(spoof)),
            format!("`{spoof}` is the spoof, which cannot be set here")
        );
    }
    assert_eq!(
        refused(name("OLLAMA_MODEL")),
        (
            "`OLLAMA_MODEL` is not a variable of Ollama".to_owned(),
            "did you mean `OLLAMA_MODELS`? Otherwise remove it".to_owned()
        )
    );
    assert!(refused(name("OLLAMA_XYZXYZXYZ")).1.starts_with("remove it; `ollama serve --help`"));
}

#[test]
fn values_of_variables_are_one_line_without_secrets() {
    let longest = "a".repeat(4096);
    assert_eq!(value("A", &longest).unwrap(), longest);
    assert_eq!(
        message(value("A", &format!("{longest}a"))),
        "the value of `A` is `4097` bytes long"
    );
    assert_eq!(value("A", "").unwrap(), "");
    assert_eq!(
        message(value("A", "a\tb")),
        "the value of `A` contains the control character `\\u0009`: `a\\tb`"
    );
    assert_eq!(
        message(value("DB_PASSWORD", "hunter2")),
        "the value of `DB_PASSWORD` contains a password or token"
    );
    assert!(value("URL", "https://me:hunter2@a/b").is_err());
}

#[test]
fn values_that_do_the_opposite_are_refused() {
    let unified = "GGML_CUDA_ENABLE_UNIFIED_MEMORY";
    for off in ["0", "", "false", "off"] {
        assert!(message(value(unified, off)).contains("enables the feature"), "{off}");
        assert!(refused_variable(unified, off).is_some());
    }
    assert_eq!(value(unified, "1").unwrap(), "1");
    for level in ["DEBUG", "debug"] {
        assert!(
            message(value("VLLM_LOGGING_LEVEL", level))
                .ends_with("makes vLLM 20 to 100 times slower")
        );
    }
    assert!(value("VLLM_LOGGING_LEVEL", "INFO").is_ok() && value("OTHER", "0").is_ok());
}

#[test]
fn lint_hears_only_of_variables_that_are_judged() {
    let told = |name: &str, value: &str| refused_variable(name, value).map(|(told, _)| told);
    assert_eq!(
        told("OLLAMA_GPU_MEMORY", "1").as_deref(),
        Some("`OLLAMA_GPU_MEMORY` has never existed in any Ollama release")
    );
    assert_eq!(told("OLLAMA_HOST", "a\tb"), None, "the name is right, and the value is not judged");
    assert!(told("OLLAMA_HOTS", "1").is_some());
    assert_eq!(told("VLLM_LOGGING_LEVEL", "INFO"), None);
    assert_eq!(told("MY_PASSWORD", "x"), None);
    assert_eq!(told("HSA_OVERRIDE_GFX_VERSION", "11.0.0"), None, "the override has its own rules");
    assert_eq!(unknown_ollama_variable("OLLAMA_HOST"), None);
    assert_eq!(unknown_ollama_variable("HOST"), None);
    assert_eq!(unknown_ollama_variable("OLLAMA_HOTS"), Some(Some("OLLAMA_HOST")));
    assert_eq!(unknown_ollama_variable("OLLAMA_ZZZZZZZZ"), Some(None));
}
