//! New repositories whose configuration, hooks or pointers have git run something.

use super::{Attack, fails};

/// A repository in a folder of its own, `evil`, with a commit.
const MAKE: &str = "git init -q evil && git -C evil commit -q --allow-empty -m x && ";

macro_rules! attacks {
    ($($(#[$about:meta])* fn $name:ident(): $before:expr, $inside:expr;)*) => {
        $($(#[$about])*
        #[test]
        fn $name() {
            fails(&Attack { name: stringify!($name), before: $before, inside: $inside });
        })*
    };
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// What is done inside: a repository, and then something to it.
fn evil(rest: &str) -> &'static str {
    leak(format!("{MAKE}{rest}"))
}

attacks! {
    // A repository where none was: at the top, nested, in a subfolder, bare.
    fn a_top_folder_that_looks_like_a_bare_repository_runs_nothing(): "",
        "mv .git/HEAD .git/H; mkdir objects refs; echo ref: refs/heads/main > HEAD
         printf '[core]\\nrepositoryformatversion=0\\nbare=false\\nworktree=.\\nfsmonitor=RUN;false\\n' > config";
    fn a_gitlink_to_a_nested_repository_runs_nothing(): "",
        evil("git add evil 2>/dev/null; git commit -qm link; git -C evil config core.fsmonitor 'RUN;false'");
    fn a_repository_in_a_subfolder_runs_nothing(): "",
        evil("git -C evil config core.fsmonitor 'RUN;false'");
    #[kennel_claim::claim("handed-back/git-disguised-repositories")]
    fn a_bare_repository_in_a_subfolder_runs_nothing(): "",
        "mkdir -p a/b/objects a/b/refs; cd a/b; echo ref: refs/heads/main > HEAD
         printf '[core]\\nrepositoryformatversion=0\\nbare=false\\nworktree=.\\nfsmonitor=RUN;false\\n' > config";

    // What a configuration can name.
    fn an_included_file_runs_nothing(): "",
        evil("git -C evil config include.path ../../x; printf '[core]\\nfsmonitor=RUN;false\\n' > x");
    #[kennel_claim::claim("handed-back/git-runs-nothing-of-the-sandbox")]
    fn a_conditionally_included_file_runs_nothing(): "",
        evil("git -C evil config 'includeIf.onbranch:**.path' ../../x; printf '[core]\\nfsmonitor=RUN;false\\n' > x");
    #[kennel_claim::claim("handed-back/git-runs-nothing-of-the-sandbox")]
    fn a_folder_of_hooks_elsewhere_runs_nothing(): "",
        evil("git -C evil config core.hooksPath ../h; mkdir h; printf '#!/bin/sh\\nRUN\\n' > h/post-commit; chmod +x h/post-commit");
    fn a_hook_runs_nothing(): "",
        evil("mkdir -p evil/.git/hooks; printf '#!/bin/sh\\nRUN\\n' > evil/.git/hooks/post-index-change; chmod +x evil/.git/hooks/post-index-change");
    fn a_filter_runs_nothing(): "",
        evil("cd evil; git config filter.x.clean 'RUN; cat'; echo '* filter=x' > .gitattributes; echo 1 > f");
    #[kennel_claim::claim("handed-back/git-runs-nothing-of-the-sandbox")]
    fn a_filter_process_runs_nothing(): "",
        evil("cd evil; git config filter.x.process 'RUN'; echo '* filter=x' > .gitattributes; echo 1 > f");
    fn a_filter_that_smudges_runs_nothing(): "",
        evil("cd evil; echo '* filter=x' > .gitattributes; echo 1 > f; git add -A; git commit -qm f; rm f; git config filter.x.smudge 'RUN; cat'");
    fn an_external_diff_runs_nothing(): "",
        evil("cd evil; echo 1 > f; git add f; git commit -qm f; echo 2 > f; git config diff.external 'RUN;:'");
    fn a_diff_driver_runs_nothing(): "",
        evil("cd evil; echo 1 > f; git add f; git commit -qm f; echo 2 > f; echo 'f diff=x' > .gitattributes; git config diff.x.command 'RUN;:'");
    #[kennel_claim::claim("handed-back/git-runs-nothing-of-the-sandbox")]
    fn a_text_conversion_runs_nothing(): "",
        evil("cd evil; echo 1 > f; git add f; git commit -qm f; echo 2 > f; echo 'f diff=x' > .gitattributes; git config diff.x.textconv 'RUN; cat'");
    fn a_signing_program_runs_nothing(): "",
        evil("cd evil; printf '#!/bin/sh\\nRUN\\n' > g; chmod +x g; git config gpg.program ./g; git config commit.gpgSign true");
    fn a_program_that_checks_signatures_runs_nothing(): "",
        evil("cd evil; printf '#!/bin/sh\\nRUN\\n' > g; chmod +x g; git config gpg.program ./g; git config log.showSignature true
             (git cat-file commit HEAD | sed '/^committer/a gpgsig -----BEGIN PGP SIGNATURE-----\\n \\n x\\n -----END PGP SIGNATURE-----') > c
             git update-ref HEAD $(git hash-object -t commit -w --literally c)");
    fn an_alias_runs_nothing(): "",
        evil("git -C evil config alias.st '!RUN'");
    fn a_pager_runs_nothing(): "git config --global --replace-all alias.st '-p status'",
        evil("git -C evil config core.pager 'RUN; cat'; git -C evil config pager.status true; git -C evil config pager.st 'RUN; cat'; git -C evil config alias.st '!RUN'");
    #[kennel_claim::claim("handed-back/git-runs-nothing-of-the-sandbox")]
    fn a_fetch_of_missing_objects_by_ssh_runs_nothing(): "",
        evil("cd evil; echo 1 > f; git add f; git commit -qm f; git config core.repositoryFormatVersion 1; git config extensions.partialClone o
             git config remote.o.url ssh://x/y; git config remote.o.promisor true; git config core.sshCommand 'RUN;false'; rm -rf .git/objects/??");
    fn a_fetch_of_missing_objects_by_another_program_runs_nothing(): "",
        evil("cd evil; echo 1 > f; git add f; git commit -qm f; git config core.repositoryFormatVersion 1; git config extensions.partialClone o
             git config remote.o.url ../evil/.git; git config remote.o.promisor true; git config remote.o.uploadpack 'RUN;false'; rm -rf .git/objects/??");
    fn a_fetch_of_missing_objects_by_a_helper_runs_nothing(): "",
        evil("cd evil; echo 1 > f; git add f; git commit -qm f; git config core.repositoryFormatVersion 1; git config extensions.partialClone o
             git config remote.o.url 'ext::RUN'; git config protocol.ext.allow always; git config remote.o.promisor true; rm -rf .git/objects/??");
    fn an_address_that_is_another_runs_nothing(): "",
        evil("cd evil; echo 1 > f; git add f; git commit -qm f; git config core.repositoryFormatVersion 1; git config extensions.partialClone o
             git config remote.o.url x://y; git config 'url.ext::RUN .insteadOf' x://; git config protocol.ext.allow always
             git config remote.o.promisor true; rm -rf .git/objects/??");
    fn a_configuration_of_the_worktree_runs_nothing(): "",
        evil("cd evil; git config extensions.worktreeConfig true; git config --worktree core.fsmonitor 'RUN;false'");
    fn a_merge_driver_and_an_editor_are_not_left(): "",
        evil("cd evil; git config merge.x.driver 'RUN'; git config core.editor 'RUN'; git config sequence.editor 'RUN'; git config alias.st '!git commit --allow-empty'");

    // How a configuration can be written.
    fn a_setting_on_the_line_of_its_section_runs_nothing(): "",
        evil("printf '[core] fsmonitor = \"RUN;false\"\\n' >> evil/.git/config");
    fn a_setting_that_goes_on_in_the_next_line_runs_nothing(): "",
        evil("printf '[user]\\nname = a\\\\\\nb\\n[core]\\nfsmonitor = \"RUN;fa\\\\\\nlse\"\\n' >> evil/.git/config");
    fn a_configuration_with_other_ends_of_lines_runs_nothing(): "",
        evil("printf '[CORE]\\r\\n\\tFsMonitor\\t=\\tRUN ; x\\r\\n' >> evil/.git/config");
    fn a_configuration_with_a_byte_order_mark_runs_nothing(): "",
        evil("(printf '\\357\\273\\277'; cat evil/.git/config; printf '[core]\\nfsmonitor=\"RUN;false\"\\n') > c; mv c evil/.git/config");
    fn a_configuration_of_megabytes_runs_nothing(): "",
        evil("(printf '[core]\\nfsmonitor=\"RUN;false\"\\n'; head -c 3000000 /dev/zero | tr '\\0' '#') >> evil/.git/config");
    fn a_configuration_that_is_a_link_runs_nothing(): "",
        evil("git -C evil config core.fsmonitor 'RUN;false'; mv evil/.git/config c; ln -s ../../c evil/.git/config");
    fn a_configuration_that_is_a_hard_link_runs_nothing(): "",
        evil("git -C evil config core.fsmonitor 'RUN;false'; ln evil/.git/config c; rm evil/.git/config; ln c evil/.git/config");
    fn hooks_behind_a_link_run_nothing(): "",
        evil("mkdir h; printf '#!/bin/sh\\nRUN\\n' > h/post-commit; chmod +x h/post-commit; rm -rf evil/.git/hooks; ln -s ../../h evil/.git/hooks");
    fn a_hook_that_is_a_link_runs_nothing(): "",
        evil("mkdir -p evil/.git/hooks; printf '#!/bin/sh\\nRUN\\n' > p; chmod +x p; ln -s ../../../p evil/.git/hooks/post-commit");
}
