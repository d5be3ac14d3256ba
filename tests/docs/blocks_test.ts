/**
 * Everything that README and docs show to be typed, run or configured: each block is run by a test, or the test that
 * runs the same is named here.
 */

import { assertEquals } from "@std/assert";
import { APIS } from "../../lib/api/mod.ts";
import { isObject, type JsonObject } from "../../lib/base/schema/schema.ts";
import { parseJsonc } from "../../lib/base/schema/jsonc.ts";
import { decodeConfig } from "../../lib/machine/config/config.ts";
import { Registry } from "../../lib/resource/registry.ts";
import { MODELS } from "../../drivers/mod.ts";
import { type Block, blocks, commandsOf, ROOT } from "./pages.ts";
import { SESSIONS } from "./sessions.ts";

const ALL = await blocks();

/** Sections of a machine's file; a block that has one of them is such a file. */
const SECTIONS = ["components", "services", "remotes", "maintenance", "network", "packages", "auth"];

/** How commands begin that no session runs, and what runs the same. */
const RUN_ELSEWHERE: Readonly<Record<string, string>> = {
  "npx --yes deno@2.9.6 task demo": "tests/interop/interop_test.ts",
  "npx --yes deno@2.9.6 task test": "tests/docs/blocks_test.ts",
  "npx --yes deno@2.9.6 task compile": "cli/build/check.ts",
  "npx --yes deno@2.9.6 task distribute": "cli/build/distribution/distribution_test.ts",
  "export AWS_ACCESS_KEY_ID": "tests/cloud/contents_test.ts",
  "svc-cloud serve --files": "tests/cloud/contents_test.ts",
  "svc-cloud files move": "tests/cloud/contents_test.ts",
  "SVC_CLOUD_MOVE_TO=": "tests/cloud/database_move_test.ts",
  "svc-cloud data export": "tests/cloud/exports_test.ts",
  "svc-cloud retention": "tests/cloud/retention_test.ts",
  "svc-cloud usage": "tests/cloud/retention_test.ts",
  "svc-cloud backup": "tests/cloud/backup_test.ts",
  "svc-cloud restore": "tests/cloud/backup_test.ts",
  "svc-cloud trigger": "tests/cloud/triggers_test.ts",
  "svc-cloud rollout": "tests/cloud/rollouts_test.ts",
  "svc-server -config machine.json": "tests/e2e/reload_test.ts",
  "svc-server init": "cli/server/first/first_test.ts",
  "svc-server check": "cli/server/first/first_test.ts",
  "svc-server doctor": "cli/server/first/first_test.ts",
  "svc-server status": "cli/server/running/running_test.ts",
  "svc-server call": "cli/server/running/running_test.ts",
  "svc-server watch": "cli/server/running/running_test.ts",
  "svc-server logs": "cli/server/running/running_test.ts",
  "svc-server module restart": "cli/server/running/running_test.ts",
  "svc-server module reload": "cli/server/running/running_test.ts",
  "svc-server module new": "tests/modules/new_test.ts",
  "./build.sh": "tests/modules/new_test.ts",
  "svc-cloud org namespace acme": "tests/cloud/package_upload_test.ts",
  "svc-cloud package upload 0.1.0 module.tar.gz": "tests/cloud/package_upload_test.ts",
  "svc-cloud package list": "tests/cloud/package_upload_test.ts",
  "svc-server slam": "cli/server/slam/slam_test.ts",
  "sudo ./svc-cloud serve": "cli/cloud/serve/install_test.ts",
  "sudo -u svc-cloud": "tests/cloud/program_test.ts",
  "svc-cloud serve --demo": "tests/docs/sessions_test.ts",
  "svc-cloud init": "tests/cloud/install_test.ts",
  "svc-cloud serve --listen 0.0.0.0:8090 --public-url": "tests/cloud/install_test.ts",
  "svc-cloud release publish": "tests/docs/days_test.ts",
  "svc-cloud machine create rover": "tests/docs/days_test.ts",
  "svc-cloud map": "tests/cloud/mapping_test.ts",
  "svc-ml submit --embedded --model-type object-detection --follow": "tests/accuracy/demo.ts",
  "curl -fsSL http://CLOUD:8090/install.sh": "tests/cloud/install_test.ts",
  "curl -fsSL --cacert ca.pem https://CLOUD:8090/install.sh": "tests/agent/way_out_test.ts",
  "deno run -A examples/obstacles.ts": "tests/contract/contract_test.ts",
  "deno task accuracy:depth": "tests/accuracy/depth.ts",
};

Deno.test("every JSON block in README and docs parses, and every machine configuration in it is valid", async () => {
  const registry = new Registry(APIS, MODELS);
  for (const block of ALL.filter(({ language }) => /^jsonc?$/.test(language))) {
    const json = parseJsonc(new TextEncoder().encode(block.text), { file: placeOf(block) });
    if (!isObject(json) || !SECTIONS.some((section) => section in json)) continue;
    assertEquals(await findProblems(registry, json), [], placeOf(block));
  }
});

Deno.test("every command in README and docs is run by a session or by a listed test", async () => {
  const shown = ALL.filter(({ language }) => language === "sh").flatMap((block) =>
    commandsOf(block).map((command) => ({ block, command }))
  );
  const elsewhere = Object.keys(RUN_ELSEWHERE);
  const unknown = shown.filter(({ block, command }) =>
    !elsewhere.some((begin) => command.startsWith(begin)) && !SESSIONS.some(({ page }) => page === block.page)
  );
  assertEquals(unknown.map(({ block, command }) => `${placeOf(block)}: ${command}`), []);
  const gone = elsewhere.filter((begin) => !shown.some(({ command }) => command.startsWith(begin)));
  assertEquals(gone, [], "are no longer shown");
  for (const path of Object.values(RUN_ELSEWHERE)) await Deno.stat(ROOT + path);
});

Deno.test("README and docs have blocks only in languages that tests run", () => {
  // `ini` is coturn's: tests/net/play.ts. `sql` is PostgreSQL's: tests/cloud/postgres_test.ts.
  const others = ALL.filter(({ language }) =>
    !["sh", "ts", "python", "json", "jsonc", "ini", "sql", "nginx", "caddy", "dockerfile", ""].includes(
      language,
    )
  );
  assertEquals(others.map(placeOf), []);
});

Deno.test("every picture of the docs is shown on a page", async () => {
  const folder = `${ROOT}docs/pictures/views`;
  const pictures = [...Deno.readDirSync(folder)].map(({ name }) => `pictures/views/${name}`);
  const shown = await Deno.readTextFile(`${ROOT}docs/views.md`);
  assertEquals(pictures.filter((path) => !shown.includes(`](${path})`)), []);
});

Deno.test("links between pages lead to a page, and to a heading that it has", async () => {
  const pages = [...Deno.readDirSync(`${ROOT}docs`)].filter(({ name }) => name.endsWith(".md"));
  const broken: string[] = [];
  for (const page of ["README.md", ...pages.map(({ name }) => `docs/${name}`)]) {
    const text = await Deno.readTextFile(ROOT + page);
    for (const [, path, anchor] of text.matchAll(/\]\((?!http)([^)#\s]*)(?:#([^)\s]*))?\)/g)) {
      const target = new URL(path || page.split("/").at(-1)!, `file://${ROOT}${page}`);
      const found = target.pathname.endsWith("/")
        ? ""
        : await Deno.readTextFile(target).catch(() => undefined);
      if (found === undefined || (anchor && !anchorsOf(found).has(anchor))) {
        broken.push(`${page}: ${path}#${anchor}`);
      }
    }
  }
  assertEquals(broken, []);
});

/** The anchors of a page's headings, as viewers of Markdown make them. */
function anchorsOf(page: string): ReadonlySet<string> {
  const headings = [...page.matchAll(/^#+ (.*)$/gm)].map(([, text]) => text.toLowerCase());
  return new Set(headings.map((text) => text.replace(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-")));
}

async function findProblems(registry: Registry, json: JsonObject): Promise<string[]> {
  // The package that a model comes in is not here.
  return (await decodeConfig(json, registry, { env: () => "" })).problems.map(({ path, message }) =>
    `${path}: ${message}`
  );
}

function placeOf({ page, line }: Block): string {
  return `${page}:${line}`;
}
