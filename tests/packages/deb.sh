#!/usr/bin/env bash
# deb.sh [FOLDER]: tests the packages of Debian of FOLDER (build/packages) in empty roots of Debian
# 12 and 13: installs, uses, upgrades, removes and purges them. Needs root and mmdebstrap.
source "$(dirname "$0")/steps.sh"
multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
packages=(libkeel0 libkeel-secure0 libkeel-debug0 libkeel-dev keel)
architecture=$(dpkg --print-architecture)

checked() { # lintian finds no error; the address of the maintainer is set only for a release
    lintian --fail-on error --tag-display-limit 0 --allow-root \
        --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog \
        "$out"/*_"${VERSION}_$architecture".deb
}
newer() { # the same packages with a later version, for the upgrade
    mkdir -p "$work/newer" && ln -sfn "$out/prefix" "$work/newer/prefix" &&
        ln -sfn "$out/build" "$work/newer/build" &&
        KEEL_VERSION=$VERSION+1 "$root/packaging/deb.sh" "$work/newer"
}
in_root() { "$root/scripts/root.sh" run "$system" "$@"; }
list_files() { # what packages may change, without the data of the tools themselves
    (cd "$system" && find . -xdev ! -path './root/*' ! -path './var/*' ! -path './tmp/*' \
        ! -path './proc/*' ! -path './dev/*' | sort)
}
fresh() { # fresh SUITE PACKAGE...
    system=$work/$1
    "$root/scripts/root.sh" copy "$1" "$system" "${@:2}" &&
        cp "$out"/*_"${VERSION}_$architecture".deb "$work"/newer/*.deb "$work/script.py" \
            "$root/samples/linking/malloc.c" "$system/root" &&
        list_files >"$work/before"
}
install() { # of this version
    in_root sh -c "cd && apt-get install -y ./*_${VERSION}_$architecture.deb"
}
first_insight() { # with `keel` alone: what the user of the lab installs
    in_root bash -c "cd && apt-get install -y ./{keel,libkeel0,libkeel-secure0,libkeel-debug0}_\
${VERSION}_$architecture.deb &&
        keel try --no-open -a keel,glibc -r 2 -o tried -- python3 script.py &&
        test -s tried/report.html"
}
preloads() { in_root sh -c "LD_PRELOAD=libkeel.so.0 grep libkeel.so.0 /proc/self/maps"; }
peers() { # every peer answers with its version
    in_root sh -c 'keel allocators && ! keel allocators | grep -v tcmalloc | grep "not available"'
}
links() { # programs find the library without -rpath and without LD_LIBRARY_PATH
    in_root sh -ec 'cd
        cc malloc.c $(pkg-config --cflags --libs keel) -o shared && ./shared
        cc malloc.c $(pkg-config --cflags --libs keel-static) -o static && ./static
        cc malloc.c $(pkg-config --cflags --libs keel-secure) -o secure && ./secure
        ldd ./shared | grep libkeel.so.0
        printf "%s\n" "cmake_minimum_required(VERSION 3.13)" "project(p C)" \
            "find_package(keel 0.1 REQUIRED COMPONENTS plain secure debug)" \
            "foreach(t keel keel-static keel-object keel-secure keel-debug-static)" \
            "add_executable(p-\${t} malloc.c)" "target_link_libraries(p-\${t} keel::\${t})" \
            "endforeach()" >CMakeLists.txt
        cmake -S . -B b && cmake --build b && for program in b/p-*; do ./$program; done'
}
manual() { in_root sh -c 'zcat /usr/share/man/man1/keel-record.1.gz | grep follow'; }
upgrades() {
    in_root sh -c "cd && apt-get install -y ./*_${VERSION}+1_$architecture.deb &&
        dpkg -s keel | grep 'Version: $VERSION+1' && keel --version"
}
removed() { # nothing remains that was not there before
    in_root apt-get purge -y "${packages[@]}" &&
        list_files >"$work/after" &&
        diff "$work/before" "$work/after" && ! in_root sh -c 'ldconfig -p | grep keel'
}

step "lintian" checked
step "the packages of the next version" newer
for suite in bookworm trixie; do
    step "$suite: an empty root" fresh "$suite" python3
    insight first_insight
    step "$suite: every peer loads" peers
    step "$suite: manual page" manual
    step "$suite: a root with a compiler" fresh "$suite" gcc libc6-dev pkg-config cmake make
    step "$suite: install all packages" install
    step "$suite: preload by soname" preloads
    step "$suite: pkg-config, CMake, ldconfig" links
    step "$suite: upgrade" upgrades
    step "$suite: purge" removed
    rm -rf "$work/bookworm" "$work/trixie"
done
finish "Debian packages" "$out/keel_${VERSION}_$architecture.deb" apt
