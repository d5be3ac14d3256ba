/** The programs that the machine's page offers under Connect: they connect, with a key, and list the resources. */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { connectCode } from "../../lib/web/machine/code/connect.ts";
import { needingTest } from "../support/needing.ts";
import { startServer, writeConfig } from "../support/server.ts";
import { nodeFolder, pythonProgram, run } from "./programs.ts";

const key = { id: "the-id", key: 'a "key" of $quotes' };

needingTest("programs of the page connect with Python and Node", await pythonProgram(), async (python) => {
  const folder = await nodeFolder();
  const config = await writeConfig({
    components: [{ name: "motor1", api: "rdk:component:motor", model: "fake", attributes: {} }],
    auth: { handlers: [{ type: "api-key", config: { [key.id]: key.key, keys: [key.id] } }] },
  });
  const server = await startServer(config, { args: ["-disable-mdns"] });
  // Beside the packages, whose names Node looks up from where the program stands.
  const [py, mjs] = ["py", "mjs"].map((ending) => `${folder}/connect-${crypto.randomUUID()}.${ending}`);
  try {
    await server.wrote("machine is running");
    const connection = { address: server.url, guarded: true, key };
    await Deno.writeTextFile(py, connectCode("python", connection));
    await Deno.writeTextFile(mjs, connectCode("typescript", connection));
    const answers = await Promise.all([run([python, py]), run(["node", mjs])]);
    for (const { code, stdout, stderr } of answers) {
      assertEquals(code, 0, stderr);
      assertStringIncludes(stdout, "motor1");
    }
  } finally {
    await server.stop();
    await Promise.all([py, mjs, config].map((path) => Deno.remove(path).catch(() => {})));
  }
});
