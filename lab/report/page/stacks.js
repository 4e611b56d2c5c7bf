// The call stacks: the tree of calls with its values, and the stack of a slow call as a list.
// Results have them if the journal was recorded with call stacks.

/** The tree, after it was loaded; null without stacks. Node 0 is the whole program. */
let stacks = null;

const loadStacks = () =>
  loadOnce("stacks", async () => {
    if (!facts.stacks) return null;
    const { nodes, rows, columns } = facts.stacks;
    const [bytesOfTree, bytesOfNames] = await Promise.all([
      inflate(`${facts.prefix}block-stacks`),
      inflate(`${facts.prefix}block-stack-names`),
    ]);
    const reader = new Reader(bytesOfTree);
    const parents = new Uint32Array(nodes);
    for (let node = 1; node < nodes; node += 1) parents[node] = node - reader.varint();
    const names = new Uint32Array(nodes);
    for (let node = 1; node < nodes; node += 1) names[node] = reader.varint();
    // The part of the time and the node of each row, as differences to the row before it.
    const [parts, at] = [new Uint32Array(rows), new Uint32Array(rows)];
    for (let row = 0; row < rows; row += 1) {
      const step = reader.varint();
      parts[row] = (row ? parts[row - 1] : 0) + step;
      at[row] = (row && !step ? at[row - 1] : 0) + reader.varint();
    }
    const values = columns.map(() => reader.varints(new Float64Array(rows)));
    const frames = JSON.parse(new TextDecoder().decode(bytesOfNames)).map(
      ([name, file, line, module, bits]) => ({
        name,
        file,
        line,
        module,
        inlined: (bits & 1) > 0,
        wrapper: (bits & 2) > 0,
      }),
    );
    stacks = { nodes, parents, ends: endsOf(parents), names, frames, parts, at, values };
    stacks.children = childrenOf(stacks);
    return stacks;
  });

/** Nodes are in preorder: the calls within `node` are node + 1 .. ends[node] - 1. */
const endsOf = (parents) => {
  const ends = Uint32Array.from(parents, (_, node) => node + 1);
  for (let node = parents.length - 1; node > 0; node -= 1)
    ends[parents[node]] = Math.max(ends[parents[node]], ends[node]);
  return ends;
};

const childrenOf = ({ nodes, parents }) => {
  const children = Array.from({ length: nodes }, () => []);
  for (let node = 1; node < nodes; node += 1) children[parents[node]].push(node);
  return children;
};

const frameAt = (node) => stacks.frames[stacks.names[node]];
const isWithin = (node, caller) => node >= caller && node < stacks.ends[caller];

/** The values of each node and of the calls within it, in the parts `from` .. `to` - 1. */
const stackTotals = (column, [from, to]) => {
  const totals = new Float64Array(stacks.nodes);
  const values = stacks.values[column];
  for (let row = lowerBound(stacks.parts, from); row < values.length; row += 1) {
    if (stacks.parts[row] >= to) break;
    totals[stacks.at[row]] += values[row];
  }
  for (let node = stacks.nodes - 1; node > 0; node -= 1)
    totals[stacks.parents[node]] += totals[node];
  return totals;
};

/** The parts of the time that are in view. */
const partsInView = () => {
  const { parts } = facts.stacks;
  const part = (time) => (time / facts.span_ns) * parts;
  return [Math.floor(part(state.view.from)), Math.max(1, Math.ceil(part(state.view.to)))];
};

/** `game.cpp:44`; empty if unknown. */
const placeOf = ({ file, line }) => {
  const name = file.slice(file.lastIndexOf("/") + 1);
  return name && line ? `${name}:${line}` : name;
};
const callText = (frame) => {
  const place = placeOf(frame);
  return place ? `${frame.name} (${place})` : frame.name;
};

/** The calls of a node's stack, innermost first. */
const callsOfNode = (node) => {
  const calls = [];
  for (let at = node; at > 0; at = stacks.parents[at]) calls.push(at);
  return calls;
};

/** The innermost call of a stack that is in no function that allocates for its caller. */
const siteOf = (node) => {
  const calls = callsOfNode(node);
  return calls.find((call) => !frameAt(call).wrapper) ?? calls[0];
};

/** The innermost known call of a slow call; 0 if its stack is unknown. */
const nodeOfCall = (outliers, at) => (stacks && outliers.stack ? outliers.stack[at] >> 1 : 0);

/** The call site of a slow call in words; empty if its stack is unknown. */
const siteText = (outliers, at) => {
  const node = nodeOfCall(outliers, at);
  return node ? callText(frameAt(siteOf(node))) : "";
};

/** Whether a slow call's stack passes through the selected call of the flame graph. */
const passesStack = (outliers, at) =>
  !state.stack || isWithin(nodeOfCall(outliers, at), state.stack);

/** Selects a call in the flame graph and scrolls to it. */
const showInFlame = (node) => {
  set({ stack: node });
  reveal(byId("stacks-section"));
};

/** One call of a list: its function, which leads to the flame graph, and its place. */
const stackItem = (node, site) => {
  const frame = frameAt(node);
  const button = make("button", {
    type: "button",
    class: "link",
    text: frame.name,
    title: "Show this call in the flame graph",
    onclick: () => showInFlame(node),
  });
  const where = [frame.file && `${frame.file}${frame.line ? `:${frame.line}` : ""}`];
  if (!frame.file) where.push(frame.module);
  if (frame.inlined) where.push("inlined");
  const kind = node === site ? "site" : frame.wrapper ? "wrapper" : null;
  return make("li", { class: kind }, button, make("small", { text: joined(where) }));
};

/** The stack of a slow call as a list, innermost call first; null if it is unknown. */
const stackList = (outliers, at) => {
  const node = nodeOfCall(outliers, at);
  if (!node) return null;
  const site = siteOf(node);
  const items = callsOfNode(node).map((call) => stackItem(call, site));
  if (outliers.stack[at] & 1)
    items.unshift(make("li", { class: "wrapper", text: "(inner calls are not in this page)" }));
  return make("ol", { class: "calls-of-stack" }, ...items);
};
