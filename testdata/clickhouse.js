// clickhouse.js CHDB SCHEMA PORT: ClickHouse's engine, from the npm package chdb in the folder CHDB, with as much of the server's HTTP
// interface as the Collector's exporter and tests use. It has the tables of SCHEMA, in a folder of its own that it removes.
'use strict';
const [chdb, schema, port] = process.argv.slice(2);
const fs = require('fs'), os = require('os'), path = require('path'), http = require('http');
const { Session } = require(path.join(chdb, 'node_modules', 'chdb'));
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'lngtest-clickhouse-'));
const session = new Session(path.join(dir, 'db'));
process.on('exit', () => fs.rmSync(dir, { recursive: true, force: true }));
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => process.exit(0));

for (const s of fs.readFileSync(schema, 'utf8').replace(/^--.*$/mg, '').split(/;\s*\n/)) if (s.trim()) session.query(s);

// native writes a result as a block, as the exporter's client reads it: with block info, and a byte for each column's serialization.
function native({ meta, data }) {
  const out = [Buffer.from([1, 0, 2, 255, 255, 255, 255, 0]), varint(meta.length), varint(data.length)];
  meta.forEach(({ name, type }, i) => {
    const size = { UInt8: 1, UInt16: 2, UInt32: 4 }[type];
    out.push(text(name), text(size ? type : 'String'), Buffer.from([0]));
    for (const row of data) {
      const b = Buffer.alloc(size || 0);
      if (size) b.writeUIntLE(Number(row[i]), 0, size);
      out.push(size ? b : text(String(row[i])));
    }
  });
  return Buffer.concat(out);
}
function varint(n) {
  const out = [];
  for (; n > 127; n = Math.floor(n / 128)) out.push(n % 128 | 128);
  return Buffer.from([...out, n]);
}
function text(s) {
  const b = Buffer.from(s);
  return Buffer.concat([varint(b.length), b]);
}

function answer(url, body) {
  const insert = url.searchParams.get('query');
  if (insert && /^\s*INSERT /i.test(insert)) {
    const file = path.join(dir, 'block');
    fs.writeFileSync(file, body);
    session.query(insert.replace(/FORMAT Native\s*$/i, `SELECT * FROM file('${file}', 'Native')`));
    return '';
  }
  const query = insert || body.toString();
  if (url.searchParams.has('client_protocol_version')) {
    const result = session.query(query.replace(/displayName\(\), version\(\), revision\(\)/, "'chdb', version(), toUInt32(54460)"), 'JSONCompact');
    return result ? native(JSON.parse(result)) : '';
  }
  const params = {};
  for (const [key, value] of url.searchParams) if (key.startsWith('param_')) params[key.slice(6)] = value;
  return Object.keys(params).length ? session.queryBind(query, params, 'JSONEachRow') : session.query(query, 'JSONEachRow');
}

http.createServer((request, response) => {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => {
    try {
      response.end(answer(new URL(request.url, 'http://x'), Buffer.concat(parts)));
    } catch (e) {
      response.statusCode = 500;
      response.end(e.message);
    }
  });
}).listen(Number(port), '127.0.0.1');
