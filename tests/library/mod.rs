//! The library as programs use it: its types, its results and errors, and that it disturbs nothing of its caller's.

mod attending;
mod awaiting;
mod callers;
mod children;
mod commands;
mod configuration;
mod dotfiles;
mod edges;
mod embedded;
mod errors;
mod files;
mod output;
mod results;
mod secrets;
mod terminals;

kennel_tests::roles! {
    "large-caller" => callers::large,
    "waiting-caller" => callers::waiting,
    "undumpable-caller" => callers::undumpable,
    "reading-caller" => output::reading_a_flood,
    "ephemeral-caller" => callers::ephemeral,
    "probe" => configuration::probe,
    "moving-caller" => files::moving,
    "codex-caller" => embedded::codex,
    "closed-caller" => edges::closed,
    "forking-caller" => edges::forked,
    "default-sigpipe-caller" => edges::pipe_signal,
    "giving-caller" => edges::given_file,
    "small-files-caller" => edges::small_files,
    "many-caller" => awaiting::many,
}
