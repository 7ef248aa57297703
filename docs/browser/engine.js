// Files -> two tables -> numbers, by DuckDB in a worker. All SQL of numbers is the catalogue's.
import * as duckdb from "./duckdb/duckdb-browser.mjs";

const KEPT = 200_000; // rows up to which shared tables are kept for another cutoff

export const quoted = (name) => `"${name.replaceAll('"', '""')}"`;
const text = (value) => `'${value.replaceAll("'", "''")}'`;

export async function unzipped(response) {
  const stream = response.body.pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

export class Engine {
  constructor(catalogue) {
    this.catalogue = catalogue;
    this.made = new Map(); // table -> the cutoff that it was made with, or "" for any
    this.verdicts = new Map();
    this.queue = Promise.resolve();
  }

  async start() {
    const worker = new Worker(new URL("./duckdb/duckdb-browser-eh.worker.js", import.meta.url));
    this.database = new duckdb.AsyncDuckDB(new duckdb.VoidLogger(), worker);
    await this.database.instantiate(new URL("./duckdb/duckdb-eh.wasm", import.meta.url).href);
    await this.database.open({ query: { castBigIntToDouble: true } });
    this.connection = await this.database.connect();
    await this.rows("set autoinstall_known_extensions = false");
    await this.rows("set autoload_known_extensions = false");
    await this.rows("set enable_external_file_cache = false"); // another file may have the same name
  }

  async rows(sql) {
    const table = await this.connection.query(sql);
    const names = table.schema.fields.map((field) => field.name);
    return Array.from(table, (row) => names.map((name) => row[name]));
  }

  /** Read a file into `<table>_file`; its columns. */
  async read(table, file) {
    const { blob, format } = await readable(file);
    const name = `${table}.file${/\.gz$/i.test(file.name) && format !== "lines" ? ".gz" : ""}`;
    // a path also matches longer names, so the last file has to go, whatever it was called
    for (const last of [`${table}.file`, `${table}.file.gz`]) await this.database.dropFile(last).catch(() => {});
    const handle = duckdb.DuckDBDataProtocol.BROWSER_FILEREADER;
    await this.database.registerFileHandle(name, blob, handle, true);
    let key = "trec";
    if (format !== "trec") key = await separated(blob, name, format, this.known(table));
    const reader = this.catalogue.read[`${name} ${key}`];
    await this.rows(`create or replace table ${table}_file as select * from ${reader}`);
    const columns = await this.rows(
      `select column_name from duckdb_columns() where table_name = '${table}_file' and not internal
       order by column_index`,
    );
    return columns.map(([column]) => column);
  }

  known(table) {
    const roles = table === "labels" ? ["query", "item", "grade"] : ["query", "item", "score", "rank", "system"];
    return new Set(roles.flatMap((role) => this.catalogue.names[role]).map(plain));
  }

  /** The first systems that a column names. */
  async systems(column) {
    const name = quoted(column);
    const select = `select ${name}, min(rowid) from rankings_file where ${name} is not null group by all order by 2 limit 100`;
    return (await this.rows(select)).map(([system]) => system);
  }

  /** Make the two tables that the catalogue's SQL reads. */
  async load(roles, system) {
    const { query, item, score, rank } = roles.rankings;
    const ranked = rank && !score;
    const number = ranked ? `coalesce(cast(-try_cast(${quoted(rank)} as double) as varchar), ${quoted(rank)})` : quoted(score);
    const where = roles.rankings.system && system !== null ? `where ${quoted(roles.rankings.system)} = ${text(system)}` : "";
    await this.forget();
    await this.rows(
      `create or replace table rankings as select ${quoted(query)} as query_id, ${quoted(item)} as item_id,
       ${number} as score, ${ranked ? quoted(rank) : "null"} as rank from rankings_file ${where}`,
    );
    const grade = roles.labels.grade ? quoted(roles.labels.grade) : "'1'";
    await this.rows(
      `create or replace table labels as select ${quoted(roles.labels.query)} as query_id,
       ${quoted(roles.labels.item)} as item_id, ${grade} as grade from labels_file`,
    );
    this.ranked = ranked;
  }

  async forget() {
    for (const table of this.made.keys()) await this.rows(`drop table step_${table}`);
    this.made.clear();
    this.verdicts.clear();
  }

  async facts() {
    const table = await this.connection.query(this.catalogue.facts);
    return table.get(0).toJSON();
  }

  /** The problem of the input under a preset; nothing if there is none. */
  async problem(preset) {
    const checks = this.catalogue.presets[preset].checks.map((i) => this.catalogue.checks[i]);
    for (const check of this.ranked ? [...this.catalogue.ranks, ...checks] : checks) {
      if (!this.verdicts.has(check.sql)) this.verdicts.set(check.sql, await this.verdict(check));
      const problem = this.verdicts.get(check.sql);
      if (problem) return problem;
    }
    return null;
  }

  async verdict({ table, sql, rows, group }) {
    const found = await this.rows(sql);
    if (group) {
      if (!found.length) return null;
      const [count, ...example] = found[0];
      return { table, problem: `${group[0]}: ${count} (${example.slice(0, 4).map(short).join(", ")}); ${group[1]}` };
    }
    const [total, ...counts] = found[0];
    if (!total) return { table, problem: "the table has no rows" };
    const i = counts.findIndex((count) => count > 0);
    return i < 0 ? null : { table, problem: `${rows[i][0]}: ${counts[i]}; ${rows[i][1]}` };
  }

  /** Metric -> value, n, skipped, missing under a preset. */
  async numbers(preset, k) {
    const { end } = this.catalogue.presets[preset];
    await this.rows(`set variable k = ${Number(k)}`);
    await this.make(end, k);
    const rows = await this.rows(`select metric, k, value, n_queries, n_skipped, n_missing from step_${end}`);
    return Object.fromEntries(
      rows.map(([metric, cutoff, value, n, skipped, missing]) => [cutoff ? `${metric}@k` : metric, { value, n, skipped, missing }]),
    );
  }

  async make(table, k) {
    const { sql, needs, cut } = this.catalogue.tables[table];
    const cutoff = cut ? k : "";
    if (this.made.get(table) === cutoff) return;
    for (const needed of needs) await this.make(needed, k);
    if (this.made.has(table)) await this.rows(`drop table step_${table}`);
    this.made.delete(table);
    await this.rows(sql);
    this.made.set(table, cutoff);
  }

  /** Drop the tables that no preset to come reads: of many rows they take much memory. */
  async drop(presets, n) {
    if (n <= KEPT) return;
    const wanted = new Set();
    const add = (table) => wanted.has(table) || (wanted.add(table), this.catalogue.tables[table].needs.forEach(add));
    presets.forEach((preset) => add(this.catalogue.presets[preset].end));
    for (const table of [...this.made.keys()].filter((made) => !wanted.has(made))) {
      await this.rows(`drop table step_${table}`);
      this.made.delete(table);
    }
  }
}

const short = (value) => String(value ?? "NULL").slice(0, 60);

export const plain = (name) => ({ _id: "hitid", _score: "hitscore" })[name] ?? name.toLowerCase().replace(/[^a-z0-9]/g, "");

/** What DuckDB reads of a file; Parquet and JSON are written as CSV first. */
async function readable(file) {
  const name = file.name.toLowerCase();
  if (/\.(parquet|pq)$/.test(name)) return { blob: await parquet(file), format: "lines" };
  if (/\.(json|jsonl|ndjson)(\.gz)?$/.test(name)) return { blob: await json(file), format: "lines" };
  if (/\.csv(\.gz)?$/.test(name)) return { blob: file, format: "," };
  if (/\.tsv(\.gz)?$/.test(name)) return { blob: file, format: "\t" };
  return { blob: file, format: "trec" };
}

/** The key of the reader: what stands between values, and whether blanks stand around it. */
async function separated(blob, name, usual, known) {
  if (usual === "lines") return ",";
  let stream = blob.slice(0, 1 << 16).stream();
  if (name.endsWith(".gz")) stream = blob.stream().pipeThrough(new DecompressionStream("gzip"));
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let head = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    head += part.value;
    if (head.includes("\n") || head.length > 1 << 16) break;
  }
  reader.cancel().catch(() => {});
  const names = (mark) => head.replace(/^\ufeff/, "").split(/\r?\n/, 1)[0].split(mark);
  const fits = (mark) => names(mark).filter((column) => known.has(plain(column.trim()))).length * 1000 + names(mark).length;
  const best = [usual, ",", ";", "\t", "|"].reduce((a, b) => (fits(b) > fits(a) ? b : a));
  const [first, ...rest] = names(best);
  const last = rest.length ? [first, ...rest.slice(0, -1)] : [];
  const padded = rest.length && (rest.every((n) => n.startsWith(" ")) || last.every((n) => n.endsWith(" ")));
  return `${best}${padded ? " padded" : ""}`;
}

const cell = (value) => {
  if (value === null || value === undefined) return "";
  const printed = value instanceof Date ? value.toISOString() : typeof value === "object" ? JSON.stringify(value) : String(value);
  return `"${printed.replaceAll('"', '""')}"`;
};

async function json(file) {
  const content = /\.gz$/i.test(file.name) ? await unzipped(new Response(file)) : await file.text();
  const rows = /^\s*\[/.test(content) ? JSON.parse(content) : lines(content);
  const names = [...new Set(rows.flatMap(Object.keys))];
  return new Blob(csv(names, rows.map((row) => names.map((name) => row[name]))));
}

function lines(content) {
  return content.split("\n").flatMap((line, i) => {
    if (!line.trim()) return [];
    try {
      return [JSON.parse(exact(line))];
    } catch {
      throw Object.assign(new Error(), { word: "not_json", values: { line: i + 1 } });
    }
  });
}

/** Whole numbers past 2^53 as texts, since JSON.parse would round them. */
const exact = (line) => line.replace(/([:,[]\s*)(-?\d{16,})(?=\s*[,}\]])/g, '$1"$2"');

function* csv(names, rows) {
  yield `${names.map(cell).join(",")}\n`;
  for (let i = 0; i < rows.length; i += 10_000) {
    yield rows.slice(i, i + 10_000).map((row) => `${row.map(cell).join(",")}\n`).join("");
  }
}

async function parquet(file) {
  try {
    const [{ parquetMetadataAsync, parquetReadObjects }, { decompress }] = await Promise.all([
      import("./duckdb/hyparquet/index.js"),
      import("./duckdb/fzstd.mjs"),
    ]);
    const source = { byteLength: file.size, slice: (from, to) => file.slice(from, to).arrayBuffer() };
    const metadata = await parquetMetadataAsync(source);
    const names = metadata.schema.slice(1).map(({ name }) => name);
    const compressors = { ZSTD: (bytes, length) => decompress(bytes, new Uint8Array(length)) };
    const parts = [];
    for (let from = 0, rows = Number(metadata.num_rows); from < rows || !parts.length; from += 100_000) {
      const objects = await parquetReadObjects({ file: source, metadata, compressors, rowStart: from, rowEnd: Math.min(from + 100_000, rows) });
      const [header, ...pages] = csv(names, objects.map((row) => names.map((name) => row[name])));
      parts.push(...(parts.length ? pages : [header, ...pages]));
    }
    return new Blob(parts);
  } catch (error) {
    throw Object.assign(new Error(), { word: "no_parquet", values: { error: error.message } });
  }
}
