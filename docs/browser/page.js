// The page: what is chosen, and what is shown of it.
import { Engine, plain, unzipped } from "./engine.js";

const $ = (id) => document.getElementById(id);
const TABLES = { rankings: ["query", "item", "score", "rank", "system"], labels: ["query", "item", "grade"] };
const PAGES = {
  ties: "concepts/ties/", score_precision: "concepts/ties/", ideal: "concepts/ideal-list/",
  recall_denominator: "concepts/denominators/", precision_denominator: "concepts/denominators/",
  ap_denominator: "concepts/denominators/", missing: "concepts/missing-queries/",
  average_over: "concepts/missing-queries/", no_relevant: "concepts/missing-queries/",
};
// An option can only matter where the data have what it is about.
const MATTERS = {
  ties: (f) => f.ties + f.short_ties > 0,
  score_precision: (f) => f.short_ties > 0,
  gain: (f) => f.graded > 0,
  missing: (f) => f.missing > 0,
  average_over: (f) => f.missing + f.unlabelled + f.none_relevant > 0,
  no_relevant: () => true,
  unjudged: (f) => f.unjudged > 0,
  duplicate_rankings: () => false,
};

let catalogue, engine, facts, words;
let numbers = {}; // preset -> metric -> what was computed, or {problem}
let run = 0;
const files = {}, columns = {}, systems = [];
const choice = {
  lang: navigator.language.startsWith("zh") ? "zh" : "en", metrics: ["ndcg@k", "recall@k", "mrr@k", "ap"],
  k: 10, reference: "house", seen: "", dialect: "duckdb", cell: "", system: null, demo: false,
  roles: { rankings: {}, labels: {} },
};

const word = (key, values = {}) => words[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
const tell = (key, values) => { $("status").textContent = key ? word(key, values) : ""; };
const metricName = (metric) => metric.replace("@k", `@${choice.k}`);
const decimals = (preset) => catalogue.presets[preset].decimals;
const printed = (value, digits) => (value === null ? "–" : Number.isNaN(value) ? "NaN" : value.toFixed(digits));

function element(name, attributes = {}, ...children) {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...children);
  return made;
}

function fail(error) {
  const message = error.word ? word(error.word, error.values) : error.message;
  $("problem").textContent = message;
  $("problem").hidden = false;
  tell();
}

// ---- the link: choices, never data

function readLink() {
  const link = new URLSearchParams(location.hash.slice(1));
  for (const key of ["lang", "reference", "seen", "dialect", "cell", "system"]) if (link.has(key)) choice[key] = link.get(key);
  if (link.has("k")) choice.k = cutoff(link.get("k")) ?? choice.k;
  if (link.has("m")) choice.metrics = link.get("m").split(",");
  choice.demo = link.get("demo") === "1";
  for (const table in TABLES) {
    for (const role of TABLES[table]) if (link.has(`${table}.${role}`)) choice.roles[table][role] = link.get(`${table}.${role}`);
  }
}

function checkLink() {
  const { metrics, presets, dialects, words: languages } = catalogue;
  choice.metrics = choice.metrics.filter((metric) => metric in metrics);
  if (!choice.metrics.length) choice.metrics = ["ndcg@k"];
  if (!(choice.reference in presets)) choice.reference = "house";
  if (!(choice.dialect in dialects)) choice.dialect = "duckdb";
  if (!(choice.lang in languages)) choice.lang = "en";
  const [preset, metric] = choice.cell.split(" ");
  if (!(presets[preset]?.cells[metric])) choice.cell = "";
}

function writeLink() {
  const link = new URLSearchParams({ lang: choice.lang, m: choice.metrics.join(","), k: choice.k, reference: choice.reference });
  for (const key of ["seen", "cell"]) if (choice[key]) link.set(key, choice[key]);
  if (choice.system !== null) link.set("system", choice.system);
  if (choice.dialect !== "duckdb") link.set("dialect", choice.dialect);
  if (choice.demo) link.set("demo", "1");
  for (const table in TABLES) {
    for (const [role, column] of Object.entries(choice.roles[table])) if (column) link.set(`${table}.${role}`, column);
  }
  history.replaceState(null, "", `#${link}`);
}

const cutoff = (given) => (/^[1-9]\d{0,4}$/.test(given) ? Number(given) : null);

// ---- words

function translate() {
  words = catalogue.words[choice.lang];
  document.documentElement.lang = choice.lang === "zh" ? "zh-CN" : "en";
  document.querySelectorAll("[data-word]").forEach((node) => { node.textContent = word(node.dataset.word); });
  $("title").textContent = word("title", { n: Object.keys(catalogue.presets).length - 1 });
  document.title = $("title").textContent;
  $("language").textContent = words.other_language;
  $("language").lang = choice.lang === "zh" ? "en" : "zh";
  for (const table in files) if (files[table]) nameFile(table);
  if (facts) { showColumns(); showTable(); showDetail(); }
  if (columns.rankings && columns.labels) showColumns();
}

function meaning(option, value) {
  const chinese = choice.lang === "zh" && words.options[`${option} ${value}`];
  return chinese || catalogue.options[option][value] || value;
}

// ---- files

let busy = 0;

/** Do one thing after the other; the page says that it works. */
async function inTurn(task) {
  const mine = ++run;
  document.body.dataset.busy = ++busy;
  engine.queue = engine.queue.then(() => task(mine)).catch(fail);
  await engine.queue;
  document.body.dataset.busy = --busy;
}

const take = (table, file) => inTurn((mine) => read(table, file, mine));

async function read(table, file, mine) {
  $("problem").hidden = true;
  const memory = (file.size * (/\.(gz|parquet|pq)$/i.test(file.name) ? 30 : 8)) / 1e9;
  if (memory > 0.5 && !(await agreed(file, memory))) return;
  tell("reading", { file: file.name });
  files[table] = file;
  nameFile(table);
  try {
    columns[table] = await engine.read(table, file);
    guess(table);
    if (columns.rankings && columns.labels) await compute(mine);
    else tell("ready");
  } catch (error) {
    files[table] = columns[table] = facts = undefined;
    for (const id of ["choices", "result", "detail"]) $(id).hidden = true;
    const label = document.querySelector(`.file[data-table=${table}]`);
    label.classList.remove("full");
    label.querySelector(".name").textContent = words.choose_file;
    fail(error);
  }
}

function nameFile(table) {
  const label = document.querySelector(`.file[data-table=${table}]`);
  label.classList.add("full");
  label.querySelector(".name").textContent = files[table].name;
}

function agreed(file, memory) {
  const [note, button] = $("large").children;
  note.textContent = word("large", { file: file.name, size: Math.round(file.size / 1e6), memory: memory.toFixed(1) });
  $("large").hidden = false;
  return new Promise((resolve) => {
    button.onclick = () => { $("large").hidden = true; resolve(true); };
  });
}

function guess(table) {
  const roles = choice.roles[table];
  const byName = new Map(columns[table].map((column) => [plain(column), column]));
  for (const role of TABLES[table]) {
    if (columns[table].includes(roles[role])) continue;
    const taken = new Set(Object.values(roles));
    const name = catalogue.names[role].map(plain).find((known) => byName.has(known) && !taken.has(byName.get(known)));
    roles[role] = byName.get(name) ?? "";
  }
  if (roles.score && roles.rank) roles.rank = "";
}

function showColumns() {
  const lines = Object.keys(TABLES).map((table) => {
    const selects = TABLES[table].map((role) => {
      const select = element("select", { id: `${table}.${role}` }, element("option", { value: "", textContent: words.no_column }),
        ...columns[table].map((column) => element("option", { value: column, textContent: column })));
      select.value = choice.roles[table][role] ?? "";
      select.onchange = () => { choice.roles[table][role] = select.value; if (role === "system") choice.system = null; changed(); };
      return element("label", {}, element("span", { textContent: words[`role_${role}`] }), select);
    });
    return element("div", {}, element("strong", { textContent: words[table] }), ...selects);
  });
  if (choice.roles.rankings.system && systems.length > 1) {
    const select = element("select", { id: "system" }, ...systems.map((system) => element("option", { value: system, textContent: system })));
    select.value = choice.system ?? "";
    select.onchange = () => { choice.system = select.value; changed(); };
    lines[0].append(element("label", {}, element("span", { textContent: words.which_system }), select));
  }
  $("columns").replaceChildren($("columns").firstElementChild, ...lines);
}

// ---- computing

const changed = () => inTurn(compute);
const again = () => inTurn((mine) => (facts ? computeAll(mine) : null)); // another cutoff

function missingRole() {
  for (const table in TABLES) {
    const roles = choice.roles[table];
    for (const role of ["query", "item"]) if (!roles[role]) return { table: words[table], role: words[`role_${role}`] };
  }
  const { score, rank } = choice.roles.rankings;
  return score || rank ? null : { table: words.rankings, role: words.role_score };
}

async function compute(mine) {
  if (mine !== run) return;
  $("problem").hidden = true;
  $("choices").hidden = false;
  const { system } = choice.roles.rankings;
  systems.splice(0, Infinity, ...(system ? await engine.systems(system) : []));
  if (!systems.includes(choice.system)) choice.system = systems[0] ?? null;
  showColumns();
  const missing = missingRole();
  if (missing) throw Object.assign(new Error(), { word: "need_column", values: missing });
  await engine.load(choice.roles, choice.system);
  facts = await engine.facts();
  numbers = {};
  await computeAll(mine);
}

async function computeAll(mine) {
  const begun = performance.now();
  const presets = Object.keys(catalogue.presets).sort((a, b) => (b === choice.reference) - (a === choice.reference));
  $("result").hidden = false;
  for (const [i, preset] of presets.entries()) {
    if (mine !== run) return;
    tell("computing", { preset, i: i + 1, n: presets.length });
    numbers[preset] = await numbersOf(preset, choice.k);
    if (i === 0) showTable();
    else showRow(preset);
    await engine.drop(presets.slice(i + 1), facts.n_rankings);
  }
  const first = Object.values(numbers);
  if (first.every((row) => row.problem)) {
    $("problem").textContent = `${problemText(numbers[choice.reference].problem)}. ${words.no_options}`;
    $("problem").hidden = false;
  }
  tell("done", { presets: presets.length, seconds: ((performance.now() - begun) / 1000).toFixed(1),
    rankings: facts.n_rankings.toLocaleString(), labels: facts.n_labels.toLocaleString() });
  showTable();
  showDetail();
  writeLink();
}

async function numbersOf(preset, k) {
  try {
    const problem = await engine.problem(preset);
    return problem ? { problem } : await engine.numbers(preset, k);
  } catch (error) {
    return { problem: { table: preset, problem: error.message } };
  }
}

const problemText = ({ table, problem }) => word("problem", { table: words[table] ?? table, problem });

// ---- the table

function showTable() {
  if (!facts) return;
  const reference = choice.reference;
  $("legend").textContent = word("legend", { preset: reference });
  const head = element("tr", {}, element("th", { scope: "col", textContent: words.preset }),
    ...choice.metrics.map((metric) => element("th", { scope: "col", textContent: metricName(metric), title: catalogue.metrics[metric].title })));
  const body = element("tbody", {}, ...Object.keys(catalogue.presets).filter((preset) => numbers[preset]).map(rowOf));
  $("table").replaceChildren(element("thead", {}, head), body);
  showMatches();
}

function showRow(preset) {
  const rows = [...$("table").tBodies[0].rows];
  const order = Object.keys(catalogue.presets);
  const next = rows.find((row) => order.indexOf(row.dataset.preset) > order.indexOf(preset));
  $("table").tBodies[0].insertBefore(rowOf(preset), next ?? null);
}

function rowOf(preset) {
  const row = element("tr", {}, element("th", { scope: "row", textContent: preset, title: catalogue.presets[preset].note }));
  row.dataset.preset = preset;
  if (preset === choice.reference) row.className = "reference";
  row.append(...choice.metrics.map((metric) => cellOf(preset, metric)));
  return row;
}

const valueOf = (preset, metric) => numbers[preset]?.[metric]?.value;
const same = (a, b) => Object.is(a, b) || Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(b));

function differs(preset, metric) {
  const [value, other] = [valueOf(preset, metric), valueOf(choice.reference, metric)];
  return value !== undefined && other !== undefined && (value === null || other === null ? value !== other : !same(value, other));
}

function cellOf(preset, metric) {
  const td = element("td");
  Object.assign(td.dataset, { preset, metric });
  const { problem } = numbers[preset];
  const why = problem ? problemText(problem) : catalogue.presets[preset].cells[metric] ? "" : (catalogue.presets[preset].refused[metric] ?? words.not_of_tool);
  if (why) {
    td.append(element("span", { textContent: problem ? "!" : "·", title: why }));
    td.dataset.why = why;
    td.firstChild.setAttribute("role", "img");
    td.firstChild.setAttribute("aria-label", why);
    return td;
  }
  const value = valueOf(preset, metric);
  td.dataset.value = String(value);
  const isOther = differs(preset, metric);
  td.classList.toggle("differs", isOther);
  td.classList.toggle("match", isSeen(value));
  const button = element("button", { type: "button", textContent: `${isOther ? "≠ " : ""}${printed(value, decimals(preset))}` });
  button.setAttribute("aria-label", `${metricName(metric)} ${preset}: ${printed(value, decimals(preset))}${isOther ? `, ${word("differs", { preset: choice.reference })}` : ""}`);
  button.onclick = () => { choice.cell = `${preset} ${metric}`; showTable(); showDetail(); writeLink(); $("detail").focus(); };
  if (choice.cell === `${preset} ${metric}`) td.setAttribute("aria-current", "true");
  td.append(button);
  return td;
}

// ---- "I have seen .4312 here"

function seenNumber() {
  const match = choice.seen.trim().replace(",", ".").match(/^([+-]?\d*\.?\d+|\d+\.)\s*(%?)$/);
  if (!match) return null;
  const digits = (match[1].split(".")[1] ?? "").length + (match[2] ? 2 : 0);
  return { value: Number(match[1]) / (match[2] ? 100 : 1), half: 0.5 * 10 ** -digits };
}

function isSeen(value) {
  const seen = seenNumber();
  return Boolean(seen) && typeof value === "number" && Math.abs(value - seen.value) <= seen.half * (1 + 1e-9) + 1e-12;
}

function matchesOf(all) {
  const presetsByMetric = {};
  for (const [preset, row] of Object.entries(all)) {
    for (const [metric, cell] of Object.entries(row)) {
      if (metric !== "problem" && isSeen(cell.value)) (presetsByMetric[metric] ??= []).push(preset);
    }
  }
  return presetsByMetric;
}

function showMatches(more = "") {
  const seen = seenNumber();
  $("cutoffs").hidden = !seen || !facts;
  if (!seen || !facts) { $("matches").textContent = ""; return; }
  const found = Object.entries(matchesOf(numbers));
  const list = found.map(([metric, presets]) => `${metricName(metric)}: ${presets.join(", ")}`).join("; ");
  const here = found.length ? word("seen_some", { seen: choice.seen, list }) : word("seen_none", { seen: choice.seen, k: choice.k });
  $("matches").textContent = more ? `${here} ${more}` : here;
}

async function otherCutoffs(mine) {
  const list = [];
  $("cutoffs").disabled = true;
  for (const k of [1, 3, 5, 10, 20, 50, 100, 1000].filter((other) => other !== choice.k)) {
    const all = {};
    for (const preset of Object.keys(catalogue.presets)) {
      if (mine !== run) break;
      tell("computing", { preset: `${preset} @${k}`, i: Object.keys(all).length + 1, n: Object.keys(catalogue.presets).length });
      all[preset] = await numbersOf(preset, k);
    }
    for (const [metric, presets] of Object.entries(matchesOf(all))) {
      if (metric.endsWith("@k")) list.push(`${metric.replace("@k", `@${k}`)}: ${presets.join(", ")}`);
    }
    showMatches(list.join("; "));
  }
  $("cutoffs").disabled = false;
  tell();
}

// ---- one number

function showDetail() {
  const [preset, metric] = choice.cell.split(" ");
  const value = valueOf(preset, metric);
  $("detail").hidden = value === undefined;
  if (value === undefined) return;
  const { note, caveat, cells, ordered } = catalogue.presets[preset];
  const { n, skipped, missing } = numbers[preset][metric];
  $("detail_title").textContent = `${word("detail", { metric: metricName(metric), preset })}: ${printed(value, 6)}`;
  $("counted").textContent = `${note}. ${word("queries", { n, skipped, missing })}.`;
  showWhy(preset, metric);
  $("note").textContent = [caveat, cells[metric].differs].filter(Boolean).join(". ");
  $("command").textContent = commandOf(preset);
  $("trust").textContent = choice.dialect === "duckdb" ? "" : catalogue.dialects[choice.dialect][1];
  const column = ordered ? "rank" : "score";
  $("sql_note").textContent = [word("sql_note", { column }), ordered ? words.sql_ordered : ""].join(" ");
  $("sql").textContent = sqlOf(preset, metric);
}

function showWhy(preset, metric) {
  const { reference } = choice;
  const [mine, other] = [catalogue.presets[preset].cells[metric].options, catalogue.presets[reference].cells[metric]?.options ?? {}];
  const options = Object.keys(mine).filter((option) => option in other && mine[option] !== other[option]);
  const isOther = differs(preset, metric);
  const likely = options.filter((option) => !isOther || (MATTERS[option] ?? (() => true))(facts));
  const value = printed(valueOf(reference, metric) ?? null, 6);
  $("why_title").textContent = word(isOther ? "why" : "why_same", { preset: reference, value });
  const items = likely.map((option) => {
    const sentence = word("why_option", { option: words.roles[option], meaning: meaning(option, mine[option]), preset: reference, other: meaning(option, other[option]) });
    return element("li", {}, `${sentence} `, element("a", { href: `../${PAGES[option] ?? "conventions/"}`, textContent: words.more }));
  });
  const lead = items.length ? (isOther ? [] : [element("li", { textContent: words.why_no_matter })]) : [element("li", { textContent: word("why_none", { preset: reference }) })];
  const page = element("li", {}, element("a", { href: `../presets/${preset}/`, textContent: `${words.preset} ${preset}` }));
  const isReference = preset === reference;
  $("why_title").hidden = isReference;
  $("why").replaceChildren(...(isReference ? [] : [...lead, ...items]), page);
}

const shell = (value) => (/^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`);

function commandOf(preset) {
  const { rankings, labels } = choice.roles;
  const parts = ["sqlmetrics evaluate", shell(files.rankings.name), shell(files.labels.name)];
  const metrics = choice.metrics.filter((metric) => catalogue.presets[preset].cells[metric]);
  parts.push("-m", shell(metrics.map(metricName).join(",")), "--preset", preset);
  const add = (option, column, usual) => column && column !== usual && parts.push(option, shell(column));
  add("--query", rankings.query, "query_id");
  add("--item", rankings.item, "item_id");
  if (rankings.score) add("--score", rankings.score, "score");
  else add("--rank", rankings.rank, "");
  add("--grade", labels.grade, "grade");
  for (const role of ["query", "item"]) {
    if (labels[role] !== rankings[role]) parts.push("--label-column", shell(`${role}=${labels[role]}`));
  }
  if (rankings.system && systems.length > 1) {
    const name = `"${rankings.system.replaceAll('"', '""')}"`;
    parts.push("--where", shell(`${name} = '${choice.system.replaceAll("'", "''")}'`));
  }
  return parts.join(" ");
}

function sqlOf(preset, metric) {
  const { pieces, bodies, cells } = catalogue.texts;
  const cell = cells[choice.dialect][preset][metric];
  if (typeof cell === "string") return cell;
  const [comment, body] = cell;
  const trust = choice.dialect === "duckdb" ? "" : `-- ${catalogue.dialects[choice.dialect].join(": ")}\n`;
  const text = `${trust}${pieces[comment]}\n${bodies[body].map((piece) => pieces[piece]).join("\n\n")}`;
  let full = 0;
  for (let rank = 1; rank <= choice.k; rank += 1) full += 1 / Math.log2(rank + 1);
  return text.replaceAll("\u0001", String(choice.k)).replaceAll("\u0002", `${full}e0`);
}

// ---- a picture of the table

function saveImage() {
  const rows = [...$("table").rows].map((row) => [...row.cells]);
  const style = getComputedStyle(document.body);
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const widths = rows[0].map((_, i) => (i ? 130 : 210));
  const [height, top] = [26, 64];
  const canvas = element("canvas", { width: 2 * (widths.reduce((a, b) => a + b) + 32), height: 2 * (top + rows.length * height + 40) });
  const pen = canvas.getContext("2d");
  pen.scale(2, 2);
  pen.fillStyle = style.backgroundColor;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  const write = (string, x, y, align, font) => { pen.font = `${font} system-ui, "Noto Sans CJK SC", sans-serif`; pen.textAlign = align; pen.fillText(string, x, y); };
  pen.fillStyle = style.color;
  write(document.title, 16, 28, "left", "600 18px");
  write($("legend").textContent.split(/(?<=[.。])/)[0], 16, 50, "left", "13px");
  rows.forEach((cells, i) => {
    let x = 16;
    cells.forEach((node, j) => {
      const shade = node.matches(".match") ? "--hit" : node.matches(".differs") ? "--mark" : "";
      if (shade) { pen.fillStyle = color(shade); pen.fillRect(x, top + i * height, widths[j], height); }
      pen.fillStyle = style.color;
      write(node.textContent, j ? x + widths[j] - 8 : x, top + i * height + 18, j ? "right" : "left", `${i && j ? "" : "600 "}13px`);
      x += widths[j];
    });
  });
  write("sqlmetrics", 16, top + rows.length * height + 26, "left", "13px");
  canvas.toBlob((blob) => {
    const link = element("a", { href: URL.createObjectURL(blob), download: "metrics.png" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  });
}

async function copy(button, content) {
  await navigator.clipboard.writeText(content);
  const before = button.textContent;
  button.textContent = words.copied;
  setTimeout(() => { button.textContent = before; }, 1500);
}

// ---- what is clicked

function listen() {
  for (const table in TABLES) {
    const label = document.querySelector(`.file[data-table=${table}]`);
    $(table).onchange = () => { if ($(table).files[0]) { choice.demo = false; take(table, $(table).files[0]); } };
    label.ondragover = (event) => { event.preventDefault(); label.classList.add("over"); };
    label.ondragleave = () => label.classList.remove("over");
    label.ondrop = (event) => {
      event.preventDefault();
      label.classList.remove("over");
      if (event.dataTransfer.files[0]) { choice.demo = false; take(table, event.dataTransfer.files[0]); }
    };
  }
  $("demo").onclick = demo;
  $("language").onclick = () => { choice.lang = choice.lang === "zh" ? "en" : "zh"; translate(); writeLink(); };
  $("k").onchange = () => { const k = cutoff($("k").value); if (k) { choice.k = k; again(); } else $("k").value = choice.k; };
  $("reference").onchange = () => { choice.reference = $("reference").value; showTable(); showDetail(); writeLink(); };
  $("seen").oninput = () => { choice.seen = $("seen").value; showTable(); writeLink(); };
  $("cutoffs").onclick = () => inTurn(otherCutoffs);
  $("dialect").onchange = () => { choice.dialect = $("dialect").value; showDetail(); writeLink(); };
  $("link").onclick = () => { writeLink(); copy($("link"), location.href); };
  $("image").onclick = saveImage;
  document.querySelectorAll("[data-copies]").forEach((button) => { button.onclick = () => copy(button, $(button.dataset.copies).textContent); });
}

function showChoices() {
  $("k").value = choice.k;
  $("seen").value = choice.seen;
  const options = (names) => names.map(([value, textContent]) => element("option", { value, textContent }));
  $("reference").replaceChildren(...options(Object.keys(catalogue.presets).map((name) => [name, name])));
  $("reference").value = choice.reference;
  $("dialect").replaceChildren(...options(Object.entries(catalogue.dialects).map(([name, [title]]) => [name, title])));
  $("dialect").value = choice.dialect;
  const boxes = Object.keys(catalogue.metrics).map((metric) => {
    const box = element("input", { type: "checkbox", checked: choice.metrics.includes(metric) });
    box.onchange = () => {
      choice.metrics = Object.keys(catalogue.metrics).filter((name) => (name === metric ? box.checked : choice.metrics.includes(name)));
      showTable(); showDetail(); writeLink();
    };
    return element("label", { title: catalogue.metrics[metric].title }, box, ` ${metric}`);
  });
  $("metrics").replaceChildren($("metrics").firstElementChild, element("div", {}, ...boxes));
}

async function demo() {
  choice.demo = true;
  const contents = await demoFiles;
  await Promise.all(Object.keys(TABLES).map((table) => take(table, new File([contents[table]], `${table}.csv`))));
}

let demoFiles;

async function start() {
  readLink();
  const loaded = fetch(new URL("./catalogue.bin", import.meta.url)).then(unzipped);
  demoFiles = fetch(new URL("./demo.bin", import.meta.url)).then(unzipped).then(JSON.parse);
  catalogue = JSON.parse(await loaded);
  checkLink();
  translate();
  showChoices();
  listen();
  tell("loading");
  engine = new Engine(catalogue);
  try {
    await engine.start();
  } catch (error) {
    fail({ word: "unsupported", values: { error: error.message } });
    return;
  }
  tell("ready");
  $("demo").disabled = false;
  document.body.dataset.ready = "1";
  if (choice.demo) await demo();
  await Promise.all([demoFiles, import("./duckdb/hyparquet/index.js"), import("./duckdb/fzstd.mjs")]); // then it needs no network
}

start();
