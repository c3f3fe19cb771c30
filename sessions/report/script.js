"use strict";
(() => {
  document.documentElement.classList.add("js");

  // Tables: a heading sorts by its column; figures by their data-k, names as words.
  const words = new Intl.Collator("en", { numeric: true });
  const keyOf = (row, i) => {
    const cell = row.cells[i];
    return cell.dataset.k === undefined ? cell.textContent : Number(cell.dataset.k);
  };
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : words.compare(String(a), String(b)));
  for (const table of document.querySelectorAll("table.sorts")) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((th, i) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...th.childNodes);
      const arrow = document.createElement("i");
      arrow.setAttribute("aria-hidden", "true");
      arrow.textContent = "↕";
      button.insertBefore(arrow, button.querySelector("small"));
      th.append(button);
      button.addEventListener("click", () => {
        const was = th.getAttribute("aria-sort");
        const down = was ? was === "ascending" : th.classList.contains("num");
        for (const other of heads) {
          other.removeAttribute("aria-sort");
          other.querySelector("i").textContent = "↕";
        }
        th.setAttribute("aria-sort", down ? "descending" : "ascending");
        arrow.textContent = down ? "↓" : "↑";
        const rows = [...body.rows].map((row, at) => ({ row, at, key: keyOf(row, i) }));
        rows.sort((a, b) => (down ? compare(b.key, a.key) : compare(a.key, b.key)) || a.at - b.at);
        body.append(...rows.map((r) => r.row));
      });
    });
  }

  // Long tables are folded on screen; paper has them all.
  const folded = () => document.querySelectorAll("details:not([open])");
  let opened = [];
  addEventListener("beforeprint", () => { opened = [...folded()]; opened.forEach((d) => { d.open = true; }); });
  addEventListener("afterprint", () => { opened.forEach((d) => { d.open = false; }); opened = []; });

  // Maps: the cell under the pointer is read from the packed values.
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const states = { 4092: "not finite", 4093: "failed", 4094: "not measured" };
  const tip = document.querySelector(".tip");
  for (const map of document.querySelectorAll("svg[data-q]")) {
    const d = map.dataset;
    const [x, y, w, h] = d.box.split(" ").map(Number);
    const rows = d.rows.split("|"), cols = d.cols.split("|");
    const lo = Number(d.lo), hi = Number(d.hi);
    const aim = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    aim.setAttribute("class", "aim");
    const hide = () => { tip.hidden = true; aim.remove(); };
    map.addEventListener("pointerleave", hide);
    const read = (e) => {
      const box = map.getBoundingClientRect();
      const scale = map.viewBox.baseVal.width / box.width;
      const c = Math.floor(((e.clientX - box.left) * scale - x) / w * cols.length);
      const r = Math.floor(((e.clientY - box.top) * scale - y) / h * rows.length);
      if (c < 0 || r < 0 || c >= cols.length || r >= rows.length) return hide();
      const at = 2 * (r * cols.length + c);
      const q = alphabet.indexOf(d.q[at]) * 64 + alphabet.indexOf(d.q[at + 1]);
      if (q === 4095) return hide();
      const value = lo + (hi - lo) * q / 4090;
      const said = states[q] || (d.metric === "rel_l2" ? value.toPrecision(4) : (100 * value).toFixed(2) + " %");
      tip.textContent = rows[r] + " · " + (d.experts ? "expert " + cols[c] + " · " + d.what : cols[c]) + " · " + said;
      tip.hidden = false;
      const left = Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 8);
      tip.style.transform = "translate(" + Math.max(8, left) + "px," + Math.max(8, e.clientY - tip.offsetHeight - 12) + "px)";
      aim.setAttribute("x", x + c * w / cols.length);
      aim.setAttribute("y", y + r * h / rows.length);
      aim.setAttribute("width", w / cols.length);
      aim.setAttribute("height", h / rows.length);
      map.append(aim);
    };
    map.addEventListener("pointermove", read);
    map.addEventListener("pointerdown", read);
  }
})();
