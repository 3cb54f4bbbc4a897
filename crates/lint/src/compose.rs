//! Reads the images and variables of a compose file, each with its line.

use saphyr_parser::{Event, Parser};

use crate::facts::Image;
use crate::shell::{Scope, Setting, UNKNOWN};

/// Returns whether a YAML file is a compose file.
pub(crate) fn is_compose(name: &str, text: &str) -> bool {
    name.contains("compose") || text.lines().any(|line| line.trim_end() == "services:")
}

/// One level of nesting in the document.
enum Level {
    /// A mapping, with its next or current key.
    Mapping(Option<String>),
    Sequence,
}

/// Returns the variables and images of a compose file; none if the text is not YAML.
pub(crate) fn read(text: &str) -> (Vec<Setting>, Vec<Image>) {
    let (mut settings, mut images) = (Vec::new(), Vec::new());
    let mut levels: Vec<Level> = Vec::new();
    for event in Parser::new_from_str(text) {
        let Ok((event, span)) = event else { break };
        match event {
            Event::MappingStart(..) => levels.push(Level::Mapping(None)),
            Event::SequenceStart(..) => levels.push(Level::Sequence),
            Event::MappingEnd | Event::SequenceEnd => {
                levels.pop();
                end_value(&mut levels);
            }
            Event::Alias(_) => end_value(&mut levels),
            Event::Scalar(value, ..) => {
                let line = span.start.line();
                if let Some(Level::Mapping(key @ None)) = levels.last_mut() {
                    *key = Some(value.into_owned());
                    continue;
                }
                let path: Vec<&str> = levels
                    .iter()
                    .map(|level| match level {
                        Level::Mapping(Some(key)) => key.as_str(),
                        Level::Mapping(None) => "",
                        Level::Sequence => "-",
                    })
                    .collect();
                // Below `services` and a service name, including levels that `extends` or anchors
                // add.
                let setting = match path.as_slice() {
                    [.., "environment", "-"] => {
                        value.split_once('=').map(|(n, v)| (n.to_owned(), v.to_owned()))
                    }
                    [.., "environment", name] => Some(((*name).to_owned(), value.to_string())),
                    _ => None,
                };
                if let Some((name, value)) = setting {
                    let value = if value.contains("${") { UNKNOWN.to_string() } else { value };
                    settings.push(Setting { name, value, line, scope: Scope::Run });
                }
                if let [.., _, "image"] = path.as_slice() {
                    images.push(Image { reference: value.to_string(), line });
                }
                end_value(&mut levels);
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => {}
        }
    }
    (settings, images)
}

/// Marks the value of a mapping as read; the next scalar is a key.
fn end_value(levels: &mut [Level]) {
    if let Some(Level::Mapping(key)) = levels.last_mut() {
        *key = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_environment_are_read() {
        let text = "x-common: &common\n  environment:\n    A: 1\nservices:\n  one:\n    image: a/b:c\n    environment:\n      - B=2\n      - C\n      - D=${D}\n  two:\n    <<: *common\n    image: d\n    build: .\n    environment: { E: \"\" }\n";
        let (settings, images) = read(text);
        let settings: Vec<_> =
            settings.iter().map(|s| (s.name.as_str(), s.value.as_str(), s.line)).collect();
        assert_eq!(settings, [("A", "1", 3), ("B", "2", 8), ("D", "\u{fffc}", 10), ("E", "", 15)]);
        let images: Vec<_> =
            images.iter().map(|image| (image.reference.as_str(), image.line)).collect();
        assert_eq!(images, [("a/b:c", 6), ("d", 13)]);
    }

    #[test]
    fn what_is_no_yaml_comes_to_an_end() {
        for text in ["", "a: [", "\t", "a: *b", "- - -", "services:\n  a: {image", "&a *a"] {
            drop(read(text));
        }
    }
}
