//! A container as text.

use text::Page;

use super::{Container, Groups};

impl Container {
    /// Returns a description of the container.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        let mut line = |name: &str, value: &str| page.line(format_args!("{name:12} {value}"));
        line("engine", self.engine.as_str());
        line("image", &self.image);
        if let Some(entrypoint) = &self.entrypoint {
            line("entrypoint", entrypoint);
        }
        if !self.command.is_empty() {
            line("command", &self.command.join(" "));
        }
        if self.devices.is_empty() {
            line("devices", "none");
        } else {
            line("devices", &self.devices.join(" "));
        }
        match &self.groups {
            Groups::None => {}
            Groups::Keep => line("groups", "the user's groups are kept"),
            Groups::Numbers(all) if all.is_empty() => {}
            Groups::Numbers(all) => {
                line("groups", &all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
            }
        }
        if let Some((uid, gid)) = self.user {
            line("user", &format!("{uid}:{gid}"));
        }
        line("security", &self.security.join(" "));
        if let Some(size) = self.shared_memory {
            line("/dev/shm", &format!("{size} GiB"));
        }
        for folder in self.mounts() {
            let rights = if folder.is_read_only { ", read-only" } else { "" };
            line("folder", &format!("{} at {}{rights}", folder.host, folder.container));
        }
        if let Some(port) = &self.port {
            line("port", &format!("{}:{} to {}", port.address, port.host, port.container));
        }
        for (name, value) in &self.environment {
            line("variable", &format!("{name}={value}"));
        }
        for name in &self.passed {
            line("variable", &format!("{name} (its value is not shown)"));
        }
        for file in &self.variable_files {
            line("variables", &format!("from {}", file.path));
        }
        if self.is_detached {
            line("detached", "yes");
        }
        page
    }
}
