// Bars and columns made of plain elements. Names are other people's text: they are set as text only.

export const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};

// Rows of { label, share (0 to 1), text, kind, best }.
export const bars = (place, rows) => {
  place.replaceChildren(
    ...rows.flatMap(({ label, share, text, kind = "", best = false }) => {
      const fill = element("i", { className: "fill" });
      fill.style.width = `${100 * Math.min(Math.max(share, 0), 1)}%`;
      const weight = best ? " best" : "";
      return [
        element("span", { className: `label${weight}`, title: label, textContent: label }),
        element("span", { className: `track ${kind}` }, fill),
        element("span", { className: `value${weight}`, textContent: text }),
      ];
    }),
  );
};

const FEW = 20; // Columns that have room for a name.
const SHORT = 3; // Letters of a name that stands level.

export const columns = (place, labels, counts) => {
  const most = Math.max(...counts, 1);
  place.classList.toggle("many", labels.length > FEW);
  place.classList.toggle("upright", labels.length <= FEW && labels.some((label) => label.length > SHORT));
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", labels.map((label, at) => `${label}: ${counts[at]}`).join(", "));
  place.replaceChildren(
    ...labels.map((label, at) => {
      const bar = element("i");
      bar.style.height = `calc(var(--room) * ${counts[at] / most})`;
      const title = `${label}: ${counts[at]} samples`;
      const number = element("b", { textContent: labels.length > FEW ? "" : counts[at] });
      return element("div", { className: counts[at] ? "" : "none", title }, number, bar, element("span", { textContent: label }));
    }),
  );
};

export const score = (value, percent) => (percent ? `${(100 * value).toFixed(1)} %` : value.toFixed(3));
