//! Names with `*` (any text) and `?` (any character), and names of functions.

/// Whether the whole name matches.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut position) = (0, 0);
    // The last `*`, and where in the name the text begins that follows its own.
    let mut star: Option<(usize, usize)> = None;
    while position < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, position));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || *wanted == name[position] => {
                at += 1;
                position += 1;
            }
            _ => match star {
                Some((star_at, begin)) => {
                    star = Some((star_at, begin + 1));
                    (at, position) = (star_at + 1, begin + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

/// Whether a function has this name: with all namespaces, or with the innermost ones only. The
/// parameters, which C++ adds to the name, are compared only if the pattern has some.
pub(crate) fn matches_function(pattern: &str, function: &str) -> bool {
    if matches(pattern, function) {
        return true;
    }
    if pattern.contains('(') {
        return false;
    }
    let name = without_parameters(function);
    let begins = namespaces(name).into_iter();
    begins.map(|begin| &name[begin..]).any(|part| matches(pattern, part))
}

/// Where the name and each of its inner parts begin: behind a `::` or a blank (after the type that
/// a template returns) that is in no brackets.
fn namespaces(name: &str) -> Vec<usize> {
    let (mut depth, mut begins) = (0_i32, vec![0]);
    let bytes = name.as_bytes();
    for at in 0..bytes.len() {
        match bytes[at] {
            b'<' | b'(' | b'{' => depth += 1,
            b'>' | b')' | b'}' => depth -= 1,
            b' ' if depth == 0 => begins.push(at + 1),
            b':' if depth == 0 && at > 0 && bytes[at - 1] == b':' => begins.push(at + 1),
            _ => {}
        }
    }
    begins
}

/// Up to the parenthesis that is in no brackets and is not that of `operator()`.
fn without_parameters(function: &str) -> &str {
    let mut depth = 0_i32;
    for (at, character) in function.char_indices() {
        match character {
            '<' | '{' => depth += 1,
            '>' | '}' => depth -= 1,
            // `(anonymous namespace)::` belongs to the name.
            '(' if depth == 0
                && at > 0
                && !function[..at].ends_with("operator")
                && !function[at..].starts_with("(anonymous namespace)") =>
            {
                return &function[..at];
            }
            _ => {}
        }
    }
    function
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_any_text() {
        for (pattern, name) in [
            ("audio", "audio"),
            ("audio*", "audio-3"),
            ("*", ""),
            ("a?d*o", "audio"),
            ("*b*b", "abab"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("audio", "audio-3"), ("a?", "a"), ("*x", "audio"), ("", "a")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn functions_match_without_parameters_and_outer_namespaces() {
        for function in [
            "process",
            "process(float*, int)",
            "Engine::process(float*, int)",
            "(anonymous namespace)::Engine::process(float*)",
            "void Engine::process<float>(float*)",
            "game::Engine::process",
        ] {
            assert!(matches_function("process*", function), "{function}");
        }
        assert!(matches_function("Engine::process", "audio::Engine::process(float*)"));
        assert!(matches_function("process(int)", "process(int)"));
        for function in ["preprocess", "Engine::process::inner(int)"] {
            assert!(!matches_function("process", function), "{function}");
        }
        assert!(!matches_function("start", "process(Engine::start)"));
        assert!(!matches_function("process(int)", "process(long)"));
    }
}
