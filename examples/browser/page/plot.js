// A small line plot in SVG: one series over a linear axis, with the range of its values.

const WIDTH = 440;
const HEIGHT = 180;
const LEFT = 46;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 24;

// Draws `points`, pairs of x and y with ascending x, into an <svg>. The axis has firstX to lastX.
export function drawPlot(svg, points, firstX, lastX) {
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.replaceChildren();
  if (points.length === 0) return;
  const values = points.map(([, y]) => y);
  const [low, high] = paddedRange(Math.min(...values), Math.max(...values));
  const width = Math.max(1, lastX - firstX);
  const xOf = x => LEFT + (x - firstX) / width * (WIDTH - LEFT - RIGHT);
  const yOf = y => TOP + (high - y) / (high - low) * (HEIGHT - TOP - BOTTOM);
  for (const y of [low, (low + high) / 2, high]) {
    add(svg, "line", {x1: LEFT, x2: WIDTH - RIGHT, y1: yOf(y), y2: yOf(y), class: "grid"});
    add(svg, "text", {x: LEFT - 6, y: yOf(y) + 4, "text-anchor": "end"}, y.toFixed(2));
  }
  add(svg, "text", {x: LEFT, y: HEIGHT - 6}, String(firstX));
  add(svg, "text", {x: WIDTH - RIGHT, y: HEIGHT - 6, "text-anchor": "end"}, String(lastX));
  const places = points.map(([x, y]) => `${xOf(x).toFixed(1)},${yOf(y).toFixed(1)}`);
  add(svg, "polyline", {points: places.join(" "), class: "series"});
  if (points.length <= 50) {
    for (const [x, y] of points) add(svg, "circle", {cx: xOf(x), cy: yOf(y), r: 2.5, class: "dot"});
  }
}

function paddedRange(low, high) {
  const padding = Math.max(0.05 * (high - low), 0.01);
  return [low - padding, high + padding];
}

function add(svg, tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  svg.append(node);
}
