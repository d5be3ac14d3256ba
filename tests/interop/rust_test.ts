/**
 * The published Rust client, which the C++ and Python clients use to dial, too: over WebRTC and directly, through the
 * machine's own signaling and through that of its control plane, with and without a key.
 *
 * `deno task interop:rust` runs it: compiling it takes minutes, so other runs leave it out.
 */

import { assertEquals, assertGreater, assertMatch } from "@std/assert";
import { withManagedMachine } from "../cloud/managed.ts";
import { needingTest } from "../support/needing.ts";
import { startServer, writeConfig } from "../support/server.ts";
import { until } from "../support/until.ts";
import { run, rustDialProgram } from "./programs.ts";
import { auth, components, KEY } from "./wheel.ts";

interface Seen {
  readonly way?: "webrtc" | "direct";
  readonly resources: readonly string[];
  readonly moved: number;
  /** The code for a motor that is not there: that of the published runtime. */
  readonly refused: string;
  readonly services: number;
  /** Why it could not dial, or not go on. */
  readonly failed?: string;
}

const NOTHING = "-";
const program = await rustDialProgram();

needingTest("the published Rust client dials a machine without a key", program, async (dial) => {
  const config = await writeConfig({ components });
  const server = await startServer(config);
  try {
    await server.wrote("machine is running");
    const { host } = new URL(server.url);
    for (const way of ["webrtc", "direct"] as const) {
      judge(await seenBy(dial, [host, NOTHING, NOTHING, NOTHING, way]), way);
    }
  } finally {
    await server.stop();
    await Deno.remove(config);
  }
});

needingTest(
  "the published Rust client dials a machine with its key, and with a wrong one",
  program,
  async (dial) => {
    const config = await writeConfig({ components, auth });
    const server = await startServer(config);
    try {
      await server.wrote("machine is running");
      const { host } = new URL(server.url);
      for (const way of ["webrtc", "direct"] as const) {
        judge(await seenBy(dial, [host, NOTHING, KEY.id, KEY.key, way]), way);
        assertMatch(
          (await seenBy(dial, [host, NOTHING, KEY.id, "another", way])).failed ?? "",
          /credentials/,
        );
      }
    } finally {
      await server.stop();
      await Deno.remove(config);
    }
  },
);

needingTest(
  "the published Rust client dials a machine through its control plane",
  program,
  (dial) =>
    withManagedMachine({ components }, async ({ example: { ownerKey }, fqdn, cloud, server }) => {
      const asked = (key: string) => [fqdn, new URL(cloud.url).host, ownerKey.id, key, "webrtc"];
      // The machine waits for calls a moment after its configuration is there.
      const seen = await until(async () => {
        const found = await seenBy(dial, asked(ownerKey.key));
        return found.failed === undefined && found;
      }, { found: () => server.output() });
      judge(seen, "webrtc");
      assertMatch((await seenBy(dial, asked("another"))).failed ?? "", /credentials/);
    }),
);

function judge({ way, resources, services, moved, refused, failed }: Seen, wanted: Seen["way"]): void {
  assertEquals([failed, way, refused], [undefined, wanted, "Unknown"]);
  assertEquals(["pulses", "wheel"].filter((name) => !resources.includes(name)), []);
  assertGreater(services, 20);
  assertGreater(moved, 0);
}

async function seenBy(dial: string, args: readonly string[]): Promise<Seen> {
  const { code, stdout, stderr } = await run([dial, ...args]);
  if (code !== 0) throw new Error(`${dial} failed: ${stderr}`);
  return JSON.parse(stdout);
}
