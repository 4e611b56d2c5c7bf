#!/usr/bin/env bash
# container.sh [FOLDER]: builds the image of packaging/Containerfile with buildah, on a base made of
# a Debian root, and runs it. Needs root.
source "$(dirname "$0")/steps.sh"
cd "$work" || exit 1
# Storage of its own, which needs no overlay mounts; chroot, so that it runs inside of a container.
# Its own policy: the image is made here, not fetched.
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >policy.json
container() { buildah --root "$work/storage" --runroot "$work/run" "$@"; }
base() {
    local folder made
    folder=$("$root/scripts/root.sh" make bookworm python3 xz-utils) &&
        made=$(container from scratch) && container copy --quiet "$made" "$folder" / &&
        container commit --quiet "$made" keel-base &&
        container rm "$made"
}
image() { # after a release the folder also has the archive for another machine
    mkdir context && touch "context/keel-$VERSION-linux-other.tar.xz" &&
        cp "$out/keel-$VERSION-linux-$(uname -m).tar.xz" context &&
        container build --pull-never --signature-policy policy.json -t keel \
            --build-arg BASE=localhost/keel-base -f "$root/packaging/Containerfile" context
}
runs() {
    local made
    made=$(container from --pull-never --signature-policy policy.json localhost/keel) &&
        container copy "$made" script.py /data/ &&
        container run "$made" -- keel try --no-open -a keel,glibc -r 2 -o tried -- \
            python3 script.py &&
        container run "$made" -- test -s tried/report.html
}
entry() {
    container inspect --type image localhost/keel | grep -A 3 Entrypoint | grep '"keel"'
}

step "a base image" base
step "the image" image
insight runs
step "keel is the entry point" entry
finish "Container" "$out/keel-$VERSION-linux-$(uname -m).tar.xz" buildah
