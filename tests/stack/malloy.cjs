// rows of one question, by Malloy on DuckDB: node malloy.cjs DATABASE MODEL QUERY
const {SingleConnectionRuntime} = require('@malloydata/malloy');
const {DuckDBConnection} = require('@malloydata/db-duckdb');
const fs = require('fs');
const [databasePath, model, query] = process.argv.slice(2);
(async () => {
  const connection = new DuckDBConnection({name: 'duckdb', databasePath, readOnly: true});
  const runtime = new SingleConnectionRuntime({connection});
  const result = await runtime.loadModel(fs.readFileSync(model, 'utf8')).loadQuery(query).run({rowLimit: 10000});
  console.log(JSON.stringify(result.data.toObject()));
  process.exit(0);
})().catch((error) => { console.error(String(error.stack || error)); process.exit(1); });
