/**
 * The published client libraries and a machine that a control plane manages: over TLS with the certificate from
 * there, and with its API keys.
 */

import { assertEquals } from "@std/assert";
import { nodeFolder, pythonProgram, run } from "../interop/programs.ts";
import { needingTest } from "../support/needing.ts";
import { startServer } from "../support/server.ts";
import { type Example, serveCloud, svcCloud } from "./program.ts";

const HERE = new URL("./", import.meta.url).pathname;
const CONFIG = {
  network: { bind_address: "localhost:0" },
  components: [{ name: "m", api: "rdk:component:motor", model: "fake" }],
};

Deno.test("the published TypeScript SDK connects to a managed machine over TLS with an API key", () =>
  withManaged(async (url, key) => {
    const node = await nodeFolder();
    await Deno.copyFile(`${HERE}managed_tour.mjs`, `${node}/managed_tour.mjs`);
    return ["grpc", "grpc-web"].map((way) => ["node", `${node}/managed_tour.mjs`, url, ...key, way]);
  }));

needingTest(
  "the published Python SDK connects to a managed machine over TLS with an API key",
  await pythonProgram(),
  (python) => withManaged((url, key) => [[python, `${HERE}managed_tour.py`, new URL(url).host, ...key]]),
);

type Tours = (url: string, key: readonly string[]) => string[][] | Promise<string[][]>;

async function withManaged(tours: Tours): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const data = ["--data", `${folder}/data`];
  const { partId, config, ownerKey }: Example = JSON.parse(await svcCloud("init", ...data, "--json"));
  await Deno.writeTextFile(`${folder}/config.json`, JSON.stringify(CONFIG));
  await svcCloud("config", "set", partId, `${folder}/config.json`, ...data);
  await Deno.writeTextFile(`${folder}/ca.pem`, await svcCloud("authority", ...data));
  const cloud = await serveCloud([...data, "--localhost-certificates"]);
  const own = { ...config.cloud, app_address: cloud.url };
  await Deno.writeTextFile(`${folder}/machine.json`, JSON.stringify({ cloud: own }));
  const env = { SVC_HOME: folder };
  const server = await startServer(`${folder}/machine.json`, { args: ["-allow-insecure-creds"], env });
  try {
    await server.wrote("machine is running");
    for (const command of await tours(server.url, [ownerKey.id, ownerKey.key])) {
      const trust = { NODE_EXTRA_CA_CERTS: `${folder}/ca.pem`, SSL_CERT_FILE: `${folder}/ca.pem` };
      const { code, stdout, stderr } = await run(command, trust);
      assertEquals(code, 0, `${command[0]} failed:\n${stderr}`);
      const seen = JSON.parse(stdout.trim().split("\n").at(-1)!);
      assertEquals(seen, { powered: [true, 0.25], wrong: "refused" }, command[0]);
    }
  } finally {
    await server.stop();
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
}
