#!/usr/bin/env bash
# Folders with a minimal Debian, for tests that need a system of their own. Needs root, mmdebstrap
# and the mirror of this machine's apt.
#
#   root.sh make SUITE [PACKAGE...]      makes the root of this suite once, and prints its folder
#   root.sh copy SUITE FOLDER [PACKAGE...]  makes a fresh copy of it, in which a test may write
#   root.sh run FOLDER COMMAND...        runs the command in such a folder, without this machine's
#                                        environment
#
# Packages are those that `make` adds to a minimal system; each combination is a root of its own.
# The roots are in KEEL_ROOTS (default: keel/roots in the cache folder of the user).
set -euo pipefail
roots=${KEEL_ROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/keel/roots}
usage() {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

mirror() { # the address from which apt of this machine gets the main component of Debian
    apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(COMPONENT) $(CODENAME)' |
        awk '$2 == "Debian" && $3 == "main" && $4 !~ /-/ && !found++ { print $1 }'
}

settings() { # whether apt of this machine accepts lists that have expired, and its proxies
    apt-config dump |
        grep -E '^Acquire::(Check-(Valid-Until|Date)|https?::[Pp]roxy[^ ]*) "[^"]+";$' |
        sed 's/^/--aptopt=/'
}

root() { # root SUITE PACKAGE...: the folder of the root
    local suite=$1
    shift
    echo "$roots/$(IFS=+; echo "$suite${*:++$*}")"
}

make_root() { # make_root SUITE PACKAGE...
    local folder partial address packages settings
    folder=$(root "$@")
    exec 9>"$folder.lock"
    flock 9 # several tests may need it at the same time
    if [ ! -e "$folder/etc/debian_version" ]; then
        address=$(mirror)
        if [ -z "$address" ]; then
            echo "root: apt of this machine has no mirror of Debian" >&2
            exit 1
        fi
        partial=$folder.partial
        rm -rf "$partial"
        packages=$(IFS=,; echo "${*:2}")
        mapfile -t settings < <(settings)
        mmdebstrap --quiet --mode=root --variant=apt "${settings[@]}" \
            --include="ca-certificates${packages:+,$packages}" "$1" "$partial" "$address" >&2
        mv "$partial" "$folder"
    fi
    exec 9>&-
    echo "$folder"
}

[ "$(id -u)" = 0 ] || { echo "root: making a Debian root needs the user root" >&2; exit 1; }
mkdir -p "$roots"
case ${1:-} in
    make)
        [ $# -ge 2 ] || usage
        make_root "${@:2}"
        ;;
    copy)
        [ $# -ge 3 ] || usage
        folder=$(make_root "$2" "${@:4}")
        rm -rf "$3"
        cp -a --reflink=auto "$folder" "$3"
        ;;
    run)
        [ $# -ge 3 ] || usage
        folder=$2
        cp -L /etc/resolv.conf "$folder/etc/resolv.conf" 2>/dev/null || true
        # Mounts of a namespace of its own: nothing remains when the command ends.
        exec unshare --mount --pid --fork --kill-child bash -c '
            mount -t proc proc "$0/proc"
            mount --rbind /dev "$0/dev" && mount --make-rslave "$0/dev"
            exec chroot "$0" env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
                PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"' "$folder" \
            "${@:3}"
        ;;
    *) usage ;;
esac
