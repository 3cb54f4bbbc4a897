//! The GPU target as a parameter of a patch: placeholders and their values.

use names::GpuTarget;

/// The placeholders that a patch may use, with their values for `gfx1151`.
pub const PLACEHOLDERS: [(&str, &str); 5] = [
    ("{gpu}", "gfx1151"),
    ("{gpu_number}", "1151"),
    ("{gpu_major}", "11"),
    ("{gpu_stem}", "115"),
    ("{gpu_stepping}", "1"),
];

/// Returns `text` with its placeholders filled in.
///
/// All values consist of letters and digits, so they are safe inside a regular expression.
pub(crate) fn fill(text: &str, gpu: &GpuTarget) -> String {
    let number = gpu.as_str().trim_start_matches("gfx");
    // A target has three to five digits; the last two are the minor version and the stepping.
    let stem = &number[..number.len() - 1];
    let values = [gpu.as_str(), number, &stem[..stem.len() - 1], stem, &number[number.len() - 1..]];
    let mut filled = text.to_owned();
    for ((name, _), value) in PLACEHOLDERS.iter().zip(values) {
        filled = filled.replace(name, value);
    }
    filled
}

/// Returns the first text in `text` that looks like a placeholder but is not one.
pub(crate) fn unknown_placeholder(text: &str) -> Option<&str> {
    text.match_indices("{gpu").map(|(at, _)| &text[at..]).find_map(|rest| {
        let end = rest.find('}').map_or(rest.len(), |end| end + 1);
        let word = rest.get(..end.min(40)).unwrap_or("{gpu");
        if PLACEHOLDERS.iter().any(|(name, _)| *name == word) { None } else { Some(word) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_in() {
        let text = "{gpu} {gpu_number} {gpu_major} {gpu_stem} {gpu_stepping} __{gpu}__ {3}";
        let fill = |gpu: &str| fill(text, &gpu.parse().unwrap());
        assert_eq!(fill("gfx1151"), "gfx1151 1151 11 115 1 __gfx1151__ {3}");
        assert_eq!(fill("gfx90a"), "gfx90a 90a 9 90 a __gfx90a__ {3}");
        assert_eq!(fill("gfx906"), "gfx906 906 9 90 6 __gfx906__ {3}");
    }

    #[test]
    fn unknown_placeholders_are_found() {
        assert_eq!(unknown_placeholder("{gpu} and {gpu_stem}"), None);
        assert_eq!(unknown_placeholder("{gpu} and {gpu_name}!"), Some("{gpu_name}"));
        assert_eq!(unknown_placeholder("x{gpu"), Some("{gpu"));
    }

    #[test]
    fn the_table_of_placeholders_has_their_values_for_its_target() {
        let gpu = "gfx1151".parse().unwrap();
        for (name, value) in PLACEHOLDERS {
            assert_eq!(fill(&format!("{name}{name}"), &gpu), format!("{value}{value}"));
            assert_eq!(unknown_placeholder(name), None);
        }
        let long = format!("{{gpu{}}}", "x".repeat(60));
        assert_eq!(unknown_placeholder(&long), Some(&long[..40]));
        assert_eq!(unknown_placeholder("{gpu}{gpus}{gpu_x}"), Some("{gpus}"));
        // The cut would be inside a character.
        let wide = format!("{{gpu{}", "\u{e4}".repeat(30));
        assert!(unknown_placeholder(&wide).is_some_and(|word| wide.starts_with(word)));
    }
}
