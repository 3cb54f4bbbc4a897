//! Package URLs (<https://github.com/package-url/purl-spec>), the names of packages for scanners.

use names::{Digest, Repository, Tag};

/// Returns `pkg:TYPE/NAMESPACE/NAME@VERSION?QUALIFIERS`. Empty parts are left out.
pub(crate) fn purl(
    kind: &str,
    namespace: &str,
    name: &str,
    version: &str,
    qualifiers: &[(&str, &str)],
) -> String {
    let mut text = format!("pkg:{kind}/");
    for part in namespace.split('/').filter(|part| !part.is_empty()) {
        text.push_str(&escaped(part, ""));
        text.push('/');
    }
    text.push_str(&escaped(name, ""));
    if !version.is_empty() {
        text.push('@');
        text.push_str(&escaped(version, ""));
    }
    let mut qualifiers: Vec<_> = qualifiers.iter().filter(|(_, value)| !value.is_empty()).collect();
    qualifiers.sort_unstable();
    for (index, (key, value)) in qualifiers.into_iter().enumerate() {
        text.push(if index == 0 { '?' } else { '&' });
        text.push_str(key);
        text.push('=');
        text.push_str(&escaped(value, "/"));
    }
    text
}

/// Returns the package URL of an image.
pub(crate) fn image(repository: &Repository, tag: Option<&Tag>, digest: &Digest) -> String {
    let name = repository.path().rsplit('/').next().unwrap_or_default();
    let place = repository.to_string();
    let qualifiers = [("repository_url", place.as_str()), ("tag", tag.map_or("", Tag::as_str))];
    purl("oci", "", name, digest.as_str(), &qualifiers)
}

/// Returns the package URL of a project on the Python package index.
pub(crate) fn python(project: &str, version: &str) -> String {
    purl("pypi", "", &pins::normalised(project), version, &[])
}

/// Returns the package URL of a commit. Only GitHub has a type for its repositories.
pub(crate) fn commit(url: &str, commit: &str) -> String {
    let plain = url.trim_end_matches('/').trim_end_matches(".git");
    let on_github = plain.strip_prefix("https://github.com/").and_then(|rest| rest.split_once('/'));
    match on_github {
        Some((owner, name)) if !name.contains('/') => {
            let (owner, name) = (owner.to_ascii_lowercase(), name.to_ascii_lowercase());
            purl("github", &owner, &name, commit, &[])
        }
        _ => {
            let name = plain.rsplit('/').next().unwrap_or_default();
            purl("generic", "", name, commit, &[("vcs_url", &format!("git+{url}@{commit}"))])
        }
    }
}

/// Percent-encodes everything except letters, digits, `.`, `-`, `_`, `~`, `:` and `also`.
fn escaped(text: &str, also: &str) -> String {
    let mut all = String::new();
    for byte in text.bytes() {
        let character = char::from(byte);
        if byte.is_ascii_alphanumeric() || ".-_~:".contains(character) || also.contains(character) {
            all.push(character);
        } else {
            all.push('%');
            all.extend(
                [byte >> 4, byte & 15]
                    .map(|half| char::from(b"0123456789ABCDEF"[usize::from(half)])),
            );
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_escaped() {
        let distro = [("upstream", ""), ("distro", "debian-13"), ("arch", "amd64")];
        let debian = purl("deb", "debian", "libstdc++6", "1:14.2~rc1+b1", &distro);
        let wanted = "pkg:deb/debian/libstdc%2B%2B6@1:14.2~rc1%2Bb1?arch=amd64&distro=debian-13";
        assert_eq!(debian, wanted);
        assert_eq!(python("Torch_Audio", "2.1+rocm7"), "pkg:pypi/torch-audio@2.1%2Brocm7");
        let image_at = image(
            &"registry.example.org:5000/ai/x".parse().unwrap(),
            Some(&"1".parse().unwrap()),
            &Digest::of(b""),
        );
        let sha256 = Digest::of(b"");
        let wanted =
            format!("pkg:oci/x@{sha256}?repository_url=registry.example.org:5000/ai/x&tag=1");
        assert_eq!(image_at, wanted);
    }

    #[test]
    fn a_commit_is_on_github_or_anywhere() {
        for (url, wanted) in [
            ("https://github.com/ROCm/vLLM.git", "pkg:github/rocm/vllm@abc"),
            ("https://github.com/ROCm/vLLM/", "pkg:github/rocm/vllm@abc"),
            (
                "https://git.example.org/a/b.git",
                "pkg:generic/b@abc?vcs_url=git%2Bhttps://git.example.org/a/b.git%40abc",
            ),
            ("https://github.com/x", "pkg:generic/x@abc?vcs_url=git%2Bhttps://github.com/x%40abc"),
        ] {
            assert_eq!(commit(url, "abc"), wanted);
        }
    }
}
