//! Reads Kubernetes manifests: the containers of pods, with their images, variables and devices.

use std::collections::BTreeSet;

use crate::containers::{self, LOGIN, SERVES_ALL, named};
use crate::facts::{Container, Facts, Image, Problem};
use crate::manifests;
use crate::shell::{Scope, Setting, Word};
use crate::yaml::{self, Node};

/// Kinds of objects that contain pods or variables.
const KINDS: [&str; 12] = [
    "ClusterServingRuntime",
    "ConfigMap",
    "CronJob",
    "DaemonSet",
    "Deployment",
    "InferenceService",
    "Job",
    "List",
    "Pod",
    "ReplicaSet",
    "ServingRuntime",
    "StatefulSet",
];

/// Returns whether a YAML file is a manifest, and not a template for one.
pub(crate) fn is_manifest(text: &str) -> bool {
    let kind = |line: &str| {
        let kind = line.trim_start_matches("- ").trim_start().strip_prefix("kind:");
        let kind = kind.and_then(|kind| kind.split('#').next());
        kind.is_some_and(|kind| KINDS.contains(&kind.trim().trim_matches('"')))
    };
    let has_version =
        text.lines().any(|line| line.trim_start_matches("- ").starts_with("apiVersion:"));
    has_version && !text.contains("{{") && text.lines().any(kind)
}

/// Adds the facts of a manifest.
pub(crate) fn read(text: &str, facts: &mut Facts<'_>) {
    let documents = yaml::documents(text);
    let mut objects: Vec<&Node> = Vec::new();
    for document in &documents {
        objects.push(document);
        let items = document.get("items").map_or(&[][..], Node::items);
        objects.extend(items.iter().map(|item| &**item));
    }
    for one in &objects {
        object(one, facts);
    }
    exposed(&objects, facts);
    manifests::check(&objects, facts);
}

/// The maximum number of objects that are compared with each other.
const MOST_OBJECTS: usize = 100;

/// Checks for services that other machines reach, and whose pods have a server without a key.
fn exposed(objects: &[&Node], facts: &mut Facts<'_>) {
    let objects = objects.get(..MOST_OBJECTS).unwrap_or(objects);
    for service in objects {
        let is_service = service.get("kind").and_then(Node::text) == Some("Service");
        let Some(spec) = service.get("spec").filter(|_| is_service) else { continue };
        let kind = spec.get("type").and_then(|kind| Some((kind.text()?, kind.line)));
        let Some((kind, line)) = kind else { continue };
        if !matches!(kind, "LoadBalancer" | "NodePort") {
            continue;
        }
        let ports: Vec<&str> = spec
            .get("ports")
            .map_or(&[][..], Node::items)
            .iter()
            .filter_map(|port| port.get("targetPort").or_else(|| port.get("port"))?.text())
            .collect();
        let is_selected = |object: &&&Node| {
            namespace(object) == namespace(service) && selects(spec.get("selector"), labels(object))
        };
        let mut containers = objects
            .iter()
            .filter(is_selected)
            .filter_map(|object| pod(object))
            .flat_map(|pod| pod.get("containers").map_or(&[][..], Node::items));
        if containers.any(|one| is_open(one, &ports)) {
            let message = format!("`type: {kind}` opens a server without a key to other machines");
            facts.problems.push(Problem { rule: "service-open", line, message });
        }
    }
}

/// Returns the namespace of an object.
pub(crate) fn namespace(object: &Node) -> Option<&str> {
    object.get("metadata")?.get("namespace")?.text()
}

/// Returns the labels of an object's pods.
pub(crate) fn labels(object: &Node) -> Option<&Node> {
    let template = object.get("spec").and_then(|spec| spec.get("template"));
    template.unwrap_or(object).get("metadata")?.get("labels")
}

/// Returns whether a selector selects pods with these labels.
pub(crate) fn selects(selector: Option<&Node>, labels: Option<&Node>) -> bool {
    let (Some(selector), Some(labels)) = (selector, labels) else { return false };
    let has = |(key, value): &(Node, std::rc::Rc<Node>)| {
        let own = key.text().and_then(|key| labels.get(key)).and_then(Node::text);
        own.is_some() && own == value.text()
    };
    !selector.entries().is_empty() && selector.entries().iter().all(has)
}

/// Returns whether a container is a server without a key that listens on one of these ports on all
/// addresses.
fn is_open(container: &Node, ports: &[&str]) -> bool {
    let started = words(container);
    let texts: Vec<&str> = started.iter().map(|word| word.text.as_str()).collect();
    let markers = containers::markers(&texts.join(" "), container.line);
    let has = |marker: &str| markers.iter().any(|one| one.text == marker);
    let is_key = |variable: &std::rc::Rc<Node>| {
        variable.get("name").and_then(Node::text).is_some_and(|name| name.contains("API_KEY"))
    };
    let has_key = container.get("env").map_or(&[][..], Node::items).iter().any(is_key)
        || container.get("envFrom").is_some();
    let own = container.get("ports").map_or(&[][..], Node::items).iter();
    let own = own.flat_map(|port| ["containerPort", "name"].map(|key| port.get(key)?.text()));
    let given = texts.windows(2).filter(|two| two[0] == "--port").map(|two| two[1]);
    let is_reached = own.flatten().chain(given).any(|port| ports.contains(&port));
    has(SERVES_ALL) && !has(LOGIN) && !has_key && is_reached
}

/// Tags that move. Other tags of a chart's images are left to the chart.
const MOVING: [&str; 6] = ["dev", "edge", "latest", "main", "master", "nightly"];

/// Adds the images with moving tags in the values of a Helm chart: `repository` and `tag` side by
/// side.
pub(crate) fn values(text: &str, facts: &mut Facts<'_>) {
    if text.lines().any(|line| line.trim_start().starts_with("repository:")) {
        let mut left = MOST_VALUES;
        for document in yaml::documents(text) {
            image_values(&document, &mut left, facts);
        }
    }
}

/// The number of values that are read. Aliases can repeat a value very often.
const MOST_VALUES: usize = 10_000;

fn image_values(node: &Node, left: &mut usize, facts: &mut Facts<'_>) {
    *left = left.saturating_sub(1);
    if *left == 0 {
        return;
    }
    let plain = |key: &str| {
        let own = node.entries().iter().find(|(name, _)| name.text() == Some(key));
        own.and_then(|(_, value)| Some((value.text()?, value.line)))
    };
    let is_digest = plain("digest").is_some_and(|(digest, _)| !digest.is_empty());
    if let (Some((repository, _)), Some((tag, line))) = (plain("repository"), plain("tag"))
        && MOVING.contains(&tag)
        && !is_digest
    {
        let registry = plain("registry").map(|(registry, _)| format!("{registry}/"));
        let reference = format!("{}{repository}:{tag}", registry.unwrap_or_default());
        facts.images.push(Image::new(&reference, line));
    }
    let own = node.entries().iter().filter(|(name, _)| name.text() != Some("<<"));
    for (_, value) in own {
        image_values(value, left, facts);
    }
    for item in node.items() {
        image_values(item, left, facts);
    }
}

fn object(node: &Node, facts: &mut Facts<'_>) {
    let kind = node.get("kind").and_then(Node::text).unwrap_or_default();
    if kind == "ConfigMap" {
        let data = node.get("data").map_or(&[][..], Node::entries);
        for (name, value) in data {
            let (Some(name_text), Some(text)) = (name.text(), value.text()) else { continue };
            typed(name_text, value, facts);
            // Longer texts are files.
            if !text.contains('\n') {
                facts.settings.push(Setting::new(name_text, text, name.line, Scope::Run));
            }
        }
        return;
    }
    let Some(pod) = pod(node) else { return };
    let mut uses_gpu = None;
    for key in ["initContainers", "containers"] {
        for one in pod.get(key).map_or(&[][..], Node::items) {
            container(pod, one, facts);
            uses_gpu = uses_gpu.or_else(|| limit(one, "limits", GPU).map(|limited| limited.line));
        }
    }
    if matches!(kind, "DaemonSet" | "Deployment" | "StatefulSet") {
        unlimited(pod, facts);
    }
    if let Some(line) = uses_gpu.filter(|_| kind == "Deployment" && surges(node)) {
        let message = "an update of the Deployment needs another free GPU".to_owned();
        facts.problems.push(Problem { rule: "kubernetes-rollout", line, message });
    }
}

/// Checks for a server of models that may use all memory of its node.
fn unlimited(pod: &Node, facts: &mut Facts<'_>) {
    for one in pod.get("containers").map_or(&[][..], Node::items) {
        let Some(image) = one.get("image") else { continue };
        let reference = image.text().unwrap_or_default();
        let has = |names: &[&str]| names.iter().any(|name| reference.contains(name));
        let loads = has(&LOADERS) || reference.contains("ollama/ollama");
        if loads && !has(&NO_LOADERS) && one.get("resources").is_none() {
            let message = format!("nothing limits the memory of `{reference}`");
            let line = image.line;
            facts.problems.push(Problem { rule: "kubernetes-resources", line, message });
        }
    }
}

/// Returns the description of an object's pods.
pub(crate) fn pod(node: &Node) -> Option<&Node> {
    let path: &[&str] = match node.get("kind").and_then(Node::text).unwrap_or_default() {
        "Pod" => &["spec"],
        "ClusterServingRuntime" | "ServingRuntime" => &["spec"],
        "InferenceService" => &["spec", "predictor"],
        "CronJob" => &["spec", "jobTemplate", "spec", "template", "spec"],
        _ => &["spec", "template", "spec"],
    };
    path.iter().try_fold(node, |at, key| at.get(key))
}

/// Returns the words of the command that a container starts.
fn words(container: &Node) -> Vec<Word> {
    let lists = ["command", "args"].into_iter().filter_map(|key| container.get(key));
    let words = lists.flat_map(|list| {
        list.items()
            .iter()
            .filter_map(|item| Some(Word { text: item.text()?.to_owned(), line: item.line }))
    });
    words.collect()
}

/// AMD's resource.
const GPU: &str = "amd.com/gpu";

/// Returns the value of a resource of a container.
fn limit<'n>(container: &'n Node, section: &str, name: &str) -> Option<&'n Node> {
    container.get("resources")?.get(section)?.get(name)
}

/// Returns whether a Deployment starts a new pod before it stops the old one.
fn surges(deployment: &Node) -> bool {
    let Some(spec) = deployment.get("spec") else { return false };
    let strategy = spec.get("strategy");
    let kind = strategy.and_then(|one| one.get("type")).and_then(Node::text);
    let surge = strategy.and_then(|one| one.get("rollingUpdate")?.get("maxSurge")?.text());
    let replicas = spec.get("replicas").and_then(Node::text).unwrap_or("1");
    kind != Some("Recreate") && !matches!(surge, Some("0" | "0%")) && replicas == "1"
}

/// Variables with tokens, which belong in a Secret.
const TOKENS: [&str; 4] =
    ["HF_TOKEN", "HUGGINGFACE_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY"];

/// Returns whether a text is a token of Hugging Face or of Weights & Biases, and not a placeholder.
fn is_token(text: &str) -> bool {
    let is_key = text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_own = |rest: &str| {
        rest.len() >= 20
            && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && rest.bytes().any(|byte| !matches!(byte, b'x' | b'X'))
    };
    is_key || text.strip_prefix("hf_").is_some_and(is_own)
}

fn container(pod: &Node, node: &Node, facts: &mut Facts<'_>) {
    let name = node.get("name").and_then(Node::text).unwrap_or_default();
    let image = node.get("image").and_then(|image| Some((image.text()?, image.line)));
    let program = image.map(|(image, _)| format!("{image} {name}"));
    let mut options = if is_manager(node) { Vec::new() } else { shared(pod) };
    options.extend(own(pod, node, facts));
    for variable in node.get("env").map_or(&[][..], Node::items) {
        let (Some(key), Some(value)) = (variable.get("name"), variable.get("value")) else {
            continue;
        };
        let (Some(key_text), Some(text)) = (key.text(), value.text()) else { continue };
        typed(key_text, value, facts);
        if TOKENS.contains(&key_text) && is_token(text) {
            let message = format!("the value of `{key_text}` is in the manifest, not in a Secret");
            facts.problems.push(Problem { rule: "password-in-file", line: value.line, message });
        }
        options.push(named("--env", Some(&format!("{key_text}={text}")), key.line));
        let setting = Setting::new(key_text, text, key.line, Scope::Run);
        facts.settings.push(Setting { program: program.clone(), ..setting });
    }
    unexpanded(node, facts);
    if node.get("envFrom").is_some() {
        options.push(named("--env-file", None, node.line));
    }
    let words = words(node);
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    options.extend(containers::markers(&texts.join(" "), node.line));
    if let Some((reference, line)) = image {
        probe(node, reference, facts);
        // An image that is never pulled was loaded into the node.
        let policy = node.get("imagePullPolicy").and_then(Node::text);
        if policy != Some("Never") || reference.contains('/') {
            facts.images.push(Image::new(reference, line));
        }
        containers::start(words, reference, facts);
    }
    let image = image.map(|(text, line)| Word { text: text.to_owned(), line });
    facts.containers.push(Container::new(image, options));
}

/// Parts of the names of variables that Kubernetes sets for each service.
const OF_SERVICES: [&str; 2] = ["_SERVICE_", "_PORT"];

/// Checks for values with variables that Kubernetes does not know: it replaces `$(NAME)` only if the
/// pod, not the image, sets the variable before.
fn unexpanded(container: &Node, facts: &mut Facts<'_>) {
    if container.get("envFrom").is_some() {
        return;
    }
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for variable in container.get("env").map_or(&[][..], Node::items) {
        let value = variable.get("value").and_then(|value| Some((value.text()?, value.line)));
        if let Some((text, line)) = value {
            let names = text.match_indices("$(").filter(|(at, _)| !text[..*at].ends_with('$'));
            let names = names.filter_map(|(at, _)| text[at + 2..].split_once(')'));
            let is_unknown = |name: &&str| {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                !name.is_empty()
                    && name.chars().all(is_name)
                    && !known.contains(name)
                    && !OF_SERVICES.iter().any(|part| name.contains(part))
            };
            let mut names = names.map(|(name, _)| name);
            if let Some(name) = names.find(is_unknown) {
                let message =
                    format!("`$({name})` stays as it is: the pod does not set `{name}` before");
                facts.problems.push(Problem { rule: "kubernetes-variable", line, message });
            }
        }
        known.extend(variable.get("name").and_then(Node::text));
    }
}

/// Parts of the names of servers that load a model before they answer.
const LOADERS: [&str; 4] = ["llama.cpp", "sglang", "text-generation-inference", "vllm"];

/// Parts of the names of images that belong to such a server, and load no model.
const NO_LOADERS: [&str; 6] = ["controller", "exporter", "gateway", "operator", "proxy", "router"];

/// The seconds that a server can need to load or download a model.
const LOADING: u32 = 600;

/// Checks for a liveness probe that ends a server while it loads its model.
fn probe(container: &Node, image: &str, facts: &mut Facts<'_>) {
    let own = container.entries().iter().find(|(key, _)| key.text() == Some("livenessProbe"));
    let has = |names: &[&str]| names.iter().any(|name| image.contains(name));
    let loads = has(&LOADERS) && !has(&NO_LOADERS);
    let Some((key, probe)) = own.filter(|_| loads && container.get("startupProbe").is_none())
    else {
        return;
    };
    let number = |name: &str, default: u32| {
        probe.get(name).and_then(Node::text).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let period = number("periodSeconds", 10).saturating_mul(number("failureThreshold", 3));
    let seconds = number("initialDelaySeconds", 0).saturating_add(period);
    if seconds < LOADING {
        let message = format!(
            "Kubernetes restarts the container if the model is not loaded after {seconds} s"
        );
        facts.problems.push(Problem { rule: "kubernetes-probe", line: key.line, message });
    }
}

/// Reports a value that is not text: the server accepts only strings here.
fn typed(name: &str, value: &Node, facts: &mut Facts<'_>) {
    let Some(text) = value.text().filter(|_| value.is_plain) else { return };
    let is_number = text.parse::<f64>().is_ok()
        && text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    let lower = text.to_ascii_lowercase();
    let is_bool = matches!(lower.as_str(), "true" | "false" | "yes" | "no" | "on" | "off");
    if is_number || is_bool {
        let kind = if is_bool { "a truth value" } else { "a number" };
        let message = format!("the value of `{name}` is {kind}, not text");
        facts.problems.push(Problem { rule: "kubernetes-value", line: value.line, message });
    }
}

/// Returns the options that all containers of a pod have.
fn shared(pod: &Node) -> Vec<Word> {
    let keys =
        [("hostNetwork", "--network=host"), ("hostPID", "--pid=host"), ("hostIPC", "--ipc=host")];
    let set = keys.iter().filter_map(|(key, option)| {
        let node = pod.get(key).filter(|node| node.text() == Some("true"))?;
        Some(named(option, None, node.line))
    });
    let mut options: Vec<Word> = set.collect();
    let runtime = pod.get("runtimeClassName");
    options.extend(runtime.map(|node| named("--runtime", node.text(), node.line)));
    let groups = pod.get("securityContext").map(|context| {
        let lists = context.get("supplementalGroups").map_or(&[][..], Node::items).iter();
        let one = context.get("fsGroup").into_iter();
        lists.map(|group| &**group).chain(one).filter_map(|group| Some((group.text()?, group.line)))
    });
    let groups = groups.into_iter().flatten();
    options.extend(groups.map(|(group, line)| named("--group-add", Some(group), line)));
    options
}

/// Parts of the names of images that manage the GPUs of a node, and need all rights.
const MANAGERS: [&str; 6] =
    ["device-plugin", "labeller", "exporter", "gpu-operator", "driver", "node-feature-discovery"];

/// Returns whether a container manages the GPUs of its node.
fn is_manager(container: &Node) -> bool {
    let image = container.get("image").and_then(Node::text).unwrap_or_default();
    MANAGERS.iter().any(|part| image.contains(part))
}

/// Variables that select GPUs by their numbers.
const SELECT: [&str; 3] = ["GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"];

/// Checks a container that gets its GPUs from the device plugin for a variable that selects GPUs.
fn selected(one: &Node, facts: &mut Facts<'_>) {
    for variable in one.get("env").map_or(&[][..], Node::items) {
        let text = |key: &str| variable.get(key).and_then(Node::text);
        let (Some(name), Some(value)) = (text("name"), text("value")) else { continue };
        // The only GPU has the number 0.
        let is_only = value == "0" && limit(one, "limits", GPU).and_then(Node::text) == Some("1");
        let is_number = value.starts_with(|c: char| c.is_ascii_digit());
        if SELECT.contains(&name) && is_number && !is_only {
            let message =
                format!("`{name}={value}` selects from the GPUs that `{GPU}` gives the container");
            let line = variable.line;
            return facts.problems.push(Problem { rule: "kubernetes-device-twice", line, message });
        }
    }
}

/// Returns the options of one container.
fn own(pod: &Node, one: &Node, facts: &mut Facts<'_>) -> Vec<Word> {
    let mut options = Vec::new();
    let name = one.get("name").and_then(Node::text).unwrap_or_default();
    let context = one.get("securityContext");
    let of = |key: &str| {
        let in_pod = || pod.get("securityContext").and_then(|all| all.get(key));
        context.and_then(|all| all.get(key)).or_else(in_pod)
    };
    let privileged = of("privileged").filter(|node| node.text() == Some("true"));
    if let Some(node) = privileged {
        options.push(named("--privileged", None, node.line));
        if !is_manager(one) {
            facts.privileged.push((node.line, format!("the container `{name}` is privileged")));
        }
    }
    if let Some((user, line)) = of("runAsUser").and_then(|node| Some((node.text()?, node.line))) {
        options.push(named("--user", Some(user), line));
    }
    let profile = of("seccompProfile").and_then(|profile| profile.get("type"));
    if let Some(node) = profile.filter(|node| node.text() == Some("Unconfined")) {
        options.push(named("--security-opt=seccomp", Some("unconfined"), node.line));
    }
    let added = context.and_then(|all| all.get("capabilities")?.get("add"));
    for item in added.map_or(&[][..], Node::items) {
        options.push(named("--cap-add", item.text(), item.line));
    }
    if let Some(gpu) = limit(one, "limits", GPU) {
        options.push(named("--device", Some("/dev/kfd"), gpu.line));
        options.push(named("--device", Some("/dev/dri"), gpu.line));
    } else if let Some(gpu) = limit(one, "requests", GPU) {
        let message = format!("`{GPU}` is requested, but not limited");
        facts.problems.push(Problem { rule: "kubernetes-gpu", line: gpu.line, message });
    }
    for port in one.get("ports").map_or(&[][..], Node::items) {
        let host = port.get("hostPort").and_then(Node::text);
        if let (Some(host), Some(own)) = (host, port.get("containerPort").and_then(Node::text)) {
            options.push(named("--publish", Some(&format!("{host}:{own}")), port.line));
        }
    }
    // A device plugin of any vendor lets the container open devices.
    let limits =
        one.get("resources").and_then(|all| all.get("limits")).map_or(&[][..], Node::entries);
    let has_plugin = limits.iter().any(|(key, _)| key.text().is_some_and(|key| key.contains('/')));
    let may_open = privileged.is_some() || has_plugin || is_manager(one);
    let mounted = mounts(pod, one, may_open, facts);
    let is_given = limit(one, "limits", GPU).is_some() && privileged.is_none() && !is_manager(one);
    let device = mounted.iter().find(|option| option.text.starts_with("--device="));
    if let Some(device) = device.filter(|_| is_given) {
        let host = device.text.trim_start_matches("--device=");
        let message =
            format!("`{host}` is mounted, and `{GPU}` already gives the container its devices");
        let line = device.line;
        facts.problems.push(Problem { rule: "kubernetes-device-twice", line, message });
    }
    if is_given {
        selected(one, facts);
    }
    if let Some(device) = device.filter(|_| may_open && !has_plugin && !is_manager(one)) {
        unplaced(pod, device.line, facts);
    }
    options.extend(mounted);
    options
}

/// Keys that choose the node of a pod.
const CHOOSE: [&str; 3] = ["affinity", "nodeName", "nodeSelector"];

/// Checks a pod that opens the devices of its node for something that chooses a node with a GPU.
fn unplaced(pod: &Node, line: usize, facts: &mut Facts<'_>) {
    if !CHOOSE.iter().any(|key| pod.get(key).is_some()) {
        let message = "nothing chooses a node with a GPU, or counts its GPUs".to_owned();
        facts.problems.push(Problem { rule: "kubernetes-node", line, message });
    }
}

/// The end of the types of a `hostPath` volume that is created if it is missing.
const CREATED: &str = "OrCreate";

/// Returns the mounts of a container as options; a device of the host counts as a device.
fn mounts(pod: &Node, node: &Node, may_open: bool, facts: &mut Facts<'_>) -> Vec<Word> {
    let mut options = Vec::new();
    let volumes = pod.get("volumes").map_or(&[][..], Node::items);
    for mount in node.get("volumeMounts").map_or(&[][..], Node::items) {
        let name = mount.get("name").and_then(Node::text);
        let Some(path) = mount.get("mountPath").and_then(Node::text) else { continue };
        let is_same = |one: &&std::rc::Rc<Node>| one.get("name").and_then(Node::text) == name;
        let Some(volume) = volumes.iter().find(is_same) else { continue };
        let host = volume.get("hostPath").and_then(|host| host.get("path")?.text());
        match host {
            Some(host) if ["/dev/kfd", "/dev/dri"].iter().any(|gpu| host.starts_with(gpu)) => {
                options.push(named("--device", Some(host), mount.line));
                let kind = volume.get("hostPath").and_then(|own| own.get("type"));
                let kind =
                    kind.filter(|kind| kind.text().is_some_and(|one| one.ends_with(CREATED)));
                if let Some(kind) = kind.filter(|_| may_open) {
                    let message = format!("a node without `{host}` gets an empty one");
                    let line = kind.line;
                    facts.problems.push(Problem { rule: "device-optional", line, message });
                }
                if !may_open {
                    let message = format!(
                        "`{host}` is mounted from the host, but the container may not open it"
                    );
                    facts.problems.push(Problem {
                        rule: "kubernetes-device",
                        line: mount.line,
                        message,
                    });
                }
            }
            Some(host) => {
                options.push(named("--volume", Some(&format!("{host}:{path}")), mount.line));
            }
            None if is_lost(volume, path) && !is_short(pod, name) => {
                let message =
                    format!("`{path}` is an `emptyDir`, which is deleted together with its pod");
                facts.problems.push(Problem { rule: "data-lost", line: mount.line, message });
            }
            None if path == "/dev/shm" => {
                options.push(named("--shm-size", Some("memory"), mount.line));
            }
            None => {}
        }
    }
    options
}

/// Folders in which programs keep models or data.
const KEPT: [&str; 9] = [
    "/app/backend/data",
    "/data/db",
    "/qdrant/storage",
    "/root/.cache/huggingface",
    "/root/.ollama",
    "/var/lib/mysql",
    "/var/lib/postgresql",
    "/var/lib/postgresql/data",
    "/var/lib/weaviate",
];

/// Returns whether a volume that is mounted at a path is deleted together with its pod.
fn is_lost(volume: &Node, path: &str) -> bool {
    let own = volume.entries().iter().find(|(key, _)| key.text() == Some("emptyDir"));
    let is_memory = own.is_some_and(|(_, empty)| empty.get("medium").is_some());
    own.is_some() && !is_memory && KEPT.contains(&path.trim_end_matches('/'))
}

/// Returns whether a pod ends by itself, or an init container fills a volume at each start.
fn is_short(pod: &Node, volume: Option<&str>) -> bool {
    let is_job =
        pod.get("restartPolicy").and_then(Node::text).is_some_and(|policy| policy != "Always");
    let is_filled = pod.get("initContainers").map_or(&[][..], Node::items).iter().any(|one| {
        let mounts = one.get("volumeMounts").map_or(&[][..], Node::items);
        mounts.iter().any(|mount| mount.get("name").and_then(Node::text) == volume)
    });
    is_job || is_filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_containers_of_a_pod_are_read_with_their_lines() {
        let text = "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      hostIPC: true\n      containers:\n        - name: a\n          image: docker.io/a/b:1\n          args: [serve, --port, \"80\"]\n          env:\n            - name: B\n              value: \"1\"\n          securityContext:\n            privileged: true\n          resources:\n            limits:\n              amd.com/gpu: 1\n          volumeMounts:\n            - { name: shm, mountPath: /dev/shm }\n            - { name: kfd, mountPath: /dev/kfd }\n      volumes:\n        - name: shm\n          emptyDir: { medium: Memory }\n        - name: kfd\n          hostPath: { path: /dev/kfd }\n---\napiVersion: v1\nkind: ConfigMap\ndata:\n  C: x\n";
        let facts = Facts::read("a.yaml", text);
        let options: Vec<String> = facts.containers[0]
            .options
            .iter()
            .map(|one| format!("{} {}", one.line, one.text))
            .collect();
        let expected = [
            "6 --ipc=host",
            "15 --privileged",
            "18 --device=/dev/kfd",
            "18 --device=/dev/dri",
            "20 --shm-size=memory",
            "21 --device=/dev/kfd",
            "12 --env=B=1",
            "8 --own-port",
        ];
        assert_eq!(options, expected);
        let settings: Vec<_> =
            facts.settings.iter().map(|one| (one.name.as_str(), one.line, one.scope)).collect();
        assert_eq!(settings, [("B", 12, Scope::Run), ("C", 31, Scope::Run)]);
        assert_eq!(facts.images.len(), 1);
    }
}
