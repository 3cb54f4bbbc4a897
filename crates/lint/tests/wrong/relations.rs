//! Files whose settings do not fit together, or have a value that their reader refuses.

use super::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    (
        "compose-value",
        "compose.yml",
        5,
        "services:\n  a:\n    image: localhost/a\n    healthcheck:\n      interval: 30\n      test: [CMD, \"true\"]\n",
    ),
    (
        "compose-conflict",
        "compose.yml",
        4,
        "services:\n  a:\n    image: localhost/a\n    network_mode: host\n    networks: [b]\nnetworks: { b: {} }\n",
    ),
    (
        "quadlet-refused",
        "a.container",
        4,
        "[Unit]\nDescription=a\n[Container]\nExec=sleep infinity\n",
    ),
    ("unit-section", "a.service", 3, "[Service]\nExecStart=/bin/true\nTimeoutStart=30\n"),
];
