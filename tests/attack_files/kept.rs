//! Histories that once found something, played again: each must find nothing now.
//!
//! They are in `kept/`, as the machine wrote them after it had made them small, with the row of the list of findings that
//! they belong to. To keep another one, put its file there and a line here.

use std::path::Path;
use std::time::Duration;

use kennel_tests::{Scratch, am_root, ran_within, role, skipped};

macro_rules! kept {
    ($($name:ident: $file:literal, $times:literal;)*) => {
        const FILES: &[&str] = &[$($file),*];
        $(
            #[test]
            fn $name() {
                replay($file, include_str!(concat!("kept/", $file, ".history")), $times);
            }
        )*
    };
}

// The number is how often it is played: a race is not won each time.
kept! {
    the_report_is_not_written_through_a_link: "row-1-report-link", 2;
    the_report_is_not_written_through_a_folder_that_became_a_link: "row-1-report-folder", 2;
    a_fifo_in_the_reports_place_does_not_hang: "row-1-report-fifo", 1;
    a_hidden_file_stays_hidden_when_it_is_replaced: "row-2-replaced", 2;
    a_cover_that_comes_along_with_a_file_does_not_count: "moved-cover", 2;
    a_cover_that_comes_along_with_a_folder_does_not_count: "moved-cover-of-a-folder", 2;
    rules_go_along_with_a_workspace_that_is_moved: "moved-workspace", 2;
    rules_go_along_with_a_folder_that_is_moved: "moved-folder-above", 2;
    what_a_tmpfs_hides_stays_hidden_when_its_folder_is_moved: "moved-below-a-tmpfs", 2;
    a_kept_file_stays_kept_when_it_is_replaced: "row-2-kept-file", 2;
    a_denied_path_that_the_host_makes_is_hidden: "row-2-made-outside", 2;
    a_denied_path_that_the_host_makes_in_a_write_root_is_hidden: "made-in-a-write-root", 2;
    a_denied_path_that_the_host_makes_is_hidden_in_a_mount: "made-in-a-mount", 2;
    git_on_the_host_runs_nothing_of_a_repository_in_disguise: "row-3-disguise", 2;
    git_on_the_host_runs_nothing_by_a_pointer: "row-3-pointer", 2;
    what_wins_the_race_does_not_stay_though_all_names_are_taken: "row-4-names-exhausted", 12;
    what_wins_the_race_does_not_stay_though_its_folder_is_shut: "row-4-shut-folder", 12;
    no_file_gets_a_set_uid_or_set_gid_bit: "row-7-set-uid", 2;
    the_file_behind_standard_input_does_not_change: "row-12-streams-changed", 2;
    the_file_behind_standard_output_is_not_cut_short: "row-12-output-cut", 2;
    a_hidden_file_behind_standard_output_is_not_read: "row-12-output-read", 2;
    an_allowed_write_does_not_lead_through_a_planted_link: "row-13-planted-write", 2;
    a_mount_does_not_lead_through_a_planted_link: "row-13-planted-mount", 2;
    an_allowed_write_does_not_lead_through_a_link_that_is_planted_meanwhile: "row-13-planted-meanwhile", 6;
    a_second_mount_of_a_hidden_folder_is_hidden: "row-14-second-mount", 2;
    a_lease_does_not_hold_up_the_host: "row-16-lease", 2;
    kennels_own_settings_are_not_written: "row-20-own-settings", 2;
    kennels_own_settings_are_not_replaced_by_a_link_above_them: "row-20-own-settings-moved", 2;
    no_process_leaves_its_cgroup: "row-24-cgroup", 2;
    a_sandbox_does_not_use_up_its_neighbours_inotify_instances: "row-25-inotify", 2;
    a_sandbox_does_not_queue_all_signals_of_its_user: "hog-signals", 2;
    a_sandbox_does_not_reserve_the_machines_asynchronous_io: "hog-aio", 2;
    a_sandbox_does_not_hold_all_descriptors_in_flight: "hog-in-flight", 2;
    a_rule_about_proc_does_not_show_the_hosts: "row-34-proc", 2;
    a_glob_of_a_deny_list_follows_links: "row-35-glob-behind-link", 2;
    a_glob_of_a_deny_list_wins_a_tie_below_another_deny: "glob-and-allow-tie", 2;
    a_glob_of_a_deny_list_wins_a_tie_with_a_glob: "two-globs-tie", 2;
    a_link_that_a_deny_glob_names_is_followed_in_a_denied_folder: "link-in-a-denied-folder", 2;
    a_folder_that_is_mounted_in_itself_shows_nothing_denied: "mount-in-itself", 2;
    an_allowed_read_does_not_lead_through_a_planted_link: "row-36-planted-read", 2;
    a_file_of_a_hidden_folder_is_hidden_in_a_mount_too: "hidden-folder-in-a-mount", 2;
    what_appears_at_a_denied_name_and_goes_again_is_told: "appeared-and-gone", 40;
    git_on_the_host_obeys_nothing_of_a_worktrees_sandbox: "worktree-common-folder", 2;
    a_log_of_the_main_work_tree_does_not_become_a_link: "worktree-log-link", 2;
    another_name_of_a_hidden_file_is_hidden_or_refused: "hard-link-of-another-list", 2;
}

/// In a process of its own: it has to be the only parent of what it starts.
fn replay(name: &str, text: &str, times: u64) {
    if text.lines().any(|line| line.trim_start().starts_with("bind ")) && !am_root() {
        return skipped("only root can make a second mount");
    }
    let scratch = Scratch::new();
    let file = scratch.write(&format!("{name}.history"), text);
    let mut command = role::play("replay");
    // A secret among the arguments: no sandbox may see the host's processes.
    command.arg(&file).arg(times.to_string()).arg("KCNRYfedcba98765432");
    let ran = ran_within(Duration::from_secs(120), &mut command);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
}

#[test]
fn every_kept_history_is_played() {
    let folder = Path::new(kennel_tests::SOURCE).join("attack_files/kept");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        return skipped("the source is not where it was built");
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let name = name.strip_suffix(".history").unwrap_or(&name);
        assert!(FILES.contains(&name), "{name} has no test");
    }
}
