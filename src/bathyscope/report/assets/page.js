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
    const [index, label] = namesOf(strip.dataset.places)[at];
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
  addEventListener("resize", hide);  // where it stood may lie outside of the window now

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

// Plots: values under the pointer or the arrow keys; dragging zooms all plots of a group, double-click goes back.
(() => {
  const tip = document.getElementById("tip");
  const lists = {};
  const placesOf = (id) => (lists[id] ??= JSON.parse(document.getElementById(id).textContent));
  const view = (svg) => svg.getAttribute("viewBox").split(" ").map(Number);
  const short = (value) => String(Number(value.toPrecision(4)));

  function nearest(list, x) { // lists are in order
    let low = 0, high = list.length - 1;
    while (high - low > 1) { const middle = (low + high) >> 1; if (list[middle][0] < x) low = middle; else high = middle; }
    return Math.abs(list[low][0] - x) <= Math.abs(list[high][0] - x) ? low : high;
  }
  function tell(area, x) {
    const svg = area.querySelector("svg");
    const [start, , width] = view(svg);
    const title = area.closest(".panel").querySelector("figcaption").textContent;
    let at = null;
    const told = [...svg.querySelectorAll(".line")].map((line) => {
      const list = placesOf(line.dataset.places);
      if (!list.length) return "";
      const i = nearest(list, x);
      at ??= list[i];
      return `${line.dataset.name || title}: ${line.dataset.values.split("|")[i] ?? "–"}`;
    }).filter(Boolean);
    if (!at) return;
    const axis = area.parentNode.querySelector(".x").dataset.axis;
    tip.textContent = [`${axis} ${short(at[0])}  ${at[1]}`, ...(told.length > 1 ? [title] : []), ...told].join("\n");
    tip.hidden = false;
    area.dataset.at = at[0];
    const box = area.getBoundingClientRect();
    const place = box.left + ((at[0] - start) / width) * box.width;
    tip.style.left = `${Math.max(4, Math.min(innerWidth - tip.offsetWidth - 4, place + 12))}px`;
    tip.style.top = `${Math.max(4, box.top - 4)}px`;
    let hair = area.querySelector(".hair");
    if (!hair) { hair = document.createElement("div"); hair.className = "hair"; area.append(hair); }
    hair.hidden = false;
    hair.style.left = `${place - box.left}px`;
  }
  function hide(area) { tip.hidden = true; const hair = area.querySelector(".hair"); if (hair) hair.hidden = true; }

  function names(area) { // about six names of blocks, or numbers of steps, in what is shown
    const row = area.parentNode.querySelector(".x");
    const [start, , width] = view(area.querySelector("svg"));
    const longest = [...area.querySelectorAll(".line")].map((l) => placesOf(l.dataset.places)).reduce((a, b) => (b.length > a.length ? b : a), []);
    const inside = longest.filter(([x]) => x >= start && x <= start + width);
    const stride = Math.max(1, Math.ceil((inside.length - 1) / 5));
    row.replaceChildren(...inside.filter((_, i) => i % stride === 0).map(([x, name]) => {
      const tick = document.createElement("span");
      tick.textContent = name || short(x);
      tick.style.left = `${((x - start) / width) * 100}%`;
      return tick;
    }));
  }
  function zoom(area, start, end) {
    const group = area.closest(".plots") ?? area.closest(".panel");
    for (const other of group.querySelectorAll(".area")) {
      other.querySelector("svg").setAttribute("viewBox", `${start} 0 ${end - start} 100`);
      names(other);
    }
  }
  function reset(area) {
    const group = area.closest(".plots") ?? area.closest(".panel");
    for (const other of group.querySelectorAll(".area")) {
      const svg = other.querySelector("svg");
      if (svg.getAttribute("viewBox") !== svg.dataset.view) { svg.setAttribute("viewBox", svg.dataset.view); names(other); }
    }
  }

  for (const area of document.querySelectorAll(".area")) {
    const under = (event) => {
      const box = area.getBoundingClientRect();
      const [start, , width] = view(area.querySelector("svg"));
      return start + ((event.clientX - box.left) / box.width) * width;
    };
    let from = null, begin = 0, shade = null;
    area.addEventListener("pointermove", (event) => {
      if (from === null) { tell(area, under(event)); return; }
      const box = area.getBoundingClientRect();
      shade.style.left = `${Math.min(begin, event.clientX) - box.left}px`;
      shade.style.width = `${Math.abs(event.clientX - begin)}px`;
    });
    area.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button) { tell(area, under(event)); return; } // a finger scrolls
      [from, begin] = [under(event), event.clientX];
      shade = document.createElement("div");
      shade.className = "drag";
      area.append(shade);
      area.setPointerCapture(event.pointerId);
    });
    area.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const to = under(event);
      if (Math.abs(event.clientX - begin) > 8) zoom(area, Math.min(from, to), Math.max(from, to));
      shade.remove();
      from = null;
    });
    area.addEventListener("dblclick", () => reset(area));
    area.addEventListener("pointerleave", () => hide(area));
    area.addEventListener("blur", () => hide(area));
    area.addEventListener("keydown", (event) => {
      const line = area.querySelector(".line");
      const list = line ? placesOf(line.dataset.places) : [];
      const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 }[event.key];
      if (event.key === "Escape") { hide(area); reset(area); }
      if (step === undefined || !list.length) return;
      event.preventDefault();
      const now = area.dataset.at === undefined ? (step > 0 ? -1 : 0) : nearest(list, Number(area.dataset.at));
      tell(area, list[Math.max(0, Math.min(list.length - 1, now + step))][0]);
    });
  }
})();

// Code to copy.
(() => {
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const code = button.parentNode.querySelector("code");
      try { await navigator.clipboard.writeText(code.textContent); } catch { // a page from a disk may not
        getSelection().selectAllChildren(code);
        document.execCommand("copy");
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
})();
