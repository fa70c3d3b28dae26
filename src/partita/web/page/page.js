// The page: a run, a client, an input, and the answers of the personal and of the global model.

import { get, keepToken, openReport, post } from "./api.js";
import { bars, columns, element, score } from "./charts.js";
import { inputs } from "./inputs.js";

const MOST = 100; // Clients in the list at a time.
const SHOWN = 12; // Labels in an answer.
const at = (id) => document.getElementById(id);
const here = new URLSearchParams(location.hash.slice(1));
let runs = [];
let run = null;
let client = null;
let asked = 0; // The number of the last question: answers to earlier ones are dropped.

const tell = (problem) => {
  at("problem").hidden = !problem;
  at("problem").textContent = problem ? problem.message : "";
};
// An action that may fail; the page then shows the problem at its top.
const attempt = (action) => async (...given) => {
  try {
    tell(null);
    await action(...given);
  } catch (problem) {
    if (problem.status === 401) askForToken();
    else tell(problem);
  }
};

const askForToken = () => {
  at("main").hidden = true;
  at("entry").hidden = false;
  at("token").focus();
};
at("entry").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(at("token").value.trim());
  start();
});

const start = attempt(async () => {
  ({ runs } = await get("runs"));
  at("entry").hidden = true;
  at("main").hidden = false;
  at("run").replaceChildren(
    ...runs.map((each) => element("option", { value: each.name, textContent: each.name, disabled: Boolean(each.problem) })),
  );
  listRuns();
  const usable = runs.filter((each) => !each.problem);
  if (!usable.length) throw new Error(runs.length ? runs[0].problem : "There are no runs here.");
  await choose((usable.find((each) => each.name === here.get("run")) || usable[0]).name, here.get("client"));
});

const choose = async (name, wanted = null) => {
  run = runs.find((each) => each.name === name);
  at("run").value = name;
  at("about-run").textContent = `${run.method} on ${run.data}, ${run.clients.toLocaleString("en")} ${run.clients === 1 ? "client" : "clients"}`;
  at("find").value = "";
  at("about-client").textContent = "Loading the models.";
  const takes = await get("signature", { run: name });
  run.global = takes.has_global;
  given.offer(takes);
  for (const row of at("runs").children) row.classList.toggle("chosen", row.dataset.run === name);
  const first = await list();
  await show(wanted ?? first);
};

const list = async (after = 0) => {
  const query = { run: run.name, find: at("find").value, offset: after, limit: MOST };
  const found = await get("clients", query);
  const rows = found.clients.map((each) => {
    const radio = element("input", { type: "radio", name: "client", value: each.client, checked: each.client === client });
    radio.addEventListener("change", attempt(() => show(each.client)));
    const size = each.samples === null ? "" : `${each.samples.toLocaleString("en")} training samples`;
    return element("label", {}, radio, element("span", { className: "name", textContent: `Client ${each.client}` }),
      element("span", { className: "score", textContent: each.score === null ? "" : score(each.score, !run.lower_is_better) }),
      element("span", { className: "size", textContent: size }));
  });
  if (after) at("clients").append(...rows);
  else at("clients").replaceChildren(...rows);
  const seen = after + rows.length;
  at("clients-title").textContent = `${found.total.toLocaleString("en")} ${found.total === 1 ? "client" : "clients"}`;
  at("more").hidden = seen >= found.total;
  at("more").onclick = attempt(() => list(seen));
  return found.clients[0]?.client ?? null;
};

const show = async (name) => {
  client = name;
  asked += 1;
  at("answers").replaceChildren();
  at("nothing").hidden = false;
  at("verdict").textContent = "";
  if (name === null) return;
  const found = await get(`clients/${encodeURIComponent(name)}`, { run: run.name });
  if (name !== client) return;
  history.replaceState(null, "", `#${new URLSearchParams({ run: run.name, client: name })}`);
  for (const radio of at("clients").querySelectorAll("input")) radio.checked = radio.value === name;
  at("client-title").textContent = `Client ${name}`;
  at("about-client").textContent = about(found);
  at("metric").textContent = run.metric;
  const { guarded, ...measured } = found.scores;
  // What the guard left as it is needs no bar of its own.
  const known = Object.entries(guarded === measured.personal ? measured : { personal: measured.personal, guarded, ...measured });
  const most = !run.lower_is_better ? 1 : Math.max(...known.map(([, value]) => value), 1e-9);
  bars(at("scores"), known.map(([kind, value]) => ({
    label: kind[0].toUpperCase() + kind.slice(1), share: value / most, text: score(value, !run.lower_is_better), kind, best: kind === "personal",
  })));
  at("gain").textContent = known.length ? comparison(found.scores) : "This client was not tested.";
  const { counts } = found;
  at("counts").hidden = !counts;
  at("no-counts").textContent = found.no_counts;
  if (counts) columns(at("counts"), found.labels, counts);
  given.changed();
};

const about = (found) => [
  found.samples === null ? "" : `${found.samples.toLocaleString("en")} training samples.`,
  found.new ? "Took no part in the training." : "",
].join(" ").trim();

const comparison = (scores) => {
  const words = [];
  for (const other of ["local", "global", "floor"]) {
    if (!(other in scores) || !("personal" in scores)) continue;
    const gain = (scores.personal - scores[other]) * (run.lower_is_better ? -1 : 1);
    const size = !run.lower_is_better ? `${Math.abs(100 * gain).toFixed(1)} points` : Math.abs(gain).toFixed(3);
    const name = { local: "local training", global: "the global model", floor: "the floor" }[other];
    words.push(Math.abs(gain) < 5e-4 ? `level with ${name}` : `${size} ${gain > 0 ? "better" : "worse"} than ${name}`);
  }
  return words.length ? `The personal model is ${words.join(", ")}.` : "";
};

// Answers.
const NAMES = { personal: "Personal model", global: "Global model" };

const answer = (kind, found) => {
  const made = element("div", { className: `answer ${kind}` }, element("h3", { textContent: NAMES[kind] }));
  if (found.problem) {
    made.append(element("p", { className: "quiet", textContent: found.problem }));
    return made;
  }
  const [said] = found.predictions;
  if (said.value) {
    made.append(element("p", { className: "says", textContent: said.value.map((each) => each.toFixed(3)).join(", ") }));
    return made;
  }
  const order = said.labels.map((label, place) => ({ label, share: said.probabilities[place] }));
  const best = order.reduce((one, other) => (other.share > one.share ? other : one));
  const rows = order.length > SHOWN ? [...order].sort((one, other) => other.share - one.share).slice(0, SHOWN) : order;
  const says = element("p", { className: "says", textContent: best.label });
  says.append(element("small", { textContent: score(best.share, true) }));
  const chart = element("div", { className: "bars" });
  bars(chart, rows.map((each) => ({ ...each, text: score(each.share, true), kind, best: each === best })));
  made.append(says, chart);
  if (found.guarded) made.append(element("p", { className: "note quiet", textContent: `This is ${found.about}.` }));
  return made;
};

const ask = attempt(async () => {
  const number = (asked += 1);
  const input = await given.value();
  for (const each of at("answers").children) each.classList.add("waiting");
  at("ask").disabled = true;
  const kinds = ["personal", ...(run.global ? ["global"] : [])];
  try {
    const found = await Promise.all(kinds.map((model) =>
      post("predict", { run: run.name, client, model, most: SHOWN, ...input })
        .catch((problem) => { if (problem.status === 401) throw problem; return { problem: problem.message }; })));
    if (number !== asked) return;
    at("nothing").hidden = true;
    at("answers").replaceChildren(...found.map((each, place) => answer(kinds[place], each)));
    at("verdict").textContent = verdict(found);
  } finally {
    at("ask").disabled = !given.ready();
  }
});

const verdict = (found) => {
  if (found.length < 2 || found.some((each) => each.problem || each.predictions[0].value)) return "";
  const [mine, theirs] = found.map((each) => each.predictions[0].label);
  return mine === theirs ? `Both models answer ${mine}.` : `The models differ: ${mine} for this client, ${theirs} for everyone.`;
};

const given = inputs(() => { at("ask").disabled = !given.ready(); }, (problem) => tell(problem));
at("ask").addEventListener("click", ask);

const listRuns = () => {
  at("runs").replaceChildren(...runs.map((each) => {
    const pick = element("button", { className: "link", type: "button", textContent: each.name });
    pick.addEventListener("click", attempt(async () => { await choose(each.name); scrollTo({ top: 0 }); }));
    const open = element("button", { className: "link", type: "button", textContent: "Open" });
    open.setAttribute("aria-label", `Report of ${each.name}`);
    open.addEventListener("click", attempt(() => openReport(each.name)));
    const cells = each.problem
      ? [each.name, element("span", { className: "quiet", textContent: each.problem }), "", "", "", ""]
      : [pick, each.method, each.data, each.clients.toLocaleString("en"), each.score === null ? "" : score(each.score, !each.lower_is_better), each.report ? open : ""];
    const row = element("tr", {}, ...cells.map((cell) => element("td", {}, cell)));
    row.dataset.run = each.name;
    return row;
  }));
};

at("run").addEventListener("change", attempt(() => choose(at("run").value)));
let waiting = 0;
at("find").addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(attempt(() => list()), 150);
});

// Dark and light.
const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
const nameTheme = () => { at("theme").textContent = isDark() ? "Light" : "Dark"; };
at("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
});
dark.addEventListener("change", nameTheme);
nameTheme();
start();
