/**
 * `deno task web:pictures [FOLDER|--docs]`: writes a picture of every view of the machine's page, light and dark, wide
 * and narrow, and of every card, into dist/web/pictures; or the views of docs/views.md.
 */

import { browserWithPage, launch, openPage, pictureSet, SETTLE_MS } from "./browser.ts";
import { everyApi, startPageMachine } from "./page_machine.ts";

const ROOT = new URL("../../", import.meta.url);
const demo = JSON.parse(await Deno.readTextFile(new URL("examples/demo.json", ROOT)));
const set = pictureSet(Deno.args);
const VIEWS: readonly (readonly [name: string, path: string])[] = [
  ["control", ""],
  ["scene", "#/scene"],
  ["resources", "#/resources"],
  ["graph", "#/resources/graph"],
  ["configuration", "#/configuration"],
  ["logs", "#/logs"],
  ["activity", "#/activity"],
  ["diagnostics", "#/diagnostics"],
  ["connect", "#/connect"],
];

const needed = await browserWithPage();
if ("missing" in needed) {
  console.error(needed.missing);
  Deno.exit(1);
}
await Deno.mkdir(set.folder, { recursive: true });
const machine = await startPageMachine(demo);
// Without a graphics card, too.
const browser = await launch(needed.found, ["--enable-unsafe-swiftshader"]);
try {
  for (const look of set.looks) {
    const { page } = await openPage(browser, machine.url, look);
    for (const [name, path] of VIEWS) {
      await page.goto(`${machine.url}/${path}`);
      await page.locator("main > *").first().waitFor();
      await page.waitForTimeout(SETTLE_MS);
      const file = set.pathOf(`machine-${name}`, look);
      await page.screenshot({ path: file });
      console.log(file);
    }
    await page.context().close();
  }
  if (set.looks.length > 1) await takeCards();
} finally {
  await browser.close();
  await machine.close();
}

async function takeCards(): Promise<void> {
  await machine.configure(everyApi(demo));
  // A picture of a card begins below the bar that stays at the top: nothing needs to scroll.
  const { page } = await openPage(browser, machine.url, { height: 2400 });
  await page.goto(machine.url);
  await page.locator("article").first().waitFor();
  for (const { name } of machine.runtime.machine.nodes) {
    await page.goto(`${machine.url}/#/control/${encodeURIComponent(name.full)}`);
    const card = page.locator(`article[data-name="${name.short}"]`);
    await card.waitFor();
    await page.waitForTimeout(SETTLE_MS / 3);
    await card.screenshot({ path: `${set.folder}/card-${name.api.split(":").at(-1)}-${name.short}.png` });
  }
}
