#!/bin/busybox sh
# The first program of the test machine. It runs twice: from the initramfs, to move to a root that pivot_root(2) accepts
# (it refuses the initramfs), and from there, to set up what a Linux system has, to run the jobs, and to power off.
#
# Each job is run by several people, who differ in where a cgroup is to be had (the unified hierarchy, all controllers):
#   root       at the top
#   user       user 1000 in user/u/job, where user/u is delegated to them as an administrator would
#   crowded    user 1000 directly in a delegated cgroup, which cannot pass controllers on before it is cleared
#   container  root, who sees only the cgroup they are in, as in a container without a cgroup namespace
#   stranger   user 1000 where nothing is delegated
#   systemd    user 1000 beside their own systemd, which is asked for a scope
BB=/bin/busybox
if [ "$1" != second ]; then
  $BB mkdir -p /new && $BB mount -t tmpfs -o mode=755 root /new
  for entry in bin etc home init lib lib64 usr vm; do [ -e /$entry ] && $BB cp -a /$entry /new/; done
  $BB mkdir -p /new/proc /new/sys /new/dev /new/tmp /new/run /new/root /new/var/tmp
  $BB chmod 1777 /new/var/tmp
  exec $BB switch_root /new /bin/busybox sh /init second
fi
$BB --install -s /bin 2> /dev/null
export PATH=/bin:/usr/bin HOME=/root
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
cgroups=/sys/fs/cgroup
pass_on $cgroups
delegate() { mkdir -p "$1" && chown 1000:1000 "$1" "$1/cgroup.procs" "$1/cgroup.threads" "$1/cgroup.subtree_control"; }
mkdir -p $cgroups/user $cgroups/container
pass_on $cgroups/user
delegate $cgroups/user/u
delegate $cgroups/user/u/job
delegate $cgroups/user/crowded
export KENNEL_BIN=/vm/bin/kennel RUST_BACKTRACE=0 KENNEL_TEST_NEEDS_CGROUPS=1
# Tests that do something many times over do it less often then.
if grep -q kennel.emulated /proc/cmdline; then export KENNEL_TEST_EMULATED=1; fi

enter() { echo 0 > "$1/cgroup.procs"; }
become_user() { cd /home/u && exec su u -s /bin/sh -c 'exec "$0" "$@"' -- "$@"; }
as_root() { "$@"; }
as_user() { ( enter $cgroups/user/u/job; become_user "$@" ); }
as_crowded() { ( enter $cgroups/user/crowded; become_user "$@" ); }
as_container() {
  ( enter $cgroups/container
    exec unshare -m sh -c "mount --make-rprivate / && mount --bind $cgroups/container $cgroups && exec \"\$0\" \"\$@\"" "$@" )
}
as_stranger() { ( unset KENNEL_TEST_NEEDS_CGROUPS; become_user "$@" ); }
as_systemd() {
  [ -x /lib/systemd/systemd ] || { echo "SKIPPED: there is no systemd in the machine"; return 0; }
  export XDG_RUNTIME_DIR=/run/user/1000
  if [ ! -e $XDG_RUNTIME_DIR ]; then
    mkdir -p /run/systemd/system $XDG_RUNTIME_DIR
    chown 1000:1000 $XDG_RUNTIME_DIR && chmod 700 $XDG_RUNTIME_DIR
    delegate $cgroups/user/manager
    ( enter $cgroups/user/manager; become_user /lib/systemd/systemd --user ) &
    for attempt in $(seq 100); do [ -S $XDG_RUNTIME_DIR/bus ] && break; sleep 0.2; done
    delegate $cgroups/user/manager/session
  fi
  ( enter $cgroups/user/manager/session; become_user "$@" )
}
status=0
job() {
  name=$1 who=$2
  shift 2
  echo "== $name, as $who"
  if "as_$who" "$@"; then echo "== $name, as $who: passed"; else echo "== $name, as $who: FAILED ($?)"; status=1; fi
  # systemd removes a scope when it hears that it is empty.
  for attempt in $(seq 20); do
    left=$(find $cgroups -type d -name 'kennel-sandbox-*' 2> /dev/null | wc -l)
    [ "$left" = 0 ] && break
    sleep 0.2
  done
  if [ "$left" != 0 ]; then echo "== $name, as $who: FAILED: left $left cgroups"; status=1; fi
}
. /vm/jobs
echo "KENNEL-VM-EXIT $status"
sync
poweroff -f
