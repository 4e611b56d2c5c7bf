#!/usr/bin/env bash
# tarball.sh [FOLDER]: tests the archive of FOLDER (build/packages): unpacked in two folders of an
# empty Debian 11, whose glibc is older than that of the build machine, and of this machine.
source "$(dirname "$0")/steps.sh"
archive=$out/keel-$VERSION-linux-$(uname -m).tar.xz
unpacked=$(basename "$archive" .tar.xz)
cd "$work" || exit 1

small() { [ "$(stat -c %s "$archive")" -le 40000000 ]; }
owned() { # one owner, one time
    [ "$(tar -tvJf "$archive" | awk '{ print $2, $4, $5 }' | sort -u | wc -l)" = 1 ]
}
same() { # packed once more, with the time that its files have
    local when
    when=$(tar --utc --full-time -tvJf "$archive" | awk 'NR == 1 { print $4, $5 }')
    mkdir again && ln -s "$out/prefix" again/prefix &&
        SOURCE_DATE_EPOCH=$(date -ud "$when" +%s) "$root/packaging/tarball.sh" again &&
        cmp "$archive" again/*.tar.xz
}
unpack_and_try() {
    tar -xJf "$archive" && "$unpacked/bin/keel" try --no-open -a keel,glibc -r 2 -o tried -- \
        python3 script.py && test -s tried/report.html
}
moved() { # the folder may be moved and linked to
    mv "$unpacked" "moved here" && ln -s "$PWD/moved here/bin/keel" keel &&
        ./keel allocators >list && cat list && ! grep -v tcmalloc list | grep 'not available' &&
        ./keel record -o ls.journal.parquet -- ls / && ./keel info --verify ls.journal.parquet
}
links() { # shared with the word that the page names, static and by CMake without it
    local prefix="$work/moved here"
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
    for flavour in "" -secure -debug; do
        eval cc "$root/samples/linking/malloc.c" "$(pkg-config --cflags --libs "keel$flavour")" \
            "-Wl,-rpath,'$prefix/lib'" -o linked && ./linked &&
            eval cc "$root/samples/linking/malloc.c" \
                "$(pkg-config --cflags --libs "keel$flavour-static")" -o static && ./static &&
            ! ldd ./static | grep libkeel || return 1
    done
    mkdir -p project && cp "$root/samples/linking/malloc.c" project &&
        printf '%s\n' "cmake_minimum_required(VERSION 3.13)" "project(p C)" \
            "find_package(keel 0.1 REQUIRED)" "add_executable(program malloc.c)" \
            "target_link_libraries(program keel::keel)" >project/CMakeLists.txt &&
        cmake -S project -B b -DCMAKE_PREFIX_PATH="$prefix" && cmake --build b && b/program
}
documented() {
    man -l "moved here/share/man/man1/keel-record.1" | grep follow &&
        python3 -m json.tool "moved here/share/doc/keel/keel.cdx.json" >/dev/null &&
        grep jemalloc "moved here/share/doc/keel/THIRD-PARTY.md"
}
manual_clean() { # man and mandoc read every page; a warning is a fault of the page
    local page
    for page in "moved here"/share/man/man1/*.1; do
        [ -z "$(LC_ALL=C.UTF-8 man --warnings -l "$page" 2>&1 >/dev/null)" ] || return 1
    done
    ! mandoc -T lint -W warning "moved here"/share/man/man1/*.1 |
        grep -v "skipping paragraph macro"
}
older() { # Debian 11: glibc 2.31
    "$root/scripts/root.sh" copy bullseye "$work/bullseye" python3 xz-utils &&
        cp "$archive" script.py "$work/bullseye/root" &&
        "$root/scripts/root.sh" run "$work/bullseye" bash -ec '
            cd && tar -xJf keel-*.tar.xz && cd keel-*/ && bin/keel allocators
            ! bin/keel allocators | grep -v tcmalloc | grep "not available"
            bin/keel try --no-open -a keel,glibc -r 2 -o ~/tried -- python3 ~/script.py
            test -s ~/tried/report.html
            LD_PRELOAD=$PWD/lib/libkeel.so KEEL_SHOW_STATS=1 python3 ~/script.py
            # In a folder that the system searches, after ldconfig, by its name.
            cp -a lib/libkeel*.so* /usr/local/lib && ldconfig
            LD_PRELOAD=libkeel.so.0 grep /usr/local/lib/libkeel /proc/self/maps'
}

step "at most 40 MB" small
step "one owner, one time" owned
step "packed again: the same bytes" same
insight unpack_and_try
step "moved and linked to" moved
step "programs link with it: pkg-config, CMake" links
step "manual, SBOM, licences" documented
step "manual pages without warnings: man, mandoc" manual_clean
step "completions: bash, zsh, fish" "$root/tests/packages/shells.py" "moved here/share"
if [ "$(id -u)" = 0 ] && command -v mmdebstrap >/dev/null; then
    step "Debian 11 (glibc 2.31)" older
fi
finish "Archive" "$archive" tar
