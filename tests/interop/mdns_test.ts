/** The published Python SDK finds a machine by multicast DNS, by the code in it that does so. */

import { assertEquals } from "@std/assert";
import { loopbackMulticast } from "../support/multicast.ts";
import { type Needed, needingTest } from "../support/needing.ts";
import { startServer, writeConfig } from "../support/server.ts";
import { pythonProgram, run } from "./programs.ts";

const PROGRAM = new URL("python_mdns.py", import.meta.url).pathname;

async function needed(): Promise<Needed<string>> {
  const multicast = await loopbackMulticast();
  return "missing" in multicast ? multicast : await pythonProgram();
}

needingTest("the published Python SDK finds a machine by multicast DNS", await needed(), async (python) => {
  // By the end of the name the SDK knows which part of it is the machine's.
  const name = `near-${crypto.randomUUID().slice(0, 8)}-main.abc.viam.cloud`;
  const components = [{ name: "board1", api: "rdk:component:board", model: "fake" }];
  // Of several machines on the loopback interface the SDK hears only the first: this one is on the others, too.
  const path = await writeConfig({ network: { fqdn: name, bind_address: "0.0.0.0:0" }, components });
  const server = await startServer(path, { args: ["-debug"] });
  try {
    await server.wrote("announced by multicast DNS");
    const { code, stdout, stderr } = await run([python, PROGRAM, name]);
    assertEquals([code, stdout.trim().split("\n").at(-1)], [0, "board1 builtin"], stderr);
  } finally {
    await server.stop();
    await Deno.remove(path);
  }
});
