// the model's SQL for one question, by Cube's own compiler: node cube.cjs FILE CUBE MEASURES DIMENSIONS
process.env.CUBEJS_TESSERACT_SQL_PLANNER = 'false'; // the new planner is a binary that npm has not
const sc = require('@cubejs-backend/schema-compiler');
const fs = require('fs');
const [file, cube, measures, dimensions] = process.argv.slice(2);
const of = (names) => names.split(',').filter(Boolean).map((name) => `${cube}.${name}`);
(async () => {
  const content = fs.readFileSync(file, 'utf8');
  const repository = {localPath: () => '.', dataSchemaFiles: async () => [{fileName: 'model.yml', content}]};
  const noJinja = {loadTemplate() {}, renderTemplate() { throw Error('no Jinja here'); }};
  const made = sc.prepareCompiler(repository, {adapter: 'postgres', nativeInstance: {newJinjaEngine: () => noJinja}});
  await made.compiler.compile();
  const {PostgresQuery} = require('@cubejs-backend/schema-compiler/dist/src/adapter/PostgresQuery');
  const query = new PostgresQuery(
    {joinGraph: made.joinGraph, cubeEvaluator: made.cubeEvaluator, compiler: made.compiler},
    {measures: of(measures), dimensions: of(dimensions), timezone: 'UTC', limit: null},
  );
  console.log(JSON.stringify(query.buildSqlAndParams()));
})().catch((error) => { console.error(String(error.stack || error)); process.exit(1); });
