//! Checks whether the parts of Kubernetes manifests fit together: labels and selectors, ports,
//! volumes, init containers, jobs, and the versions of the API.

use std::rc::Rc;

use crate::facts::{Facts, Problem};
use crate::kubernetes::{labels, namespace, pod, selects};
use crate::yaml::Node;

/// The rule for names and values that do not fit together.
const REFERENCE: &str = "kubernetes-reference";

/// Kinds of objects with a selector for their own pods.
const SELECTING: [&str; 4] = ["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"];

/// Kinds of objects with pods.
const WORKLOADS: [&str; 7] =
    ["CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "StatefulSet"];

/// Adds the problems of the objects of a file.
pub(crate) fn check(objects: &[&Node], facts: &mut Facts<'_>) {
    let mut problems = Vec::new();
    for object in objects {
        let kind = text(object, &["kind"]).unwrap_or_default();
        version(object, kind, &mut problems);
        if SELECTING.contains(&kind) {
            selector(object, &mut problems);
        }
        if let Some(pod) = pod(object).filter(|_| WORKLOADS.contains(&kind)) {
            let is_job = matches!(kind, "CronJob" | "Job");
            in_pod(object, pod, is_job, &mut problems);
        }
    }
    services(objects, &mut problems);
    facts.problems.extend(problems);
}

/// Returns the text at a path.
fn text<'n>(node: &'n Node, path: &[&str]) -> Option<&'n str> {
    path.iter().try_fold(node, |at, key| at.get(key))?.text()
}

fn items<'n>(node: &'n Node, key: &str) -> &'n [Rc<Node>] {
    node.get(key).map_or(&[][..], Node::items)
}

/// Versions of the API that no supported release of Kubernetes serves: the version, the kinds (all if
/// there are none), and the version that took its place.
const GONE: [(&str, &[&str], &str); 9] = [
    ("apps/v1beta1", &[], "apps/v1"),
    ("apps/v1beta2", &[], "apps/v1"),
    ("autoscaling/v2beta1", &[], "autoscaling/v2"),
    ("autoscaling/v2beta2", &[], "autoscaling/v2"),
    ("batch/v1beta1", &["CronJob"], "batch/v1"),
    ("extensions/v1beta1", &["DaemonSet", "Deployment", "ReplicaSet"], "apps/v1"),
    ("extensions/v1beta1", &["Ingress", "NetworkPolicy"], "networking.k8s.io/v1"),
    ("networking.k8s.io/v1beta1", &["Ingress"], "networking.k8s.io/v1"),
    ("policy/v1beta1", &["PodDisruptionBudget"], "policy/v1"),
];

fn version(object: &Node, kind: &str, problems: &mut Vec<Problem>) {
    let Some(node) = object.get("apiVersion") else { return };
    let own = node.text().unwrap_or_default();
    let is_gone = |(version, kinds, _): &&(&str, &[&str], &str)| {
        own == *version && (kinds.is_empty() || kinds.contains(&kind))
    };
    if let Some((_, _, new)) = GONE.iter().find(is_gone) {
        let message = format!("Kubernetes no longer serves `{own}` for `{kind}`: write `{new}`");
        problems.push(Problem { rule: "kubernetes-version", line: node.line, message });
    }
}

/// Checks for a selector that does not select the object's own pods.
fn selector(object: &Node, problems: &mut Vec<Problem>) {
    let Some(wanted) = object.get("spec").and_then(|spec| spec.get("selector")) else { return };
    let wanted = wanted.get("matchLabels");
    let own = labels(object);
    if let (Some(wanted), Some(own)) = (wanted, own)
        && !wanted.entries().is_empty()
        && !selects(Some(wanted), Some(own))
    {
        let message = "`selector.matchLabels` does not match the labels of the template, so the API refuses it";
        problems.push(Problem { rule: REFERENCE, line: wanted.line, message: message.to_owned() });
    }
}

fn in_pod(object: &Node, pod: &Node, is_job: bool, problems: &mut Vec<Problem>) {
    let containers = items(pod, "containers");
    volumes(object, pod, problems);
    for one in containers {
        probes(one, problems);
        resources(one, problems);
    }
    for (at, one) in containers.iter().enumerate() {
        let name = one.get("name").and_then(Node::text);
        let is_again = containers[..at]
            .iter()
            .any(|other| name.is_some() && other.get("name").and_then(Node::text) == name);
        if is_again {
            let message = format!("two containers have the name `{}`", name.unwrap_or_default());
            problems.push(Problem { rule: REFERENCE, line: one.line, message });
        }
    }
    for init in items(pod, "initContainers") {
        waits(init, containers, problems);
    }
    if is_job {
        job(object, pod, problems);
    }
}

/// Checks for mounts of volumes that the pod does not have.
fn volumes(object: &Node, pod: &Node, problems: &mut Vec<Problem>) {
    let claims = object.get("spec").map_or(&[][..], |spec| items(spec, "volumeClaimTemplates"));
    let known = |name: &str| {
        items(pod, "volumes").iter().any(|one| text(one, &["name"]) == Some(name))
            || claims.iter().any(|one| text(one, &["metadata", "name"]) == Some(name))
    };
    for one in items(pod, "initContainers").iter().chain(items(pod, "containers")) {
        for mount in items(one, "volumeMounts") {
            let Some(name) = mount.get("name") else { continue };
            let own = name.text().unwrap_or_default();
            if !known(own) {
                let message = format!("the pod has no volume `{own}`");
                problems.push(Problem { rule: REFERENCE, line: name.line, message });
            }
        }
    }
}

/// Checks for probes of ports that the container does not have.
fn probes(container: &Node, problems: &mut Vec<Problem>) {
    let ports = items(container, "ports");
    let has = |wanted: &str| {
        let of = |port: &Rc<Node>, key: &str| port.get(key).and_then(Node::text) == Some(wanted);
        ports.iter().any(|port| of(port, "containerPort") || of(port, "name"))
    };
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get(probe) else { continue };
        for kind in ["httpGet", "tcpSocket", "grpc"] {
            let Some(port) = probe.get(kind).and_then(|one| one.get("port")) else { continue };
            let own = port.text().unwrap_or_default();
            let is_number = own.parse::<u16>().is_ok();
            let is_said = is_number && container_words(container).any(|word| word.contains(own));
            if has(own) || is_said || own.contains('$') || is_number && ports.is_empty() {
                continue;
            }
            let message = format!("the probe asks port `{own}`, which is no port of the container");
            let rule = if is_number { "kubernetes-port" } else { REFERENCE };
            problems.push(Problem { rule, line: port.line, message });
        }
    }
}

/// Returns the number of a quantity: `500m`, `8Gi`.
fn quantity(text: &str) -> Option<f64> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let factor = match &text[end..] {
        "" => 1.0,
        "m" => 0.001,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        _ => return None,
    };
    Some(text[..end].parse::<f64>().ok()? * factor)
}

/// Checks for more resources than the limit allows, and for parts of GPUs.
fn resources(container: &Node, problems: &mut Vec<Problem>) {
    let Some(all) = container.get("resources") else { return };
    for (key, limit) in all.get("limits").map_or(&[][..], Node::entries) {
        let (Some(name), Some(most)) = (key.text(), limit.text()) else { continue };
        // A device plugin counts whole devices, and gives a container as many as it asks for.
        let is_device = name.contains('/');
        let number = quantity(most);
        if is_device && number.is_some_and(|number| number.fract() != 0.0) {
            let message = format!("`{name}: {most}`: only whole devices can be given");
            problems.push(Problem { rule: "kubernetes-gpu", line: limit.line, message });
        }
        let Some(wanted) = all.get("requests").and_then(|requests| requests.get(name)) else {
            continue;
        };
        let least = wanted.text().and_then(quantity);
        let Some((least, number)) = least.zip(number) else { continue };
        if least > number || is_device && least < number {
            let message = format!(
                "`{name}`: the request, {}, does not fit the limit, {most}",
                wanted.text().unwrap_or_default()
            );
            let rule = if is_device { "kubernetes-gpu" } else { REFERENCE };
            problems.push(Problem { rule, line: wanted.line, message });
        }
    }
}

/// Returns the words of a container's command and the values of its variables.
fn container_words(container: &Node) -> impl Iterator<Item = &str> {
    let words = ["command", "args"].into_iter().flat_map(|key| items(container, key));
    let values = items(container, "env").iter().filter_map(|one| one.get("value"));
    words.filter_map(|one| one.text()).chain(values.filter_map(Node::text))
}

/// Words of commands that wait.
const WAITS: [&str; 5] = ["until ", "wait", "while ", "nc -z", "retry"];

/// Checks for an init container that waits for another container of its pod, which starts only after
/// all init containers have ended.
fn waits(init: &Node, containers: &[Rc<Node>], problems: &mut Vec<Problem>) {
    // Such a container is a sidecar, and does not end.
    if init.get("restartPolicy").is_some() {
        return;
    }
    let command = container_words(init).collect::<Vec<_>>().join(" ").to_ascii_lowercase();
    let name = text(init, &["name"]).unwrap_or_default();
    let is_waiting = WAITS.iter().any(|word| command.contains(word));
    let is_here = ["localhost", "127.0.0.1"].iter().any(|host| command.contains(host));
    let named = containers.iter().find(|one| {
        let other = text(one, &["name"]).unwrap_or_default();
        other.len() > 2 && name.strip_prefix("wait-for-") == Some(other)
    });
    let ports = containers.iter().flat_map(|one| items(one, "ports"));
    let mut ports = ports.filter_map(|port| text(port, &["containerPort"]));
    let has_port = is_here && ports.any(|port| command.contains(port));
    if is_waiting && (named.is_some() || has_port) {
        let message = format!(
            "`{name}` waits for a container of its own pod, which starts only when `{name}` has ended"
        );
        problems.push(Problem { rule: "kubernetes-init", line: init.line, message });
    }
}

/// Checks for jobs that the API refuses, or that never end.
fn job(object: &Node, pod: &Node, problems: &mut Vec<Problem>) {
    let line = |node: &Node| node.entries().first().map_or(node.line, |(key, _)| key.line);
    let policy = pod.get("restartPolicy");
    if !matches!(policy.and_then(Node::text), Some("Never" | "OnFailure")) {
        let message =
            "a Job needs `restartPolicy: Never` or `OnFailure`, and the API refuses it without";
        let line = policy.map_or_else(|| line(pod), |one| one.line);
        problems.push(Problem { rule: REFERENCE, line, message: message.to_owned() });
    }
    let containers = items(pod, "containers");
    let serves =
        |one: &&Rc<Node>| !items(one, "ports").is_empty() || one.get("readinessProbe").is_some();
    let server = containers.iter().find(serves).filter(|_| containers.len() > 1);
    let is_stopped =
        object.get("spec").is_some_and(|spec| spec.get("activeDeadlineSeconds").is_some());
    if let Some(server) =
        server.filter(|_| !is_stopped && !containers.iter().all(|one| serves(&one)))
    {
        let name = text(server, &["name"]).unwrap_or_default();
        let message =
            format!("the Job ends only when `{name}` ends, and a server does not end by itself");
        problems.push(Problem { rule: "kubernetes-job", line: server.line, message });
    }
}

/// The maximum number of objects that are compared with each other.
const MOST: usize = 100;

/// Returns whether two objects can be in one namespace. `kubectl -n` gives it to those without one.
fn is_near(one: &Node, other: &Node) -> bool {
    namespace(one).is_none() || namespace(other).is_none() || namespace(one) == namespace(other)
}

/// Checks services against the pods of the same file.
fn services(objects: &[&Node], problems: &mut Vec<Problem>) {
    let objects = objects.get(..MOST).unwrap_or(objects);
    let kind = |one: &Node| text(one, &["kind"]).unwrap_or_default().to_owned();
    let workloads: Vec<&&Node> =
        objects.iter().filter(|one| WORKLOADS.contains(&&*kind(one))).collect();
    let all: Vec<&&Node> = objects.iter().filter(|one| kind(one) == "Service").collect();
    for service in &all {
        let Some(spec) = service.get("spec") else { continue };
        let Some(selector) = spec.get("selector").filter(|one| !one.entries().is_empty()) else {
            continue;
        };
        let selected: Vec<&&&Node> = workloads
            .iter()
            .filter(|one| is_near(one, service) && selects(Some(selector), labels(one)))
            .collect();
        if selected.is_empty() {
            // Other files can have the pods of another service.
            if let ([workload], [_]) = (workloads.as_slice(), all.as_slice()) {
                let name = text(workload, &["metadata", "name"]).unwrap_or_default();
                let message =
                    format!("the selector does not match the labels of the pods of `{name}`");
                problems.push(Problem { rule: "kubernetes-port", line: selector.line, message });
            }
            continue;
        }
        for port in items(spec, "ports") {
            let Some(target) = port.get("targetPort").or_else(|| port.get("port")) else {
                continue;
            };
            let own = target.text().unwrap_or_default();
            let is_number = own.parse::<u16>().is_ok();
            let containers: Vec<&Rc<Node>> = selected
                .iter()
                .filter_map(|one| pod(one))
                .flat_map(|pod| items(pod, "containers"))
                .collect();
            let ports = || containers.iter().flat_map(|one| items(one, "ports"));
            let key = if is_number { "containerPort" } else { "name" };
            let is_there = ports().any(|one| text(one, &[key]) == Some(own));
            let is_said =
                containers.iter().any(|one| container_words(one).any(|word| word.contains(own)));
            let is_unknown = is_number && (ports().next().is_none() || is_said);
            if !is_there && !is_unknown && !own.is_empty() && !own.contains('$') {
                let message = format!(
                    "the service sends to port `{own}`, which no container of its pods has"
                );
                let rule = if is_number { "kubernetes-port" } else { REFERENCE };
                problems.push(Problem { rule, line: target.line, message });
            }
        }
    }
}
