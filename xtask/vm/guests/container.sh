# A container of Docker's, by hand: its own processes, few capabilities, a masked /proc, read-only /sys and cgroups. (The
# suite `hosts` has its system call filter.)
. /vm/guests/checks.sh
$BB cat > /run/container <<'SCRIPT'
BB=/vm/busybox
$BB mount --make-rprivate / && $BB mount -t proc proc /proc
if [ "$1" = masked ]; then
  for folder in acpi scsi firmware; do [ -d /proc/$folder ] && $BB mount -t tmpfs -o ro masked /proc/$folder; done
  for file in kcore keys timer_list interrupts; do [ -e /proc/$file ] && $BB mount --bind /dev/null /proc/$file; done
  for folder in bus fs irq sys; do $BB mount --bind /proc/$folder /proc/$folder && $BB mount -o remount,bind,ro /proc/$folder; done
fi
$BB mount --bind /sys /sys && $BB mount -o remount,bind,ro /sys
$BB mount -o remount,bind,ro /sys/fs/cgroup 2> /dev/null || $BB mount -t cgroup2 -o ro none /sys/fs/cgroup
echo > /.dockerenv
shift
kept=+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap
exec /usr/bin/setpriv --inh-caps=-all --bounding-set=-all,$kept "$@"
SCRIPT
inside() { $BB unshare -m -p -f -i -u $BB sh /run/container "$@"; status=$?; $BB rm -f /.dockerenv; return $status; }
expect "with_a_whole_proc_root_runs_commands" 0 inside inside plain $kennel run -- echo inside
expect "with_a_masked_proc_root_is_told_what_to_open" 125 "systempaths=unconfined" inside masked $kennel run -- true
expect "with_a_masked_proc_doctor_is_of_the_same_opinion" 1 "systempaths=unconfined" inside masked $kennel doctor
expect "with_a_masked_proc_best_effort_runs" 0 inside inside masked $kennel run --best-effort -- echo inside
expect "and_lists_the_proc_of_the_container" 0 "/proc" inside masked $kennel run --best-effort -- true
user() { kind=$1; shift; inside "$kind" $BB su u -s /bin/sh -c 'cd /home/u; exec "$0" "$@"' -- "$@"; }
expect "with_a_whole_proc_a_user_runs_commands" 0 inside user plain $kennel run -- echo inside
expect "with_a_masked_proc_a_user_is_told_what_to_open" 125 "systempaths=unconfined" user masked $kennel run -- true
expect "with_a_masked_proc_best_effort_runs_for_a_user" 0 inside user masked $kennel run --best-effort -- echo inside
exit $failures
