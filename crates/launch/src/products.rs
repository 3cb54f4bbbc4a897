//! The names under which people know GPUs: `RX 7900 XTX`, `Strix Halo`, `MI300X`.

use failure::{Failure, Kind};
use names::GpuTarget;
use pins::{Gpu, Gpus};

use crate::machine;

/// Words that names of products have or lack.
const BRANDS: [&str; 6] = ["amd", "radeon", "instinct", "ryzen", "graphics", "pro"];

/// How a GPU is written.
const EXAMPLE: &str =
    "write a target, for example `gfx1151`; `rocminfo | grep gfx` prints that of this machine";

/// More suggestions than this help nobody.
const MANY: usize = 4;

/// Returns the target that a user means, by its name or that of a product.
///
/// # Errors
/// `gpus.toml` contains neither such a target nor such a product.
pub(crate) fn known(text: &str, gpus: &Gpus) -> Result<GpuTarget, Failure> {
    let target = target(text, gpus);
    if target.starts_with("gfx") {
        return machine::known_gpu(&target, gpus);
    }
    if target.is_empty() {
        let told = Failure::new(Kind::Input, "the GPU target is empty");
        return Err(told.hint(EXAMPLE));
    }
    let what =
        format!("`{text}` is not a GPU target, and versions/gpus.toml contains no such product");
    let near = similar(text, gpus);
    let told = Failure::new(Kind::Input, what);
    let told = if near.is_empty() {
        told
    } else {
        told.hint(format!("did you mean `{}`?", near.join("` or `")))
    };
    Err(told.hint(EXAMPLE))
}

/// Returns the target without its `gfx`, the products that differ only in their spaces, or else
/// the products that have most words of `text`, unless there are many.
fn similar<'a>(text: &str, gpus: &'a Gpus) -> Vec<&'a str> {
    let asked = words(text);
    let joined = asked.concat();
    let targets = gpus.gpus.keys().map(GpuTarget::as_str);
    let named: Vec<&str> =
        targets.filter(|target| target.strip_prefix("gfx") == Some(&*joined)).collect();
    if !named.is_empty() {
        return named;
    }
    let names = gpus.gpus.values().flat_map(|gpu| std::iter::once(&gpu.name).chain(&gpu.products));
    let products: Vec<&str> = names.flat_map(|name| parts(name)).collect();
    let mut same: Vec<&str> =
        products.iter().copied().filter(|name| words(name).concat() == joined).collect();
    same.dedup();
    if !same.is_empty() {
        return same;
    }
    let shared = |product: &str| words(product).iter().filter(|word| asked.contains(word)).count();
    let scored: Vec<(usize, &str)> =
        products.into_iter().map(|product| (shared(product), product)).collect();
    let most = scored.iter().map(|(score, _)| *score).max().unwrap_or(0).max(1);
    let near: Vec<&str> =
        scored.iter().filter(|(score, _)| *score == most).map(|(_, name)| *name).collect();
    if near.len() > MANY { Vec::new() } else { near }
}

/// Returns the target that a user means: the one whose products in `gpus.toml` include `text`, or
/// else `text` in lower case and without features such as `:xnack+`.
fn target(text: &str, gpus: &Gpus) -> String {
    // Processors call themselves `AMD RYZEN AI MAX+ 395 w/ Radeon 8060S`.
    let asked = words(text.split(" w/ ").next().unwrap_or(text));
    let has = |name: &str| products(name).any(|product| !asked.is_empty() && product == asked);
    let is_named = |gpu: &Gpu| has(&gpu.name) || gpu.products.iter().any(|one| has(one));
    let mut named = gpus.gpus.iter().filter(|(_, gpu)| is_named(gpu));
    match (named.next(), named.next()) {
        (Some((target, _)), None) => target.to_string(),
        _ => text.split(':').next().unwrap_or_default().trim().to_ascii_lowercase(),
    }
}

/// Returns the products in a name such as `Van Gogh (Steam Deck)`, each as its words.
fn products(name: &str) -> impl Iterator<Item = Vec<String>> {
    parts(name).map(words).filter(|words| !words.is_empty())
}

fn parts(name: &str) -> impl Iterator<Item = &str> {
    let parts = name.split([',', '(', ')']).flat_map(|part| part.split(" and "));
    parts.map(str::trim).filter(|part| !part.is_empty())
}

fn words(text: &str) -> Vec<String> {
    let lower = text.to_ascii_lowercase();
    let all = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    all.filter(|word| !BRANDS.contains(word)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPUS: &str = r#"schema = 1
[gfx1100]
name = "Radeon RX 7900 XTX, RX 7900 XT"
family = "f"
[gfx1151]
name = "Strix Halo (Ryzen AI Max 385 to 395, Radeon 8060S)"
products = ["Ryzen AI Max+ 395", "Radeon 8050S"]
family = "f"
[gfx906]
name = "Instinct MI50 and MI60, Radeon VII"
family = "f"
[gfx902]
name = "Radeon Vega"
family = "f"
[gfx90c]
name = "Radeon Vega"
family = "f"
"#;

    #[test]
    fn a_product_is_its_target_and_no_similar_one() {
        let gpus = pins::parse_gpus("gpus.toml", GPUS).unwrap();
        for (text, wanted) in [
            ("RX 7900 XTX", "gfx1100"),
            ("amd radeon rx 7900 xt", "gfx1100"),
            ("strix-halo", "gfx1151"),
            ("Radeon 8060S Graphics", "gfx1151"),
            ("AMD RYZEN AI MAX+ PRO 395 w/ Radeon 8060S", "gfx1151"),
            ("AMD RYZEN AI MAX+ PRO 395", "gfx1151"),
            ("8050s", "gfx1151"),
            ("mi60", "gfx906"),
            ("Radeon VII", "gfx906"),
            ("GFX1151", "gfx1151"),
            ("gfx90a:xnack+", "gfx90a"),
            ("gfx1151", "gfx1151"),
            ("RX 7900", "rx 7900"),
            ("RX 7900 GRE", "rx 7900 gre"),
            ("Vega", "vega"),
            ("Radeon", "radeon"),
            ("", ""),
        ] {
            assert_eq!(target(text, &gpus), wanted, "{text}");
        }
    }

    #[test]
    fn an_unknown_product_is_answered_with_similar_ones() {
        let gpus = pins::parse_gpus("gpus.toml", GPUS).unwrap();
        for (text, hint) in [
            ("RX 7900", "`Radeon RX 7900 XTX` or `RX 7900 XT`?"),
            ("Radeon RX 7900 GRE", "`Radeon RX 7900 XTX` or `RX 7900 XT`?"),
            ("MI61", "write a target"),
        ] {
            let told = known(text, &gpus).unwrap_err();
            assert!(told.lines().concat().contains(&format!("`{text}`")), "{told:?}");
            assert!(told.hints[0].contains(hint), "{told:?}");
        }
        let told = known("GFX1152", &gpus).unwrap_err();
        assert!(told.hints.concat().contains("the known targets are gfx1100"), "{told:?}");
    }

    #[test]
    fn a_name_with_other_spaces_or_without_gfx_is_suggested() {
        let gpus = pins::parse_gpus("gpus.toml", GPUS).unwrap();
        for (text, wanted) in [
            ("1151", "did you mean `gfx1151`?"),
            ("90c", "did you mean `gfx90c`?"),
            ("rx7900xtx", "did you mean `Radeon RX 7900 XTX`?"),
            ("RX7900-XT", "did you mean `RX 7900 XT`?"),
            ("radeonvii", EXAMPLE),
        ] {
            assert_eq!(known(text, &gpus).unwrap_err().hints[0], wanted, "{text}");
        }
        for empty in ["", " "] {
            let told = known(empty, &gpus).unwrap_err();
            assert_eq!(told.lines(), ["the GPU target is empty"]);
        }
    }
}
