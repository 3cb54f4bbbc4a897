//! The report as text.

use text::sanitise::sanitise_line;
use text::{Page, Tone, counted, size};

use crate::report::{AuditReport, Part, Target, VerdictName};

/// The maximum number of targets that the text lists.
const MOST_TARGETS: usize = 40;

impl AuditReport {
    /// Returns the report as text: the verdict, the targets, and the parts.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        let sentence = sentence(self);
        let (conclusion, reason) = sentence.split_once(':').unwrap_or((&sentence, ""));
        page.add(format_args!("{}: ", self.input));
        page.verdict(conclusion, tone(self.verdict));
        page.line(format_args!(":{reason}"));
        if !self.targets.is_empty() {
            page.line(format_args!("\n  target            objects        size"));
        }
        for Target { target, objects, bytes } in self.targets.iter().take(MOST_TARGETS) {
            page.line(format_args!("  {target:16} {objects:8} {:>11}", size(*bytes)));
        }
        if self.targets.len() > MOST_TARGETS {
            let more = self.targets.len() - MOST_TARGETS;
            page.line(format_args!("  and {more} more; `--format json` lists all"));
        }
        if !self.parts.is_empty() {
            page.line(format_args!("\n  verdict    code for {:10} all code  part", self.gpu));
        }
        for part in &self.parts {
            let Part { path, files, verdict, targets, .. } = part;
            let own = targets.iter().filter(|one| is_for(&one.target, &self.gpu));
            let own: u64 = own.map(|one| one.bytes).sum();
            let all: u64 = targets.iter().map(|one| one.bytes).sum();
            let files = if *files > 1 { format!(" ({files} files)") } else { String::new() };
            let path = sanitise_line(path);
            let (own, all) = (size(own), size(all));
            page.add(format_args!("  "));
            page.column(word(*verdict), tone(*verdict), 10);
            page.line(format_args!(" {own:>19} {all:>9}  {path}{files}"));
        }
        for one in &self.unreadable {
            let (path, why) = (sanitise_line(&one.path), sanitise_line(&one.why));
            page.line(format_args!("  unreadable  {path}: {why}"));
        }
        if self.archives > 0 {
            let (count, verb) = match self.archives {
                1 => ("1 archive".to_owned(), "was"),
                more => (format!("{more} archives"), "were"),
            };
            page.line(format_args!("\n  {count} inside the input {verb} not read"));
        }
        page
    }
}

/// Returns whether a target is for the GPU, regardless of the target's features.
fn is_for(target: &str, gpu: &str) -> bool {
    target.split(':').next() == Some(gpu)
}

/// Returns the verdict as a sentence: the conclusion, a colon, and the reason.
fn sentence(report: &AuditReport) -> String {
    let gpu = &report.gpu;
    let spoof = report.spoof.as_deref().unwrap_or_default();
    match (report.verdict, &report.forced) {
        (VerdictName::Native, _) => format!("native: there is code for {gpu}"),
        (VerdictName::Generic, _) => {
            format!("generic: there is portable code, or code for a family that includes {gpu}")
        }
        (VerdictName::Spoof, Some(_)) => {
            format!(
                "spoof: the image makes {gpu} imitate {spoof}, and there is code for the imitated GPU"
            )
        }
        (VerdictName::Spoof, None) => {
            format!("only with spoof: there is code for {spoof}, which {gpu} can imitate")
        }
        (VerdictName::None, Some(forced)) => {
            format!(
                "none: the image makes {gpu} imitate {forced}, and {gpu} cannot run any of its code that way"
            )
        }
        (VerdictName::None, None) => format!("none: there is no code for {gpu}"),
        (VerdictName::HostOnly, _) if report.parts.is_empty() => {
            format!("host only: there is no GPU code in {}", counted(report.files, "file"))
        }
        (VerdictName::HostOnly, _) => {
            "host only: there is no GPU code, only data about GPU code".to_owned()
        }
        (VerdictName::Unreadable, _) if report.unreadable.is_empty() => format!(
            "not known: there is code for a family of GPUs that {gpu} belongs to, but the files do not name the GPUs"
        ),
        (VerdictName::Unreadable, _) => {
            format!("not known: {} cannot be read", counted(report.unreadable.len(), "file"))
        }
    }
}

/// Returns the tone of a verdict.
fn tone(verdict: VerdictName) -> Tone {
    match verdict {
        VerdictName::Native | VerdictName::Generic => Tone::Good,
        VerdictName::Spoof | VerdictName::HostOnly | VerdictName::Unreadable => Tone::Doubtful,
        VerdictName::None => Tone::Bad,
    }
}

/// Returns the word for the verdict of a part.
fn word(verdict: VerdictName) -> &'static str {
    match verdict {
        VerdictName::Native => "native",
        VerdictName::Generic => "generic",
        VerdictName::Spoof => "spoof",
        VerdictName::None => "none",
        VerdictName::HostOnly => "data only",
        VerdictName::Unreadable => "not known",
    }
}
