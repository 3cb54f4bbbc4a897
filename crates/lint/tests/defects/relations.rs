//! Settings and files that belong together, and look-alikes that are right.

use super::{NONE, expect};

/// Checks the findings of a rule for lines of a service.
fn service(rule: &str, lines: &str, expected: &[&str]) {
    let text = format!("services:\n  a:\n    image: localhost/a\n{lines}");
    expect(rule, NONE, &[("compose.yml", &text, expected)]);
}

#[test]
fn values_of_compose_files_have_a_form() {
    for line in [
        "stop_grace_period: 30",
        "stop_grace_period: \"30\"",
        "stop_grace_period: 5min",
        "stop_grace_period: 1 m",
        "shm_size: 8 gigs",
        "mem_limit: 16GB,",
        "cpus: all",
        "privileged: maybe",
        "restart: alway",
        "restart: false",
        "user: 1000",
        "hostname: 7",
        "cgroup: hosts",
        "expose: [\"8080:80\"]",
        "expose: [http]",
        "ports: [\"8080:80000\"]",
        "ports: [\"a:80\"]",
        "ports: [\"80:80/tdp\"]",
        "ports: [\"1:2:3:4\"]",
        "extra_hosts: [host.docker.internal]",
        "environment: [A: b]",
        "volumes: [./a: /b]",
        "healthcheck: { test: [curl, -f, a] }",
        "depends_on: { b: { condition: service_health } }",
        "deploy: { resources: { limits: { memory: 8x } } }",
        "deploy: { replicas: one }",
    ] {
        service("compose-value", &format!("    {line}\n"), &["4 error"]);
    }
    for line in [
        "stop_grace_period: 1m30s",
        "stop_grace_period: 1.5h",
        "stop_grace_period: ${GRACE}",
        "stop_grace_period: ${GRACE:-30s}",
        "shm_size: 16 gb",
        "shm_size: \"8589934592\"",
        "shm_size: 8GiB",
        "mem_limit: ${MEM:-16g}",
        "cpus: \"0.5\"",
        "privileged: yes",
        "restart: on-failure:5",
        "restart: \"no\"",
        "restart: no",
        "user: \"1000\"",
        "user: 1000:1000",
        "user: ${UID}",
        "expose: [8080, 9000-9010, \"53/udp\", \"${PORT}\"]",
        "ports: [8080, \"127.0.0.1:80:80\", \"[::1]:80:80\", \"80-90:80-90\", \":80\", \"${P}:80\"]",
        "extra_hosts: [\"a:host-gateway\", \"b=127.0.0.1\"]",
        "environment: [A=b, C]",
        "environment: { A: 1, B: true, C: }",
        "volumes: [\"./a:/b\", { type: bind, source: ./a, target: /b }]",
        "healthcheck: { test: curl -f a, interval: 30s, retries: 3 }",
        "healthcheck: { test: [CMD-SHELL, curl -f a] }",
        "depends_on: [b]",
        "depends_on: { b: { condition: service_healthy } }",
        "gpus: all",
        "logging: { driver: json-file, options: { max-size: 10m } }",
    ] {
        service("compose-value", &format!("    {line}\n"), &[]);
        service("compose-type", &format!("    {line}\n"), &[]);
        service("compose-key", &format!("    {line}\n"), &[]);
    }
}

#[test]
fn keys_of_all_parts_are_known() {
    for line in [
        "volumes: [{ type: bind, src: ./a, target: /b }]",
        "volumes: [{ type: bind, source: ./a, target: /b, bind: { create: true } }]",
        "ports: [{ target: 80, host_port: 80 }]",
        "depends_on: { b: { conditions: service_healthy } }",
        "networks: { n: { ip: 10.0.0.2 } }",
        "deploy: { update_config: { paralelism: 1 } }",
        "healthcheck: { test: a, start-period: 5s }",
    ] {
        service("compose-key", &format!("    {line}\n"), &["4 warning"]);
    }
    let top = "services:\n  a:\n    image: localhost/a\nvolumes:\n  b:\n    drivers: local\n";
    expect("compose-key", NONE, &[("compose.yml", top, &["6 warning"])]);
    let merged = "x-net: &net\n  aliases: [b]\nservices:\n  a:\n    image: localhost/a\n    networks:\n      n: { <<: *net }\nnetworks:\n  n:\n    x-owner: me\n    ipam: { config: [{ subnet: 10.0.0.0/8 }] }\n";
    expect("compose-key", NONE, &[("compose.yml", merged, &[])]);
}

#[test]
fn settings_of_a_service_can_exclude_each_other() {
    for lines in [
        "    network_mode: host\n    networks: { n: }\n",
        "    scale: 2\n    container_name: a\n",
        "    mem_limit: 8g\n    deploy: { resources: { limits: { memory: 16g } } }\n",
        "    deploy: { resources: { reservations: { devices: [{ count: 1, device_ids: [a], capabilities: [gpu] }] } } }\n",
        "    depends_on: [a]\n",
        "    depends_on: [b]\n  b:\n    image: c\n    depends_on: { a: { condition: service_started } }\n",
        "    container_name: x\n  b:\n    image: c\n    container_name: x\n",
    ] {
        let text = format!("services:\n  a:\n    image: localhost/a\n{lines}");
        let found = super::of("compose-conflict", "compose.yml", &text, NONE);
        assert_eq!(found.len(), 1, "{text}");
    }
    for lines in [
        "    network_mode: host\n    networks: []\n",
        "    scale: 1\n    container_name: a\n",
        "    mem_limit: 8g\n    deploy: { resources: { limits: { memory: 8G } } }\n",
        "    depends_on: [b, c]\n  b:\n    image: c\n    depends_on: [c]\n  c:\n    image: c\n",
        "    container_name: x\n    profiles: [p]\n  b:\n    image: c\n    container_name: x\n    profiles: [q]\n",
        "    container_name: x-$A\n  b:\n    image: c\n    container_name: x-$A\n",
    ] {
        service("compose-conflict", lines, &[]);
    }
}

#[test]
fn quadlet_and_systemd_know_all_keys() {
    let quadlet = |lines: &str| format!("[Container]\nImage=localhost/a\n{lines}");
    for (lines, rule) in [
        ("Restart=always\n", "quadlet-key"),
        ("[Service]\nUser=me\n", "quadlet-key"),
        ("[Service]\nImage=b\n", "unit-section"),
        ("[Service]\nRestartSecs=5\n", "unit-section"),
        ("[Unit]\nRestart=always\n", "unit-section"),
        ("[Service]\nType=simple\n", "quadlet-refused"),
        ("[Service]\nKillMode=process\n", "quadlet-refused"),
        ("Pod=web\n", "quadlet-refused"),
        ("Pod=web.pod\nPublishPort=80:80\n", "quadlet-refused"),
        ("Pod=web.pod\nUserNS=keep-id\n", "quadlet-refused"),
    ] {
        let found = super::of(rule, "a.container", &quadlet(lines), NONE);
        assert_eq!(found.len(), 1, "{lines}");
    }
    for lines in [
        "Pod=web.pod\nNetwork=a.network\nPublishPort=80:80\n",
        "[Service]\nType=oneshot\nRestart=always\nTimeoutStartSec=900\nMemoryLimit=1G\n",
        "[Unit]\nAfter=a.service\nX-Owner=me\n[Install]\nWantedBy=default.target\n",
        "[Quadlet]\nDefaultDependencies=false\n",
        "[X-Mine]\nA=b\n",
    ] {
        for rule in ["quadlet-key", "quadlet-refused", "unit-section"] {
            expect(rule, NONE, &[("a.container", &quadlet(lines), &[])]);
        }
    }
    for (file, text, expected) in [
        ("a.pod", "[Pod]\nPublishPort=80:80\nImage=a\n", 1),
        ("a.volume", "[Volume]\nVolumeName=a\n", 0),
        ("a.network", "[Network]\nSubnet=10.0.0.0/8\nDHCP=yes\n", 1),
        ("a.network", "[Match]\nName=eth0\n[Network]\nDHCP=yes\n", 0),
        ("a.kube", "[Kube]\nYaml=a.yml\nYamls=b\n", 1),
    ] {
        assert_eq!(super::of("quadlet-key", file, text, NONE).len(), expected, "{text}");
    }
    for (file, text, expected) in [
        ("a.build", "[Build]\nImageTag=localhost/a\n", 1),
        ("a.build", "[Build]\nImageTag=localhost/a\nSetWorkingDirectory=unit\n", 0),
        ("a.network", "[Network]\nGateway=10.0.0.1\n", 1),
        ("a.container.d/10.conf", "[Container]\nMemory=1g\n", 0),
        ("a.container", "{% if x %}\n[Container]\nMemory=1g\n", 0),
    ] {
        assert_eq!(super::of("quadlet-refused", file, text, NONE).len(), expected, "{text}");
    }
}
