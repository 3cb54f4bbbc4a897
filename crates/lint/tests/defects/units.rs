//! Units, quadlets and scripts that start servers, and look-alikes that are right.

use super::{NONE, expect, together};

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

#[test]
fn a_pod_gives_its_containers_the_network() {
    const HOST: together::Texts = &[("../web.pod", "[Pod]\nPodName=web\nNetwork=host\n")];
    const OWN: together::Texts = &[("../web.pod", "[Pod]\nPodName=web\n")];
    let quadlet =
        "[Container]\nImage=docker.io/ollama/ollama:rocm\nPod=web.pod\nAddDevice=/dev/kfd\n";
    let rule = "network-shared";
    together::expect(
        rule,
        HOST,
        "ollama.container",
        quadlet,
        &["3 `--network=host` is set for a container with a GPU"],
    );
    together::expect(rule, OWN, "ollama.container", quadlet, &[]);
}

#[test]
fn units_and_scripts_open_servers_too() {
    let unit = |lines: &str| format!("[Service]\n{lines}");
    for (lines, expected) in [
        ("ExecStart=/opt/llama-server --host 0.0.0.0 -m a.gguf\n", 1),
        ("Environment=LLAMA_ARG_HOST=0.0.0.0\nExecStart=/opt/llama-server -m a.gguf\n", 1),
        ("ExecStart=/opt/llama-server --host 127.0.0.1 -m a.gguf\n", 0),
        ("ExecStart=/opt/llama-server --host 0.0.0.0 --api-key-file /etc/key\n", 0),
        ("IPAddressAllow=10.0.0.0/8\nExecStart=/opt/llama-server --host 0.0.0.0\n", 0),
        ("EnvironmentFile=/etc/llama.env\nExecStart=/opt/llama-server --host 0.0.0.0\n", 0),
        ("ExecStart=/usr/bin/podman run localhost/a llama-server --host 0.0.0.0\n", 0),
    ] {
        let found = super::of("service-open", "a.service", &unit(lines), NONE);
        assert_eq!(found.len(), expected, "{lines}");
    }
}

#[test]
fn rocm_is_for_one_processor() {
    for (file, text, expected) in [
        ("Dockerfile", "FROM --platform=linux/arm64 docker.io/rocm/dev-ubuntu-24.04:7.2\n", 1),
        ("Dockerfile", "FROM --platform=linux/amd64 docker.io/rocm/dev-ubuntu-24.04:7.2\n", 0),
        ("Dockerfile", "FROM --platform=linux/arm64 docker.io/library/debian:13\n", 0),
        (
            "compose.yml",
            "services:\n  a:\n    image: docker.io/ollama/ollama:rocm\n    platform: linux/arm64\n",
            1,
        ),
        (
            "compose.yml",
            "services:\n  a:\n    image: docker.io/ollama/ollama:rocm\n    platform: linux/amd64\n",
            0,
        ),
        ("a.service", "[Service]\nUser=me\nEnvironment=PATH=/opt/rocm/bin\n", 0),
        ("a.service", "[Service]\nUser=pi\n# not /opt/rocm\nExecStart=/home/pi/a\n", 0),
        ("a.service", "[Service]\nUser=pipewire\nEnvironment=PATH=/opt/rocm/bin\n", 0),
    ] {
        assert_eq!(super::of("rocm-arm64", file, text, NONE).len(), expected, "{text}");
    }
}

#[test]
fn downloads_before_the_start_need_time() {
    let unit = |line: &str| format!("[Service]\n{line}\nExecStart=/bin/a\n");
    for (line, expected) in [
        ("ExecStartPre=/usr/bin/hf download a/b", 1),
        ("ExecStartPost=/bin/sh -c 'sleep 5; ollama pull a'", 1),
        ("ExecStartPre=/usr/bin/git clone https://example.org/a", 1),
        ("ExecStartPre=/usr/bin/git pull", 0),
        ("TimeoutStartSec=900\nExecStartPre=/usr/bin/hf download a/b", 0),
    ] {
        let found = super::of("unit-start-timeout", "a.service", &unit(line), NONE);
        assert_eq!(found.len(), expected, "{line}");
    }
}

#[test]
fn quadlets_name_files_of_their_folder() {
    const FILES: together::Texts = &[("data.volume", "[Volume]\n")];
    const NONE: together::Texts = &[("a.container", "[Container]\nImage=a\n")];
    let rule = "quadlet-refused";
    for (files, line, expected) in [
        (FILES, "Volume=data.volume:/data", None),
        (
            FILES,
            "Volume=models.volume:/models",
            Some("3 the folder has no `models.volume`, without which Quadlet creates no service"),
        ),
        (FILES, "Volume=models:/models", None),
        (FILES, "Volume=%n.volume:/models", None),
        (FILES, "Network=web.network", None),
        (NONE, "Volume=models.volume:/models", None),
    ] {
        let text = format!("[Container]\nImage=localhost/a\n{line}\n");
        let expected: Vec<&str> = expected.into_iter().collect();
        together::expect(rule, files, "a.container", &text, &expected);
    }
}

#[test]
fn an_environment_file_opens_the_server_of_a_script() {
    const SCRIPT: together::Texts =
        &[("start.sh", "source a.env\nexec \"$LLAMA_SERVER\" --host \"$HOST\" -m a.gguf\n")];
    const CLOSED: together::Texts =
        &[("start.sh", "exec llama-server --host $HOST --api-key-file /etc/key\n")];
    const INSIDE: together::Texts =
        &[("start.sh", "docker run localhost/a llama-server --host $HOST\n")];
    let message =
        "1 with `HOST`, the server that `start.sh` starts listens on all addresses, without a key";
    let rule = "service-open";
    together::expect(rule, SCRIPT, "a.env", "HOST=0.0.0.0\n", &[message]);
    together::expect(rule, SCRIPT, "a.env", "HOST=127.0.0.1\n", &[]);
    together::expect(rule, CLOSED, "a.env", "HOST=0.0.0.0\n", &[]);
    together::expect(rule, INSIDE, "a.env", "HOST=0.0.0.0\n", &[]);
}

#[test]
fn values_of_units_have_a_form() {
    for (line, expected) in [
        ("Restart=yes", 1),
        ("Restart=on-failure", 0),
        ("RestartSec=5 mins", 1),
        ("RestartSec=5min 20s", 0),
        ("TimeoutStartSec=infinity", 0),
        ("MemoryMax=8GB", 1),
        ("MemoryMax=80%", 0),
        ("ProtectHome=maybe", 1),
        ("ProtectHome=true", 0),
        ("ProtectSystem=strict", 0),
        ("NoNewPrivileges=maybe", 1),
        ("Type=notify-reload", 0),
        ("Type=daemon", 1),
        ("WorkingDirectory=~/app", 1),
        ("WorkingDirectory=~", 0),
        ("WorkingDirectory=%h/app", 0),
        ("WorkingDirectory=-/srv/app", 0),
        ("WorkingDirectory=app", 1),
        ("EnvironmentFile=-/etc/a", 0),
        ("EnvironmentFile=.env", 1),
        ("Environment=A=b c", 1),
        ("Environment=A=b C=d", 0),
        ("Environment=\"A=b c\"", 0),
        ("ExecStart=/bin/b", 1),
        ("ExecStartPre=/bin/b", 0),
        ("User={{ user }}", 0),
        ("User=me # not root", 1),
        ("Description=a # b", 0),
        ("Environment=\"A=b # c\"", 0),
        ("Environment=A=b#c", 0),
    ] {
        let text = format!("[Service]\nExecStart=/bin/a\n{line}\n");
        assert_eq!(super::of("unit-value", "a.service", &text, NONE).len(), expected, "{line}");
    }
    let reset = "[Service]\nExecStart=\nExecStart=/bin/b\n";
    expect("unit-value", NONE, &[("a.service.d/b.conf", reset, &[])]);
    let once = "[Service]\nType=oneshot\nExecStart=/bin/a\nExecStart=/bin/b\n";
    expect("unit-value", NONE, &[("a.service", once, &[])]);
    for (line, expected) in [
        ("Volume=~/a:/a", 1),
        ("Volume=%h/a:/a", 0),
        ("Volume=./a:/a", 0),
        ("Pull=alway", 1),
        ("Pull=newer", 0),
        ("UserNS=keep-id:uid=1000", 0),
        ("UserNS=keepid", 1),
        ("AutoUpdate=registry", 0),
        ("AutoUpdate=yes", 1),
        ("Notify=healthy", 0),
        ("Notify=true", 0),
        ("ReadOnly=perhaps", 1),
        ("EnvironmentFile=.env", 0),
    ] {
        let text = format!("[Container]\nImage=localhost/a\n{line}\n");
        assert_eq!(super::of("unit-value", "a.container", &text, NONE).len(), expected, "{line}");
    }
}

#[test]
fn units_start_no_shell() {
    for (command, expected) in [
        ("/bin/a && /bin/b", 1),
        ("/bin/a > /var/log/a.log 2>&1", 1),
        ("source venv/bin/activate", 1),
        ("/opt/llama-server -m ~/a.gguf", 1),
        ("/bin/sh -c 'a && b > c'", 0),
        ("/bin/bash -c \"source venv/bin/activate && exec a\"", 0),
        ("/opt/a --pattern a|b", 0),
        ("-/usr/bin/podman rm -f a", 0),
        ("/opt/a --home=~/a", 0),
    ] {
        let text = format!("[Service]\nExecStart={command}\n");
        assert_eq!(super::of("unit-shell", "a.service", &text, NONE).len(), expected, "{command}");
    }
}
