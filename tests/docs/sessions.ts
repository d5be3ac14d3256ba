/**
 * Sessions: a page's shell blocks, run from top to bottom by a shell, beside a serving control plane.
 *
 * A session has a folder of its own, the programs on its PATH (from source), and the files that its page assumes. It
 * replaces the page's placeholders (`PART`, `FILE`).
 */

import { textWidth } from "../../cli/progress/text_width.ts";
import { encodePng } from "../../lib/geometry/image/png.ts";
import { type CloudProcess, type Example, serveCloud, svcCloud } from "../cloud/program.ts";
import { keptCode, makePrograms } from "../support/from_source.ts";
import { startServer, writeConfig } from "../support/server.ts";
import { type Block, blocks, commandsOf } from "./pages.ts";

export interface Session {
  readonly page: string;
  /** Creates what the page assumes; returns the values of the placeholders. */
  prepare(context: Context): Promise<Readonly<Record<string, string>>>;
}

/** Where a session works. */
export interface Context {
  readonly folder: string;
  readonly cloud: CloudProcess;
  readonly example: Example;
}

/** The screen of a session: tables fit it. */
const SCREEN_COLUMNS = 80;

export const SESSIONS: readonly Session[] = [
  {
    page: "docs/cloud.md",
    async prepare({ folder, example }) {
      await Deno.writeTextFile(`${folder}/machine.json`, JSON.stringify({ components: [] }));
      return { PART: example.partId, FILE: "machine.json", REVISION: "1" };
    },
  },
  {
    page: "docs/remote.md",
    async prepare({ folder, cloud, example }) {
      await Deno.writeTextFile(`${folder}/rover.json`, JSON.stringify({ components: [] }));
      const add = ["administrator", "add", "ann", "--data", `${folder}/svc-cloud-data`, "--json"];
      const { id, key } = JSON.parse(await svcCloud(...add));
      return {
        PART: example.partId,
        "https://cloud.example.com": cloud.url,
        "=KEY": `=${key}`,
        "-id ID": `-id ${id}`,
      };
    },
  },
  {
    page: "docs/keys.md",
    prepare: ({ example }) => Promise.resolve({ "<its id>": example.organizationId }),
  },
  {
    page: "docs/ftdc.md",
    prepare: async ({ folder }) => ({ FILE: await capture(folder) }),
  },
  {
    page: "docs/limits.md",
    prepare: ({ cloud }) => Promise.resolve({ "http://localhost:8090": cloud.url }),
  },
  {
    page: "docs/training.md",
    async prepare({ folder }) {
      for (const [label, color] of [["apple", 0], ["lime", 1]] as const) {
        await Deno.mkdir(`${folder}/photos/${label}`, { recursive: true });
        for (let index = 0; index < 10; index++) {
          await Deno.writeFile(`${folder}/photos/${label}/${index}.png`, photograph(color, index));
        }
      }
      return {};
    },
  },
];

/** Works beside a fresh control plane that has the example of `svc-cloud init`. */
export async function withContext(use: (context: Context) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-docs-" });
  try {
    const data = `${folder}/svc-cloud-data`;
    const example: Example = JSON.parse(await svcCloud("init", "--data", data, "--json"));
    const cloud = await serveCloud(["--data", data]);
    try {
      await use({ folder, cloud, example });
    } finally {
      await cloud.stop();
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Runs the shell blocks of a session's page. If one fails, throws with its output. */
export async function runSession(
  { page, prepare }: Session,
  context: Context,
  skip: (command: string) => boolean,
) {
  const meant = await prepare(context);
  for (const block of (await blocks()).filter((one) => one.page === page && one.language === "sh")) {
    const commands = commandsOf(block).filter((command) => !skip(command));
    if (commands.length > 0) await runShell(block, filledIn(commands.join("\n"), meant), context);
  }
}

function filledIn(text: string, meant: Readonly<Record<string, string>>): string {
  return Object.entries(meant).reduce((all, [blank, meaning]) => all.replaceAll(blank, meaning), text);
}

async function runShell({ page, line }: Block, script: string, context: Context): Promise<void> {
  const { folder, cloud, example } = context;
  const bin = `${folder}/bin`;
  await makePrograms(bin);
  const { code, stdout, stderr } = await new Deno.Command("bash", {
    args: ["-euo", "pipefail", "-c", script],
    cwd: folder,
    env: {
      PATH: `${bin}:${Deno.env.get("PATH")}`,
      HOME: folder,
      ...keptCode(),
      NO_COLOR: "1",
      COLUMNS: String(SCREEN_COLUMNS),
      SVC_BASE_URL: cloud.url,
      SVC_API_KEY_ID: example.ownerKey.id,
      SVC_API_KEY: example.ownerKey.key,
      SVC_ORG_ID: example.organizationId,
    },
    stdin: "null",
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  const wide = tableRows(text(stdout)).filter((row) => textWidth(row) > SCREEN_COLUMNS);
  if (wide.length > 0) throw new Error(`${page}:${line}: a table is too wide\n${script}\n${wide.join("\n")}`);
  if (code === 0) return;
  throw new Error(`${page}:${line} ended with ${code}\n${script}\n${text(stdout)}\n${text(stderr)}`);
}

/** The lines of tables in an output: headings in capitals, and the lines behind them that have columns, too. */
export function tableRows(output: string): string[] {
  const heading = /^[A-Z][A-Z-]*(?: [A-Z]+)*(?: \(UTC\))?(?: {2,}[A-Z][A-Z -]*(?:\(UTC\))?)+$/;
  let isTable = false;
  return output.split("\n").filter((line) => {
    isTable = heading.test(line) || (isTable && /\S {2,}\S/.test(line));
    return isTable;
  });
}

/** A capture of diagnostics: a machine writes its samples when it ends, if it has any. */
async function capture(folder: string): Promise<string> {
  const config = await writeConfig({ network: { bind_address: "127.0.0.1:0" } });
  const home = `${folder}/home`;
  try {
    for (let seconds = 2; seconds <= 32; seconds *= 2) {
      const server = await startServer(config, { env: { SVC_HOME: home } });
      await new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
      await server.stop();
      const found = (await filesIn(home)).find((path) => path.endsWith(".jsonl.gz"));
      if (found) return found;
    }
    throw new Error(`there is no capture in ${home}`);
  } finally {
    await Deno.remove(config);
  }
}

async function filesIn(folder: string): Promise<string[]> {
  const found: string[] = [];
  await Deno.mkdir(folder, { recursive: true });
  for await (const entry of Deno.readDir(folder)) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory) found.push(...await filesIn(path));
    else found.push(path);
  }
  return found;
}

/** A picture of 32 by 32 pixels in which `channel` is bright. */
export function photograph(channel: number, seed: number): Uint8Array {
  const [width, height, channels] = [32, 32, 3] as const;
  const samples = Uint8Array.from(
    { length: width * height * channels },
    (_, at) => at % channels === channel ? 200 + (at * 7 + seed * 13) % 50 : (at * 11 + seed * 17) % 60,
  );
  return encodePng({ width, height, channels, samples });
}
