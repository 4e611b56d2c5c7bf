# needs: tclsh
# debian: tcl
# about: lists, dictionaries and strings
# stresses: one small block for each value; its own cache for threads
# not shown: large blocks
source "$SUPPORT"
cat >work.tcl <<'TCL'
proc tree {d} { if {$d == 0} { return x }; list [tree [expr {$d - 1}]] [tree [expr {$d - 1}]] }
puts [string length [tree 18]]
array set table {}
for {set i 0} {$i < 600000} {incr i} { set table([expr {$i * 7919 % 20011}]) [string repeat ab [expr {$i % 40}]] }
puts [array size table]
set total 0
foreach k [lsort -integer [array names table]] { incr total [string length $table($k)] }
puts $total
set text ""
for {set i 0} {$i < 60000} {incr i} { append text "item [expr {$i * 31 % 997}]," }
puts [llength [lsort -unique [split $text ,]]]
puts [regsub -all {(\d)(\d)} $text {\2\1} changed]
set d [dict create]
for {set i 0} {$i < 400000} {incr i} { dict lappend d k[expr {$i % 900}] $i }
puts [dict size $d]
for {set i 0} {$i < 40} {incr i} { interp create i$i; i$i eval { set a {}; for {set i 0} {$i < 3000} {incr i} { lappend a [format %08d $i] } }; interp delete i$i }
set x 1
for {set i 1} {$i <= 1500} {incr i} { set x [expr {$x * $i}] }
puts [string length $x]
coroutine c apply {{} { yield; for {set i 0} {$i < 20000} {incr i} { yield $i } }}
set sum 0
for {set i 0} {$i < 20000} {incr i} { incr sum [c] }
puts $sum
TCL
# work:
source "$SUPPORT"
tclsh work.tcl
