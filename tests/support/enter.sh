#!/bin/sh
# Runs a command in a root, which stays as it is: what is written goes to memory.
#
#     enter.sh ROOT TOOLS COMMAND...     TOOLS is the folder /keel of the command
#
# Needs mount and process namespaces of its own. KEEL_PLACE is an empty folder for the mounts. Also
# runs on busybox.
set -e
root=$1 tools=$2
shift 2
place=${KEEL_PLACE:-/mnt}
mount -t tmpfs -o size=50% none "$place"
mkdir "$place/upper" "$place/work" "$place/root"
mount -t overlay -o "lowerdir=$root,upperdir=$place/upper,workdir=$place/work" none "$place/root"
mkdir -p "$place/root/keel"
mount --bind "$tools" "$place/root/keel"
mount -t proc none "$place/root/proc"
mount --rbind /sys "$place/root/sys"
mount --rbind /dev "$place/root/dev"
mount -t tmpfs -o size=50% none "$place/root/tmp"
[ ! -f /etc/resolv.conf ] || cp -L /etc/resolv.conf "$place/root/etc/resolv.conf"
cd "$place/root"
# A process in a changed root may not make user namespaces, but one after pivot_root may. This needs
# a root with `umount`, and the first file system of a machine cannot be replaced.
if [ -x usr/bin/umount ] && pivot_root . . 2>/dev/null; then umount -l .; fi
exec chroot . /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp \
    LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
