/** How large the machine's page is, how soon it shows, and how smoothly it draws. */

import type { Browser, CDPSession, Page } from "playwright-core";
import { GetMetricsResponseSchema } from "../../proto/gen/machine_page_pb.ts";
import { buildPage } from "../../cli/build/page.ts";
import { MACHINE_PAGE } from "../../cli/page_path.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { fromBinary } from "../../lib/wire/rpc/proto.ts";
import { PAGE_ENCODINGS, unpackAssets } from "../../lib/wire/page/archive.ts";
import { residentBytes, type ServerProcess, startServer, writeConfig } from "../support/server.ts";
import { browserWithPage, launch, openPage } from "../web/browser.ts";
import { everyApi, type PageMachine, startPageMachine } from "../web/page_machine.ts";
import { heading, row } from "./figures.ts";
import { cpuMsOf } from "./process_time.ts";

const ROOT = new URL("../../", import.meta.url);
const LOADS = 5;
const RESOURCES = 100;
const FRAMES_MS = 5000;
/** All cards are in sight: a page asks only for what is. */
const TALL = { width: 1400, height: 9000 };
const HZ = 10;

/** What the cards ask. */
const CALLED = "/viam.component.sensor.v1.SensorService/GetReadings";

export async function web(): Promise<void> {
  heading("the machine's page");
  await buildPage(MACHINE_PAGE);
  const archive = await Deno.readFile(new URL(MACHINE_PAGE.path, ROOT));
  const assets = [...unpackAssets(archive).values()];
  for (const encoding of PAGE_ENCODINGS) {
    const bytes = assets.reduce((sum, { contents }) => sum + contents[encoding].length, 0);
    row(`all assets, ${encoding}`, `${(bytes / 1000).toFixed(0)} kB`);
  }
  row("embedded in executables", `${(archive.length / 1000).toFixed(0)} kB`);

  const needed = await browserWithPage();
  if ("missing" in needed) return row("in a browser", needed.missing);
  const components = Array.from({ length: RESOURCES }, (_, at): JsonObject => {
    return { name: `sensor${at}`, api: "rdk:component:sensor", model: "fake", attributes: {} };
  });
  const config = await writeConfig({ components });
  const server = await startServer(config, { args: ["-disable-mdns"] });
  const browser = await launch(needed.found);
  try {
    await server.wrote("machine is running");
    const paints: number[] = [];
    let loaded = 0;
    for (let load = 0; load < LOADS; load++) {
      const { page } = await openPage(browser, server.url);
      await page.goto(server.url);
      await page.locator("article").first().waitFor();
      const [paint, bytes] = await page.evaluate(() => {
        const sum = performance.getEntriesByType("resource").reduce((all, one) => {
          const { encodedBodySize, name } = one as PerformanceEntry & { encodedBodySize: number };
          return all + (name.includes("/assets/") ? encodedBodySize : 0);
        }, 0);
        return [performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN, sum];
      });
      paints.push(paint);
      loaded = bytes;
      await page.context().close();
    }
    row("first paint, median", `${paints.sort((a, b) => a - b)[Math.floor(LOADS / 2)].toFixed(0)} ms`);
    row("loaded for the first view", `${(loaded / 1000).toFixed(0)} kB`);

    const idle = await framesOf(browser, server, "");
    tellFrames("six cards", idle);
    const ids = components.map(({ name }) => `rdk:component:sensor/${name}`);
    const busy = await framesOf(browser, server, `?every=${1000 / HZ}`, ids);
    tellFrames(`${RESOURCES} cards at ${HZ} Hz`, busy);
    row("server with an open page", `${((await residentBytes(server.pid)) / 1e6).toFixed(0)} MB resident`);
    await tellHour(browser);
  } finally {
    await browser.close();
    await server.stop();
    await Deno.remove(config);
  }
}

interface Frames {
  readonly p95Ms: number;
  readonly perSecond: number;
  /** Of one core. */
  readonly serverCpu: number;
  /** Calls of `CALLED` that the server answered. */
  readonly callsPerSecond: number;
}

/** Draws for some seconds with these cards open. */
async function framesOf(
  browser: Browser,
  { url, pid }: ServerProcess,
  query: string,
  cards?: readonly string[],
): Promise<Frames> {
  const { page } = await openPage(browser, url, cards ? TALL : {});
  if (cards) {
    await page.addInitScript(`sessionStorage["svc-open-cards"] = ${JSON.stringify(JSON.stringify(cards))}`);
  }
  await page.goto(`${url}/${query}`);
  await page.locator("article td.value").nth(cards ? cards.length - 1 : 0).waitFor();
  const hidden = await page.evaluate(`[...document.querySelectorAll("article")]
    .filter((card) => card.getBoundingClientRect().bottom > innerHeight).length`);
  if (cards && hidden !== 0) {
    throw new Error(`${hidden} of ${cards.length} cards are out of sight: make TALL taller`);
  }
  const [before, callsBefore] = [cpuMsOf(pid).own, await callsOf(url)];
  const times: number[] = await page.evaluate(`new Promise((resolve) => {
    const times = [];
    let last = performance.now();
    const end = last + ${FRAMES_MS};
    const frame = (now) => {
      times.push(now - last);
      last = now;
      now < end ? requestAnimationFrame(frame) : resolve(times.sort((a, b) => a - b));
    };
    requestAnimationFrame(frame);
  })`);
  const [after, callsAfter] = [cpuMsOf(pid).own, await callsOf(url)];
  await page.context().close();
  const seconds = FRAMES_MS / 1000;
  return {
    p95Ms: times[Math.floor(times.length * 0.95)],
    perSecond: times.length / seconds,
    serverCpu: (after - before) / FRAMES_MS,
    callsPerSecond: (callsAfter - callsBefore) / seconds,
  };
}

/** The calls that the server has answered since its start. */
async function callsOf(url: string): Promise<number> {
  const path = "/svc.page.v1.MachinePageService/GetMetrics";
  const headers = { "content-type": "application/grpc-web+proto" };
  const response = await fetch(url + path, { method: "POST", headers, body: new Uint8Array(5) });
  const frame = new Uint8Array(await response.arrayBuffer());
  const message = frame.subarray(5, 5 + new DataView(frame.buffer).getUint32(1));
  const { methods } = fromBinary(GetMetricsResponseSchema, message);
  return methods.find(({ name }) => CALLED.endsWith(name))?.endedTotal ?? 0;
}

function tellFrames(what: string, { p95Ms, perSecond, serverCpu, callsPerSecond }: Frames): void {
  const drawn = `frame p95 ${p95Ms.toFixed(1)} ms, ${perSecond.toFixed(0)} frames/s (software rendering)`;
  const server = `server ${(serverCpu * 100).toFixed(0)} % of a core`;
  row(what, `${drawn}; ${callsPerSecond.toFixed(0)} calls/s; ${server}`);
}

/** The page's own clock in an hour: a view a visit, and the first one again at the end of each round. */
const VIEWS = ["control", "logs", "diagnostics", "resources/graph", "activity", "scene", "control"];
const ROUNDS = 6;
const VISIT_MINUTES = 10 / VIEWS.length;
/** Answers arrive between two steps of the clock: a card that asks more often asks once a step. */
const STEP_MS = 1000;
const LINES_PER_STEP = 20;

/** Counts in `sent` what the page sends over WebRTC. */
const COUNT_MESSAGES = `(() => {
  globalThis.sent = 0;
  const { send } = RTCDataChannel.prototype;
  RTCDataChannel.prototype.send = function (data) {
    globalThis.sent++;
    return send.call(this, data);
  };
})()`;

/** What a page keeps after everything that it dropped is gone. */
interface Kept {
  readonly heapMb: number;
  readonly nodes: number;
  readonly listeners: number;
}

/**
 * What may come and go between two rounds: the engine's own compiled code, a view's last plot that is not collected yet.
 * The bounded lists are full after the second round.
 */
const NOISE: Kept = { heapMb: 1.5, nodes: 600, listeners: 80 };

/**
 * An open page for an hour of its own clock, with a log of twenty lines a second: what it keeps at the same view after
 * each ten minutes. Growth beyond noise from the second round on fails the run.
 */
async function tellHour(browser: Browser): Promise<void> {
  const demo = JSON.parse(await Deno.readTextFile(new URL("examples/demo.json", ROOT)));
  const machine = await startPageMachine(everyApi(demo));
  try {
    const { page } = await openPage(browser, machine.url);
    await page.addInitScript(COUNT_MESSAGES);
    await page.clock.install();
    const devtools = await page.context().newCDPSession(page);
    await page.goto(`${machine.url}/#/control`);
    await page.locator("article").first().waitFor();
    const kept: Kept[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      for (const view of VIEWS) await visit(page, machine, view);
      kept.push(await keptBy(devtools));
    }
    const [first, last] = [kept[1], kept[kept.length - 1]];
    const sent: number = await page.evaluate("sent");
    const heaps = kept.map(({ heapMb }) => heapMb.toFixed(1)).join(", ");
    row("an hour, each ten minutes", `heap ${heaps} MB; ${sent} messages sent`);
    row(
      "what the page kept",
      `${first.nodes} → ${last.nodes} nodes, ${first.listeners} → ${last.listeners} listeners`,
    );
    const grown = (Object.keys(NOISE) as (keyof Kept)[]).filter((one) => last[one] - first[one] > NOISE[one]);
    if (grown.length > 0) {
      row("grown beyond noise", grown.join(", "));
      Deno.exitCode = 1;
    }
    await page.context().close();
  } finally {
    await machine.close();
  }
}

async function visit(page: Page, machine: PageMachine, view: string): Promise<void> {
  await page.evaluate((hash) => location.hash = hash, `#/${view}`);
  const logger = machine.logs.logger("rdk.hour");
  for (let ms = 0; ms < VISIT_MINUTES * 60_000; ms += STEP_MS) {
    for (let line = 0; line < LINES_PER_STEP; line++) logger.info(`line ${line} of ${ms}`);
    await page.clock.runFor(STEP_MS);
  }
}

async function keptBy(devtools: CDPSession): Promise<Kept> {
  // What one collection frees may hold more that the next one frees.
  for (let turn = 0; turn < 3; turn++) await devtools.send("HeapProfiler.collectGarbage");
  const { usedSize } = await devtools.send("Runtime.getHeapUsage");
  const { nodes, jsEventListeners } = await devtools.send("Memory.getDOMCounters");
  return { heapMb: usedSize / 1e6, nodes, listeners: jsEventListeners };
}
