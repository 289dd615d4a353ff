use proptest::prelude::*;

use super::*;

const VALUE: &str = "ghp_Ab+c/012345678_9-zZ~x.yKLmnopq=rst";
const STAND_IN: &str = "ghp_zyxwvutsrqponmlkjihgfedcba98765432";

fn echoes(value: &str) -> Arc<Echoes> {
    Arc::new(Echoes::new([(value.as_bytes(), STAND_IN.as_bytes())]).unwrap())
}

/// A text in the forms in which programs write it.
fn forms(value: &str) -> Vec<String> {
    let each = |write: &dyn Fn(u8) -> String| value.bytes().map(write).collect::<String>();
    let base64 = |bytes: &[u8]| crate::auth::encode(bytes);
    let wrapped = |text: &str, width: usize, between: &str| {
        let lines: Vec<&str> =
            text.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).unwrap()).collect();
        lines.join(between)
    };
    let hex = each(&|byte| format!("{byte:02x}"));
    let named =
        value.replace('+', "&plus;").replace('/', "&sol;").replace('=', "&equals;").replace('_', "&lowbar;");
    let mut all = vec![
        value.to_owned(),
        each(&|byte| format!("%{byte:02x}")),
        each(&|byte| format!("%{byte:02X}")),
        each(&|byte| {
            if byte.is_ascii_alphanumeric() { char::from(byte).into() } else { format!("%{byte:02X}") }
        }),
        // `~` escaped alone, as some do.
        value.replace('~', "%7E"),
        each(&|byte| format!("%25{byte:02X}")),
        value.replace('+', "\\u002B").replace('/', "\\/"),
        value.replace('+', "\\u002b"),
        value.replace('+', "\\\\u002B"),
        value.replace('=', "\\x3d"),
        each(&|byte| format!("\\u{byte:04X}")),
        each(&|byte| format!("&#{byte};")),
        each(&|byte| format!("&#x{byte:x};")),
        each(&|byte| format!("&amp;#{byte};")),
        value.replace('+', "&#000043;"),
        named,
        each(&|byte| format!("{}\0", char::from(byte))),
        hex.clone(),
        hex.to_uppercase(),
        wrapped(&hex, 2, ":"),
        wrapped(&hex, 2, " "),
        wrapped(&hex, 4, " "),
        wrapped(&hex, 32, "\n"),
        wrapped(&hex, 2, "-"),
        each(&|byte| format!("0x{byte:02x}, ")),
        each(&|byte| format!("\\x{byte:02x}")),
    ];
    for before in ["", "x", "xy"] {
        let text = base64(&[before.as_bytes(), value.as_bytes()].concat());
        let text = text.trim_end_matches('=');
        all.push(text.to_owned());
        all.push(text.replace('+', "-").replace('/', "_"));
        all.push(text.replace('+', "%2B").replace('/', "%2F"));
        all.push(text.replace('/', "\\/"));
        for (width, between) in [(4, "\r\n"), (7, "\n  "), (1, " "), (10, "\\n"), (9, "\t")] {
            all.push(wrapped(text, width, between));
        }
    }
    all
}

/// Whether a text still holds a value, by a search that takes each form's inner part.
fn holds(text: &[u8], value: &str) -> Option<String> {
    let trimmed = |form: &String| form.get(8..form.len() - 8).unwrap_or_default().to_owned();
    forms(value).iter().map(trimmed).find(|form| memchr::memmem::find(text, form.as_bytes()).is_some())
}

#[test]
fn every_form_is_found_and_shows_the_stand_in() {
    let echoes = echoes(VALUE);
    for form in forms(VALUE) {
        for (before, after) in [("", ""), ("key: \"", "\"}\n"), ("\u{e9}|", "|"), ("<b>", "</b>")] {
            let text = format!("{before}{form}{after}");
            let out = echoes.in_text(text.as_bytes()).unwrap_or_else(|| panic!("not found: {text:?}"));
            assert_eq!(holds(&out, VALUE), None, "{text:?} became {}", String::from_utf8_lossy(&out));
            assert!(out.starts_with(before.as_bytes()) && out.ends_with(after.as_bytes()), "{text:?}");
        }
    }
    let shown = |text: &str| String::from_utf8(echoes.in_text(text.as_bytes()).unwrap()).unwrap();
    // Which letters were escaped, or how, would tell where the value has which.
    for form in &forms(VALUE)[..17] {
        assert_eq!(shown(form), STAND_IN);
    }
    for at in [17, 19, 20, 21, 22, 23] {
        assert_eq!(shown(&forms(VALUE)[at]), forms(STAND_IN)[at], "with what stands between the digits");
    }
    assert_eq!(shown(&forms(VALUE)[18]), forms(STAND_IN)[17]);
}

#[test]
fn base64_of_a_longer_text_is_that_of_the_text_with_the_stand_in() {
    let echoes = echoes(VALUE);
    for before in ["", "x", "xy", "xyz"] {
        for after in ["", "1", "12", "123"] {
            let of = |inner: &str| crate::auth::encode(format!("{before}{inner}{after}").as_bytes());
            let shown = String::from_utf8(echoes.in_text(of(VALUE).as_bytes()).unwrap()).unwrap();
            assert_eq!(shown, of(STAND_IN), "no bit of the value is left");
        }
    }
}

#[test]
fn what_stands_before_a_value_does_not_swallow_its_beginning() {
    // `%6` and `A` would be a `j`; each is escaped once.
    let echoes = echoes("Ab+c/012345678_9-zZ~x.yKLmnopq=rst");
    for text in [
        "%6Ab\\u002Bc/012345678_9-zZ~x.yKLmnopq=rst",
        "\\\\u006Ab\\u002Bc/012345678_9-zZ~x.yKLmnopq=rst",
        "%256Ab%2Bc/012345678_9-zZ~x.yKLmnopq=rst",
        "&amp;#6Ab&#43;c/012345678_9-zZ~x.yKLmnopq=rst",
    ] {
        assert!(echoes.in_text(text.as_bytes()).is_some(), "{text}");
    }
}

#[test]
fn values_that_read_as_escapes_are_found_too() {
    for value in ["p%41ss%2Bword/1", r#"a\u0041"bc\\def"#, "one&amp;two&#43;three", "p\u{e4}ssw\u{f6}rt+1"] {
        let echoes = echoes(value);
        let percent: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let json = serde_json::to_string(value).unwrap();
        let html = value.replace('&', "&amp;").replace('"', "&quot;");
        for text in [value, &percent, &json, &html, &json.replace('p', "\\u0070")] {
            assert!(echoes.in_text(text.as_bytes()).is_some(), "{value}: {text}");
        }
    }
}

#[test]
fn an_event_that_is_whole_passes_at_once() {
    let mut stream = echoes(VALUE).stream();
    assert_eq!(stream.push(b"data: {\"content\": \"ghp_\"}\n\n").unwrap(), None);
    assert!(!stream.holds());
    assert_eq!(stream.push(b"data: ghp_Ab+").unwrap().unwrap(), b"");
    assert_eq!(stream.push(b"c\n\n").unwrap().unwrap(), b"data: ghp_Ab+c\n\n");
    assert!(!stream.holds());
}

#[test]
fn a_value_across_a_pause_ends_the_stream() {
    let mut stream = echoes(VALUE).stream();
    let (first, second) = VALUE.split_at(10);
    assert_eq!(stream.push(first.as_bytes()).unwrap().unwrap(), b"");
    assert_eq!(stream.paused().unwrap(), first.as_bytes());
    assert!(!stream.holds());
    assert_eq!(stream.push(second.as_bytes()).unwrap().unwrap(), b"");
    assert_eq!(stream.paused().unwrap_err(), SplitEcho);

    let mut stream = echoes(VALUE).stream();
    stream.push(first.as_bytes()).unwrap();
    stream.paused().unwrap();
    stream.push(&second.as_bytes()[..second.len() - 1]).unwrap();
    assert_eq!(stream.finish().unwrap(), &second.as_bytes()[..second.len() - 1], "a wrong one does not");
}

/// What comes out for each part, in turn.
fn framing(echoes: &Arc<Echoes>, parts: &[(Vec<u8>, bool)]) -> Vec<Vec<u8>> {
    let mut stream = echoes.stream();
    let mut out = Vec::new();
    for (part, pause) in parts {
        out.push(stream.push(part).unwrap().unwrap_or_else(|| part.clone()));
        if *pause {
            out.push(stream.paused().unwrap());
        }
    }
    out.push(stream.finish().unwrap());
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Two values of one length with the same stand-in, written by the same programs, look the same.
    #[test]
    #[kennel_claim::claim("secrets/nothing-tells-a-guess")]
    fn how_a_stand_in_is_written_tells_nothing_of_the_value(
        value in "[0-9]{38}|[A-Za-z0-9+/_~.=-]{38}|[+/~=%<>&]{38}",
        other in "[A-Za-z0-9+/_~.=-]{38}",
    ) {
        for (one, another) in forms(&value).iter().zip(forms(&other)) {
            let shown = |value: &str, text: &str| echoes(value).in_text(text.as_bytes());
            prop_assert_eq!(shown(&value, one), shown(&other, &another), "{} {}", one, another);
        }
    }

    /// The same text is cut in the same places, whatever the value is: as long as its prefix in the text is no whole value.
    #[test]
    #[kennel_claim::claim("secrets/nothing-tells-a-guess")]
    fn how_a_stream_is_cut_tells_nothing_of_the_value(
        value in "[A-Za-z0-9_]{20,40}",
        other in "[A-Za-z0-9_]{40}",
        form in 0usize..50,
        share in 0.0f64..0.95,
        before in "[ -~\n]{0,20}",
        after in "[ -~\n]{0,20}",
        cuts in prop::collection::vec((1usize..30, any::<bool>()), 1..12),
    ) {
        let other = &other[..value.len()];
        let all = forms(&value);
        let form = &all[form % all.len()];
        let prefix = &form[..(form.len() as f64 * share) as usize];
        let text = format!("{before}{prefix}|{after}").into_bytes();
        prop_assume!(echoes(&value).in_text(&text).is_none() && echoes(other).in_text(&text).is_none());
        let (mut parts, mut rest, mut cuts) = (Vec::new(), &text[..], cuts.into_iter().cycle());
        while !rest.is_empty() {
            let (count, pause) = cuts.next().unwrap();
            let (part, next) = rest.split_at(count.min(rest.len()));
            parts.push((part.to_vec(), pause));
            rest = next;
        }
        prop_assert_eq!(framing(&echoes(&value), &parts), framing(&echoes(other), &parts));
    }

    #[test]
    fn a_value_is_found_in_every_form_wherever_the_stream_is_cut(
        form in 0usize..50,
        before in "[ -~\n]{0,40}",
        after in "[ -~\n]{0,40}",
        cuts in prop::collection::vec(1usize..60, 1..12),
    ) {
        let all = forms(VALUE);
        let form = &all[form % all.len()];
        // What would be part of the form itself may change it.
        let text = format!("{before}|{form}|{after}").into_bytes();
        let (mut parts, mut rest, mut cuts) = (Vec::new(), &text[..], cuts.into_iter().cycle());
        while !rest.is_empty() {
            let (part, next) = rest.split_at(cuts.next().unwrap().min(rest.len()));
            parts.push((part.to_vec(), false));
            rest = next;
        }
        let echoes = echoes(VALUE);
        let out = framing(&echoes, &parts).concat();
        prop_assert_eq!(&out, &echoes.in_text(&text).unwrap(), "cut or not");
        prop_assert_eq!(holds(&out, VALUE), None);
    }

    #[test]
    fn what_holds_no_value_comes_whole_and_little_is_held_back(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 0..20),
    ) {
        let echoes = echoes(VALUE);
        let parts: Vec<(Vec<u8>, bool)> = parts.into_iter().map(|part| (part, false)).collect();
        let mut stream = echoes.stream();
        for (part, _) in &parts {
            stream.push(part).unwrap();
            prop_assert!(stream.held.len() <= 2 * echoes.window + part.len());
        }
        let text: Vec<u8> = parts.iter().flat_map(|(part, _)| part.clone()).collect();
        prop_assert_eq!(framing(&echoes, &parts).concat(), text);
    }
}
