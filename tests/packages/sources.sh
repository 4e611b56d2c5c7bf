#!/usr/bin/env bash
# sources.sh [FOLDER]: tests the recipes that build Keel from its sources, each with its client:
# CMake's FetchContent, Meson's wrap, Conan 2, Nix. A client that is missing is skipped, by name.
# The archives are made anew and served from FOLDER (build/packages) by file: addresses.
source "$(dirname "$0")/steps.sh"
archives=$work/archives
skipped=0
cd "$work" || exit 1
export PATH=${KEEL_CLIENTS:+$KEEL_CLIENTS:}$PATH

client() { # client COMMAND: whether it is there
    command -v "$1" >/dev/null && return
    skipped=$((skipped + 1))
    printf '%-58s skipped\n' "$1 is missing"
    return 1
}
fetch_content() {
    mkdir -p fetch && cd fetch && cp "$root/samples/linking/malloc.c" . &&
        cat >CMakeLists.txt <<CMAKE &&
cmake_minimum_required(VERSION 3.22)
project(program LANGUAGES C CXX)
include(FetchContent)
FetchContent_Declare(keel URL "file://$archives/keel-$VERSION.tar.xz"
  URL_HASH SHA256=$(sha256sum "$archives/keel-$VERSION.tar.xz" | cut -d ' ' -f 1)
  DOWNLOAD_EXTRACT_TIMESTAMP OFF)
FetchContent_MakeAvailable(keel)
add_executable(shared malloc.c)
target_link_libraries(shared PRIVATE keel::keel)
add_executable(static malloc.c)
target_link_libraries(static PRIVATE keel::keel-static)
CMAKE
        cmake -S . -B b -Wno-dev && cmake --build b -j2 --target shared static &&
        b/shared && b/static
}
meson_wrap() {
    mkdir -p meson/subprojects && cd meson && cp "$archives/recipes/meson/keel.wrap" subprojects &&
        sed 's,keel/keel.h,keel.h,' "$root/samples/linking/malloc.c" >malloc.c &&
        cat >meson.build <<'MESON' &&
project('program', 'c', default_options: ['c_std=gnu17'])
executable('program', 'malloc.c', dependencies: dependency('keel'), install: true)
MESON
        meson setup b && meson compile -C b && b/program &&
        meson setup s -Dkeel:default_library=static -Dkeel:flavour=secure &&
        meson compile -C s && s/program
}
conan_create() {
    export CONAN_HOME=$work/conan-home
    conan profile detect && conan remote disable '*' && cd "$archives/recipes/conan" &&
        conan create . --build=missing &&
        conan create . --build=missing -o "keel/*:shared=False" &&
        conan list 'keel/*:*' && conan remove -c 'keel/*'
}
nix_syntax() { nix-instantiate --parse "$archives/recipes/nix/default.nix"; }

step "archives and recipes" "$root/packaging/recipes.sh" "file://$archives" "$archives"
! client cmake || step "CMake FetchContent" fetch_content
! client meson || step "Meson wrap" meson_wrap
! client conan || step "Conan 2" conan_create
! client nix-instantiate || step "Nix: the expression is valid" nix_syntax
! client ruby || step "Homebrew: the formula is valid" ruby -c "$archives/recipes/homebrew/keel.rb"
step "AUR: the PKGBUILD is valid" bash -n "$archives/recipes/aur/PKGBUILD"
step "vcpkg: the manifest is valid" python3 -m json.tool "$archives/recipes/vcpkg/vcpkg.json"
step "no placeholder remains" eval "! grep -rE '@[A-Z0-9_]+@' '$archives/recipes' |
    grep -v SHA256_LINUX"
echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))
