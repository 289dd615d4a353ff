#!/vm/busybox sh
# The first program of a test machine. It runs twice: from the initramfs, to move to a root that pivot_root(2) accepts
# (it refuses the initramfs), and from there, to set up what a Linux system has, to run the jobs, and to power off.
#
# Each job is run by one of several people, who differ in where a cgroup is to be had (the unified hierarchy, all
# controllers):
#   root       at the top
#   user       user 1000 in user/u/job, where user/u is delegated to them as an administrator would
#   crowded    user 1000 directly in a delegated cgroup, which cannot pass controllers on before it is cleared
#   container  root, who sees only the cgroup they are in, as in a container without a cgroup namespace
#   stranger   user 1000 where nothing is delegated
#   systemd    user 1000 beside their own systemd, which is asked for a scope
BB=/vm/busybox
if [ "$1" != second ]; then
  # The same files on a mount that has a parent.
  $BB mkdir -p /new /proc /sys /dev /tmp /run /root /var/tmp
  $BB chmod 1777 /var/tmp
  $BB mount --bind / /new
  cd /new && $BB mount --move /new /
  exec $BB chroot . $BB sh /init second
fi
for applet in chown chroot find grep insmod ip ln mkdir mount poweroff seq sleep su sync umount unshare wc; do
  eval "$applet() { $BB $applet \"\$@\"; }"
done
rmdir /new 2> /dev/null
# Where there is nothing but busybox, its applets are the system's programs.
if [ ! -e /bin/sh ]; then $BB cp $BB /bin/busybox; /bin/busybox --install -s /bin; fi
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=xterm-256color
mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts -o ptmxmode=666,gid=5,mode=620 pts /dev/pts && mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=1777 tmp /tmp && mount -t tmpfs -o mode=755 run /run
ln -sf /proc/self/fd /dev/fd
ln -sf fd/0 /dev/stdin
ln -sf fd/1 /dev/stdout
ln -sf fd/2 /dev/stderr
mount -t securityfs security /sys/kernel/security
$BB hostname machine
# As systemd sets it; the kernel's own is 4096.
ulimit -Hn 524288 && ulimit -Sn 16384
ip link set lo up
echo "KENNEL-VM-UP $($BB uname -r)"

for module in /vm/modules/*.ko; do
  case $module in
    *-nf_* | *-nft_*) if grep -q kennel.no-nftables /proc/cmdline; then continue; fi ;;
  esac
  insmod "$module" || echo "insmod: $module"
done
if grep -q kennel.overlay /proc/cmdline; then
  for folder in /var/tmp /home/u; do
    mkdir -p /vm/upper$folder /vm/work$folder
    mount -t overlay overlay -o lowerdir=$folder,upperdir=/vm/upper$folder,workdir=/vm/work$folder $folder
  done
  $BB chmod 1777 /var/tmp && chown 1000:1000 /home/u
fi
if grep -q kennel.nfs /proc/cmdline; then
  mkdir -p /srv/tmp /srv/u /var/lib/nfs/v4recovery && $BB chmod 1777 /srv/tmp && chown 1000:1000 /srv/u
  $BB cp -a /var/tmp/kennel-vm /srv/tmp/
  # The file system in memory has no identity of its own to export.
  echo '/srv 127.0.0.1(rw,no_root_squash,insecure,no_subtree_check,fsid=0)' > /etc/exports
  : > /var/lib/nfs/etab; : > /var/lib/nfs/rmtab
  mount -t nfsd nfsd /proc/fs/nfsd
  exportfs -ra; rpc.nfsd --no-nfs-version 3 --no-udp 4; rpc.mountd --no-nfs-version 3
  for pair in tmp:/var/tmp u:/home/u; do
    mount -t nfs4 -o vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1 127.0.0.1:/${pair%%:*} ${pair#*:}
  done
fi
# A small root file system, for guests that have no other.
mkdir -p /var/tmp/root/bin && $BB cp $BB /var/tmp/root/bin/busybox && ln -s busybox /var/tmp/root/bin/sh
mount -t cgroup2 none /sys/fs/cgroup
pass_on() { for controller in $($BB cat "$1/cgroup.controllers"); do echo "+$controller" > "$1/cgroup.subtree_control"; done; }
cgroups=/sys/fs/cgroup
pass_on $cgroups
delegate() { mkdir -p "$1" && chown 1000:1000 "$1" "$1/cgroup.procs" "$1/cgroup.threads" "$1/cgroup.subtree_control"; }
mkdir -p $cgroups/user $cgroups/container
pass_on $cgroups/user
delegate $cgroups/user/u
delegate $cgroups/user/u/job
delegate $cgroups/user/crowded
export KENNEL_BIN=/var/tmp/kennel-vm/kennel RUST_BACKTRACE=0 KENNEL_TEST_NEEDS_CGROUPS=1
# Tests that do something many times over do it less often then.
if grep -q kennel.emulated /proc/cmdline; then export KENNEL_TEST_EMULATED=1; fi

enter() { echo 0 > "$1/cgroup.procs"; }
become_user() { cd /home/u && HOME=/home/u USER=u exec $BB su u -s /bin/sh -c 'exec "$0" "$@"' -- "$@"; }
as_root() { "$@"; }
as_user() { ( enter $cgroups/user/u/job; become_user "$@" ); }
as_crowded() { ( enter $cgroups/user/crowded; become_user "$@" ); }
as_container() {
  ( enter $cgroups/container
    exec $BB unshare -m $BB sh -c "$BB mount --make-rprivate / && $BB mount --bind $cgroups/container $cgroups && exec \"\$0\" \"\$@\"" "$@" )
}
as_stranger() { ( unset KENNEL_TEST_NEEDS_CGROUPS; become_user "$@" ); }
as_systemd() {
  [ -x /lib/systemd/systemd ] || { echo "SKIPPED: there is no systemd in the machine"; return 0; }
  export XDG_RUNTIME_DIR=/run/user/1000
  if [ ! -e $XDG_RUNTIME_DIR ]; then
    mkdir -p /run/systemd/system $XDG_RUNTIME_DIR
    chown 1000:1000 $XDG_RUNTIME_DIR && $BB chmod 700 $XDG_RUNTIME_DIR
    delegate $cgroups/user/manager
    ( enter $cgroups/user/manager; become_user /lib/systemd/systemd --user ) > /run/systemd.log 2>&1 &
    for attempt in $(seq 100); do [ -S $XDG_RUNTIME_DIR/bus ] && break; sleep 0.2; done
    delegate $cgroups/user/manager/session
  fi
  ( enter $cgroups/user/manager/session; become_user "$@" )
}
job() {
  name=$1 who=$2
  shift 2
  echo "KENNEL-VM-JOB $name $who"
  # Through a pipe: no test is to find a terminal that it did not make.
  { "as_$who" "$@" < /dev/null 2>&1; echo $? > /run/status; } | $BB cat
  status=$($BB cat /run/status)
  # systemd removes a scope when it hears that it is empty.
  for attempt in $(seq 20); do
    left=$(find $cgroups -type d -name 'kennel-sandbox-*' 2> /dev/null | wc -l)
    [ "$left" = 0 ] && break
    sleep 0.2
  done
  if [ "$left" != 0 ]; then echo "test no_cgroup_is_left ... FAILED"; status=1; fi
  echo "KENNEL-VM-DONE $status"
}
. /vm/jobs
echo "KENNEL-VM-END"
sync
poweroff -f
