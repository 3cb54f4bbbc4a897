//! Images that cannot be a base are refused before they are pinned, planned or copied, and requests
//! that cannot be planned before a registry is asked.

use serde_json::Value;
use testkit::{FaultProxy, RandomImage, shared_registry};

use crate::dsl::{Project, same};

/// Images that no track can build on: each with its tag, and what is wrong with it.
fn unusable() -> [(RandomImage, &'static str, &'static str); 4] {
    let (of_arm, chart) = ("arm64", Some("application/vnd.cncf.helm.config.v1+json"));
    [
        (
            RandomImage { is_index: true, architecture: of_arm, ..RandomImage::new(9801) },
            "v9.1",
            "the index has no image for linux/amd64; it has linux/arm64, unknown/unknown",
        ),
        (
            RandomImage { architecture: of_arm, ..RandomImage::new(9802) },
            "v9.2",
            "the image is for linux/arm64, not for linux/amd64",
        ),
        (
            RandomImage { config_type: chart, ..RandomImage::new(9803) },
            "v9.3",
            "not an image, but an artifact of the type `application/vnd.cncf.helm.config.v1+json`",
        ),
        (
            RandomImage { is_index: true, config_type: chart, ..RandomImage::new(9804) },
            "v9.4",
            "not an image, but an artifact of the type `application/vnd.cncf.helm.config.v1+json`",
        ),
    ]
}

#[test]
fn an_image_that_cannot_be_a_base_is_refused_by_every_command() {
    let project = Project::new();
    let host = shared_registry().host();
    let before = project.files();
    for (number, (image, tag, why)) in unusable().into_iter().enumerate() {
        // Each image is the newest one of its own repository.
        let path = format!("usable-{}/{number}", std::process::id());
        let pushed = image.push(host, &path, tag);
        let mirror = format!("--mirror docker.io/rocm/vllm-dev={host}/{path}");
        let ran = project.run(&format!("bump vllm-dev-locked {tag} {mirror}")).expect(2);
        let next = "`build-pipeline bump vllm-dev-locked TAG` uses another tag";
        ran.says(&format!("cannot pin `docker.io/rocm/vllm-dev:{tag}`")).says(why).says(next);
        let ran = project.run(&format!("bump vllm-dev-locked {} {mirror}", pushed.digest));
        ran.expect(2).says(why).says("nothing was changed");
        for line in ["plan locked-spoof", "mirror locked-spoof --to dir:copy", "build locked-spoof"]
        {
            let set = format!("--set vllm-dev-locked={tag} {mirror}");
            let ran = project.run(&format!("{line} {set}")).expect(2).says(why);
            assert!(ran.says("`--set vllm-dev-locked=TAG`").stdout.is_empty(), "{line}");
            // A digest is looked up only when the base is fetched.
            let set = format!("--set vllm-dev-locked={} {mirror}", pushed.digest);
            if !line.starts_with("plan") {
                project.run(&format!("{line} {set}")).expect(1).says(why).says("for linux/amd64");
            }
        }
        let pin = format!(
            "schema = 1\nsource-date-epoch = 1795132800\n[image.mine]\nrepository = \"{host}/{path}\"\ntag = \"{tag}\"\ndigest = \"sha256:{}\"\nchecked = 2026-11-20\nevidence = \"here\"\n",
            "0".repeat(64)
        );
        let own = Project::empty();
        own.write("registries.conf", "");
        own.write("versions/versions.toml", &pin);
        let report = own.run("outdated --format json").stdout;
        let report: Value = serde_json::from_str(&report).unwrap();
        let detail = report["pins"][0]["detail"].as_str().unwrap();
        assert!(
            detail.contains(&format!(", but `{host}/{path}@")) && detail.contains(why),
            "{detail}"
        );
    }
    let mut now = project.files();
    now.retain(|name, _| !name.starts_with("dist") && !name.starts_with("copy"));
    same(&now, &before, "refused images");
}

/// The newest tag is an image for other machines: `outdated` says so, and `bump` refuses it.
#[test]
fn a_newer_tag_that_bump_refuses_is_reported_with_the_reason() {
    let host = shared_registry().host();
    let path = format!("usable-newer-{}", std::process::id());
    let first = RandomImage::new(9811).push(host, &path, "v1.0");
    let newer = RandomImage { architecture: "arm64", ..RandomImage::new(9812) };
    newer.push(host, &path, "v1.1");
    let project = Project::empty();
    project.write("registries.conf", "");
    let pin = format!(
        "schema = 1\nsource-date-epoch = 1795132800\n[image.mine]\nrepository = \"{host}/{path}\"\ntag = \"v1.0\"\ndigest = \"{}\"\nchecked = 2026-11-20\nevidence = \"here\"\n",
        first.digest
    );
    project.write("versions/versions.toml", &pin);
    project
        .run("outdated")
        .prints("tag `v1.1` was published, but `")
        .prints("the image is for linux/arm64");
    project.run("bump mine").expect(2).says("the image is for linux/arm64");
    assert_eq!(project.read("versions/versions.toml"), pin);
}

#[test]
fn a_request_that_cannot_be_planned_is_refused_before_a_registry_is_asked() {
    let project = Project::new();
    let registry = FaultProxy::alone();
    let mirror = format!("--mirror docker.io={}", registry.host());
    for (line, why) in [
        ("plan locked-spoof --set ollama=v1", "`locked-spoof` does not use pin `ollama`"),
        ("build locked-spoof --set ollama=v1", "`locked-spoof` does not use pin `ollama`"),
        (
            "bundle locked-spoof --set ollama=v1 -o x.tar",
            "`locked-spoof` does not use pin `ollama`",
        ),
        ("plan locked-spoof --set vllm-dev-locked=v1 --variant x", "variant"),
        ("plan locked-spoof --set vllm-dev-locked=v1 --gpu gfx9999", "gfx9999"),
    ] {
        project.run(&format!("{line} {mirror}")).expect(2).says(why);
        assert_eq!(registry.requests().len(), 0, "{line}");
    }
}
