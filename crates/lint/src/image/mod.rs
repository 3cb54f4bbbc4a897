//! A model of an image while it is built. [`walk`] follows the instructions of a Dockerfile and the
//! commands of its `RUN`s in order, and tells a rule before each step what is known then: the
//! working directory, the user, the files, and the users.
//!
//! What is not known stays unknown: a script, a variable without a value, a base image. A rule must
//! report nothing about it.

pub(crate) mod effects;
mod expand;
pub(crate) mod files;
pub(crate) mod users;

use std::collections::BTreeMap;

use self::effects::{Effect, absolute, base_name};
use self::expand::Variables;
use self::files::{Files, Owner, Presence};
use self::users::Users;
use crate::dockerfile::Instruction;
use crate::facts::Facts;
use crate::rules::stages::{
    ByInstruction, by_instruction, commands_of, fixed_base, is_known_base, parent, parts,
};
use crate::rules::{image_path, is_conditional, is_root, may_be_root};
use crate::shell::{Operator, ShellCommand, UNKNOWN};

/// What is known of a stage at one point.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) files: Files,
    pub(crate) users: Users,
    /// The user of the next command.
    pub(crate) user: String,
    /// The working directory; empty if it is not known.
    pub(crate) folder: String,
    /// The working directory at the start of the stage.
    start: String,
    /// The working directory of the last command.
    pub(crate) last: String,
    /// The variables, with the lines that set them.
    pub(crate) variables: Variables,
    /// Whether commands that make users also make their home folders.
    makes_homes: bool,
    /// Whether the base image is known.
    pub(crate) is_plain: bool,
}

/// A step of a build.
pub(crate) enum Step<'s> {
    /// A command of a `RUN`.
    Command {
        own: &'s Instruction,
        command: &'s ShellCommand,
        effects: &'s [Effect],
        /// Whether it runs in every build, and the build stops if it fails.
        is_sure: bool,
    },
    /// `COPY` or `ADD`.
    Copy { own: &'s Instruction, copy: &'s Copy, from: Option<&'s State> },
    /// `USER`
    User { own: &'s Instruction, name: &'s str },
    /// The end of a stage.
    End { stage: usize },
}

/// The arguments of `COPY` or `ADD`.
#[derive(Debug, Default)]
pub(crate) struct Copy {
    /// The stage or image in `--from=`.
    pub(crate) from: Option<String>,
    pub(crate) owner: Option<String>,
    has_mode: bool,
    pub(crate) sources: Vec<String>,
    pub(crate) target: String,
}

/// Images of vendors that add no folder at the top.
const OF_VENDORS: [&str; 3] = ["nvidia/cuda", "rocm/pytorch", "rocm/tensorflow"];

impl State {
    fn of_base(facts: &Facts<'_>, all: &[Instruction], stage: usize) -> Self {
        let base = image_path(fixed_base(facts, all, stage));
        // An argument can choose another image, or an earlier stage.
        let is_from = |one: &&Instruction| one.stage == stage && parts(one).0 == "FROM";
        let from = all.iter().find(is_from).map_or("", |one| parts(one).1);
        let given = from.split_whitespace().find(|word| !word.starts_with("--"));
        let is_chosen =
            given.is_none_or(|word| word.split(':').next().unwrap_or(word).contains('$'));
        let is_plain = !is_chosen && !matches!(base, "" | "golang") && is_known_base(facts, stage);
        let folder = if is_plain { "/" } else { "" }.to_owned();
        let makes_homes =
            ["fedora", "almalinux", "rockylinux"].iter().any(|one| base.contains(one));
        Self {
            files: Files::new(is_plain || !is_chosen && OF_VENDORS.contains(&base)),
            users: Users::new(is_plain),
            user: "root".to_owned(),
            start: folder.clone(),
            last: String::new(),
            folder,
            variables: Variables::default(),
            makes_homes,
            is_plain,
        }
    }

    /// Returns whether a named volume, which gets its owner from the folder of the image, certainly
    /// belongs to root, while the user is another one.
    pub(crate) fn refuses_volume(&self, target: &str) -> bool {
        if is_root(&self.user) || self.user.contains(UNKNOWN) {
            return false;
        }
        match self.files.find(target) {
            Presence::Absent => true,
            Presence::Present => self.files.can_write(&self.user, target) == Some(false),
            Presence::Unknown => false,
        }
    }

    /// Returns the home folder of the user; a text with [`UNKNOWN`] if it is not known.
    pub(crate) fn home(&self) -> String {
        match (self.variables.get("HOME"), self.users.get(&self.user)) {
            (Some(home), _) => home.to_owned(),
            (None, _) if is_root(&self.user) => "/root".to_owned(),
            (None, Some(user)) => user.home.clone(),
            (None, None) => UNKNOWN.to_string(),
        }
    }

    /// Returns the absolute path of what a command names; an empty text if it is not known.
    pub(crate) fn path(&self, command: &ShellCommand, path: &str) -> String {
        absolute(&self.folder_of(command), &self.home(), path)
    }

    /// Returns the working directory of a command; an empty text if it is not known.
    pub(crate) fn folder_of(&self, command: &ShellCommand) -> String {
        let own = if command.folder.is_empty() { "." } else { &command.folder };
        absolute(&self.start, &self.home(), own)
    }

    fn owner(&self, is_sure: bool) -> Owner {
        match self.user.as_str() {
            _ if !is_sure => Owner::Unknown,
            user if is_root(user) => Owner::Root,
            user if user.contains(UNKNOWN) => Owner::Unknown,
            user => Owner::User(user.to_owned()),
        }
    }

    /// Applies what a command does.
    fn apply(&mut self, command: &ShellCommand, effects: &[Effect], is_sure: bool) {
        let line = command.words[0].line;
        let words = command.texts();
        if matches!(base_name(words[0]), "useradd" | "adduser") {
            let made = self.users.read(&words, self.makes_homes);
            if let Some((name, home)) = made.filter(|_| is_sure) {
                self.files.fill(&home, Owner::User(name), line);
            }
        }
        let owner = self.owner(is_sure);
        for effect in effects {
            self.change(command, effect, &owner, is_sure);
        }
        self.last = self.folder_of(command);
    }

    fn change(&mut self, command: &ShellCommand, effect: &Effect, owner: &Owner, is_sure: bool) {
        let line = command.words[0].line;
        let path = match effect {
            Effect::Build => {
                let folder = self.folder_of(command);
                self.files.forget_content();
                return self.files.forget(&folder);
            }
            Effect::Places => return self.files.forget_places(),
            Effect::System => return self.files.forget_removed(),
            Effect::Anything => {
                self.users.forget();
                return self.files.forget_all();
            }
            Effect::Folder { path, .. }
            | Effect::File(path)
            | Effect::Tree(path)
            | Effect::Inside(path)
            | Effect::Gone(path)
            | Effect::Owned { path, .. } => self.path(command, path),
        };
        if path.is_empty() || path.contains([UNKNOWN, '$']) {
            return match effect {
                Effect::Gone(_) => {}
                Effect::Owned { .. } => self.files.forget_all(),
                _ => self.files.forget_places(),
            };
        }
        match effect {
            // A pattern stands for some paths of its folder.
            Effect::Gone(_) if path.contains(['*', '?', '[', '{']) => {}
            Effect::Owned { .. } if path.contains(['*', '?', '[', '{']) => {
                let folder = path.split(['*', '?', '[', '{']).next().unwrap_or_default();
                let folder = folder.rsplit_once('/').map_or("", |(folder, _)| folder);
                self.files.own(folder, &Owner::Unknown, true);
            }
            _ if !is_sure => {
                let is_owned = matches!(effect, Effect::Owned { .. });
                if !is_owned {
                    self.files.fill(&path, Owner::Unknown, line);
                }
                self.files.own(&path, &Owner::Unknown, true);
            }
            Effect::Folder { has_parents: true, .. } => {
                self.files.make_folders(&path, owner, line);
            }
            Effect::Folder { .. } => self.files.make_folder(&path, owner.clone(), line),
            Effect::File(_) => self.files.make_file(&path, owner.clone(), line),
            Effect::Tree(_) => self.files.fill(&path, owner.clone(), line),
            Effect::Inside(_) => self.files.forget(&path),
            Effect::Gone(_) => self.files.remove(&path, line),
            Effect::Owned { owner: new, is_deep, .. } => self.files.own(&path, new, *is_deep),
            Effect::Build | Effect::System | Effect::Places | Effect::Anything => {}
        }
    }

    /// Applies a `COPY`.
    fn copied(&mut self, own: &Instruction, copy: &Copy) {
        let owner = match copy.owner.as_deref().map(|owner| owner.split(':').next()) {
            _ if copy.has_mode => Owner::Unknown,
            None | Some(Some("root" | "0")) => Owner::Root,
            Some(Some(name)) if !name.contains(UNKNOWN) => Owner::User(name.to_owned()),
            Some(_) => Owner::Unknown,
        };
        let target = absolute(&self.folder, &self.home(), &copy.target);
        if target.is_empty() || target.contains([UNKNOWN, '$', '*']) {
            return self.files.forget_places();
        }
        let is_folder = copy.target.ends_with('/')
            || matches!(copy.target.as_str(), "." | "..")
            || copy.sources.len() > 1;
        let is_one_file = copy.sources.iter().all(|source| is_file(source));
        if !is_one_file {
            self.files.make_folders(&target, &owner, own.line);
            return self.files.fill(&target, owner, own.line);
        }
        let is_there = is_folder && self.files.find(&target) == Presence::Present;
        match is_folder {
            true if !is_there => self.files.make_folders(&target, &owner, own.line),
            false => {
                let above = files::parent(&target).unwrap_or("/").to_owned();
                self.files.make_folders(&above, &owner, own.line);
                // If the target is a folder, the file is copied into it.
                let is_name = is_file(&target);
                return if is_name {
                    self.files.make_file(&target, owner, own.line);
                } else {
                    self.files.fill(&target, owner, own.line);
                };
            }
            true => {}
        }
        for source in &copy.sources {
            let path = format!("{}/{}", target.trim_end_matches('/'), base_name(source));
            self.files.make_file(&path, owner.clone(), own.line);
        }
    }
}

/// Returns whether the name of a source is certainly that of one file, and not of a folder, a
/// pattern or an archive that `ADD` unpacks.
fn is_file(path: &str) -> bool {
    let name = base_name(path);
    let end = name.rsplit_once('.').filter(|(start, _)| !start.is_empty()).map(|(_, end)| end);
    let is_end = |one: &str| {
        (1..=5).contains(&one.len()) && one.starts_with(|c: char| c.is_ascii_alphabetic())
    };
    let is_archive = |one: &str| matches!(one, "gz" | "tar" | "tgz" | "xz" | "bz2" | "zst" | "d");
    end.is_some_and(|end| is_end(end) && !is_archive(end))
        && !path.contains(['*', '?', '[', UNKNOWN, '$', '{'])
}

/// Follows the instructions of a Dockerfile, and calls `visit` before each step.
pub(crate) fn walk(facts: &Facts<'_>, visit: &mut dyn FnMut(&State, &Step<'_>)) {
    let all = facts.instructions();
    let commands = by_instruction(facts, all);
    let mut ends: BTreeMap<usize, State> = BTreeMap::new();
    let mut settings = expand::Settings::new(facts);
    let mut global = Variables::default();
    for own in all.iter().filter(|one| one.stage == 0) {
        settings.read(own, &mut global, None);
    }
    let mut at = all.partition_point(|one| one.stage == 0);
    for number in 1..=facts.stages.len() {
        let earlier = parent(facts, all, number).and_then(|stage| ends.get(&stage));
        let mut state = earlier.map_or_else(
            || State::of_base(facts, all, number),
            |earlier| State { start: earlier.folder.clone(), ..earlier.clone() },
        );
        while let Some(own) = all.get(at).filter(|one| one.stage == number) {
            at += 1;
            settings.read(own, &mut state.variables, Some(&global));
            step(own, &commands, &ends, facts, &mut state, visit);
        }
        visit(&state, &Step::End { stage: number });
        if ends.len() < MOST_STAGES {
            ends.insert(number, state);
        }
    }
}

/// The maximum number of stages that others can be based on.
const MOST_STAGES: usize = 50;

fn step(
    own: &Instruction,
    commands: &ByInstruction<'_>,
    ends: &BTreeMap<usize, State>,
    facts: &Facts<'_>,
    state: &mut State,
    visit: &mut dyn FnMut(&State, &Step<'_>),
) {
    let (name, rest) = parts(own);
    match name.as_str() {
        "WORKDIR" => {
            let given = state.variables.expand(rest.trim());
            state.folder = absolute(&state.folder, &state.home(), &given);
            let (folder, owner) = (state.folder.clone(), state.owner(true));
            if folder.contains([UNKNOWN, '$']) {
                state.folder.clear();
            } else if !folder.is_empty() {
                state.files.make_folders(&folder, &owner, own.line);
            }
        }
        "USER" => {
            let given = state.variables.expand(rest.split_whitespace().next().unwrap_or_default());
            let user = given.split(':').next().unwrap_or_default().trim_matches('"').to_owned();
            visit(state, &Step::User { own, name: &user });
            state.user = user;
        }
        "VOLUME" => {
            let words = rest.split(|c: char| c.is_whitespace() || "[]\",".contains(c));
            for path in words.filter(|path| path.starts_with('/')) {
                let path = effects::absolute("/", "", &state.variables.expand(path));
                state.files.make_folders(&path, &Owner::Root, own.line);
            }
        }
        "COPY" | "ADD" => {
            let copy = read_copy(rest, &state.variables);
            let from = copy.from.as_deref().and_then(|from| stage_of(facts, from, own.stage));
            let from = from.and_then(|stage| ends.get(&stage));
            visit(state, &Step::Copy { own, copy: &copy, from });
            state.copied(own, &copy);
        }
        "RUN" => run(own, commands_of(commands, own), state, visit),
        _ => {}
    }
}

/// Returns the number of the earlier stage that `--from=` names.
fn stage_of(facts: &Facts<'_>, from: &str, own: usize) -> Option<usize> {
    let is_its = |one: &crate::facts::Stage| {
        one.name.as_ref().is_some_and(|name| name.eq_ignore_ascii_case(from))
    };
    let named = facts.stages.iter().position(is_its).or_else(|| from.parse().ok())?;
    Some(named + 1).filter(|stage| *stage < own)
}

fn read_copy(rest: &str, variables: &Variables) -> Copy {
    let mut copy = Copy::default();
    let list = serde_json::from_str::<Vec<String>>(rest.trim());
    let words = list.unwrap_or_else(|_| rest.split_whitespace().map(str::to_owned).collect());
    let mut plain: Vec<String> = Vec::new();
    for word in words {
        let word = variables.expand(&word);
        match word.strip_prefix("--").map(|option| option.split_once('=').unwrap_or((option, ""))) {
            Some(("from", value)) => copy.from = Some(value.to_owned()),
            Some(("chown", value)) => copy.owner = Some(value.to_owned()),
            Some(("chmod", _)) => copy.has_mode = true,
            Some(_) => {}
            // The files of a here document have no source.
            None if word.starts_with("<<") => plain.push("document.txt".to_owned()),
            None => plain.push(word.trim_matches(['"', '[', ']', ',']).to_owned()),
        }
    }
    copy.target = plain.pop().unwrap_or_default();
    copy.sources = plain;
    copy
}

/// Words of a `RUN` whose commands are not all run once.
const LOOPS: [&str; 5] = ["for ", "select ", "() {", "(){", "<<"];

fn run(
    own: &Instruction,
    commands: &[&ShellCommand],
    state: &mut State,
    visit: &mut dyn FnMut(&State, &Step<'_>),
) {
    let (_, rest) = parts(own);
    for word in rest.split_whitespace().filter(|word| word.starts_with("--mount=")) {
        let mut parts = word.split([',', '=']);
        let target = parts.find(|part| matches!(*part, "target" | "dst" | "destination"));
        let target = target.and_then(|_| parts.next()).unwrap_or("/");
        let target = absolute(&state.folder, &state.home(), &state.variables.expand(target));
        // Programs of another stage, or scripts, can do anything, but they are named.
        state.files.fill(&target, Owner::Unknown, own.line);
    }
    let is_document = rest.contains("<<");
    let is_plain = !is_conditional(rest) && !LOOPS.iter().any(|word| rest.contains(word));
    let raises = may_be_root(rest);
    state.last.clone_from(&state.folder);
    for command in commands {
        let effects = effects::of(command);
        let is_own = is_plain && command.operator != Operator::Or && !command.is_for_other;
        let is_sure = is_own && !raises && !is_document;
        visit(state, &Step::Command { own, command, effects: &effects, is_sure });
        state.apply(command, &effects, is_own && !raises);
    }
    if is_document || rest.trim_start().starts_with('[') {
        state.users.forget();
        state.files.forget_all();
    }
}
