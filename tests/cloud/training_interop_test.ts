/**
 * The training clients of the published libraries, each in a process and runtime of its own.
 */

import { assertEquals } from "@std/assert";
import { packed } from "../../lib/base/files/archive.ts";
import type { Executor } from "../../lib/cloud/executors/executor.ts";
import { nodeFolder, pythonProgram, run } from "../interop/programs.ts";
import { needingTest } from "../support/needing.ts";
import { sqliteTest, type TestDatabase, withDatabase } from "./stores.ts";
import { catsAndDogs, FakeExecutor, newDataset, newScript } from "./training_world.ts";
import { newWorld, withCloud } from "./world.ts";

const HERE = new URL("./", import.meta.url).pathname;
const PACKAGES = new URL("../interop/packages.json", import.meta.url).pathname;

/** Finishes jobs named `finish` at once; others wait to be cancelled. */
const executor: Executor = {
  reachesUs: true,
  capacity: 1,
  environments: new FakeExecutor().environments,
  images: ["registry.example.com/team/"],
  async run({ job, folder, signal }) {
    if (job.modelVersion === "finish") await Deno.writeTextFile(`${folder}/output/model`, "");
    else await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    return {};
  },
};

for (const transport of ["grpc", "grpc-web"]) {
  trainingTest(
    `the published TypeScript SDK in Node submits training jobs over ${transport}`,
    async (url, given) => {
      const folder = await nodeFolder();
      await Deno.copyFile(`${HERE}training_tour.mjs`, `${folder}/training_tour.mjs`);
      await tour(["node", `${folder}/training_tour.mjs`, url, ...given, transport]);
    },
  );
}

trainingTest("the published TypeScript SDK in Deno submits training jobs", (url, given) => {
  const deno = [Deno.execPath(), "run", "-A", "--no-lock", "--config", PACKAGES];
  return tour([...deno, `${HERE}training_tour.mjs`, url, ...given, "grpc-web"]);
});

needingTest(
  "the published Python SDK submits training jobs and registers a container",
  await pythonProgram(),
  (python) =>
    withDatabase(
      "sqlite",
      (database) =>
        withTraining(database, (url, given) =>
          tour([python, `${HERE}training_tour.py`, new URL(url).host, ...given], {
            container: ["registry.example.com/team/trainer:1.0", "ours"],
            containers: ["python3", "python2", "registry.example.com/team/trainer:1.0"],
            contained: "COMPLETED",
            noContainer: 5,
          })),
    ),
);

type Use = (url: string, given: string[]) => Promise<void>;

function trainingTest(name: string, use: Use): void {
  sqliteTest(name, (database) => withTraining(database, use));
}

function withTraining(database: TestDatabase, use: Use): Promise<void> {
  return withCloud(database, async ({ store, files, url }) => {
    const world = await newWorld(store);
    const dataset = await newDataset(store, files, world, catsAndDogs());
    const script = await newScript(store, files, world.organization, packed([]));
    await use(url, [world.owner.id, world.owner.key, world.organization, dataset, script]);
  }, { training: { managed: executor, custom: executor } });
}

async function tour(command: string[], more: Record<string, unknown> = {}): Promise<void> {
  const { code, stdout, stderr } = await run(command);
  assertEquals(code, 0, `${command[0]} failed:\n${stderr}`);
  assertEquals(JSON.parse(stdout.trim().split("\n").at(-1)!), {
    finished: "COMPLETED",
    job: { modelVersion: "finish", tags: ["cat", "dog"], isCustomJob: false },
    canceled: "CANCELED",
    custom: "COMPLETED",
    list: ["finish", "wait", "finish"],
    completed: 2,
    again: 6,
    wrong: 9,
    gone: 5,
    ...more,
  });
}
