# The cgroup tree is read-only, as in most containers: what needs no limit works, a limit is an error, and best effort lists it.
. /vm/guests/checks.sh
within() { $BB unshare -m $BB sh -c '/vm/busybox mount --make-rprivate / && /vm/busybox mount -o remount,bind,ro /sys/fs/cgroup && . /vm/guests/checks.sh && "$0" "$@"' "$@"; }
as_root() { "$@"; }
for who in as_root as_u; do
  [ $who = as_root ] && run="within" || run="within as_u"
  expect "a_command_without_limits_runs_$who" 0 inside $run $kennel run -- echo inside
  expect "a_memory_limit_is_refused_$who" 125 "memory" $run $kennel run --memory 64M -- true
  expect "a_limit_of_processes_is_refused_$who" 125 "pids" $run $kennel run --pids 10 -- true
  expect "doctor_finds_less_$who" 0 "weaker   limits" $run $kennel doctor
  expect "with_best_effort_it_runs_$who" 0 inside $run $kennel run --best-effort --memory 64M -- echo inside
  expect "with_best_effort_the_limit_is_listed_$who" 0 "memory" $run $kennel run --best-effort --memory 64M -- true
done
exit $failures
