#!/bin/busybox sh
# The first program of the test machine. It runs twice: from the initramfs, to move to a root that pivot_root(2) accepts
# (it refuses the initramfs), and from there, to set up what a Linux system has, to run the jobs, and to power off.
#
# Cgroups: the unified hierarchy with all controllers; root's jobs run at its top. User 1000 has the subtree user/u, as
# an administrator would delegate one, and runs in user/u/job.
BB=/bin/busybox
if [ "$1" != second ]; then
  $BB mkdir -p /new && $BB mount -t tmpfs -o mode=755 root /new
  for entry in bin etc home vm init; do $BB cp -a /$entry /new/; done
  $BB mkdir -p /new/proc /new/sys /new/dev /new/tmp /new/run /new/root
  exec $BB switch_root /new /bin/busybox sh /init second
fi
$BB --install -s /bin
export PATH=/bin HOME=/root
mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts && mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=1777 tmp /tmp && mount -t tmpfs -o mode=755 run /run
ln -sf /proc/self/fd /dev/fd
ln -sf fd/0 /dev/stdin
ln -sf fd/1 /dev/stdout
ln -sf fd/2 /dev/stderr
mount -t securityfs security /sys/kernel/security
ip link set lo up
echo "KENNEL-VM-UP $(uname -r)"

mount -t cgroup2 none /sys/fs/cgroup
pass_on() { for controller in $(cat "$1/cgroup.controllers"); do echo "+$controller" > "$1/cgroup.subtree_control"; done; }
delegated=/sys/fs/cgroup/user/u
pass_on /sys/fs/cgroup
mkdir -p $delegated/job
pass_on /sys/fs/cgroup/user
chown -R 1000:1000 $delegated/job
chown 1000:1000 $delegated $delegated/cgroup.procs $delegated/cgroup.threads $delegated/cgroup.subtree_control
export KENNEL_BIN=/vm/bin/kennel RUST_BACKTRACE=0

as_root() { "$@"; }
as_user() {
  ( echo 0 > $delegated/job/cgroup.procs; cd /home/u; exec su u -s /bin/sh -c 'exec "$0" "$@"' -- "$@" )
}
status=0
job() {
  name=$1 who=$2
  shift 2
  echo "== $name, as $who"
  if "as_$who" "$@"; then echo "== $name, as $who: passed"; else echo "== $name, as $who: FAILED ($?)"; status=1; fi
  left=$(find /sys/fs/cgroup -type d -name 'kennel-sandbox-*' | wc -l)
  if [ "$left" != 0 ]; then echo "== $name, as $who: FAILED: left $left cgroups"; status=1; fi
}
. /vm/jobs
echo "KENNEL-VM-EXIT $status"
sync
poweroff -f
