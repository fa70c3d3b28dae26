"use strict";
(() => {
  const NEAR = 26; // Pixels around a mark in which a pointer means it.
  const tip = document.getElementById("tip");
  const root = document.documentElement;
  let active = null;

  const hide = () => {
    if (active) active.classList.remove("active");
    active = null;
    tip.classList.remove("shown");
  };

  const show = (mark) => {
    if (mark === active) return;
    hide();
    active = mark;
    mark.classList.add("active");
    tip.textContent = mark.dataset.tip;
    const box = mark.getBoundingClientRect();
    const own = tip.getBoundingClientRect();
    const left = Math.min(Math.max(box.left + box.width / 2 - own.width / 2, 8), innerWidth - own.width - 8);
    const above = box.top - own.height - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 8 ? above : Math.min(box.bottom + 8, innerHeight - own.height - 8)}px`;
    tip.classList.add("shown");
  };

  const nearest = (chart, x, y) => {
    let best = null;
    let least = NEAR;
    for (const mark of chart.querySelectorAll("[data-tip]")) {
      const box = mark.getBoundingClientRect();
      const across = Math.max(box.left - x, 0, x - box.right);
      const down = Math.max(box.top - y, 0, y - box.bottom);
      const distance = Math.hypot(across, down);
      if (distance < least) [best, least] = [mark, distance];
    }
    return best;
  };

  for (const chart of document.querySelectorAll("svg.chart")) {
    const marks = [...chart.querySelectorAll("[data-tip]")];
    const point = (event) => {
      const mark = event.target.closest("[data-tip]") || nearest(chart, event.clientX, event.clientY);
      if (mark) show(mark);
      else hide();
    };
    chart.addEventListener("pointermove", point);
    chart.addEventListener("pointerdown", point);
    chart.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hide(); });
    chart.addEventListener("blur", hide);
    chart.addEventListener("focus", () => { if (marks.length && chart.matches(":focus-visible")) show(marks[0]); });
    chart.addEventListener("keydown", (event) => {
      const at = marks.indexOf(active);
      const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: marks.length - 1 }[event.key];
      if (event.key === "Escape") hide();
      if (next === undefined || !marks.length) return;
      event.preventDefault();
      show(marks[Math.min(Math.max(next, 0), marks.length - 1)]);
    });
  }
  addEventListener("scroll", hide, { passive: true });

  const button = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const name = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  dark.addEventListener("change", name);
  button.hidden = false;
  name();

  // On paper nothing can be opened or scrolled. Long tables would fill it, and wide ones would be cut off: they stay
  // closed, and are not printed.
  const MOST_ROWS = 60, MOST_COLUMNS = 9;
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")]
      .filter(each => each.querySelectorAll("tr").length <= MOST_ROWS
        && Math.max(0, ...[...each.querySelectorAll("thead tr")].map(row => row.children.length)) <= MOST_COLUMNS);
    for (const each of closed) each.open = true;
  });
  addEventListener("afterprint", () => { for (const each of closed) each.open = false; });
})();
