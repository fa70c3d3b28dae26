// Asks again and again how the federation is, and shows it.

import { bars, lines } from "./chart.js";

const PAUSE = 2000;
const KINDS = { introduce: "Introductions", train: "Training", stay_away: "Training", evaluate: "Evaluation" };
const by = (id) => document.getElementById(id);
const tell = (id, text) => { if (by(id).textContent !== text) by(id).textContent = text; };

const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};

const size = (count) => {
  const [unit, name] = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]].find(([each]) => count >= each) ?? [1, "B"];
  return `${(count / unit).toFixed(unit === 1 ? 0 : count / unit < 10 ? 2 : 1)} ${name}`;
};

const span = (seconds) => {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 129600 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
};

const since = (time, now) => (new Date(now) - new Date(time)) / 1000;
const clock = (time) => time.slice(0, 19).replace("T", " ");
const pairs = (course) => Object.entries(course).map(([round, value]) => [Number(round), value]).sort((a, b) => a[0] - b[0]);

const doing = (site, found) => {
  if (site.late) return ["late", `late: asked ${span(since(site.asked_since, found.time))} ago`];
  if (site.asked_since) return ["asked", `asked ${span(since(site.asked_since, found.time))} ago`];
  const last = found.refusals.find((each) => each.site === site.name);
  if (last && last.round >= found.round && found.state !== "done") return ["out", `left out: ${last.reason}`];
  return ["", found.now && site.last_answer && new Date(site.last_answer) >= new Date(found.now.since) ? "answered" : ""];
};

const cell = (text, right = true) => element("td", { className: right ? "right" : "", textContent: text });

const row = (site, found, score) => {
  const [kind, text] = doing(site, found);
  const dot = element("i", { className: `dot ${site.connected === null ? "" : site.connected ? "yes" : "no"}` });
  dot.title = site.connected === null ? "not known" : site.connected ? "connected" : "not connected";
  const cells = [
    ["Site", element("td", {}, dot, element("span", { className: "site", textContent: site.name }), element("span", { className: "quiet", textContent: site.connected === false ? " not connected" : "" }))],
    ["Now", element("td", {}, element("span", { className: kind && `is-${kind}`, textContent: text }))],
    ["Last seen", cell(site.connected ? "now" : site.last_seen ? `${span(since(site.last_seen, found.time))} ago` : "never", false)],
    ["Answers", cell(site.answers)],
    ["Left out", cell(site.left_out)],
    ["Received", cell(size(site.received))],
    ["Sent", cell(size(site.sent))],
    ["Score", cell(site.score === null ? "–" : score(site.score))],
  ];
  for (const [title, made] of cells) made.dataset.title = title;
  return element("tr", {}, ...cells.map(([, made]) => made));
};

const show = (found) => {
  const percent = found.metric === "accuracy";
  const score = (value) => (percent ? `${(100 * value).toFixed(1)} %` : value.toPrecision(4));
  const total = (key) => found.sites.reduce((sum, site) => sum + site[key], 0);
  document.title = `${found.round}/${found.rounds} ${found.label}: a federation`;
  tell("label", `${found.label}, ${found.sites.length} sites`);
  tell("updated", `as of ${clock(found.time)} UTC`);
  tell("state", found.state);
  by("state").className = `pill ${found.state}`;
  tell("rounds", `${found.round} of ${found.rounds}`);
  by("progress").style.width = `${(100 * found.round) / Math.max(found.rounds, 1)}%`;
  const now = found.now;
  tell("now", now ? KINDS[now.kind] ?? now.kind : "–");
  const ends = now ? `for ${span(since(now.since, found.time))}, until ${clock(now.until).slice(11)} at most` : "";
  tell("deadline", now ? `${now.round ? `of round ${now.round}, ` : ""}${ends}` : "");
  const known = found.sites.some((site) => site.connected !== null);
  tell("connected", known ? `${found.sites.filter((site) => site.connected).length} of ${found.sites.length}` : "–");
  const late = found.sites.filter((site) => site.late).map((site) => site.name);
  tell("late", late.length ? `late: ${late.join(", ")}` : "no site is late");
  tell("refused", String(found.refused));
  tell("bytes", size(total("received") + total("sent")));
  tell("bytes-note", `${size(total("received"))} to sites, ${size(total("sent"))} back`);
  tell("metric", found.metric ? found.metric[0].toUpperCase() + found.metric.slice(1) : "Score");
  by("sites").replaceChildren(...found.sites.map((site) => row(site, found, score)));
  const mean = pairs(found.course);
  tell("no-scores", mean.length ? "The mean over sites, and each site." : "No round has been evaluated yet.");
  if (mean.length) {
    const courses = Object.fromEntries(Object.entries(found.courses).map(([name, course]) => [name, pairs(course)]));
    lines(by("scores"), `Mean ${found.metric} by round: ${mean.map(([round, value]) => `${round}: ${score(value)}`).join(", ")}`, mean, courses, score);
  } else by("scores").replaceChildren();
  const seconds = found.seconds.map(([round, value, updates]) => [round, value, `, ${updates} updates`]);
  tell("no-seconds", seconds.length ? "" : "No round is over yet.");
  if (seconds.length) bars(by("seconds"), `Seconds by round: ${seconds.map(([round, value]) => `${round}: ${value.toFixed(1)}`).join(", ")}`, seconds, (value) => `${Number(value.toPrecision(3))} s`);
  else by("seconds").replaceChildren();
  by("no-refusals").hidden = found.refused > 0;
  by("refusals").replaceChildren(
    ...found.refusals.map((each) =>
      element("li", {}, ...[clock(each.time), each.round ? `round ${each.round}` : "before", each.site, each.reason].map((text) => element("span", { textContent: text }))),
    ),
  );
  by("main").hidden = false;
};

const look = async () => {
  let problem = "";
  try {
    const answer = await fetch("status", { cache: "no-store" });
    const found = await answer.json();
    if (answer.ok) show(found);
    else problem = found.detail;
  } catch {
    problem = "The command that shows this page has ended. What is below is what it said last.";
  }
  by("problem").hidden = !problem;
  tell("problem", problem);
  setTimeout(look, PAUSE);
};

look();
