import { chromium } from "playwright-core";
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await (await browser.newContext()).newPage();
await page.goto(Deno.args[0]);
const s = await page.context().newCDPSession(page);
await s.send("HeapProfiler.enable");
await page.waitForTimeout(15000);
for (const b of await page.getByRole("button", { name: /^Open / }).all()) await b.click().catch(() => {});
const t0 = Date.now();
for (;;) {
  await s.send("HeapProfiler.collectGarbage");
  const h = await s.send("Runtime.getHeapUsage");
  const d = await s.send("Memory.getDOMCounters");
  console.log(Math.round((Date.now() - t0) / 1000), (h.usedSize / 1e6).toFixed(2), JSON.stringify(d));
  await page.waitForTimeout(60000);
}
