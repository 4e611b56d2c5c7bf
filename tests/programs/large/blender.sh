# needs: blender
# debian: blender
# about: modifiers, booleans, undo, a Cycles render, save and open, without a window
# stresses: large arrays, and small blocks of several threads
# not shown: the graphics card's memory
source "$SUPPORT"
cat >work.py <<'PYTHON'
import bpy, bmesh, hashlib, math, os

def digest(mesh):
    text = "".join("%.4f %.4f %.4f;" % tuple(v.co) for v in mesh.vertices)
    return hashlib.sha256(text.encode()).hexdigest()[:16]

for item in list(bpy.data.objects):
    bpy.data.objects.remove(item)
made = []
for n in range(6):
    bpy.ops.mesh.primitive_monkey_add(location=(n * 3 % 7, n, n / 2))
    item = bpy.context.object
    for kind, settings in (("SUBSURF", {"levels": 2}), ("DECIMATE", {"ratio": 0.6}), ("SOLIDIFY", {"thickness": 0.05})):
        modifier = item.modifiers.new(kind, kind)
        for name, value in settings.items():
            setattr(modifier, name, value)
    for modifier in list(item.modifiers):
        bpy.ops.object.modifier_apply(modifier=modifier.name)
    made.append(item)
    print("RESULT monkey", n, len(item.data.vertices), len(item.data.polygons), digest(item.data))
for item in made[:2]:
    item.select_set(True)
bpy.context.view_layer.objects.active = made[0]
cut = made[0].modifiers.new("cut", "BOOLEAN")
cut.object, cut.solver = made[1], "FAST"
bpy.ops.object.modifier_apply(modifier="cut")
print("RESULT cut", len(made[0].data.vertices), digest(made[0].data))
mesh = bmesh.new()
mesh.from_mesh(made[2].data)
bmesh.ops.subdivide_edges(mesh, edges=mesh.edges[:3000], cuts=1)
bmesh.ops.triangulate(mesh, faces=mesh.faces)
print("RESULT bmesh", len(mesh.verts), len(mesh.faces))
mesh.free()
for _ in range(20):
    bpy.ops.ed.undo_push(message="step")
    copy = made[3].copy()
    copy.data = made[3].data.copy()
    bpy.context.collection.objects.link(copy)
scene = bpy.context.scene
camera = bpy.data.objects.new("camera", bpy.data.cameras.new("camera"))
camera.location, camera.rotation_euler = (4, -14, 4), (math.radians(80), 0, 0)
lamp = bpy.data.objects.new("lamp", bpy.data.lights.new("lamp", "SUN"))
for item in (camera, lamp):
    bpy.context.collection.objects.link(item)
scene.camera = camera
scene.render.engine = "CYCLES"
scene.cycles.samples, scene.cycles.seed, scene.cycles.use_denoising = 4, 1, False
scene.render.resolution_x, scene.render.resolution_y, scene.render.resolution_percentage = 160, 90, 100
scene.render.filepath = os.path.abspath("image.png")
bpy.ops.render.render(write_still=True)
pixels = bpy.data.images.load(scene.render.filepath).pixels[:]
# With threads the last bits of the modifiers' results vary, with any malloc:
# docs/reference/programs.md.
print("RESULT image", len(pixels), "%.2e" % sum(pixels))
bpy.ops.wm.save_as_mainfile(filepath=os.path.abspath("scene.blend"))
bpy.ops.wm.open_mainfile(filepath=os.path.abspath("scene.blend"))
print("RESULT objects", len(bpy.data.objects), sum(len(m.vertices) for m in bpy.data.meshes))
PYTHON
# work:
source "$SUPPORT"
blender -b --factory-startup --python-exit-code 7 -P work.py >log 2>&1 || { tail -n 20 log >&2; exit 1; }
grep '^RESULT' log
