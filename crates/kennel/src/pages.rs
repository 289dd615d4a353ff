//! The page of the documentation that shows whole programs shows programs that run: examples of the library's.

const PAGE: &str = include_str!("../../../docs/examples.md");
const EXAMPLES: [&str; 3] = [
    include_str!("../examples/judge_pool.rs"),
    include_str!("../examples/agent_host.rs"),
    include_str!("../examples/notebook_server.rs"),
];

#[test]
fn the_page_shows_the_examples_that_are_run() {
    for example in EXAMPLES {
        // All but the first lines, which say what it is.
        let code = example.find("use ").map(|start| &example[start..]).expect("an example uses something");
        assert!(PAGE.contains(&format!("```rust\n{code}```")), "docs/examples.md does not show:\n{code}");
    }
}
