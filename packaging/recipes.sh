#!/usr/bin/env bash
# recipes.sh URL [FOLDER]: writes the archives of the sources to FOLDER (build/packages), and the
# recipes of packaging/recipes with this address, the version and the checksums to FOLDER/recipes.
# The archives of FOLDER must then be at URL.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
url=${1:?usage: recipes.sh URL [FOLDER]}
out=$(realpath -m "${2:-$root/build/packages}")
source "$root/packaging/version.sh"
mkdir -p "$out"

pack() { # pack FOLDER NAME: the same contents give the same bytes
    tar --create --directory "$1" --sort=name --format=gnu --owner=0 --group=0 --numeric-owner \
        --mtime="@$SOURCE_DATE_EPOCH" --mode=u+w,go=rX "$2" | xz -6 --threads=1 >"$out/$2.tar.xz"
}
staged=$(mktemp -d)
trap 'rm -rf "$staged"' EXIT
git -C "$root" archive --prefix="keel-$VERSION/" HEAD -- ':!bench/runs' ':!docs/images' |
    tar -x -C "$staged"
pack "$staged" "keel-$VERSION"

amalgamation=$staged/keel-amalgamation-$VERSION
python3 "$root/scripts/amalgamate.py" "$amalgamation"
cp "$root/LICENSE" "$root"/packaging/recipes/meson/meson{.build,_options.txt} "$amalgamation"
sed -i "s|@VERSION@|$VERSION|g" "$amalgamation/meson.build"
pack "$staged" "keel-amalgamation-$VERSION"

checksum() { # checksum COMMAND FILE: of a file that may not have been built
    [ ! -e "$2" ] || "$1" "$2" | cut -d ' ' -f 1
}
source_archive=$out/keel-$VERSION.tar.xz
rm -rf "$out/recipes"
cp -r "$root/packaging/recipes" "$out/recipes"
rm "$out"/recipes/meson/meson{.build,_options.txt}
cp "$root/samples/linking/malloc.c" "$out/recipes/conan/test_package/program.c"
find "$out/recipes" -type f -exec sed -i -e "s|@VERSION@|$VERSION|g" -e "s|@URL@|$url|g" \
    -e "s|@SHA256_SOURCE@|$(checksum sha256sum "$source_archive")|" \
    -e "s|@SHA512_SOURCE@|$(checksum sha512sum "$source_archive")|" \
    -e "s|@SHA256_AMALGAMATION@|$(checksum sha256sum "$out/keel-amalgamation-$VERSION.tar.xz")|" \
    -e "s|@SHA256_LINUX@|$(checksum sha256sum "$out/keel-$VERSION-linux-x86_64.tar.xz")|" {} +
ls "$out"/keel-"$VERSION".tar.xz "$out/keel-amalgamation-$VERSION.tar.xz"
