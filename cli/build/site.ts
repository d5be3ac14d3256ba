/**
 * `deno task site`: the documentation as a site of static pages in `dist/site`, with search, for any web server or none:
 * README and docs/ by VitePress, and the doc comments of the library for modules by `deno doc` under `module/`.
 *
 * A link between pages that leads nowhere fails the build.
 */

import { messageOf, SvcError } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { begin, type Terminal } from "../program.ts";
import { execute } from "./compiler.ts";
import { installPackages } from "./module_package.ts";

const ROOT = new URL("../../", import.meta.url);
const WORK = new URL("dist/.build/site/", ROOT);
const SITE = "dist/site";
const GENERATOR = "vitepress@1.6.4";
const LIBRARY = "lib/module/mod.ts";

/** Pages that stand alone, in the order of the bar beside each page, and the title of each group of docs/. */
const FIRST = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md"];
const GROUPS: readonly (readonly [title: string, folder: string])[] = [
  ["Guides", "docs/"],
  ["Decisions", "docs/decisions/"],
];

const PROGRAM = {
  name: "deno task site",
  summary: `Makes the documentation as a site of static pages in ${SITE}.`,
  style: "gnu",
  usage: "",
  flags: [],
} as const;

/** A page of the bar. */
interface Page {
  readonly text: string;
  readonly link: string;
}

export async function main(args: readonly string[], terminal: Terminal): Promise<number> {
  const begun = begin(PROGRAM, args, terminal);
  if (begun.exitCode !== undefined) return begun.exitCode;
  try {
    await makeSite();
    terminal.write(`${SITE}/index.html\n`);
    return 0;
  } catch (thrown) {
    terminal.writeError(`${PROGRAM.name}: ${messageOf(thrown)}\n`);
    return 1;
  }
}

async function makeSite(): Promise<void> {
  const source = new URL("pages/", WORK);
  await Deno.remove(source, { recursive: true }).catch(() => {});
  const pages = [...FIRST];
  for (const [, folder] of GROUPS) {
    for await (const { name } of Deno.readDir(new URL(folder, ROOT))) {
      if (name.endsWith(".md")) pages.push(`${folder}${name}`);
    }
  }
  for (const path of pages) await copyPage(path, source);
  await copyPictures(source);

  await Deno.mkdir(new URL(".vitepress/", source), { recursive: true });
  await Deno.writeTextFile(new URL(".vitepress/config.mjs", source), await buildSiteConfig(pages));
  await installPackages(WORK.pathname, [GENERATOR]);
  await run(`${WORK.pathname}node_modules/.bin/vitepress`, ["build", source.pathname]);
  const library = `${SITE}/module`;
  await run(Deno.execPath(), ["doc", "--html", "--name=svc-module", `--output=${library}`, LIBRARY]);
}

async function copyPage(path: string, source: URL): Promise<void> {
  const target = new URL(path, source);
  await Deno.mkdir(new URL("./", target), { recursive: true });
  await Deno.copyFile(new URL(path, ROOT), target);
}

async function copyPictures(source: URL): Promise<void> {
  const folder = "docs/pictures/";
  for await (const { name } of Deno.readDir(new URL(folder, ROOT))) {
    await copyPage(`${folder}${name}`, source);
  }
}

/** VitePress's settings. Links to files of the tree that are no pages stay as they are. */
async function buildSiteConfig(pages: readonly string[]): Promise<string> {
  const shown = async (path: string): Promise<Page> => ({
    text: await readTitle(path),
    link: path.startsWith("examples/")
      ? `/${path.replace(/\.md$/, "")}`
      : `/${path.replace(/(README)?\.md$/, "")}`,
  });
  const below = (folder: string) =>
    pages.filter((path) => path.slice(0, path.lastIndexOf("/") + 1) === folder).sort();
  const groups = [
    { text: "svc", items: await Promise.all(FIRST.map(shown)) },
    ...await Promise.all(GROUPS.map(async ([text, folder]) => ({
      text,
      collapsed: folder !== "docs/",
      items: await Promise.all(below(folder).map(shown)),
    }))),
    {
      text: "Library for modules",
      items: [{ text: "svc-module", link: "/module/index.html", target: "_blank" }],
    },
  ];
  const config = {
    title: "svc",
    description: "A machine runtime, its agent, and a control plane of your own",
    outDir: new URL(`${SITE}/`, ROOT).pathname,
    rewrites: { "README.md": "index.md", "docs/decisions/README.md": "docs/decisions/index.md" },
    themeConfig: { search: { provider: "local" }, outline: [2, 3], sidebar: groups },
  };
  const text = JSON.stringify(config, null, 2);
  return `export default { ...${text}, ignoreDeadLinks: [/\\.(py|ts|mjs|json)$/, /LICENSE$/] };\n`;
}

/** The first heading of a page. */
async function readTitle(path: string): Promise<string> {
  const text = await Deno.readTextFile(new URL(path, ROOT));
  return /^# (.+)$/m.exec(text)?.[1] ?? path;
}

async function run(program: string, args: readonly string[]): Promise<void> {
  const { code, output, errors } = await execute(program, args);
  if (code === 0) return;
  const printed = (output + errors).trim();
  throw new SvcError(
    "unavailable",
    `Cannot make the site: ${program} ended with ${code}: ${printed.slice(-2_000)}`,
  );
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
