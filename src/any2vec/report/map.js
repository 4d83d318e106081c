"use strict";
(() => {
  const data = JSON.parse(document.getElementById("map-data").textContent);
  const box = document.getElementById("map"), svg = box.querySelector("svg"), about = document.getElementById("map-about");
  const MOST = 40, EDGE = 12, BEYOND = 0.03, space = "http://www.w3.org/2000/svg";
  let WIDE = 1000, HIGH = 680;
  const make = (tag, kind, text) => { const it = document.createElement(tag); if (kind) it.className = kind;
    if (text !== undefined) it.textContent = text; return it; };
  const draw = (tag, parent) => parent.appendChild(document.createElementNS(space, tag));
  const color = group => group < 0 ? "gx" : "g" + group;
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "12px system-ui, sans-serif";
  const dots = draw("g", svg), names = draw("g", svg);
  const items = data.items.map(([key, x, y, group, near], at) => {
    const dot = draw("circle", dots), short = key.length > 24 ? key.slice(0, 9) + "…" + key.slice(-14) : key;
    dot.setAttribute("class", color(group)); dot.setAttribute("r", 3.2);
    draw("title", dot).textContent = key;
    dot.addEventListener("click", () => pick(at));
    return {key, across: x, up: y, group, near, dot, short, wide: pen.measureText(short).width};
  });
  const place = new Map(items.map((item, at) => [item.key, at]));
  function measure() {
    const wide = svg.clientWidth || 1000;
    if (wide === WIDE && items[0].x !== undefined) return;
    left *= wide / WIDE; WIDE = wide;
    const high = Math.round(Math.max(340, 0.66 * WIDE)); top *= high / HIGH; HIGH = high;
    svg.setAttribute("viewBox", `0 0 ${WIDE} ${HIGH}`);
    for (const item of items) {  // outliers lie a little beyond 0 to 1
      item.x = EDGE + (item.across + BEYOND) / (1 + 2 * BEYOND) * (WIDE - EDGE - 85);
      item.y = EDGE + (1 + BEYOND - item.up) / (1 + 2 * BEYOND) * (HIGH - 2 * EDGE);
    }
    redraw();
  }
  let zoom = 1, left = 0, top = 0, picked = -1, found = new Set(), shown = -2, waiting = 0;

  function labels() {
    names.replaceChildren();
    const boxes = [], order = [...items.keys()].filter(at => items[at].px >= 0 && items[at].px <= WIDE && items[at].py >= 0 && items[at].py <= HIGH);
    const covered = order.length > 2000 ? [] : order.map(at => [items[at].px, items[at].py]);
    const rank = at => at === picked ? 0 : picked >= 0 && near(picked).has(at) ? 1 : found.has(at) ? 2 : 3;
    order.sort((one, other) => rank(one) - rank(other) || one - other);
    for (const at of order) {
      const item = items[at];
      if (shown !== -2 && item.group !== shown && rank(at) === 3) continue;
      const gap = at === picked ? 9 : 5;
      let best = null, fewest = rank(at) < 3 ? 1e9 : 3;
      for (const [across, up] of [[1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [-1, 1], [1, -1], [-1, -1]]) {
        const x = across > 0 ? item.px + gap : across < 0 ? item.px - gap - item.wide : item.px - item.wide / 2;
        const y = up > 0 ? item.py - gap - 13 : up < 0 ? item.py + gap : item.py - 7;
        if (x < 0 || y < 0 || x + item.wide > WIDE || y + 14 > HIGH) continue;
        if (boxes.some(one => one[0] < x + item.wide && x < one[0] + one[2] && one[1] < y + 14 && y < one[1] + 14)) continue;
        const hidden = covered.filter(([dx, dy]) => x < dx && dx < x + item.wide && y < dy && dy < y + 14).length;
        if (hidden < fewest) { best = [x, y, item.wide]; fewest = hidden; }
        if (!hidden) break;
      }
      if (!best) continue;
      boxes.push(best);
      const text = draw("text", names);
      text.setAttribute("x", best[0]); text.setAttribute("y", best[1] + 11); text.textContent = item.short;
      text.setAttribute("class", color(item.group) + (rank(at) < 3 ? " strong" : ""));
      text.addEventListener("click", () => pick(at));
      if (boxes.length > 300) break;
    }
  }
  const near = at => new Set(items[at].near.map(([key]) => place.get(key)).filter(one => one !== undefined));
  function redraw() {
    const around = picked < 0 ? new Set() : near(picked);
    items.forEach((item, at) => {
      item.px = item.x * zoom + left; item.py = item.y * zoom + top;
      item.dot.setAttribute("cx", item.px); item.dot.setAttribute("cy", item.py);
      const is_strong = at === picked || around.has(at) || found.has(at);
      item.dot.setAttribute("r", at === picked ? 7 : is_strong ? 5 : WIDE < 600 ? 2.2 : 3.2);
      item.dot.classList.toggle("faint", !is_strong && shown !== -2 && item.group !== shown);
    });
    names.replaceChildren();
    clearTimeout(waiting); waiting = setTimeout(labels, 60);
  }
  function scale(factor, x = WIDE / 2, y = HIGH / 2) {
    const next = Math.min(MOST, Math.max(1, zoom * factor));
    left = x - (x - left) * next / zoom; top = y - (y - top) * next / zoom; zoom = next;
    left = Math.min(0.5 * WIDE, Math.max(WIDE * (0.5 - zoom), left)); top = Math.min(0.5 * HIGH, Math.max(HIGH * (0.5 - zoom), top));
    if (zoom === 1) left = top = 0;
    redraw();
  }
  function pick(at, is_centered) {
    picked = at;
    const item = items[at];
    if (is_centered) { zoom = Math.max(zoom, 3); left = WIDE / 2 - item.x * zoom; top = HIGH / 2 - item.y * zoom; }
    about.replaceChildren(make("b", "", item.key), make("span", "", item.group < 0 ? " " : ` · ${data.kind} ${data.legend[item.group]} `));
    for (const [key, cosine] of item.near) {
      const is_here = place.has(key), chip = make(is_here ? "button" : "span", "near", key);
      chip.append(make("small", "", cosine.toFixed(2)));
      if (is_here) chip.addEventListener("click", () => pick(place.get(key), true));
      about.append(chip);
    }
    redraw();
  }
  const at = event => { const edge = svg.getBoundingClientRect();
    return [(event.clientX - edge.left) * WIDE / edge.width, (event.clientY - edge.top) * HIGH / edge.height]; };
  const fingers = new Map();
  svg.addEventListener("pointerdown", event => fingers.set(event.pointerId, at(event)));
  svg.addEventListener("pointermove", event => {
    if (!fingers.has(event.pointerId)) return;
    if (event.pointerType === "mouse" && !event.buttons) { fingers.clear(); return; }
    const before = [...fingers.values()], now = at(event), was = fingers.get(event.pointerId);
    if (before.length === 1) { left += now[0] - was[0]; top += now[1] - was[1]; }
    fingers.set(event.pointerId, now);
    const after = [...fingers.values()], spread = ([[a, b], [c, d]]) => Math.hypot(a - c, b - d);
    if (after.length === 2) scale(spread(after) / (spread(before) || 1), (after[0][0] + after[1][0]) / 2, (after[0][1] + after[1][1]) / 2);
    else scale(1);
  });
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) svg.addEventListener(name, event => fingers.delete(event.pointerId));
  svg.addEventListener("dblclick", event => scale(2, ...at(event)));
  svg.addEventListener("wheel", event => { if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault(); scale(Math.exp(-event.deltaY / 300), ...at(event)); }, {passive: false});
  svg.addEventListener("keydown", event => {
    const step = {ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60]}[event.key];
    if (step) { left += step[0]; top += step[1]; scale(1); }
    else if ("+=".includes(event.key)) scale(1.5);
    else if (event.key === "-") scale(1 / 1.5);
    else if (event.key === "0") scale(0);
    else return;
    event.preventDefault();
  });
  for (const [name, factor] of [["closer", 1.5], ["farther", 1 / 1.5], ["whole", 0]])
    document.getElementById("map-" + name).addEventListener("click", () => scale(factor));
  const search = document.getElementById("map-search"), count = document.getElementById("map-count");
  search.addEventListener("input", () => {
    const text = search.value.toLowerCase();
    found = new Set(text ? items.flatMap((item, at) => item.key.toLowerCase().includes(text) ? [at] : []) : []);
    count.textContent = text ? found.size + " of " + items.length : "";
    redraw();
  });
  document.getElementById("map-form").addEventListener("submit", event => {
    event.preventDefault();
    const exact = place.get(search.value), first = exact === undefined ? [...found][0] : exact;
    if (first !== undefined) pick(first, true);
  });
  document.querySelectorAll("#map-legend button").forEach(button => button.addEventListener("click", () => {
    const group = Number(button.value);
    shown = shown === group ? -2 : group;
    document.querySelectorAll("#map-legend button").forEach(one => one.setAttribute("aria-pressed", Number(one.value) === shown));
    redraw();
  }));
  new ResizeObserver(measure).observe(svg);
  measure();
})();
