# shellcheck shell=bash
# Sourced: sets VERSION, and SOURCE_DATE_EPOCH, the time of every file in the packages, to that of
# the last commit. Needs `root`, the checkout. KEEL_VERSION replaces the version of the packages: a
# test of an upgrade needs two. KEEL_MACHINE is the machine for which packages are: this one, or
# aarch64.
export KEEL_MACHINE=${KEEL_MACHINE:-$(uname -m)}
VERSION=${KEEL_VERSION:-$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' \
    "$root/Cargo.toml")}
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct 2>/dev/null ||
        stat -c %Y "$root/CHANGELOG.md")
fi
export SOURCE_DATE_EPOCH
