#!/bin/sh
# Installs kennel for the current user: downloads a release, checks it, and puts it below ~/.local (or --prefix).
# Needs no root. Anything that does not match ends it before a file is installed.
#
#   sh install.sh                 install or upgrade
#   sh install.sh --remove        remove all that it installed
#
# The checksums are those of the release's SHA256SUMS. With a signer, here or by --signer, SHA256SUMS has to be signed by
# that key (SHA256SUMS.sig, made by `ssh-keygen -Y sign -n kennel-release`); without one, who answers for the address
# answers for the release.
set -eu

version='0.1.0'
url='https://kennel.example/releases'
signer=''

prefix=${KENNEL_PREFIX:-${HOME:?}/.local}
url=${KENNEL_URL:-$url}
remove=no

say() { printf 'kennel: %s\n' "$*"; }
fail() {
  printf 'kennel: %s\n' "$1" >&2
  if [ $# -gt 1 ]; then printf 'help: %s\n' "$2" >&2; fi
  exit 1
}
has() { command -v "$1" > /dev/null 2>&1; }

usage() {
  cat << 'USAGE'
Usage: sh install.sh [OPTION…]

  --prefix DIR     install below DIR (KENNEL_PREFIX; by default ~/.local)
  --version V      install this version
  --url URL        download URL/vVERSION/FILE (KENNEL_URL)
  --signer KEY     require the signature of this SSH public key ("ssh-ed25519 AAAA…")
  --remove         remove what an earlier run installed below the prefix
  --help           print this
USAGE
}

while [ $# -gt 0 ]; do
  case "$1" in
  --prefix | --version | --url | --signer)
    if [ $# -lt 2 ]; then fail "$1 needs a value"; fi
    case "$1" in
    --prefix) prefix=$2 ;;
    --version) version=$2 ;;
    --url) url=$2 ;;
    --signer) signer=$2 ;;
    esac
    shift 2
    ;;
  --remove) remove=yes && shift ;;
  --help | -h) usage && exit 0 ;;
  *) fail "unexpected argument $1" "sh install.sh --help lists the options" ;;
  esac
done
case "$version" in
'' | *[!0-9A-Za-z.+-]*) fail "version $version: not a version" ;;
esac
case "$prefix" in
/*) ;;
*) fail "prefix $prefix: not an absolute path" ;;
esac
umask 022

# What was installed: a line for each file, and for each folder that was not there before; paths below the prefix.
files=$prefix/share/kennel/installed-files
folders=$prefix/share/kennel/installed-folders

if [ "$remove" = yes ]; then
  if [ ! -f "$files" ]; then fail "removing kennel from $prefix: nothing was installed there by this script"; fi
  while IFS= read -r path; do rm -f "$prefix/$path"; done < "$files"
  # A folder comes after the one that it is in; remove them the other way around, and those that are empty only.
  list=$(sed '1!G;h;$!d' "$folders" 2> /dev/null || :)
  rm -f "$files" "$folders"
  printf '%s\n' "$list" | while IFS= read -r path; do
    case "$path" in
    '') ;;
    .) rmdir "$prefix" 2> /dev/null || : ;;
    *) rmdir "$prefix/$path" 2> /dev/null || : ;;
    esac
  done
  say "removed from $prefix"
  exit 0
fi

system=$(uname -s)
if [ "$system" != Linux ]; then
  fail "installing kennel: there is no binary for $system" "build it: cargo build --release (docs/install.md)"
fi
case "$(uname -m)" in
x86_64 | amd64) arch=x86_64 ;;
aarch64 | arm64) arch=aarch64 ;;
*) fail "installing kennel: there is no binary for $(uname -m)" "build it: cargo build --release (docs/install.md)" ;;
esac
for tool in tar gzip mktemp awk sed; do
  has "$tool" || fail "installing kennel: there is no $tool on this system"
done
name=kennel-$version-$arch-linux
from=$url/v$version

work=$(mktemp -d "${TMPDIR:-/tmp}/kennel-install.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Only by https, also after redirects; plain http from this machine itself.
fetch() {
  case "$1" in
  https://*) protocols='=https' ;;
  http://127.0.0.1:* | http://localhost:*) protocols='=http,https' ;;
  *) fail "downloading $1: not an https address" ;;
  esac
  if has curl; then
    curl --fail --silent --show-error --location --retry 2 --proto "$protocols" --proto-redir "$protocols" \
      --output "$2" "$1" || fail "downloading $1: curl failed (exit code $?)"
  elif has wget; then
    wget -q -O "$2" "$1" || fail "downloading $1: wget failed (exit code $?)"
  else
    fail "downloading $1: there is neither curl nor wget on this system"
  fi
}

sha256() {
  if has sha256sum; then
    sha256sum "$1"
  elif has shasum; then
    shasum -a 256 "$1"
  elif has openssl; then
    openssl dgst -sha256 -r "$1"
  else
    fail "checking $1: there is no sha256sum, shasum or openssl on this system"
  fi | awk '{ print $1 }'
}

fetch "$from/SHA256SUMS" "$work/SHA256SUMS"
if [ -n "$signer" ]; then
  has ssh-keygen || fail "checking the signature: there is no ssh-keygen on this system" "install OpenSSH 8.0 or later"
  fetch "$from/SHA256SUMS.sig" "$work/SHA256SUMS.sig"
  printf 'kennel %s\n' "$signer" > "$work/signers"
  ssh-keygen -Y verify -f "$work/signers" -I kennel -n kennel-release -s "$work/SHA256SUMS.sig" \
    < "$work/SHA256SUMS" > /dev/null 2>&1 \
    || fail "checking $from/SHA256SUMS: not signed by the signer; nothing was installed"
fi
wanted=$(awk -v name="$name.tar.gz" '$2 == name { print $1 }' "$work/SHA256SUMS")
case "$wanted" in
'' | *[!0-9a-f]*) fail "checking $name.tar.gz: SHA256SUMS does not have one checksum of it; nothing was installed" ;;
esac
fetch "$from/$name.tar.gz" "$work/release.tar.gz"
found=$(sha256 "$work/release.tar.gz")
if [ "$found" != "$wanted" ]; then
  fail "checking $name.tar.gz: its checksum is $found, and should be $wanted; nothing was installed"
fi
mkdir "$work/release"
gzip -dc "$work/release.tar.gz" | tar -xf - -C "$work/release"
release=$work/release/$name
if [ "$("$release/bin/kennel" --version)" != "kennel $version" ]; then
  fail "starting $name: it does not run on this system; nothing was installed"
fi

# Makes a folder below the prefix, and those that it is in, and notes which were not there.
make_folder() {
  if [ ! -d "$prefix/$1" ]; then
    case "$1" in
    */*) make_folder "${1%/*}" ;;
    esac
    mkdir "$prefix/$1"
    printf '%s\n' "$1" >> "$work/folders"
  fi
}
if [ -f "$folders" ]; then cp "$folders" "$work/folders"; else : > "$work/folders"; fi
if [ ! -d "$prefix" ]; then
  mkdir -p "$prefix"
  echo . >> "$work/folders"
fi
(cd "$release" && find . ! -type d) | sed 's|^\./||' > "$work/files"
while IFS= read -r path; do
  case "$path" in
  */*) make_folder "${path%/*}" ;;
  esac
  # Under a name of its own first: a kennel that runs keeps its file, and nobody starts half of one.
  rm -f "$prefix/$path.new"
  cp -P "$release/$path" "$prefix/$path.new"
  mv -f "$prefix/$path.new" "$prefix/$path"
done < "$work/files"
# What an older version had and this one has not.
if [ -f "$files" ]; then
  while IFS= read -r path; do
    if ! grep -Fqx -e "$path" "$work/files"; then rm -f "$prefix/$path"; fi
  done < "$files"
fi
make_folder share/kennel
cp "$work/files" "$files"
cp "$work/folders" "$folders"

say "version $version is installed: $prefix/bin/kennel"
case ":${PATH:-}:" in
*":$prefix/bin:"*) ;;
*) say "$prefix/bin is not in your PATH" ;;
esac
if ! "$prefix/bin/kennel" doctor > /dev/null 2>&1; then
  say "this system denies something that kennel needs; \`kennel doctor\` tells what, and what to do"
fi
