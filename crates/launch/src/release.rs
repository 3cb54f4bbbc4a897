//! The ROCm release that a user names.

use failure::{Failure, Kind};
use pins::{Gpus, Releases};

use crate::notice::Notice;

/// Reads a ROCm release such as `7.2`, `rocm7.2.1`, `v7.2` or `7.9-preview`; `7` means 7.0. `tell`
/// gets a notice about a release that AMD has not published.
///
/// # Errors
/// It is not a release.
pub(crate) fn read(text: &str, gpus: &Gpus, tell: &dyn Fn(Notice)) -> Result<String, Failure> {
    let lower = text.trim().to_ascii_lowercase();
    let plain = lower.trim_start_matches("rocm").trim_start_matches(['-', ' ', 'v']);
    let plain =
        plain.strip_suffix("preview").map_or(plain, |rest| rest.trim_end_matches(['-', ' ']));
    let is_release = format!("{plain} or newer").parse::<Releases>().is_ok();
    if !is_release {
        let known = &gpus.rocm_releases;
        let told = Failure::new(Kind::Input, format!("`--rocm {text}` is not a ROCm release"))
            .hint("write it as AMD does, for example `--rocm 7.2`, which means all releases 7.2.*");
        return Err(if known.is_empty() {
            told
        } else {
            told.hint(format!("AMD's releases are {}", known.join(", ")))
        });
    }
    let release = if plain.contains('.') { plain.to_owned() } else { format!("{plain}.0") };
    tell_unknown(&release, &gpus.rocm_releases, tell);
    Ok(release)
}

/// Warns about a release that is not in the list, or is outside it.
fn tell_unknown(release: &str, known: &[String], tell: &dyn Fn(Notice)) {
    let (Some(oldest), Some(newest)) = (known.first(), known.last()) else { return };
    let is_in = |range: &str| range.parse::<Releases>().is_ok_and(|range| range.contains(release));
    if known.iter().any(|one| is_in(one)) {
        return;
    }
    if is_in(&format!("{oldest} to {newest}")) {
        tell(Notice::warning(
            "rocm-release",
            format!(
                "AMD has not released ROCm {release}, at most nightly builds of it, so the answer may be wrong; AMD's releases are {}",
                known.join(", ")
            ),
        ));
    } else {
        tell(Notice::Hint(format!(
            "this program knows the ROCm releases from {oldest} to {newest}, so its answer for {release} may be wrong; `--rocm` selects another release"
        )));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn heard(text: &str) -> (Result<String, String>, Vec<Notice>) {
        let gpus = "schema = 1\nrocm-releases = [\"6.4\", \"7.2\", \"7.9\", \"10.1\"]\n";
        let gpus = pins::parse_gpus("gpus.toml", gpus).unwrap();
        let all = RefCell::new(Vec::new());
        let read = read(text, &gpus, &|notice| all.borrow_mut().push(notice));
        (read.map_err(|failure| failure.hints.concat()), all.into_inner())
    }

    #[test]
    fn a_release_is_read_as_people_write_it() {
        for (text, release) in [
            ("7.2", "7.2"),
            ("7.2.1", "7.2.1"),
            ("v7.2", "7.2"),
            ("rocm7.2", "7.2"),
            ("rocm-7.2.4", "7.2.4"),
            ("ROCm 7.2", "7.2"),
            ("7.9-preview", "7.9"),
            ("7.9 preview", "7.9"),
            ("7.2.0a20260101", "7.2.0a20260101"),
        ] {
            assert_eq!(heard(text), (Ok(release.to_owned()), Vec::new()), "{text}");
        }
        assert_eq!(heard("7").0, Ok("7.0".to_owned()), "the contradiction of `--rocm 7`");
        for text in ["seven", "", "7.x", "rocm", "preview", ">=7.2", "7.2-rc"] {
            let hints = heard(text).0.unwrap_err();
            assert!(
                hints.contains("`--rocm 7.2`") && hints.contains("6.4, 7.2, 7.9, 10.1"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_release_that_does_not_exist_is_named() {
        for text in ["7.3", "7.0", "8.0", "9", "10.0"] {
            let notices = heard(text).1;
            let [Notice::Warning { message, .. }] = notices.as_slice() else {
                panic!("{notices:?}")
            };
            assert!(message.ends_with("AMD's releases are 6.4, 7.2, 7.9, 10.1"), "{message}");
        }
        for text in ["10.2", "11.0", "99.9", "1.0", "6.3"] {
            let notices = heard(text).1;
            let [Notice::Hint(message)] = notices.as_slice() else { panic!("{notices:?}") };
            assert!(message.contains("from 6.4 to 10.1"), "{message}");
        }
    }
}
