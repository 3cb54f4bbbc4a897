//! Track `source` as the project defines it. AMD's servers cannot be reached from the development
//! network, so its plans are tested with placeholder pins and locks.

use serde_json::Value;

use crate::dsl::Project;

/// A project in which everything in the track is resolved.
fn project() -> Project {
    let project = Project::new();
    let versions = "versions/versions.toml";
    for tag in ["44", "24.04", "13"] {
        let at = format!("tag = \"{tag}\"\ndigest = \"unresolved\"");
        let with = format!("tag = \"{tag}\"\ndigest = \"sha256:{}\"", "1".repeat(64));
        project.edit(versions, &at, &with);
    }
    let at = "version = \"2.11.0\"\ncommit = \"unresolved\"";
    project.edit(versions, at, &at.replace("unresolved", &"2".repeat(40)));
    // The content of the locks does not matter here, only that they match the current project.
    let pins = pins::parse_versions(versions, &project.read(versions)).unwrap();
    let sets = "versions/python.toml";
    let sets = pins::parse_python(sets, &project.read(sets)).unwrap();
    let some = project.read("versions/locks/pylock.flash-attention.toml");
    let for_pip = project.read("versions/locks/flash-attention.requirements.lock");
    let inputs = |set: &pins::PythonSet| set.inputs(&pins).unwrap().to_string();
    let its_own = inputs(&sets["flash-attention"]);
    for (name, set) in &sets {
        let path = format!("versions/locks/pylock.{name}.toml");
        project.write(&format!("versions/locks/{name}.requirements.lock"), &for_pip);
        project.write(&path, &some.replace(&its_own, &inputs(set)));
    }
    project
}

fn plan(project: &Project, variant: &str) -> Vec<Value> {
    let line = format!("plan --track source --variant {variant} --format json");
    let ran = project.run(&line).expect(0);
    let plan: Value = serde_json::from_str(&ran.stdout).unwrap();
    plan["steps"].as_array().unwrap().clone()
}

fn step<'a>(steps: &'a [Value], id: &str) -> &'a Value {
    steps.iter().find(|step| step["id"] == id).expect(id)
}

#[test]
fn pytorch_is_compiled_where_that_is_asked_for() {
    let project = project();
    for base in ["fedora", "debian", "ubuntu"] {
        let (wheel, source) = (plan(&project, base), plan(&project, &format!("{base}-pytorch")));
        assert!(wheel.iter().all(|step| step["id"] != "build-pytorch"), "{base}");
        // The bases are the same, so both variants can share them.
        for shared in ["build-system", "seal-system", "build-rocm-pytorch", "seal-rocm-pytorch"] {
            assert_eq!(step(&wheel, shared), step(&source, shared), "{base}");
        }
        let build = &step(&source, "build-pytorch")["action"];
        assert_eq!(build["base"], "seal-rocm-pytorch");
        assert_eq!(build["args"]["PYTORCH_VERSION"], "2.11.0");
        assert_eq!(build["network"], false);
        assert_eq!(build["context"]["pytorch"], "fetch-pytorch");
        let patches = &step(&source, "fetch-pytorch")["action"]["patches"];
        assert_eq!(patches[0]["id"], "pytorch-hipblaslt-list");
        for (stage, on) in
            [("build-flash-attention", "seal-pytorch"), ("build-vllm", "seal-flash-attention")]
        {
            assert_eq!(step(&source, stage)["action"]["base"], on, "{base}");
        }
    }
}
