#!/usr/bin/env bash
# deb.sh [FOLDER]: makes the packages of Debian from FOLDER/prefix (packaging/prefix.sh):
#
#   libkeel0          libkeel.so.0 and its kin, the allocator
#   libkeel-secure0   its secure flavour
#   libkeel-debug0    its debug flavour
#   libkeel-dev       headers, static libraries, CMake and pkg-config packages
#   keel              the lab: /usr/lib/keel is a prefix, /usr/bin/keel a link into it
#
# They are built from a prefix that runs on older systems, so one package serves all of Debian.
# debhelper compresses, checks and packs.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=$(realpath -m "${1:-$root/build/packages}")
source "$root/packaging/version.sh"
prefix=$out/prefix
tree=$out/deb
multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
rm -rf "$tree"
mkdir -p "$tree"
cp -r "$root/packaging/debian" "$tree/debian"
cd "$tree"
# As in all tools of Debian.
maintainer="${DEBFULLNAME:-Keel} <${DEBEMAIL:-keel@localhost}>"
sed -i "s/^Maintainer:.*/Maintainer: $maintainer/" debian/control
cat >debian/changelog <<CHANGELOG
keel ($VERSION) unstable; urgency=medium

  * The changes are in /usr/share/doc/keel/RELEASES.md.gz.

 -- $maintainer  $(date -R -u -d "@$SOURCE_DATE_EPOCH")
CHANGELOG

# Debian's folder for libraries is lib/MULTIARCH; the files for CMake and pkg-config depend on it.
library=usr/lib/$multiarch
for flavour in cmake cmake-secure cmake-debug; do
    build=$(realpath "$out/build/$flavour")
    for libdir in "lib/$multiarch" lib; do
        cmake -S "$root" -B "$build" -DCMAKE_INSTALL_LIBDIR="$libdir"
        [ "$libdir" = lib ] ||
            cmake --install "$build" --component libraries --prefix "$tree/all/usr"
    done
done >"$out/cmake.log"
# Stripped ones.
for file in "$prefix"/lib/*.{a,o} "$prefix"/lib/*.so*; do
    [ -L "$file" ] || cp "$file" "$tree/all/$library/"
done

put() { # put PACKAGE FOLDER FILE...: copies files, and links as links
    mkdir -p "debian/$1/$2"
    cp -a "${@:3}" "debian/$1/$2"
}
for flavour in "" -secure -debug; do
    put "libkeel${flavour}0" "$library" "all/$library"/libkeel{,_api}"$flavour".so.0*
done
put libkeel0 "$library" "all/$library"/libkeel_record.so.0*
put libkeel-dev "$library" "all/$library"/{*.a,keel*.o,pkgconfig,cmake} \
    "all/$library"/libkeel{,_api}{,-secure,-debug}.so "all/$library/libkeel_record.so"
put libkeel-dev usr/include all/usr/include/keel

# The lab finds its parts relative to its own file, so it gets a prefix of its own.
home=usr/lib/keel
put keel "$home/bin" "$prefix/bin/keel"
put keel "$home/lib" "$prefix"/lib/keel "$prefix/lib/libkeel_recorder.so"
for flavour in "" -secure -debug; do
    ln -s "../../$multiarch/libkeel$flavour.so.0" "debian/keel/$home/lib/libkeel$flavour.so"
done
mkdir -p debian/keel/usr/bin
ln -s ../lib/keel/bin/keel debian/keel/usr/bin/keel
put keel usr/share/bash-completion "$prefix"/share/bash-completion/completions
put keel usr/share/zsh/vendor-completions "$prefix"/share/zsh/site-functions/_keel
put keel usr/share/fish "$prefix"/share/fish/vendor_completions.d
put keel usr/share/man "$prefix"/share/man/man1
put keel usr/share/doc/keel "$prefix"/share/doc/keel/{THIRD-PARTY.md,keel.cdx.json}
cp "$prefix/share/doc/keel/CHANGELOG.md" debian/keel/usr/share/doc/keel/RELEASES.md

# debhelper changes only times that are later than the commit's.
find debian -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
debian/rules binary >"$out/deb.log" 2>&1 || { tail -n 30 "$out/deb.log" >&2; exit 1; }
ls "$out"/*_"${VERSION}"_*.deb
