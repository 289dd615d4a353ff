//! What a settings file that nobody vouched for may do: take away.

use crate::settings::keys;
use crate::settings::{Settings, Stated};

use super::Note;
use crate::policy::{HomeMode, Origin, ReadModel, UNSAID_OPEN_FILES, UNSAID_TMP_BYTES};

/// Applies what tightens and notes the rest. `whole` is settled: every setting with a default has been said.
pub(super) fn tighten(whole: &mut Settings, mut project: Settings) -> Vec<Note> {
    let file = project.file.take().unwrap_or_else(|| "FILE".to_owned());
    let mut notes = Vec::new();
    let swap_is_bounded = whole.limits.memory.as_ref().is_some_and(|memory| memory.value.is_some());
    for (name, key) in keys::all() {
        // Swap that nobody spoke of is no swap once memory is bounded, and then any amount is more.
        if name == "limits.swap" && swap_is_bounded && whole.limits.swap.is_none() {
            whole.limits.swap = Some(Stated { value: Some(0), origin: Origin("default".to_owned()) });
        }
        if let Some(origin) = more_than_unsaid(&name, whole, &mut project) {
            notes.push(Note { origin, key: name, file: file.clone() });
            continue;
        }
        let refused = key.kind.store(|store| store.tighten(key.tighten, whole, &mut project));
        notes.extend(refused.map(|origin| Note { origin, key: name, file: file.clone() }));
    }
    notes
}

/// Takes out what looks stricter than what nobody said, and is more.
fn more_than_unsaid(name: &str, whole: &Settings, project: &mut Settings) -> Option<Origin> {
    fn above<T: PartialOrd + Copy>(stated: &mut Option<Stated<Option<T>>>, most: T) -> Option<Origin> {
        stated
            .take_if(|stated| stated.value.as_ref().is_none_or(|value| *value > most))
            .map(|stated| stated.origin)
    }
    match name {
        "limits.open_files" if whole.limits.open_files.is_none() => {
            above(&mut project.limits.open_files, UNSAID_OPEN_FILES)
        }
        "limits.tmp_size" if whole.limits.tmp_size.is_none() => {
            above(&mut project.limits.tmp_size, UNSAID_TMP_BYTES)
        }
        // Where reads are listed, a private home shows what tools need, which no list has.
        "files.home"
            if whole.files.reads.as_ref().is_some_and(|reads| reads.value == ReadModel::Listed)
                && whole.files.home.as_ref().is_none_or(|home| home.value != HomeMode::Private) =>
        {
            project.files.home.take_if(|home| home.value == HomeMode::Private).map(|home| home.origin)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Base, Format, Provenance, parse};

    fn settings(text: &str) -> Settings {
        parse(
            text.as_bytes(),
            Format::Toml,
            Provenance::File("kennel.toml"),
            &Base::new(std::path::Path::new("/w"), None),
        )
        .unwrap()
    }

    fn refused(whole: &str, project: &str) -> Vec<String> {
        let notes = tighten(&mut settings(whole), settings(project));
        notes.into_iter().map(|note| note.key.to_string()).collect()
    }

    #[test]
    fn what_nobody_said_is_not_without_a_limit() {
        let whole = "files.reads = \"open\"";
        assert_eq!(refused(whole, "limits.open_files = 400000"), ["limits.open_files"]);
        assert_eq!(refused(whole, "limits.tmp_size = \"900G\""), ["limits.tmp_size"]);
        assert_eq!(refused(whole, "limits = { open_files = 50, tmp_size = \"1M\" }"), [""; 0]);
        assert_eq!(refused("limits.open_files = 50", "limits.open_files = 51"), ["limits.open_files"]);
    }

    #[test]
    fn a_private_home_opens_nothing_where_reads_are_listed() {
        let home = "files.home = \"private\"";
        assert_eq!(refused("files.reads = \"listed\"", home), ["files.home"]);
        assert_eq!(refused("files = { reads = \"listed\", home = \"private\" }", home), [""; 0]);
    }
}
