# needs: povray
# debian: povray
# about: ray tracing of 2,500 spheres
# stresses: small blocks at the start, then few
# not shown: frees under load: the arithmetic dominates
source "$SUPPORT"
cat >scene.pov <<'POV'
#version 3.7;
global_settings { assumed_gamma 1.0 }
camera { location <0, 6, -14> look_at <0, 1, 0> }
light_source { <20, 30, -20> rgb 1 }
plane { y, -1 pigment { checker rgb 1 rgb 0.2 } finish { reflection 0.2 } }
#declare S = seed(7);
#declare N = function { pattern { bozo scale 0.4 } }
union {
#declare I = 0;
#while (I < 2500)
  sphere { <rand(S) * 12 - 6, rand(S) * 5, rand(S) * 12 - 6>, 0.05 + rand(S) * 0.1 texture { pigment { rgb <rand(S), rand(S), rand(S)> } finish { phong 0.5 } } }
  #declare I = I + 1;
#end
}
isosurface { function { x * x + y * y + z * z - 2 + N(x, y, z) } contained_by { box { -2, 2 } } max_gradient 3 pigment { bozo turbulence 1 } }
#declare M = mesh { #declare I = 0; #while (I < 12000) triangle { <rand(S) * 8 - 4, 4, rand(S) * 8 - 4>, <rand(S), 5, rand(S)>, <rand(S) * 2, 4.5, rand(S) * 2> } #declare I = I + 1; #end }
object { M pigment { granite } }
POV
# work:
source "$SUPPORT"
povray +Iscene.pov +Oimage.ppm +FP +W160 +H120 +WT1 +A0.3 -D -GA >log 2>&1 || { tail -n 20 log >&2; exit 1; }
# Without the picture's comments, which contain the time.
LC_ALL=C sed '1,12{/^#/d}' image.ppm | sha256sum
