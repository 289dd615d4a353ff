# Nothing but busybox, as in Alpine's images without their C library: kennel is one static file and needs no other.
. /vm/guests/checks.sh
[ -e /bin/bash ] && { echo "test there_is_busybox_only ... FAILED"; exit 1; }
[ "$(id -u)" = 0 ] && home=/root || home=/home/u
cd $home && mkdir -p project
expect doctor_is_content 0 "a command ran with the default policy" $kennel doctor
expect a_command_runs 0 inside $kennel run -- sh -c 'echo inside'
expect nothing_can_be_written 0 refused $kennel run -- sh -c "echo x > $home/file || echo refused"
expect what_is_allowed_can_be_written 0 written $kennel run --allow-write project -- sh -c 'echo x > project/file && echo written'
expect what_is_denied_cannot_be_read 1 "" $kennel run --deny-read /etc/passwd -- cat /etc/passwd
expect listed_reads_show_nothing_else 1 "" $kennel run --reads listed --allow-read /bin --allow-read /usr/bin -- cat /vm/jobs
expect there_is_no_network 0 "" $kennel run -- sh -c '! wget -q -T 2 -O- http://192.0.2.1/'
expect an_allow_list_starts 0 inside $kennel run --allow-domain example.com -- echo inside
expect a_timeout_ends_it 124 "timed out" $kennel run --timeout 1s -- sleep 100
expect memory_is_limited 137 "" $kennel run --memory 32M -- sh -c 'tail /dev/zero'
expect other_processes_are_not_seen 0 "" $kennel run -- sh -c '[ $(ps | wc -l) -lt 9 ]'
expect a_root_file_system_works 0 inside $kennel run --rootfs /var/tmp/root -- /bin/sh -c 'echo inside'
expect the_version_is_known 0 kennel $kennel version
expect the_manual_is_there 0 kennel $kennel man
exit $failures
