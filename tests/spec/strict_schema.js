// Whether a JSON schema passes the strict mode by which SchemaStore takes it: node strict_schema.js FILE
const { readFileSync } = require("fs");
const Ajv = require("ajv").default;
const addFormats = require("ajv-formats").default;

const schema = JSON.parse(readFileSync(process.argv[2], "utf-8"));
const ajv = new Ajv({ strict: true, strictTypes: false, allowMatchingProperties: true, unicodeRegExp: true });
addFormats(ajv);
ajv.compile(schema);
