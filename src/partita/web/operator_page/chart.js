// Lines and bars as SVG. Names are other people's text: they are set as text only.

const WIDTH = 480, HEIGHT = 224, LEFT = 44, RIGHT = 8, TOP = 8, BOTTOM = 22;

const svg = (tag, attributes = {}, text = "") => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text) made.textContent = text;
  return made;
};

const round = (value) => Math.round(10 * value) / 10;

// Ends of an axis that are plain numbers, and a few steps between them.
const ticks = (low, high) => {
  const raw = (high - low || Math.abs(high) || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw);
  const found = [];
  for (let at = Math.floor(low / step); at * step < high + step; at += 1) found.push(at * step);
  return found;
};

// `room` is what the last round takes to the right of where it begins.
const frame = (place, label, rounds, values, text, room = 0) => {
  const marks = ticks(Math.min(...values), Math.max(...values));
  const [low, high, first, last] = [marks[0], marks.at(-1), rounds[0], rounds.at(-1)];
  const x = (at) => LEFT + ((WIDTH - LEFT - RIGHT) * (at - first)) / Math.max(last - first + room, 1);
  const y = (value) => TOP + ((HEIGHT - TOP - BOTTOM) * (high - value)) / (high - low || 1);
  const made = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
  for (const mark of marks) {
    made.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: round(y(mark)), y2: round(y(mark)) }));
    made.append(svg("text", { x: LEFT - 6, y: round(y(mark)) + 4, "text-anchor": "end" }, text(mark)));
  }
  made.append(svg("text", { x: LEFT, y: HEIGHT - 4 }, `round ${first}`));
  if (last > first) made.append(svg("text", { x: WIDTH - RIGHT, y: HEIGHT - 4, "text-anchor": "end" }, `round ${last}`));
  place.replaceChildren(made);
  return { made, x, y };
};

// `mean` and each of `others` are pairs of a round and a value.
export const lines = (place, label, mean, others, text) => {
  const all = [...mean, ...Object.values(others).flat()];
  const { made, x, y } = frame(place, label, mean.map(([at]) => at), all.map(([, value]) => value), text);
  const points = (pairs) => pairs.map(([at, value]) => `${round(x(at))},${round(y(value))}`).join(" ");
  for (const [name, pairs] of Object.entries(others)) {
    const line = svg("polyline", { class: "one", points: points(pairs) });
    line.append(svg("title", {}, name));
    made.append(line);
  }
  made.append(svg("polyline", { class: "mean", points: points(mean) }));
  for (const [at, value] of mean) {
    const point = svg("circle", { class: "point", cx: round(x(at)), cy: round(y(value)), r: mean.length > 40 ? 1.5 : 3 });
    point.append(svg("title", {}, `round ${at}: ${text(value)}`));
    made.append(point);
  }
};

export const bars = (place, label, pairs, text) => {
  const { made, x, y } = frame(place, label, pairs.map(([at]) => at), [0, ...pairs.map(([, value]) => value)], text, 1);
  const width = Math.max(1, 0.7 * (x(pairs[0][0] + 1) - x(pairs[0][0])));
  for (const [at, value, note] of pairs) {
    const bar = svg("rect", { class: "bar", x: round(x(at)), y: round(y(value)), width: round(Math.min(width, 40)), height: round(y(0) - y(value)), rx: 2 });
    bar.append(svg("title", {}, `round ${at}: ${text(value)}${note}`));
    made.append(bar);
  }
};
