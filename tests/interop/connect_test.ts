/**
 * The programs that the machine's page offers: under Connect they connect, with a key, and list the resources; on a card
 * they repeat its last call. Flutter has no toolchain here; `tests/web` compares its text.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { codeFor } from "../../lib/web/machine/code/code.ts";
import { connectCode } from "../../lib/web/machine/code/connect.ts";
import { needingTest } from "../support/needing.ts";
import { startServer, writeConfig } from "../support/server.ts";
import { goDialProgram, nodeFolder, pythonProgram, run, runtimePrograms } from "./programs.ts";

const key = { id: "the-id", key: 'a "key" of $quotes' };
/** Names that the programs, or their languages, have taken. */
const MOTORS = ["motor1", "left-wheel", "machine", "type", "err", "class"];

const [python, go] = [await pythonProgram(), await goDialProgram()];
const wanted = "found" in python || "missing" in go ? python : go;

needingTest("programs of the page connect with Python, Node and Go", wanted, async (_, t) => {
  const folder = await nodeFolder();
  const config = await writeConfig({
    components: MOTORS.map((name) => ({ name, api: "rdk:component:motor", model: "fake", attributes: {} })),
    auth: { handlers: [{ type: "api-key", config: { [key.id]: key.key, keys: [key.id] } }] },
  });
  const server = await startServer(config, { args: ["-disable-mdns"] });
  const connection = { address: server.url, guarded: true, key };
  const call = (name: string) => ({
    ...connection,
    api: "rdk:component:motor",
    name,
    method: "goFor",
    args: { rpm: 6000, revolutions: 1 },
  });
  const written: string[] = [config];
  const write = async (path: string, text: string) => {
    written.push(path);
    await Deno.writeTextFile(path, text);
    return path;
  };
  try {
    await server.wrote("machine is running");
    await t.step({
      name: "Python and Node",
      ignore: "missing" in python,
      fn: async () => {
        // Beside the packages, whose names Node looks up from where the program stands.
        const base = `${folder}/connect-${crypto.randomUUID()}`;
        const program = "found" in python ? python.found : "";
        const [py, mjs, called] = [`${base}.py`, `${base}.mjs`, `${base}-call.py`];
        const [call1, ...lists] = await Promise.all([
          run([program, await write(called, codeFor("python", call("class")))]),
          run([program, await write(py, connectCode("python", connection))]),
          run(["node", await write(mjs, connectCode("typescript", connection))]),
        ]);
        assertEquals(call1.code, 0, call1.stderr);
        for (const { code, stdout, stderr } of lists) {
          assertEquals(code, 0, stderr);
          assertStringIncludes(stdout, "motor1");
        }
      },
    });
    await t.step({
      name: "Go, against packages that stand in for the runtime's",
      ignore: "missing" in go,
      fn: async () => {
        const calls = MOTORS.map((name, at) => [`call${at}`, codeFor("go", call(name))]);
        const programs = { connect: connectCode("go", connection), ...Object.fromEntries(calls) };
        const made = await runtimePrograms(programs, ["connect"]);
        if ("missing" in made) throw new Error(made.missing);
        const { folder: built } = made.found;
        written.push(built);
        const { code, stdout, stderr } = await run([`${built}/connect`]);
        assertEquals(code, 0, stderr);
        assertStringIncludes(stdout, "motor1");
      },
    });
  } finally {
    await server.stop();
    for (const path of written) await Deno.remove(path, { recursive: true }).catch(() => {});
  }
});
