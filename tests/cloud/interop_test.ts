/**
 * The published client libraries and a control plane, each in a process and runtime of its own.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { nodeFolder, pythonProgram, run } from "../interop/programs.ts";
import { needingTest } from "../support/needing.ts";
import { type Example, serveCloud, svcCloud } from "./program.ts";

const HERE = new URL("./", import.meta.url).pathname;
const PACKAGES = new URL("../interop/packages.json", import.meta.url).pathname;

/** The errors of calls that svc-cloud does not serve. */
const [DATABASE, BILLING, DEVICES] = [
  "this control plane gives no access to its database; use ExportTabularData",
  "this control plane has no billing",
  "the device itself serves this call while it waits for setup",
];

for (const transport of ["grpc", "grpc-web"]) {
  Deno.test(`the published TypeScript SDK in Node calls AppService and DataService over ${transport}`, () =>
    withExample(async (url, { ownerKey: { id, key } }) => {
      const folder = await nodeFolder();
      await Deno.copyFile(`${HERE}cloud_tour.mjs`, `${folder}/cloud_tour.mjs`);
      judge(await tour(["node", `${folder}/cloud_tour.mjs`, url, id, key, transport]));
      await Deno.copyFile(`${HERE}data_tour.mjs`, `${folder}/data_tour.mjs`);
      judgeData(await tour(["node", `${folder}/data_tour.mjs`, url, id, key, transport]), transport);
    }));
}

Deno.test("the published TypeScript SDK in Deno calls AppService and DataService", () =>
  withExample(async (url, { ownerKey: { id, key } }) => {
    const deno = [Deno.execPath(), "run", "-A", "--no-lock", "--config", PACKAGES];
    judge(await tour([...deno, `${HERE}cloud_tour.mjs`, url, id, key]));
    judgeData(await tour([...deno, `${HERE}data_tour.mjs`, url, id, key]), "grpc-web");
  }));

needingTest(
  "the published Python SDK calls AppService and DataService",
  await pythonProgram(),
  (python) =>
    withExample(async (url, { ownerKey: { id, key } }) => {
      assertEquals(await tour([python, `${HERE}cloud_tour.py`, new URL(url).host, id, key]), {
        organization: "example",
        changed: { name: "renamed", maxRpm: 20 },
        history: 2,
        logs: 0,
        robotsLeft: 0,
      });
      assertEquals(await tour([python, `${HERE}data_tour.py`, new URL(url).host, id, key]), {
        again: true,
        pages: [["zero", "one"], ["streamed"], []],
        count: 3,
        file: ["a file", "notes", "text/plain"],
        untagged: 1,
        tags: ["blue", "green", "red"],
        labels: ["cat"],
        renamed: true,
        all: true,
        sequences: [true, [1, ""], true, [1, 1, true], 0],
        inDataset: 2,
        latest: [21.5, true],
        exported: [[20, ["warm"]], [21.5, ["warm"]]],
        tabular: [21.5, 20],
        queried: [[{ readings: { celsius: 20 } }, ["warm"], true], { _id: "thermometer", mean: 20.75 }],
        selected: [{ component_name: "thermometer", celsius: 21.5 }],
        deleted: [4, 0, 0, 2],
        pipelines: 0,
        unserved: [DATABASE, BILLING, DEVICES].map((reason) => `12: ${reason}`),
      });
    }),
);

/** Calls of machines and agents, which no client library makes. */
const MACHINES_OWN = ["viam.app.v1.RobotService", "viam.app.agent.v1.AgentDeviceService"];
/** Services that only the TypeScript SDK and the published command line know. */
const NOT_IN_PYTHON = ["viam.app.build.v1.BuildService"];

needingTest(
  "published_calls.json lists the same calls as the published Python SDK",
  await pythonProgram(),
  async (python) => {
    const { stdout } = await run([python, `${HERE}published_calls.py`]);
    const published = Object.entries<string[]>(JSON.parse(stdout)).filter(([name]) =>
      !MACHINES_OWN.includes(name)
    );
    const listed = Object.entries<string[]>(
      JSON.parse(await Deno.readTextFile(`${HERE}../golden/published_calls.json`)),
    ).filter(([name]) => !NOT_IN_PYTHON.includes(name));
    const sorted = (services: [string, string[]][]) =>
      services.map(([name, calls]) => [name, calls.toSorted()]).toSorted();
    assertEquals(sorted(listed), sorted(published));
  },
);

async function withExample(use: (url: string, example: Example) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  try {
    const example: Example = JSON.parse(await svcCloud("init", "--data", folder, "--json"));
    const cloud = await serveCloud(["--data", folder]);
    try {
      await use(cloud.url, example);
    } finally {
      assertEquals(await cloud.stop(), 0);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function tour(command: string[]): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await run(command);
  assertEquals(code, 0, `${command[0]} failed:\n${stderr}`);
  return JSON.parse(stdout.trim().split("\n").at(-1)!);
}

function judge({ part, bad, ...seen }: Record<string, unknown>): void {
  const { name, main, fqdn } = part as { name: string; main: boolean; fqdn: string };
  assertEquals([name, main], ["rover-main", true]);
  assertMatch(fqdn, /^rover-main\./);
  assertMatch(String(bad), /components\.0\.attributes\.max_rpm: found "fast"/);
  assertEquals(seen, {
    organization: "example",
    same: true,
    locations: true,
    machine: { name: "rover", here: true },
    changed: { name: "renamed", maxRpm: 20 },
    history: [{ maxRpm: 10, mine: true }, { maxRpm: null, mine: true }],
    fragments: true,
    ofMachine: [true],
    keys: true,
    operator: "rover",
    denied: 7,
    revoked: 16,
    wrong: 16,
    logs: 0,
    summaries: ["rover"],
    robotsLeft: 0,
  });
}

function judgeData({ file, ...seen }: Record<string, unknown>, transport: string): void {
  // Over gRPC-web the library sends no streams, and says so itself.
  assertEquals(file, transport === "grpc" ? "done" : 2);
  assertEquals(seen, {
    again: true,
    pages: [["zero", "one"], ["two"], []],
    count: 3,
    metadata: {
      id: true,
      tags: ["red"],
      robot: "rover",
      component: "cam",
      mimeType: "image/jpeg",
      datasets: 1,
      at: true,
    },
    untagged: 1,
    tags: ["blue", "green", "red"],
    taggedAll: true,
    untaggedAll: 3,
    labels: ["dog"],
    boxes: [{ label: "dog", yMax: 0.7, confidence: 0.75 }],
    outside: 3,
    datasets: [`felines ${transport}`],
    all: true,
    inDataset: 2,
    noDataset: 5,
    link: "one",
    latest: { celsius: 21.5, at: true },
    exported: [
      { celsius: 20, tags: ["warm"], methodName: "Readings" },
      { celsius: 21.5, tags: ["warm"], methodName: "Readings" },
    ],
    tabular: [[21.5, "thermometer"], [20, "thermometer"]],
    queried: [[{ readings: { celsius: 20 } }, true]],
    grouped: [{ _id: "thermometer", mean: 20.75 }],
    selected: [{ component_name: "thermometer", celsius: 21.5 }],
    nothing: null,
    deleted: [1, true, 2],
    pipelines: 0,
    unserved: [DATABASE, BILLING, DEVICES].map((reason) => `12: ${reason}`),
  });
}
