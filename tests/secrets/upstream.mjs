// A server that imitates what agents talk to: Anthropic, OpenAI, Gemini, Ollama, GitHub's API and git over https, and pages
// that play tricks with what they are sent. It speaks HTTP/1.1 and HTTP/2 and wants the *real* keys, so an answer proves that
// one arrived.
//
//     upstream.mjs FOLDER     keys as JSON in $KEYS; listeners as descriptors from 103 on, in the order of PORTS in there.rs
//
// Models are chosen by their name: `stand-in` talks, one event per 50 ms; `stand-in-limited` answers 429, `-overloaded` 529,
// `-breaks` ends with an error in the middle, `-echo` says the key that it was sent, `-gzip` compresses unasked, `-moved` sends
// its client elsewhere, `-slow` begins after a second. What it saw is told on the listener for the log, one line of JSON each.

import fs from "node:fs";
import http from "node:http";
import http2 from "node:http2";
import net from "node:net";
import path from "node:path";
import tls from "node:tls";
import zlib from "node:zlib";
import { createHash, randomBytes } from "node:crypto";
import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";

const folder = process.argv[2];
const KEYS = JSON.parse(process.env.KEYS);
delete process.env.KEYS;
const file = (name) => fs.readFileSync(path.join(folder, name));

const EVENT = 50;
const WORDS = ["The ", "kennel ", "keeps ", "the ", "keys ", "for ", "the ", "hound."];
const TEXT = WORDS.join("");
const INPUT = 25, WRITTEN = 3, CACHED = 5, OUTPUT = 15;

const seen = [];
let count = 0;

// ---- what a request says of itself

const bearer = (value) => value?.match(/^(?:bearer|token) (.*)$/i)?.[1];

/** Where a request carries credentials: [[place, value]…]. */
function credentials(request, url) {
  const fields = request.headers;
  const found = [];
  const add = (where, value) => value !== undefined && found.push([where, value]);
  const authorization = fields.authorization;
  if (authorization !== undefined) {
    const basic = authorization.match(/^basic (.*)$/i)?.[1];
    if (basic !== undefined) {
      const [user, ...rest] = Buffer.from(basic, "base64").toString("latin1").split(":");
      add("basic user", user);
      add("basic password", rest.join(":"));
    } else add("authorization", bearer(authorization) ?? authorization);
  }
  for (const name of ["x-api-key", "api-key", "x-goog-api-key", "private-token"]) add(name, fields[name]);
  add("key=", url.searchParams.get("key") ?? undefined);
  return found;
}

/** The name of the real key among credentials, if there is one. */
const real = (found) => {
  for (const [, value] of found)
    for (const [name, key] of Object.entries(KEYS)) if (value === key) return name;
};

async function bodyOf(request) {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  return Buffer.concat(pieces);
}

// ---- answers

const json = (response, status, value, fields = {}) => {
  const text = Buffer.from(JSON.stringify(value));
  response.writeHead(status, { "content-type": "application/json", "content-length": text.length, ...fields });
  response.end(text);
};

const TYPES = {
  400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 529: "overloaded_error",
};

const errors = {
  anthropic: (status, message) => ({ type: "error", error: { type: TYPES[status] ?? "api_error", message }, request_id: `req_${count}` }),
  openai: (status, message) => ({
    error: {
      message, param: null,
      type: status === 429 ? "requests" : "invalid_request_error",
      code: { 401: "invalid_api_key", 429: "rate_limit_exceeded" }[status] ?? null,
    },
  }),
  gemini: (status, message) => ({
    error: { code: status, message, status: { 400: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED" }[status] ?? "UNAVAILABLE" },
  }),
  ollama: (_, message) => ({ error: message }),
};

const FIELDS = {
  anthropic: () => ({
    "request-id": `req_${count}`, "anthropic-ratelimit-requests-limit": "1000", "anthropic-ratelimit-requests-remaining": "999",
  }),
  openai: () => ({ "x-request-id": `req_${count}`, "openai-processing-ms": "7", "x-ratelimit-remaining-requests": "999" }),
  gemini: () => ({ "server-timing": "gfet4t7; dur=7", vary: "Origin" }),
  ollama: () => ({}),
};

/** What a stream is made of, by API: events in order, some of which are text. */
function events(api, kind, words, model, options) {
  const id = `${api}_${count}`;
  if (api === "anthropic") {
    const usage = { input_tokens: INPUT, cache_creation_input_tokens: WRITTEN, cache_read_input_tokens: CACHED, output_tokens: 1 };
    const message = { id: `msg_${count}`, type: "message", role: "assistant", model, content: [], stop_reason: null, stop_sequence: null, usage };
    return [
      { type: "message_start", message },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "ping" },
      ...words.map((text) => ({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } })),
      { type: "content_block_stop", index: 0 },
      // Cumulative, as the real one: each replaces what was said before.
      { type: "message_delta", delta: {}, usage: { output_tokens: OUTPUT - 1 } },
      { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: OUTPUT } },
      { type: "message_stop" },
    ];
  }
  if (api === "openai" && kind === "chat") {
    const chunk = (choices, more = {}) => ({ id, object: "chat.completion.chunk", created: 1, model, choices, ...more });
    const usage = { prompt_tokens: INPUT, completion_tokens: OUTPUT, total_tokens: INPUT + OUTPUT, prompt_tokens_details: { cached_tokens: CACHED } };
    const include = options.stream_options?.include_usage;
    const none = include ? { usage: null } : {};
    return [
      chunk([{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }], none),
      ...words.map((content) => chunk([{ index: 0, delta: { content }, finish_reason: null }], none)),
      chunk([{ index: 0, delta: {}, finish_reason: "stop" }], none),
      ...(include ? [chunk([], { usage })] : []),
    ];
  }
  if (api === "openai") {
    const whole = whole_answer(api, kind, words, model);
    const begun = { ...whole, status: "in_progress", output: [], usage: null };
    const item = whole.output[0];
    const place = { item_id: item.id, output_index: 0, content_index: 0 };
    const all = [
      { type: "response.created", response: begun },
      { type: "response.output_item.added", output_index: 0, item: { ...item, status: "in_progress", content: [] } },
      { type: "response.content_part.added", ...place, part: { type: "output_text", text: "", annotations: [] } },
      ...words.map((delta) => ({ type: "response.output_text.delta", ...place, delta, logprobs: [] })),
      { type: "response.output_text.done", ...place, text: words.join(""), logprobs: [] },
      { type: "response.content_part.done", ...place, part: item.content[0] },
      { type: "response.output_item.done", output_index: 0, item },
      { type: "response.completed", response: whole },
    ];
    return all.map((event, sequence_number) => ({ ...event, sequence_number }));
  }
  if (api === "gemini") {
    const part = (text, more = {}) => ({
      candidates: [{ index: 0, content: { role: "model", parts: [{ text }] }, ...more }],
      usageMetadata: { promptTokenCount: INPUT, totalTokenCount: INPUT }, modelVersion: model, responseId: id,
    });
    const last = part("", { finishReason: "STOP" });
    last.usageMetadata = { promptTokenCount: INPUT, candidatesTokenCount: OUTPUT, totalTokenCount: INPUT + OUTPUT, cachedContentTokenCount: CACHED };
    return [...words.map((word) => part(word)), last];
  }
  const said = (content, more = {}) => ({
    model, created_at: new Date().toISOString(), ...(kind === "generate" ? { response: content } : { message: { role: "assistant", content } }),
    done: false, ...more,
  });
  return [
    ...words.map((word) => said(word)),
    said("", { done: true, done_reason: "stop", prompt_eval_count: INPUT, eval_count: OUTPUT, total_duration: 1 }),
  ];
}

function whole_answer(api, kind, words, model) {
  const text = words.join("");
  if (api === "anthropic") {
    const usage = { input_tokens: INPUT, cache_creation_input_tokens: WRITTEN, cache_read_input_tokens: CACHED, output_tokens: OUTPUT };
    return { id: `msg_${count}`, type: "message", role: "assistant", model, content: [{ type: "text", text }], stop_reason: "end_turn", stop_sequence: null, usage };
  }
  if (api === "openai" && kind === "chat") {
    const usage = { prompt_tokens: INPUT, completion_tokens: OUTPUT, total_tokens: INPUT + OUTPUT, prompt_tokens_details: { cached_tokens: CACHED } };
    const choice = { index: 0, message: { role: "assistant", content: text, refusal: null }, logprobs: null, finish_reason: "stop" };
    return { id: `chatcmpl-${count}`, object: "chat.completion", created: 1, model, choices: [choice], usage };
  }
  if (api === "openai") {
    const content = [{ type: "output_text", text, annotations: [], logprobs: [] }];
    const item = { type: "message", id: `msg_${count}`, role: "assistant", status: "completed", content };
    const usage = {
      input_tokens: INPUT, input_tokens_details: { cached_tokens: CACHED }, output_tokens: OUTPUT,
      output_tokens_details: { reasoning_tokens: 0 }, total_tokens: INPUT + OUTPUT,
    };
    const rest = { error: null, incomplete_details: null, instructions: null, metadata: {}, parallel_tool_calls: true, tool_choice: "auto", tools: [] };
    return { id: `resp_${count}`, object: "response", created_at: 1, status: "completed", model, output: [item], usage, ...rest };
  }
  const all = events(api, kind, words, model, {});
  const last = all.at(-1);
  if (api === "gemini") last.candidates[0].content.parts[0].text = text;
  else if (kind === "generate") last.response = text;
  else last.message.content = text;
  return last;
}

/** How an event is written, by API and form. */
function written(api, form, event, index) {
  const text = JSON.stringify(event);
  if (form === "ndjson") return text + "\n";
  if (form === "array") return (index === 0 ? "[" : ",\r\n") + text;
  const name = event.type ? `event: ${event.type}\n` : "";
  return api === "gemini" ? `data: ${text}\r\n\r\n` : `${name}data: ${text}\n\n`;
}

async function model(api, kind, entry, request, response, body, options) {
  const { name, streamed, form } = options;
  const fail = (status, message, fields = {}) => json(response, status, errors[api](status, message), { ...FIELDS[api](), ...fields });
  if (api !== "ollama" && entry.real !== api) return fail(api === "gemini" ? 400 : 401, "the API key is not valid");
  const trick = name?.replace(/^.*stand-in-?/, "") ?? "";
  let words = WORDS;
  switch (trick) {
    // Without the wait that a real one asks for: its client would obey.
    case "limited": return fail(429, "Number of requests has exceeded your rate limit", { "retry-after": "0" });
    case "overloaded": return fail(529, "Overloaded");
    case "moved": response.writeHead(302, { location: `https://elsewhere.web.test${request.url}` }); return response.end();
    case "slow": await sleep(1000); break;
    case "echo": words = ["You sent ", KEYS[api], " and ", Buffer.from(KEYS[api]).toString("base64"), "."]; break;
    case "counted": words = [`${body.length} bytes`]; break;
  }
  const fields = { ...FIELDS[api](), "alt-svc": 'h3=":443"; ma=86400' };
  if (trick === "gzip") {
    const text = zlib.gzipSync(JSON.stringify(whole_answer(api, kind, words, name)));
    response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip", "content-length": text.length, ...fields });
    return response.end(text);
  }
  if (!streamed) return json(response, 200, whole_answer(api, kind, words, name), fields);
  const type = { sse: "text/event-stream; charset=utf-8", ndjson: "application/x-ndjson", array: "application/json" }[form];
  response.writeHead(200, { "content-type": type, "cache-control": "no-cache", ...fields });
  let index = 0;
  for (const event of events(api, kind, words, name, options.body)) {
    if (trick === "breaks" && index === 5) {
      const error = errors[api](529, "Overloaded");
      response.write(api === "anthropic" ? `event: error\ndata: ${JSON.stringify(error)}\n\n` : written(api, form, error, index));
      return response.end();
    }
    entry.sent.push(Date.now());
    response.write(written(api, form, event, index++));
    if (response.destroyed) break;
    await sleep(EVENT);
  }
  if (form === "array") response.write("]");
  if (api === "openai" && kind === "chat") response.write("data: [DONE]\n\n");
  response.end();
}

// ---- GitHub

const BASIC = { "www-authenticate": 'Basic realm="GitHub"' };

/** git's own server, as a CGI program. */
function git(entry, request, response, body, url) {
  if (entry.real !== "github") {
    response.writeHead(401, BASIC);
    return response.end("Authentication required");
  }
  const fields = request.headers;
  const backend = spawn("git", ["http-backend"], {
    env: {
      PATH: process.env.PATH, HOME: folder, GIT_CONFIG_GLOBAL: "/dev/null", GIT_PROJECT_ROOT: path.join(folder, "git"), GIT_HTTP_EXPORT_ALL: "1",
      REQUEST_METHOD: request.method, PATH_INFO: url.pathname, QUERY_STRING: url.search.slice(1), REMOTE_USER: "kennel",
      REMOTE_ADDR: "203.0.113.1", CONTENT_TYPE: fields["content-type"] ?? "", CONTENT_LENGTH: String(body.length),
      HTTP_CONTENT_ENCODING: fields["content-encoding"] ?? "", GIT_PROTOCOL: fields["git-protocol"] ?? "",
    },
    stdio: ["pipe", "pipe", "ignore"],
  });
  backend.stdin.on("error", () => {});
  backend.stdin.end(body);
  let head = Buffer.alloc(0), begun = false;
  backend.stdout.on("data", (piece) => {
    if (begun) return response.write(piece);
    head = Buffer.concat([head, piece]);
    const end = head.indexOf("\r\n\r\n");
    if (end < 0) return;
    begun = true;
    let status = 200;
    for (const line of head.subarray(0, end).toString("latin1").split("\r\n")) {
      const [name, ...value] = line.split(": ");
      if (name.toLowerCase() === "status") status = parseInt(value[0], 10);
      else response.setHeader(name, value.join(": "));
    }
    response.writeHead(status);
    response.write(head.subarray(end + 4));
  });
  backend.stdout.on("end", () => response.end());
}

// ---- pages that play tricks

const percent = (text) => [...Buffer.from(text)].map((byte) => "%" + byte.toString(16).toUpperCase().padStart(2, "0")).join("");
const escaped = (text) => [...text].map((c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0")).join("");

/** A text in the forms in which servers show things again. */
function forms(text) {
  const base64 = (before) => Buffer.from(before + text + "-tail").toString("base64");
  return {
    raw: `<${text}>`, base64_0: base64(""), base64_1: base64("x"), base64_2: base64("xy"), url: Buffer.from("x:" + text).toString("base64url"),
    percent: percent(text), lower: percent(text).toLowerCase(), json: escaped(text), hex: Buffer.from(text).toString("hex"),
  };
}

/** A text in forms in which programs write it. */
function moreForms(text) {
  const each = (write) => [...Buffer.from(text)].map((byte) => write(byte.toString(16).padStart(2, "0"), byte)).join("");
  const wrap = (long, width, between) => long.match(new RegExp(`.{1,${width}}`, "g")).join(between);
  const base64 = Buffer.from("xy" + text + "-tail").toString("base64");
  const hex = Buffer.from(text).toString("hex");
  return {
    json: text.replaceAll("-", "\\u002D"), nested_json: text.replaceAll("-", "\\\\u002d"), percent: text.replaceAll("-", "%2D"),
    twice: text.replaceAll("-", "%252D"), entity: text.replaceAll("-", "&#45;"), entity_hex: each((digits) => `&#x${digits};`),
    x: each((digits) => `\\x${digits}`), utf16: each((_, byte) => String.fromCharCode(byte) + "\0"), mime: wrap(base64, 19, "\r\n"),
    pem: wrap(base64, 8, "\n  "), json_lines: wrap(base64, 12, "\\n"), letters: wrap(base64, 1, " "), blanks: wrap(hex, 2, " "), colons: wrap(hex, 2, ":"),
    dashes: wrap(hex, 8, "-"), lines: wrap(hex, 32, "\n"), numbers: each((digits) => `0x${digits}, `), upper: wrap(hex.toUpperCase(), 4, " "),
  };
}

/** The key in messages: whole, escaped, in two frames, and in frames about the connection. */
function messages(text) {
  const frame = (flags, payload) => Buffer.concat([Buffer.from([flags, payload.length]), Buffer.from(payload, "latin1")]);
  const percent = (part) => [...Buffer.from(part)].map((byte) => "%" + byte.toString(16)).join("");
  const short = percent(text).length < 120 ? percent(text) : text.replaceAll("-", "%2d");
  const code = String.fromCharCode(3, 232);
  return Buffer.concat([
    frame(0x81, `<${text}>`), frame(0x82, `<${short}>`), frame(0x01, "<" + text.slice(0, 7)), frame(0x89, text), frame(0x80, text.slice(7) + ">"),
    frame(0x8a, text), frame(0x81, "end"), frame(0x88, code + text.slice(0, 120)),
  ]);
}

/** What the client chose, in the pieces that it chose, each sent by itself; in a field or behind the body, where it says so. */
async function say(response, { parts, how, type, fields, pause }) {
  const named = { "content-type": type ?? "text/plain", ...fields };
  const bytes = parts.map((part) => Buffer.from(part, "latin1"));
  if (how === "field") { response.writeHead(200, { ...named, "x-say": parts.join("") }); return response.end("ok\n"); }
  if (how === "trailer") {
    response.writeHead(200, { ...named, trailer: "x-last" });
    response.write("body\n");
    response.addTrailers({ "x-last": parts.join("") });
    return response.end();
  }
  response.writeHead(200, named);
  for (const part of bytes) {
    response.write(part);
    await (pause ? sleep(pause) : new Promise((done) => setImmediate(done)));
  }
  return response.end();
}

async function page(entry, request, response, body, url) {
  const echoed = entry.credentials.map(([, value]) => value).find((value) => Object.values(KEYS).includes(value)) ?? "nothing";
  const wanted = (name) => url.searchParams.get(name);
  switch (url.pathname) {
    case "/hello": return response.end(`hello from ${entry.host}\n`);
    // The head as it came, and the forms of the key in the head and in the body.
    case "/echo": {
      const all = forms(echoed);
      for (const [name, value] of Object.entries(all)) response.setHeader(`x-echo-${name.replace("_", "-")}`, value);
      response.setHeader("set-cookie", [`key=${echoed}; Path=/`, "other=1"]);
      response.setHeader("content-type", "application/json");
      return response.end(JSON.stringify({ ...all, headers: request.headers, body: body.toString("latin1"), path: request.url }) + "\n");
    }
    // The key in the body, in pieces of so many bytes, each sent by itself.
    case "/drip": {
      const size = parseInt(wanted("size") ?? "1", 10);
      const text = Buffer.from(`begin ${echoed} middle ${Object.values(forms(echoed)).join(" ")} end\n`);
      for (let at = 0; at < text.length; at += size) {
        response.write(text.subarray(at, at + size));
        await new Promise((done) => setImmediate(done));
      }
      return response.end();
    }
    // The key in forms that programs write, one after the other, in pieces.
    case "/forms": {
      response.writeHead(200, { "content-type": "text/plain" });
      for (const [name, text] of Object.entries(moreForms(echoed)))
        for (const part of [`${name} `, text.slice(0, 17), text.slice(17), "\n\n"]) {
          response.write(Buffer.from(part, "latin1"));
          await new Promise((done) => setImmediate(done));
        }
      return response.end();
    }
    // Compressed, whatever the client can read.
    case "/compressed": {
      const text = Buffer.from(`the key is ${echoed}\n`);
      const how = { gzip: zlib.gzipSync, deflate: zlib.deflateSync, br: zlib.brotliCompressSync }[wanted("how")];
      // Some clients look at the first of several fields only.
      const named = how ? wanted("how") : "kennel";
      response.setHeader("content-encoding", wanted("twice") ? ["identity", named] : named);
      return response.end(how ? how(text) : text);
    }
    case "/moved": response.writeHead(parseInt(wanted("status") ?? "302", 10), { location: wanted("to") }); return response.end();
    case "/reason": {
      if (request.httpVersion === "1.1") response.statusMessage = `because of ${echoed}`;
      return response.end("ok\n");
    }
    case "/trailer":
      response.writeHead(200, { trailer: "x-last" });
      response.write("body\n");
      response.addTrailers({ "x-last": echoed });
      return response.end();
    case "/alternative": response.setHeader("alt-svc", 'h3=":443"; ma=86400'); return response.end("ok\n");
    case "/big": {
      const size = parseInt(wanted("size"), 10);
      const kinds = { text: "kennel ", json: '{"name": "kennel", "path": "a\\/b", "size": 12345}, ', lines: "A line of a log, with a number: 12345.\n" };
      const piece = wanted("kind") === "bytes" ? randomBytes(65536) : Buffer.alloc(65536, kinds[wanted("kind") ?? "text"]);
      response.writeHead(200, { "content-length": size });
      for (let left = size; left > 0 && !response.destroyed; left -= piece.length) {
        if (!response.write(piece.subarray(0, left))) await new Promise((done) => response.once("drain", done));
      }
      return response.end();
    }
    // Events that say when they were sent, by the clock of this machine.
    case "/ticks": {
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (let left = 200; left > 0 && !response.destroyed; left -= 1) {
        response.write(`data: {"at": ${process.hrtime.bigint()}, "delta": {"content": "a few words "}}\n\n`);
        await sleep(5);
      }
      return response.end();
    }
    case "/digest": return response.end(createHash("sha256").update(body).digest("hex") + "\n");
    case "/user": return entry.real === "github" ? json(response, 200, { login: "kennel", id: 1 }) : json(response, 401, { message: "Bad credentials" });
  }
  if (/^\/repos\/[^/]+\/[^/]+\/issues$/.test(url.pathname)) {
    if (entry.real !== "github") return json(response, 401, { message: "Bad credentials" });
    return json(response, request.method === "POST" ? 201 : 200, request.method === "POST" ? { number: 1 } : []);
  }
  return json(response, 404, { error: { type: "not_found_error", message: `the stand-in has no ${url.pathname}` } });
}

// ---- the server

async function answer(port, request, response) {
  count += 1;
  const host = request.authority || request.headers[":authority"] || request.headers.host || "";
  const url = new URL(request.url, "https://upstream.test");
  const found = credentials(request, url);
  const entry = {
    number: count, port, host, method: request.method, path: request.url, version: request.httpVersion,
    sni: request.socket.servername || "", fields: { ...request.headers }, credentials: found, real: real(found), body: "", sent: [],
  };
  seen.push(entry);
  const body = await bodyOf(request);
  entry.body = body.toString("latin1").slice(0, 20000);
  let said = {};
  try { said = JSON.parse(body); } catch { /* not all bodies are */ }
  if (url.pathname === "/say") { seen.pop(); return say(response, said); }
  const last = said.messages?.at?.(-1)?.content;
  if (typeof last === "string" && last.startsWith("say:")) { seen.pop(); return say(response, JSON.parse(last.slice(4))); }
  const streamed = said.stream === true;
  const go = (api, kind, more) =>
    model(api, kind, entry, request, response, body, { name: said.model, streamed, form: "sse", body: said, ...more });
  const where = url.pathname;
  const gemini = where.match(/^\/v1(?:beta|alpha)?\/models\/([^/:]+):(generateContent|streamGenerateContent|countTokens)$/);
  if (where === "/v1/messages") return go("anthropic", "messages");
  if (where === "/v1/messages/count_tokens") return json(response, entry.real === "anthropic" ? 200 : 401, { input_tokens: INPUT });
  if (where === "/v1/chat/completions") return go("openai", "chat");
  if (where === "/v1/responses") return go("openai", "responses");
  if (where === "/v1/models") return json(response, entry.real ? 200 : 401, { object: "list", data: [{ id: "stand-in", object: "model", created: 1, owned_by: "kennel" }] });
  if (gemini?.[2] === "countTokens") return json(response, 200, { totalTokens: INPUT });
  if (gemini) {
    const form = url.searchParams.get("alt") === "sse" ? "sse" : "array";
    return go("gemini", "generate", { name: gemini[1], streamed: gemini[2] === "streamGenerateContent", form });
  }
  if (where === "/api/chat" || where === "/api/generate")
    return go("ollama", where.slice(5), { streamed: said.stream !== false, form: "ndjson" });
  if (where === "/api/tags") return json(response, 200, { models: [{ name: "stand-in" }] });
  if (where.includes(".git/")) return git(entry, request, response, body, url);
  return page(entry, request, response, body, url);
}

const serve = (port) => (request, response) => {
  response.on("error", () => {});
  answer(port, request, response).catch((error) => {
    seen.push({ failed: String(error?.stack ?? error), path: request.url });
    response.destroy?.();
  });
};

/** A WebSocket's handshake; then every byte comes back, and first the key that the head had. */
function upgrade(port) {
  return (request, socket) => {
    const url = new URL(request.url, "https://upstream.test");
    const found = credentials(request, url);
    const entry = { number: ++count, port, host: request.headers.host, method: "UPGRADE", path: request.url, fields: { ...request.headers }, credentials: found, real: real(found), sent: [], body: "" };
    seen.push(entry);
    const accept = createHash("sha1").update(request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n${url.pathname === "/packed" ? "Sec-WebSocket-Extensions: permessage-deflate\r\n" : ""}\r\n`);
    socket.on("error", () => {});
    if (url.pathname === "/messages") {
      const own = found.map(([, value]) => value).find((value) => Object.values(KEYS).includes(value)) ?? "nothing";
      return socket.end(messages(own));
    }
    socket.pipe(socket);
  };
}

const certificate = { key: file("upstream.key"), cert: file("upstream.pem") };
const relaxed = { insecureHTTPParser: false, maxHeaderSize: 65536 };
const quiet = (server) => {
  server.on("tlsClientError", (error) => seen.push({ refused: String(error.message ?? error) }));
  server.on("sessionError", () => {});
  server.on("error", (error) => { console.error(error); process.exit(1); });
  return server;
};
// In the order of PORTS in there.rs.
const servers = [
  [443, (port) => quiet(http2.createSecureServer({ ...certificate, ...relaxed, allowHTTP1: true, settings: { maxHeaderListSize: 131072 } }, serve(port))).on("upgrade", upgrade(port))],
  [80, (port) => quiet(http.createServer(relaxed, serve(port))).on("upgrade", upgrade(port))],
  // A certificate by nobody.
  [8443, (port) => quiet(http2.createSecureServer({ key: file("nobody.key"), cert: file("nobody.pem"), allowHTTP1: true }, serve(port)))],
  // Wants a certificate of its client.
  [8444, (port) => quiet(http2.createSecureServer({ ...certificate, allowHTTP1: true, requestCert: true, rejectUnauthorized: true, ca: file("ca.pem") }, serve(port)))],
  // Tells what it saw.
  [9999, () => net.createServer((socket) => { socket.on("error", () => {}); socket.end(seen.map((entry) => JSON.stringify(entry)).join("\n")); })],
];
let waiting = servers.length;
servers.forEach(([port, make], index) => {
  make(port).listen({ fd: 103 + index }, () => { if (--waiting === 0) fs.writeSync(1, "ready\n"); });
});
void tls;
