use super::*;
use proptest::prelude::*;

fn glob(text: &str) -> PathPattern {
    PathPattern::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn matches(pattern: &str, path: &str) -> bool {
    glob(pattern).matches(Path::new(path))
}

#[test]
fn a_literal_matches_itself_and_nothing_below() {
    assert!(matches("/home/me", "/home/me"));
    assert!(!matches("/home/me", "/home/me/x"));
    assert!(!matches("/home/me", "/home"));
    assert!(!matches("/home/me", "/home/men"));
}

#[test]
fn slashes_and_dots_are_tidied_but_parents_stay() {
    assert_eq!(glob("//a/./b///").as_path(), Path::new("/a/b"));
    assert_eq!(glob("/a/../b").as_path(), Path::new("/a/../b"));
    assert_eq!(glob("/").as_path(), Path::new("/"));
    assert!(matches("/", "/"));
}

#[test]
fn a_star_stays_within_its_component() {
    assert!(matches("/a/*.rs", "/a/x.rs"));
    assert!(matches("/a/*.rs", "/a/.rs"));
    assert!(!matches("/a/*.rs", "/a/b/x.rs"));
    assert!(matches("/a/*/c", "/a/b/c"));
    assert!(!matches("/a/*/c", "/a/c"));
    assert!(matches("/a/*b*c", "/a/xbybzc"));
}

#[test]
fn a_star_matches_hidden_names() {
    assert!(matches("/home/*", "/home/.ssh"));
    assert!(matches("/**/.env", "/srv/.app/.env"));
}

#[test]
fn two_stars_match_any_number_of_components() {
    for path in ["/a/c", "/a/b/c", "/a/b/b/c", "/a/c/c"] {
        assert!(matches("/a/**/c", path), "{path}");
    }
    assert!(!matches("/a/**/c", "/a/b"));
    assert!(!matches("/a/**/c", "/b/c"));
    assert!(matches("/a/**", "/a"));
    assert!(matches("/a/**", "/a/b/c"));
    assert!(!matches("/a/**", "/ab"));
    assert!(matches("/**", "/"));
    assert!(matches("/**/x/**/y", "/x/x/q/y"));
    assert!(!matches("/**/x/**/y", "/y/x"));
}

#[test]
fn two_stars_inside_a_name_are_one_star() {
    assert!(matches("/a/b**c", "/a/bxc"));
    assert!(!matches("/a/b**c", "/a/b/c"));
}

#[test]
fn a_set_takes_one_character() {
    assert!(matches("/[a-c]x", "/bx"));
    assert!(!matches("/[a-c]x", "/dx"));
    assert!(matches("/[!a-c]x", "/dx"));
    assert!(!matches("/[^a-c]x", "/ax"));
    assert!(matches("/[]x]", "/]"));
    assert!(matches("/[!]]", "/x"));
    assert!(matches("/[a-]", "/-"));
    assert!(matches("/[-a]", "/-"));
    assert!(matches("/[[]slug]", "/[slug]"));
    assert!(matches("/[*]", "/*"));
    assert!(!matches("/[*]", "/x"));
}

#[test]
fn a_question_mark_takes_one_character_of_any_width() {
    assert!(matches("/?", "/é"));
    assert!(matches("/[é-ü]", "/ö"));
    assert!(!matches("/??", "/é"));
    assert!(!matches("/?", "/"));
}

#[test]
#[cfg(unix)]
fn bytes_that_are_not_text_match_as_themselves() {
    use std::os::unix::ffi::OsStrExt;
    let name = Path::new(OsStr::from_bytes(b"/a/\xff\xfe"));
    assert!(glob("/a/??").matches(name));
    assert!(glob("/a/*").matches(name));
    assert!(!glob("/a/?").matches(name));
    assert!(PathPattern::literal(name).matches(name));
    let odd = PathPattern::parse(OsStr::from_bytes(b"/a/\xff*")).unwrap();
    assert!(odd.matches(name));
    assert!(!odd.matches(Path::new("/a/x")));
}

#[test]
fn a_star_never_stops_inside_a_character() {
    assert!(!matches("/*[!é]", "/é"));
}

#[test]
fn mistakes_are_named() {
    let error = |text: &str| PathPattern::parse(text).unwrap_err().to_string();
    assert_eq!(error(""), "the path is empty");
    assert_eq!(error("a/*"), "the path is not absolute");
    assert_eq!(error("/a\0"), "the path contains a NUL byte");
    assert_eq!(error("/a/../*"), "a glob cannot contain `..`; write the actual folder");
    assert_eq!(error("/a/[bc"), "`[` starts a set that is not closed; write `[[]` for the character itself");
    assert_eq!(error("/[z-a]"), "the range `z-a` is reversed");
    // A set cannot reach over a slash.
    assert_eq!(PathPattern::parse("/[a/b]"), Err(PatternError::OpenSet));
}

#[test]
fn a_literal_keeps_its_special_characters() {
    let literal = PathPattern::literal("/app/[slug]/*");
    assert!(!literal.is_glob());
    assert!(literal.matches(Path::new("/app/[slug]/*")));
    assert!(!literal.matches(Path::new("/app/s/x")));
    assert_eq!(literal.literal_prefix(), Path::new("/app/[slug]/*"));
}

#[test]
fn a_name_whose_special_characters_are_said_literally_is_a_name() {
    let named = glob("/app/[[]slug]/[*][?]");
    assert!(!named.is_glob());
    assert_eq!(named, PathPattern::literal("/app/[slug]/*?"));
    assert_eq!(glob("/app/[[]slug]/*").literal_prefix(), Path::new("/app/[slug]"));
    assert_eq!(glob("/[$]x/[ ]y").as_path(), Path::new("/$x/ y"));
    // Who puts another character in brackets wants a glob, and what a glob finds is no named path.
    assert!(glob("/[!*]").is_glob() && glob("/[*?]").is_glob() && glob("/[a]").is_glob());
}

#[test]
fn a_pattern_moves_with_the_folder_it_starts_from() {
    let moved = glob("/lnk/sub/*.conf").moved_to(Path::new("/real/[x]"));
    assert!(moved.is_glob() && moved.matches(Path::new("/real/[x]/a.conf")));
    assert!(!moved.matches(Path::new("/lnk/sub/a.conf")) && !moved.matches(Path::new("/real/x/a.conf")));
    assert_eq!(moved.literal_prefix(), Path::new("/real/[x]"));
    assert_eq!(moved.as_path(), Path::new("/real/[x]/*.conf"));
    assert_eq!(glob("/*").moved_to(Path::new("/a")), glob("/a/*"));
    assert_eq!(glob("/a/**").moved_to(Path::new("/")), glob("/**"));
}

#[test]
fn a_relative_glob_takes_its_folder_literally() {
    let glob = PathPattern::parse_in(Path::new("/app/[slug]/"), "./src//*.ts").unwrap();
    assert!(glob.matches(Path::new("/app/[slug]/src/x.ts")));
    assert!(!glob.matches(Path::new("/app/s/src/x.ts")));
    assert_eq!(glob.literal_prefix(), Path::new("/app/[slug]/src"));
    assert_eq!(glob.as_path(), Path::new("/app/[slug]/src/*.ts"));

    let plain = PathPattern::parse_in(Path::new("/app/[slug]"), "x/../y").unwrap();
    assert!(!plain.is_glob());
    assert_eq!(plain.as_path(), Path::new("/app/[slug]/x/../y"));

    let absolute = PathPattern::parse_in(Path::new("/app"), "/srv/*").unwrap();
    assert!(absolute.matches(Path::new("/srv/x")));
    assert_eq!(absolute.literal_prefix(), Path::new("/srv"));
}

#[test]
fn the_prefix_ends_before_the_first_special_component() {
    assert_eq!(glob("/a/b*/c").literal_prefix(), Path::new("/a"));
    assert_eq!(glob("/a/b/**").literal_prefix(), Path::new("/a/b"));
    assert_eq!(glob("/*").literal_prefix(), Path::new("/"));
    assert_eq!(glob("/a/b").literal_prefix(), Path::new("/a/b"));
}

#[test]
fn a_walk_is_pruned_where_nothing_can_match() {
    let below = |pattern: &str, folder: &str| glob(pattern).could_match_below(Path::new(folder));
    assert!(below("/a/*/c", "/"));
    assert!(below("/a/*/c", "/a"));
    assert!(below("/a/*/c", "/a/b"));
    assert!(!below("/a/*/c", "/a/b/c"));
    assert!(!below("/a/*/c", "/b"));
    assert!(below("/a/**/c", "/a/x/y/z"));
    assert!(below("/a/**", "/a"));
    assert!(!below("/a", "/a"));
}

#[test]
fn a_hostile_pattern_costs_no_more_than_a_product() {
    let name = "a".repeat(4000);
    let stars = "*a".repeat(1000);
    let path = format!("/{name}b");
    assert!(!matches(&format!("/{stars}c"), &path));

    let deep = "/a".repeat(2000);
    let pattern = format!("{}/b", "/**/a".repeat(300));
    assert!(!matches(&pattern, &deep));
}

/// The semantics as a definition: slow, and too simple to be wrong.
fn reference(pattern: &[&str], path: &[&str]) -> bool {
    match pattern {
        [] => path.is_empty(),
        ["**", rest @ ..] => (0..=path.len()).any(|skip| reference(rest, &path[skip..])),
        [first, rest @ ..] => {
            !path.is_empty()
                && reference_name(&first.chars().collect::<Vec<_>>(), &path[0].chars().collect::<Vec<_>>())
                && reference(rest, &path[1..])
        }
    }
}

fn reference_name(pattern: &[char], name: &[char]) -> bool {
    match pattern {
        [] => name.is_empty(),
        ['*', rest @ ..] => (0..=name.len()).any(|skip| reference_name(rest, &name[skip..])),
        ['?', rest @ ..] => !name.is_empty() && reference_name(rest, &name[1..]),
        ['[', '!', 'a', '-', 'b', ']', rest @ ..] => {
            !name.is_empty() && !('a'..='b').contains(&name[0]) && reference_name(rest, &name[1..])
        }
        ['[', 'a', '-', 'b', ']', rest @ ..] => {
            !name.is_empty() && ('a'..='b').contains(&name[0]) && reference_name(rest, &name[1..])
        }
        [literal, rest @ ..] => name.first() == Some(literal) && reference_name(rest, &name[1..]),
    }
}

fn pattern_component() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[abcé]",
        2 => Just("*".to_owned()),
        1 => Just("?".to_owned()),
        1 => Just("[a-b]".to_owned()),
        1 => Just("[!a-b]".to_owned()),
    ];
    prop_oneof![3 => proptest::collection::vec(piece, 1..5).prop_map(|p| p.concat()), 1 => Just("**".to_owned())]
}

proptest! {
    #[test]
    fn matching_agrees_with_the_definition(
        pattern in proptest::collection::vec(pattern_component(), 1..5),
        path in proptest::collection::vec("[abcé]{1,4}", 0..6),
    ) {
        let pattern: Vec<&str> = pattern.iter().map(String::as_str).collect();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let compiled = glob(&format!("/{}", pattern.join("/")));
        let joined = format!("/{}", path.join("/"));
        prop_assert_eq!(compiled.matches(Path::new(&joined)), reference(&pattern, &path));
    }

    #[test]
    fn pruning_never_hides_a_match(
        pattern in proptest::collection::vec(pattern_component(), 1..5),
        path in proptest::collection::vec("[abc]{1,3}", 1..6),
    ) {
        let compiled = glob(&format!("/{}", pattern.join("/")));
        let joined = format!("/{}", path.join("/"));
        let joined = Path::new(&joined);
        if compiled.matches(joined) {
            prop_assert!(joined.starts_with(compiled.literal_prefix()));
            for folder in joined.ancestors().skip(1) {
                prop_assert!(compiled.could_match_below(folder), "{} below {}", compiled, folder.display());
            }
        }
    }

    #[test]
    #[cfg(unix)]
    fn arbitrary_bytes_never_panic(
        pattern in proptest::collection::vec(any::<u8>(), 0..40),
        path in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(OsStr::from_bytes(&path));
        let mut rooted = b"/".to_vec();
        rooted.extend(&pattern);
        for text in [&pattern, &rooted] {
            if let Ok(pattern) = PathPattern::parse(OsStr::from_bytes(text)) {
                let _ = pattern.matches(path);
                let _ = pattern.could_match_below(path);
            }
        }
    }

    #[test]
    fn a_parsed_pattern_parses_to_itself(text in "/[a/*.?\\[\\]!-]{0,20}") {
        if let Ok(pattern) = PathPattern::parse(&text) {
            prop_assert_eq!(PathPattern::parse(pattern.to_text()).unwrap(), pattern);
        }
    }

    #[test]
    fn a_relative_pattern_parses_to_itself_when_it_is_written_in_full(
        folder in "/[a*\\[\\]]{0,6}/[a?\\[!]{1,6}",
        text in "[a/*.?\\[\\]!-]{1,20}",
    ) {
        // A glob cannot have it, and only a text that is none can have it beside special characters of the folder.
        prop_assume!(!text.split('/').any(|name| name == ".."));
        if let Ok(pattern) = PathPattern::parse_in(Path::new(&folder), &text) {
            prop_assert_eq!(PathPattern::parse(pattern.to_text()).unwrap(), pattern);
        }
    }
}
