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
addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("details.mover")) one.open = true;
});
