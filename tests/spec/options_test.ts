/**
 * Options of svc-server as a user has them: a process, its output and its end.
 */

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { VERSION } from "../../cli/version.ts";
import { loopbackMulticast } from "../support/multicast.ts";
import { needingTest } from "../support/needing.ts";
import { startServer, writeConfig } from "../support/server.ts";

const PROGRAM = new URL("../../cli/server/main.ts", import.meta.url).pathname;

/** Runs svc-server to its end. */
async function run(...args: string[]): Promise<{ code: number; output: string }> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", PROGRAM, ...args],
    stdin: "null",
  }).output();
  return { code, output: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}

/** A machine's output from its start to its end. */
async function logOf(config: Record<string, unknown>, ...args: string[]): Promise<string> {
  const path = await writeConfig(config);
  try {
    const server = await startServer(path, { args });
    try {
      await server.wrote("configuration applied");
    } finally {
      await server.stop();
    }
    return server.output();
  } finally {
    await Deno.remove(path);
  }
}

const MACHINE = {
  components: [
    { name: "b", api: "rdk:component:board", model: "fake" },
    {
      name: "m",
      api: "rdk:component:motor",
      model: "gpio",
      attributes: { board: "b", pins: { dir: "1", pwm: "2" }, max_rpm: 100 },
    },
  ],
};

Deno.test("-version prints a single line", async () => {
  const { code, output } = await run("-version");
  assertEquals([code, output.split("\n").length], [0, 2]);
  assertStringIncludes(output, `svc-server ${VERSION} `);
});

Deno.test("-dump-resources writes to a device without replacing it", async () => {
  const { code, output } = await run("-dump-resources", "/proc/self/fd/1");
  assertEquals(code, 0);
  assertEquals(JSON.parse(output).length > 30, true);
});

Deno.test("-debug writes debug lines, including the order of closing", async () => {
  const closing = (log: string) =>
    [...log.matchAll(/DEBUG.*\tclosing rdk:component:(\S+)/g)].map(([, name]) => name);
  assertEquals(closing(await logOf(MACHINE, "-debug")), ["motor/m", "board/b"]);
  assertEquals(closing(await logOf(MACHINE)), []);
});

Deno.test("a failed construction is a single line in the log", async () => {
  const broken = { name: "c", api: "rdk:component:camera", model: "fake", attributes: { width: 3 } };
  const lines = (await logOf({ components: [broken] })).split("\n");
  assertEquals(lines.filter((line) => line.includes("odd-number")).length, 1);
});

Deno.test("-cpuprofile writes a profile with nodes and samples", async () => {
  const folder = await Deno.makeTempDir();
  const file = `${folder}/cpu.cpuprofile`;
  try {
    await logOf(MACHINE, "-cpuprofile", file);
    const { nodes, samples } = JSON.parse(await Deno.readTextFile(file));
    assert(nodes.length > 0 && samples.length > 0);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("-no-tls serves without TLS although the configuration has a certificate", async () => {
  const tls = { tls_cert_file: "/nowhere/cert.pem", tls_key_file: "/nowhere/key.pem" };
  assertMatch(await logOf({ network: tls }, "-no-tls"), /"url":"http:\/\//);
});

needingTest(
  "-discover finds an announced machine, but none with -disable-mdns",
  await loopbackMulticast(),
  async () => {
    const word = crypto.randomUUID().slice(0, 8);
    const start = async (name: string, ...args: string[]) => {
      const path = await writeConfig({ network: { fqdn: `${name}-${word}.example.com` } });
      const server = await startServer(path, { args: ["-debug", ...args] });
      return { server, end: async () => void await Promise.all([server.stop(), Deno.remove(path)]) };
    };
    const [seen, hidden] = await Promise.all([start("seen"), start("hidden", "-disable-mdns")]);
    try {
      await seen.server.wrote("announced by multicast DNS");
      const { code, output } = await run("-discover");
      assertEquals(code, 0);
      const line = output.split("\n").find((one) => one.includes(word))?.replace(", ", ",");
      const { host } = new URL(seen.server.url);
      assertEquals(line?.split(/ +/), [
        host.replace("localhost", "127.0.0.1"),
        `seen-${word}.example.com`,
        "grpc,webrtc",
      ]);
      assertEquals(output.includes(`hidden-${word}`), false);
    } finally {
      await Promise.all([seen.end(), hidden.end()]);
    }
  },
);

Deno.test("-shareddir serves a folder's files without a token, and no files outside", async () => {
  const folder = await Deno.makeTempDir();
  const path = await writeConfig({
    auth: { handlers: [{ type: "api-key", config: { keys: ["k"], k: "secret" } }] },
  });
  try {
    await Deno.mkdir(`${folder}/static`);
    await Deno.writeTextFile(`${folder}/static/page.html`, "<p>hello");
    await Deno.writeTextFile(`${folder}/private.txt`, "private");
    const server = await startServer(path, { args: ["-shareddir", folder] });
    try {
      const get = async (at: string) => {
        const answer = await fetch(`${server.url}${at}`);
        return [answer.status, answer.headers.get("content-type"), await answer.text()];
      };
      assertEquals(await get("/static/page.html"), [200, "text/html; charset=utf-8", "<p>hello"]);
      assertEquals((await get("/static/%2e%2e%2fprivate.txt"))[0], 404);
    } finally {
      await server.stop();
    }
    const { code, output } = await run("-config", path, "-shareddir", `${folder}/none`);
    assertEquals(code, 1);
    assertStringIncludes(output, `there is no folder "${folder}/none" with static web assets`);
  } finally {
    await Deno.remove(path);
    await Deno.remove(folder, { recursive: true });
  }
});
