#!/usr/bin/env bash
# debian.sh MACHINE FOLDER: unpacks packages of Debian 13 into the folder, unless they are there.
# Installs nothing. MACHINE is one of these:
#
#     loongarch64   the C library, the kernel's headers and the emulator. The qemu of Debian 12
#                   cannot run this C library; that of Debian 13 is linked statically and runs on
#                   any Linux.
#     aarch64-musl  musl with its specs for GCC, whose paths are changed to the folder's. Compiler,
#                   kernel's headers and emulator are those of the glibc build for arm64.
set -euo pipefail
case $1 in
    loongarch64)
        architecture=$(dpkg --print-architecture)
        packages=(libc6-loong64-cross libc6-dev-loong64-cross linux-libc-dev-loong64-cross
            libgcc-14-dev-loong64-cross libgcc-s1-loong64-cross qemu-user)
        files=('./usr/loongarch64-linux-gnu/*' './usr/lib/gcc-cross/*' './usr/bin/qemu-loongarch64')
        needed=(usr/bin/qemu-loongarch64 usr/loongarch64-linux-gnu/lib/libc.so.6)
        ;;
    aarch64-musl)
        architecture=arm64
        packages=(musl:arm64 musl-dev:arm64)
        files=('./usr/lib/*' './usr/include/*' './usr/bin/*-gcc')
        needed=(usr/lib/ld-musl-aarch64.so.1 usr/lib/aarch64-linux-musl/libc.a)
        ;;
    *)
        echo "debian.sh: no packages for $1: use loongarch64 or aarch64-musl" >&2
        exit 2
        ;;
esac
mkdir -p "$2"
cd "$2"
[ ! -f complete ] || exit 0
mkdir -p apt/lists/partial apt/cache/archives/partial
echo "deb [arch=$architecture signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
    "http://deb.debian.org/debian trixie main" >apt/sources.list
options=(-o "Dir::Etc::sourcelist=$PWD/apt/sources.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State::lists=$PWD/apt/lists" -o "Dir::Cache=$PWD/apt/cache" -o APT::Sandbox::User=root
    -o "APT::Architectures::=$architecture")
apt-get "${options[@]}" update >apt/log 2>&1 &&
    apt-get "${options[@]}" download "${packages[@]}" >>apt/log 2>&1 || { cat apt/log >&2; exit 1; }
for package in *.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar --extract --wildcards "${files[@]}" \
        2>/dev/null || true # tar fails for each pattern that a package lacks
done
rm -rf apt ./*.deb
for file in "${needed[@]}"; do [ -f "$file" ]; done
if [ "$1" = aarch64-musl ]; then
    ln -sfn usr/lib lib # where programs look for their loader
    sed -i "s|/usr/|$PWD/usr/|g" usr/bin/aarch64-linux-musl-gcc usr/lib/*/musl-gcc.specs
    # The functions of GCC that choose atomic instructions call __getauxval, which only glibc has.
    sed -i 's|"$@"|& -mno-outline-atomics|' usr/bin/aarch64-linux-musl-gcc
    for name in linux asm asm-generic; do
        ln -sfn "/usr/aarch64-linux-gnu/include/$name" "usr/include/aarch64-linux-musl/$name"
    done
fi
touch complete
