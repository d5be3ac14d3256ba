/**
 * `deno task web:build`: builds the pages from `lib/web` into one file each in `dist/web`, those that are missing or whose
 * sources have changed; `--only machine` builds that one. With `--check` (`deno task web:lint`) it checks the types of changed sources.
 *
 * npm installs the locked packages into `lib/web/node_modules`, without their scripts; Vite bundles. With
 * `--if-possible` a failure is a warning: svc-server works without the page.
 *
 * What takes long to make is kept beside Deno's downloads by the checksum of what it is made of, for other checkouts.
 */

import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { messageOf, SvcError } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { packAssets, type PageAsset } from "../../lib/wire/page/archive.ts";
import { FLEET_PAGE, MACHINE_PAGE, type PagePaths } from "../page_path.ts";
import { begin, type Terminal } from "../program.ts";
import { whileLocked } from "./module_package.ts";

const ROOT = new URL("../../", import.meta.url);
const SOURCES = "lib/web/";
/** What the pages share with the programs. */
const SHARED = ["lib/base/escape.ts"];
const PACKAGES = `${SOURCES}node_modules/`;
/** The checksum of the lock file from which the packages were installed. */
const INSTALLED = `${PACKAGES}.svc-installed`;
const MADE = "dist/.build/web/";
const PAGES: readonly PagePaths[] = [MACHINE_PAGE, FLEET_PAGE];
/** The checksum of the sources whose types were right. */
const CHECKED = "dist/web/checked.sha256";
const LOCK = "dist/web/.lock";
/** Digits of a content's checksum that identify it. */
const SUM_DIGITS = 20;
/** Of a checksum before the content that is kept. */
const KEPT_SUM_DIGITS = 64;
/** The newest of what is kept stay: 150 MB or so. */
const KEPT_FILES_MAX = 40;

const PROGRAM = {
  name: "deno task web:build",
  summary:
    "Builds the pages of the programs into dist/web, those that are missing or whose sources have changed.",
  style: "gnu",
  usage: "[flags]",
  flags: [
    { name: "if-possible", type: "bool", default: false, help: "Only warn if a page cannot be built." },
    {
      name: "only",
      type: "string",
      default: "",
      value: "PAGE",
      help: "Build only this page: machine, of svc-server, or fleet, of svc-cloud.",
    },
    {
      name: "check",
      type: "bool",
      default: false,
      help: "Check the types of its sources, and build nothing.",
    },
  ],
} as const;

const CONTENT_TYPES: { readonly [ending: string]: string } = {
  css: "text/css; charset=utf-8",
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  json: "application/json",
  svg: "image/svg+xml",
  wasm: "application/wasm",
  woff2: "font/woff2",
};

export async function main(args: readonly string[], terminal: Terminal): Promise<number> {
  const begun = begin(PROGRAM, args, terminal);
  if (begun.exitCode !== undefined) return begun.exitCode;
  try {
    if (begun.values.check) {
      await checkPages();
      return 0;
    }
    const { only } = begun.values;
    const wanted = PAGES.filter(({ folder }) => only === "" || folder === only);
    if (wanted.length === 0) {
      const known = PAGES.map(({ folder }) => folder).join(" or ");
      terminal.writeError(`${PROGRAM.name}: there is no page ${only}, wanted --only ${known}\n`);
      return 2;
    }
    for (const page of wanted) if (await buildPage(page)) terminal.write(`${page.path}\n`);
    return 0;
  } catch (thrown) {
    if (begun.values.ifPossible) {
      const [line] = messageOf(thrown).split("\n", 1);
      terminal.writeError(`${PROGRAM.name}: the programs will have no page: ${line}\n`);
      return 0;
    }
    terminal.writeError(`${PROGRAM.name}: ${messageOf(thrown)}\n`);
    return 1;
  }
}

/** Builds a page if it is missing or its sources have changed; returns whether it did. Throws `unavailable`. */
export async function buildPage(page: PagePaths): Promise<boolean> {
  const wanted = await sourcesSum(page);
  if (await isBuilt(page, wanted)) return false;
  await Deno.mkdir(at("dist/web"), { recursive: true });
  // Several processes may want it at once.
  return await whileLocked(at(LOCK), async () => {
    if (await isBuilt(page, wanted)) return false;

    const packed = await makeOnce(`page-${page.folder}-${wanted}`, () => bundlePage(page));
    await Deno.writeFile(at(`${page.path}.new`), packed);
    await Deno.rename(at(`${page.path}.new`), at(page.path));
    await Deno.writeTextFile(at(stampOf(page)), wanted);
    return true;
  });
}

async function bundlePage({ folder }: PagePaths): Promise<Uint8Array<ArrayBuffer>> {
  await installPagePackages();
  const made = `${MADE}${folder}/`;
  const options = ["--mode", folder, "--logLevel", "warn", "--emptyOutDir", "--outDir", at(made).pathname];
  await npmProgram("build the page", "node", ["node_modules/vite/bin/vite.js", "build", ...options]);
  return packAssets(await assetsIn(made));
}

/** The file with the checksum of the sources of a built page. */
function stampOf({ folder }: PagePaths): string {
  return `dist/web/${folder}.sha256`;
}

/** Checks the types of the sources, unless these very sources have been checked. Throws `unavailable` with the problems. */
async function checkPages(): Promise<void> {
  const wanted = await sourcesSum();
  if (await Deno.readTextFile(at(CHECKED)).catch(() => undefined) === wanted) return;
  await Deno.mkdir(at("dist/web"), { recursive: true });
  await whileLocked(at(LOCK), async () => {
    await makeOnce(`checked-pages-${wanted}`, async () => {
      await installPagePackages();
      const svelteCheck = "node_modules/svelte-check/bin/svelte-check";
      await npmProgram("check the types of the pages", "node", [svelteCheck, "--fail-on-warnings"]);
      return new Uint8Array();
    });
    await Deno.writeTextFile(at(CHECKED), wanted);
  });
}

/**
 * What has been kept under this name, which has the checksum of all that decides what it is; if there is nothing, or it
 * is damaged, it is made and kept.
 */
export async function makeOnce(
  name: string,
  make: () => Uint8Array<ArrayBuffer> | Promise<Uint8Array<ArrayBuffer>>,
  folder?: string,
): Promise<Uint8Array<ArrayBuffer>> {
  folder ??= await keptFolder();
  const file = `${folder}/${name}`;
  const found = await Deno.readFile(file).catch(() => undefined);
  if (found) {
    const content = found.slice(KEPT_SUM_DIGITS);
    const sum = new TextDecoder().decode(found.subarray(0, KEPT_SUM_DIGITS));
    if (sum === await computeSum(content)) return content;
  }

  const content = await make();
  await Deno.mkdir(folder, { recursive: true });
  const part = await Deno.makeTempFile({ dir: folder });
  await Deno.writeTextFile(part, await computeSum(content));
  await Deno.writeFile(part, content, { append: true });
  await Deno.rename(part, file);
  await removeOldest(folder);
  return content;
}

async function keptFolder(): Promise<string> {
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).output();
  return `${JSON.parse(new TextDecoder().decode(stdout)).denoDir}/svc_made`;
}

/** Another process may do the same at the same time. */
async function removeOldest(folder: string): Promise<void> {
  const files = await Promise.all(
    Array.from(Deno.readDirSync(folder), async ({ name }) => {
      const { mtime } = await Deno.stat(`${folder}/${name}`).catch(() => ({ mtime: null }));
      return { path: `${folder}/${name}`, madeMs: mtime?.getTime() ?? 0 };
    }),
  );
  const oldest = files.sort((one, other) => other.madeMs - one.madeMs).slice(KEPT_FILES_MAX);
  for (const { path } of oldest) await Deno.remove(path).catch(() => {});
}

/** Installs the packages of the lock file, unless they are there. */
export async function installPagePackages(): Promise<void> {
  const wanted = computeSum(await Deno.readFile(at(`${SOURCES}package-lock.json`)));
  const present = await Deno.readTextFile(at(INSTALLED)).catch(() => undefined);
  if (present === await wanted) return;
  await npmProgram("install the packages of the page", "npm", [
    ...["ci", "--loglevel=error", "--ignore-scripts", "--no-audit", "--no-fund"],
    ...["--prefer-offline", "--fetch-timeout=30000", "--fetch-retries=1"],
    ...["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000"],
  ]);
  await Deno.writeTextFile(at(INSTALLED), await wanted);
}

/** Runs a program of Node in the folder of the sources. Throws `unavailable` with its output if it fails. */
export async function npmProgram(attempt: string, program: string, args: readonly string[]): Promise<string> {
  const windows = Deno.build.os === "windows" && program === "npm";
  const file = windows ? "cmd" : program;
  const options: Deno.CommandOptions = {
    args: [...windows ? ["/c", "npm"] : [], ...args],
    cwd: at(SOURCES),
    env: { NO_COLOR: "1" },
    stdin: "null",
  };
  const { code, stdout, stderr } = await ended(file, options).catch((error) => {
    const remedy = "install Node with npm";
    throw new SvcError("unavailable", `cannot ${attempt}: ${program} does not start; ${remedy}: ${error}`);
  });
  const output = new TextDecoder().decode(stdout);
  if (code === 0) return output;

  const errors = new TextDecoder().decode(stderr);
  throw new SvcError("unavailable", `cannot ${attempt}: ${(errors + output).trim() || `exit code ${code}`}`);
}

/** Runs a program to its end. Rejects if there is none, where Deno throws before it returns a promise. */
async function ended(file: string, options: Deno.CommandOptions): Promise<Deno.CommandOutput> {
  return await new Deno.Command(file, options).output();
}

async function isBuilt(page: PagePaths, sum: string): Promise<boolean> {
  const stamp = await Deno.readTextFile(at(stampOf(page))).catch(() => undefined);
  return stamp === sum && await Deno.stat(at(page.path)).then(() => true, () => false);
}

/** The checksum of all that decides what a page becomes; without one, of all sources. The fleet's shows machines. */
async function sourcesSum(page?: PagePaths): Promise<string> {
  const own = ["cli/build/page.ts", "lib/wire/page/archive.ts"];
  const without = ["node_modules", ...page === MACHINE_PAGE ? [FLEET_PAGE.folder] : []];
  const paths = [...await filesBelow(SOURCES, without), ...SHARED, ...own];
  const lines = await Promise.all(
    paths.map(async (path) => `${await computeSum(await Deno.readFile(at(path)))} ${path}`),
  );
  return await computeSum(new TextEncoder().encode(lines.join("\n")));
}

async function filesBelow(folder: string, without: readonly string[] = []): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(at(folder))) {
    if (without.includes(name)) continue;
    if (isDirectory) found.push(...await filesBelow(`${folder}${name}/`, without));
    else found.push(`${folder}${name}`);
  }
  return found.sort();
}

async function assetsIn(folder: string): Promise<PageAsset[]> {
  const paths = await filesBelow(folder);
  return await Promise.all(paths.map(async (path): Promise<PageAsset> => {
    const bytes = await Deno.readFile(at(path));
    const contentType = CONTENT_TYPES[path.slice(path.lastIndexOf(".") + 1)];
    if (!contentType) throw new SvcError("internal", `the page has a file of unknown type: ${path}`);
    const params = {
      [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
      [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
    };
    return {
      path: path.slice(folder.length),
      contentType,
      sum: (await computeSum(bytes)).slice(0, SUM_DIGITS),
      contents: {
        br: new Uint8Array(brotliCompressSync(bytes, { params })),
        gzip: new Uint8Array(gzipSync(bytes, { level: constants.Z_BEST_COMPRESSION })),
      },
    };
  }));
}

async function computeSum(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}

function at(path: string): URL {
  return new URL(path, ROOT);
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
