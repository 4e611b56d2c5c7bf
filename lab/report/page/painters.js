// Painters turn a sheet into pixels: WebGL2 where there is one, else Canvas 2D. Both know the same four bytes a texel.

const CHANNELS = { size: 1, difference: 1, cause: 2, thread: 3 };

/** Paints the columns from..to (may be fractions) of a sheet into a box of a 2D context. */
const canvasPainter = {
  name: "canvas",
  paint(context, box, sheet, from, to, scale, colour) {
    const first = clamp(Math.floor(from), 0, sheet.width);
    const last = clamp(Math.ceil(to), first, sheet.width);
    if (last === first) return;
    const image = new ImageData(last - first, sheet.height);
    const pixels = new Uint32Array(image.data.buffer);
    const ramp = rampOf(colour);
    const channel = CHANNELS[colour];
    for (let row = 0, to32 = 0; row < sheet.height; row += 1) {
      let at = (row * sheet.width + first) * 4;
      for (let column = first; column < last; column += 1, at += 4, to32 += 1) {
        const strength = sheet.bytes[at];
        if (strength) pixels[to32] = ramp[sheet.bytes[at + channel] * SHADES + shadeIndex(strength, scale)];
      }
    }
    const canvas = new OffscreenCanvas(image.width, image.height);
    canvas.getContext("2d").putImageData(image, 0, 0);
    const each = box.width / (to - from);
    context.imageSmoothingEnabled = false;
    context.drawImage(canvas, box.x + (first - from) * each, box.y, (last - first) * each, box.height);
  },
};

const shadeIndex = (strength, scale) =>
  Math.min(SHADES - 1, Math.floor((strength - 1) / STRENGTHS_PER_OCTAVE * scale + 0.5));

const VERTEX = `#version 300 es
out vec2 at;
void main() { at = vec2(gl_VertexID & 1, gl_VertexID >> 1); gl_Position = vec4(at * 2.0 - 1.0, 0, 1); }`;

const FRAGMENT = `#version 300 es
precision highp float;
precision highp int;
uniform highp usampler2D cells;
uniform highp sampler2D ramp;
uniform vec2 range;
uniform float scale;
uniform int channel;
in vec2 at;
out vec4 pixel;
void main() {
  ivec2 size = textureSize(cells, 0);
  ivec2 texel = ivec2(floor(mix(range.x, range.y, at.x)), floor((1.0 - at.y) * float(size.y)));
  pixel = vec4(0);
  if (texel.x < 0 || texel.x >= size.x || texel.y < 0 || texel.y >= size.y) return;
  uvec4 cell = texelFetch(cells, texel, 0);
  if (cell.r == 0u) return;
  uint hue = channel == 1 ? cell.g : channel == 2 ? cell.b : cell.a;
  int shade = min(${SHADES - 1}, int(floor(float(cell.r - 1u) / ${STRENGTHS_PER_OCTAVE}.0 * scale + 0.5)));
  pixel = texelFetch(ramp, ivec2(shade, int(hue)), 0);
}`;

/** One context for all panels: browsers give a page only a few. */
class GlPainter {
  constructor(canvas, gl) {
    this.name = "webgl2";
    this.canvas = canvas;
    this.gl = gl;
    this.textures = new Map();
    this.program = this.link();
    gl.useProgram(this.program);
    this.place = Object.fromEntries(["cells", "ramp", "range", "scale", "channel"]
      .map((name) => [name, gl.getUniformLocation(this.program, name)]));
    gl.uniform1i(this.place.cells, 0);
    gl.uniform1i(this.place.ramp, 1);
    gl.bindVertexArray(gl.createVertexArray());
    this.widest = gl.getParameter(gl.MAX_TEXTURE_SIZE);
  }

  link() {
    const { gl } = this;
    const program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS))
      throw new Error(gl.getProgramInfoLog(program) || "no program");
    return program;
  }

  texture(key, upload) {
    const { gl } = this;
    const found = this.textures.get(key);
    if (found) { gl.bindTexture(gl.TEXTURE_2D, found); return; }
    const texture = gl.createTexture();
    this.textures.set(key, texture);
    gl.bindTexture(gl.TEXTURE_2D, texture);
    for (const filter of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) {
      gl.texParameteri(gl.TEXTURE_2D, filter, gl.NEAREST);
    }
    for (const wrap of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) {
      gl.texParameteri(gl.TEXTURE_2D, wrap, gl.CLAMP_TO_EDGE);
    }
    upload();
  }

  forget(sheet) {
    this.gl.deleteTexture(this.textures.get(sheet) ?? null);
    this.textures.delete(sheet);
  }

  paint(context, box, sheet, from, to, scale, colour) {
    const { gl, canvas } = this;
    if (sheet.width > this.widest) { canvasPainter.paint(context, box, sheet, from, to, scale, colour); return; }
    const ratio = pixelRatio();
    const [width, height] = [Math.max(1, Math.round(box.width * ratio)), Math.max(1, Math.round(box.height * ratio))];
    if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
    gl.viewport(0, 0, width, height);
    gl.activeTexture(gl.TEXTURE0);
    this.texture(sheet, () => gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8UI, sheet.width, sheet.height, 0,
      gl.RGBA_INTEGER, gl.UNSIGNED_BYTE, sheet.bytes));
    gl.activeTexture(gl.TEXTURE1);
    const ramp = rampOf(colour);
    this.texture(ramp, () => gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, SHADES, ramp.length / SHADES, 0,
      gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(ramp.buffer)));
    gl.uniform2f(this.place.range, from, to);
    gl.uniform1f(this.place.scale, scale);
    gl.uniform1i(this.place.channel, CHANNELS[colour]);
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    context.imageSmoothingEnabled = false;
    context.drawImage(canvas, box.x, box.y, box.width, box.height);
  }
}

/** Whether the graphics are drawn by the processor, which does it slower than plain Canvas. */
const isSoftware = (gl) => {
  const info = gl.getExtension("WEBGL_debug_renderer_info");
  return /swiftshader|llvmpipe|software/i.test(info ? gl.getParameter(info.UNMASKED_RENDERER_WEBGL) : "");
};

const choosePainter = () => {
  // In the address, ?canvas asks for the plain one where a graphics driver misbehaves, ?webgl for the other where the
  // browser has it only in software, which is slower than the plain one.
  const asked = new URLSearchParams(location.search);
  if (asked.has("canvas")) return canvasPainter;
  try {
    const canvas = document.createElement("canvas");
    const options = { alpha: true, antialias: false, depth: false, preserveDrawingBuffer: true };
    const gl = canvas.getContext("webgl2", options);
    if (!gl || (isSoftware(gl) && !asked.has("webgl"))) return canvasPainter;
    canvas.addEventListener("webglcontextlost", () => { painter = canvasPainter; touch(["size"]); });
    return new GlPainter(canvas, gl);
  } catch { return canvasPainter; }
};
let painter = canvasPainter;
