# needs: vips
# debian: libvips-tools
# about: filters of a picture of 3,200 x 2,400 points with two threads
# stresses: buffers of regions that threads allocate and free
# not shown: small blocks
# work:
source "$SUPPORT"
export VIPS_CONCURRENCY=2
vips perlin a.v 3200 2400 --seed 7
vips linear a.v b.v 100 120
vips cast b.v c.v uchar
vips gaussblur c.v d.v 6
vips resize d.v e.v 0.7
vips rotate e.v f.v 17
vips copy c.v c2.v --interpretation b-w
vips sharpen c2.v g.png
vips jpegsave c2.v h.jpg --Q 80
vips hist_equal c.v i.v
vips thumbnail g.png j.png 300
for image in c.v d.v e.v f.v g.png i.v j.png; do printf '%s ' "$image"; vips avg "$image"; done
vips deviate c.v
vips copy i.v k.png
sha256sum <k.png
