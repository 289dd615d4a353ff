#!/bin/sh
# Runs in a freshly installed Debian or Ubuntu, as root: installs kennel's package, has a new user do what README.md says, removes it
# and compares the file system. Each check prints a line as Rust's test runner does.
#
#   package.sh PACKAGE README denies|knows|none
#
# What this system's AppArmor does about user namespaces: it denies them to programs without a profile, it only knows the rule,
# or it does not know it or is not there.
package=$1 readme=$2 apparmor=$3
switch=/proc/sys/kernel/apparmor_restrict_unprivileged_userns
work=$(mktemp -d /tmp/package.XXXXXX)
chmod 755 "$work"
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
unset KENNEL_BIN KENNEL_ENTRYPOINT

passed() { echo "test package::$1 ... ok"; }
failed() { cat "$work/said"; echo "test package::$1 ... FAILED"; }
skip() { echo "test package::$1 ... SKIPPED: $2"; }
check() {
  name=$1
  shift
  if "$@" > "$work/said" 2>&1; then passed "$name"; else failed "$name"; fi
}
# What must not succeed, and must say this.
check_denied() {
  name=$1 words=$2
  shift 2
  if "$@" > "$work/said" 2>&1; then failed "$name"; return; fi
  if grep -qF -- "$words" "$work/said"; then passed "$name"; else failed "$name"; fi
}
user() { setpriv --reuid newcomer --regid newcomer --init-groups --reset-env "$@"; }

# Everything on the disk: kind, mode, owner, and of files size and time. Of dpkg's own files only its journal and locks are
# left out.
snapshot() {
  find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /vm -o -path /var/tmp \) -prune -o \
    ! -path '/var/log/dpkg.log' ! -path '/var/lib/dpkg/*-old' ! -path '/var/lib/dpkg/lock*' ! -path '/var/lib/dpkg/triggers*' \
    ! -path '/var/lib/dpkg/status' \( -type d -printf '%p %y %m %u:%g\n' -o -printf '%p %y %m %u:%g %s %T@ %l\n' \) | sort > "$1"
  # The list of packages is written anew each time; what it says has to be the same.
  cp /var/lib/dpkg/status "$1.status"
}
is_same() { diff "$1" "$2" && diff "$1.status" "$2.status"; }
# After --remove, before --purge: dpkg remembers that there was a package, by two files.
is_same_but_for_dpkg() { diff "$1" "$2" | grep '^[<>]' | grep -v '^> /var/lib/dpkg/info/kennel\.' > "$work/rest"; cat "$work/rest"; [ ! -s "$work/rest" ]; }

# The commands of README.md's section about installation, one to a line; `sudo` is what root does here.
sed -n '/^## Install/,/^## /p' "$readme" | sed -n '/^```sh$/,/^```$/p' | grep -v '^```' | sed 's/ *#.*//' > "$work/commands"
follow_readme() {
  [ -s "$work/commands" ] || { echo "README.md has no commands"; return 1; }
  while read -r line; do
    echo "\$ $line"
    case "$line" in
    sudo\ *) sh -c "cd ${package%/*} && ${line#sudo }" || return 1 ;;
    *) user sh -c "cd && $line" || return 1 ;;
    esac
  done < "$work/commands"
}
# The first example of README.md: the line after `$ `, and what it prints.
sed -n '/^```console$/,/^```$/p' "$readme" | sed '1d;/^```$/q' | grep -v '^```' > "$work/example"
follow_example() {
  sed -n '1s/^\$ //p' "$work/example" > "$work/line"
  sed 1d "$work/example" > "$work/expected"
  user sh -c 'cd; . "$0"' "$work/line" > "$work/printed" 2>&1
  diff "$work/expected" "$work/printed"
}

useradd --create-home newcomer
if [ "$apparmor" != none ]; then
  check apparmor_is_on grep -q Y /sys/module/apparmor/parameters/enabled
fi
if [ "$apparmor" = denies ]; then
  # Done by the distribution at boot, and nobody has booted it here.
  restrict() { grep -rhq '^kernel.apparmor_restrict_unprivileged_userns *= *1' /usr/lib/sysctl.d /etc/sysctl.d && echo 1 > $switch; }
  check user_namespaces_are_restricted_as_the_distribution_does restrict
fi
snapshot "$work/before"

dpkg-deb --extract "$package" "$work/unpacked"
kennel=$work/unpacked/usr/bin/kennel
words='AppArmor restricts unprivileged user namespaces (kernel.apparmor_restrict_unprivileged_userns = 1)'
if [ "$apparmor" = denies ]; then
  # Without this profile of the distribution's a namespace is refused (Ubuntu 23.10); with it, it is made and is of no use.
  transition=/etc/apparmor.d/unprivileged_userns
  check_denied a_namespace_that_is_refused_is_told "$words" user "$kennel" run -- echo in
  check the_distributions_profile_is_loaded apparmor_parser --replace --skip-cache $transition
  check_denied a_namespace_without_powers_is_told "$words" user "$kennel" run -- echo in
  check_denied doctor_names_apparmor_without_the_profile "$words" user "$kennel" doctor
  cat "$work/said"
fi

check a_new_user_follows_readme follow_readme
cat "$work/said"
check the_first_example_of_readme_prints_what_readme_shows follow_example
check doctor_is_content user kennel doctor
check the_manual_and_completions_are_there sh -c 'zcat /usr/share/man/man1/kennel.1.gz | grep -q "^\.TH" && test -s /usr/share/bash-completion/completions/kennel'
check dpkg_finds_all_files_as_they_were_packed dpkg --verify kennel
check srt_is_reached_by_its_name user /usr/libexec/kennel/names/srt --version
if [ "$apparmor" = denies ]; then
  check_denied another_copy_of_kennel_is_still_denied "$words" user "$kennel" run -- echo in
  check_denied other_programs_are_still_denied 'uid_map: Operation not permitted' user unshare --user --map-root-user mount -t tmpfs none /mnt
  check_denied a_command_inside_cannot_use_the_permission 'unshare' user kennel run -- unshare --user true
fi
if [ "$apparmor" != none ]; then
  check the_profile_is_loaded grep -q '^kennel (unconfined)' /sys/kernel/security/apparmor/profiles
  check an_upgrade_keeps_the_profile sh -c "dpkg --install $package && grep -q '^kennel (unconfined)' /sys/kernel/security/apparmor/profiles && cmp /usr/share/kennel/apparmor/kennel /etc/apparmor.d/kennel"
  check kennel_runs_after_the_upgrade user kennel run -- true
  check the_whole_of_apparmors_profiles_is_sound apparmor_parser --skip-kernel-load --skip-cache /etc/apparmor.d/kennel
else
  check no_profile_is_put_where_apparmor_does_not_know_it test ! -e /etc/apparmor.d/kennel
fi

check it_is_removed dpkg --remove kennel
snapshot "$work/removed"
check removing_leaves_nothing_but_dpkgs_memory is_same_but_for_dpkg "$work/before" "$work/removed"
check it_is_purged dpkg --purge kennel
snapshot "$work/purged"
check purging_leaves_no_trace is_same "$work/before" "$work/purged"
if [ "$apparmor" != none ]; then
  check the_profile_is_unloaded sh -c "! grep -q '^kennel ' /sys/kernel/security/apparmor/profiles"
  # An administrator's changes stay until the package is purged.
  dpkg --install "$package" > /dev/null 2>&1
  echo '# changed' >> /etc/apparmor.d/kennel
  check a_changed_profile_is_kept_by_an_upgrade sh -c "dpkg --install $package && grep -q '^# changed' /etc/apparmor.d/kennel"
  check a_changed_profile_is_kept_by_removal sh -c "dpkg --remove kennel && grep -q '^# changed' /etc/apparmor.d/kennel"
  check a_changed_profile_goes_with_a_purge sh -c "dpkg --purge kennel && test ! -e /etc/apparmor.d/kennel"
fi
rm -rf "$work"
