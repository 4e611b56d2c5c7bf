#!/usr/bin/env bash
# loongarch64.sh FOLDER: unpacks Debian 13's C library, kernel headers and emulator for loongarch64
# into the folder, unless they are there. Installs nothing. The qemu of Debian 12 cannot run this C
# library; that of Debian 13 is linked statically and runs on any Linux.
set -euo pipefail
packages=(libc6-loong64-cross libc6-dev-loong64-cross linux-libc-dev-loong64-cross
    libgcc-14-dev-loong64-cross libgcc-s1-loong64-cross qemu-user)
mkdir -p "$1"
cd "$1"
[ ! -f complete ] || exit 0
mkdir -p apt/lists/partial apt/cache/archives/partial
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
    "http://deb.debian.org/debian trixie main" >apt/sources.list
options=(-o "Dir::Etc::sourcelist=$PWD/apt/sources.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State::lists=$PWD/apt/lists" -o "Dir::Cache=$PWD/apt/cache" -o APT::Sandbox::User=root)
apt-get "${options[@]}" update >apt/log 2>&1 &&
    apt-get "${options[@]}" download "${packages[@]}" >>apt/log 2>&1 || { cat apt/log >&2; exit 1; }
for package in *.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar --extract --wildcards \
        './usr/loongarch64-linux-gnu/*' './usr/lib/gcc-cross/*' './usr/bin/qemu-loongarch64' \
        2>/dev/null || true # tar fails for each pattern that a package lacks
done
rm -rf apt ./*.deb
[ -x usr/bin/qemu-loongarch64 ] && [ -f usr/loongarch64-linux-gnu/lib/libc.so.6 ]
touch complete
