// The ways to give an input: draw, a picture, a text, numbers. Which are offered depends on the model.

import { element } from "./charts.js";
import { fromDrawing, fromFile, numbers, pad } from "./picture.js";

const TITLES = { draw: "Draw", picture: "Picture", text: "Text", numbers: "Numbers" };
const at = (id) => document.getElementById(id);

const reshaped = (flat, shape) => {
  if (shape.length <= 1) return flat;
  const size = flat.length / shape[0];
  return Array.from({ length: shape[0] }, (_, place) => reshaped(flat.slice(place * size, (place + 1) * size), shape.slice(1)));
};

// `changed` is called whenever the input may have become complete or incomplete.
export const inputs = (changed, failed) => {
  let wanted = { kind: "numbers", shape: [0], range: null };
  let kind = "numbers";
  let pictured = false; // Whether the preview holds a picture of a file.
  const preview = at("preview");

  const see = () => {
    const shown = (kind === "draw" && !drawing.isEmpty()) || (kind === "picture" && pictured);
    if (kind === "draw" && shown) fromDrawing(at("pad"), preview, wanted.shape);
    at("seen").hidden = !shown;
    at("seen-text").textContent = `What the model sees: ${wanted.shape[2]} × ${wanted.shape[1]} pixels`;
  };
  const update = () => {
    see();
    changed();
  };
  const drawing = pad(at("pad"), () => update_when_ready());
  function update_when_ready() { if (wanted.shape.length === 3) update(); }

  at("clear").addEventListener("click", () => drawing.clear());
  const take = async (file) => {
    try {
      await fromFile(file, preview, wanted.shape);
      pictured = true;
      update();
    } catch {
      failed(new Error(`${file.name} is not a picture that this browser can read.`));
    }
  };
  at("file").addEventListener("change", () => { if (at("file").files[0]) take(at("file").files[0]); });
  const drop = at("drop");
  for (const name of ["dragover", "dragenter"]) {
    drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
  }
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
  });
  for (const id of ["text", "numbers"]) at(id).addEventListener("input", changed);

  const pick = (name) => {
    kind = name;
    for (const tab of at("kinds").children) {
      const chosen = tab.dataset.kind === name;
      tab.setAttribute("aria-selected", chosen);
      tab.tabIndex = chosen ? 0 : -1;
    }
    for (const each of Object.keys(TITLES)) at(`panel-${each}`).hidden = each !== name;
    update();
  };

  const offer = (input) => {
    const same = JSON.stringify(input) === JSON.stringify(wanted);
    wanted = input;
    if (same) return;
    const image = input.kind === "image";
    const kinds = image ? [...(input.shape[0] === 1 ? ["draw"] : []), "picture", "numbers"] : [input.kind];
    at("kinds").hidden = kinds.length < 2;
    at("kinds").replaceChildren(...kinds.map((name) => {
      const tab = element("button", { type: "button", id: `tab-${name}`, textContent: TITLES[name] });
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-controls", `panel-${name}`);
      tab.dataset.kind = name;
      tab.addEventListener("click", () => pick(name));
      return tab;
    }));
    const count = input.shape.reduce((one, other) => one * other, 1);
    at("numbers-title").textContent = `${count} numbers, separated by commas, spaces or lines`;
    at("hint").textContent = input.hint ?? "";
    pictured = false;
    drawing.clear();
    pick(kinds[0]);
  };
  at("kinds").addEventListener("keydown", (event) => {
    const tabs = [...at("kinds").children];
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = tabs[(tabs.findIndex((tab) => tab.dataset.kind === kind) + step + tabs.length) % tabs.length];
    pick(next.dataset.kind);
    next.focus();
  });

  const ready = () => ({
    draw: !drawing.isEmpty(), picture: pictured, text: Boolean(at("text").value.trim()), numbers: Boolean(at("numbers").value.trim()),
  })[kind];

  const pasted = () => {
    const words = at("numbers").value.split(/[\s,;[\]]+/).filter(Boolean);
    const flat = words.map(Number);
    const wrong = flat.findIndex((each) => !Number.isFinite(each));
    if (wrong >= 0) throw new Error(`${words[wrong]} is not a number.`);
    const count = wanted.shape.reduce((one, other) => one * other, 1);
    if (flat.length !== count) throw new Error(`${flat.length} numbers were given; the model takes ${count}.`);
    return reshaped(flat, wanted.shape);
  };

  const value = async () => {
    if (kind === "text") return { texts: [at("text").value] };
    if (kind === "numbers") return { inputs: [pasted()] };
    return { inputs: [numbers(preview, wanted.shape, wanted.range)] };
  };
  return { offer, ready, value, changed };
};
