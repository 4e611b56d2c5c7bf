# shellcheck shell=bash
# Sourced by prefix.sh, which sets `root`, the checkout. Sets the environment of a build whose
# results run on other systems, contain no path of this one, and are the same in every folder.
#
# The linker is zig: it has the symbols of every version of glibc, so a program built here runs on
# an older system. KEEL_GLIBC is the oldest glibc on which the programs of the lab run.
KEEL_GLIBC=${KEEL_GLIBC:-2.28}

# shellcheck source=packaging/version.sh
source "$root/packaging/version.sh"
KEEL_TRIPLE=$KEEL_MACHINE-unknown-linux-gnu
export LC_ALL=C.UTF-8 TZ=UTC
umask 022

tools=$("$root/packaging/tools.sh")
export PATH=$tools/bin:$PATH
# cargo-zigbuild finds zig by the Python that has it.
export CARGO_ZIGBUILD_PYTHON_PATH=$tools/bin/python3

# The folder of a registry has a name that depends on the registry's address. Folders of others, as
# `cargo publish` leaves one, must not change the flags, or all is compiled again.
map=("$root=/keel")
mapfile -t -O 1 map < <(cd "$root" && cargo metadata --locked --quiet --format-version 1 |
    grep -o '/[^"]*/registry/src/[^/"]*' | sort -u | sed 's,$,=/crates,')
[ ${#map[@]} -gt 1 ] || { echo "environment: cargo names no registry" >&2; exit 1; }
CARGO_ENCODED_RUSTFLAGS=$(printf -- '--remap-path-prefix=%s\x1f' "${map[@]}")
export CARGO_ENCODED_RUSTFLAGS=${CARGO_ENCODED_RUSTFLAGS%$'\x1f'}
CFLAGS=$(printf -- '-ffile-prefix-map=%s ' "${map[@]}")
export CFLAGS CXXFLAGS=$CFLAGS
# Programs are stripped; without the tables for debuggers they are built in half the time.
export CARGO_PROFILE_RELEASE_DEBUG=false CARGO_INCREMENTAL=0

# The C of the crates is compiled by the same compiler as in `make build`.
triple_=${KEEL_TRIPLE//-/_}
emulator=()
if [ "$KEEL_MACHINE" != "$(uname -m)" ]; then
    libraries=$(rustc --print target-libdir --target "$KEEL_TRIPLE")
    compgen -G "$libraries/libstd-*.rlib" >/dev/null ||
        (cd "$root" && rustup target add "$KEEL_TRIPLE")
    gnu=$KEEL_MACHINE-linux-gnu
    export CMAKE_TOOLCHAIN_FILE=$root/cmake/emulated.cmake
    CC=$gnu-gcc CXX=$gnu-g++
    export STRIP=$gnu-strip
    emulator=("qemu-$KEEL_MACHINE-static" -L "/usr/$gnu")
fi
export "CC_$triple_=${CC:-cc}" "CXX_$triple_=${CXX:-c++}"
export KEEL_CARGO="cargo zigbuild --target $KEEL_TRIPLE.$KEEL_GLIBC"
