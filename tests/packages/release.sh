#!/usr/bin/env bash
# release.sh: tests the checks of packaging/release.sh in a clone of the repository.
source "$(dirname "$0")/steps.sh"
clone=$work/clone
export GIT_AUTHOR_NAME=Test GIT_AUTHOR_EMAIL=test@localhost
export GIT_COMMITTER_NAME=Test GIT_COMMITTER_EMAIL=test@localhost

cloned() {
    git clone --quiet --shared "$root" "$clone" &&
        sed -i "0,/^## .*/s//## $VERSION (2026-01-01)/" "$clone/CHANGELOG.md" &&
        git -C "$clone" commit --quiet --all --message "Release"
}
check() { (cd "$clone" && KEEL_URL=file:///nowhere packaging/release.sh "$1" --check 2>&1); }
refused() { # refused VERSION TEXT...: with each of these reasons
    local output
    ! output=$(check "$1") || return 1
    printf '%s\n' "$output"
    for text in "${@:2}"; do grep -qF -- "$text" <<<"$output" || return 1; done
}
version() {
    refused 9.9.9 "Cargo.toml states version $VERSION, not 9.9.9" "CMakeLists.txt states" \
        "bindings/rust/Cargo.toml states" "keel.h states" "CHANGELOG.md has no heading" &&
        refused 1.0 "1.0 is not MAJOR.MINOR.PATCH"
}
changed() { # a file that is not committed
    echo >>"$clone/README.md"
    refused "$VERSION" "there are uncommitted changes" && git -C "$clone" checkout --quiet README.md
}
licence() { # a crate whose licence is not in the list
    sed -i 's/"MIT", "Apache-2.0", /"MIT", /' "$clone/packaging/contents.py"
    refused "$VERSION" "a licence is not allowed" "Apache-2.0" &&
        git -C "$clone" checkout --quiet packaging
}
released() { # and its binary interface changed: a function has another name
    git -C "$clone" tag "v$VERSION" &&
        git -C "$clone" grep -lz kl_contains |
        (cd "$clone" && xargs -0 sed -i 's/kl_contains/kl_holds/g') &&
        git -C "$clone" commit --quiet --all --message "Rename" &&
        refused "$VERSION" "the tag v$VERSION exists" "the binary interface is not compatible"
}

arm64_configures() { # with the environment in which packages for arm64 are built
    KEEL_MACHINE=aarch64 bash -ec 'root=$1 && source "$root/packaging/environment.sh" &&
        cmake -S "$root" -B "$2" -G Ninja -DKEEL_TESTS=OFF' - "$root" "$work/arm64"
}

other_registry() { # one that Cargo knows besides does not change the flags of the compilers
    local home=${CARGO_HOME:-$HOME/.cargo} folder=$work/cargo/registry
    mkdir -p "$folder/src/other" && ln -s "$home"/registry/{index,cache} "$folder" &&
        ln -s "$home"/registry/src/* "$folder/src" &&
        CARGO_HOME=$work/cargo bash -ec 'root=$1 && source "$root/packaging/environment.sh" &&
            [[ $CFLAGS == *=/crates* && $CARGO_ENCODED_RUSTFLAGS == *=/crates* ]] &&
            [[ $CFLAGS$CARGO_ENCODED_RUSTFLAGS != *src/other* ]]' - "$root"
}

step "a clone with a dated heading" cloned
step "it can be released" check "$VERSION"
step "another version is refused" version
step "changed files are refused" changed
step "an unknown licence is refused" licence
if command -v abidiff >/dev/null; then
    step "a released version and a changed interface are refused" released
fi
step "another registry does not change the build" other_registry
if command -v aarch64-linux-gnu-gcc >/dev/null; then
    step "a build for arm64 can be configured" arm64_configures
fi
echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))
