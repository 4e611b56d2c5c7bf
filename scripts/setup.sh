#!/usr/bin/env bash
# Installs the tools for the named purposes if they are missing: setup.sh
# build|test|check|packages|test-packages|arm64|architectures|musl|windows|lab-elsewhere|android|
# programs|systems|neighbours ... "programs" are those that `make test-programs` runs; their files
# name the packages.
# Uses apt as root; without root it prints the command to run.
set -euo pipefail
cd "$(dirname "$0")/.."

# purpose tool package; a tool is a command, a file or a pattern of files.
needs="
build cc gcc
build c++ g++
build cmake cmake
build ninja ninja-build
build git git
test python3 python3
test pkg-config pkg-config
test make make
test /usr/share/python-wheels|/usr/lib/python3/dist-packages/ensurepip|venv python3-venv
test chromium chromium
test valgrind valgrind
test redis-server redis-server
test sqlite3 sqlite3
test perl perl
test node nodejs
test zstd zstd
test xz xz-utils
test faketime faketime
test eatmydata eatmydata
test /usr/lib/*-linux-gnu/libjemalloc.so.2 libjemalloc2
test /usr/lib/*-linux-gnu/libmimalloc.so.2 libmimalloc2.0
test /usr/lib/*-linux-gnu/libtcmalloc_minimal.so.4 libtcmalloc-minimal4
test fluidsynth fluidsynth
test /usr/share/sounds/sf2/TimGM6mb.sf2 timgm6mb-soundfont
test /usr/bin/jackd jackd2
test /usr/bin/jalv jalv
test /usr/lib/lv2/eg-amp.lv2 lv2-examples
test csound csound
test sox sox
test /usr/include/SDL2/SDL.h libsdl2-dev
test /usr/include/sqlite3.h libsqlite3-dev
test /usr/include/lua5.4/lua.h liblua5.4-dev
test /usr/include/vulkan/vulkan.h libvulkan-dev
test /usr/share/vulkan/icd.d mesa-vulkan-drivers
bench python3 python3
bench zstd zstd
systems mmdebstrap mmdebstrap
systems qemu-system-x86_64 qemu-system-x86
systems busybox busybox-static
systems unshare util-linux
neighbours unshare util-linux
neighbours ssh openssh-client
neighbours sshd openssh-server
neighbours bwrap bubblewrap
neighbours sudo sudo
neighbours cron cron
neighbours busybox busybox-static
packages python3 python3
packages xz xz-utils
packages dh_builddeb debhelper
packages dpkg-shlibdeps dpkg-dev
packages /usr/share/python-wheels|/usr/lib/python3/dist-packages/ensurepip|venv python3-venv
test-packages lintian lintian
test-packages mmdebstrap mmdebstrap
test-packages pkg-config pkg-config
test-packages man man-db
test-packages mandoc mandoc
test-packages zsh zsh
test-packages fish fish
test-packages meson meson
test-packages buildah buildah
test-packages abidiff abigail-tools
test-packages nix-build nix-bin
test-packages makepkg makepkg
test-packages pacman pacman-package-manager
test-packages bsdtar libarchive-tools
test-packages ruby ruby
test-packages file file
musl musl-gcc musl-tools
musl /usr/include/linux/filter.h linux-libc-dev
windows clang clang
windows x86_64-w64-mingw32-g++-posix g++-mingw-w64-x86-64-posix
windows wine wine
windows /usr/lib/wine/wine64|/usr/lib/x86_64-linux-gnu/wine wine64
lab-elsewhere x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64
lab-elsewhere wine wine
lab-elsewhere /usr/lib/wine/wine64|/usr/lib/x86_64-linux-gnu/wine wine64
lab-elsewhere python3 python3
lab-elsewhere perl perl
lab-elsewhere sqlite3 sqlite3
check clang-format clang-format
check clang clang
check python3 python3
check /usr/x86_64-w64-mingw32/include/windows.h mingw-w64-x86-64-dev
arm64 aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
arm64 aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
arm64 /usr/aarch64-linux-gnu/lib/libc.so.6 libc6-dev-arm64-cross
arm64 qemu-aarch64-static qemu-user-static
architectures qemu-s390x-static qemu-user-static
architectures riscv64-linux-gnu-gcc gcc-riscv64-linux-gnu
architectures /usr/riscv64-linux-gnu/lib/libc.so.6 libc6-dev-riscv64-cross
architectures s390x-linux-gnu-gcc gcc-s390x-linux-gnu
architectures /usr/s390x-linux-gnu/lib/libc.so.6 libc6-dev-s390x-cross
architectures powerpc64le-linux-gnu-gcc gcc-powerpc64le-linux-gnu
architectures /usr/powerpc64le-linux-gnu/lib/libc.so.6 libc6-dev-ppc64el-cross
architectures clang-19 clang-19
architectures ld.lld-19 lld-19
architectures llvm-objcopy-19 llvm-19
architectures /usr/share/keyrings/debian-archive-keyring.gpg debian-archive-keyring
architectures npm npm
android clang-19 clang-19
android ld.lld-19 lld-19
android llvm-objcopy-19 llvm-19
musl npm npm
check /usr/lib/llvm-14/lib/clang/14.0.6/lib/linux|libclang_rt libclang-rt-14-dev
"

programs() { # a line for each command of each program and each of its packages
    local file command package
    for file in tests/programs/*.sh tests/programs/large/*.sh; do
        for command in $(sed -n 's/^# \(needs\|optional\): //p' "$file"); do
            for package in $(sed -n 's/^# debian: //p' "$file"); do
                echo "programs $command $package"
            done
        done
    done
}
case " $* " in *" programs "*) needs+=$(programs) ;; esac
export PATH=$PATH:/usr/sbin:/usr/games

have() { # have TOOL: whether the command exists, or one of the files separated by |
    local alternative
    for alternative in ${1//|/ }; do
        case $alternative in
            venv) python3 -c 'import ensurepip, venv' 2>/dev/null && return 0 ;;
            libclang_rt)
                compgen -G '/usr/lib/llvm-*/lib/clang/*/lib/linux' >/dev/null && return 0 ;;
            /*) [ -e "$alternative" ] && return 0 ;;
            *) command -v "$alternative" >/dev/null && return 0 ;;
        esac
    done
    return 1
}

missing=()
while read -r purpose tool package; do
    [ -n "$purpose" ] || continue
    case " $* " in *" $purpose "*) ;; *) continue ;; esac
    have "$tool" || [[ " ${missing[*]} " == *" $package "* ]] || missing+=("$package")
done <<<"$needs"

if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "setup: installing ${missing[*]}" >&2
        log=$(mktemp)
        export DEBIAN_FRONTEND=noninteractive
        if ! { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } \
            >"$log" 2>&1; then
            tail -n 5 "$log" >&2
            echo "setup: apt could not install: ${missing[*]}" >&2
            exit 1
        fi
        rm -f "$log"
    else
        echo "setup: some tools are missing; install them with:" >&2
        echo "    sudo apt-get install -y ${missing[*]}" >&2
        exit 1
    fi
fi

if ! command -v cargo >/dev/null; then
    echo "setup: Rust is missing; install rustup (https://rustup.rs), which reads rust-toolchain.toml" >&2
    exit 1
fi
