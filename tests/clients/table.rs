//! The table of clients in docs/network.md.

use std::sync::{Mutex, PoisonError};

/// What stands before and after the table.
const BEGIN: &str = "<!-- clients -->\n";
const END: &str = "<!-- /clients -->\n";

/// What was seen of a client: the cells of its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row(pub Vec<String>);

impl Row {
    fn line(&self) -> String {
        format!("| {} |\n", self.0.join(" | "))
    }

    /// Compares with the page, or with `UPDATE_DOCS` writes the page. Rows of clients that could not be tried stay.
    #[track_caller]
    pub fn compare(&self) {
        static WRITING: Mutex<()> = Mutex::new(());
        if std::env::var_os("UPDATE_DOCS").is_none() {
            let page = include_str!("../../docs/network.md");
            let name = format!("| {} |", self.0[0]);
            let found = table(page).lines().find(|line| line.starts_with(&name)).unwrap_or("no row");
            assert_eq!(
                format!("{found}\n"),
                self.line(),
                "docs/network.md says otherwise of this client; if this is as it should be, run the suite with \
                 UPDATE_DOCS=1"
            );
            return;
        }
        let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        let text = std::fs::read_to_string(crate::clients::page()).expect("the page can be read");
        let old = table(&text);
        let (head, rows) = old.split_at(old.match_indices('\n').nth(1).expect("a table has a head").0 + 1);
        let name = format!("| {} |", self.0[0]);
        let mut rows: Vec<String> =
            rows.lines().filter(|line| !line.starts_with(&name)).map(|line| format!("{line}\n")).collect();
        rows.push(self.line());
        let place = |line: &String| {
            let known = crate::clients::programs::NAMES.iter();
            known.map(|name| format!("| {name} |")).position(|name| line.starts_with(&name))
        };
        rows.retain(|line| place(line).is_some());
        rows.sort_by_key(place);
        std::fs::write(crate::clients::page(), text.replace(old, &format!("{head}{}", rows.concat())))
            .expect("the page can be written");
    }
}

/// The lines of the table, its head included.
pub fn table(page: &str) -> &str {
    let begin = page.find(BEGIN).expect("the page has a table of clients") + BEGIN.len();
    let end = page.find(END).expect("the table of clients has an end");
    &page[begin..end]
}

#[test]
fn every_client_has_its_row_and_every_row_its_client() {
    let rows: Vec<&str> = table(include_str!("../../docs/network.md"))
        .lines()
        .skip(2)
        .filter_map(|line| line.split('|').nth(1))
        .map(str::trim)
        .collect();
    assert_eq!(rows, crate::clients::programs::NAMES);
}
