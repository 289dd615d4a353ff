//! Graphics cards: programs that use one, where there is one, and what is refused where there is none.

use kennel_tests::{Ran, Scratch, kennel, program, ran, run_sh, skipped};

const CUDA: &str = include_str!("cuda.py");
const TORCH: &str = include_str!("torch.py");

/// How many cards of NVIDIA's its driver tells of.
fn cards() -> usize {
    std::fs::read_dir("/proc/driver/nvidia/gpus").map_or(0, Iterator::count)
}

/// Runs a program in Python with these flags, if there is a card.
fn python(flags: &[&str], script: &str) -> Option<Ran> {
    if cards() == 0 {
        skipped("there is no card of NVIDIA's with its driver");
        return None;
    }
    let Some(python) = program("python3") else {
        skipped("python3 is not installed");
        return None;
    };
    Some(ran(kennel(["run"]).args(flags).arg("--").arg(python).args(["-c", script])))
}

#[test]
fn cuda_works_with_the_card_that_was_chosen_and_sees_no_other() {
    for (flags, count) in [
        (&["--gpu", "all"][..], cards()),
        (&["--gpu", "nvidia:0"], 1),
        (&["--gpu", "0", "--reads", "listed"], 1),
        (&["--gpu", "0", "--home", "private"], 1),
    ] {
        let Some(ran) = python(flags, CUDA) else { return };
        assert_eq!(ran.ok().stdout, format!("cards {count}\n"), "{flags:?}");
    }
}

#[test]
fn pytorch_multiplies_on_the_card() {
    let Some(ran) = python(&["--gpu", "0"], TORCH) else { return };
    if ran.code == 77 {
        return skipped("python3 has no torch");
    }
    assert_eq!(ran.ok().stdout, "product 512\n");
}

#[test]
fn without_the_flag_there_is_no_card() {
    if let Some(ran) = python(&[], CUDA) {
        assert!(ran.code != 0 && ran.stderr.contains("cuInit returned"), "{ran:?}");
    }
    run_sh([] as [&str; 0], "! ls -d /dev/nvidia* /dev/dri /dev/kfd 2>/dev/null | grep .").ok();
}

/// Chosen cards bring the devices of a list: none that sets a screen's mode or divides a card, and none of another card.
#[test]
fn nothing_of_another_card_is_there() {
    if cards() == 0 {
        return skipped("there is no card of NVIDIA's with its driver");
    }
    let ran = run_sh(["--gpu", "nvidia:0"], "ls -d /dev/nvidia[0-9]* | wc -l; ls /dev").ok();
    assert!(ran.stdout.starts_with("1\n"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("modeset"), "{}", ran.stdout);
}

#[test]
fn a_card_that_is_not_there_is_an_error_that_says_what_is() {
    for flags in [["--gpu", "nvidia:63"], ["--gpu", "63"]] {
        let ran = run_sh(flags, "true").expect_code(125);
        assert!(ran.stderr.contains("there is no such card: this host has "), "{}", ran.stderr);
    }
    let ran = run_sh(["--gpu", "matrox"], "true").expect_code(125);
    assert!(ran.stderr.contains("`matrox` names no graphics card: write `all`, a number"), "{}", ran.stderr);
}

/// A project cannot give itself a card.
#[test]
fn a_found_file_opens_no_card() {
    let scratch = Scratch::new();
    scratch.write("kennel.toml", "[files]\ngpus = [0]\n");
    let said = ran(kennel(["run", "--", "true"]).current_dir(scratch.path())).ok();
    assert!(said.stderr.contains("kennel.toml"), "{}", said.stderr);
}
