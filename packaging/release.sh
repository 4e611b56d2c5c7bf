#!/usr/bin/env bash
# release.sh VERSION [--check]: checks that this commit can be released as VERSION, makes every
# package, and writes their checksums. It publishes nothing; its last lines are the commands that
# do. With --check it stops before it makes anything.
#
# KEEL_URL is the address where the files of build/packages will be; the recipes contain it.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
version=${1:?usage: make release VERSION=0.1.0}
out=$root/build/packages
failed=0
refuse() { echo "release: $*" >&2; failed=1; }

[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || refuse "$version is not MAJOR.MINOR.PATCH"
[ -z "$(git status --porcelain --untracked-files=no)" ] || refuse "there are uncommitted changes"
! git rev-parse -q --verify "v$version" >/dev/null || refuse "the tag v$version exists"
stated() { # stated FILE EXPRESSION: the version that the file states
    local found
    found=$(sed -n "$2" "$1" | head -n 1)
    [ "$found" = "$version" ] || refuse "$1 states version ${found:-none}, not $version"
}
stated Cargo.toml 's/^version = "\(.*\)"/\1/p'
stated CMakeLists.txt 's/^project(keel VERSION \([0-9.]*\).*/\1/p'
stated bindings/rust/Cargo.toml 's/^version = "\(.*\)"/\1/p'
header=$(sed -n 's/^#define KEEL_VERSION_\(MAJOR\|MINOR\|PATCH\) *\([0-9]*\)$/\2/p' \
    in_process/include/keel/keel.h | paste -sd .)
[ "$header" = "$version" ] || refuse "keel.h states version $header, not $version"
grep -q "^## $version ([0-9]\{4\}-[0-9]\{2\}-[0-9]\{2\})$" CHANGELOG.md ||
    refuse "CHANGELOG.md has no heading \`## $version (YYYY-MM-DD)\`"
[ -n "${KEEL_URL:-}" ] || refuse "set KEEL_URL to the address of the files"
packaging/contents.py || refuse "a licence is not allowed"
packaging/abi.sh || refuse "the binary interface is not compatible"
notes=$(awk -v heading="## $version " \
    '/^## /{ found = index($0, heading) == 1 } found' CHANGELOG.md)
[ -z "$(git tag --list 'v*')" ] || grep -qi 'upgrad' <<<"$notes" ||
    refuse "the notes of $version in CHANGELOG.md do not say what an upgrade needs"
[ $failed = 0 ] || exit 1
[ "${2:-}" != --check ] || exit 0

make packages packages-arm64
cp build/packages-arm64/keel{-"$version"-linux-aarch64.tar.xz,_lab-"$version"-*aarch64.whl} "$out"
packaging/recipes.sh "$KEEL_URL" "$out"
tar -cJf "$out/keel-recipes-$version.tar.xz" -C "$out" --sort=name --owner=0 --group=0 \
    --mtime="@$(git log -1 --format=%ct)" recipes
cp "$out/prefix/share/doc/keel/keel.cdx.json" "$out/keel-$version.cdx.json"
printf '%s\n' "$notes" >"$out/keel-$version-notes.md"
packaging/checksums.sh "$out"
cat <<TEXT
release: $out has the files of $version. To publish them:
    gpg --armor --detach-sign $out/SHA256SUMS
    git tag --sign v$version --message "Keel $version"
    cargo publish --manifest-path $out/crate/keel-malloc/Cargo.toml
    cargo publish --workspace --manifest-path $out/crates/source/Cargo.toml
    twine upload $out/*.whl
TEXT
