/**
 * The shell service as the published clients speak to it, and without it: `-untrusted-env`.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { withChannel } from "../e2e/bench.ts";
import { needingTest } from "../support/needing.ts";
import { startServer, writeConfig } from "../support/server.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { pythonProgram, run } from "./programs.ts";

const PROGRAM = new URL("python_shell.py", import.meta.url).pathname;

/** As the published command line adds it. */
const CONFIG = { services: [{ name: "shell", api: "rdk:service:shell" }] };

needingTest(
  "shell and cp of the published clients work with the shell service",
  await pythonProgram(),
  async (python) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-shell-" });
    try {
      await withServer([], async (url) => {
        const { code, stdout, stderr } = await run([python, PROGRAM, new URL(url).host, folder]);
        assertEquals(code, 0, stderr);
        const seen = JSON.parse(stdout.trim().split("\n").at(-1)!);
        for (const words of ["20 90", "21 90", "xterm-256color-42"]) {
          assertStringIncludes(seen.shell.output, words);
        }
        assertEquals(seen.shell.eof, true);
        assertEquals([seen.acknowledged, seen.mode], [3, 0o755]);
        assertEquals(seen.back, {
          source: "COPY_FILES_SOURCE_TYPE_SINGLE_DIRECTORY",
          names: ["tree/empty", "tree/large", "tree"],
          same: true,
        });
        assertEquals(seen.refused.status, "INVALID_ARGUMENT");
        assertStringIncludes(seen.refused.message, "file is a directory but copy recursion not used");
      });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

Deno.test("-untrusted-env makes the shell service unhealthy, and the machine runs", async () => {
  await withServer(["-untrusted-env"], async (url) => {
    const { resources } = await withChannel(
      url,
      (channel) => client(RobotService, channel).getMachineStatus({}),
    );
    const shell = resources.find(({ name }) => name?.subtype === "shell");
    assert(shell);
    assertStringIncludes(
      shell.error,
      "rdk:service:shell/shell would run programs, which -untrusted-env disables",
    );
  });
});

async function withServer(args: string[], use: (url: string) => Promise<void>): Promise<void> {
  const path = await writeConfig(CONFIG);
  const server = await startServer(path, { args, env: { SHELL: "/bin/sh" } });
  try {
    await server.wrote("machine is running");
    await use(server.url);
  } finally {
    const code = await server.stop();
    await Deno.remove(path);
    assertEquals(code, 0, server.output());
  }
}
