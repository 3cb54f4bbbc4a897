//! The package manager and the boot files of the distribution, for the commands in repairs.

use super::Context;

/// A family of distributions that share commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    /// Debian, Ubuntu and their descendants.
    Debian,
    /// Fedora.
    Fedora,
    /// Systems that rpm-ostree updates as a whole: Silverblue, Bazzite, Bluefin.
    Atomic,
    /// RHEL and the distributions that are built from its sources.
    RedHat,
    /// SLES and openSUSE.
    Suse,
    /// Arch and its descendants.
    Arch,
    /// NixOS.
    Nix,
    /// Any other distribution.
    Other,
}

impl System {
    /// Returns the family of an `ID` of os-release.
    fn of(id: &str) -> Option<Self> {
        Some(match id {
            "ubuntu" | "debian" | "linuxmint" | "pop" => Self::Debian,
            // Nobara also lists RHEL in `ID_LIKE`.
            "fedora" | "nobara" => Self::Fedora,
            "rhel" | "centos" | "almalinux" | "rocky" | "ol" => Self::RedHat,
            "sles" | "sled" | "opensuse" => Self::Suse,
            "arch" | "cachyos" | "manjaro" => Self::Arch,
            "nixos" => Self::Nix,
            _ => return None,
        })
    }
}

impl Context<'_> {
    /// Returns the family of the machine's distribution.
    pub(super) fn system(&self) -> System {
        let kernel = &self.machine.kernel;
        if kernel.words.iter().any(|word| word.starts_with("ostree=")) {
            return System::Atomic;
        }
        let name = kernel.distribution.as_deref().unwrap_or_default();
        let own = name.split('-').next().unwrap_or_default();
        let mut all = [own].into_iter().chain(kernel.like.iter().map(String::as_str));
        all.find_map(System::of).unwrap_or(System::Other)
    }

    /// Returns the family of the system that owns the kernel. It is unknown in a container.
    pub(super) fn kernel_system(&self) -> System {
        if self.machine.container.is_some() { System::Other } else { self.system() }
    }

    /// Returns whether it is Debian itself, whose firmware packages are named differently from
    /// Ubuntu's.
    pub(super) fn is_plain_debian(&self) -> bool {
        let name = self.machine.kernel.distribution.as_deref().unwrap_or_default();
        name == "debian" || name.starts_with("debian-")
    }

    /// Returns the command that makes changes in modprobe.d take effect.
    pub(super) fn rebuild_initramfs(&self) -> String {
        match self.kernel_system() {
            System::Debian => "sudo update-initramfs -u -k all",
            System::Arch => "sudo mkinitcpio -P",
            System::Atomic => "sudo rpm-ostree initramfs-etc --track=/etc/modprobe.d",
            System::Nix => "sudo nixos-rebuild boot",
            System::Fedora | System::RedHat | System::Suse => {
                "sudo dracut --force --regenerate-all"
            }
            System::Other => "# rebuild the initramfs",
        }
        .to_owned()
    }

    /// Returns the commands that set a module parameter from the next boot on.
    pub(super) fn set_parameter(&self, module: &str, name: &str, value: &str) -> Vec<String> {
        match self.kernel_system() {
            System::Atomic => vec![format!(
                "sudo rpm-ostree kargs --append-if-missing={module}.{name}={value} && systemctl reboot"
            )],
            System::Nix => vec![
                format!(
                    "# in configuration.nix: boot.kernelParams = [ \"{module}.{name}={value}\" ];"
                ),
                "sudo nixos-rebuild boot && sudo reboot".to_owned(),
            ],
            _ => vec![
                format!(
                    "echo 'options {module} {name}={value}' | sudo tee /etc/modprobe.d/{module}.conf"
                ),
                format!("{} && sudo reboot", self.rebuild_initramfs()),
            ],
        }
    }

    /// Returns the command that installs packages.
    pub(super) fn install(&self, packages: &str) -> String {
        match self.system() {
            System::Debian => format!("sudo apt install {packages}"),
            System::Fedora | System::RedHat => format!("sudo dnf install {packages}"),
            System::Suse => format!("sudo zypper install {packages}"),
            System::Arch => format!("sudo pacman -S {packages}"),
            System::Atomic => format!("sudo rpm-ostree install {packages} && systemctl reboot"),
            System::Nix => {
                format!("# add {packages} to configuration.nix, then: sudo nixos-rebuild switch")
            }
            System::Other => format!("# install {packages}"),
        }
    }

    /// Returns the command that updates an installed package.
    pub(super) fn update(&self, package: &str) -> String {
        match self.system() {
            System::Debian => {
                format!("sudo apt update && sudo apt install --only-upgrade {package}")
            }
            System::Fedora | System::RedHat => format!("sudo dnf upgrade --refresh {package}"),
            System::Suse => format!("sudo zypper refresh && sudo zypper update {package}"),
            System::Arch => format!("sudo pacman -Syu {package}"),
            System::Atomic => "sudo rpm-ostree upgrade && systemctl reboot".to_owned(),
            System::Nix => "sudo nix-channel --update && sudo nixos-rebuild boot".to_owned(),
            System::Other => format!("# update {package}"),
        }
    }
}
