//! Selects the commands of a CMake file that a probe evaluates with CMake.

use std::collections::BTreeSet;

/// Commands that name a variable without changing it.
const READERS: [&str; 5] = ["if", "elseif", "while", "message", "mark_as_advanced"];

/// Returns the commands of a file that `is_wanted` accepts, one per line, together with the
/// commands that set the variables in them. Conditions around them are left out, so a probe sees
/// all values that the file may set. `read` returns the text of an included file that the probe
/// does not have.
///
/// # Errors
/// Returns the reason if the file may change the same variables in a way that the selection misses,
/// or if a selected command evaluates a variable that the file does not set.
pub(crate) fn selection(
    text: &str,
    is_wanted: impl Fn(&str) -> bool,
    mut read: impl FnMut(&str) -> Option<String>,
) -> Result<String, String> {
    let all = parsed(text);
    let mut chosen: BTreeSet<usize> =
        (0..all.len()).filter(|at| is_wanted(all[*at].text)).collect();
    let subjects: BTreeSet<&str> = chosen.iter().filter_map(|at| all[*at].target()).collect();
    let set: BTreeSet<&str> = all.iter().filter_map(Command::target).collect();
    loop {
        let needed: BTreeSet<&str> = chosen.iter().flat_map(|at| all[*at].references()).collect();
        let more = (0..all.len()).filter(|at| {
            let command = &all[*at];
            let is_needed = |name: &str| needed.contains(name) && !subjects.contains(name);
            command.target().is_some_and(is_needed)
                || !command.is_in_function && command.may_be(&subjects, &all)
        });
        let larger: BTreeSet<usize> = chosen.iter().copied().chain(more).collect();
        if larger.len() == chosen.len() {
            break;
        }
        chosen = larger;
    }
    let line = |command: &Command<'_>| {
        let begin = command.text.as_ptr().addr() - text.as_ptr().addr();
        text[..begin].matches('\n').count() + 1
    };
    for (at, command) in all.iter().enumerate() {
        let refuse = |why: String| Err(format!("line {}: {why}", line(command)));
        if chosen.contains(&at) {
            let is_known = |name: &&str| set.contains(name) || name.starts_with("CMAKE_");
            if let Some(name) = command.references().into_iter().find(|name| !is_known(name)) {
                return refuse(format!("`${{{name}}}` has no value in this file"));
            }
        } else if let Some(name) = command.changes(&subjects) {
            return refuse(format!("`{}` may change `{name}`", command.name));
        } else if let Some(path) = command.included() {
            let included = read(&path).unwrap_or_default();
            if let Some(name) = subjects.iter().find(|name| included.contains(**name)) {
                return refuse(format!("the file `{path}` may change `{name}`"));
            }
        }
    }
    Ok(chosen.iter().fold(String::new(), |selected, at| selected + all[*at].text + "\n"))
}

/// A command with its arguments. Quoted arguments keep their quotes.
struct Command<'a> {
    text: &'a str,
    /// In lower case.
    name: String,
    arguments: Vec<&'a str>,
    /// Whether it is part of the definition of a function or macro.
    is_in_function: bool,
}

/// Returns every command of a file.
fn parsed(text: &str) -> Vec<Command<'_>> {
    let mut depth = 0_usize;
    let one = |command| {
        let (name, rest): (&str, &str) = str::split_once(command, '(').unwrap_or((command, ")"));
        let name = name.trim_end().to_ascii_lowercase();
        match name.as_str() {
            "function" | "macro" => depth += 1,
            "endfunction" | "endmacro" => depth = depth.saturating_sub(1),
            _ => {}
        }
        let arguments = arguments(&rest[..rest.len() - 1]);
        Command { text: command, name, arguments, is_in_function: depth > 0 }
    };
    commands(text).into_iter().map(one).collect()
}

/// Returns the arguments between the parentheses of a command.
fn arguments(text: &str) -> Vec<&str> {
    let mut arguments = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        let end = match next {
            '#' => {
                at = comment_end(text, at);
                continue;
            }
            '"' => quoted_end(text, at + 1).unwrap_or(text.len()),
            '[' if bracket_end(text, at).is_some() => bracket_end(text, at).unwrap_or(at + 1),
            _ if next.is_whitespace() || matches!(next, '(' | ')') => {
                at += next.len_utf8();
                continue;
            }
            _ => {
                let is_end = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | '#');
                text[at..].find(is_end).map_or(text.len(), |end| at + end)
            }
        };
        arguments.push(&text[at..end]);
        at = end;
    }
    arguments
}

impl<'a> Command<'a> {
    /// Returns the variable that the command sets or changes, as written.
    fn target(&self) -> Option<&'a str> {
        let word =
            |at: usize| self.arguments.get(at).map_or_else(String::new, |w| w.to_uppercase());
        let at = match (self.name.as_str(), word(0).as_str(), word(1).as_str()) {
            ("set" | "unset" | "separate_arguments", ..) => 0,
            ("list", "LENGTH" | "GET" | "JOIN" | "SUBLIST" | "FIND", _) => {
                self.arguments.len().checked_sub(1)?
            }
            ("list", ..) | ("string", "APPEND" | "PREPEND" | "CONCAT", _) => 1,
            ("string", "REGEX", "REPLACE") => 4,
            ("string", "REGEX", _) | ("string", "REPLACE", _) => 3,
            ("string", ..) => 2,
            _ => return None,
        };
        self.arguments.get(at).map(|argument| argument.trim_matches('"'))
    }

    /// Returns whether the command computes the name of its target, and the name may be one of
    /// `subjects`.
    fn may_be(&self, subjects: &BTreeSet<&str>, all: &[Command<'_>]) -> bool {
        let Some((begin, rest)) = self.target().and_then(|name| name.split_once("${")) else {
            return false;
        };
        let end = rest.rsplit_once('}').map_or("", |(_, end)| end);
        subjects.iter().any(|subject| {
            let is_part = !(begin.is_empty() && end.is_empty());
            is_part && subject.starts_with(begin) && subject.ends_with(end)
                || all.iter().any(|command| command.passes_on(subject))
        })
    }

    /// Returns whether it stores the name of a variable in another variable.
    fn passes_on(&self, subject: &str) -> bool {
        let values = match (self.name.as_str(), self.arguments.as_slice()) {
            ("set", [_, values @ ..]) => values,
            ("list", [action, _, values @ ..])
                if ["APPEND", "PREPEND", "INSERT"].contains(&action.to_uppercase().as_str()) =>
            {
                values
            }
            _ => return false,
        };
        values.iter().any(|word| word.trim_matches('"') == subject)
    }

    /// Returns the variables that it evaluates: `${NAME}`.
    fn references(&self) -> Vec<&'a str> {
        let pieces = self.text.split("${").skip(1);
        pieces.filter_map(|piece| piece.split_once('}')).map(|(name, _)| name).collect()
    }

    /// Returns one of `subjects` that this command, which was not selected, may change.
    fn changes<'b>(&self, subjects: &BTreeSet<&'b str>) -> Option<&'b str> {
        let names = match self.name.as_str() {
            name if READERS.contains(&name) => return None,
            // Such a command changes only its target; `is_wanted` decided that it is not needed.
            _ if self.target().is_some() => return None,
            "foreach" if self.arguments.get(2).is_some_and(|word| *word == "LISTS") => return None,
            "cmake_language" => subjects.iter().find(|name| self.text.contains(**name)),
            _ => subjects
                .iter()
                .find(|name| self.arguments.iter().any(|word| word.trim_matches('"') == **name)),
        };
        names.copied()
    }

    /// Returns the path of the file that it includes, relative to the including file's folder.
    fn included(&self) -> Option<String> {
        let path = self.arguments.first().filter(|_| self.name == "include")?.trim_matches('"');
        let folder = path.strip_prefix("${").and_then(|rest| rest.split_once("}/"));
        Some(folder.map_or(path, |(_, rest)| rest).to_owned())
    }
}

/// Returns the text of every command, in order: `set(A "b;c")`. Comments are not commands. Text
/// that cannot be a command is left out, and so is an unfinished command.
pub(crate) fn commands(text: &str) -> Vec<&str> {
    let mut commands = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        if next == '#' {
            at = comment_end(text, at);
        } else if next == '_' || next.is_ascii_alphabetic() {
            let is_part = |c: char| c == '_' || c.is_ascii_alphanumeric();
            let name = text[at..].find(|c| !is_part(c)).map_or(text.len(), |end| at + end);
            let blank = text[name..].find(|c| c != ' ' && c != '\t');
            let open = blank.map_or(text.len(), |blank| name + blank);
            at = if text[open..].starts_with('(') {
                let Some(end) = arguments_end(text, open + 1) else { return commands };
                commands.push(&text[at..end]);
                end
            } else {
                open.max(name)
            };
        } else {
            at += next.len_utf8();
        }
    }
    commands
}

/// Returns the end of the comment that starts at `at`.
fn comment_end(text: &str, at: usize) -> usize {
    match bracket_end(text, at + 1) {
        Some(end) => end,
        None => text[at..].find('\n').map_or(text.len(), |end| at + end),
    }
}

/// Returns the end of the bracket argument (`[[…]]`, `[=[…]=]`) that starts at `at`.
fn bracket_end(text: &str, at: usize) -> Option<usize> {
    let inside = text[at..].strip_prefix('[')?;
    let equals = inside.len() - inside.trim_start_matches('=').len();
    if !inside[equals..].starts_with('[') {
        return None;
    }
    let close = format!("]{}]", "=".repeat(equals));
    let start = at + equals + 2;
    Some(text[start..].find(&close).map_or(text.len(), |end| start + end + close.len()))
}

/// Returns the end of the command whose arguments start at `at`, after its closing parenthesis.
fn arguments_end(text: &str, mut at: usize) -> Option<usize> {
    let mut depth = 1_usize;
    while let Some(next) = text[at..].chars().next() {
        match next {
            '#' => at = comment_end(text, at),
            '"' => at = quoted_end(text, at + 1)?,
            '[' => at = bracket_end(text, at).unwrap_or(at + 1),
            '\\' => at += 1 + text[at + 1..].chars().next()?.len_utf8(),
            _ => {
                at += next.len_utf8();
                depth = match next {
                    '(' => depth + 1,
                    ')' => depth - 1,
                    _ => depth,
                };
                if depth == 0 {
                    return Some(at);
                }
            }
        }
    }
    None
}

/// Returns the end of the quoted argument whose text starts at `at`.
fn quoted_end(text: &str, mut at: usize) -> Option<usize> {
    while let Some(next) = text[at..].chars().next() {
        at += next.len_utf8();
        match next {
            '"' => return Some(at),
            '\\' => at += text[at..].chars().next()?.len_utf8(),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Selects the commands that mention `L`; `odd.cmake` changes `L`.
    fn selected(text: &str) -> Result<String, String> {
        let is_wanted = |command: &str| command.contains("(L") || command.contains(" L ");
        selection(text, is_wanted, |path| (path == "odd.cmake").then(|| "set(L)".to_owned()))
    }

    #[test]
    fn what_sets_the_variables_of_a_command_is_selected_too() {
        let first = "set(L a b)\n";
        for (rest, more) in [
            (
                "set(X b)\nset(Y c)\nlist(REMOVE_ITEM L ${X})\n",
                "set(X b)\nlist(REMOVE_ITEM L ${X})\n",
            ),
            ("set(V L)\nlist(REMOVE_ITEM ${V} b)\n", "set(V L)\nlist(REMOVE_ITEM ${V} b)\n"),
            (
                "set(A b)\nset(B \"${A}\")\nlist(REMOVE_ITEM L \"${B}\")\n",
                "set(A b)\nset(B \"${A}\")\nlist(REMOVE_ITEM L \"${B}\")\n",
            ),
            (
                "set(W L)\nset(V ${W})\nlist(REMOVE_ITEM ${V} b)\n",
                "set(W L)\nset(V ${W})\nlist(REMOVE_ITEM ${V} b)\n",
            ),
            ("macro(m OUT)\nset(${OUT} x)\nendmacro()\nset(Z z)\n", ""),
            ("if(b IN_LIST L)\nendif()\nforeach(one IN LISTS L)\nendforeach()\n", ""),
            ("foreach(V K)\nlist(REMOVE_ITEM ${V} b)\nendforeach()\n", ""),
            ("include(FetchContent)\nf(X \"${L}\")\n", ""),
            ("list(APPEND L ${CMAKE_X})\n", "list(APPEND L ${CMAKE_X})\n"),
            // A call of the macro would name the variable.
            ("set(V L)\nmacro(m OUT)\nset(${OUT} x)\nendmacro()\n", ""),
            (
                "macro(m)\nendmacro()\nset(V L)\nlist(REMOVE_ITEM ${V} b)\n",
                "set(V L)\nlist(REMOVE_ITEM ${V} b)\n",
            ),
            // The position of the variable that `string` sets depends on the other arguments.
            (
                "string(REGEX REPLACE a b X c)\nlist(APPEND L ${X})\n",
                "string(REGEX REPLACE a b X c)\nlist(APPEND L ${X})\n",
            ),
            (
                "string(REGEX MATCH a X b)\nlist(APPEND L ${X})\n",
                "string(REGEX MATCH a X b)\nlist(APPEND L ${X})\n",
            ),
            (
                "string(REPLACE a b X c)\nlist(APPEND L ${X})\n",
                "string(REPLACE a b X c)\nlist(APPEND L ${X})\n",
            ),
            (
                "string(TOUPPER x X)\nlist(APPEND L ${X})\n",
                "string(TOUPPER x X)\nlist(APPEND L ${X})\n",
            ),
        ] {
            assert_eq!(
                selected(&format!("{first}{rest}")).unwrap(),
                format!("{first}{more}"),
                "{rest}"
            );
        }
    }

    #[test]
    fn what_may_change_a_variable_unseen_is_refused() {
        for (rest, why) in [
            ("list(REMOVE_ITEM L ${X})", "line 2: `${X}` has no value in this file"),
            (
                "foreach(X b)\nlist(REMOVE_ITEM L ${X})\nendforeach()",
                "line 3: `${X}` has no value in this file",
            ),
            (
                "foreach(V L)\nlist(REMOVE_ITEM ${V} b)\nendforeach()",
                "line 2: `foreach` may change `L`",
            ),
            ("list(REMOVE_ITEM ${V}L b)", "line 2: `${V}` has no value in this file"),
            ("Odd(x L)", "line 2: `odd` may change `L`"),
            ("odd(x \"L\")", "line 2: `odd` may change `L`"),
            (
                "list(APPEND N L)\nforeach(V IN LISTS N)\nunset(${V})\nendforeach()",
                "line 4: `${V}` has no value in this file",
            ),
            ("cmake_language(EVAL CODE \"set( L)\")", "line 2: `cmake_language` may change `L`"),
            (
                "include(\"${CMAKE_CURRENT_LIST_DIR}/odd.cmake\")",
                "line 2: the file `odd.cmake` may change `L`",
            ),
        ] {
            assert_eq!(selected(&format!("set(L a b)\n{rest}\n")).unwrap_err(), why);
        }
    }

    #[test]
    fn commands_are_found_however_they_are_written() {
        let text = "# set(A \"x\")\n#[[ set(B y) ]]\nset(A \"a;b)\" # set(C z)\n  c)\n\
            if (NOT (A)) \n list ( REMOVE_ITEM A b\\) )\nendif()\nset(D [=[ ]] ) ]=] e)\nset(E";
        assert_eq!(
            commands(text),
            [
                "set(A \"a;b)\" # set(C z)\n  c)",
                "if (NOT (A))",
                "list ( REMOVE_ITEM A b\\) )",
                "endif()",
                "set(D [=[ ]] ) ]=] e)",
            ]
        );
        for odd in ["", "(", "set", "set(\"", "set(\\", "ä(b)", "#", "#[", "set([", "1a(b) _x()"] {
            commands(odd);
        }
        assert_eq!(commands("_x()"), ["_x()"]);
    }

    #[test]
    fn the_variable_that_each_command_sets_is_known() {
        for (command, target) in [
            ("set(L a)", Some("L")),
            ("SET(\"L\" a)", Some("L")),
            ("unset(L)", Some("L")),
            ("separate_arguments(L)", Some("L")),
            ("list(APPEND L a)", Some("L")),
            ("list(length K L)", Some("L")),
            ("list(GET K 0 L)", Some("L")),
            ("list(JOIN K ; L)", Some("L")),
            ("list(SUBLIST K 0 1 L)", Some("L")),
            ("list(FIND K a L)", Some("L")),
            ("string(APPEND L a)", Some("L")),
            ("string(PREPEND L a)", Some("L")),
            ("string(CONCAT L a b)", Some("L")),
            ("string(REGEX REPLACE a b L c)", Some("L")),
            ("string(REGEX MATCH a L c)", Some("L")),
            ("string(REGEX MATCHALL a L c)", Some("L")),
            ("string(REPLACE a b L c)", Some("L")),
            ("string(TOUPPER a L)", Some("L")),
            ("if(L)", None),
            ("list(LENGTH)", Some("LENGTH")),
            ("list()", None),
            ("set()", None),
            ("message(L)", None),
        ] {
            let commands = parsed(command);
            assert_eq!(commands[0].target(), target, "{command}");
        }
    }

    #[test]
    fn arguments_keep_quotes_and_lose_comments() {
        assert_eq!(arguments("A \"b c\" # d\n [[e f]] g[h"), ["A", "\"b c\"", "[[e f]]", "g[h"]);
        assert_eq!(arguments("(A (b)) c"), ["A", "b", "c"]);
        assert_eq!(arguments("a#b\nc"), ["a", "c"]);
        assert_eq!(arguments("#[[x]]a"), ["a"]);
        assert_eq!(arguments("\u{a0}a\u{a0}b"), ["a", "b"]);
        assert_eq!(arguments(" \t\n"), Vec::<&str>::new());
        assert_eq!(arguments("\"open"), ["\"open"]);
    }

    #[test]
    fn commands_of_nested_functions_are_inside_until_the_last_end() {
        let text = "a()\nfunction(f)\nb()\nmacro(m)\nc()\nendmacro()\nd()\nendfunction()\n\
                    e()\nendfunction()\nFUNCTION(g)\nh()\nEndFunction()\ni()\n";
        let outside: Vec<String> = parsed(text)
            .into_iter()
            .filter(|command| !command.is_in_function)
            .map(|command| command.name)
            .collect();
        assert_eq!(outside, ["a", "endfunction", "e", "endfunction", "endfunction", "i"]);
    }

    #[test]
    fn the_names_that_a_command_evaluates_and_includes_are_found() {
        let command = |text: &'static str| parsed(text).remove(0);
        assert_eq!(command("set(A ${B} \"${C}x${D}\" $ENV{E})").references(), ["B", "C", "D"]);
        assert_eq!(command("set(A ${B)").references(), Vec::<&str>::new());
        for (text, path) in [
            ("include(a.cmake)", Some("a.cmake")),
            ("include(\"a/b.cmake\")", Some("a/b.cmake")),
            ("include(${CMAKE_CURRENT_LIST_DIR}/a.cmake)", Some("a.cmake")),
            ("include(${X})", Some("${X}")),
            ("add_subdirectory(a)", None),
            ("include()", None),
        ] {
            assert_eq!(command(text).included().as_deref(), path, "{text}");
        }
    }

    #[test]
    fn a_computed_name_is_a_subject_only_if_it_can_be() {
        let selected = |rest: &str| {
            let text = format!("set(L_OLD a)\nset(X b)\n{rest}\n");
            let is_wanted = |command: &str| command.starts_with("set(L_OLD");
            selection(&text, is_wanted, |_| None).map(|text| text.lines().count())
        };
        // The beginning and the end of the name must match.
        assert_eq!(selected("set(L_${X} c)"), Ok(3));
        assert_eq!(selected("set(${X}_OLD c)"), Ok(3));
        assert_eq!(selected("set(L${X}D c)"), Ok(3));
        assert_eq!(selected("set(M_${X} c)"), Ok(1));
        assert_eq!(selected("set(${X}_NEW c)"), Ok(1));
        assert_eq!(selected("set(L_${X}_NEW c)"), Ok(1));
        // A name that is only a variable matches if that variable may hold the subject's name.
        assert_eq!(selected("set(${X} c)"), Ok(1));
        assert_eq!(selected("list(append X L_OLD)\nset(${X} c)"), Ok(4));
        assert_eq!(selected("list(REMOVE_ITEM X L_OLD)\nset(${X} c)"), Ok(1));
        // Inside a function, a computed name is an argument of its caller.
        assert_eq!(selected("function(f X)\nset(L_${X} c)\nendfunction()"), Ok(1));
    }

    #[test]
    fn readers_do_not_change_a_variable_in_any_letter_case() {
        let selected = |rest: &str| selected(&format!("set(L a)\n{rest}\n"));
        for name in READERS {
            assert_eq!(selected(&format!("{name}(x L)")), Ok("set(L a)\n".to_owned()), "{name}");
            let upper = name.to_uppercase();
            assert_eq!(selected(&format!("{upper}(x L)")), Ok("set(L a)\n".to_owned()), "{name}");
        }
        assert_eq!(selected("foreach(x L)"), Err("line 2: `foreach` may change `L`".to_owned()));
        assert_eq!(selected("foreach(x IN L)"), Err("line 2: `foreach` may change `L`".to_owned()));
        assert_eq!(selected("foreach(x IN LISTS L)"), Ok("set(L a)\n".to_owned()));
        assert_eq!(selected("\n\nodd(x L)"), Err("line 4: `odd` may change `L`".to_owned()));
    }

    #[test]
    fn comments_and_brackets_end_where_cmake_ends_them() {
        assert_eq!(commands("#[=[ ]] a() ]=] b()"), ["b()"]);
        assert_eq!(commands("#[= a()\nb()"), ["b()"]);
        assert_eq!(commands("# a()"), Vec::<&str>::new());
        assert_eq!(commands("a([[)]])b()"), ["a([[)]])", "b()"]);
        assert_eq!(commands("a([)b()"), ["a([)", "b()"]);
        assert_eq!(commands("a(\"\\\")\" )b()"), ["a(\"\\\")\" )", "b()"]);
        assert_eq!(commands("a(\\) ) b ()"), ["a(\\) )", "b ()"]);
        assert_eq!(commands("a\nb()"), ["b()"], "a name and its parenthesis share a line");
        assert_eq!(commands("a(#)\n) b()"), ["a(#)\n)", "b()"]);
        assert_eq!(commands("a(\\"), Vec::<&str>::new());
    }
}
