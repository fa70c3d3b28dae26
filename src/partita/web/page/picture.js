// Pictures become the numbers of an input: drawn, or from a file.

const SIDE = 280;
const PEN = 22;
const STEP = 14;

// The pad: white on black, by pointer or by keys. `changed` is called after each stroke.
export const pad = (canvas, changed) => {
  const ink = canvas.getContext("2d", { willReadFrequently: true });
  let empty = true;
  let last = null;
  let pen = { x: SIDE / 2, y: SIDE / 2, down: false };

  const line = (from, to) => {
    ink.strokeStyle = "#fff";
    ink.lineWidth = PEN;
    ink.lineCap = ink.lineJoin = "round";
    ink.beginPath();
    ink.moveTo(from.x, from.y);
    ink.lineTo(to.x, to.y + 0.01);
    ink.stroke();
    empty = false;
  };
  const clear = () => {
    ink.fillStyle = "#000";
    ink.fillRect(0, 0, SIDE, SIDE);
    empty = true;
    pen = { x: SIDE / 2, y: SIDE / 2, down: false };
    changed();
  };
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: ((event.clientX - box.left) * SIDE) / box.width, y: ((event.clientY - box.top) * SIDE) / box.height };
  };
  canvas.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    last = place(event);
    line(last, last);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!last) return;
    const next = place(event);
    line(last, next);
    last = next;
  });
  const lift = () => {
    if (last) changed();
    last = null;
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] }[event.key];
    if (move) {
      const next = { ...pen, x: Math.min(Math.max(pen.x + move[0], 0), SIDE), y: Math.min(Math.max(pen.y + move[1], 0), SIDE) };
      if (pen.down) line(pen, next);
      pen = next;
      if (pen.down) changed();
    } else if (event.key === " ") {
      pen.down = !pen.down;
      if (pen.down) line(pen, pen);
      changed();
    } else if (event.key === "Escape") clear();
    else return;
    event.preventDefault();
  });
  clear();
  return { clear, isEmpty: () => empty };
};

// Where something is drawn: left, top, width, height.
const drawn = (canvas) => {
  const { width, height } = canvas;
  const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  let [left, top, right, bottom] = [width, height, -1, -1];
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      if (pixels[4 * (y * width + x)] < 32) continue;
      [left, right] = [Math.min(left, x), Math.max(right, x)];
      [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
    }
  }
  return [left, top, right - left + 1, bottom - top + 1];
};

// A smaller picture by the mean of areas; browsers' own scaling leaves pixels out.
const shrink = (source, [left, top, width, height], [across, down]) => {
  const target = new OffscreenCanvas(across, down);
  const ink = target.getContext("2d");
  ink.imageSmoothingEnabled = true;
  ink.imageSmoothingQuality = "high";
  let from = source;
  let box = [left, top, width, height];
  while (box[2] > 2 * across && box[3] > 2 * down) {
    const half = new OffscreenCanvas(Math.ceil(box[2] / 2), Math.ceil(box[3] / 2));
    half.getContext("2d").drawImage(from, ...box, 0, 0, half.width, half.height);
    [from, box] = [half, [0, 0, half.width, half.height]];
  }
  ink.drawImage(from, ...box, 0, 0, across, down);
  return target;
};

// Digits of scanned collections fill their picture, or are centred with a margin where the picture has room for one.
export const fromDrawing = (canvas, preview, [, down, across]) => {
  const box = drawn(canvas);
  const room = Math.min(down, across) >= 20 ? 20 / 28 : 1;
  const scale = (room * Math.min(down, across)) / Math.max(box[2], box[3]);
  const size = [Math.max(Math.round(box[2] * scale), 1), Math.max(Math.round(box[3] * scale), 1)];
  const small = shrink(canvas, box, size);
  [preview.width, preview.height] = [across, down];
  const ink = preview.getContext("2d", { willReadFrequently: true });
  ink.fillStyle = "#000";
  ink.fillRect(0, 0, across, down);
  ink.drawImage(small, Math.round((across - size[0]) / 2), Math.round((down - size[1]) / 2));
};

export const fromFile = async (file, preview, [, down, across]) => {
  const picture = await createImageBitmap(file);
  // The middle of the picture, in the proportions of the input.
  const scale = Math.min(picture.width / across, picture.height / down);
  const [width, height] = [across * scale, down * scale];
  const small = shrink(picture, [(picture.width - width) / 2, (picture.height - height) / 2, width, height], [across, down]);
  [preview.width, preview.height] = [across, down];
  const ink = preview.getContext("2d", { willReadFrequently: true });
  ink.fillStyle = "#fff";
  ink.fillRect(0, 0, across, down);
  ink.drawImage(small, 0, 0);
};

// One input of shape (channels, height, width), with values from `low` to `high`.
export const numbers = (preview, [channels, down, across], [low, high]) => {
  const pixels = preview.getContext("2d").getImageData(0, 0, across, down).data;
  const value = (at, channel) =>
    channels === 1 ? 0.299 * pixels[at] + 0.587 * pixels[at + 1] + 0.114 * pixels[at + 2] : pixels[at + channel];
  const scaled = (each) => (high === 255 && low === 0 ? Math.round(each) : low + ((high - low) * each) / 255);
  return Array.from({ length: channels }, (_, channel) =>
    Array.from({ length: down }, (_, y) =>
      Array.from({ length: across }, (_, x) => scaled(value(4 * (y * across + x), channel))),
    ),
  );
};
