//! A real browser in profile `browser`, its own sandbox on, and in an agent's profile without.

use std::path::PathBuf;

use kennel_tests::{Ran, program, ran, skipped};

use super::Home;

const PAGE: &str = "<p id=p>no</p><script>document.getElementById('p').textContent = 6 * 7</script>";

/// Chromium, where it can have a sandbox of its own.
fn chromium() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        skipped("root's Chromium has no sandbox of its own");
        return None;
    }
    let found = program("chromium");
    if found.is_none() {
        skipped("chromium is not installed");
    }
    found
}

fn browse(home: &Home, flags: &[&str], script: &str) -> Option<Ran> {
    let chromium = chromium()?;
    home.write("project/page.html", PAGE);
    let script = format!(
        "browse() {{ {} --headless --disable-gpu --disable-background-networking --no-first-run \"$@\" 2> said; }}; cd /tmp; {script}",
        chromium.display()
    );
    Some(ran(home.kennel(["run"]).args(flags).args(["--", "sh", "-c", &script])))
}

#[test]
fn a_page_is_shown_and_the_renderer_is_in_a_sandbox_of_the_browsers_own() {
    let home = Home::new();
    let page = format!("file://{}", home.at("project/page.html").display());
    let script = format!(
        "browse --dump-dom {page}
         browse --remote-debugging-port=0 {page} > /dev/null & browser=$!
         for try in $(seq 200); do
             renderer=$(grep -alz -e '^--type=renderer' /proc/[0-9]*/cmdline | head -1)
             test -n \"$renderer\" && grep -q '^Seccomp_filters:.*2' ${{renderer%cmdline}}status && break
             sleep 0.05
         done
         test \"$(readlink ${{renderer%cmdline}}ns/user)\" != \"$(readlink /proc/self/ns/user)\" && echo apart
         kill $browser"
    );
    let flags = ["--profile", "browser", "--allow-read", &home.at("project").display().to_string()];
    let Some(ran) = browse(&home, &flags, &script) else { return };
    assert!(ran.stdout.contains("<p id=\"p\">42</p>"), "{ran:?}");
    assert!(ran.stdout.ends_with("apart\n"), "{ran:?}");
    assert!(!home.at(".config/chromium").exists(), "what it remembers is gone with it");
}

/// As Playwright starts its browsers: without their own sandbox, which kennel's is around.
#[test]
fn in_an_agents_profile_it_runs_without_a_flag_of_kennels() {
    let home = Home::new();
    let page = format!("file://{}", home.at("project/page.html").display());
    let Some(ran) = browse(&home, &["--profile", "agent"], &format!("browse --no-sandbox --dump-dom {page}"))
    else {
        return;
    };
    assert!(ran.stdout.contains("<p id=\"p\">42</p>"), "{ran:?}");
}
