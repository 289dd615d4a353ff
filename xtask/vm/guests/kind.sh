# That the guest has the trouble it is named for: otherwise its suites would show nothing.
. /vm/guests/checks.sh
asked() { $BB grep -q "$1" /proc/cmdline; }
lsm=/sys/kernel/security/lsm
if asked kennel.nfs; then expect files_lie_on_nfs 0 "" $BB grep -q ' /var/tmp nfs4 ' /proc/mounts; fi
if asked kennel.overlay; then expect files_lie_on_an_overlay 0 "" $BB grep -q ' /var/tmp overlay ' /proc/mounts; fi
if asked kennel.no-nftables; then expect there_is_no_nftables 1 "" $BB test -e /sys/module/nf_tables; fi
if asked selinux=1; then expect selinux_is_on 0 "" $BB grep -q selinux $lsm; fi
if asked lsm=yama; then expect landlock_is_off 1 "" $BB grep -q landlock $lsm; fi
exit $failures
