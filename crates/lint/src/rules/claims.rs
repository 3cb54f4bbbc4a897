//! Rules for manifests whose pods name objects that the other manifests of the folder do not define.

use std::collections::BTreeSet;

use crate::kubernetes::pod;
use crate::yaml::{self, Node};
use crate::{Context, Facts, Findings, Hit, Kind, Severity};

/// Kinds of objects, and the keys below which pods name them.
const KINDS: [(&str, &[(&str, &str)]); 2] = [
    ("PersistentVolumeClaim", &[("persistentVolumeClaim", "claimName")]),
    ("ConfigMap", &[("configMap", "name"), ("configMapRef", "name"), ("configMapKeyRef", "name")]),
];

/// Files that show that another program makes some of the objects.
const MAKERS: [&str; 4] =
    ["Chart.yaml", "kustomization.yaml", "kustomization.yml", "skaffold.yaml"];

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let Some(files) = context.exists.filter(|_| facts.kind == Kind::Manifest) else { return };
    let own = yaml::documents(facts.text);
    let mut used = Vec::new();
    for one in &own {
        let optional = pod(one);
        collect(optional.unwrap_or(one), optional.is_some(), &mut used, 0);
    }
    if used.is_empty() || MAKERS.iter().any(|name| files.text(facts.file, name).is_some()) {
        return;
    }
    let mut defined: BTreeSet<(String, String)> = BTreeSet::new();
    own.iter().for_each(|one| define(one, &mut defined));
    for (_, text) in files.beside(facts.file) {
        if KINDS.iter().any(|(kind, _)| text.contains(kind)) && !text.contains("{{") {
            yaml::documents(&text).iter().for_each(|one| define(one, &mut defined));
        }
    }
    for (kind, name, line) in used {
        // A folder without any object of the kind says nothing about them.
        let has_kind = defined.iter().any(|(own_kind, _)| own_kind == kind);
        if has_kind && !defined.contains(&(kind.to_owned(), name.clone())) {
            let message = format!("no manifest of the folder defines the {kind} `{name}`");
            let hit = Hit::new("kubernetes-reference", line, message);
            found.hit(hit.at_most(Severity::Warning));
        }
    }
}

/// Adds the object of a document.
fn define(document: &Node, defined: &mut BTreeSet<(String, String)>) {
    let kind = document.get("kind").and_then(Node::text);
    let name = document.get("metadata").and_then(|all| all.get("name")).and_then(Node::text);
    if let (Some(kind), Some(name)) = (kind, name) {
        defined.insert((kind.to_owned(), name.to_owned()));
    }
}

/// The maximum depth at which a pod names objects.
const DEEPEST: usize = 8;

/// Collects the objects that a pod names: the kind, the name, and the line.
fn collect(node: &Node, is_pod: bool, used: &mut Vec<(&'static str, String, usize)>, depth: usize) {
    if !is_pod || depth > DEEPEST {
        return;
    }
    for (key, value) in node.entries() {
        let is_optional = value.get("optional").and_then(Node::text) == Some("true");
        for (kind, keys) in KINDS {
            let named = keys.iter().find(|(own, _)| key.text() == Some(own));
            let name = named.and_then(|(_, name)| value.get(name));
            let text = name.and_then(Node::text).filter(|text| !text.contains('$'));
            if let (Some(name), Some(text), false) = (name, text, is_optional) {
                used.push((kind, text.to_owned(), name.line));
            }
        }
        collect(value, is_pod, used, depth + 1);
    }
    for item in node.items() {
        collect(item, is_pod, used, depth + 1);
    }
}
