// What the search costs: how long an event of a stream takes, and how fast bodies of several kinds come.
//
//     figures.mjs HOST

import fs from "node:fs";
import https from "node:https";

const [host] = process.argv.slice(2);
const agent = new https.Agent({ keepAlive: true, ca: fs.readFileSync(process.env.NODE_EXTRA_CA_CERTS) });
const get = (path, take) =>
  new Promise((done, fail) => {
    https.get({ host, path, agent }, (response) => {
      response.on("data", take);
      response.on("end", done);
    }).on("error", fail);
  });

const late = [];
for (let round = 0; round < 3; round += 1)
  await get("/ticks", (data) => {
    const now = process.hrtime.bigint();
    for (const [, at] of data.toString().matchAll(/"at": (\d+)/g)) late.push(Number(now - BigInt(at)) / 1000);
  });
late.sort((a, b) => a - b);
const at = (share) => late[Math.floor(late.length * share)].toFixed(0);
console.log(`events: ${late.length}, ${at(0.5)} us in the middle, ${at(0.9)} us for nine of ten, ${at(0.99)} us for 99 of 100`);

const begun = [];
for (let round = 0; round < 300; round += 1) {
  const start = process.hrtime.bigint();
  await get("/hello", () => {});
  begun.push(Number(process.hrtime.bigint() - start) / 1000);
}
begun.sort((a, b) => a - b);
console.log(`small responses: ${begun[150].toFixed(0)} us in the middle`);

for (const kind of ["bytes", "lines", "json", "text"]) {
  const size = 100_000_000;
  let best = 0;
  for (let round = 0; round < 3; round += 1) {
    const start = process.hrtime.bigint();
    let came = 0;
    await get(`/big?size=${size}&kind=${kind}`, (data) => { came += data.length; });
    best = Math.max(best, came / Number(process.hrtime.bigint() - start) * 1000);
  }
  console.log(`${kind}: ${best.toFixed(0)} MB/s`);
}
process.exit(0);
