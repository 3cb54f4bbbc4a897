//! Reads `versions/lint.toml`. All problems are reported at once, each with its position.

use std::collections::BTreeMap;

use names::GpuTarget;
use pins::reader::{Entry, Report, Reported, Table, Wrong, collect, document, list, quote, wrong};
use pins::{Known, ParseError, Releases};

use crate::forms;

use super::advice::advice_in;
use super::contents::{
    by_package, read_build, read_contents, read_gone, read_index, read_module, read_needs,
    read_program, read_python, read_release,
};
use super::{
    ContainerRow, CouplingRow, Data, Evidence, ExtraRow, Files, GpuRow, ImageRow, KnownRow,
    NeverRow, OllamaRow, Once, OverrideRow, Part, Place, ReaderRow, RocmRow, Row, Rule, SectionRow,
    Severity, ValueForm, VariableRow, WheelRow, WordRow,
};

/// Parses the text of the data file. Messages call it `file`.
///
/// # Errors
/// Returns all problems in the file, each with its position, the value and the correct form.
pub fn parse(file: &str, text: &str) -> Result<Data, ParseError> {
    let mut report = Report::new(file, text);
    let read = document(&mut report).and_then(|entries| {
        let root = Table::root(&mut report, &entries)?;
        root.check_form(&mut report, forms::LINT.keys);
        let mut reader = Reader { report: &mut report, root: &root };
        let rules = reader.rows("rule", read_rule);
        let rocm = reader.rows("rocm", read_rocm);
        let never = reader.rows("never", read_never);
        let extras = reader.rows("extra", read_extra);
        let wheels = reader.rows("wheel", read_wheel);
        let images = reader.rows("image", read_image);
        let containers = reader.rows("container", read_container);
        let overrides = reader.rows("override", read_override);
        let variables = reader.rows("variable", read_variable);
        let ollama = reader.rows("ollama", read_ollama);
        let bases = reader.rows("base", read_base);
        let contents = reader.rows("contents", read_contents);
        let programs = reader.rows("program", read_program);
        let builds = reader.rows("build", read_build);
        let gone = reader.rows("gone", read_gone);
        let needs = reader.rows("needs", read_needs);
        let pythons = reader.rows("python", read_python);
        let modules = reader.rows("module", read_module);
        let indexes = reader.rows("index", read_index);
        let releases = reader.rows("release", read_release);
        let couplings = reader.rows("coupling", read_coupling);
        let gpus = reader.rows("gpu", read_gpu);
        let words = reader.rows("word", read_word);
        let quadlets = reader.rows("quadlet", read_section);
        let sections = reader.rows("section", read_section);
        let known = reader.rows("known", read_known);
        let readers = reader.rows("reader", read_reader);
        let (mut ollama_never, mut ollama_other) = (OllamaRow::default(), OllamaRow::default());
        let mut ollama_settings = OllamaRow::default();
        let mut bases: BTreeMap<String, Vec<String>> = bases?.into_iter().collect();
        let mut take = |name: &str| bases.remove(name).unwrap_or_default();
        for (name, row) in ollama? {
            match name.as_str() {
                "never" => ollama_never = row,
                "settings" => ollama_settings = row,
                _ => ollama_other = row,
            }
        }
        let data = Data {
            rules: rules?,
            rocm: rocm?,
            never: never?,
            extras: extras?,
            wheels: wheels?,
            images: images?,
            containers: containers?,
            overrides: overrides?,
            variables: variables?,
            ollama_never,
            ollama_other,
            ollama_settings,
            known: known?,
            readers: readers?,
            quadlets: quadlets?,
            sections: sections?,
            plain_bases: take("plain"),
            contents: contents?,
            brings: by_package(programs?),
            builds: builds?,
            gone: gone?,
            needs: needs?,
            pythons: pythons?,
            modules: modules?,
            indexes: indexes?,
            externally_managed: take("externally-managed"),
            uid_1000: take("uid-1000"),
            without_lists: take("without-lists"),
            without_render: take("without-render"),
            small: take("small"),
            official: take("official").into_iter().collect(),
            publishers: take("publishers").into_iter().collect(),
            with_torch: take("with-torch"),
            need_torch: take("need-torch"),
            pin_torch: take("pin-torch"),
            use_torch: take("use-torch"),
            any_torch: take("any-torch"),
            need_triton: take("need-triton"),
            rocm_packages: take("rocm-packages"),
            ubuntu_packages: take("ubuntu-packages"),
            releases: releases?,
            couplings: couplings?,
            gpus: gpus?,
            words: words?,
        };
        rules_exist(&mut report, &root, &data)?;
        Ok(data)
    });
    report.finish(read)
}

/// Checks that the rows of all tables name rules that exist.
fn rules_exist(report: &mut Report<'_>, root: &Table<'_>, data: &Data) -> Result<(), Reported> {
    let mut failed = None;
    let tables = root.entries().filter(|entry| entry.key != "rule");
    for row in tables.filter_map(|entry| entry.as_table()).flat_map(|table| table.entries()) {
        let Some(entry) = row.as_table().and_then(|row| row.get("rule")) else { continue };
        let name = entry.text().unwrap_or_default();
        if !data.rules.iter().any(|rule| rule.id == name) {
            let message = format!("there is no rule {}", quote(name));
            let help = match pins::reader::nearest(name, data.rules.iter().map(|r| r.id.as_str())) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("add `[rule.{name}]`"),
            };
            failed = Some(report.add(&entry.span, wrong(message, help)));
        }
    }
    failed.map_or(Ok(()), Err)
}

struct Reader<'r, 'a, 't> {
    report: &'r mut Report<'a>,
    root: &'r Table<'t>,
}

impl Reader<'_, '_, '_> {
    /// Reads all tables `[kind.name]`, sorted by name.
    fn rows<T>(
        &mut self,
        kind: &str,
        read: impl Fn(&mut Report<'_>, &Named<'_>) -> Result<T, Reported>,
    ) -> Result<Vec<T>, Reported> {
        let Some(entry) = self.root.get(kind) else { return Ok(Vec::new()) };
        let place = quote(&format!("[{kind}.name]"));
        let all = entry.table(self.report, &place)?;
        let rows = collect(self.report, all.entries(), |report, row: &Entry<'_>| {
            let own_place = quote(&format!("[{kind}.{}]", row.key));
            let table = row.table(report, &own_place)?;
            Ok((row.key.to_owned(), read(report, &Named { name: row.key, table })?))
        })?;
        Ok(rows.into_values().collect())
    }
}

/// A table and its name.
pub(super) struct Named<'t> {
    pub(super) name: &'t str,
    pub(super) table: Table<'t>,
}

impl Named<'_> {
    /// Reads the keys of a row about a problem.
    fn row(&self, report: &mut Report<'_>) -> Result<Row, Reported> {
        let example = "message = \"the tag moves\"";
        let message = self.table.required(report, "message", example, line);
        let row = self.row_without_message(report);
        Ok(Row { message: message?, ..row? })
    }

    /// Reads the keys of a row for which the rule's code writes the message.
    fn row_without_message(&self, report: &mut Report<'_>) -> Result<Row, Reported> {
        let rule = self.table.required(report, "rule", "rule = \"image-latest\"", line);
        let severity = self.table.optional(report, "severity", severity);
        let advice = self.table.optional(report, "advice", line);
        let gpus = self.table.texts(report, "gpus", "gfx1151", gpu);
        let evidence = self.evidence(report);
        Ok(Row {
            rule: rule?,
            message: String::new(),
            severity: severity?,
            advice: advice?,
            gpus: gpus?,
            evidence: evidence?,
        })
    }

    /// Reads `source`, `known` and `checked`, if the row has them.
    pub(super) fn evidence(&self, report: &mut Report<'_>) -> Result<Option<Evidence>, Reported> {
        let has = ["source", "known", "checked"].iter().any(|key| self.table.get(key).is_some());
        if has { self.required_evidence(report).map(Some) } else { Ok(None) }
    }

    fn required_evidence(&self, report: &mut Report<'_>) -> Result<Evidence, Reported> {
        let source = self.table.required(report, "source", "source = \"ROCm/TheRock#2991\"", line);
        let known = self.table.required(report, "known", "known = \"vendor\"", Known::parse);
        let checked = match self.table.date(report, "checked")? {
            Some(day) => Ok(day),
            None => Err(self.table.add_missing(report, "checked", "checked = 2026-11-20")),
        };
        Ok(Evidence { source: source?, known: known?, checked: checked? })
    }

    fn releases(&self, report: &mut Report<'_>) -> Result<Vec<Releases>, Reported> {
        self.table.texts(report, "releases", "7.2.1 to 7.2.4", releases)
    }

    fn package(&self, report: &mut Report<'_>) -> Result<String, Reported> {
        self.table.required(report, "package", "package = \"torch\"", line)
    }
}

fn read_rule(report: &mut Report<'_>, named: &Named<'_>) -> Result<Rule, Reported> {
    let table = &named.table;
    table.check_form(report, forms::RULE.keys);
    let catalogue = table.texts(report, "catalogue", "L1", line);
    let severity = table.required(report, "severity", "severity = \"warning\"", severity);
    let title = table.required(report, "title", "title = \"the tag moves\"", line);
    let fact = table.required(report, "fact", "fact = \"A tag can be moved.\"", line);
    let advice = table.required(report, "advice", "advice = \"pin the digest\"", line);
    let in_kinds = advice_in(report, table);
    let once = table.optional(report, "once", once);
    let except_tests = table.flag(report, "except-tests");
    let yields_to = table.texts(report, "yields-to", "image-*", line);
    let evidence = named.required_evidence(report);
    Ok(Rule {
        id: named.name.to_owned(),
        catalogue: catalogue?,
        severity: severity?,
        title: title?,
        fact: fact?,
        advice: advice?,
        advice_in: in_kinds?,
        once: once?,
        except_tests: except_tests?,
        yields_to: yields_to?,
        evidence: evidence?,
    })
}

fn read_rocm(report: &mut Report<'_>, named: &Named<'_>) -> Result<RocmRow, Reported> {
    named.table.check_form(report, forms::ROCM.keys);
    let releases = named.releases(report);
    let without_gpu = named.table.flag(report, "without-gpu");
    let is_certain = named.table.flag(report, "only-gpu");
    let unless = named.table.texts(report, "unless", "tensile", lower);
    let row = named.row_without_message(report);
    Ok(RocmRow {
        releases: releases?,
        without_gpu: without_gpu?,
        is_certain: is_certain?,
        unless: unless?,
        row: row?,
    })
}

fn read_never(report: &mut Report<'_>, named: &Named<'_>) -> Result<NeverRow, Reported> {
    let table = &named.table;
    table.check_form(report, forms::NEVER.keys);
    let package = named.package(report);
    let releases = named.releases(report);
    let exact = table.texts(report, "exact", "2.5.0+rocm6.3", line);
    let help = table.required(report, "help", "help = \"the nearest is v0.10.2\"", line);
    let evidence = named.evidence(report);
    Ok(NeverRow {
        package: package?,
        releases: releases?,
        exact: exact?,
        help: help?,
        evidence: evidence?,
    })
}

fn read_extra(report: &mut Report<'_>, named: &Named<'_>) -> Result<ExtraRow, Reported> {
    named.table.check_form(report, forms::EXTRA.keys);
    let package = named.package(report);
    let extras = named.table.texts(report, "extras", "cli", line);
    let releases = named.releases(report);
    let unless = named.table.texts(report, "unless", "transformers 4 or older", package_releases);
    let row = named.row_without_message(report);
    Ok(ExtraRow {
        package: package?,
        extras: extras?,
        releases: releases?,
        unless: unless?,
        row: row?,
    })
}

fn read_wheel(report: &mut Report<'_>, named: &Named<'_>) -> Result<WheelRow, Reported> {
    named.table.check_form(report, forms::WHEEL.keys);
    let package = named.package(report);
    let releases = named.releases(report);
    let python = named.table.required(report, "python", "python = \"3.12\"", line);
    let row = named.row_without_message(report);
    Ok(WheelRow { package: package?, releases: releases?, python: python?, row: row? })
}

fn read_image(report: &mut Report<'_>, named: &Named<'_>) -> Result<ImageRow, Reported> {
    named.table.check_form(report, forms::IMAGE.keys);
    let table = &named.table;
    let repositories = table.texts(report, "repositories", "rocm/vllm-dev", line);
    // The empty tag "" means an image without a tag; no other text may be empty.
    let tags = patterns(report, table, "tags");
    let except = patterns(report, table, "except");
    let option = table.optional(report, "option", line);
    let except_option = table.optional(report, "except-option", line);
    let variables = table.texts(report, "variables", "HSA_*", line);
    let old_rocm = table.texts(report, "old-rocm", "7.1 or older", releases);
    let commands = table.texts(report, "commands", "cmake *", line);
    let except_commands = table.texts(report, "except-commands", "git *checkout *", line);
    let row = named.row(report);
    Ok(ImageRow {
        repositories: repositories?,
        tags: tags?,
        except: except?,
        option: option?,
        variables: variables?,
        except_option: except_option?,
        old_rocm: old_rocm?,
        commands: commands?,
        except_commands: except_commands?,
        row: row?,
    })
}

fn read_container(report: &mut Report<'_>, named: &Named<'_>) -> Result<ContainerRow, Reported> {
    named.table.check_form(report, forms::CONTAINER.keys);
    let table = &named.table;
    let options = table.texts(report, "options", "--ipc=host", line);
    let except = table.texts(report, "except", "--device=/dev/*", line);
    let needs = table.texts(report, "needs", "--device=/dev/kfd*", line);
    let unless = table.texts(report, "unless", "--privileged", line);
    let images = table.texts(report, "images", "*rocm*", line);
    let except_images = table.texts(report, "except-images", "*vulkan*", line);
    let row = named.row(report);
    Ok(ContainerRow {
        options: options?,
        except: except?,
        needs: needs?,
        unless: unless?,
        images: images?,
        except_images: except_images?,
        row: row?,
    })
}

fn read_override(report: &mut Report<'_>, named: &Named<'_>) -> Result<OverrideRow, Reported> {
    named.table.check_form(report, forms::OVERRIDE.keys);
    let values = named.table.texts(report, "values", "11.0.0", line);
    let row = named.row(report);
    Ok(OverrideRow { values: values?, row: row? })
}

fn read_variable(report: &mut Report<'_>, named: &Named<'_>) -> Result<VariableRow, Reported> {
    named.table.check_form(report, forms::VARIABLE.keys);
    let names = named.table.texts(report, "names", "VLLM_USE_V1", line);
    let values = named.table.texts(report, "values", "on", line);
    let except = named.table.texts(report, "except", "*lib/llvm*", line);
    let place = named.table.required(report, "where", "where = \"kept\"", place);
    let unless = named.table.texts(report, "unless", "NAME=0", line);
    let beside = named.table.texts(report, "beside", "HIP_VISIBLE_DEVICES", line);
    let package = named.table.optional(report, "package", line);
    let is_known = named.table.flag(report, "only-known");
    let rocm = named.table.texts(report, "rocm", "6 or older", releases);
    let except_rocm = named.table.texts(report, "except-rocm", "6.2 or older", releases);
    let releases = named.releases(report);
    let except_gpus = named.table.texts(report, "except-gpus", "gfx803", gpu);
    let row = named.row(report);
    Ok(VariableRow {
        names: names?,
        values: values?,
        except: except?,
        place: place?,
        unless: unless?,
        beside: beside?,
        package: package?,
        releases: releases?,
        rocm: rocm?,
        except_rocm: except_rocm?,
        is_known: is_known?,
        except_gpus: except_gpus?,
        row: row?,
    })
}

fn read_ollama(
    report: &mut Report<'_>,
    named: &Named<'_>,
) -> Result<(String, OllamaRow), Reported> {
    named.table.check_form(report, forms::OLLAMA.keys);
    let names = named.table.texts(report, "names", "OLLAMA_TMPDIR", line);
    let help = named.table.optional(report, "help", line);
    let row = OllamaRow { names: names?, help: help?.unwrap_or_default() };
    Ok((named.name.to_owned(), row))
}

fn read_known(report: &mut Report<'_>, named: &Named<'_>) -> Result<KnownRow, Reported> {
    named.table.check_form(report, forms::KNOWN_NAMES.keys);
    let names = named.table.texts(report, "names", "HSA_ENABLE_SDMA", line);
    // People read the source in the file; messages do not quote it.
    named.evidence(report)?;
    Ok(KnownRow { names: names? })
}

fn read_reader(report: &mut Report<'_>, named: &Named<'_>) -> Result<ReaderRow, Reported> {
    let table = &named.table;
    table.check_form(report, forms::READER.keys);
    let program = table.required(report, "program", "program = \"ROCm\"", line);
    let names = table.texts(report, "names", "HSA_ENABLE_SDMA", line);
    let prefixes = table.texts(report, "prefixes", "HSA_", line);
    let except = table.texts(report, "except", "HSA_TOOLS_*", line);
    let is_options = table.flag(report, "options");
    let needs = table.texts(report, "needs", "ggml-org/llama.cpp", line);
    let unless = table.texts(report, "unless", ".patch", line);
    let until = table.optional(report, "until", line);
    let evidence = named.evidence(report);
    Ok(ReaderRow {
        program: program?,
        names: names?,
        prefixes: prefixes?,
        except: except?,
        is_options: is_options?,
        needs: needs?,
        unless: unless?,
        until: until?,
        evidence: evidence?,
    })
}

/// The keys of a section that list the keys whose values have a form.
const VALUE_FORMS: [(&str, ValueForm); 6] = [
    ("texts", ValueForm::Text),
    ("lists", ValueForm::List),
    ("numbers", ValueForm::Number),
    ("booleans", ValueForm::Boolean),
    ("durations", ValueForm::Duration),
    ("sizes", ValueForm::Size),
];

fn read_section(report: &mut Report<'_>, named: &Named<'_>) -> Result<SectionRow, Reported> {
    named.table.check_form(report, forms::SECTION.keys);
    let section = named.table.required(report, "section", "section = \"Container\"", line);
    let keys = named.table.texts(report, "keys", "AddDevice", line);
    let choices = named.table.texts(report, "choices", "cgroup host private", line);
    let mut forms = Vec::new();
    for (key, form) in VALUE_FORMS {
        forms.push((form, named.table.texts(report, key, "restart", line)?));
    }
    Ok(SectionRow { section: section?, keys: keys?, forms, choices: choices? })
}

fn read_base(
    report: &mut Report<'_>,
    named: &Named<'_>,
) -> Result<(String, Vec<String>), Reported> {
    named.table.check_form(report, forms::BASE.keys);
    Ok((named.name.to_owned(), named.table.texts(report, "repositories", "debian", line)?))
}

fn read_coupling(report: &mut Report<'_>, named: &Named<'_>) -> Result<CouplingRow, Reported> {
    named.table.check_form(report, forms::COUPLING.keys);
    let of_torch = named.releases(report);
    let mut with = BTreeMap::new();
    for package in ["torchvision", "torchaudio"] {
        let range = named.table.optional(report, package, releases)?;
        with.extend(range.map(|range| (package.to_owned(), range)));
    }
    Ok(CouplingRow { releases: of_torch?, with })
}

fn read_gpu(report: &mut Report<'_>, named: &Named<'_>) -> Result<GpuRow, Reported> {
    named.table.check_form(report, forms::GPU.keys);
    let words = named.table.texts(report, "words", "strix halo", lower);
    let span = named.table.span();
    let target = gpu(named.name).map_err(|wrong| report.add(&span, wrong));
    Ok(GpuRow { target: target?, words: words? })
}

fn read_word(report: &mut Report<'_>, named: &Named<'_>) -> Result<WordRow, Reported> {
    named.table.check_form(report, forms::WORD.keys);
    let table = &named.table;
    let pattern = table.required(report, "pattern", "pattern = 'apt-key add'", lower_pattern);
    let except = table.optional(report, "except", lower_pattern);
    let in_commands = table.flag(report, "commands");
    let in_comments = table.flag(report, "comments");
    let may_be_denied = table.flag(report, "denied");
    let needs = table.texts(report, "needs", "rocm", lower);
    let unless = table.texts(report, "unless", ".tar.zst", lower);
    let files = table.optional(report, "files", files);
    let without_gpu = table.flag(report, "without-gpu");
    let except_gpus = table.texts(report, "except-gpus", "gfx803", gpu);
    let row = named.row(report);
    let part = if in_commands? {
        Part::Commands
    } else if in_comments? {
        Part::Comments
    } else {
        Part::Lines
    };
    Ok(WordRow {
        name: named.name.to_owned(),
        pattern: pattern?,
        except: except?,
        part,
        may_be_denied: may_be_denied?,
        needs: needs?,
        unless: unless?,
        files: files?.unwrap_or(Files::Any),
        without_gpu: without_gpu?,
        except_gpus: except_gpus?,
        row: row?,
    })
}

/// Reads an array of patterns, which may contain an empty string.
fn patterns(
    report: &mut Report<'_>,
    table: &Table<'_>,
    key: &str,
) -> Result<Vec<String>, Reported> {
    let Some(entry) = table.get(key) else { return Ok(Vec::new()) };
    let Some(items) = entry.items() else {
        return Err(entry.add_type(report, "an array", &format!("write `{key} = [\"latest\"]`")));
    };
    items.iter().map(|item| item.any_text(report, line).map(str::to_owned)).collect()
}

pub(super) fn line(text: &str) -> Result<String, Wrong> {
    match text.chars().count() {
        0..=800 => Ok(text.to_owned()),
        length => {
            let message = format!("{} has {length} characters", quote(text));
            Err(wrong(message, "shorten it to 800 characters"))
        }
    }
}

pub(super) fn lower(text: &str) -> Result<String, Wrong> {
    if text.chars().any(char::is_uppercase) {
        return Err(wrong(
            format!("{} has capital letters", quote(text)),
            "write it in lower case, because lines are converted to lower case",
        ));
    }
    line(text)
}

/// A pattern may use classes such as `\S`, but no other capital letters.
fn lower_pattern(text: &str) -> Result<String, Wrong> {
    lower(&text.replace("\\S", "").replace("\\W", "").replace("\\D", ""))?;
    line(text)
}

fn severity(text: &str) -> Result<Severity, Wrong> {
    [Severity::Error, Severity::Warning, Severity::Information]
        .into_iter()
        .find(|severity| severity.name() == text)
        .ok_or_else(|| choice("a severity", text, &["error", "warning", "information"]))
}

fn once(text: &str) -> Result<Once, Wrong> {
    match text {
        "line" => Ok(Once::Line),
        "kind" => Ok(Once::Kind),
        "file" => Ok(Once::File),
        _ => Err(choice("a part of a file", text, forms::PARTS)),
    }
}

fn place(text: &str) -> Result<Place, Wrong> {
    match text {
        "any" => Ok(Place::Any),
        "set" => Ok(Place::Set),
        "kept" => Ok(Place::Kept),
        "run" => Ok(Place::Run),
        "image" => Ok(Place::Image),
        "file" => Ok(Place::File),
        "start" => Ok(Place::Start),
        _ => {
            let all = ["any", "set", "kept", "run", "image", "file", "start"];
            Err(choice("a value of `where`", text, &all))
        }
    }
}

fn files(text: &str) -> Result<Files, Wrong> {
    match text {
        "text" => Ok(Files::Text),
        "code" => Ok(Files::Code),
        "dockerfile" => Ok(Files::Dockerfile),
        _ => Err(choice("a kind of file", text, &["text", "code", "dockerfile"])),
    }
}

fn choice(what: &str, text: &str, choices: &[&str]) -> Wrong {
    wrong(
        format!("{} is not {what}", quote(text)),
        format!("write one of {}", list(choices.iter().copied())),
    )
}

fn gpu(text: &str) -> Result<GpuTarget, Wrong> {
    text.parse().map_err(|_| {
        wrong(format!("{} is not a GPU target", quote(text)), "a target looks like `gfx1151`")
    })
}

/// Reads the name of a package and a range of its releases.
fn package_releases(text: &str) -> Result<(String, Releases), Wrong> {
    let (package, range) = text.split_once(' ').unwrap_or((text, ""));
    Ok((package.to_owned(), releases(range)?))
}

pub(super) fn releases(text: &str) -> Result<Releases, Wrong> {
    text.parse().map_err(|_| {
        wrong(
            format!("{} is not a range of releases", quote(text)),
            "write `7.2.1 to 7.2.4`, `7.1`, `20260110 or newer` or `0.20 or older`",
        )
    })
}

#[cfg(test)]
mod tests {
    use pins::form::{Absent, Key};

    use super::*;

    const RULE: &str = "[rule.a]\nseverity = \"error\"\ntitle = \"t\"\nfact = \"F.\"\nadvice = \"a\"\nsource = \"s\"\nchecked = 2026-11-20\n";

    fn problems(text: &str) -> Vec<String> {
        let text = format!("schema = 1\n{text}");
        let error = parse("lint.toml", &text).map(|_| ()).unwrap_err();
        error.to_string().lines().map(str::to_owned).collect()
    }

    #[test]
    fn problems_are_reported_with_their_places() {
        for (text, expected) in [
            (
                format!("{RULE}known = \"hearsay\"\n"),
                "lint.toml:9:9: `hearsay` is not a value of `known`",
            ),
            (RULE.to_owned(), "lint.toml:2:7: `known` is missing from `[rule.a]`"),
            (format!("{RULE}known = \"1 reports\"\n"), "`1 reports` is not a value of `known`"),
            (
                format!(
                    "{RULE}known = \"vendor\"\n[override.x]\nvalues = [\"7\"]\nrule = \"b\"\nmessage = \"m\"\n"
                ),
                "lint.toml:12:8: there is no rule `b`",
            ),
            (
                "[word.x]\npattern = 'A'\nrule = 'a'\nmessage = 'm'\n".to_owned(),
                "lint.toml:3:11: `A` has capital letters",
            ),
            (
                format!("{RULE}known = \"vendor\"\n[override.x]\nvalues = [\"7\"]\nrule = \"a\"\n"),
                "lint.toml:10:11: `message` is missing from `[override.x]`",
            ),
            ("[gpu.radeon]\nwords = ['x']\n".to_owned(), "`radeon` is not a GPU target"),
            ("[image.x]\ntag = ['a']\n".to_owned(), "`tag` is not a key of `[image.x]`"),
        ] {
            let found = problems(&text);
            assert!(found.iter().any(|line| line.contains(expected)), "{expected}\n{found:#?}");
        }
    }

    #[test]
    fn the_length_of_a_line_is_counted_in_characters() {
        assert!(line(&"é".repeat(800)).is_ok());
        let message = line(&"é".repeat(801)).unwrap_err().message;
        assert!(message.ends_with("has 801 characters"), "{message}");
    }

    #[test]
    fn a_rule_needs_its_source_and_a_row_may_have_none() {
        for key in ["source", "known", "checked"] {
            let is_required = |keys: &[&[Key]]| {
                let mut all = keys.iter().flat_map(|part| part.iter());
                all.find(|one| one.name == key).unwrap().absent == Absent::Error
            };
            assert!(is_required(forms::RULE.keys), "{key}");
            assert!(!is_required(forms::ROCM.keys), "{key}");
        }
    }
}
