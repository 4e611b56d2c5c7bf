// Painters turn a raster into pixels, with WebGL2 where it is available and Canvas 2D otherwise.
//
// A painter draws the whole plot: background, grid lines, cells, and the dots of slow calls. Dots
// may extend beyond the plot's edges, so that the first and the last call are drawn in full. A
// painter is called for each frame of a gesture and must not depend on what was painted before.

const CHANNELS = { size: 1, difference: 1, cause: 2, thread: 3 };

/** A plot's box in device pixels. */
const deviceBox = ({ x, y, width, height }, ratio) => ({
  x: Math.round(x * ratio),
  y: Math.round(y * ratio),
  width: Math.max(1, Math.round(width * ratio)),
  height: Math.max(1, Math.round(height * ratio)),
});

/** Draws discs; the first is on top. */
const fillDots = (context, dots) => {
  for (let at = dots.length - 1; at >= 0; at -= 1) {
    const { x, y, radius, hue } = dots[at];
    context.fillStyle = css(unpacked(dots.shades[hue]));
    context.beginPath();
    context.arc(x, y, radius, 0, 7);
    context.fill();
  }
};

/** The dots that cross the edge of a plot's box. */
const dotsAtEdges = (dots, { x, y, width, height }) =>
  Object.assign(
    dots.filter(
      (dot) =>
        dot.x - dot.radius < x ||
        dot.x + dot.radius > x + width ||
        dot.y - dot.radius < y ||
        dot.y + dot.radius > y + height,
    ),
    { shades: dots.shades },
  );

/**
 * Writes the plot's pixels to an image and copies it to the canvas; only dots at the edges are
 * shapes.
 */
const canvasPainter = {
  name: "canvas",
  /**
   * `scene`: the plot, the y of its grid lines, the raster (or none) and its columns from..to in
   * view (fractions are allowed), the factor from strength to shade, and the dots, the first on
   * top.
   */
  paint(context, scene) {
    const { plot, lines, raster, dots } = scene;
    const ratio = pixelRatio();
    const box = deviceBox(plot, ratio);
    const image = imageOf(box);
    const words = new Uint32Array(image.data.buffer);
    words.fill(packedInk("plot"));
    for (const y of lines) {
      const [top, bottom] = [y, y + 1].map((edge) =>
        clamp(Math.round((edge - plot.y) * ratio), 0, box.height),
      );
      words.fill(packedInk("line"), top * box.width, bottom * box.width);
    }
    if (raster) writeCells(words, box, scene);
    for (let at = dots.length - 1; at >= 0; at -= 1) {
      const { x, y, radius, hue } = dots[at];
      writeDot(
        words,
        box,
        (x - plot.x) * ratio,
        (y - plot.y) * ratio,
        radius * ratio,
        dots.shades[hue],
      );
    }
    context.putImageData(image, box.x, box.y);
    fillDots(context, dotsAtEdges(dots, plot));
  },
};

let reused = null;
/** An image of this size with undefined contents, shared by all panels. */
const imageOf = ({ width, height }) => {
  if (reused?.width !== width || reused.height !== height) reused = new ImageData(width, height);
  return reused;
};

const shadeIndex = (strength, scale) =>
  Math.min(SHADES - 1, Math.floor(((strength - 1) / STRENGTHS_PER_OCTAVE) * scale + 0.5));

const shadesOfStrength = new Uint8Array(256);
const writeCells = (words, { width, height }, { raster, from, to, scale, colour }) => {
  for (let strength = 1; strength < 256; strength += 1)
    shadesOfStrength[strength] = shadeIndex(strength, scale);
  const columns = Int32Array.from({ length: width }, (_, x) =>
    Math.floor(from + ((x + 0.5) / width) * (to - from)),
  );
  let [first, end] = [0, width];
  while (first < end && columns[first] < 0) first += 1;
  while (end > first && columns[end - 1] >= raster.width) end -= 1;
  const ramp = rampOf(colour);
  const shift = CHANNELS[colour] * 8;
  // The lowest row of the raster is at the plot's bottom; the highest may extend above its top.
  const tall = (height * raster.height * raster.groups) / rowCount;
  const { texels } = raster;
  for (let y = 0; y < height; y += 1) {
    const row = Math.floor(((y + 0.5 - (height - tall)) / tall) * raster.height) * raster.width;
    const line = y * width;
    for (let x = first; x < end; x += 1) {
      const value = texels[row + columns[x]];
      if (value)
        words[line + x] = ramp[((value >>> shift) & 255) * SHADES + shadesOfStrength[value & 255]];
    }
  }
};

/** Draws a disc with an anti-aliased edge. */
const writeDot = (words, { width, height }, x, y, radius, colour) => {
  const reach = radius + 0.5;
  const [inner, outer] = [Math.max(0, radius - 0.5) ** 2, reach ** 2];
  const [left, right] = [
    Math.max(0, Math.floor(x - reach)),
    Math.min(width - 1, Math.floor(x + reach)),
  ];
  const [top, bottom] = [
    Math.max(0, Math.floor(y - reach)),
    Math.min(height - 1, Math.floor(y + reach)),
  ];
  for (let down = top; down <= bottom; down += 1) {
    for (let across = left; across <= right; across += 1) {
      const far = (across + 0.5 - x) * (across + 0.5 - x) + (down + 0.5 - y) * (down + 0.5 - y);
      if (far >= outer) continue;
      const at = down * width + across;
      words[at] = far <= inner ? colour : blend(words[at], colour, reach - Math.sqrt(far));
    }
  }
};

const blend = (under, over, share) => {
  const part = (shift) => {
    const [from, to] = [(under >>> shift) & 255, (over >>> shift) & 255];
    return Math.round(from + (to - from) * share) << shift;
  };
  return ((255 << 24) | part(16) | part(8) | part(0)) >>> 0;
};

const VERTEX = `#version 300 es
out vec2 at;
void main() {
  at = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  gl_Position = vec4(at * 2.0 - 1.0, 0, 1);
}`;

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
  float octaves = float(cell.r - 1u) / ${STRENGTHS_PER_OCTAVE}.0;
  int shade = min(${SHADES - 1}, int(floor(octaves * scale + 0.5)));
  pixel = texelFetch(ramp, ivec2(shade, int(hue)), 0);
}`;

/** One WebGL context for all panels: browsers limit the number of contexts of a page. */
class GlPainter {
  constructor(canvas, gl) {
    this.name = "webgl2";
    this.canvas = canvas;
    this.gl = gl;
    this.textures = new Map();
    this.program = this.link();
    gl.useProgram(this.program);
    this.place = Object.fromEntries(
      ["cells", "ramp", "range", "scale", "channel"].map((name) => [
        name,
        gl.getUniformLocation(this.program, name),
      ]),
    );
    gl.uniform1i(this.place.cells, 0);
    gl.uniform1i(this.place.ramp, 1);
    gl.bindVertexArray(gl.createVertexArray());
    this.widest = gl.getParameter(gl.MAX_TEXTURE_SIZE);
  }

  link() {
    const { gl } = this;
    const program = gl.createProgram();
    for (const [kind, source] of [
      [gl.VERTEX_SHADER, VERTEX],
      [gl.FRAGMENT_SHADER, FRAGMENT],
    ]) {
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
    if (found) {
      gl.bindTexture(gl.TEXTURE_2D, found);
      return;
    }
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

  forget(raster) {
    this.gl.deleteTexture(this.textures.get(raster) ?? null);
    this.textures.delete(raster);
  }

  paint(context, scene) {
    const { plot, lines, raster, dots } = scene;
    if (raster && raster.width > this.widest) {
      canvasPainter.paint(context, scene);
      return;
    }
    context.save();
    context.beginPath();
    context.rect(plot.x, plot.y, plot.width, plot.height);
    context.clip();
    context.fillStyle = ink().plot;
    context.fillRect(plot.x, plot.y, plot.width, plot.height);
    context.fillStyle = ink().line;
    for (const y of lines) context.fillRect(plot.x, y, plot.width, 1);
    if (raster) {
      const height = (plot.height * raster.height * raster.groups) / rowCount;
      const box = { x: plot.x, y: plot.y + plot.height - height, width: plot.width, height };
      this.render(box, scene);
      context.imageSmoothingEnabled = false;
      context.drawImage(this.canvas, box.x, box.y, box.width, box.height);
    }
    context.restore();
    fillDots(context, dots);
  }

  /** Draws the raster's columns onto the painter's own canvas. */
  render(box, { raster, from, to, scale, colour }) {
    const { gl, canvas } = this;
    const { width, height } = deviceBox(box, pixelRatio());
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    gl.viewport(0, 0, width, height);
    gl.activeTexture(gl.TEXTURE0);
    this.texture(raster, () =>
      gl.texImage2D(
        gl.TEXTURE_2D,
        0,
        gl.RGBA8UI,
        raster.width,
        raster.height,
        0,
        gl.RGBA_INTEGER,
        gl.UNSIGNED_BYTE,
        raster.bytes,
      ),
    );
    gl.activeTexture(gl.TEXTURE1);
    const ramp = rampOf(colour);
    this.texture(ramp, () =>
      gl.texImage2D(
        gl.TEXTURE_2D,
        0,
        gl.RGBA,
        SHADES,
        ramp.length / SHADES,
        0,
        gl.RGBA,
        gl.UNSIGNED_BYTE,
        new Uint8Array(ramp.buffer),
      ),
    );
    gl.uniform2f(this.place.range, from, to);
    gl.uniform1f(this.place.scale, scale);
    gl.uniform1i(this.place.channel, CHANNELS[colour]);
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
  }
}

/** Whether WebGL is emulated on the processor, which is slower than Canvas 2D. */
const isSoftware = (gl) => {
  const info = gl.getExtension("WEBGL_debug_renderer_info");
  return /swiftshader|llvmpipe|software/i.test(
    info ? gl.getParameter(info.UNMASKED_RENDERER_WEBGL) : "",
  );
};

const choosePainter = () => {
  // ?canvas in the address selects Canvas 2D, for broken graphics drivers. ?webgl selects WebGL2
  // even where it is emulated.
  const asked = new URLSearchParams(location.search);
  if (asked.has("canvas")) return canvasPainter;
  try {
    const canvas = document.createElement("canvas");
    const options = { alpha: true, antialias: false, depth: false, preserveDrawingBuffer: true };
    const gl = canvas.getContext("webgl2", options);
    if (!gl || (isSoftware(gl) && !asked.has("webgl"))) return canvasPainter;
    canvas.addEventListener("webglcontextlost", () => {
      painter = canvasPainter;
      invalidate(["size"]);
    });
    return new GlPainter(canvas, gl);
  } catch {
    return canvasPainter;
  }
};
let painter = canvasPainter;
