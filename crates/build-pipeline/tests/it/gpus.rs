//! Images for several GPUs, built by one command.

use testkit::PodmanStore;

use crate::dsl::{Project, ran};
use crate::hosts;

#[test]
fn each_gpu_has_an_image_of_its_own_and_that_of_the_project_is_the_usual_one() {
    let project = Project::new();
    let usual = project.run("build official --rehearse").expect(0).digest();
    let line = "build official --rehearse --gpu gfx1151,gfx1201";
    project.run(line).expect(0);
    let digest = |folder: &str| {
        project.run(&format!("verify dist/{folder}")).expect(0).prints("proven: ");
        let index = project.read(&format!("dist/{folder}/index.json"));
        let index: serde_json::Value = serde_json::from_str(&index).unwrap();
        index["manifests"][0]["digest"].as_str().unwrap().to_owned()
    };
    assert_eq!(digest("rehearsal-official"), usual);
    assert_ne!(digest("rehearsal-official-gfx1201"), usual);

    // A plan does not depend on the other GPUs in the command.
    let plan = |gpus: &str| {
        let plan = project.run(&format!("plan official --rehearse {gpus} --format json"));
        plan.expect(0).stdout
    };
    assert_eq!(plan("--gpu gfx1151"), plan(""));
    let several = plan("--gpu gfx1151 --gpu gfx1201 --gpu gfx1151");
    let several: serde_json::Value = serde_json::from_str(&several).unwrap();
    let one: serde_json::Value = serde_json::from_str(&plan("--gpu gfx1201")).unwrap();
    assert_eq!(several.as_array().unwrap().len(), 2);
    assert_eq!(several[1], one);
}

#[test]
fn a_place_for_one_image_is_refused_for_several() {
    let project = Project::new();
    let line = "build official --rehearse --gpu gfx1151,gfx1201";
    for place in ["oci:out", "oci:out/{track}", "oci-archive:out.tar", "engine:localhost/a:b"] {
        let shown = place.replace("{track}", "official");
        project
            .run(&format!("{line} --output {place}"))
            .expect(2)
            .says(&format!("`--output {shown}` is a single place, but there are several images"))
            .says("write `{track}` and `{gpu}` into the name");
    }
    assert!(!project.path("out").exists() && !project.path("out.tar").exists());
    project.run(&format!("{line} --output oci:out/{{gpu}}")).expect(0);
    for gpu in ["gfx1151", "gfx1201"] {
        project.run(&format!("verify out/{gpu}")).expect(0);
    }
    project.run("build official --rehearse --gpu gfx1151,gfx115l").expect(2).says("`gfx115l`");
    project.run("build official --rehearse --gpu gfx1151,").expect(2).says("has an empty entry");
    let track =
        "\n[official-gfx1201]\ntitle = \"t\"\ndescription = \"d\"\nbase = \"vllm-openai-rocm\"\n";
    let tracks = project.read("versions/tracks.toml");
    project.write("versions/tracks.toml", &format!("{tracks}{track}"));
    let clash =
        "the image of `official` for gfx1201 would have the name of track `official-gfx1201`";
    project.run("plan official --rehearse --gpu gfx1201").expect(2).says(clash);
}

/// `run` starts the image for the requested GPU.
#[test]
fn a_container_is_printed_for_the_image_of_its_gpu() {
    let project = Project::new();
    for (gpu, name) in
        [("", "official"), ("--gpu gfx1151", "official"), ("--gpu gfx1201", "official-gfx1201")]
    {
        project
            .run(&format!("run official {gpu} --print quadlet"))
            .expect(0)
            .prints(&format!("Image=localhost/build-pipeline/{name}:latest\n"));
    }
    let product = ["run", "official", "--print", "quadlet", "--gpu", "RX 9070 XT"];
    let printed = ran(project.command(&product).output().unwrap()).expect(0);
    printed.prints("Image=localhost/build-pipeline/official-gfx1201:latest\n");
}

/// `run` says what `env` says about the GPU and the ROCm of the image.
#[test]
fn a_container_comes_with_what_its_gpu_cannot_do() {
    let project = Project::new();
    let run = |arguments: &str| project.run(&format!("run {arguments} --print shell")).expect(0);
    let set = "--env HSA_OVERRIDE_GFX_VERSION=";
    for (arguments, words, spoof) in [
        // Its ROCm 7.2 is too new for the GPU.
        ("trainer --gpu gfx906", "rocBLAS has no code for gfx906 since ROCm 6.4; use", ""),
        ("official --gpu gfx1030", "images do not list gfx1030", ""),
        ("trainer --gpu gfx1033", "wrong results on gfx1033", ""),
        ("ollama --gpu gfx1103", "AMD does not support HSA_OVERRIDE_GFX_VERSION", "11.0.0"),
        ("ollama --gpu gfx1031", "a program that uses Vulkan", "10.3.0"),
    ] {
        let ran = run(arguments);
        let ran = ran.says(words);
        assert_eq!(ran.stdout.contains(&format!("{set}{spoof}")), !spoof.is_empty(), "{arguments}");
    }
    // These facts are about other programs, or none is known. An image that was built for its GPU
    // has no code for the GPU of an override, and the caller's value wins.
    for arguments in [
        "ollama --gpu gfx1030",
        "ollama --gpu gfx1033",
        "trainer",
        "vulkan --gpu gfx906",
        "trainer --gpu gfx906 --no-gpu",
        "llama-rocm --gpu gfx1031",
        "source --gpu gfx1103",
        "ollama --gpu gfx1103 --env HSA_OVERRIDE_GFX_VERSION=11.0.2",
    ] {
        let ran = run(arguments);
        assert!(!ran.stderr.contains("warning"), "{arguments}: {}", ran.stderr);
        assert_eq!(ran.stdout.contains(set), arguments.contains("11.0.2"), "{arguments}");
    }
    // The container gets what its program reads.
    let ollama = run("ollama --gpu gfx1103").stdout;
    assert!(ollama.contains("OLLAMA_IGPU_ENABLE=1") && !ollama.contains("SGLANG"), "{ollama}");
}

#[test]
#[ignore = "runs every night: it takes minutes"]
fn steps_that_do_not_depend_on_the_gpu_run_once() {
    let podman = PodmanStore::new();
    let project = hosts::project(&podman);
    let line = "--variant small --gpu gfx1151,gfx1100";
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", project.path("bin").display());
    let build = format!("build vulkan {line} --engine podman");
    let mut command = project.command(&build.split(' ').collect::<Vec<_>>());
    crate::dsl::ran(command.env("PATH", path).output().unwrap()).expect(0);
    let records = project.records();
    let mut states: Vec<&str> = records
        .iter()
        .flat_map(|record| record["steps"].as_array().unwrap())
        .filter(|step| step["step"] == "bootstrap-base")
        .map(|step| step["state"].as_str().unwrap())
        .collect();
    states.sort_unstable();
    assert_eq!(states, ["cached", "done"]);
    project.run("verify dist/vulkan-small").expect(0);
    project.run("verify dist/vulkan-small-gfx1100").expect(0);

    // One job of an exported workflow builds the base for both images.
    let export =
        format!("export github vulkan {line} --store registry:ghcr.io/me/steps --install x");
    let text = project.run(&export).expect(0).stdout;
    let count =
        |job: &str| text.lines().filter(|line| line.trim_end() == format!("  {job}:")).count();
    assert_eq!(count("bootstrap-base"), 1, "{text}");
    assert_eq!(
        (count("image-vulkan-small"), count("image-vulkan-small-gfx1100")),
        (1, 1),
        "{text}"
    );
}

#[test]
fn every_command_refuses_a_gpu_that_does_not_exist() {
    let project = Project::new();
    project.write("run.sh", "true\n");
    for command in [
        "lint run.sh",
        "plan official",
        "env",
        "run official --print shell",
        "build official --rehearse",
        "patch apply vllm --root .",
        "patch hook pip",
    ] {
        let told = project.run(&format!("{command} --gpu gfx9999")).expect(2);
        told.says("the GPU `gfx9999` is not known").says("the known targets are ");
    }
}

#[test]
fn a_similar_name_is_suggested() {
    let project = Project::new();
    for (arguments, wanted) in [
        ("--for llama-cpp", "did you mean `llama.cpp`?"),
        ("--for torch", "did you mean `pytorch`?"),
        ("--gpu 1151", "did you mean `gfx1151`?"),
        ("--gpu rx7900xtx", "RX 7900 XTX`?"),
        ("--for=", "the name of the program is empty"),
        ("--gpu=", "the GPU target is empty"),
    ] {
        project.run(&format!("env {arguments}")).expect(2).says(wanted);
    }
}

#[test]
fn usage_shows_no_option_that_only_a_variable_sets() {
    let project = Project::new();
    for (variable, value, option) in [
        ("BUILD_PIPELINE_MIRROR", "docker.io=example.org", "--mirror"),
        ("BUILD_PIPELINE_MIRROR_ONLY", "1", "--mirror-only"),
        ("BUILD_PIPELINE_DIRECTORY", ".", "--directory"),
    ] {
        for arguments in [&["plan", "--wrong"][..], &["tag"], &["lint", "--format", "wrong"]] {
            let ran = ran(project.command(arguments).env(variable, value).output().unwrap());
            assert!(!ran.stderr.contains(option), "{variable} {arguments:?}: {}", ran.stderr);
            ran.expect(2);
        }
    }
}
