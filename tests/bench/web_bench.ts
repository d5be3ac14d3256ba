/** How large the machine's page is, how soon it shows, and how smoothly it draws. */

import type { Browser } from "playwright-core";
import { buildPage } from "../../cli/build/page.ts";
import { PAGE_PATH } from "../../cli/page_path.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { PAGE_ENCODINGS, unpackAssets } from "../../lib/machine/page/archive.ts";
import { residentBytes, type ServerProcess, startServer, writeConfig } from "../support/server.ts";
import { browserWithPage, launch, openPage } from "../web/browser.ts";
import { heading, row } from "./figures.ts";

const ROOT = new URL("../../", import.meta.url);
const LOADS = 5;
const RESOURCES = 100;
const FRAMES_MS = 5000;
/** All cards are in sight: a page asks only for what is. */
const TALL = { width: 1400, height: 7000 };
const HZ = 10;
/** Ticks of a process's CPU time in /proc, a second. */
const TICKS_PER_S = 100;

export async function web(): Promise<void> {
  heading("the machine's page");
  await buildPage();
  const archive = await Deno.readFile(new URL(PAGE_PATH, ROOT));
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
  const before = await cpuSeconds(pid);
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
  const after = await cpuSeconds(pid);
  await page.context().close();
  const seconds = FRAMES_MS / 1000;
  return {
    p95Ms: times[Math.floor(times.length * 0.95)],
    perSecond: times.length / seconds,
    serverCpu: (after - before) / seconds,
  };
}

function tellFrames(what: string, { p95Ms, perSecond, serverCpu }: Frames): void {
  const drawn = `frame p95 ${p95Ms.toFixed(1)} ms, ${perSecond.toFixed(0)} frames/s (software rendering)`;
  row(what, `${drawn}; server ${(serverCpu * 100).toFixed(0)} % of a core`);
}

/** User and system time of a process. */
async function cpuSeconds(pid: number): Promise<number> {
  const fields = (await Deno.readTextFile(`/proc/${pid}/stat`)).split(") ").at(-1)!.split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_S;
}
