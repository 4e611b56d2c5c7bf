#!/bin/bash
# The cases of sandboxes.sh: sandbox_cases.sh "LIBRARY ..." [NAME ...]. A function case_NAME prints
# what it found; it runs without Keel, and with `preload` set to each library. A case whose
# packages are missing is skipped; one that fails without Keel too is left out.
libraries=$1
shift
preload=
passed=0 failed=0 skipped=0
PATH=/usr/local/bin:$PATH
ip link set lo up 2>/dev/null

# with COMMAND...: runs it with the library in its environment
with() { env ${preload:+LD_PRELOAD=$preload} "$@"; }
start() { exec env ${preload:+LD_PRELOAD=$preload} "$@"; } # for the background: the same process
# seen PID: whether the process has loaded the library; without Keel it does not matter
seen() { [ -z "$preload" ] || grep -q "$preload" "/proc/$1/maps" || echo "no Keel in process $1"; }

needs_sshd="/usr/sbin/sshd ssh ssh-keygen"
sshd_with() { # sshd_with COMPRESSION
    mkdir -p /run/sshd /tmp/ssh && chmod 755 /run/sshd && chmod 700 /tmp/ssh
    [ -f /tmp/ssh/key ] || ssh-keygen -q -t ed25519 -N '' -f /tmp/ssh/key
    cp /tmp/ssh/key.pub /tmp/ssh/authorized
    start /usr/sbin/sshd -D -e -f /dev/null -h /tmp/ssh/key -p 2222 -o ListenAddress=127.0.0.1 \
        -o AuthorizedKeysFile=/tmp/ssh/authorized -o StrictModes=no -o UsePAM=no \
        -o Compression=yes -o PermitRootLogin=yes -o PidFile=none 2>/tmp/ssh/log &
    local server=$!
    for _ in $(seq 50); do (: </dev/tcp/127.0.0.1/2222) 2>/dev/null && break; sleep 0.2; done
    seen $server
    for _ in 1 2 3; do
        timeout 60 ssh -F /dev/null -p 2222 -i /tmp/ssh/key -o Compression="$1" \
            -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
            root@127.0.0.1 'seq 20000; id -un' | md5sum
        echo "status ${PIPESTATUS[0]}"
    done
    kill $server; wait $server 2>/dev/null
    grep -i -E 'fatal|signal|segfault|keel' /tmp/ssh/log
}
case_sshd() { sshd_with no; }
needs_sshd_compressed=$needs_sshd
case_sshd_compressed() { sshd_with yes; }

needs_bubblewrap="bwrap"
case_bubblewrap() {
    with bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --unshare-all --die-with-parent \
        --chdir /tmp bash /keel/programs.sh python3
}
needs_bubblewrap_no_proc="bwrap"
case_bubblewrap_no_proc() {
    with bwrap --ro-bind / / --dev /dev --tmpfs /proc --tmpfs /tmp --unshare-all --die-with-parent \
        --chdir /tmp bash /keel/programs.sh sort
}

# numbers NAME...: of system calls, with commas; groups of systemd are resolved
numbers() {
    local name members list='systemd-analyze --no-pager syscall-filter'
    for name; do
        if [[ $name == @* ]]; then
            members=$($list "$name" | sed -n 's/^    \([a-z@].*\)/\1/p')
            # shellcheck disable=SC2086
            numbers $members
        else
            awk -v name="$name" '$1 == name { print $2 }' /keel/calls
        fi
    done
}
list() { numbers "$@" | sort -un | paste -sd ,; }
behind_filter() { # behind_filter allow|deny kill|EPERM NAME...
    local rule=$1 answer=$2 one list
    shift 2
    list=$(list "$@")
    mkdir -p "/tmp/at-$$"
    for one in date sort python3 git; do
        (cd "/tmp/at-$$" &&
            with /keel/filter "$rule" "$answer" "$list" bash /keel/programs.sh $one)
        echo "$one: status $?"
    done
    rm -rf "/tmp/at-$$"
}
# As in systemd's own services: SystemCallFilter=@system-service, and with groups removed.
needs_filter_service="systemd-analyze"
case_filter_service() { behind_filter allow kill @default @system-service; }
needs_filter_service_error="systemd-analyze"
case_filter_service_error() { behind_filter allow EPERM @default @system-service; }
needs_filter_privileged="systemd-analyze"
case_filter_privileged() {
    behind_filter deny EPERM @privileged @debug @mount @reboot @swap @obsolete @raw-io @clock
}
needs_filter_resources="systemd-analyze"
case_filter_resources() { behind_filter deny EPERM @resources @memlock @debug; }
# Calls that malloc can do without, each of them a reason to end the process.
needs_filter_looks=""
case_filter_looks() {
    behind_filter deny kill process_vm_readv process_vm_writev mincore ptrace perf_event_open \
        mlock mlockall userfaultfd membarrier sched_setscheduler sched_setattr process_madvise \
        get_mempolicy set_mempolicy mbind
}

needs_no_proc=""
case_no_proc() {
    with unshare --mount bash -c 'mount -t tmpfs none /proc && cd /tmp && mkdir -p np && cd np &&
        for name in date sort perl git; do
            mkdir -p $name && (cd $name && bash /keel/programs.sh $name); echo "status $?"
        done; rm -rf /tmp/np'
}

needs_chroot="busybox"
case_chroot() { # nothing but the C library, the library and a shell
    local file
    mkdir -p /tmp/small/{bin,lib64,tmp}
    for file in /bin/bash /usr/bin/sort /usr/bin/seq /usr/bin/head ${preload:-/bin/true}; do
        ldd "$file" | grep -o '/[^ ]*' | while read -r part; do
            mkdir -p "/tmp/small$(dirname "$part")" && cp -L "$part" "/tmp/small$part"
        done
        mkdir -p "/tmp/small$(dirname "$file")"; cp -L "$file" "/tmp/small$file"
    done
    with chroot /tmp/small /bin/bash -c 'seq 200000 | sort -r --parallel=2 | head -n 5; echo $?'
    rm -rf /tmp/small
}

# everywhere COMMAND...: with the library in /etc/ld.so.preload, as for setuid programs and programs
# with an empty environment
everywhere() {
    [ -z "$preload" ] || echo "$preload" >/etc/ld.so.preload
    (unset LD_PRELOAD; "$@")
    rm -f /etc/ld.so.preload
}
loaded="grep -c /keel/libkeel /proc/self/maps || true"
count_is_right() { # the count of mappings, from stdin: none without Keel, some with it
    local count; read -r count
    [ -z "$preload" ] || [ "${count:-0}" -gt 0 ] || echo "no Keel"
    echo "looked"
}
needs_su="su"
case_su() {
    everywhere su -s /bin/bash nobody -c 'id -un; seq 50000 | sort -r | md5sum'
    everywhere su -s /bin/bash nobody -c "$loaded" | count_is_right
    everywhere setpriv --reuid=nobody --clear-groups su -s /bin/sh root -c id </dev/null 2>&1 |
        tail -n 1
}
needs_sudo="sudo"
case_sudo() {
    everywhere sudo -n -u nobody bash -c 'id -un; seq 50000 | sort -r | md5sum'
    everywhere sudo -n -u nobody bash -c "$loaded" | count_is_right
}
needs_setuid="setpriv passwd"
case_setuid() {
    everywhere setpriv --reuid=nobody --clear-groups passwd -S nobody 2>&1
    everywhere setpriv --reuid=nobody --clear-groups sudo -n true 2>&1
    # A setuid program ignores LD_PRELOAD with a path.
    with setpriv --reuid=nobody --clear-groups passwd -S nobody 2>&1
    everywhere cat /dev/null && cp /bin/cat /tmp/setuid && chmod 4755 /tmp/setuid
    everywhere setpriv --reuid=nobody --clear-groups /tmp/setuid /proc/self/maps |
        grep -c /keel/libkeel | count_is_right
    rm -f /tmp/setuid
}
needs_clean="env"
case_clean() { # as cron starts programs
    everywhere env -i /bin/sh -c 'seq 50000 | sort -r | md5sum; pwd; echo $PATH'
    everywhere env -i /usr/bin/python3 -c 'print(sum(len(str(i)) for i in range(10000)))'
    everywhere env -i /bin/sh -c "$loaded" | count_is_right
}
needs_cron="cron crontab"
case_cron() {
    rm -rf /tmp/cron && mkdir /tmp/cron
    echo '#!/bin/sh
        seq 5000 | sort -r | md5sum >/tmp/cron/out
        grep -c /keel/libkeel /proc/self/maps >/tmp/cron/maps' >/tmp/cron/job
    echo '* * * * * sh /tmp/cron/job' | crontab -
    [ -z "$preload" ] || echo "$preload" >/etc/ld.so.preload
    cron -f & local daemon=$!
    for _ in $(seq 75); do [ ! -s /tmp/cron/maps ] || break; sleep 1; done
    kill $daemon; wait $daemon 2>/dev/null
    rm -f /etc/ld.so.preload
    cat /tmp/cron/out; count_is_right </tmp/cron/maps
    crontab -r
}

page() {
    echo '<html><body><p id=x>none</p><script>
        let total = 0;
        for (let i = 0; i < 1e5; i++) total += ("" + i).length;
        document.getElementById("x").textContent = "sum " + total;
        </script></body></html>' >/tmp/page.html
    chmod 644 /tmp/page.html
}
quiet="--headless --disable-gpu --no-first-run --disable-sync --disable-quic
    --disable-background-networking --dump-dom"
needs_chromium="chromium"
case_chromium() { # as root, without its sandbox
    page
    # shellcheck disable=SC2086
    with timeout 150 chromium --no-sandbox $quiet --user-data-dir=/tmp/chromium \
        file:///tmp/page.html 2>/tmp/chromium.log
    echo "status $?"; rm -rf /tmp/chromium
}
needs_chromium_sandbox="chromium setpriv"
case_chromium_sandbox() { # as another user, in its own sandbox
    page
    mkdir -p /tmp/home && chown nobody /tmp/home
    # shellcheck disable=SC2086
    with timeout 150 setpriv --reuid=nobody --clear-groups env HOME=/tmp/home chromium $quiet \
        --user-data-dir=/tmp/home/chromium file:///tmp/page.html 2>/tmp/chromium.log
    echo "status $?"; rm -rf /tmp/home
}
needs_firefox="firefox-esr"
case_firefox() {
    page
    rm -rf /tmp/firefox /tmp/shot.png; mkdir /tmp/firefox
    HOME=/tmp/firefox with timeout 150 firefox-esr --headless --no-remote --profile /tmp/firefox \
        --screenshot /tmp/shot.png file:///tmp/page.html >/tmp/firefox.log 2>&1
    echo "status $?"
    [ -s /tmp/shot.png ] && md5sum </tmp/shot.png; rm -rf /tmp/firefox
}

missing_command() {
    local one
    for one; do command -v "$one" >/dev/null || { echo "$one"; return; }; done
}
run_case() { # run_case NAME
    local needs=needs_$1 lacking at
    lacking=$(missing_command ${!needs})
    if [ -n "$lacking" ]; then
        echo "SKIP $1: $lacking is missing"; skipped=$((skipped + 1)); return
    fi
    preload=
    "case_$1" >/tmp/plain.out 2>/tmp/plain.err
    "case_$1" >/tmp/again.out 2>/tmp/again.err
    if ! cmp -s /tmp/plain.out /tmp/again.out || [ ! -s /tmp/plain.out ] ||
        grep -q -E '^(.*: )?status [1-9]' /tmp/plain.out; then
        echo "left out: $1: without Keel $(tail -n 1 /tmp/plain.out) $(tail -n 1 /tmp/plain.err)"
        return
    fi
    for at in $libraries; do
        preload=/keel/$at
        "case_$1" >/tmp/keel.out 2>/tmp/keel.err
        if grep -q 'cannot be preloaded' /tmp/keel.err; then
            echo "FAIL $1, $at: $(grep -m 1 'cannot be preloaded' /tmp/keel.err)"
        elif ! cmp -s /tmp/plain.out /tmp/keel.out; then
            echo "FAIL $1, $at:"
            diff /tmp/plain.out /tmp/keel.out | head -n 6
            tail -n 3 /tmp/keel.err
        else
            echo "ok   $1, $at ($(wc -l </tmp/plain.out) lines equal)"
            passed=$((passed + 1))
            continue
        fi
        failed=$((failed + 1))
    done
}
cases=("$@")
[ $# -gt 0 ] || mapfile -t cases < <(declare -F | sed -n 's/^declare -f case_//p')
for name in "${cases[@]}"; do run_case "$name"; done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
