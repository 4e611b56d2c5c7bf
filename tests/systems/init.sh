#!/bin/busybox sh
# The first process of a virtual machine: mounts the root and the tools, sets what the kernel's
# command line asks for, runs the tests and ends the machine.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mkdir -p /proc /sys /dev /root /tools /mnt
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
ln -s /proc/self/fd /dev/fd
mkdir -p /dev/pts /dev/shm
mount -t devpts none /dev/pts
mount -t tmpfs none /dev/shm
for module in /modules/*.ko; do insmod "$module" || echo "machine: no $module"; done
for name in root tools; do
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro "$name" "/$name" ||
        echo "machine: no $name"
done
huge=/sys/kernel/mm/transparent_hugepage/enabled
for word in $(cat /proc/cmdline); do
    case $word in
        keel.huge=*) echo "${word#*=}" >$huge ;;
        keel.overcommit=*) echo "${word#*=}" >/proc/sys/vm/overcommit_memory ;;
        keel.group=*)
            mount -t cgroup2 none /sys/fs/cgroup
            echo +memory >/sys/fs/cgroup/cgroup.subtree_control
            mkdir /sys/fs/cgroup/small
            echo "${word#*=}" >/sys/fs/cgroup/small/memory.max
            echo $$ >/sys/fs/cgroup/small/cgroup.procs
            size=small ;;
        keel.size=*) size=${word#*=} ;;
        keel.flavours=*) flavours=$(echo "${word#*=}" | tr , ' ') ;;
    esac
done
overcommit=$(cat /proc/sys/vm/overcommit_memory)
echo "machine: kernel $(uname -r), $(cat $huge), overcommit $overcommit," \
    "group $(cat /sys/fs/cgroup/small/memory.max 2>/dev/null || echo none)"
sh /tools/enter.sh /root /tools bash /keel/inside.sh $size $flavours 2>&1
echo "machine: end"
poweroff -f
