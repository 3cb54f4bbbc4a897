//! Container requests in podman's own format.
//!
//! The docker-compatible format does not support `keep-groups`: podman's command line sets the
//! annotation that crun reads, and podman 4.3 accepts annotations only in its own format.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::build::{CONTAINER_LABEL, Network};
use crate::container::ContainerRequest;
use crate::error::EngineError;

/// The annotation that makes crun keep the groups of its caller.
const KEEP_GROUPS: &str = "run.oci.keep_original_groups";

/// Returns a request in the format of podman's API.
pub(crate) fn body(request: &ContainerRequest) -> Result<Value, EngineError> {
    let keeps_groups = request.groups.iter().any(|group| group == "keep-groups");
    let groups: Vec<&String> =
        request.groups.iter().filter(|group| *group != "keep-groups").collect();
    let annotations: BTreeMap<&str, &str> =
        keeps_groups.then_some((KEEP_GROUPS, "1")).into_iter().collect();
    let devices: Vec<Value> = request
        .devices
        .iter()
        .map(|device| {
            let path = format!("{}:{}:rwm", device.source.display(), device.target.display());
            json!({ "path": path })
        })
        .collect();
    let mounts: Vec<Value> = request
        .mounts
        .iter()
        .map(|mount| {
            let mut options = vec!["rbind", if mount.is_read_only { "ro" } else { "rw" }];
            options.extend(mount.is_relabelled.then_some("z"));
            json!({
                "type": "bind", "source": mount.source, "destination": mount.target,
                "options": options,
            })
        })
        .collect();
    let ports: Vec<Value> = request
        .ports
        .iter()
        .map(|port| {
            json!({
                "host_ip": port.address, "host_port": port.host,
                "container_port": port.container, "protocol": "tcp",
            })
        })
        .collect();
    let limit = |name: &str, value: Option<i64>| {
        value.map(|value| json!({ "type": name, "soft": value, "hard": value }))
    };
    let limits = [limit("nofile", request.open_files), limit("nproc", request.processes)];
    let labels: BTreeMap<&str, &str> = (!request.is_detached)
        .then(|| (CONTAINER_LABEL, request.run.as_str()))
        .into_iter()
        .collect();
    let mut all = json!({
        "image": request.image,
        "env": request.env,
        "labels": labels,
        "annotations": annotations,
        "groups": groups,
        "devices": devices,
        "mounts": mounts,
        "portmappings": ports,
        "terminal": request.has_terminal,
        "stdin": request.has_input,
        "r_limits": limits.into_iter().flatten().collect::<Vec<Value>>(),
    });
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            all[name] = value;
        }
    };
    set("name", request.name.clone().map(Value::from));
    set("entrypoint", request.entrypoint.clone().map(Value::from));
    set("command", (!request.command.is_empty()).then(|| request.command.clone().into()));
    set("user", request.user.clone().map(Value::from));
    set("work_dir", request.working_folder.clone().map(Value::from));
    set("shm_size", request.shared_memory.map(Value::from));
    set(
        "netns",
        request.network.map(
            |network| json!({ "nsmode": if network == Network::None { "none" } else { "host" } }),
        ),
    );
    for option in &request.security {
        match option.split_once(['=', ':']) {
            None if option == "no-new-privileges" => set("no_new_privileges", Some(true.into())),
            Some(("seccomp", profile)) => set("seccomp_profile_path", Some(profile.into())),
            Some(("label", label)) => set("selinux_opts", Some(json!([label]))),
            _ => {
                return Err(EngineError::Nonsense {
                    action: format!("create a container of `{}`", request.image),
                    detail: format!("`{option}` is not a known security option"),
                });
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::RunId;

    #[test]
    fn groups_are_kept_by_an_annotation_and_not_by_name() {
        let run = RunId::parse("r").unwrap();
        let request = ContainerRequest {
            groups: vec!["keep-groups".to_owned()],
            security: vec!["no-new-privileges".to_owned(), "seccomp=unconfined".to_owned()],
            ..ContainerRequest::new(run, "image")
        };
        let body = body(&request).unwrap();
        assert_eq!(body["annotations"], json!({ "run.oci.keep_original_groups": "1" }));
        assert_eq!(body["groups"], json!([]));
        assert_eq!(
            (&body["no_new_privileges"], &body["netns"]["nsmode"]),
            (&json!(true), &json!("none"))
        );
        assert_eq!(body["seccomp_profile_path"], "unconfined");
        assert!(body.get("entrypoint").is_none() && body.get("user").is_none());
        let wrong = ContainerRequest { security: vec!["privileged".to_owned()], ..request };
        assert!(super::body(&wrong).is_err());
    }
}
