// Guesses secrets, from inside: has the upstream send back a right beginning of a real value and a wrong one, in every framing and
// in a random order, and writes down what came in: the content, sizes, framing, counts, times and errors.
//
//     guess.mjs < {"seconds": …, "most": …, "seed": …, "secrets": [{"name", "value", "host"}…], "ways": ["chunks", …]}
//
// One trial in three is a control: two beginnings that are both wrong, made in the same way. Nobody judges here: a line of JSON for
// each way and secret has the trials, each as [is a pair, how much more each of FEATURES was for the right one (or the first), whether
// each of KINDS was another]; and examples of answers that were not what was asked for.

import fs from "node:fs";
import http2 from "node:http2";
import net from "node:net";
import tls from "node:tls";
import { once } from "node:events";

const asked = JSON.parse(fs.readFileSync(0));
let state = BigInt(asked.seed) | 1n;
const random = (below) => {
  state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
  return Number((state >> 33n) % BigInt(below));
};
const now = () => Number(process.hrtime.bigint() / 1000n);

// ---- clients: each takes {host, say} and gives {text, sizes, times}

/** One connection of HTTP/1.1 for many requests. */
class H1 {
  constructor(connect) { this.connect = connect; this.waiting = null; }
  async open() {
    this.socket = await this.connect();
    this.socket.setNoDelay?.(true);
    this.inbox = Buffer.alloc(0);
    const wake = () => { const waiting = this.waiting; this.waiting = null; waiting?.(); };
    this.reads = [];
    this.socket.on("data", (data) => { this.reads.push([now(), data.length]); this.inbox = Buffer.concat([this.inbox, data]); wake(); });
    this.ended = false;
    for (const event of ["end", "error", "close"]) this.socket.on(event, () => { this.ended = true; wake(); });
  }
  async more() {
    if (this.ended) throw new Error("the connection was closed");
    await new Promise((done) => { this.waiting = done; });
  }
  async upto(text) {
    for (;;) {
      const at = this.inbox.indexOf(text);
      if (at >= 0) { const found = this.inbox.subarray(0, at).toString("latin1"); this.inbox = this.inbox.subarray(at + text.length); return found; }
      await this.more();
    }
  }
  async exactly(count) {
    while (this.inbox.length < count) await this.more();
    const found = this.inbox.subarray(0, count); this.inbox = this.inbox.subarray(count); return found;
  }
  async ask(lines, body) {
    if (!this.socket || this.ended) await this.open();
    this.reads = [];
    const begun = now();
    this.socket.write([...lines, `Content-Length: ${Buffer.byteLength(body)}`, "", body].join("\r\n"));
    const head = (await this.upto("\r\n\r\n")).toLowerCase();
    const first = now();
    if (!/^http\/1.1 200/.test(head)) throw new Error(head);
    const sizes = [], parts = [];
    let tail = "";
    if (head.includes("transfer-encoding: chunked")) {
      for (;;) {
        const size = parseInt(await this.upto("\r\n"), 16);
        if (size === 0) break;
        parts.push(await this.exactly(size)); sizes.push(size);
        await this.exactly(2);
      }
      for (let line; (line = await this.upto("\r\n")) !== ""; ) tail += line + "\n";
    } else {
      const length = parseInt(/content-length: (\d+)/.exec(head)?.[1] ?? "0", 10);
      parts.push(await this.exactly(length)); sizes.push(length);
    }
    return { head, tail, text: Buffer.concat(parts).toString("latin1"), sizes, reads: this.reads, begun, first: first - begun, last: now() - begun };
  }
}

const secure = (host) => async () => {
  const socket = tls.connect({ host, port: 443, servername: host, ca: fs.readFileSync(process.env.NODE_EXTRA_CA_CERTS), ALPNProtocols: ["http/1.1"] });
  await once(socket, "secureConnect");
  return socket;
};
const plain = (host, port) => async () => { const socket = net.connect({ host, port }); await once(socket, "connect"); return socket; };

const clients = new Map();
const client = (name, make) => { if (!clients.has(name)) clients.set(name, make()); return clients.get(name); };

async function byH2(host, say) {
  let session = clients.get("h2 " + host);
  if (!session || session.closed || session.destroyed) {
    session = http2.connect(`https://${host}`, { ca: fs.readFileSync(process.env.NODE_EXTRA_CA_CERTS) });
    session.on("error", () => {});
    await once(session, "connect");
    clients.set("h2 " + host, session);
  }
  const begun = now();
  const stream = session.request({ ":method": "POST", ":path": "/say", te: "trailers", "content-type": "application/json" });
  stream.end(JSON.stringify(say));
  const parts = [], reads = [];
  let first = 0, head = "", tail = "";
  stream.on("response", (fields) => { first = now(); head = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`).join(""); });
  stream.on("data", (data) => { reads.push([now(), data.length]); parts.push(data); });
  stream.on("trailers", (fields) => { tail = Object.entries(fields).map(([name, value]) => `${name}: ${value}\n`).join(""); });
  await once(stream, "end");
  if (stream.rstCode) throw new Error(`the stream was reset: ${stream.rstCode}`);
  return { head, text: Buffer.concat(parts).toString("latin1"), tail, sizes: parts.map((part) => part.length), reads, begun, first: first - begun, last: now() - begun };
}

/** A WebSocket whose server sends back every byte. */
async function bySocket(host, parts, ping) {
  const name = "ws " + host;
  let own = clients.get(name);
  if (!own || own.ended) {
    own = new H1(secure(host));
    await own.open();
    own.socket.write(`GET /chat HTTP/1.1\r\nHost: ${host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`);
    await own.upto("\r\n\r\n");
    clients.set(name, own);
  }
  const frames = parts.map((part, at) => {
    const payload = Buffer.from(part, "latin1");
    const head = payload.length < 126 ? [payload.length] : [126, payload.length >> 8, payload.length & 255];
    // A ping is a frame by itself, and what comes back of it is looked at like a message.
    const first = ping ? 0x89 : (at === parts.length - 1 ? 0x80 : 0) | (at === 0 ? 1 : 0);
    return Buffer.concat([Buffer.from([first, ...head]), payload]);
  });
  own.reads = [];
  const begun = now();
  own.socket.write(Buffer.concat(frames));
  const sizes = [], texts = [];
  let first = 0;
  for (let last = false; !last; ) {
    const [flags, length] = await own.exactly(2);
    first ||= now() - begun;
    const size = length < 126 ? length : (await own.exactly(2)).readUInt16BE();
    texts.push((await own.exactly(size)).toString("latin1")); sizes.push(size);
    last = (flags & 0x80) !== 0;
  }
  return { head: "", tail: "", text: texts.join(""), sizes, reads: own.reads, begun, first, last: now() - begun };
}

// ---- ways: the text that is sent back, in pieces, and how

const cut = (text, sizes) => {
  const parts = [];
  for (let at = 0, number = 0; at < text.length; number += 1) { const size = sizes[number % sizes.length]; parts.push(text.slice(at, at + size)); at += size; }
  return parts;
};
const some = (count, most) => Array.from({ length: count }, () => 1 + random(most));
const whole = (say) => say.parts.join("");

// Each makes what is asked for of a guess; what is random in it is the same for both guesses of a trial.
const MAKE = {
  // The guess is the end of a piece; then comes another.
  chunks: () => { const more = "|".repeat(random(9)) + "rest\n"; return (guess) => ({ parts: ["begin " + guess, more] }); },
  drip: () => { const sizes = some(60, 6); return (guess) => ({ parts: cut(`${guess} and ${guess}`, sizes) }); },
  many: () => (guess) => ({ parts: [`${guess}.`.repeat(200), `${guess} `.repeat(200)] }),
  events: () => (guess) => ({ type: "text/event-stream", parts: [`data: {"text": "${guess}"}\n\n`, `data: ${guess}`, "\n\n", "data: end\n\n"] }),
  frames: () => { const sizes = some(20, 1 + random(40)); return (guess) => ({ parts: ["begin " + guess, "x", ...cut(guess, sizes)] }); },
  field: () => (guess) => ({ how: "field", parts: [guess] }),
  trailer: () => (guess) => ({ how: "trailer", parts: [guess] }),
  // Apart, so that the gate does not read both at once.
  apart: () => (guess) => ({ pause: 2, parts: ["begin " + guess, "rest\n"] }),
};

const JSON_TYPE = "Content-Type: application/json";
const byH1 = (host) => (say) =>
  client("h1 " + host, () => new H1(secure(host))).ask([`POST /say HTTP/1.1`, `Host: ${host}`, JSON_TYPE, "TE: trailers", "Connection: TE"], JSON.stringify(say));

/** By a provider's gateway: these lines of a head, and what is around what is said. */
const byGateway = (name, base, path, key, more) => (say) => {
  const { hostname, port, pathname } = new URL(base);
  const lines = [`POST ${pathname === "/" ? "" : pathname}${path} HTTP/1.1`, `Host: ${hostname}:${port}`, ...key, JSON_TYPE];
  const body = { model: "stand-in", stream: true, messages: [{ role: "user", content: "say:" + JSON.stringify(say) }], ...more };
  return client(name, () => new H1(plain(hostname, port))).ask(lines, JSON.stringify(body));
};
const env = process.env;
const byAnthropic = () =>
  byGateway("anthropic", env.ANTHROPIC_BASE_URL, "/v1/messages", [`x-api-key: ${env.ANTHROPIC_API_KEY}`, "anthropic-version: 2023-06-01"], { max_tokens: 9 });
const byOpenAi = () => byGateway("openai", env.OPENAI_BASE_URL, "/chat/completions", [`Authorization: Bearer ${env.OPENAI_API_KEY}`], {});
/** Its provider speaks HTTP/1.1. */
const byPlain = () => byGateway("plain", env.PLAIN_BASE_URL, "/chat/completions", [`Authorization: Bearer ${env.PLAIN_KEY}`], {});

const byParent = (host) => (say) => {
  const proxy = new URL(env.http_proxy ?? env.HTTP_PROXY);
  const lines = [`POST http://${host}/say HTTP/1.1`, `Host: ${host}`, JSON_TYPE];
  if (proxy.username) lines.push("Proxy-Authorization: Basic " + Buffer.from(decodeURIComponent(proxy.username) + ":" + decodeURIComponent(proxy.password)).toString("base64"));
  return client("parent", () => new H1(plain(proxy.hostname, proxy.port))).ask(lines, JSON.stringify(say));
};

/** How each makes what is asked for, how it asks, and where the answer is, if not in the body. */
const WAYS = {
  chunks: { make: MAKE.chunks, by: byH1 },
  drip: { make: MAKE.drip, by: byH1 },
  many: { make: MAKE.many, by: byH1 },
  events: { make: MAKE.events, by: byH1 },
  fields: { make: MAKE.field, by: byH1, where: "head" },
  // Clients of HTTP/1.1 are told of none.
  "trailers-h1": { make: MAKE.trailer, by: byH1, where: "none" },
  h2: { make: MAKE.frames, by: (host) => (say) => byH2(host, say) },
  "events-h2": { make: MAKE.events, by: (host) => (say) => byH2(host, say) },
  "fields-h2": { make: MAKE.field, by: (host) => (say) => byH2(host, say), where: "head" },
  trailers: { make: MAKE.trailer, by: (host) => (say) => byH2(host, say), where: "tail" },
  socket: { make: () => { const two = random(2); return (guess) => ({ parts: two ? ["begin " + guess, " rest"] : ["begin " + guess] }); }, by: (host) => (say) => bySocket(host, say.parts, false) },
  pings: { make: () => (guess) => ({ parts: [guess] }), by: (host) => (say) => bySocket(host, say.parts, true), most: 120 },
  gateway: { make: () => [MAKE.events, MAKE.chunks, MAKE.drip][random(3)](), by: byAnthropic },
  "gateway-openai": { make: () => [MAKE.events, MAKE.chunks, MAKE.drip][random(3)](), by: byOpenAi },
  "gateway-h1": { make: () => [MAKE.events, MAKE.chunks, MAKE.drip][random(3)](), by: byPlain },
  parent: { make: MAKE.apart, by: byParent },
  "parent-events": { make: MAKE.events, by: byParent },
  "parent-drip": { make: MAKE.drip, by: byParent },
  "parent-fields": { make: MAKE.field, by: byParent, where: "head" },
  "parent-trailers": { make: MAKE.trailer, by: byParent, where: "any" },
};

// ---- guesses

const each = (text, write) => [...text].map((letter) => write(letter.charCodeAt(0).toString(16).padStart(2, "0"))).join("");
const base64 = (text) => Buffer.from(text).toString("base64").replace(/=+$/, "");
const wrap = (text, width, between) => text.match(new RegExp(`.{1,${width}}`, "g")).join(between);

/** How a text is written, how much of it at most depends on the value alone, and whether it can be in a field. */
const FORMS = [
  { write: (text) => text },
  { write: (text) => text },
  { write: base64, share: 0.8 },
  { write: (text) => base64("x" + text), share: 0.8 },
  { write: (text) => wrap(base64("xy" + text), 19, "\n"), share: 0.8, lines: true },
  { write: (text) => each(text, (digits) => digits) },
  { write: (text) => each(text, (digits) => digits + ":") },
  { write: (text) => each(text, (digits) => "%" + digits.toUpperCase()) },
  { write: (text) => each(text, (digits) => "\\u00" + digits) },
  { write: (text) => each(text, (digits) => `&#x${digits};`) },
  { write: (text) => [...text].join("\0") + "\0", lines: true },
];

const CLASSES = ["0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"];

/** A right beginning, and two wrong ones that differ from it by one letter, of the same class, of the value. */
function guesses(secret, way) {
  const inLine = ["head", "tail", "none", "any"].includes(way.where);
  for (;;) {
    const form = FORMS[random(FORMS.length)];
    if (inLine && form.lines) continue;
    const all = form.write(secret.value);
    const most = Math.min(Math.floor(all.length * (form.share ?? 1)), all.length - 2, way.most ?? all.length);
    const length = Math.min(most, Math.max(4, Math.floor(all.length * (10 + random(90)) / 100)));
    const right = all.slice(0, length);
    // Mostly the last letter that shows, which is how one is found after the other.
    const start = random(10) < 7 ? Math.min(length, secret.value.length - 1) : random(Math.min(length, secret.value.length));
    for (let at = start; at >= 0; at -= 1) {
      const others = CLASSES.find((letters) => letters.includes(secret.value[at]));
      if (!others) continue;
      const changed = new Set();
      for (const other of others) changed.add(form.write(secret.value.slice(0, at) + other + secret.value.slice(at + 1)).slice(0, length));
      changed.delete(right);
      if (changed.size < 2) continue;
      const wrong = [...changed];
      const first = wrong.splice(random(wrong.length), 1)[0];
      return { right, wrong: first, another: wrong[random(wrong.length)] };
    }
  }
}

/** What is larger or smaller. */
const FEATURES = {
  count: (got) => got.sizes.length,
  size: (got) => got.sizes.reduce((sum, size) => sum + size, 0),
  "first size": (got) => got.sizes[0] ?? 0,
  "last size": (got) => got.sizes.at(-1) ?? 0,
  reads: (got) => got.reads.length,
  "time to the first byte": (got) => got.first,
  "time to the end": (got) => got.last,
  "longest pause": (got) => Math.max(0, ...got.reads.map(([at], number) => at - (got.reads[number - 1]?.[0] ?? got.begun))),
  errors: (got) => (got.error ? 1 : 0),
  "other contents": (got) => (got.came ? 0 : 1),
};
/** What is the same or not. */
const KINDS = {
  framing: (got) => got.sizes.join(),
  "sizes of reads": (got) => got.reads.map(([, size]) => size).join(),
  head: (got) => got.head.replace(/^date: .*\r\n/m, "").replaceAll(got.guess.toLowerCase(), "GUESS").replaceAll(got.guess, "GUESS"),
  error: (got) => got.error ?? "",
};

const PATIENCE = 5000;

/** An answer that does not come tells something, too, and so does a connection that breaks. */
async function patiently(answer) {
  let timer;
  const begun = now();
  const late = new Promise((done, fail) => { timer = setTimeout(() => fail(new Error("nothing came")), PATIENCE); });
  try {
    return await Promise.race([answer, late]);
  } catch (error) {
    answer.catch(() => {});
    forget();
    const took = now() - begun;
    return { error: String(error.message ?? error).slice(0, 200), text: "", head: "", tail: "", sizes: [], reads: [], begun, first: took, last: took };
  } finally {
    clearTimeout(timer);
  }
}

/** The next request is made on a new connection. */
function forget() {
  for (const [name, one] of clients) { if (one instanceof H1) one.socket?.destroy(); else one.destroy(); clients.delete(name); }
}

/** Whether what was asked for came, each byte of it. */
function came(where, say, got) {
  const text = whole(say);
  switch (where) {
    case "head": return got.head.toLowerCase().includes("x-say: " + text.toLowerCase());
    case "tail": return got.tail.includes(text);
    case "none": return got.tail === "" && got.text === "body\n";
    case "any": return (got.tail === "" || got.tail.includes(text)) && got.text === "body\n";
    default: return got.text === text;
  }
}

async function trial(sum) {
  const way = WAYS[sum.way];
  const isPair = random(3) > 0;
  const { right, wrong, another } = guesses(sum.secret, way);
  const make = way.make();
  const ask = way.by(sum.secret.host);
  const got = [];
  const two = isPair ? [right, wrong] : [wrong, another];
  for (const which of random(2) ? [0, 1] : [1, 0]) {
    const say = make(two[which]);
    const answer = await patiently(ask(say));
    answer.guess = two[which];
    answer.came = answer.error !== undefined || came(way.where, say, answer);
    if (answer.error !== undefined) { sum.errors += 1; sum.error ??= answer.error; }
    if (!answer.came) { sum.odd += 1; sum.example ??= { isPair, which, two, say, text: answer.text.slice(0, 500), tail: answer.tail }; }
    got[which] = answer;
  }
  const differences = Object.values(FEATURES).map((of) => of(got[0]) - of(got[1]));
  const others = Object.values(KINDS).map((of) => (of(got[0]) === of(got[1]) ? 0 : 1));
  sum.trials.push([isPair ? 1 : 0, ...differences, ...others]);
}

const end = Date.now() + asked.seconds * 1000;
const sums = [];
for (const way of asked.ways)
  for (const secret of asked.secrets.filter((secret) => secret.ways.includes(way))) sums.push({ way, secret, name: secret.name, odd: 0, errors: 0, trials: [] });
let made = 0, failing = 0;
while (sums.length && made < asked.most && (Date.now() < end || made < asked.least) && failing < sums.length)
  for (const sum of sums) {
    // It is a finding already, and each may take its time.
    if (sum.errors > 100 && sum.errors > sum.trials.length) { failing += 1; continue; }
    failing = 0;
    await trial(sum);
    made += 2;
  }
// A long run has more to say than a pipe takes at once, and what is not taken when this ends is lost.
for (const { way, name, odd, errors, error, example, trials } of sums) {
  const line = JSON.stringify({ way, name, odd, errors, error, example, features: Object.keys(FEATURES), kinds: Object.keys(KINDS), trials });
  await new Promise((done) => process.stdout.write(`${line}\n`, done));
}
process.exit(0);
