//! Kubernetes manifests whose parts do not fit together, and look-alikes that are right.

use super::{NONE, together};

#[test]
fn the_parts_of_a_manifest_fit_together() {
    let deployment = |labels: &str, pod: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{ name: a }}\nspec:\n  selector: {{ matchLabels: {{ app: a }} }}\n  template:\n    metadata: {{ labels: {labels} }}\n    spec:\n{pod}"
        )
    };
    let container = "      containers:\n        - name: a\n          image: localhost/a:1\n          ports: [{ containerPort: 80, name: http }]\n";
    for (labels, more, rule, expected) in [
        ("{ app: b }", "", "kubernetes-reference", 1),
        ("{ app: a, tier: b }", "", "kubernetes-reference", 0),
        (
            "{ app: a }",
            "          volumeMounts: [{ name: data, mountPath: /a }]\n",
            "kubernetes-reference",
            1,
        ),
        (
            "{ app: a }",
            "          volumeMounts: [{ name: data, mountPath: /a }]\n      volumes: [{ name: data, emptyDir: {} }]\n",
            "kubernetes-reference",
            0,
        ),
        (
            "{ app: a }",
            "          readinessProbe: { httpGet: { port: web, path: / } }\n",
            "kubernetes-reference",
            1,
        ),
        (
            "{ app: a }",
            "          readinessProbe: { httpGet: { port: http, path: / } }\n",
            "kubernetes-reference",
            0,
        ),
        (
            "{ app: a }",
            "          readinessProbe: { httpGet: { port: 81, path: / } }\n",
            "kubernetes-port",
            1,
        ),
        (
            "{ app: a }",
            "          args: [--health-port, \"81\"]\n          readinessProbe: { httpGet: { port: 81, path: / } }\n",
            "kubernetes-port",
            0,
        ),
        (
            "{ app: a }",
            "---\napiVersion: v1\nkind: Service\nspec: { selector: { app: c }, ports: [{ port: 80 }] }\n",
            "kubernetes-port",
            1,
        ),
        (
            "{ app: a }",
            "---\napiVersion: v1\nkind: Service\nspec: { selector: { app: a }, ports: [{ port: 8080, targetPort: 81 }] }\n",
            "kubernetes-port",
            1,
        ),
        (
            "{ app: a }",
            "---\napiVersion: v1\nkind: Service\nspec: { selector: { app: a }, ports: [{ port: 8080, targetPort: http }] }\n",
            "kubernetes-port",
            0,
        ),
        (
            "{ app: a }",
            "        - name: a\n          image: localhost/b:1\n",
            "kubernetes-reference",
            1,
        ),
    ] {
        let text = deployment(labels, &format!("{container}{more}"));
        let found = super::of(rule, "a.yaml", &text, NONE);
        assert_eq!(found.len(), expected, "{rule} in\n{text}{found:?}");
    }
}

#[test]
fn init_containers_and_jobs_come_to_an_end() {
    let deployment = |pod: &str| {
        format!("apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n{pod}")
    };
    let container = "      containers:\n        - name: a\n          image: localhost/a:1\n          ports: [{ containerPort: 80, name: http }]\n";
    let init = |command: &str| {
        format!(
            "      initContainers:\n        - name: wait-for-db\n          image: localhost/a:1\n          command: [sh, -c, \"{command}\"]\n{container}"
        )
    };
    for (command, expected) in [
        ("until nc -z localhost 80; do sleep 1; done", 1),
        ("until nc -z db 5432; do sleep 1; done", 0),
        ("until nc -z localhost 5432; do sleep 1; done", 0),
    ] {
        let text = deployment(&init(command));
        assert_eq!(super::of("kubernetes-init", "a.yaml", &text, NONE).len(), expected, "{text}");
    }
    let job = |more: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n{container}{more}"
        )
    };
    for (more, expected) in [
        ("", 0),
        ("        - name: work\n          image: localhost/b:1\n", 1),
        ("      initContainers: [{ name: b, image: b, restartPolicy: Always }]\n", 0),
    ] {
        assert_eq!(
            super::of("kubernetes-job", "a.yaml", &job(more), NONE).len(),
            expected,
            "{more}"
        );
        assert_eq!(
            super::of("kubernetes-reference", "a.yaml", &job(more), NONE).len(),
            0,
            "{more}"
        );
    }
}

#[test]
fn manifests_of_a_folder_define_what_pods_name() {
    const FILES: together::Texts = &[(
        "storage.yaml",
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: { name: models }\n",
    )];
    const MADE: together::Texts = &[
        (
            "storage.yaml",
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: { name: models }\n",
        ),
        ("kustomization.yaml", "resources: [storage.yaml]\n"),
    ];
    let pod = |volume: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: localhost/a:1\n  volumes:\n    - name: v\n      {volume}\n"
        )
    };
    let rule = "kubernetes-reference";
    let message = "9 no manifest of the folder defines the PersistentVolumeClaim `model`";
    let missing = pod("persistentVolumeClaim: { claimName: model }");
    together::expect(rule, FILES, "a.yaml", &missing, &[message]);
    together::expect(rule, MADE, "a.yaml", &missing, &[]);
    let known = pod("persistentVolumeClaim: { claimName: models }");
    together::expect(rule, FILES, "a.yaml", &known, &[]);
    together::expect(rule, FILES, "a.yaml", &pod("configMap: { name: other }"), &[]);
}

#[test]
fn requests_fit_their_limits() {
    for (resources, rule, expected) in [
        ("{ limits: { memory: 8Gi }, requests: { memory: 16Gi } }", "kubernetes-reference", 1),
        ("{ limits: { cpu: 2 }, requests: { cpu: 2500m } }", "kubernetes-reference", 1),
        ("{ limits: { cpu: \"2\" }, requests: { cpu: 500m } }", "kubernetes-reference", 0),
        ("{ limits: { memory: 1Gi }, requests: { memory: 1000M } }", "kubernetes-reference", 0),
        ("{ limits: { amd.com/gpu: 2 }, requests: { amd.com/gpu: 1 } }", "kubernetes-gpu", 1),
        ("{ limits: { amd.com/gpu: 1 }, requests: { amd.com/gpu: 1 } }", "kubernetes-reference", 0),
        ("{ limits: { amd.com/gpu: 0.5 } }", "kubernetes-gpu", 1),
        ("{ limits: { amd.com/gpu: \"1\" } }", "kubernetes-gpu", 0),
        ("{ requests: { memory: 16Gi } }", "kubernetes-reference", 0),
    ] {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: localhost/a:1\n      resources: {resources}\n"
        );
        assert_eq!(super::of(rule, "a.yaml", &text, NONE).len(), expected, "{resources}");
    }
}
