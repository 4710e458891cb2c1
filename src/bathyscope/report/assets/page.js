"use strict";
// Strips: the block and its value under the pointer, a finger, or the arrow keys.
(() => {
  const tip = document.getElementById("tip");
  const names = {};
  const namesOf = (id) => (names[id] ??= JSON.parse(document.getElementById(id).textContent));
  let hair = null;

  function show(strip, at) {
    const values = strip.dataset.values.split("|");
    at = Math.max(0, Math.min(values.length - 1, at));
    strip.dataset.at = at;
    const [index, label] = namesOf(strip.dataset.blocks)[at];
    const what = [strip.dataset.name, strip.dataset.when].filter(Boolean).join(", ");
    tip.textContent = `block ${index}  ${label}\n${what}: ${values[at]}`;
    tip.hidden = false;
    const box = strip.getBoundingClientRect();
    const x = box.left + ((at + 0.5) / values.length) * box.width;
    const above = box.top - tip.offsetHeight - 6;
    tip.style.left = `${Math.max(4, Math.min(innerWidth - tip.offsetWidth - 4, x - tip.offsetWidth / 2))}px`;
    tip.style.top = `${above > 4 ? above : box.bottom + 6}px`;
    drawHair(strip.closest(".strips"), x);
  }
  function drawHair(strips, x) {
    if (!hair) { hair = document.createElement("div"); hair.id = "hair"; }
    if (hair.parentNode !== strips) strips.append(hair);
    const frame = strips.getBoundingClientRect();
    const axis = strips.querySelector(".row").getBoundingClientRect();
    hair.style.left = `${x - frame.left}px`;
    hair.style.top = `${axis.top - frame.top}px`;
    hair.style.bottom = "0";
    hair.hidden = false;
  }
  function hide() { tip.hidden = true; if (hair) hair.hidden = true; }

  for (const strip of document.querySelectorAll(".strip")) {
    const under = (event) => {
      const box = strip.getBoundingClientRect();
      const count = strip.dataset.values.split("|").length;
      show(strip, Math.floor(((event.clientX - box.left) / box.width) * count));
    };
    strip.addEventListener("pointermove", under);
    strip.addEventListener("pointerdown", under);
    strip.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hide(); });
    strip.addEventListener("blur", hide);
    strip.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 }[event.key];
      if (event.key === "Escape") hide();
      if (step === undefined) return;
      event.preventDefault();
      show(strip, Number(strip.dataset.at ?? (step > 0 ? -1 : 0)) + step);
    });
  }
  document.addEventListener("pointerdown", (event) => { if (!event.target.closest(".strip")) hide(); });
  addEventListener("scroll", hide, { passive: true });
})();

// Table: a click on a header sorts worst first, a second click turns it round.
(() => {
  const table = document.querySelector("table");
  if (!table) return;
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const depth = new Map([...body.rows].map((row, at) => [row, at]));

  function badness(text, bad, target) { // greater is worse; what is missing comes last
    if (text === "") return -Infinity;
    const value = Number(text);
    if (!Number.isFinite(value)) return Infinity;
    if (bad === "low") return -value;
    if (bad === "away") return Math.abs(value - target);
    if (bad === "factor") return value > 0 ? Math.abs(Math.log(value / target)) : Number.MAX_VALUE;
    return value;
  }
  function sortBy(head, reverse) {
    const at = heads.indexOf(head);
    const { bad, target } = head.dataset;
    const numeric = [...body.rows].some(({ cells }) => cells[at].dataset.v !== undefined || cells[at].classList.contains("n"));
    const key = (row) => {
      const cell = row.cells[at];
      if (head.dataset.column === "index") return -depth.get(row);
      if (!numeric) return cell.textContent;
      return badness(cell.dataset.v ?? cell.textContent, bad, Number(target)); // most digits are in data-v, if more than shown
    };
    const keyed = [...body.rows].map((row) => [key(row), row]);
    const missing = (k) => k === -Infinity;
    keyed.sort(([a, rowA], [b, rowB]) => {
      if (missing(a) !== missing(b)) return missing(a) ? 1 : -1;
      const order = numeric || head.dataset.column === "index" ? (a < b ? 1 : a > b ? -1 : 0) : String(a).localeCompare(String(b), undefined, { numeric: true });
      return (reverse ? -order : order) || depth.get(rowA) - depth.get(rowB);
    });
    body.append(...keyed.map(([, row]) => row));
    for (const other of heads) other.removeAttribute("aria-sort");
    const ascending = (!numeric || bad === "low") !== reverse;
    head.setAttribute("aria-sort", bad === "away" || bad === "factor" ? "other" : ascending ? "ascending" : "descending");
    head.dataset.reverse = reverse ? "" : "next";
  }
  const sortNext = (head) => sortBy(head, head.hasAttribute("aria-sort") && head.dataset.reverse === "next");

  for (const head of heads) head.querySelector("button").addEventListener("click", () => sortNext(head));
  for (const button of document.querySelectorAll("[data-sort]")) {
    const head = heads.find((h) => h.dataset.column === button.dataset.sort);
    button.addEventListener("click", () => sortBy(head, false));
  }
  document.getElementById("all-columns").addEventListener("change", (event) => {
    table.classList.toggle("all", event.target.checked);
  });
})();

// Plots: colours of text and grid come from the style sheet.
(() => {
  const coarse = matchMedia("(pointer: coarse)").matches; // a finger scrolls; the buttons zoom
  for (const script of document.querySelectorAll("script[data-plot]")) {
    const { alike, data, layout } = JSON.parse(script.textContent);
    Object.assign(layout, {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { size: 12 }, dragmode: coarse ? false : "zoom",
    });
    const lines = data.map((line) => ({ ...alike[line.alike], ...line }));
    Plotly.newPlot(script.dataset.plot, lines, layout, {
      responsive: true, displaylogo: false, displayModeBar: coarse ? true : "hover",
      modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
    });
  }
})();

// On paper plots take the width of the sheet, and no more than its height.
(() => {
  const plots = [...document.querySelectorAll(".plot")];
  const onScreen = new Map(plots.map((plot) => [plot, plot.style.height]));
  addEventListener("beforeprint", () => {
    for (const plot of plots) {
      const height = Math.min(plot.offsetHeight, 900);
      plot.style.height = `${height}px`;
      Plotly.relayout(plot, { width: 680, height });
    }
  });
  addEventListener("afterprint", () => {
    for (const plot of plots) {
      plot.style.height = onScreen.get(plot);
      Plotly.relayout(plot, { width: null, height: null, autosize: true });
    }
  });
})();
