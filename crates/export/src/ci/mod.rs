//! Files that make a CI system build the image of a project.

/// The action that checks out a repository on GitHub, by commit.
pub const CHECKOUT: &str = "actions/checkout@de0fac2e4500dabe0009e67214ff5f5447ce83dd # v6.0.2";

/// A CI system, with the shell command that installs this tool on its runners.
#[derive(Debug, Clone)]
pub struct Ci {
    /// The CI system.
    pub system: System,
    /// The shell command.
    pub install: Install,
}

/// A CI system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// GitHub Actions.
    Github,
    /// GitLab CI.
    Gitlab,
}

impl System {
    /// Returns the path of the file in a repository.
    pub fn path(self) -> &'static str {
        match self {
            Self::Github => ".github/workflows/images.yml",
            Self::Gitlab => ".gitlab-ci.yml",
        }
    }

    /// Returns the file with placeholders.
    fn template(self) -> &'static str {
        match self {
            Self::Github => include_str!("github.yml"),
            Self::Gitlab => include_str!("gitlab.yml"),
        }
    }
}

impl Ci {
    /// Returns the text of the file that builds the image of a track.
    pub fn text(&self, track: &str) -> String {
        let text = self.system.template().replace("CHECKOUT", CHECKOUT).replace("TRACK", track);
        let (before, after) = text.split_once("INSTALL").expect("every template installs the tool");
        let indent = before.len() - before.trim_end_matches(' ').len();
        let install: Vec<&str> = self.install.lines().collect();
        format!("{before}{}{after}", install.join(&format!("\n{:indent$}", "")))
    }
}

/// The shell command that installs this tool on a runner, as the lines of a YAML block.
#[derive(Debug, Clone)]
pub struct Install(String);

/// Why a shell command cannot install this tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// It is empty.
    #[error("is empty")]
    Empty,
    /// It contains a control character other than a newline or tab.
    #[error("contains the control character U+{:04X}", u32::from(*.0))]
    Control(char),
    /// It contains a password or token.
    #[error("contains a secret, which the file would show to everybody who can read it")]
    Secret,
}

/// Returns a command without the words that contain a variable, such as `$TOKEN` or
/// `${{ secrets.TOKEN }}`.
fn without_variables(command: &str) -> String {
    let mut text = String::new();
    let mut rest = command;
    while let Some((before, after)) = rest.split_once("${{") {
        text.push_str(before);
        text.push('$');
        rest = after.split_once("}}").map_or("", |(_, last)| last);
    }
    text.push_str(rest);
    let words = text.split_inclusive(char::is_whitespace);
    words.filter(|word| !word.contains('$')).collect()
}

impl Install {
    /// Takes a command of one or more lines.
    ///
    /// # Errors
    /// It is empty, or contains a secret, or a control character other than a newline or tab.
    pub fn new(command: &str) -> Result<Self, InstallError> {
        let command = command.trim();
        if command.is_empty() {
            return Err(InstallError::Empty);
        }
        let fixed = without_variables(command);
        if names::mask(&fixed) != fixed {
            return Err(InstallError::Secret);
        }
        match command.chars().find(|one| one.is_control() && !['\n', '\t'].contains(one)) {
            Some(one) => Err(InstallError::Control(one)),
            None => Ok(Self(command.to_owned())),
        }
    }

    /// Returns the lines.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.lines()
    }
}
