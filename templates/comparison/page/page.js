// Columns sort by a click on their heading; numbers by size, whatever signs and marks they have.
function size(text) {
  const plain = text.replace(/−/g, "-").replace(/[,\s]/g, "");
  const found = plain.match(/[-+]?\d+(\.\d+)?(e[-+]?\d+)?/);
  return found ? parseFloat(found[0]) : null;
}
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") !== "descending";
      const isNumber = heading.classList.contains("number");
      headings.forEach((one) => one.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].textContent;
      const sign = down ? -1 : 1;
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        if (!isNumber) return sign * key(a).localeCompare(key(b));
        const [x, y] = [size(key(a)), size(key(b))];
        return x === null ? 1 : y === null ? -1 : sign * (x - y);
      });
      table.tBodies[0].append(...rows);
    });
  });
}
// Lines join the items that both lists of a query have; words beside each item say the same.
function join(lists) {
  const svg = lists.querySelector("svg.joins");
  const box = svg.getBoundingClientRect();
  svg.replaceChildren();
  if (!box.width || !lists.offsetHeight) return;
  const [before, after] = [...lists.querySelectorAll("table")].map((table) =>
    new Map([...table.querySelectorAll("tr[data-pair]")].map((row) => [row.dataset.pair, row])));
  const middle = (row) => {
    const own = row.getBoundingClientRect();
    return own.top + own.height / 2 - box.top;
  };
  for (const [pair, row] of before) {
    const other = after.get(pair);
    const [from, to] = [row, other].map(middle);
    const moved = Number(other.cells[0].textContent) - Number(row.cells[0].textContent);
    const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
    const half = box.width / 2;
    line.setAttribute("d", `M0,${from} C${half},${from} ${half},${to} ${box.width},${to}`);
    line.setAttribute("class", moved < 0 ? "up" : moved > 0 ? "down" : "same");
    if (/grade-[123]/.test(row.className)) line.classList.add("relevant");
    svg.append(line);
  }
}
const joined = document.querySelectorAll(".lists");
const joinAll = () => joined.forEach(join);
document.querySelectorAll("details.mover").forEach((one) => one.addEventListener("toggle", joinAll));
addEventListener("resize", joinAll);
joinAll();
// A mark of a picture, or a link, opens the slice it stands for.
for (const mark of document.querySelectorAll("[data-opens]")) {
  mark.addEventListener("click", () => {
    location.hash = mark.dataset.opens;
    open();
  });
}
function open() {
  const part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!part || part.tagName !== "DETAILS") return;
  part.open = true;
  part.querySelector("summary").focus();
}
addEventListener("hashchange", open);
open();
addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("details.mover")) one.open = true;
  joinAll();
});
