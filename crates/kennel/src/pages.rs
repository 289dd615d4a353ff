//! The pages of the documentation that show a whole program show one that runs: an example of the library's.

/// Each page, and the example that it shows.
const PAGES: &[(&str, &str, &str)] = &[
    ("docs/judge.md", include_str!("../../../docs/judge.md"), include_str!("../examples/judge_pool.rs")),
    (
        "docs/agent-host.md",
        include_str!("../../../docs/agent-host.md"),
        include_str!("../examples/agent_host.rs"),
    ),
    (
        "docs/notebook-server.md",
        include_str!("../../../docs/notebook-server.md"),
        include_str!("../examples/notebook_server.rs"),
    ),
];

#[test]
fn pages_show_the_examples_that_are_run() {
    for (page, text, example) in PAGES {
        // All but the first lines, which say what it is.
        let code = example.find("use ").map(|start| &example[start..]).expect("an example uses something");
        assert!(text.contains(&format!("```rust\n{code}```")), "{page} does not show its example");
    }
}
