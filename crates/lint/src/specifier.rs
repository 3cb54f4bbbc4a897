//! Reads requirements with their version specifiers: `torch>=2.4,<3`.

/// A requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Requirement<'t> {
    /// The name in lower case, with dashes.
    pub(crate) name: String,
    /// The specifier without blanks: `>=2.4,<3`; empty if there is none.
    pub(crate) specifier: String,
    /// The names of its extras.
    pub(crate) extras: Vec<&'t str>,
    /// Whether it is a URL, or depends on a condition.
    pub(crate) is_special: bool,
}

/// Reads a line of a list, or a text of `dependencies`. Returns `None` for options, comments, paths,
/// and other things that are no names of packages.
pub(crate) fn requirement(text: &str) -> Option<Requirement<'_>> {
    let text = text.split(" #").next().unwrap_or_default().trim().trim_end_matches('\\').trim();
    let text = text.split(" --").next().unwrap_or_default();
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    let is_file = [".txt", ".whl", ".gz", ".zip"].iter().any(|one| name.ends_with(one));
    if !name.starts_with(|c: char| c.is_ascii_alphabetic())
        || is_file
        || rest.starts_with(['/', ':', '+'])
    {
        return None;
    }
    let (extras, rest) =
        match rest.trim_start().strip_prefix('[').and_then(|one| one.split_once(']')) {
            Some((extras, rest)) => (extras.split(',').map(str::trim).collect(), rest),
            None => (Vec::new(), rest),
        };
    let (specifier, condition) = rest.split_once(';').map_or((rest, None), |(s, c)| (s, Some(c)));
    let is_url = specifier.trim_start().starts_with('@');
    let plain: String =
        specifier.chars().filter(|c| !c.is_whitespace() && !"()".contains(*c)).collect();
    Some(Requirement {
        name: name.to_ascii_lowercase().replace(['_', '.'], "-"),
        specifier: if is_url { String::new() } else { plain },
        extras,
        is_special: is_url || condition.is_some(),
    })
}

impl Requirement<'_> {
    /// Returns the operators with their versions.
    pub(crate) fn clauses(&self) -> impl Iterator<Item = (&str, &str)> {
        self.specifier.split(',').filter_map(|clause| {
            let end = clause.find(|c: char| !"=<>!~".contains(c))?;
            Some(clause.split_at(end)).filter(|_| end > 0)
        })
    }

    /// Returns whether the newest release is always allowed.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_special
            && self.clauses().all(|(operator, _)| matches!(operator, ">=" | ">" | "!="))
    }

    /// Returns whether a release is allowed; `None` if that cannot be decided.
    pub(crate) fn allows(&self, release: &str) -> Option<bool> {
        allows(self.clauses(), release)
    }
}

/// Returns whether all clauses allow a release; `None` if that cannot be decided.
pub(crate) fn allows<'c>(
    mut clauses: impl Iterator<Item = (&'c str, &'c str)>,
    release: &str,
) -> Option<bool> {
    let own = numbers(release)?;
    clauses.try_fold(true, |is_allowed, (operator, version)| {
        let (plain, is_open) =
            version.strip_suffix(".*").map_or((version, false), |one| (one, true));
        let wanted = numbers(plain)?;
        let order = padded(&own).cmp(&padded(&wanted));
        let is_same = if is_open { own.starts_with(&wanted) } else { order.is_eq() };
        let is_met = match operator {
            "==" | "===" => is_same,
            "!=" => !is_same,
            ">=" => order.is_ge(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            "<" => order.is_lt(),
            "~=" => {
                let (_, fixed) = wanted.split_last()?;
                order.is_ge() && own.starts_with(fixed)
            }
            _ => return None,
        };
        Some(is_allowed && is_met)
    })
}

/// Returns the numbers of a release; `None` for a pre-release and other forms.
fn numbers(release: &str) -> Option<Vec<u32>> {
    release.split('.').map(|part| part.parse().ok()).collect()
}

/// Returns the numbers of a release with zeros at the end.
fn padded(numbers: &[u32]) -> Vec<u32> {
    numbers.iter().copied().chain(std::iter::repeat(0)).take(PARTS.max(numbers.len())).collect()
}

/// The number of parts that releases have at most.
const PARTS: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifiers_are_compared_with_a_release() {
        for (text, release, expected) in [
            ("torch>=2.4.0", "2.3.0", Some(false)),
            ("torch >= 2.3", "2.3.0", Some(true)),
            ("torch==2.3", "2.3.0", Some(true)),
            ("torch==2.4.*", "2.4.1", Some(true)),
            ("torch~=2.4.1", "2.5.0", Some(false)),
            ("torch~=2.4", "2.9.1", Some(true)),
            ("torch<2.4,>=2", "2.4.1", Some(false)),
            ("torch!=2.4.1", "2.4.1", Some(false)),
            ("torch", "2.4.1", Some(true)),
            ("torch>=2.4.0rc1", "2.4.1", None),
        ] {
            assert_eq!(requirement(text).unwrap().allows(release), expected, "{text}");
        }
    }

    #[test]
    fn requirements_are_read() {
        for (text, expected) in [
            ("Uvicorn[standard] >= 0.18 # server", Some(("uvicorn", ">=0.18", true))),
            ("a_b", Some(("a-b", "", true))),
            ("a==1 ; python_version < '3.9'", Some(("a", "==1", false))),
            ("a @ https://h.example/a.whl", Some(("a", "", false))),
            ("a<3", Some(("a", "<3", false))),
            ("a==1 --hash=sha256:1", Some(("a", "==1", false))),
            ("-r other.txt", None),
            ("# a", None),
            ("./a", None),
            ("git+https://h.example/a", None),
            ("", None),
        ] {
            let read = requirement(text);
            let read =
                read.as_ref().map(|one| (one.name.as_str(), one.specifier.as_str(), one.is_open()));
            assert_eq!(read, expected, "{text}");
        }
    }
}
