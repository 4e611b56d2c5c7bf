# needs: convert-im6.q16 identify-im6.q16
# debian: imagemagick
# about: filters of pictures of 900 x 700 points
# stresses: pixel buffers of some MB: mappings and page faults
# not shown: small blocks
source "$SUPPORT"
convert() { convert-im6.q16 "$@"; }
signature() { identify-im6.q16 -format '%wx%h %#\n' "$@"; }
convert -seed 7 -size 900x700 plasma:red-blue a.miff
convert -size 900x700 gradient:green-yellow -swirl 200 b.miff
signature a.miff b.miff
convert a.miff -blur 0x3 -sharpen 0x2 -resize 150% -rotate 17 c.miff
convert a.miff b.miff -compose Multiply -composite -colors 200 d.gif
convert a.miff -modulate 90,140,100 -wave 20x100 -implode 0.4 -charcoal 2 e.png
convert b.miff -quality 80 f.jpg
convert f.jpg -fx '(u.r+u.g*2+sin(i/20))/4' -resize 60% g.miff
signature c.miff d.gif e.png f.jpg g.miff
for i in $(seq 1 12); do convert a.miff -crop "200x200+$((i * 50))+$((i * 30))" +repage -paint 3 "t$i.miff"; done
convert t?.miff t??.miff -append all.miff
convert t?.miff t??.miff -morph 3 -delay 10 morph.gif
signature all.miff
signature morph.gif | sha256sum
compare-im6.q16 -metric RMSE a.miff b.miff null: 2>&1 | cut -d' ' -f1 || true
