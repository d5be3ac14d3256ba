/**
 * The registry as the published client libraries see it, each in a process of its own.
 */

import { assertEquals } from "@std/assert";
import { pythonProgram, run } from "../interop/programs.ts";
import { needingTest } from "../support/needing.ts";
import { type Example, serveCloud, svcCloud } from "./program.ts";

const HERE = new URL("./", import.meta.url).pathname;
const PACKAGES = new URL("../interop/packages.json", import.meta.url).pathname;
const [FAILED_PRECONDITION, NOT_FOUND] = [9, 5];

Deno.test("the published TypeScript SDK creates, lists and deletes modules and registry items", () =>
  withTour(async (tour) => {
    const deno = [Deno.execPath(), "run", "-A", "--no-lock", "--config", PACKAGES];
    const { module, ...seen } = await tour([...deno, `${HERE}registry_tour.mjs`]);
    assertEquals(module, { id: "orchard:arms", url: "https://example.com", models: ["orchard:arm:two"] });
    assertEquals(seen, {
      refused: FAILED_PRECONDITION,
      namespace: "orchard",
      item: { id: "orchard:fruit", description: "Apples", kind: "mlModelMetadata" },
      modules: ["arms"],
      lists: [["arms", "fruit"], ["arms"], ["fruit"], []],
      permissions: ["read_organization"],
      gone: NOT_FOUND,
    });
  }));

needingTest(
  "the published Python SDK uploads a module and lists registry items",
  await pythonProgram(),
  (python) =>
    withTour(async (tour) => {
      assertEquals(await tour([python, `${HERE}registry_tour.py`], (url) => new URL(url).host), {
        uploaded: "https://example.com",
        versions: [["1.0.0", "run.sh", "linux/amd64"]],
        modules: ["arms"],
        items: ["arms"],
      });
    }),
);

type Tour = (command: string[], address?: (url: string) => string) => Promise<Record<string, unknown>>;

async function withTour(use: (tour: Tour) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  try {
    const { ownerKey: { id, key } }: Example = JSON.parse(await svcCloud("init", "--data", folder, "--json"));
    const cloud = await serveCloud(["--data", folder]);
    try {
      await use(async (command, address = (url) => url) => {
        const { code, stdout, stderr } = await run([...command, address(cloud.url), id, key]);
        assertEquals(code, 0, `${command[0]} failed:\n${stderr}`);
        return JSON.parse(stdout.trim().split("\n").at(-1)!);
      });
    } finally {
      assertEquals(await cloud.stop(), 0);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
