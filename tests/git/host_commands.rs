//! After a run, all of git's commands on the host run nothing that the sandbox left, and write nothing outside of the
//! workspace: some sixty of them, after each of many ways to prepare a repository by raw bytes. A way that is said to
//! work is first shown to work without a level.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kennel_tests::{is_full, program};

use super::handed_back::{OFF, Way, World};
use super::{HOOKS, skipped};

/// What the host has before: a second branch that conflicts, a remote, a patch, a submodule.
const BEFORE: &str = "
    mkdir -p ../home/.bashrc.d; echo '# mine' > ../home/.bashrc; echo '# mine' > ../home/.bash_aliases; echo mine > ../home/notes
    git checkout -q -b side HEAD~1; echo side > two; echo s > s; git add .; git commit -qm side
    git checkout -q -b topic main; echo t > t; git add t; git commit -qm topic; git checkout -q main
    git init -q --bare ../remotes/r.git; git remote add origin ../remotes/r.git; git push -q origin main side topic
    git init -q ../remotes/lib; echo l > ../remotes/lib/l; git -C ../remotes/lib add l; git -C ../remotes/lib commit -qm l
    git submodule --quiet add TOP/remotes/lib lib; git commit -qm lib; git format-patch -q -1 -o ../remotes topic
    git submodule --quiet deinit -f lib; rm -rf .git/modules/lib; git submodule --quiet init; git branch -q packed; git tag v0
    git worktree add -q -b wt trees/wt; git fetch -q
    for kind in merge diff; do git config --global $kind.tool none; git config --global ${kind}tool.none.cmd true; done";

/// The commands, at the top of the workspace. Each line of them starts with what the sandbox left: some would clear away
/// what others act on.
const COMMANDS: &[&[&str]] = &[
    &[
        "status",
        "diff",
        "diff HEAD~1",
        "log -3 -p",
        "log -g",
        "show",
        "ls-files",
        "rev-parse HEAD",
        "describe --all",
        "blame one",
        "grep 1",
        "shortlog HEAD",
        "for-each-ref",
        "submodule status",
        "worktree list",
        "branch -a",
        "reflog",
        "notes list",
        "fsck --lost-found",
    ],
    &["checkout -q -f ."],
    &["restore ."],
    &["checkout -q -f side", "checkout -q -f main"],
    &["switch -q -f side", "switch -q -f main"],
    &["checkout-index -q -f -a"],
    &["reset -q --hard"],
    &["stash", "stash pop"],
    &["commit -q --allow-empty", "tag -a v1", "notes add", "tag v2", "branch host2", "branch -D host2"],
    &["add -A .", "commit -q -m host", "commit -q --amend --no-edit", "checkout -q -b host1"],
    &["commit -q -a"],
    &["merge topic", "merge side", "rerere", "mergetool -y", "merge --abort", "merge --squash side"],
    &["merge --squash topic"],
    &["rebase -q topic", "rebase --abort", "rebase -q side", "rebase --abort"],
    &["cherry-pick topic", "cherry-pick side", "cherry-pick --abort", "revert --no-edit HEAD"],
    &["bisect start HEAD HEAD~1", "bisect reset"],
    &["fetch -q", "pull -q --no-rebase", "push -q -f origin main"],
    &["submodule --quiet update --init", "submodule --quiet sync"],
    &["worktree add -q trees/host", "worktree prune", "worktree list"],
    &["apply ../remotes/0001-topic.patch", "am ../remotes/0001-topic.patch", "am --abort"],
    &[
        "format-patch -q -1 -o trees",
        "archive -o trees/a.tar HEAD",
        "bundle create trees/b HEAD",
        "difftool -y HEAD~1",
    ],
    &["sparse-checkout set trees", "sparse-checkout disable"],
    &["pack-refs --all", "repack -q -a -d", "commit-graph write --reachable", "update-server-info"],
    &["reflog expire --all --expire=now", "gc -q", "maintenance run"],
    &["clean -q -f -d trees", "rm -q one", "mv two three"],
];

/// How git's commands are gone through: at the top, then the everyday ones wherever git may find a repository. After
/// each line comes what shows whether it left something that runs.
const HOST: &str = r#"
export GIT_EDITOR=true GIT_MERGE_AUTOEDIT=no GIT_TERMINAL_PROMPT=0
run() { timeout 20 git "$@" </dev/null >/dev/null 2>&1 || true; }
traces() { test -n "$(ls -A "$D/canaries")" || ! diff -rq --no-dereference "$D/saved/home" "$D/home" >/dev/null 2>&1; }
again() { cd /; find "$D/work" -mindepth 1 -delete; cp -a "$D/saved/work/." "$D/work/"; cd "$D/work"; }
mkdir "$D/saved"
cp -a "$D/work" "$D/home" "$D/saved/"
while IFS= read -r words; do
    if test "$words" = -; then
        run status; run checkout -q -f .; run commit -q --allow-empty -m z; run status
        traces && exit 0
        again
    else
        run $words
    fi
done < "$D/commands"
find . \( -iname .git -o -iname head \) -printf '%h\0' | sort -zu | while IFS= read -r -d '' place; do (
    cd "$place" || exit 0
    for words in status 'commit -q' status 'commit -q -m x --allow-empty' 'checkout -q -f .' 'add -A .' 'commit -q' 'pack-refs --all' status; do
        run $words
    done
); done
traces && exit 0
# What is not there any more, but in the index or in a commit.
again
run checkout -q -f .; run reset -q --hard
find . \( -iname .git -o -iname head \) -printf '%h\0' | sort -zu | while IFS= read -r -d '' place; do (
    cd "$place" && run status || true
); done
true
"#;

/// Writes an index, byte by byte: the names of files with what they hold, as `MODE NAME TEXT`.
const CRAFT: &str = r#"
import hashlib, struct, subprocess, sys
def blob(text):
    run = subprocess.run(['git', 'hash-object', '-w', '--stdin'], input=text, capture_output=True, check=True)
    return bytes.fromhex(run.stdout.decode().strip())
def index(file, entries, extensions=b''):
    data = struct.pack('>4sII', b'DIRC', 2, len(entries))
    for mode, name, text in sorted(entries, key=lambda entry: entry[1]):
        entry = struct.pack('>10I', 0, 0, 0, 0, 0, 0, int(mode, 8), 0, 0, 0) + blob(text)
        entry += struct.pack('>H', min(len(name), 0xfff)) + name
        data += entry + b'\0' * (8 - len(entry) % 8)
    data += extensions
    digest = hashlib.sha1(data).digest()
    open(file, 'wb').write(data + digest)
    return digest
entries = []
words = [word.encode() for word in sys.argv[2:]]
while words:
    mode, name, text = words[:3]
    del words[:3]
    entries.append((mode.decode(), name, text + b'\n'))
if sys.argv[1] == 'split':
    digest = index('.git/sharedindex.tmp', entries)
    import os
    os.rename('.git/sharedindex.tmp', '.git/sharedindex.' + digest.hex())
    empty = struct.pack('>II', 0, 1) + b'\0' * 8 + struct.pack('>I', 0)
    link = digest + empty + empty
    index('.git/index', [], b'link' + struct.pack('>I', len(link)) + link)
else:
    index(sys.argv[1], entries)
"#;

/// A way to prepare a repository. Of some it is said that the host's git would then act; others are tried all the same.
struct Preparation {
    name: &'static str,
    works: bool,
    inside: &'static str,
}

macro_rules! ways {
    ($($(#[$about:meta])* fn $name:ident(): $inside:expr;)*) => {
        $($(#[$about])*
        #[test]
        fn $name() {
            after(&Preparation { name: stringify!($name), works: true, inside: $inside });
        })*
    };
}

macro_rules! further {
    ($($name:ident: $inside:expr;)*) => {
        const FURTHER: &[Preparation] =
            &[$(Preparation { name: stringify!($name), works: false, inside: $inside }),*];
    };
}

// RUN leaves a trace; HOME is the host's; `craft` writes an index.
ways! {
    #[kennel_claim::claim("handed-back/git-commands-after-a-run")]
    fn an_index_that_names_a_hook(): "craft .git/index 100755 .git/hooks/post-checkout '#!/bin/sh
RUN'";
    #[kennel_claim::claim("handed-back/git-commands-after-a-run")]
    fn an_index_that_leads_out(): "craft .git/index 100644 ../home/.rcfile evil";
    fn an_index_that_leads_out_by_a_folder(): "craft .git/index 100644 a/../../home/.rcfile evil; mkdir a";
    fn a_split_index_that_names_a_hook(): "craft split 100755 .git/hooks/post-checkout '#!/bin/sh
RUN'";
    fn an_index_that_names_the_configuration_of_a_folder(): "craft .git/index 100644 n/.git/config \"$(printf '[core]\\nrepositoryformatversion=0\\nfsmonitor=\"RUN;false\"')\" 100644 n/.git/HEAD 'ref: refs/heads/main' 100644 n/.git/objects/x x 100644 n/.git/refs/x x";
    fn an_index_with_an_absolute_path(): "craft .git/index 100644 TOP/home/.rcfile evil";
    #[kennel_claim::claim("handed-back/git-commands-after-a-run")]
    fn an_index_with_odd_paths(): "craft .git/index 100644 ./x evil 100644 a//b evil 100755 ./.git/hooks/post-checkout '#!/bin/sh
RUN' 100755 .git//hooks/post-merge '#!/bin/sh
RUN' 100644 .. evil 100644 .git evil";
    fn a_message_that_is_a_link_to_the_configuration_of_a_nested_repository(): "git init -q n; cd n; git commit -q --allow-empty -m x; ln -sf config .git/COMMIT_EDITMSG; git rev-parse HEAD > .git/MERGE_HEAD
         printf '[core]\\nrepositoryformatversion=0\\nfsmonitor=\"RUN;false\"\\n' > .git/MERGE_MSG";
    #[kennel_claim::claim("handed-back/git-commands-after-a-run")]
    fn a_message_that_has_a_second_name(): "git init -q n; cd n; git commit -q --allow-empty -m x; ln -f .git/config .git/COMMIT_EDITMSG; git rev-parse HEAD > .git/MERGE_HEAD
         printf '[core]\\nrepositoryformatversion=0\\nfsmonitor=\"RUN;false\"\\n' > .git/MERGE_MSG";
    fn a_message_that_is_a_link(): "ln -sf HOME/.bashrc .git/COMMIT_EDITMSG";
    fn a_message_of_a_tag_that_is_a_link(): "ln -sf HOME/.bashrc .git/TAG_EDITMSG";
    fn a_message_of_a_note_that_is_a_link(): "ln -sf HOME/.bashrc .git/NOTES_EDITMSG";
    fn a_message_of_a_merge_that_is_a_link(): "ln -sf HOME/.bashrc .git/MERGE_MSG";
    fn a_message_of_a_squash_that_is_a_link(): "ln -sf HOME/.bashrc .git/SQUASH_MSG";
    #[kennel_claim::claim("handed-back/git-commands-after-a-run")]
    fn a_log_of_head_that_is_a_link(): "git branch 'x;touch${IFS}y;'; rm -f .git/logs/HEAD; ln -s HOME/.bashrc .git/logs/HEAD";
    fn a_log_of_a_branch_that_is_a_link(): "ln -sf HOME/.bashrc .git/logs/refs/heads/main";
    fn logs_that_are_a_link(): "mv .git/logs/refs .git/l; ln -s HOME/.bashrc.d .git/logs/refs";
    #[kennel_claim::claim("handed-back/git-commands-after-a-run")]
    fn packed_refs_that_are_a_link(): "rm -f .git/packed-refs; ln -s HOME/.bash_login .git/packed-refs";
    fn a_fetch_head_that_is_a_link(): "ln -sf HOME/.bashrc .git/FETCH_HEAD";
    fn an_index_that_is_a_link(): "mv .git/index .git/i; ln -s HOME/.bash_login .git/index";
    fn a_commit_graph_that_is_a_link(): "mkdir -p .git/objects/info; ln -sf HOME/.bashrc .git/objects/info/commit-graph";
    fn packs_that_are_a_link(): "mv .git/objects/pack .git/p; ln -s HOME/.bashrc.d .git/objects/pack";
    #[kennel_claim::claim("handed-back/git-commands-after-a-run")]
    fn objects_that_are_links(): "cd .git/objects; for a in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do for b in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do test -e $a$b || ln -s HOME/.bashrc.d $a$b; done; done";
    fn refs_that_are_a_link(): "git pack-refs --all; rm -rf .git/refs/tags; ln -s HOME/.bashrc.d .git/refs/tags";
    fn branches_that_are_a_link(): "mkdir .git/refs/heads/host; rmdir .git/refs/heads/host; git pack-refs --all; mv .git/refs/heads .git/h; ln -s HOME/.bashrc.d .git/refs/heads";
    fn conflicts_that_are_a_link(): "rm -rf .git/rr-cache; ln -s HOME/.bashrc.d .git/rr-cache";
    fn modules_that_are_a_link(): "rm -rf .git/modules; ln -s HOME/.bashrc.d .git/modules";
    fn what_was_lost_and_is_a_link(): "ln -s HOME/.bashrc.d .git/lost-found; echo lost | git hash-object -w --stdin";
    fn a_sparse_checkout_that_is_a_link(): "mkdir -p .git/info; ln -sf HOME/.bashrc .git/info/sparse-checkout";
    fn an_info_folder_that_is_a_link(): "mv .git/info .git/i; ln -s HOME/.bashrc.d .git/info";
    fn states_that_are_links(): "for l in AUTO_MERGE MERGE_RR MERGE_MODE BISECT_LOG BISECT_START BISECT_NAMES REBASE_HEAD EDIT_DESCRIPTION ADD_EDIT.patch gc.log gc.pid description; do ln -sf HOME/.bashrc .git/$l; done; for d in rebase-merge rebase-apply sequencer; do ln -s HOME/.bashrc.d .git/$d; done";
    fn a_hook(): "mkdir -p .git/hooks; printf '#!/bin/sh\\nRUN\\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit";
    fn a_hook_beside_a_file_that_is_there(): "for h in pre-commit post-checkout post-index-change reference-transaction; do printf '#!/bin/sh\\nRUN\\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done";
    fn a_setting(): "git config core.fsmonitor 'RUN;false'";
    fn settings_of_all_kinds(): "for k in core.sshCommand core.editor core.pager diff.external gpg.program filter.x.clean filter.x.smudge merge.x.driver diff.x.textconv credential.helper sequence.editor alias.status; do git config $k 'RUN;false'; done; git config commit.gpgSign true; git config core.hooksPath h; echo '* filter=x diff=x merge=x' > .gitattributes";
    fn a_setting_of_the_worktree(): "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor 'RUN;false'";
    fn another_common_folder(): "git init -q e; git -C e config core.fsmonitor 'RUN;false'; cp .git/HEAD e/.git/; echo ../e/.git > .git/commondir";
    fn attributes_of_the_repository(): "git config filter.x.clean 'RUN; cat'; mkdir -p .git/info; echo '* filter=x' > .git/info/attributes";
    fn a_pointer_elsewhere(): "git init -q e; git -C e config core.fsmonitor 'RUN;false'; mv .git/HEAD .git/H; mkdir p; mv e/.git e/g; echo 'gitdir: ../e/g' > p/.git; mv .git/H .git/HEAD";
    fn a_nested_repository(): "git init -q n; git -C n commit -q --allow-empty -m x; git -C n config core.fsmonitor 'RUN;false'";
    fn a_submodules_pointer_elsewhere(): "git init -q e; git -C e commit -q --allow-empty -m x; git -C e config core.fsmonitor 'RUN;false'; mkdir -p lib; rm -rf lib/.git; echo 'gitdir: ../e/.git' > lib/.git";
    fn a_submodules_folder_with_hooks(): "git submodule --quiet update --init; printf '#!/bin/sh\\nRUN\\n' > .git/modules/lib/hooks/post-index-change; chmod +x .git/modules/lib/hooks/post-index-change; printf '[core]\\nfsmonitor=\"RUN;false\"\\n' >> .git/modules/lib/config";
    fn a_worktrees_common_folder(): "git init -q e; git -C e config core.fsmonitor 'RUN;false'; git -C e commit -q --allow-empty -m x; echo TOP/work/e/.git > .git/worktrees/wt/commondir";
    fn a_worktrees_own_setting(): "git config extensions.worktreeConfig true; printf '[core]\\nfsmonitor=\"RUN;false\"\\n' > .git/worktrees/wt/config.worktree";
    fn a_new_worktree_with_another_common_folder(): "git init -q e; git -C e config core.fsmonitor 'RUN;false'; git -C e commit -q --allow-empty -m x; git worktree add -q nw; echo TOP/work/e/.git > .git/worktrees/nw/commondir";
    fn a_bare_repository_in_disguise(): "mkdir -p b/objects b/refs; echo 'ref: refs/heads/main' > b/HEAD; printf '[core]\\nrepositoryformatversion=0\\nbare=false\\nworktree=.\\nfsmonitor=\"RUN;false\"\\n' > b/config";
}

// Of these it is not said that they work; they are tried all the same.
further! {
    an_index_that_names_a_hook_in_capitals: "craft .git/index 100755 .GIT/hooks/post-checkout '#!/bin/sh
RUN'";
    an_index_that_names_a_hook_by_short_name: "craft .git/index 100755 GIT~1/hooks/post-checkout '#!/bin/sh
RUN'";
    an_index_with_a_link_and_a_file_below_it: "craft .git/index 120000 d ../home 100644 d/.rcfile evil";
    an_index_that_is_cut: "head -c 60 .git/index > i; mv i .git/index";
    an_index_of_zeros: "head -c 100000 /dev/zero > .git/index";
    worktrees_that_are_a_link: "mv .git/worktrees .git/w; ln -s HOME/.bashrc.d .git/worktrees";
    an_orig_head_that_is_a_link: "ln -sf HOME/.bashrc .git/ORIG_HEAD";
    a_head_that_is_a_link: "ln -sf HOME/.bashrc .git/HEAD";
    a_branch_that_is_a_link: "ln -sf HOME/.bashrc .git/refs/heads/main";
    a_stash_that_is_a_link: "ln -sf HOME/.bashrc .git/refs/stash; ln -sf HOME/.bashrc .git/logs/refs/stash";
    a_shallow_file_that_is_a_link: "ln -sf HOME/.bashrc .git/shallow";
    locks_that_are_links: "for l in index HEAD config packed-refs refs/heads/main COMMIT_EDITMSG; do ln -sf HOME/.bashrc .git/$l.lock; done";
    a_graph_chain_that_is_a_link: "ln -s HOME/.bashrc.d .git/objects/info/commit-graphs";
    a_pack_index_that_is_a_link: "ln -s HOME/.bashrc .git/objects/pack/multi-pack-index; ln -s HOME/.bashrc .git/objects/info/packs";
    submodules_with_commands: "printf '[submodule \"lib\"]\\n\\tpath = lib\\n\\turl = TOP/remotes/lib\\n\\tupdate = !RUN\\n[submodule \"-c\"]\\n\\tpath = -c\\n\\turl = ext::sh -c RUN\\n[submodule \"../../home\"]\\n\\tpath = x\\n\\turl = -u;RUN\\n' > .gitmodules; git add .gitmodules; git commit -qm m";
    remotes_of_old: "mkdir -p .git/remotes .git/branches; printf 'URL: ext::sh -c RUN\\nPull: main\\n' > .git/remotes/origin; echo 'ext::sh -c RUN' > .git/branches/origin";
    alternates: "mkdir -p .git/objects/info; echo TOP/home > .git/objects/info/alternates; echo http://localhost/ > .git/objects/info/http-alternates";
    refs_with_odd_names: "id=$(git rev-parse HEAD); printf '# pack-refs with: peeled fully-peeled sorted \\n%s refs/heads/../../../../home/x\\n%s refs/heads/$(RUN)\\n%s refs/../../home/.bashrc\\n%s ../../home/.bashrc\\n' $id $id $id $id > .git/packed-refs";
    a_head_that_leads_out: "echo 'ref: refs/heads/../../../home/.bashrc' > .git/HEAD";
    a_branch_that_leads_out: "echo 'ref: refs/../../../home/.bashrc' > .git/refs/heads/out; echo 'ref: refs/heads/out' > .git/HEAD";
    a_merge_in_the_middle: "git merge -q side || true; printf 'x\\n# RUN\\n' > .git/MERGE_MSG; echo '--exec=RUN' > .git/MERGE_MODE";
    a_pick_in_the_middle: "git cherry-pick side || true; mkdir -p .git/sequencer; printf 'pick %s x\\nexec RUN\\n' $(git rev-parse topic) > .git/sequencer/todo; printf '[options]\\nstrategy = RUN\\ngpg-sign = RUN\\n' > .git/sequencer/opts";
    grafts_and_replacements: "git rev-parse HEAD > .git/info/grafts; git rev-parse HEAD > .git/shallow; git replace HEAD HEAD~1";
    a_bisect_in_the_middle: "git bisect start HEAD HEAD~1 || true; echo RUN > .git/BISECT_RUN; echo '; RUN' > .git/BISECT_NAMES";
    worktrees_of_nobody: "mkdir -p .git/worktrees/o; echo TOP/home/.bashrc > .git/worktrees/o/gitdir; echo 'ref: refs/heads/main' > .git/worktrees/o/HEAD; echo TOP/home > .git/worktrees/o/commondir";
    objects_that_are_broken: "find .git/objects -type f | head -5 | while read f; do chmod +w $f; echo broken > $f; done";
    attributes_in_the_tree: "printf '* filter=lfs diff=x merge=x text eol=crlf ident export-subst\\n' > .gitattributes; git add .gitattributes; git commit -qm a || true";
    files_that_are_pipes: "for f in .git/COMMIT_EDITMSG .git/FETCH_HEAD; do rm -f $f; mkfifo $f; done";
}

#[test]
#[kennel_claim::claim("handed-back/git-commands-after-a-run")]
fn further_preparations_run_and_write_nothing() {
    // All of them take some minutes.
    for one in FURTHER.iter().step_by(if is_full() { 1 } else { 9 }) {
        after(one);
    }
}

#[test]
fn a_bare_repository_that_a_checkout_would_make_is_told() {
    let Some(world) = World::new() else { return };
    let inside = "mkdir -p b/objects b/refs; echo 'ref: refs/heads/main' > b/HEAD; touch b/objects/k b/refs/k; printf '[core]\\nrepositoryformatversion=0\\nbare=false\\nworktree=.\\nfsmonitor=\"RUN;false\"\\n' > b/config; git add b; git commit -qm b; rm b/HEAD";
    let ran = world.inside(Way::Level(HOOKS), inside).ok();
    assert!(ran.stderr.contains("would make b a repository"), "{}", ran.stderr);
    // By its own index git makes nothing of it; a checkout of the commit is the user's decision.
    world.host("(git checkout -q -f . || true); test ! -e b/HEAD");
}

struct Traces {
    canaries: Vec<String>,
    outside: Vec<PathBuf>,
}

impl Traces {
    fn any(&self) -> bool {
        !self.canaries.is_empty() || !self.outside.is_empty()
    }
}

/// Prepares a repository inside, and goes through all commands outside.
fn traces(way: Way, one: &Preparation) -> Option<Traces> {
    if program("python3").is_none() {
        skipped("python3 is not installed");
        return None;
    }
    let world = World::new()?;
    world.scratch.dir("canaries");
    world.scratch.dir("remotes");
    world.scratch.write("craft.py", CRAFT);
    let lines = COMMANDS.iter().flat_map(|line| line.iter().copied().chain(["-"]));
    world.scratch.write("commands", &lines.map(|line| format!("{line}\n")).collect::<String>());
    world.host(BEFORE);
    let top = world.scratch.path().display().to_string();
    let inside = one
        .inside
        .replace("RUN", &format!("touch {top}/canaries/ran"))
        .replace("HOME", &format!("{top}/home"));
    let ran = world.inside(way, &format!("craft() {{ python3 {top}/craft.py \"$@\"; }}\n{inside}\ntrue"));
    assert!(matches!(ran.code, 0 | 123), "{}: {} {}", one.name, ran.code, ran.stderr);
    let before = outside(world.scratch.path());
    world.host(&format!("D={top}\n{HOST}"));
    let after = outside(world.scratch.path());
    let changed = before.iter().filter(|(path, old)| after.get(*path) != Some(old)).map(|(path, _)| path);
    let new = after.keys().filter(|path| !before.contains_key(*path));
    let canaries = std::fs::read_dir(world.scratch.join("canaries")).into_iter().flatten().flatten();
    Some(Traces {
        canaries: canaries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect(),
        outside: changed.chain(new).cloned().collect(),
    })
}

/// What stands outside of the workspace and of the remotes.
fn outside(top: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![top.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if ["work", "remotes", "canaries", "saved"].iter().any(|own| path == top.join(own)) {
                continue;
            }
            let kind = entry.file_type().expect("it has a kind");
            let text = if kind.is_file() { std::fs::read(&path).unwrap_or_default() } else { Vec::new() };
            found.insert(path.clone(), text);
            if kind.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

/// Each preparation goes through all commands twice, which takes some ten seconds. These are gone through in every run: one of each
/// class.
const ALWAYS: [&str; 8] = [
    "an_index_that_names_a_hook",
    "an_index_that_leads_out",
    "a_message_that_is_a_link_to_the_configuration_of_a_nested_repository",
    "a_log_of_head_that_is_a_link",
    "packed_refs_that_are_a_link",
    "a_hook",
    "settings_of_all_kinds",
    "another_common_folder",
];

#[track_caller]
fn after(one: &Preparation) {
    if one.works && !is_full() && !ALWAYS.contains(&one.name) {
        return skipped("it takes long; KENNEL_ENDURANCE=full goes through it");
    }
    if one.works {
        let Some(open) = traces(OFF, one) else { return };
        assert!(open.any(), "{}: it does not work without a level either", one.name);
    }
    let Some(left) = traces(Way::Level(HOOKS), one) else { return };
    assert!(!left.any(), "{}: ran {:?}, wrote {:?}", one.name, left.canaries, left.outside);
}
