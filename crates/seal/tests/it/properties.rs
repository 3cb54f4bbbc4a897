//! Properties of all layers.

use std::io::Cursor;

use proptest::prelude::*;
use seal::{Index, Sealer};

use crate::model::{Image, Item, Layer, apply, from_tar, sensible, tar};
use crate::support::{base, listed_over, rules, seal, unzip};

fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "c", "a.b", "a-b"]);
    prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"))
}

fn item() -> impl Strategy<Value = Item> {
    let mode = prop::sample::select(vec![0o755, 0o644, 0o1777, 0o4755]);
    prop_oneof![
        4 => mode.clone().prop_map(Item::Directory),
        4 => (mode, prop::collection::vec(0..2_u8, 0..3)).prop_map(|(m, c)| Item::File(m, c)),
        1 => path().prop_map(Item::Symlink),
        2 => path().prop_map(Item::Link),
        2 => Just(Item::Whiteout),
        1 => Just(Item::Opaque),
    ]
}

fn layer() -> impl Strategy<Value = Layer> {
    prop::collection::vec((path(), item()), 0..12)
}

/// A base of two layers, and layers on top of it, all valid.
fn image() -> impl Strategy<Value = (Vec<Layer>, Vec<Layer>)> {
    (prop::collection::vec(layer(), 2), prop::collection::vec(layer(), 1..4)).prop_map(
        |(below, layers)| {
            let mut image = Image::new();
            let mut next = |layer| {
                let layer = sensible(&image, layer);
                apply(&mut image, &layer);
                layer
            };
            let below = below.into_iter().map(&mut next).collect();
            (below, layers.into_iter().map(next).collect())
        },
    )
}

fn tars(layers: &[Layer]) -> Vec<Vec<u8>> {
    layers.iter().map(|layer| tar(layer).end()).collect()
}

fn show(layers: &[Layer]) -> Image {
    let mut image = Image::new();
    layers.iter().for_each(|layer| apply(&mut image, layer));
    image
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// An image of sealed layers has the same content as the image of the engine's layers. A
    /// different tar reader reads the layers, and the model merges them.
    #[test]
    fn sealed_layers_show_the_same((below, layers) in image()) {
        let mut sealer = Sealer::new(rules(&[]), base(&tars(&below))).unwrap();
        let mut sealed = below.clone();
        for (number, layer) in layers.iter().enumerate() {
            let mut out = Vec::new();
            let done = sealer.layer(Cursor::new(tar(layer).end()), &mut out).unwrap();
            sealed.extend(done.layer.map(|_| from_tar(&unzip(&out))));
            let raw = [&below[..], &layers[..=number]].concat();
            prop_assert_eq!(show(&sealed), show(&raw));
        }
        let mut view: Vec<String> = show(&sealed).into_keys().collect();
        view.sort();
        prop_assert_eq!(sealer.view().len(), view.len());
    }

    #[test]
    fn folded_layers_show_the_same((below, layers) in image()) {
        let mut sealer = Sealer::new(rules(&[]), base(&tars(&below))).unwrap();
        let mut out = Vec::new();
        let inputs = tars(&layers).into_iter().map(Cursor::new).collect();
        let done = sealer.squash(inputs, &mut out).unwrap();
        let mut sealed = below.clone();
        sealed.extend(done.layer.map(|_| from_tar(&unzip(&out))));
        prop_assert_eq!(show(&sealed), show(&[below, layers].concat()));
    }

    #[test]
    fn sealing_a_sealed_layer_changes_nothing((below, layers) in image()) {
        let index = base(&tars(&below));
        let (once, bytes) = seal(&index, &tar(&layers[0]).end());
        if let Some(layer) = once.layer {
            let (twice, again) = seal(&index, &bytes);
            prop_assert!(again == bytes);
            prop_assert_eq!(twice.layer.unwrap(), layer);
        }
    }

    /// Order, spelling, owner names and build times do not affect the result.
    #[test]
    fn what_engines_differ_in_does_not_count(
        (below, layers) in image(),
        shuffled in Just(()).prop_perturb(|(), mut random| random.random::<u64>()),
    ) {
        let below = tars(&below);
        let plain = tar(&layers[0]).end();
        let mut order = layers[0].clone();
        let mut state = shuffled | 1;
        order.sort_by_cached_key(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        });
        let mut other = tar(&order).0;
        let mut at = 0;
        while at < other.len() {
            let size = usize::from_str_radix(
                std::str::from_utf8(&other[at + 124..at + 135]).unwrap(), 8,
            ).unwrap();
            other[at + 265..at + 269].copy_from_slice(b"root");
            other[at + 297..at + 301].copy_from_slice(b"root");
            other[at + 136..at + 147].copy_from_slice(b"15555555555");
            crate::support::checksum(&mut other[at..at + 512]);
            at += 512 + size.next_multiple_of(512);
        }
        // The tar contains the layer twice. The last entry of a path is used; it equals the first.
        // This does not work for links, because their target is the earlier file.
        if !layers[0].iter().any(|(_, item)| matches!(item, Item::Link(_))) {
            other = other.repeat(2);
        }
        prop_assert_eq!(listed_over(&below, &plain), listed_over(&below, &other));
    }
}

#[test]
fn nothing_sealed_is_nothing() {
    let mut out = Vec::new();
    let mut sealer = Sealer::new(rules(&[]), Index::new()).unwrap();
    assert_eq!(sealer.layer(Cursor::new([0; 1024]), &mut out).unwrap().layer, None);
    assert!(out.is_empty());
}
