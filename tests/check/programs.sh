#!/usr/bin/env bash
# Checks audio programs of Debian and a game with `keel check`. Each has a budget or a zone that it
# keeps, and one run that breaks it, whose report must name the reason.
#
#     tests/check/programs.sh KEEL
set -uo pipefail
[ $# -eq 1 ] && [ -x "$1" ] || {
    sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
keel=$(realpath "$1") here=$(realpath "$(dirname "$0")")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
unset LD_PRELOAD
export SDL_VIDEODRIVER=dummy OMP_NUM_THREADS=1
passed=0 failed=0 skipped=0

have() { # have NAME FILE PACKAGE: whether the file is installed
    [ -e "$2" ] && return
    echo "SKIP $1: $2 is not installed (Debian: $3)"
    skipped=$((skipped + 1))
    [ -z "${CI:-}" ] || failed=$((failed + 1))
    return 1
}

# expect NAME CODE TEXT OPTION... -- COMMAND...: `keel check` ends with this code, and prints TEXT.
expect() {
    local name=$1 code=$2 text=$3 got
    shift 3
    timeout 120 "$keel" check "$@" >said 2>errors
    got=$?
    if [ $got -eq "$code" ] && grep -qF -- "$text" said; then
        echo "ok   $name"
        passed=$((passed + 1))
    else
        echo "FAIL $name: keel check ended with $got and not $code, or did not print: $text"
        sed 's/^/    /' said errors | head -40
        failed=$((failed + 1))
    fi
}

# A melody for three instruments as a MIDI file.
song() {
    python3 - <<'END'
import struct
events = b"".join(bytes([0, 0xC0 | channel, program]) for channel, program in ((0, 0), (1, 48)))
for i in range(30):
    events += bytes([0, 0x90, 60 + i % 12, 100, 0, 0x91, 48 + i % 7, 90])
    events += bytes([48, 0x80, 60 + i % 12, 0, 0, 0x81, 48 + i % 7, 0])
events += bytes([0, 0xFF, 0x2F, 0])
with open("song.mid", "wb") as file:
    file.write(b"MThd" + struct.pack(">IHHH", 6, 0, 1, 96))
    file.write(b"MTrk" + struct.pack(">I", len(events)) + events)
END
}

# While it is played, FluidSynth does not allocate in the function that its audio thread calls. When
# it renders a file, the same thread reads the song, and each block starts a team of OpenMP.
fluidsynth_callback() {
    local font=/usr/share/sounds/sf2/TimGM6mb.sf2
    have fluidsynth /usr/bin/fluidsynth fluidsynth && have fluidsynth $font timgm6mb-soundfont ||
        return
    printf 'noteon 0 60 100\nsleep 300\nnoteon 0 64 90\nsleep 300\nquit\n' >keys
    song
    expect fluidsynth/plays 0 "0 broken, 1 kept" --zone symbol=fluid_synth_write_s16 -- \
        fluidsynth -q -n -a file -o audio.file.name=played.raw -o audio.file.type=raw $font <keys
    if [ "$(stat -c %s played.raw 2>/dev/null || echo 0)" -lt 20000 ]; then
        echo "FAIL fluidsynth/plays: it has written no sound"
        failed=$((failed + 1))
    fi
    expect fluidsynth/renders 1 "new_fluid_midi_event" --zone symbol=fluid_synth_write_float -- \
        fluidsynth -q -n -i -F rendered.raw -T raw $font song.mid
}

# csound allocates an instrument's memory when a note needs it, unless the score prepares it.
csound_notes() {
    have csound /usr/bin/csound csound || return
    local prepare
    for prepare in "prealloc 1, 8" ""; do
        cat >"notes${prepare:+-prepared}.csd" <<END
<CsoundSynthesizer>
<CsOptions>
-n -d -m0
</CsOptions>
<CsInstruments>
sr = 44100
ksmps = 64
nchnls = 1
$prepare
instr 1
a1 oscili 0.1, p4
out a1
endin
</CsInstruments>
<CsScore>
i1 0.0 0.5 440
i1 0.1 0.5 550
i1 0.2 0.5 660
i1 0.3 0.5 770
e
</CsScore>
</CsoundSynthesizer>
END
    done
    printf '[[within]]\nfunction = "csoundPerform"\nallocations = 2\n' >csound.toml
    expect csound/prepared 0 "0 broken, 1 kept" --budget csound.toml -- csound notes-prepared.csd
    expect csound/unprepared 1 "the limit is 2" --budget csound.toml -- csound notes.csd
}

# A chain of effects allocates its buffers when it starts. An effect more needs more of them.
sox_effects() {
    have sox /usr/bin/sox sox || return
    printf '[[within]]\nfunction = "sox_flow_effects"\nallocations = 24\n' >sox.toml
    local command=(sox --single-threaded -n -r 44100 -b 16 -t raw tone.raw synth 1 sine 440)
    expect sox/tone 0 "0 broken, 1 kept" --budget sox.toml -- "${command[@]}"
    expect sox/reverb 1 "sox_flow_effects" --budget sox.toml -- "${command[@]}" reverb
}

# The frames of a game end at SDL_RenderPresent.
game_frames() {
    have game /usr/include/SDL2/SDL.h libsdl2-dev || return
    cc -O1 -g -fno-builtin -o game "$here/game.c" -I/usr/include/SDL2 -lSDL2 || {
        failed=$((failed + 1))
        return
    }
    "$keel" check --learn game.toml --warm-up 5 -- ./game >said 2>errors || cat said errors
    expect game/budget 0 "0 broken" --budget game.toml -- ./game
    expect game/particles 1 "particle (game.c:" --budget game.toml -- ./game more
}

# JACK calls its clients and the plug-ins of a host on a real-time thread, which neither allocates
# nor uses a file, and waits for the server between two blocks. The server runs without a device.
jack_clients() {
    have jack /usr/bin/jackd jackd2 && have jalv /usr/bin/jalv jalv &&
        have eg-amp /usr/lib/lv2/eg-amp.lv2 lv2-examples || return
    if ! chrt -f 10 true 2>/dev/null; then
        echo "SKIP jack: the system grants no SCHED_FIFO"
        skipped=$((skipped + 1))
        return
    fi
    export JACK_DEFAULT_SERVER=keel-$$ JACK_NO_AUDIO_RESERVATION=1 JACK_NO_START_SERVER=1
    timeout 100 jackd -R -P 10 -d dummy -r 44100 -p 1024 >server 2>&1 &
    local server=$! zone=(--zone class=fifo --also)
    local client=(jack_rec -f recorded.wav -d 2 -b 16 system:capture_1)
    local host=(jalv -p http://lv2plug.in/plugins/eg-amp)
    jack_wait -w -t 10 >/dev/null 2>&1
    expect jack/records 0 "0 broken, 1 kept" "${zone[@]}" files,sleeps -- "${client[@]}"
    expect jack/waits 1 " lock waits" "${zone[@]}" locks -- "${client[@]}"
    # The host ends with its input.
    expect jalv/amplifies 0 "0 broken, 1 kept" "${zone[@]}" files,sleeps -- "${host[@]}" \
        < <(sleep 3)
    expect jalv/waits 1 " lock waits" "${zone[@]}" locks -- "${host[@]}" < <(sleep 3)
    kill "$server"
}

fluidsynth_callback
csound_notes
sox_effects
game_frames
jack_clients
echo "total: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
