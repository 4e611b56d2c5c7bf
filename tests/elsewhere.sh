#!/usr/bin/env bash
# Builds the command `keel` for Windows on x86-64 with mingw-w64, and for macOS with Zig. The
# commands that only read run under Wine: their outputs, exit codes and files are compared with
# those of keel on Linux, byte by byte, so both must be built from the same sources. A program that
# records itself by keel/recorder.h runs on both: all journals have what it reports. For macOS
# nothing is run. Where tools are missing, a line states what to install. Ends with `total: N
# passed, N failed, N skipped`. These builds are not optimised: nothing is measured.
#
#     tests/elsewhere.sh [KEEL]      KEEL: build/bin/keel
set -uo pipefail
cd "$(dirname "$0")/.."
keel=$(realpath "${1:-build/bin/keel}")
root=$PWD
out=$root/build/elsewhere
windows=$out/bin/keel.exe
reading=(check import capture info slice blame export report plot diff completions manual)
only_on_linux=(record attach watch try compare time bench allocators doctor)
export CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_OPT_LEVEL=0
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
passed=0 failed=0 skipped=0
pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "FAIL $*"; }
skip() { skipped=$((skipped + 1)); echo "skip $*"; }

built() { # built TARGET: keel for it, without a warning; states what is missing or wrong
    local log=$out/$1.log
    if ! [ -d "$(rustc --print target-libdir --target "$1")" ]; then
        skip "$1: rustup target add $1"
        return 1
    fi
    if ! cargo build --release --locked --target "$1" -p keel-cli --bin keel >"$log" 2>&1; then
        fail "$1: it does not build"
        tail -n 30 "$log"
        return 1
    fi
    if grep '^warning' "$log"; then fail "$1: warnings"; else pass; fi
}

# --- Inputs

recorded() { # recorded NAME WORD...: NAME.parquet, a recording of the program with call stacks
    local name=$1
    shift
    "$keel" record --stacks 16 -o "$name.parquet" -- "$@" >/dev/null 2>"$name.log" </dev/null
}

made() { # made NAME WORD...: a file that a command prints
    local name=$1
    shift
    "$@" >"$name" 2>"$name.log"
}

killed() { # killed.partial, which a killed recorder leaves
    local recorder tries
    cc -O0 -o busy -x c - <<<'#include <stdlib.h>
        int main(void) { for (int i = 0; i < 15000000; i++) free(malloc(64)); return 0; }'
    "$keel" record -o killed.parquet -- ./busy >killed.log 2>&1 &
    recorder=$!
    for ((tries = 0; tries < 600; tries++)); do
        [ "$(grep -ao KLGROUP1 killed.parquet.partial 2>>killed.log | wc -l)" -lt 2 ] || break
        sleep 0.1
    done
    kill -9 $recorder
    wait $recorder
    mv killed.parquet.partial killed.partial
} 2>/dev/null

journals() { # the sample of a game, and recordings of three programs
    cp "$root/samples/minetest-slice.journal.parquet" game.parquet
    c++ -O1 -g -o hitch "$root/samples/hitch/game.cpp"
    recorded hitch ./hitch
    recorded sqlite sqlite3 :memory: "with recursive n(i) as (select 1 union all select i + 1 from n
        where i < 3000) select count(distinct printf('%d', i * 7919 % 1009)) from n"
    recorded perl perl -e 'my %words; $words{$_ % 977} .= "word $_" for 1 .. 20000;
        print join " ", sort keys %words'
    killed
    head -c 100000 game.parquet >cut.parquet
    head -c 100000 /dev/zero >zero.parquet
    "$root/build/lib/keel/samples/engine" 300 recorder.spool >/dev/null
}

# itself NAME HOW [WORD]: NAME.spool, with which the program recorded itself, and NAME.txt, what its
# journal must contain. WORD starts the program: wine, or nothing.
itself() {
    local name=$1 how=$2
    shift 2
    "$@" $name.spool $how 2>/dev/null | tr -d '\r' >$name.txt
}

recordings() { # of one program for Linux, and for Windows with both libraries of the recorder
    local how
    cc -O2 -I"$root/in_process/include" "$root/tests/recorder/programs/totals.c" -o totals \
        "$root/build/lib/libkeel_record.a" -pthread
    cp "$out"/recorder/tests/{totals-{shared,static}.exe,keel_record.dll} .
    for how in stop killed; do
        itself linux-$how $how ./totals
        itself static-$how $how wine totals-static.exe
    done
    itself shared-exit exit wine totals-shared.exe
    rm totals totals-{shared,static}.exe keel_record.dll
}

other_inputs() { # traces of other tools, results and budgets
    local form
    for form in doom3 mtrace heaptrack android; do
        made trace.$form "$keel" export sqlite.parquet --to $form
    done
    gzip -kn trace.doom3
    "$keel" compare game.parquet -a glibc,keel,null -r 3 -o results >/dev/null 2>results.log
    "$keel" compare sqlite.parquet -a glibc,keel -r 2 -o stacked >/dev/null 2>stacked.log
    rm -f {results,stacked}/report.html
    printf '[run]\noperations = 10000000\n' >kept.toml
    printf '[run]\noperations = 10\n' >broken.toml
    printf '[run]\nwith_page_faults = 10\n[replay]\nallocator = "glibc"\n' >faults.toml
}

# A comparison of empty inputs would show nothing.
verified() { # verified: stops if an input is empty or has few operations
    local file operations
    for file in game hitch sqlite perl; do
        operations=$("$keel" info --json $file.parquet | python3 -c \
            'import json, sys; print(json.load(sys.stdin)["facts"]["operations"])')
        if ! [ "${operations:-0}" -ge 1000 ]; then
            echo "FAIL input $file.parquet: ${operations:-no} operations" && cat $file.log
            exit 1
        fi
        echo "ok   $file.parquet: $operations operations"
    done
    for file in killed.partial {recorder,{linux,static}-{stop,killed},shared-exit}.spool \
        trace.{doom3,mtrace,heaptrack,android,doom3.gz} \
        {results,stacked}/{results.json,operations.parquet}; do
        if ! [ "$(stat -c %s $file 2>/dev/null || echo 0)" -ge 1000 ]; then
            echo "FAIL input $file: it is missing, or smaller than 1,000 bytes" && cat ./*.log
            exit 1
        fi
    done
    rm ./*.log
}

inputs() { # the inputs, made by keel on Linux: the same in the folders linux and windows
    local folder
    mkdir -p "$out/inputs" && cd "$out/inputs" || exit 1
    journals
    recordings
    other_inputs
    verified
    cd "$root" || exit 1
    for folder in linux windows; do cp -r "$out/inputs" "$out/$folder"; done
}

# --- Comparisons

# The command's own times differ from run to run. Windows separates folders with a backslash, which
# JSON doubles. Wine's own services print that they crash; a crash of keel has another exit code.
plain() {
    local file
    for file in "$out"/{linux,windows}."$1".{out,err}; do
        sed -E 's/(built )?in [0-9.]+ s(, [0-9]+ MB\/s)?//; s/keel\.exe/keel/g; s/\\\\?/\//g
            /^wine: /d' "$file" >"$file.plain"
    done
}

on_both() { # on_both NAME WORD...: runs both; sets codes. stdin is $input
    local name=$1 on
    shift
    for on in linux windows; do
        local command=("$keel")
        [ $on = windows ] && command=(wine "$windows")
        (cd "$out/$on" && "${command[@]}" "$@" >"../$on.$name.out" 2>"../$on.$name.err" \
            <"${input:-/dev/null}")
        codes[$on]=$?
    done
    plain "$name"
}

same() { # same CODE NAME WORD...: both end with CODE, and print the same
    local code=$1 name=$2
    shift
    on_both "$@"
    if [ "${codes[linux]} ${codes[windows]}" != "$code $code" ]; then
        fail "$name: exit codes ${codes[linux]} and on Windows ${codes[windows]}, not $code"
        cat "$out"/{linux,windows}."$name".err
    elif ! cmp "$out"/{linux,windows}."$name".out.plain ||
        ! cmp "$out"/{linux,windows}."$name".err.plain; then
        fail "$name: another output"
    else
        pass
    fi
}

refused() { # refused NAME WORD...: both fail with a message of one line. The system's words differ
    on_both "$@"
    local name=$1 code=${codes[windows]} text
    text=$(<"$out/windows.$name.err")
    if [ "$code" = 0 ] || [ "$code" != "${codes[linux]}" ] || [[ $text == *panicked* ]] ||
        [ "$(grep -c . <<<"$text")" != 1 ] || [[ $text != keel* ]]; then
        fail "$name: exit code $code, on Linux ${codes[linux]}: $text"
    else
        pass
    fi
}

on_windows() { # on_windows WORD...: sets text and code
    text=$(cd "$out/windows" && wine "$windows" "$@" 2>&1 </dev/null)
    code=$?
}

needs_linux() { # needs_linux NAME WORD...: on Windows, exit code 2 and a sentence
    local name=$1 code text
    shift
    on_windows "$@"
    if [ "$code" = 2 ] && [[ $text == keel*" needs Linux: "* ]] && [ "$(grep -c . <<<"$text")" = 1 ]
    then
        pass
    else
        fail "$name: exit code $code: $text"
    fi
}

# --- What is compared

of_journals() {
    local name
    for name in game hitch sqlite perl; do
        same 0 info-$name info --verify $name.parquet
        same 0 info-json-$name info --json --top 5 $name.parquet
    done
    for name in hitch sqlite perl; do
        same 0 blame-$name blame $name.parquet
        same 0 blame-json-$name blame --json --by function --sort peak $name.parquet
        same 1 check-zone-$name check --zone thread='*' $name.parquet --format json \
            --report junit=$name.xml
        for form in perfetto chrome collapsed speedscope pprof firefox; do
            same 0 export-$form-$name export $name.parquet --to $form -o $name.$form
        done
    done
    same 0 slice slice game.parquet --frames 2..5 -o slice.parquet
    same 0 slice-every slice game.parquet --every 100000 -o parts
    for form in doom3 mtrace heaptrack; do
        same 0 export-$form export game.parquet --to $form -o game.$form
    done
    same 0 export-stdout export perl.parquet --to doom3
    same 0 check-kept check --budget kept.toml sqlite.parquet
    same 1 check-broken check --budget broken.toml sqlite.parquet
    same 0 check-learn check --learn learned.toml sqlite.parquet
    same 0 check-learned check --budget learned.toml sqlite.parquet
}

imports() {
    local form
    for form in doom3 mtrace heaptrack android doom3.gz; do
        same 0 import-$form import trace.$form -o imported-$form.parquet
    done
    input=trace.mtrace same 0 capture capture captured.parquet
    same 0 import-killed import killed.partial -o salvaged.parquet
    same 0 info-salvaged info --verify salvaged.parquet
    same 0 import-recording import recorder.spool -o recorder.parquet
    same 0 import-skip import sqlite.parquet --skip-module libc -o skipped.parquet
}

# facts JOURNAL: its counts as the program prints them, then what no clock and no address changes.
facts() {
    "$keel" info --json --verify "$1" | python3 -c '
import json, sys
journal = json.load(sys.stdin)
facts, metadata = journal["facts"], journal["metadata"]
counts = {count["kind"]: count["count"] for count in facts["operations_by_kind"]}
for kind in "malloc calloc aligned realloc free free_sized".split():
    print(kind, counts[kind])
foreign = counts["foreign_free"] + counts["foreign_realloc"]
print("allocated_bytes", facts["allocated_bytes"])
print("threads", len(metadata["threads"]))
print("frames", len(metadata["frames"]))
print("marks", len(metadata["marks"]))
print("foreign", foreign)
print("repairs", metadata["repairs"], "leaked", facts["leaked"], "wrong", facts["wrong_frees"])
print([(size["from"], size["count"], size["bytes"]) for size in facts["sizes"]["histogram"]])
names = ("operations", "allocated_bytes", "cross_thread_releases")
for thread in sorted(facts["threads"], key=lambda thread: thread["name"]):
    if thread["name"].startswith("worker"):
        print(thread["name"], *(thread[name] for name in names))'
}

of_recordings() { # Windows and Linux make the same journal of each; all have the same content
    local name
    for name in {linux,static}-{stop,killed} shared-exit; do
        same 0 import-$name import $name.spool -o $name.parquet
        facts "$out/linux/$name.parquet" >"$out/$name.facts"
        if head -n 11 "$out/$name.facts" | cmp - "$out/linux/$name.txt" &&
            cmp "$out/$name.facts" "$out/linux-stop.facts"; then
            pass
        else
            fail "$name: not what the program has reported"
        fi
    done
    echo "ok   recordings: $(tr '\n' ' ' <"$out/linux/linux-stop.txt")"
}

of_results() {
    local form
    same 0 blame-results blame stacked
    same 0 blame-results-json blame --json --sort slow stacked
    for form in csv parquet hdr perfetto json; do
        same 0 export-results-$form export results --to $form -o results.$form
    done
    for form in collapsed speedscope pprof firefox; do
        same 0 export-stacked-$form export stacked --to $form -o stacked.$form
    done
    for form in density percentiles memory sizes lifetimes frames; do
        same 0 plot-$form plot results --view $form -o $form.svg
    done
    same 0 plot-png plot results --dark -o density.png
    same 0 report report results
    same 0 report-output report results stacked -o page.html
    same 0 report-markdown report results --markdown
    same 0 report-pair report results --pair keel,glibc
    same 0 report-pair-json report results --pair keel,glibc --json
    same 0 diff diff results results --json --all
}

errors() {
    local command
    refused missing-journal info missing.parquet
    refused missing-results report missing
    refused missing-trace import missing.txt -o missing.parquet
    refused missing-export export missing.parquet -o missing.txt
    refused missing-blame blame missing.parquet
    refused missing-folder plot results -o no/such/folder.svg
    refused cut-journal info cut.parquet
    refused broken-journal blame zero.parquet
    refused broken-trace import zero.parquet -o broken.parquet
    refused not-results plot . -o broken.svg
    same 2 unknown-option info --nothing game.parquet
    same 1 unknown-allocator export results --to csv -a nobody -o nobody.csv
    for command in "${only_on_linux[@]}"; do
        needs_linux "$command" $command
        needs_linux "$command-help" $command --help
        needs_linux "$command-words" $command -a x --json -- program -o y
    done
    needs_linux check-program check --zone class=fifo -- program
    needs_linux check-worst check --zone thread='*' --worst sqlite.parquet
    needs_linux check-faults check --budget faults.toml sqlite.parquet
    needs_linux blame-pinned blame --pinned peak sqlite.parquet
}

texts() { # help, manual pages and completions have what works on the system
    local text code command
    same 0 version --version
    on_windows --help
    for command in "${reading[@]}"; do
        if grep -q "^  $command " <<<"$text"; then pass; else fail "help: no $command"; fi
    done
    for command in "${only_on_linux[@]}"; do
        if grep -q "^  $command " <<<"$text"; then fail "help: $command"; else pass; fi
    done
    local names
    printf -v names '%s, ' "${only_on_linux[@]}"
    if grep -qxF "  ${names%, }" <(sed -n '/^Only on Linux:/,$p' <<<"$text" | tr -d '\r'); then
        pass
    else
        fail "help: not the commands that need Linux: $text"
    fi
    SOURCE_DATE_EPOCH=0 on_both manual manual manual
    rm "$out"/{linux,windows}/manual/keel.1
    for command in "${only_on_linux[@]}"; do rm "$out"/linux/manual/keel-"$command"*.1; done
    on_windows completions powershell
    if [ $code = 0 ] && [[ $text == *"'import'"* ]]; then pass; else fail "completions: $text"; fi
}

written_files() { # every file that a command wrote, and those that it read
    local file count=0
    while IFS= read -r file; do
        count=$((count + 1))
        if cmp "$out/linux/$file" "$out/windows/$file"; then pass; else fail "file $file"; fi
    done < <(cd "$out" && find linux windows -type f | cut -d/ -f2- | sort -u)
    echo "ok   $count files compared"
}

# --- Systems

random_numbers() { # a library of Windows that Wine 8 lacks, beside keel.exe
    x86_64-w64-mingw32-gcc -O2 -shared -o "$out/bin/bcryptprimitives.dll" -x c - -ladvapi32 <<'END'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(void *bytes, ULONG count);
__declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *bytes, SIZE_T count) {
    return SystemFunction036(bytes, (ULONG)count);
}
END
}

# recorder: the libraries of keel/recorder.h for Windows, and a program that records itself
recorder() {
    cmake -S . -B "$out/recorder" -G Ninja -DKEEL_OUTPUT_DIR="$out/recorder" \
        -DCMAKE_TOOLCHAIN_FILE="$root/cmake/x86_64-w64-mingw32.cmake" &&
        cmake --build "$out/recorder" --target totals
}

under_wine() {
    export WINEPREFIX=$out/wine WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml="
    unset DISPLAY
    # The terminal's width and colours are no part of the comparison.
    export COLUMNS=100 NO_COLOR=1
    cp "$CARGO_TARGET_DIR/x86_64-pc-windows-gnu/release/keel.exe" "$windows"
    random_numbers
    wineboot --init >"$out/wine.log" 2>&1
    if ! recorder >"$out/recorder.log" 2>&1; then
        fail "the recorder for Windows does not build" && tail -n 30 "$out/recorder.log"
        return
    fi
    inputs
    declare -gA codes
    of_journals
    imports
    of_recordings
    of_results
    errors
    texts
    written_files
    wineserver --kill
}

linked_for_macos() { # linked_for_macos MACHINE: keel, with Zig as compiler and linker of C
    local target=$1-apple-darwin zig=$out/bin/zig-$1 name
    # Zig names targets in another way. It has no stubs of libiconv, of which keel uses nothing, and
    # of the framework that a library asks for the time zone.
    mkdir -p "$out/sdk/CoreFoundation.framework"
    cat >"$out/sdk/CoreFoundation.framework/CoreFoundation.tbd" <<END
--- !tapi-tbd
tbd-version: 4
targets: [ x86_64-macos, arm64-macos ]
install-name: /System/Library/Frameworks/CoreFoundation.framework/Versions/A/CoreFoundation
exports:
  - targets: [ x86_64-macos, arm64-macos ]
    symbols: [ _CFRelease, _CFStringGetBytes, _CFStringGetCStringPtr, _CFStringGetLength,
               _CFTimeZoneCopySystem, _CFTimeZoneGetName, _CFTimeZoneResetSystem ]
...
END
    cat >"$zig" <<END
#!/usr/bin/env bash
for word; do
    shift
    case \$word in --target=* | -liconv) ;; *) set -- "\$@" "\$word" ;; esac
done
exec python3 -m ziglang cc -target $1-macos -F "$out/sdk" "\$@"
END
    printf '#!/bin/sh\nexec python3 -m ziglang ar "$@"\n' >"$zig-ar"
    chmod +x "$zig" "$zig-ar"
    name=${target//-/_}
    export "CC_$name=$zig" "AR_$name=$zig-ar" "CARGO_TARGET_${name^^}_LINKER=$zig"
    export SDKROOT=$out/sdk # there is none: Zig has the stubs
    built "$target" || return
    printf 'ok   %s: linked, %d bytes; nothing is run\n' "$target" \
        "$(stat -c %s "$CARGO_TARGET_DIR/$target/release/keel")"
}

rm -rf "$out"/{inputs,linux,windows}
mkdir -p "$out"/{bin,sdk}
if ! command -v x86_64-w64-mingw32-gcc wine >/dev/null; then
    skip "x86_64-pc-windows-gnu: install gcc-mingw-w64-x86-64 and wine"
elif built x86_64-pc-windows-gnu; then
    under_wine
fi
if ! python3 -m ziglang version >/dev/null 2>&1; then
    skip "macOS: pip install ziglang"
else
    for machine in aarch64 x86_64; do linked_for_macos $machine; done
fi
echo "total: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
