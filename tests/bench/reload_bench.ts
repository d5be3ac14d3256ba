/**
 * From a saved file to the change in force, as an operator waits for it: of a server of its own, by the line of its
 * log. The spec allows 15 s; 40 ms of it are the stillness that the file must have had.
 */

import { type ServerProcess, startServer, writeConfig } from "../support/server.ts";
import { heading, row } from "./figures.ts";

const SAVES = 40;

type Save = (path: string, text: string) => Promise<void>;

const WAYS: Record<string, Save> = {
  "written in place": (path, text) => Deno.writeTextFile(path, text),
  "replaced by renaming": async (path, text) => {
    await Deno.writeTextFile(`${path}.new`, text);
    await Deno.rename(`${path}.new`, path);
  },
};

export async function reloads(): Promise<void> {
  heading(`file saved to change applied, one of 10 resources (${SAVES} saves each; the spec allows 15 s)`);
  for (const [way, save] of Object.entries(WAYS)) {
    const path = await writeConfig(configOf(0));
    const server = await startServer(path);
    await server.wrote("machine is running");
    const took: number[] = [];
    for (let revision = 1; revision <= SAVES; revision++) {
      took.push(await measure(server, path, save, revision));
    }
    await server.stop();
    await Deno.remove(path);
    took.sort((a, b) => a - b);
    const at = (share: number) => `${took[Math.min(SAVES - 1, Math.floor(SAVES * share))].toFixed(0)} ms`;
    row(way, `p50 ${at(0.5)}, p99 ${at(0.99)}`);
  }
}

async function measure(server: ServerProcess, path: string, save: Save, revision: number): Promise<number> {
  const began = performance.now();
  await save(path, JSON.stringify({ ...configOf(revision), network: { bind_address: "localhost:0" } }));
  await server.wrote(`"revision":"r${revision}"`);
  return performance.now() - began;
}

function configOf(revision: number) {
  const components = Array.from({ length: 10 }, (_, index) => ({
    name: `g${index}`,
    api: "rdk:component:generic",
    model: "fake",
    attributes: index === 0 ? { revision } : {},
  }));
  return { revision: `r${revision}`, disable_log_deduplication: true, components };
}
