/** The end of the program, as a supervisor sees it. */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { type Bench, part, withChannel, withServer } from "./bench.ts";

const CHAIN = { components: [part("a", { uses: ["b"] }), part("b", { uses: ["c"] }), part("c")] };

const shutDown = ({ server }: Bench) =>
  withChannel(server.url, (channel) => client(RobotService, channel).shutdown({})).then(() => {});
const signal = (name: Deno.Signal) => ({ server }: Bench) => Promise.resolve(Deno.kill(server.pid, name));

const ways: [name: string, ask: (bench: Bench) => Promise<void>, reason: string][] = [
  ["SIGTERM", signal("SIGTERM"), "SIGTERM"],
  ["SIGINT", signal("SIGINT"), "SIGINT"],
  ["the end of its terminal", signal("SIGHUP"), "SIGHUP"],
  ["the Shutdown RPC", shutDown, "shutdown_request"],
];

for (const [name, ask, reason] of ways) {
  Deno.test({
    name: `${name} ends svc-server with exit code 0 and closes dependents first`,
    ignore: Deno.build.os === "windows",
    fn: () =>
      withServer(CHAIN, async (bench) => {
        await ask(bench);
        assertEquals(await bench.server.ended, 0);
        const output = bench.server.output();
        assertStringIncludes(output, `shutting down: ${reason}`);
        const published = reason.startsWith("SIG") ? "signal" : reason;
        const logged = new RegExp(
          `shutdown end\t{"activity":"shutdown","event":"end","reason":"${published}",.*"duration_us":\\d+}`,
        );
        assertMatch(output, logged);
        assertEquals(output.match(/(?<=\tclosed )[abc]\b/g), ["a", "b", "c"]);
        // Records of activities are debug lines.
      }, { args: ["-debug"] }),
  });
}

Deno.test({
  name: "a signal ends svc-server while it waits for a configuration from a pipe without a writer",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-" });
    const path = `${folder}/machine.json`;
    await new Deno.Command("mkfifo", { args: [path] }).output();
    const args = ["run", "-A", new URL("program.ts", import.meta.url).pathname, "-config", path];
    const child = new Deno.Command(Deno.execPath(), { args, stdout: "piped", stderr: "null" }).spawn();
    let output = "";
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      if (output === "") child.kill("SIGINT");
      output += text;
    }
    assertEquals((await child.status).code, 0);
    assertStringIncludes(output, "shutting down: SIGINT");
    await Deno.remove(folder, { recursive: true });
  },
});

Deno.test({
  name: "a second signal ends svc-server at once with 1, and the log lists what is left behind",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withServer({ components: [part("stuck", { close: "hangs" }), part("ok")] }, async ({ server }) => {
      Deno.kill(server.pid, "SIGTERM");
      await server.wrote("closed stuck");
      Deno.kill(server.pid, "SIGINT");
      assertEquals(await server.ended, 1);
      assertStringIncludes(
        server.output(),
        "the shutdown is forced (SIGINT came again), still open: rdk:component:generic/stuck",
      );
    }),
});

Deno.test({
  name: "a resource that never closes is left behind at the deadline, and svc-server ends with 1",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withServer(
      { components: [part("stuck", { close: "hangs", uses: ["ok"] }), part("ok")] },
      async ({ server }) => {
        Deno.kill(server.pid, "SIGTERM");
        assertEquals(await server.ended, 1);
        const output = server.output();
        assertStringIncludes(output, "shutting down: SIGTERM");
        assertStringIncludes(output, "closed stuck");
        assertStringIncludes(output, "the shutdown is forced (not closed within 0.5 s), still open: ");
        assertStringIncludes(output, "rdk:component:generic/stuck");
      },
      { env: { SVC_SHUTDOWN_TIMEOUT: "500ms" } },
    ),
});

Deno.test({
  name: "at the end of svc-server everything stops first, also below a resource that never closes",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withServer(
      { components: [part("stuck", { close: "hangs", uses: ["motor"] }), part("motor")] },
      async ({ server }) => {
        Deno.kill(server.pid, "SIGTERM");
        assertEquals(await server.ended, 1);
        assertMatch(server.output(), /\tstopped motor[^]*\tclosed stuck/);
      },
      { env: { SVC_SHUTDOWN_TIMEOUT: "500ms" } },
    ),
});

Deno.test({
  name: "an actuator that never stops holds back neither the others nor the end",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withServer(
      { components: [part("stuck", { stop: "hangs" }), part("odd", { stop: "fails" }), part("motor")] },
      async ({ server }) => {
        Deno.kill(server.pid, "SIGTERM");
        assertEquals(await server.ended, 0);
        const output = server.output();
        assertMatch(output, /\tstopped motor[^]*\tclosed motor/);
        assertStringIncludes(output, "closed stuck");
        assertEquals(output.includes("cannot stop rdk:component:generic/stuck"), false);
      },
    ),
});

Deno.test({
  name: "a forced shutdown names the module that ignores SIGTERM",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-" });
    const program = `${folder}/deaf.sh`;
    await Deno.writeTextFile(program, "#!/bin/sh\ntrap '' TERM\necho deaf now\nwhile :; do sleep 1; done\n");
    await Deno.chmod(program, 0o700);
    const modules = [{ type: "local", name: "deaf", executable_path: program }];
    try {
      await withServer({ modules }, async ({ server }) => {
        Deno.kill(server.pid, "SIGTERM");
        assertEquals(await server.ended, 1);
        assertStringIncludes(
          server.output(),
          'the shutdown is forced (not closed within 0.5 s), still open: module "deaf", ',
        );
      }, { env: { SVC_SHUTDOWN_TIMEOUT: "500ms" }, ready: "deaf now" });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test({
  name: "a resource that fails to close is logged, the others close",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withServer(
      { components: [part("a", { close: "fails", uses: ["b"] }), part("b")] },
      async ({ server }) => {
        await server.stop();
        assertStringIncludes(server.output(), "it is stuck");
        assertStringIncludes(server.output(), "closed b");
      },
    ),
});

Deno.test({
  name: "a signal ends svc-server while a resource is being built",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withServer({ components: [part("slow", { build: "hangs" }), part("ok")] }, async ({ server }) => {
      assertEquals(await server.stop(), 0);
      assertStringIncludes(server.output(), "closed ok");
    }, { ready: "built ok" }),
});
