/**
 * Calls about the whole fleet as the published client libraries make them, each in a process of its own.
 */

import { assertEquals } from "@std/assert";
import { pythonProgram, run } from "../interop/programs.ts";
import { needingTest } from "../support/needing.ts";
import { type Example, serveCloud, svcCloud } from "./program.ts";

const HERE = new URL("./", import.meta.url).pathname;
const PACKAGES = new URL("../interop/packages.json", import.meta.url).pathname;
const NOT_FOUND = 5;
const UNIMPLEMENTED = 12;

/** What both tours see, secrets once and never again. */
const SEEN = {
  locationSecret: [1, true, ""],
  locationSecretsLeft: 0,
  partSecret: [1, true],
  partSecretsLeft: 0,
  access: ["example", "guest"],
  guestsLeft: 0,
  invitedLeft: 0,
  free: true,
};

Deno.test("the published TypeScript SDK calls the fleet API: metadata, secrets, sharing and namespaces", async () => {
  const deno = [Deno.execPath(), "run", "-A", "--no-lock", "--config", PACKAGES];
  const notes = { shelf: 7, keys: ["a", "b"] };
  assertEquals(await tour([...deno, `${HERE}fleet_tour.mjs`]), {
    ...SEEN,
    metadata: [notes, notes, notes, notes],
    guests: ["yard"],
    invited: [0, ["ann@example.com", "location_operator"]],
    nobody: [NOT_FOUND, NOT_FOUND, 0],
    unserved: UNIMPLEMENTED,
  });
});

needingTest(
  "the published Python SDK calls the fleet API: metadata, secrets, sharing and fragments",
  await pythonProgram(),
  async (python) => {
    assertEquals(await tour([python, `${HERE}fleet_tour.py`], (url) => new URL(url).host), {
      ...SEEN,
      metadata: [true, true, true, true],
      guests: ["yard python"],
      listed: ["barrow"],
      history: [["shared python", true]],
      version: "shared python",
      invited: [0, ["ann@example.com", "organization_owner"]],
      nobody: ["NOT_FOUND", "NOT_FOUND", 0],
      unserved: "UNIMPLEMENTED",
    });
  },
);

/** Runs a tour against a control plane where the owner of the example owns another organization, too. */
async function tour(command: string[], address = (url: string) => url): Promise<Record<string, unknown>> {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const data = ["--data", folder];
  try {
    const { ownerKey: { id, key } }: Example = JSON.parse(await svcCloud("init", ...data, "--json"));
    const { id: guest } = JSON.parse(await svcCloud("org", "create", "guest", ...data, "--json"));
    await svcCloud("key", "grant", id, "--role", "owner", "--on", `organization:${guest}`, ...data);
    const cloud = await serveCloud(data);
    try {
      const { code, stdout, stderr } = await run([...command, address(cloud.url), id, key]);
      assertEquals(code, 0, `${command[0]} failed:\n${stderr}`);
      return JSON.parse(stdout.trim().split("\n").at(-1)!);
    } finally {
      assertEquals(await cloud.stop(), 0);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
