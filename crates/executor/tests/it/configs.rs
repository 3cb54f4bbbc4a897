//! The container settings of a Dockerfile and its base are the same with podman, docker's classic
//! builder and BuildKit.

use executor::{End, ErrorKind, Event};
use oci::LayoutImage;
use serde_json::{Value, json};

use crate::engines::{Bench, Builder};
use crate::support;

const BUILDERS: [(&str, Builder); 3] =
    [("podman", Builder::Podman), ("classic", Builder::Classic), ("buildkit", Builder::BuildKit)];

/// Builds with each builder, and returns the `config` and the listing, which must be the same for
/// all.
async fn built(bench: &Bench) -> (Value, String) {
    let mut images = Vec::new();
    for (store, builder) in BUILDERS {
        let settings = bench.settings(store, true);
        let (execution, _) = bench.run(builder, &settings).await;
        assert!(matches!(execution.end, End::Succeeded), "{store}: {:?}", execution.end);
        let image = LayoutImage::read(&bench.path("out")).unwrap();
        let config: Value = serde_json::from_slice(&image.config).unwrap();
        images.push((store, config["config"].clone(), bench.listing(store, &bench.path("out"))));
    }
    let (_, config, listing) = images.remove(0);
    for (store, other_config, other_listing) in images {
        assert_eq!(other_config, config, "{store}");
        assert_eq!(other_listing, listing, "{store}");
    }
    (config, listing)
}

/// Returns whether a listing contains a file with this content.
fn has(listing: &str, path: &str, content: &str) -> bool {
    let sha256 = names::Digest::of(content.as_bytes());
    listing.lines().any(|line| line.contains(path) && line.contains(sha256.hex()))
}

const EVERYTHING: &str = r#"ARG BASE
FROM ${BASE}
MAINTAINER Somebody <somebody@example.org>
RUN echo "$-" | tr -dc eu > /flags-before
SHELL ["/bin/sh", "-eu", "-c"]
ARG PORT=80
ENV CHECK=/health N=77
RUN echo "$-" | tr -dc eu > /flags-after
HEALTHCHECK --interval=1m30s --timeout=3s --start-period=1s --retries=4 \
  # why
  CMD wget  $CHECK:${PORT} || exit 1
EXPOSE 80 90/udp 9000-9002 $N
LABEL a=$N "two words"='$N'
STOPSIGNAL SIGUSR1
ONBUILD RUN echo triggered
WORKDIR rel
USER 5:6
VOLUME ["/data", "/more"]
VOLUME /$N
ENTRYPOINT exec   \
   # comment
   "$N"
CMD echo a
"#;

#[tokio::test(flavor = "multi_thread")]
async fn every_instruction_about_containers_gives_one_config_on_every_engine() {
    let (mut config, listing) = built(&Bench::new(EVERYTHING).await).await;
    assert!(has(&listing, "flags-before", "") && has(&listing, "flags-after", "ue"), "{listing}");
    let labels = config["Labels"].as_object_mut().unwrap();
    labels.retain(|name, _| !name.contains('.'));
    let expected = json!({
        "Cmd": ["/bin/sh", "-eu", "-c", "echo a"],
        "Entrypoint": ["/bin/sh", "-eu", "-c", "exec      \"$N\""],
        "Env": ["PATH=/bin", "CHECK=/health", "N=77", "C=3"],
        "ExposedPorts": {
            "77/tcp": {}, "80/tcp": {}, "90/udp": {},
            "9000/tcp": {}, "9001/tcp": {}, "9002/tcp": {},
        },
        "Healthcheck": {
            "Test": ["CMD-SHELL", "wget  $CHECK:${PORT} || exit 1"],
            "Interval": 90_000_000_000_u64, "Timeout": 3_000_000_000_u64,
            "StartPeriod": 1_000_000_000, "Retries": 4,
        },
        "Labels": { "a": "77", "two words": "$N" },
        "OnBuild": ["RUN echo triggered"],
        "Shell": ["/bin/sh", "-eu", "-c"],
        "StopSignal": "SIGUSR1",
        "User": "5:6",
        "Volumes": { "/77": {}, "/data": {}, "/more": {} },
        "WorkingDir": "/rel",
    });
    assert_eq!(config, expected);
}

/// Returns a base config with everything that the OCI format cannot represent, and a volume.
fn base_config() -> Value {
    json!({
        "Env": ["PATH=/bin"],
        "Healthcheck": { "Test": ["CMD", "/bin/true"], "Interval": 60_000_000_000_u64 },
        "OnBuild": ["RUN echo triggered > /triggered"],
        "Shell": ["/bin/sh", "-eu", "-c"],
        "Volumes": { "/data": {} },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_base_says_is_inherited_on_every_engine() {
    let text = "ARG BASE\nFROM ${BASE}\nRUN echo \"$-\" | tr -dc eu > /flags\n\
                RUN mkdir -p /data && echo kept > /data/kept\nCMD echo a\n";
    let (config, listing) = built(&Bench::on(text, b"", &base_config()).await).await;
    assert!(has(&listing, "flags", "ue"), "{listing}");
    assert!(has(&listing, "triggered", "triggered\n"), "{listing}");
    assert!(has(&listing, "data/kept", "kept\n"), "{listing}");
    assert_eq!(config["Healthcheck"], base_config()["Healthcheck"]);
    assert_eq!(config["Shell"], base_config()["Shell"]);
    assert_eq!(config["Volumes"], base_config()["Volumes"]);
    assert_eq!(config["Cmd"], json!(["/bin/sh", "-eu", "-c", "echo a"]));
    assert!(config.get("OnBuild").is_none(), "a trigger runs once: {config}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_health_check_of_a_base_can_be_removed_and_replaced() {
    for (instruction, wanted) in [
        ("HEALTHCHECK NONE", json!({ "Test": ["NONE"] })),
        ("healthcheck cmd [\"/bin/a\", \"b\"]", json!({ "Test": ["CMD", "/bin/a", "b"] })),
    ] {
        let text = format!(
            "ARG BASE\nFROM ${{BASE}} AS one\n{instruction}\nFROM one\nCOPY Dockerfile /x\n"
        );
        let (config, _) = built(&Bench::on(&text, b"", &base_config()).await).await;
        assert_eq!(config["Healthcheck"], wanted, "{instruction}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_after_a_volume_is_refused_before_anything_is_fetched() {
    let bench = Bench::new("ARG BASE\nFROM ${BASE}\nVOLUME /data\nRUN echo lost > /data/x\n").await;
    let settings = bench.settings("store", true);
    let (execution, _) = bench.run(Builder::Podman, &settings).await;
    let End::Failed(error) = execution.end else { panic!("it is built") };
    assert_eq!(error.kind(), ErrorKind::Dockerfile, "{error}");
    let told = support::chain(&error);
    assert!(
        told.starts_with("`Dockerfile`, line 4: this RUN comes after VOLUME (line 3)"),
        "{told}"
    );
    assert_eq!(execution.traffic.requests, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_a_base_are_replaced_and_reset_alike_on_every_engine() {
    let base = json!({
        "Env": ["PATH=/bin"], "Cmd": ["base-cmd"], "Entrypoint": ["/base"],
        "ExposedPorts": { "1/tcp": {} }, "Labels": { "a": "base" }, "StopSignal": "SIGINT",
        "User": "1", "WorkingDir": "/etc",
    });
    for (instructions, entrypoint, cmd) in [
        ("ENTRYPOINT [\"/x\"]", json!(["/x"]), Value::Null),
        ("CMD [\"x\"]", json!(["/base"]), json!(["x"])),
        ("CMD []", json!(["/base"]), Value::Null),
        ("ENTRYPOINT []", Value::Null, Value::Null),
        ("CMD [\"x\"]\nENTRYPOINT [\"/x\"]", json!(["/x"]), json!(["x"])),
        ("ENTRYPOINT []\nCMD x", Value::Null, json!(["/bin/sh", "-c", "x"])),
        ("EXPOSE 2\nLABEL b=new\nUSER 2\nWORKDIR /bin", json!(["/base"]), json!(["base-cmd"])),
    ] {
        let text = format!("ARG BASE\nFROM ${{BASE}}\n{instructions}\nCOPY Dockerfile /x\n");
        let (config, _) = built(&Bench::on(&text, b"", &base).await).await;
        assert_eq!((&config["Entrypoint"], &config["Cmd"]), (&entrypoint, &cmd), "{instructions}");
    }
}

/// Builds with docker's classic builder, and returns the messages of a rule's notes.
async fn notes(text: &str, rule: &str) -> Vec<String> {
    let bench = Bench::new(text).await;
    let settings = bench.settings("store", true);
    let (execution, events) = bench.run(Builder::Classic, &settings).await;
    assert!(matches!(execution.end, End::Succeeded), "{:?}", execution.end);
    let notes = events.into_iter().filter_map(|event| match event {
        Event::Note { rule: found, message } if found == rule => Some(message),
        _ => None,
    });
    notes.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_depends_on_the_engine_is_told() {
    let text = "ARG BASE\nFROM ${BASE}\nUSER 5\nWORKDIR /new\n";
    let told = notes(text, "workdir-after-user").await;
    assert!(matches!(&*told, [one] if one.starts_with("`Dockerfile`, line 4: ")), "{told:?}");
    let text = "ARG BASE\nFROM ${BASE}\nRUN echo 1 > /a && ln /a /b\nRUN chmod 600 /b\n";
    let told = notes(text, "hard-links-broken").await;
    assert!(matches!(&*told, [one] if one.contains("a RUN changed `/b`, which")), "{told:?}");
    let text =
        "ARG BASE\nFROM ${BASE}\nRUN echo 1 > /a && ln /a /b && chmod 600 /b\nRUN echo > /c\n";
    assert!(notes(text, "hard-links-broken").await.is_empty());
}
