/**
 * Starts of the server that must fail, with one clear message and exit code 1, within the process for speed and a few
 * times as a program of its own; and starts that succeed although something is broken.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { fromBinary } from "@bufbuild/protobuf";
import { main } from "../cli/server/main.ts";
import { escaped } from "../lib/base/escape.ts";
import { DenoHost } from "../lib/base/host_deno.ts";
import type { JsonObject } from "../lib/base/schema/schema.ts";
import { GetMachineStatusResponseSchema, ResourceStatus_State } from "../proto/gen/robot_pb.ts";
import { bytesOf, ENV, FILES, RESOURCES, SETTINGS } from "./bad_configs.ts";
import { startServer, writeConfig } from "./support/server.ts";

const ROOT = new URL("../", import.meta.url);

/** The real host, which records the output for people. */
class QuietHost extends DenoHost {
  errors = "";

  override env(name: string): string | undefined {
    return ENV[name];
  }

  override writeError(text: string): void {
    this.errors += text;
  }
}

/** Runs the server on a file until it ends. */
async function run(path: string): Promise<{ code: number; errors: string }> {
  const host = new QuietHost();
  const { log } = console;
  console.log = () => {};
  try {
    return { code: await main(["-config", path], host), errors: host.errors };
  } finally {
    console.log = log;
  }
}

/** The same as a process. */
async function spawn(path: string): Promise<{ code: number; errors: string }> {
  const args = ["run", "-A", new URL("cli/server/main.ts", ROOT).pathname, "-config", path];
  const { code, stderr } = await new Deno.Command(Deno.execPath(), { args, stdin: "null", stdout: "null" })
    .output();
  return { code, errors: new TextDecoder().decode(stderr) };
}

async function withFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-" });
  try {
    await use(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test({
  name: "a device without an end is no configuration",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const { code, errors } = await run("/dev/zero");
    assertEquals([code, errors.includes("/dev/zero: the file has 16.1 MiB, wanted at most 16 MiB")], [
      1,
      true,
    ]);
  },
});

/** A complaint without the line and column of a path, which the table does not have. */
function unplaced(errors: string): string {
  return errors.replace(/(f\.json):\d+:\d+(: [a-z_]+[.:])/g, "$1$2");
}

Deno.test("svc-server exits with 1 and the message for every refused configuration", () =>
  withFolder(async (folder) => {
    const path = `${folder}/f.json`;
    for (const [what, content, outcome, message] of [...FILES, ...SETTINGS, ...RESOURCES]) {
      if (outcome !== "refused") continue;
      await Deno.writeFile(path, bytesOf(content));
      const { code, errors } = await run(path);
      assertEquals(code, 1, `${what}: ${errors}`);
      const printed = escaped(message);
      assertStringIncludes(unplaced(errors), printed.replace("f.json", path), what);
      assertEquals(errors.split(printed.slice("f.json".length)).length, 2, `${what}: told once`);
    }
  }));

Deno.test("svc-server exits with 1 if its configuration file is missing or a folder", () =>
  withFolder(async (folder) => {
    for (const [path, why] of [[`${folder}/none.json`, "it does not exist"], [folder, "it is a folder"]]) {
      const { code, errors } = await run(path);
      assertEquals(code, 1);
      assertStringIncludes(errors, `svc-server: cannot read "${path}": ${why}`);
    }
  }));

Deno.test("svc-server exits with 1 if its TLS certificate is missing or broken", () =>
  withFolder(async (folder) => {
    const [cert, key] = [`${folder}/cert.pem`, `${folder}/key.pem`];
    const path = `${folder}/f.json`;
    const network = { bind_address: "127.0.0.1:0", tls_cert_file: cert, tls_key_file: key };
    await Deno.writeTextFile(path, JSON.stringify({ network }));
    assertStringIncludes((await run(path)).errors, `cannot read "${cert}": it does not exist`);
    await Deno.writeTextFile(cert, "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n");
    await Deno.writeTextFile(key, "nonsense");
    const { code, errors } = await run(path);
    assertEquals(code, 1);
    assertStringIncludes(errors, `cannot read ${cert}: wanted a PEM certificate`);
  }));

Deno.test("svc-server exits with 1 if its bind address is in use or not local", () =>
  withFolder(async (folder) => {
    using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = taken.addr as Deno.NetAddr;
    const path = `${folder}/f.json`;
    const addresses = [[`127.0.0.1:${port}`, `it is in use by deno (pid ${Deno.pid})`], [
      "192.0.2.1:0",
      "this machine has no such address",
    ]];
    for (const [address, why] of addresses) {
      await Deno.writeTextFile(path, JSON.stringify({ network: { bind_address: address } }));
      const { code, errors } = await run(path);
      assertEquals(code, 1);
      assertStringIncludes(errors, `network.bind_address: cannot listen on ${address}: ${why}`);
    }
  }));

Deno.test("the svc-server process exits with 1 and without a stack trace for a refused file", () =>
  withFolder(async (folder) => {
    const path = `${folder}/f.json`;
    for (const what of ["50 MB", "deep arrays", "address without a port"]) {
      const [, content, , message] = [...FILES, ...SETTINGS].find(([name]) => name === what)!;
      await Deno.writeFile(path, bytesOf(content));
      const { code, errors } = await spawn(path);
      assertEquals(code, 1, errors);
      assertStringIncludes(unplaced(errors), message.replace("f.json", path));
      assert(!/^\s+at /m.test(errors), errors);
    }
  }));

Deno.test("the svc-server process serves good resources and reports broken resources as unhealthy", async () => {
  const part = (name: string, changes: JsonObject = {}) => {
    return { name, api: "rdk:component:generic", model: "fake", ...changes };
  };
  const path = await writeConfig({
    components: [
      part("good"),
      part("typo", { model: "fakee" }),
      part("lonely", { depends_on: ["nobody"] }),
      part("left", { depends_on: ["right"] }),
      part("right", { depends_on: ["left"] }),
    ],
  });
  const server = await startServer(path);
  try {
    await server.wrote("machine is running");
    const status = await machineStatus(server.url);
    const found = status.resources.filter((one) => one.name?.subtype === "generic");
    const lines = found.map(({ name, state, error }) =>
      `${name!.name} ${ResourceStatus_State[state]} ${error}`
    );
    assertEquals(lines[0], "good READY ");
    const wanted = ["did you mean rdk:builtin:fake?", "[nobody]", "cycle", "cycle"];
    for (const [index, reason] of wanted.entries()) {
      assertStringIncludes(lines[index + 1], " UNHEALTHY ");
      assertStringIncludes(lines[index + 1], reason);
    }
  } finally {
    assertEquals(await server.stop(), 0);
    await Deno.remove(path);
  }
});

/** Asks over gRPC-web: an empty request, and an answer in one frame before the trailers. */
async function machineStatus(url: string) {
  const response = await fetch(`${url}/viam.robot.v1.RobotService/GetMachineStatus`, {
    method: "POST",
    headers: { "content-type": "application/grpc-web+proto" },
    body: new Uint8Array(5),
  });
  const body = new Uint8Array(await response.arrayBuffer());
  const length = new DataView(body.buffer).getUint32(1);
  return fromBinary(GetMachineStatusResponseSchema, body.subarray(5, 5 + length));
}
