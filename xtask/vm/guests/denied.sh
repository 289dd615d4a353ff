# User namespaces are switched off: kennel says by which switch, runs nothing, and with best effort runs with less.
. /vm/guests/checks.sh
$BB mkdir -p /home/u/project && $BB chown 1000:1000 /home/u/project
try() {
  switch=$1 words=$2
  for who in as_u; do
    expect "doctor_names_$switch" 1 "$words" $who $kennel doctor
    expect "doctor_tells_what_to_do_about_$switch" 1 "run \`sudo sysctl $3" $who $kennel doctor
    expect "nothing_runs_with_$switch" 125 "$words" $who $kennel run -- true
    expect "with_best_effort_something_runs_with_$switch" 0 "inside" \
      $who $kennel run --best-effort --allow-write /home/u/project -- sh -c 'echo inside; echo x > project/file'
    expect "with_best_effort_files_are_still_kept_with_$switch" 0 "refused" \
      $who $kennel run --best-effort --allow-write /home/u/project -- sh -c 'echo x > /home/u/file || echo refused'
    expect "with_best_effort_the_outcome_lists_what_is_missing_with_$switch" 0 "namespaces" \
      $who $kennel run --best-effort -- true
  done
}
set_switch user/max_user_namespaces 0
try max_user_namespaces "user.max_user_namespaces = 0" user.max_user_namespaces=
expect "root_is_denied_too" 125 "user.max_user_namespaces = 0" $kennel run -- true
set_switch user/max_user_namespaces 15000
expect "it_works_again" 0 "" as_u $kennel run -- true
if [ -e /proc/sys/kernel/unprivileged_userns_clone ]; then
  set_switch kernel/unprivileged_userns_clone 0
  try unprivileged_userns_clone "kernel.unprivileged_userns_clone = 0" kernel.unprivileged_userns_clone=1
  expect "root_needs_no_permission" 0 "" $kennel run -- true
  set_switch kernel/unprivileged_userns_clone 1
else
  skip unprivileged_userns_clone "this kernel does not have the switch"
fi
exit $failures
