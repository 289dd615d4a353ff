# AppArmor denies user namespaces to programs without permission, as on Ubuntu. Mainline kernels have the mediation (6.7)
# but not Ubuntu's switch for programs without a profile, so these programs get one here, that allows everything else.
. /vm/guests/checks.sh
if [ "$($BB cat /sys/module/apparmor/parameters/enabled 2> /dev/null)" != Y ]; then
  skip apparmor "AppArmor is not on in this kernel"; exit 0
fi
if ! $BB grep -q userns_create /sys/kernel/security/apparmor/features/namespaces/mask; then
  skip apparmor "this kernel's AppArmor does not mediate user namespaces"; exit 0
fi
[ -e /vm/apparmor/kennel ] || { skip apparmor "the package's profile is not in the source"; exit 0; }
$BB cp $kennel /usr/bin/kennel
$BB cat > /run/session <<'PROFILE'
abi <abi/4.0>,
profile session flags=(attach_disconnected) {
  capability,
  network,
  mount,
  umount,
  pivot_root,
  ptrace,
  signal,
  unix,
  change_profile,
  /{,**} rwlkm,
  /** pix,
}
PROFILE
apparmor_parser -K -r /run/session || { echo "test the_session_has_a_profile ... FAILED"; exit 1; }
# A shell in the profile starts the command: aa-exec alone would put the command itself into it.
session() { as_u aa-exec -p session -- /bin/sh -c '"$0" "$@"; exit $?' "$@"; }
expect unshare_is_denied 1 "" session unshare --user true
expect without_the_profile_doctor_says_that_apparmor_denies_it 1 "AppArmor profile \`session\`" session /usr/bin/kennel doctor
expect without_the_profile_doctor_tells_what_to_do 1 "install an AppArmor profile that allows \`userns\`" session /usr/bin/kennel doctor
expect without_the_profile_nothing_runs 125 "AppArmor profile \`session\`" session /usr/bin/kennel run -- true
expect without_the_profile_best_effort_runs_and_lists_it 0 "namespaces" session /usr/bin/kennel run --best-effort -- true
# The words for Ubuntu's switch, on a file in its place.
ubuntu() {
  $BB unshare -m $BB sh -c '
    /vm/busybox mount -t tmpfs switch /proc/sys/kernel
    echo 1 > /proc/sys/kernel/apparmor_restrict_unprivileged_userns
    . /vm/guests/checks.sh
    as_u aa-exec -p session -- /bin/sh -c "\"\$0\" \"\$@\"; exit \$?" "$0" "$@"' "$@"
}
expect doctor_names_the_switch_of_ubuntu 1 "kernel.apparmor_restrict_unprivileged_userns = 1" ubuntu /usr/bin/kennel doctor
expect doctor_says_that_a_profile_helps 1 "install an AppArmor profile that allows \`userns\`" ubuntu /usr/bin/kennel doctor
$BB cp /vm/apparmor/kennel /etc/apparmor.d/kennel
expect the_profile_of_the_package_is_taken 0 "" apparmor_parser -K -r /etc/apparmor.d/kennel
expect with_the_profile_kennel_works 0 "inside" session /usr/bin/kennel run -- echo inside
expect with_the_profile_doctor_says_so 0 "a command ran with the default policy" session /usr/bin/kennel doctor
expect with_the_profile_a_network_works 0 "inside" session /usr/bin/kennel run --allow-domain example.com -- echo inside
expect with_the_profile_others_are_still_denied 1 "" session unshare --user true
expect a_command_inside_gets_no_namespace_of_its_own 1 "" session /usr/bin/kennel run -- unshare --user true
exit $failures
