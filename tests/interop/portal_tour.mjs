// A phone's browser at the portal: `node portal_tour.mjs URL CHROMIUM FOLDER`. JavaScript is off, as it may be in the small
// browsers that phones open for hotspots. Prints what the pages said as JSON; screenshots go to the folder.
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";

const { chromium } = createRequire(import.meta.url)("playwright-core");
const [url, program, folder] = process.argv.slice(2);
const executablePath = execFileSync("which", [program], { encoding: "utf8" }).trim();
const args = [
  "--no-sandbox",
  "--disable-gpu",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-sync",
  "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup",
  "--host-resolver-rules=MAP *.example 127.0.0.1",
];
const browser = await chromium.launch({ executablePath, args });
const context = await browser.newContext({
  viewport: { width: 390, height: 844 },
  isMobile: true,
  javaScriptEnabled: false,
});
const page = await context.newPage();
const saw = {};
const shot = (name) => page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });

await page.goto(`${url.replace("127.0.0.1", "connectivitycheck.example")}/generate_204`);
saw.url = page.url();
saw.title = await page.title();
saw.options = await page.getByLabel("Network", { exact: true }).locator("option").allTextContents();
await shot("form");
await page.getByLabel("Network", { exact: true }).selectOption("shop");
await page.getByLabel("Wi-Fi password").fill("short");
await page.getByLabel("Machine credentials").fill(process.env.CREDENTIALS);
await page.getByRole("button", { name: "Save" }).click();
saw.wrong = await page.getByRole("alert").textContent();
await shot("wrong");
await page.getByLabel("Network", { exact: true }).selectOption("shop");
await page.getByLabel("Wi-Fi password").fill("12345678");
await page.getByLabel("Machine credentials").fill(process.env.CREDENTIALS);
await page.getByRole("button", { name: "Save" }).click();
saw.joining = await page.getByRole("status").textContent();
await shot("joining");
console.log(JSON.stringify(saw));
await browser.close();
