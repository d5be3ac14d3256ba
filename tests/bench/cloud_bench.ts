/**
 * From a change saved in the control plane to the change in force on a machine that polls it at its usual pace: by
 * the line of the machine's log. The spec allows 15 s.
 */

import { startServer } from "../support/server.ts";
import { type CloudProcess, type Example, serveCloud, svcCloud } from "../cloud/program.ts";
import { heading, row } from "./figures.ts";

const MACHINES = 6;
const CHANGES = 5;

interface Credentials {
  readonly partId: string;
  readonly config: Example["config"];
}

export async function clouds(): Promise<void> {
  heading(
    `saved in svc-cloud to applied (${MACHINES} machines, ${CHANGES} changes each; the spec allows 15 s)`,
  );
  const folder = await Deno.makeTempDir({ prefix: "svc-bench-" });
  const data = ["--data", `${folder}/data`];
  await svcCloud("init", ...data);
  const cloud = await serveCloud(data);
  try {
    const took = (await Promise.all(
      Array.from({ length: MACHINES }, (_, number) => changesOf(number, cloud, folder, data)),
    )).flat().sort((a, b) => a - b);
    const at = (share: number) =>
      `${(took[Math.min(took.length - 1, Math.floor(took.length * share))] / 1000).toFixed(1)} s`;
    row("change to applied", `p50 ${at(0.5)}, p99 ${at(0.99)}, longest ${at(1)}`);
  } finally {
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
}

/** Milliseconds of each change of one machine. The changes come at random moments between its polls. */
async function changesOf(
  number: number,
  cloud: CloudProcess,
  folder: string,
  data: readonly string[],
): Promise<number[]> {
  const created = ["machine", "create", `bench-${number}`, "--address", cloud.url, "--json", ...data];
  const { partId, config }: Credentials = JSON.parse(await svcCloud(...created));
  const file = `${folder}/machine-${number}.json`;
  await Deno.writeTextFile(file, JSON.stringify(config));
  const save = async (components: unknown[]) => {
    const path = `${folder}/config-${number}.json`;
    await Deno.writeTextFile(path, JSON.stringify({ network: { bind_address: "localhost:0" }, components }));
    await svcCloud("config", "set", partId, path, ...data);
  };
  await save([]);
  const home = { SVC_HOME: `${folder}/home-${number}` };
  const server = await startServer(file, { args: ["-allow-insecure-creds"], env: home });
  const took: number[] = [];
  try {
    await server.wrote("machine is running");
    for (let change = 1; change <= CHANGES; change++) {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 10_000));
      const attributes = { change };
      const generic = { name: "g", api: "rdk:component:generic", model: "fake", attributes };
      const began = performance.now();
      await save([generic]);
      await server.wrote(`"revision":"${change + 1}"`);
      took.push(performance.now() - began);
    }
  } finally {
    await server.stop();
  }
  return took;
}
