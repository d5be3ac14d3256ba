/**
 * A browser for the tests of pages, as a person uses it, and what it must never do: ask anybody but the machine, or
 * report an error.
 */

import axe from "axe-core";
import { type Browser, chromium, type Page } from "playwright-core";
import { buildPage } from "../../cli/build/page.ts";
import { FLEET_PAGE, MACHINE_PAGE } from "../../cli/page_path.ts";
import { messageOf } from "../../lib/base/error.ts";
import type { Needed } from "../support/needing.ts";

const FLAGS = [
  ...["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
  ...["--disable-background-networking", "--disable-component-update", "--disable-sync"],
  // The pages that Chromium's address bar loads into each window take a second of a processor, and nobody sees them.
  "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup",
];
const PROGRAMS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
/** Chromium without the windows around its pages: tests of pages take a sixth less of the processors in it. */
const PAGES_ALONE = "/usr/bin/chromium-headless-shell";
/** Far above what a step takes on a busy computer. */
const WAIT_MS = 30_000;

/** What Chromium and the client library write of connections that fail or end. */
const CONNECTION_MESSAGE = new RegExp([
  ...["ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE", "Failed to load resource", "Failed to fetch"],
  ...["^error writing ", "^channel error", "^ConnectionClosedError: ", "signalingState is 'closed'"],
  ...["ICE connection failed", "timed out", "^error pushing received message into stream"],
].join("|"));

/** The rules of WCAG 2.2 AA. */
const WCAG = {
  runOnly: { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] },
  resultTypes: ["violations"],
  selectors: false,
};

/** Chromium's path. */
export async function browserPath(programs: readonly string[] = PROGRAMS): Promise<Needed<string>> {
  for (const path of programs) if (await Deno.stat(path).catch(() => undefined)) return { found: path };
  return { missing: "there is no Chromium here" };
}

/** Chromium's path, with a page built for it. The machine's page is tried in the whole of Chromium. */
export async function browserWithPage(wanted = MACHINE_PAGE): Promise<Needed<string>> {
  const browser = await browserPath(wanted === FLEET_PAGE ? [PAGES_ALONE, ...PROGRAMS] : PROGRAMS);
  if (!("found" in browser)) return browser;
  try {
    await buildPage(wanted);
  } catch (error) {
    return { missing: `the page cannot be built here: ${messageOf(error).split("\n", 1)[0]}` };
  }
  return browser;
}

export function launch(executablePath: string, more: readonly string[] = []): Promise<Browser> {
  return chromium.launch({ executablePath, headless: true, args: [...FLAGS, ...more] });
}

export interface WatchedPage {
  readonly page: Page;
  /** Requests that went to anybody but `origin`. */
  readonly foreign: string[];
  /** Errors that the page reported, violations of its policy included. */
  readonly errors: string[];
}

export interface PageLook {
  readonly width?: number;
  readonly height?: number;
  readonly dark?: boolean;
  /** Without the cards that open by themselves. */
  readonly bare?: boolean;
}

/** A fresh page with storage of its own. */
export async function openPage(
  browser: Browser,
  origin: string,
  { width = 1400, height = 900, dark = false, bare = false }: PageLook = {},
): Promise<WatchedPage> {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: dark ? "dark" : "light",
    reducedMotion: "reduce",
  });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  if (bare) await page.addInitScript(`sessionStorage["svc-open-cards"] ??= "[]"`);
  const foreign: string[] = [];
  const errors: string[] = [];
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith("blob:") && !url.startsWith("data:")) {
      foreign.push(url);
    }
  });
  // A video that a person closes before it arrives is no error, and the client library reports it as one.
  page.on("pageerror", ({ message }) => /^Did not receive a stream/.test(message) || errors.push(message));
  page.on("console", (message) => {
    // A machine that restarts refuses connections, and the client library tells of calls on a closed connection, of
    // connections that it gives up, as when a person leaves the page while they are made, and of what still arrives for a
    // stream that has ended, such as a terminal's. The page shows all of these itself.
    const isConnection = CONNECTION_MESSAGE.test(message.text());
    if (message.type() !== "error" || isConnection) return;
    const { url, lineNumber, columnNumber } = message.location();
    const error = `${message.text()} (${url}:${lineNumber}:${columnNumber})`;
    // A style that the page's policy refuses changes a look and lets nothing in: it is shown with its place.
    if (/^Applying inline style/.test(message.text())) console.warn(error);
    else errors.push(error);
  });
  return { page, foreign, errors };
}

/** Runs steps in order, each from where the one before has ended. If a step fails, its error says what all open pages showed. */
export async function runPageSteps<S extends { readonly page: Page } | { readonly watched: WatchedPage }>(
  t: Deno.TestContext,
  steps: readonly (readonly [name: string, run: (shared: S) => Promise<void>])[],
  shared: S,
  size = "",
): Promise<void> {
  const page = "page" in shared ? shared.page : shared.watched.page;
  for (const [name, run] of steps) {
    await t.step(name + size, async () => {
      try {
        await run(shared);
      } catch (error) {
        const contexts = page.context().browser()?.contexts() ?? [page.context()];
        const pages = contexts.flatMap((one) => one.pages());
        const sights = await Promise.all(pages.map((one) => one.evaluate(SIGHT).catch(() => "nothing")));
        if (error instanceof Error) {
          error.message = error.message.replace(/\n|$/, ` (open pages showed ${sights.join("; ")})$&`);
        }
        throw error;
      }
    });
  }
}

/** Where the focus is, and the text around it, on one line. */
const SIGHT = `(() => {
  const focus = document.activeElement ?? document.body;
  const around = focus.closest("article, dialog, form, main") ?? document.body;
  const text = around.innerText.replaceAll(/\\s+/g, " ").slice(0, 1200);
  return location.hash + ", the focus on " + focus.outerHTML.slice(0, 80).replaceAll("\\n", " ") + ": " + text;
})()`;

/**
 * What of the page can take the keyboard's focus and is then covered by something else (WCAG 2.2, 2.4.11), which axe
 * does not see. Afterwards the page stands as before.
 */
const COVERED = `(() => {
  const before = document.activeElement;
  const scrolled = [...document.querySelectorAll("*")].filter((one) => one.scrollTop > 0)
    .map((one) => [one, one.scrollTop]);
  const covered = [];
  for (const one of document.querySelectorAll("a[href], button, input, select, textarea, [tabindex='0']")) {
    if (one.disabled || !one.checkVisibility({ visibilityProperty: true })) continue;
    one.focus();
    const { left, top, width, height } = one.getBoundingClientRect();
    if (document.activeElement !== one || width < 4 || height < 4) continue;
    const hit = document.elementFromPoint(left + width / 2, top + Math.min(height / 2, 100));
    if (!hit || one.contains(hit) || hit.contains(one) || hit.closest("label")?.contains(one)) continue;
    covered.push("covered when it has the focus: " + one.outerHTML.slice(0, 160) + " by " + hit.outerHTML.slice(0, 80));
  }
  for (const [one, top] of scrolled) one.scrollTop = top;
  if (before instanceof HTMLElement) before.focus({ preventScroll: true });
  return covered;
})()`;

/** Resolves when nothing on the page moves any more; gives up on a page that always moves. */
const STANDS_STILL = `new Promise((resolve) => {
  let [before, looks] = ["", 0];
  const look = () => {
    const now = [...document.querySelectorAll("body *")].map((one) => {
      const { x, y, width, height } = one.getBoundingClientRect();
      return [x, y, width, height].join();
    }).join();
    if (now === before || ++looks === 50) return resolve();
    before = now;
    setTimeout(look, 200);
  };
  look();
})`;

/**
 * The violations of WCAG 2.2 AA on the page, one a line. Pictures that arrive move what is below them, and a control that
 * moves while it is looked at counts as covered: what is found is looked at again when the page stands still.
 */
export async function violations(page: Page): Promise<string[]> {
  const found = await violationsNow(page);
  if (found.length === 0) return found;
  await page.evaluate(STANDS_STILL);
  return await violationsNow(page);
}

async function violationsNow(page: Page): Promise<string[]> {
  if (!await page.evaluate("'axe' in window")) await page.evaluate(axe.source);
  // Only the violations leave the page: what axe says of the rules that hold is much more.
  const run = `axe.run(document, ${JSON.stringify(WCAG)}).then(({ violations }) => violations)`;
  const found: axe.AxeResults["violations"] = await page.evaluate(run);
  const byAxe = found.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary = "" }) =>
      `${id}: ${html.slice(0, 160)} ${failureSummary.replaceAll(/\s+/g, " ").slice(0, 200)}`
    )
  );
  return [...byAxe, ...await page.evaluate<string[]>(COVERED)];
}

/** What a view takes to show live values in a picture. */
export const SETTLE_MS = 3000;

/** The screens on which pictures of views are taken. */
export const LOOKS = [
  { name: "light", width: 1400, height: 900, dark: false },
  { name: "dark", width: 1400, height: 900, dark: true },
  { name: "narrow", width: 390, height: 844, dark: false },
];

/** Where a task puts its pictures, and in which looks it takes them. */
export interface PictureSet {
  readonly folder: string;
  readonly looks: readonly Look[];
  readonly pathOf: (view: string, look: Look) => string;
}

type Look = typeof LOOKS[number];

/** `[FOLDER]`, or `--docs` for the pictures of the documentation. */
export function pictureSet([wanted]: readonly string[]): PictureSet {
  const place = (path: string) => new URL(`../../${path}`, import.meta.url).pathname;
  if (wanted === "--docs") {
    const folder = place("docs/pictures/views");
    const look = { name: "docs", width: 1100, height: 720, dark: false };
    return { folder, looks: [look], pathOf: (view) => `${folder}/${view}.png` };
  }
  const folder = wanted ?? place("dist/web/pictures");
  return { folder, looks: LOOKS, pathOf: (view, { name }) => `${folder}/${view}-${name}.png` };
}
