# For the scripts of guests: each check prints a line that is counted as a test.
BB=/vm/busybox
kennel=/var/tmp/kennel-vm/kennel
failures=0
printed=/tmp/printed-$$

# A command as user 1000.
as_u() { ( cd /home/u && HOME=/home/u USER=u exec $BB su u -s /bin/sh -c 'exec "$0" "$@"' -- "$@" ); }

# expect NAME CODE TEXT COMMAND…: the command ends with CODE, and prints TEXT unless that is empty.
expect() {
  name=$1 code=$2 text=$3
  shift 3
  "$@" > $printed 2>&1
  got=$?
  if [ $got = "$code" ] && { [ -z "$text" ] || $BB grep -qF -- "$text" $printed; }; then
    echo "test $name ... ok"
  else
    echo "test $name ... FAILED"
    echo "$*: ended with $got, not $code, or did not print: $text"
    $BB cat $printed
    failures=1
  fi
}

skip() { echo "test $1 ... SKIPPED: $2"; }
set_switch() { echo "$2" > "/proc/sys/$1"; }
