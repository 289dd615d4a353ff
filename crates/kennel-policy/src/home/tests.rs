//! The table is what it says, and git's configuration keeps nothing that it should not.

use super::*;
#[cfg(unix)]
use proptest::prelude::*;
use toml::de::{DeTable, DeValue};

#[test]
fn the_lines_are_read_as_toml_reads_them() {
    let text = include_str!("../home.toml");
    let table = DeTable::parse(text).unwrap().into_inner();
    let list = |name: &str| table[name].get_ref().as_array().unwrap();
    let rows = |name: &str, fields: &[&str]| -> Vec<Vec<String>> {
        let row = |row: &toml::Spanned<DeValue>| {
            let row = row.get_ref().as_table().unwrap();
            assert_eq!(row.len(), fields.len(), "{row:?}");
            fields.iter().map(|name| row[*name].get_ref().as_str().unwrap().to_owned()).collect()
        };
        list(name).iter().map(row).collect()
    };
    let read: Vec<Vec<String>> = shown()
        .iter()
        .map(|row| {
            let access = match row.access {
                HomeAccess::Read => "read",
                HomeAccess::Filtered => "filtered",
                HomeAccess::Hidden => "hidden",
            };
            [row.path, row.program, access, row.why].map(str::to_owned).to_vec()
        })
        .collect();
    assert_eq!(read, rows("shown", &["path", "program", "access", "why"]));
    let read: Vec<Vec<String>> =
        closed().iter().map(|row| [row.path, row.why].map(str::to_owned).to_vec()).collect();
    assert_eq!(read, rows("closed", &["path", "why"]));
    let git: Vec<&str> = list("git").iter().map(|name| name.get_ref().as_str().unwrap()).collect();
    assert_eq!(TABLE.git, git);
    assert!(table.len() == 3 && shown().len() > 100 && git.len() > 50);
}

#[test]
fn every_entry_names_a_place_once_and_says_why() {
    let mut paths: Vec<&str> = shown().iter().map(|entry| entry.path).collect();
    for entry in shown() {
        let below = entry.below_home().unwrap_or_else(|| entry.path.strip_prefix('/').unwrap());
        let stars = usize::from(entry.access == HomeAccess::Hidden);
        assert!(
            !below.is_empty() && !below.contains("..") && below.matches('*').count() <= stars,
            "{}",
            entry.path
        );
        assert!(!entry.program.is_empty() && !entry.why.is_empty() && !entry.why.ends_with('.'));
        // What lies in another one is there already.
        let above = paths.iter().filter(|other| Path::new(entry.path).starts_with(other));
        assert_eq!(above.count(), 1 + stars, "{}", entry.path);
    }
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), shown().len());
    // A folder with everything of a user's is none.
    for wide in
        ["~/.local/share", "~/.config", "~/.cache", "~/.local", "~/.cargo", "~/.m2", "~/.gradle", "~/.dotnet"]
    {
        assert!(!paths.contains(&wide), "{wide}");
    }
}

#[cfg(unix)]
fn kept(text: &str) -> String {
    String::from_utf8(harmless_git_settings(text.as_bytes()).0).unwrap()
}

#[cfg(unix)]
#[test]
fn of_gits_configuration_only_what_is_known_is_kept() {
    let text = "# token ghp_comment\n[user]\n\tname = A \"B\" # ghp_behind\n\temail = a@b.test\n\tpassword = p\n\
                [http \"https://git.test\"]\n\textraHeader = Authorization: ghp_header\n[http]\n\tproxy = http://u:ghp_proxy@p\n\
                [url \"https://ghp_url@git.test/\"]\n\tinsteadOf = https://git.test/\n\
                [credential]\n\thelper = !echo ghp_helper\n[github]\n\ttoken = ghp_token\n\
                [alias]\n\tup = !curl -H ghp_alias\n[user \"ghp_sub\"]\n\tname = x\n[core]\n\tsshCommand = ssh -i ghp_ssh\n\
                \tautocrlf = input\n[includeIf \"gitdir:~/work/\"]\n\tpath = work.inc\n[include]\n\tpath = \"~/more\"\n\
                [sendemail]\n\tsmtpPass = ghp_mail\n[advice]\n\tdetachedHead = false\n[unknown]\n\tname = ghp_unknown\n\
                [protocol \"file\"]\n\tallow = always\n[protocol \"ext\"]\n\tallow = always\n[protocol \"ghp\"]\n\tallow = always\n";
    let (bytes, includes) = harmless_git_settings(text.as_bytes());
    let kept = String::from_utf8(bytes).unwrap();
    assert!(!kept.contains("ghp"), "{kept}");
    assert_eq!(
        kept,
        "[user]\n\tname = \"A B\"\n[user]\n\temail = \"a@b.test\"\n[core]\n\tautocrlf = \"input\"\n\
         [includeif \"gitdir:~/work/\"]\n\tpath = \"work.inc\"\n[include]\n\tpath = \"~/more\"\n\
         [advice]\n\tdetachedhead = \"false\"\n\
         [protocol \"file\"]\n\tallow = \"always\"\n"
    );
    assert_eq!(includes, [Path::new("work.inc"), Path::new("~/more")]);
}

#[cfg(unix)]
#[test]
fn what_is_kept_reads_as_it_did() {
    for value in
        ["plain", "  in quotes  ", "a\\b", "quo\"te", "tab\there", "two\nlines", "# no comment", "ends\\"]
    {
        let escaped =
            value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t");
        let once = kept(&format!("[user]\nname = \"{escaped}\"\n"));
        assert_eq!(kept(&once), once);
        let read = crate::git_config::settings(once.as_bytes());
        assert_eq!(read, [("user.name".to_owned(), value.as_bytes().to_vec())]);
    }
    // Without a value it means true, and says so.
    assert_eq!(kept("[fetch]\nprune\n"), "[fetch]\n\tprune = \"true\"\n");
}

#[cfg(unix)]
proptest! {
    #[test]
    fn any_bytes_are_filtered(text in proptest::collection::vec(any::<u8>(), 0..300)) {
        let (once, _) = harmless_git_settings(&text);
        prop_assert_eq!(harmless_git_settings(&once).0, once);
    }

    #[test]
    fn a_setting_that_is_not_known_leaves_nothing(section in "[a-z]{1,8}", sub in "( \"[a-zA-Z/:@. ]{0,9}\")?", name in "[a-z]{1,9}") {
        let text = format!("[{section}{sub}]\n\t{name} = canary\n");
        let (left, _) = harmless_git_settings(text.as_bytes());
        let known = TABLE.git.iter().any(|known| *known == format!("{section}.{name}") || *known == format!("{section}.*"));
        prop_assert!(known || left.is_empty(), "{}", text);
    }
}
