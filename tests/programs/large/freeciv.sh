# needs: freeciv-server
# debian: freeciv-server
# about: a game server with five computer players, 40 turns
# stresses: a long-lived set of small blocks that changes in each turn
# not shown: many clients: there are none
# A game server with five computer players and no human player.
source "$SUPPORT"
cat >game.serv <<'SERV'
set mapseed 42
set gameseed 43
set size 2
set aifill 5
set timeout -1
set endturn 40
set autotoggle enabled
set minplayers 0
set threaded_save disabled
set saveturns 20
set compresstype plain
set scorelog enabled
hard
start
SERV
# work:
source "$SUPPORT"
give .
unprivileged freeciv-server -p "$(free_port)" -q 1 -e -r game.serv --Announce none \
    </dev/null >log 2>&1 || { echo "ended with $?"; tail -n 5 log >&2; }
# The times of messages and turns are left out.
for save in *.sav; do echo "$save $(sed -E '/_time=/d; s/^([0-9]+,[0-9]+),[0-9]{10},/\1,/' "$save" | sha256sum)"; done
