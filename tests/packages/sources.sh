#!/usr/bin/env bash
# sources.sh [FOLDER]: tests the recipes, each with its client: CMake's FetchContent, Meson's wrap,
# Conan 2, Nix, vcpkg, makepkg and pacman. A client that is missing is skipped, by name. The
# archives of the sources are made anew, and served by file: addresses beside the archive of FOLDER
# (build/packages), which the recipes for Arch Linux and Homebrew install.
#
# The functions are subshells: a change of the folder ends with the step.
#
# Nix and Homebrew work with what they download; here they get stand-ins of this folder instead.
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
fetch_content() (
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
)
meson_wrap() (
    mkdir -p meson/subprojects && cd meson && cp "$archives/recipes/meson/keel.wrap" subprojects &&
        sed 's,keel/keel.h,keel.h,' "$root/samples/linking/malloc.c" >malloc.c &&
        cat >meson.build <<'MESON' &&
project('program', 'c', default_options: ['c_std=gnu17'])
executable('program', 'malloc.c', dependencies: dependency('keel'), install: true)
MESON
        meson setup b && meson compile -C b && b/program &&
        meson setup s -Dkeel:default_library=static -Dkeel:flavour=secure &&
        meson compile -C s && s/program
)
conan_client() {
    command -v conan || { python3 -m venv clients && clients/bin/pip install --quiet conan; }
}
conan_create() (
    export PATH=$work/clients/bin:$PATH CONAN_HOME=$work/conan-home
    conan profile detect && conan remote disable '*' && cd "$archives/recipes/conan" &&
        conan create . --build=missing &&
        conan create . --build=missing -o "keel/*:shared=False" &&
        conan list 'keel/*:*' && conan remove -c 'keel/*'
)
nix_build() ( # into a store of its own, without Nix's users and sandbox
    local nix=$work/nix
    export NIX_STORE_DIR=$nix/store NIX_STATE_DIR=$nix/state NIX_LOG_DIR=$nix/log \
        NIX_LOCALSTATE_DIR=$nix NIX_CONF_DIR=$nix
    mkdir -p "$nix" &&
        nix-build --option build-users-group '' --option sandbox false -o "$work/nix-result" \
            --arg pkgs "import $root/tests/packages/nixpkgs.nix" \
            "$archives/recipes/nix/default.nix" &&
        linked_with "$work/nix-result"
)
linked_with() { # linked_with PREFIX: a program with the shared library of this prefix starts
    cc "$root/samples/linking/malloc.c" -I "$1/include" -L "$1/lib" -lkeel \
        -Wl,-rpath,"$1/lib" -o linked && ./linked && rm linked
}
vcpkg_install() ( # an overlay port, in manifest mode, with this machine's CMake and Ninja
    mkdir vcpkg && cd vcpkg && cp "$root/samples/linking/malloc.c" . &&
        export VCPKG_FORCE_SYSTEM_BINARIES=1 VCPKG_DISABLE_METRICS=1 \
            VCPKG_DOWNLOADS=$work/vcpkg/downloads VCPKG_DEFAULT_BINARY_CACHE=$work/vcpkg/cache &&
        mkdir -p downloads cache &&
        printf '%s\n' '{"name": "program", "version": "1", "dependencies": ["keel"]}' >vcpkg.json &&
        vcpkg install --overlay-ports="$archives/recipes/vcpkg" --x-install-root=installed &&
        printf '%s\n' "cmake_minimum_required(VERSION 3.22)" "project(program C)" \
            "find_package(keel REQUIRED)" "add_executable(program malloc.c)" \
            "target_link_libraries(program keel::keel)" >CMakeLists.txt &&
        cmake -S . -B b -DCMAKE_PREFIX_PATH="$PWD/$(dirname installed/*/include)" &&
        cmake --build b && b/program
)
arch_package() ( # built by makepkg, which refuses root, and installed by pacman into an empty root
    local user=(setpriv --reuid 65534 --regid 65534 --clear-groups) package
    mkdir arch arch-root && mkdir -p arch-root/var/lib/pacman &&
        cp "$archives/recipes/aur/PKGBUILD" arch && chown -R 65534:65534 arch &&
        chmod 755 "$work" "$archives" && (cd arch && HOME=$PWD "${user[@]}" makepkg --nodeps) &&
        package=$(ls "$PWD"/arch/*.pkg.tar*) &&
        pacman --root "$PWD/arch-root" --dbpath "$PWD/arch-root/var/lib/pacman" --noconfirm \
            --noscriptlet -U -dd "$package" && tries arch-root/usr/bin/keel &&
        pacman --root "$PWD/arch-root" --dbpath "$PWD/arch-root/var/lib/pacman" --noconfirm \
            --noscriptlet -R -dd keel-bin &&
        [ -z "$(find arch-root/usr -name '*keel*')" ]
)
tries() { # tries KEEL: the installed command makes a recording
    "$1" --version && "$1" record -o ls.journal.parquet -- ls / &&
        "$1" info --verify ls.journal.parquet && rm ls.journal.parquet
}
homebrew() { ruby "$root/tests/packages/homebrew.rb" "$archives/recipes/homebrew/keel.rb" brewed; }

mkdir -p "$archives"
prebuilt=$out/keel-$VERSION-linux-x86_64.tar.xz
[ ! -e "$prebuilt" ] || cp "$prebuilt" "$archives"
step "archives and recipes" "$root/packaging/recipes.sh" "file://$archives" "$archives"
! client cmake || step "CMake FetchContent" fetch_content
! client meson || step "Meson wrap" meson_wrap
step "Conan 2: pip install" conan_client
step "Conan 2" conan_create
! client nix-build || step "Nix, with this machine's compiler" nix_build
! client vcpkg || step "vcpkg" vcpkg_install
if [ -e "$prebuilt" ]; then
    ! client makepkg || step "Arch Linux: makepkg, pacman" arch_package
    ! client ruby || step "Homebrew's formula, by a stand-in" homebrew
fi
step "no placeholder remains" eval "! grep -rE '@[A-Z0-9_]+@' '$archives/recipes' |
    grep -v SHA256_LINUX"
echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))
