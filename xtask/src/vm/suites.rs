//! Which suites run in the machines, by whom, and which of their tests are the quick choice.

/// Who runs a job, which decides where a cgroup is to be had; `vm/init.sh` says how each is placed.
pub type Who = &'static str;

/// A program of unit tests, unlike all others, which are suites of one program.
pub const UNIT_TESTS: &str = "kennel_linux";

/// A suite.
#[derive(Debug)]
pub struct Suite {
    /// Its module, or [`UNIT_TESTS`].
    pub name: &'static str,
    /// Which of its tests, by parts of their names; all, if there are none.
    pub filters: &'static [&'static str],
    pub by: &'static [Who],
    /// Which of its tests are in the quick matrix.
    pub quick: Quick,
}

/// What the quick matrix has of a suite.
#[derive(Debug)]
pub enum Quick {
    Nothing,
    /// As many as there are.
    Everything,
    /// Those whose names hold one of these.
    Only(&'static [&'static str]),
}

const BOTH: &[Who] = &["root", "user"];

/// A suite with what is quick of it: what stands on newer features of the kernel, and one ordinary case.
const fn suite(name: &'static str, quick: &'static [&'static str]) -> Suite {
    let quick = if quick.is_empty() { Quick::Nothing } else { Quick::Only(quick) };
    Suite { name, filters: &[], by: BOTH, quick }
}

/// On every kernel.
pub const SUITES: &[Suite] = &[
    suite(
        "rootfs",
        &[
            "nothing_of_the_host_is_inside",
            "a_read_only_root",
            "where_there_can_be_no_layer",
            "writes_stay_in_the_layer",
            "denied_names_that_are_absent",
        ],
    ),
    suite("zygote", &["sandboxes_are_cloned_from_the_zygote", "each_pooled_sandbox"]),
    suite(
        "sessions",
        &["commands_run_one_after_the_other", "no_command_reaches_into_another", "rules_that_are_guarded"],
    ),
    suite(
        "users",
        &["the_command_starts_as_the_first_user", "deny_rules_and_read_only_mounts_hold_against_it"],
    ),
    suite("network", &["curl_http", "direct_ip", "a_published_port_is_reached"]),
    suite("limits", &["a_memory_hog_is_killed_and", "exactly_the_processes"]),
    suite(
        "guard",
        &[
            "every_call_that_makes_a_name",
            "a_listed_socket_can_be_connected_to_and",
            "a_file_made_by_winning_the_race",
        ],
    ),
    suite("replaced", &["a_hidden_file_in_what_can_be_written", "a_path_that_the_host_makes"]),
    suite("hosts", &["doctor::on_this_host", "doctor::it_finds_the_masks", "doctor::a_missing_landlock"]),
    suite("lifecycle", &["endings::exit_codes", "endings::a_killed_child", "background_jobs"]),
    suite("isolation", &["landlock::", "privileges::all_capability", "namespaces::every_namespace"]),
    suite("filesystem", &["models::a_denied", "models::an_allowed", "a_mount_keeps_nosuid"]),
    suite("escape", &["umount_does_not_reveal", "no_call_gives_a_file", "no_call_signals", "open_by_handle"]),
    suite("git", &["commits_work_in_a_worktree", "nothing_is_committed_where"]),
    suite(
        "library",
        &["from_threads_that_come_and_go", "a_conversation_line_by_line", "limits_tell_what_became"],
    ),
    suite("cli", &["endings::the_exit_code", "endings::time_that_is_up", "endings::a_report_says"]),
    suite("terminal", &["a_command_cannot_type_into", "ctrl_c_ends_the_command", "ctrl_z_stops"]),
    suite("profiles", &[]),
    suite("attack_kept", &[]),
    suite("compat", &[]),
];

/// On one kernel, in a machine of their own: where a cgroup is to be had, in every way.
pub const CGROUPS: &[Suite] = &[
    Suite {
        name: UNIT_TESTS,
        filters: &["cgroup::"],
        by: &["root", "user", "crowded", "container", "stranger", "systemd"],
        quick: Quick::Everything,
    },
    Suite { name: "limits", filters: &[], by: BOTH, quick: Quick::Everything },
    Suite { name: "limits", filters: &["refusals::"], by: &["stranger"], quick: Quick::Everything },
    Suite { name: "limits", filters: &["memory::"], by: &["systemd"], quick: Quick::Everything },
];
