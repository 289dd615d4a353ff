// HTTP, strict and kind, and HTTPS that tells which name it was asked for.
// Arguments: folder, HTTP port, port for HTTP with the kind reader, HTTPS port.
const fs = require('fs'), http = require('http'), https = require('https'), tls = require('tls');
const [folder, plain, kind, secure] = process.argv.slice(2);
const file = (name) => fs.readFileSync(`${folder}/${name}`);
const bodies = { allowed: file('allowed/index.html'), other: file('other/index.html') };
// A name is the same in capitals, and with the dot of the root.
const isOther = (name) => name.toLowerCase().replace(/\.$/, '').endsWith('other.test');
function answer(request, response) {
  let host = (request.headers.host || '').split(':')[0];
  if (/^http:\/\//.test(request.url)) host = request.url.split('/')[2].split(':')[0];
  const other = isOther(host);
  if (other) console.log('EVIDENCE http', host);
  response.end(bodies[other ? 'other' : 'allowed']);
}
const pair = (name) => ({ cert: file(`${name}.pem`), key: file(`${name}.key`) });
const contexts = { allowed: tls.createSecureContext(pair('allowed')), other: tls.createSecureContext(pair('other')) };
function named(name, done) {
  const other = isOther(name);
  if (other) console.log('EVIDENCE sni', name);
  done(null, contexts[other ? 'other' : 'allowed']);
}
const servers = [
  [http.createServer(answer), plain],
  [http.createServer({ insecureHTTPParser: true }, answer), kind],
  [https.createServer({ ...pair('allowed'), SNICallback: named }, answer), secure],
];
for (const [server, port] of servers) {
  server.on('tlsClientError', () => {}).on('clientError', (_, socket) => socket.destroy());
  server.listen(Number(port), '127.0.0.1');
}
process.on('uncaughtException', () => {});
