/**
 * The machine's page behind a reverse proxy as people first write it: below a path, and without a word about the address
 * that the browser uses.
 */

import { assertEquals } from "@std/assert";
import type { Page } from "playwright-core";
import { serveCloud, svcCloud } from "../cloud/program.ts";
import { FLEET_PAGE } from "../../cli/page_path.ts";
import { freePort } from "../support/free_port.ts";
import { both, needingTest } from "../support/needing.ts";
import { startNginx } from "../support/nginx.ts";
import { programHere } from "../support/programs_here.ts";
import { until } from "../support/until.ts";
import { browserWithPage, launch, openPage } from "./browser.ts";
import { startPageMachine } from "./page_machine.ts";
import { DEMO } from "./page_steps.ts";

/** Chromium takes it for this computer, and for a secure origin. */
const NAME = "robots.localhost";
const KEY = { id: "visitor", key: "a key of the machine" };
const AUTH = { handlers: [{ type: "api-key", config: { keys: [KEY.id], [KEY.id]: KEY.key } }] };
const over = (page: Page, way: string) =>
  page.getByRole("button", { name: new RegExp(`^Connection: ${way}`) });
const question = (page: Page) => page.getByRole("heading", { name: /^Sign in to/ });

/** Reverse proxies with two paths that lead to the machine, as people first write them. */
const PROXIES: Readonly<
  Record<string, (folder: string, upstream: string, port: number) => Promise<Deno.ChildProcess>>
> = {
  nginx: (folder, upstream, port) => {
    const path = (at: string) => `location ${at} { proxy_pass http://${upstream}/; }`;
    return startNginx(
      folder,
      `server { listen 127.0.0.1:${port}; ${path("/robots/1/")} ${path("/robots/2/")} }`,
    );
  },
  caddy: async (folder, upstream, port) => {
    const path = (at: string) => `  handle_path ${at}* {\n    reverse_proxy ${upstream}\n  }\n`;
    const global = "{\n  admin off\n  auto_https off\n  log {\n    level ERROR\n  }\n}\n";
    const site = `http://:${port} {\n  bind 127.0.0.1\n${path("/robots/1/")}${path("/robots/2/")}}\n`;
    await Deno.writeTextFile(`${folder}/Caddyfile`, global + site);
    const args = ["run", "--config", `${folder}/Caddyfile`, "--adapter", "caddyfile"];
    return new Deno.Command("caddy", { args, env: { HOME: folder }, stderr: "null" }).spawn();
  },
};

for (const [program, start] of Object.entries(PROXIES)) {
  needingTest(
    `the page works behind ${program} below a path, over WebRTC, with a key of its own for each path`,
    await both(browserWithPage(), Promise.resolve(programHere(program))),
    async ([browserPath]) => await playBelowPath(browserPath, start),
  );
}

async function playBelowPath(browserPath: string, start: typeof PROXIES[string]): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-proxy-" });
  const machine = await startPageMachine({ ...DEMO, auth: AUTH });
  const upstream = new URL(machine.url).host;
  const port = freePort();
  const origin = `http://${NAME}:${port}`;
  const proxy = await start(folder, upstream, port);
  const browser = await launch(browserPath);
  try {
    const answers = () => fetch(`http://127.0.0.1:${port}/`).then((answer) => answer.text(), () => undefined);
    await until(answers);
    const { page, foreign, errors } = await openPage(browser, origin);
    await page.goto(`${origin}/robots/1/`);
    await question(page).waitFor();
    await page.getByLabel("Key id").fill(KEY.id);
    await page.getByLabel("Key", { exact: true }).fill(KEY.key);
    await page.getByLabel("Stay signed in").check();
    await page.getByRole("button", { name: "Sign in" }).click();
    await over(page, "WebRTC").waitFor();
    await page.getByTestId("rtt").waitFor();

    await page.goto(`${origin}/robots/2/`);
    await question(page).waitFor();
    await page.goto(`${origin}/robots/1/?way=direct`);
    await over(page, "Direct").waitFor();
    // A stream that the proxy keeps back would show no line.
    await page.goto(`${origin}/robots/1/?way=direct#/logs`);
    await page.locator(".record").first().waitFor();
    assertEquals([foreign, errors], [[], []]);
  } finally {
    await browser.close();
    proxy.kill("SIGTERM");
    await proxy.status;
    await machine.close();
    await Deno.remove(folder, { recursive: true });
  }
}

needingTest(
  "the fleet's page below a path says that a control plane cannot work there",
  await both(browserWithPage(FLEET_PAGE), Promise.resolve(programHere("nginx"))),
  async ([browserPath]) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-nginx-" });
    await svcCloud("init", "--data", `${folder}/data`);
    const cloud = await serveCloud(["--data", `${folder}/data`]);
    const port = freePort();
    const location = `location /fleet/ { proxy_pass ${cloud.url}/; }`;
    const nginx = await startNginx(folder, `server { listen 127.0.0.1:${port}; ${location} }`);
    const browser = await launch(browserPath);
    try {
      const origin = `http://${NAME}:${port}`;
      await until(() => fetch(`http://127.0.0.1:${port}/`).then((answer) => answer.text(), () => undefined));
      const { page } = await openPage(browser, origin);
      await page.goto(`${origin}/fleet/`);
      await page.getByRole("alert").getByText("below the path /fleet/").waitFor();
      await page.goto(`${origin}/fleet/machine?part=x`);
      await page.getByRole("alert").getByText("below the path /fleet/").waitFor();
    } finally {
      await browser.close();
      nginx.kill("SIGTERM");
      await nginx.status;
      await cloud.stop();
      await Deno.remove(folder, { recursive: true });
    }
  },
);

needingTest(
  "under a name of the internet, the page of a machine without keys says why it takes no calls",
  await browserWithPage(),
  async (browserPath) => {
    const machine = await startPageMachine(DEMO);
    const { port } = new URL(machine.url);
    const browser = await launch(browserPath, ["--host-resolver-rules=MAP robots.example.com 127.0.0.1"]);
    try {
      const { page } = await openPage(browser, `http://robots.example.com:${port}`);
      await page.goto(`http://robots.example.com:${port}/`);
      const why = `takes no calls from http://robots.example.com:${port}: it asks nobody for a key`;
      await page.getByRole("status").getByText(why).waitFor();
      assertEquals(await question(page).count(), 0);
    } finally {
      await browser.close();
      await machine.close();
    }
  },
);
