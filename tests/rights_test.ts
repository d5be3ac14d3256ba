/**
 * What each process may still do: a process gives up the rights that its work does not need before it reads anything
 * from outside.
 */

import { assertEquals } from "@std/assert";
import { CONFIG_RIGHTS } from "../cli/cloud/checks/thread.ts";
import { type Right, rightsLeft, threadWith } from "../lib/base/native/permissions.ts";
import { VIDEO_RIGHTS } from "../lib/machine/streams/video_encoder.ts";

const ROOT = new URL("../", import.meta.url).href;
const ALL = ["read", "write", "net", "env", "run", "ffi", "sys", "import"];
const USUAL: readonly Right[] = ["read", "write", "net", "env", "sys"];

/** Runs a main function as the whole program of a process; returns its rights at the end. */
async function rightsAfter(module: string, call: string): Promise<string[]> {
  const script = `
    import * as program from "${ROOT}${module}";
    import { DenoHost } from "${ROOT}lib/base/host_deno.ts";
    import { rightsLeft } from "${ROOT}lib/base/native/permissions.ts";
    const host = new DenoHost(true);
    await ${call};
    console.log("\\n" + JSON.stringify(rightsLeft()));
    Deno.exit(0);`;
  const folder = await Deno.makeTempDir({ prefix: "svc-rights-" });
  try {
    await Deno.writeTextFile(`${folder}/main.ts`, script);
    const config = new URL("deno.json", ROOT).pathname;
    const args = ["run", "-A", "--no-check", "--no-prompt", "--config", config, `${folder}/main.ts`];
    const command = new Deno.Command(Deno.execPath(), {
      args,
      cwd: folder,
      env: { SVC_HOME: folder },
      stdin: "null",
    });
    const { stdout, stderr } = await command.output();
    const last = new TextDecoder().decode(stdout).trim().split("\n").at(-1)!;
    if (!last.startsWith("[")) throw new Error(new TextDecoder().decode(stderr));
    return JSON.parse(last);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const CASES: readonly (readonly [who: string, module: string, call: string, rights: readonly string[]])[] = [
  ["a content worker", "cli/cloud/main.ts", 'program.main(["content-worker"], host)', [
    ...["read", "write", "env", "ffi", "sys"],
  ]],
  ["the process of SQLite", "cli/cloud/sqlite.ts", "program.workOnSqlite()", ["read", "write", "env", "sys"]],
  ["svc-agent status", "cli/agent/main.ts", 'program.main(["status"], host)', USUAL],
  ["svc-agent rollback", "cli/agent/main.ts", 'program.main(["rollback"], host)', USUAL],
  ["a command of svc-cloud on SQLite", "cli/cloud/main.ts", 'program.main(["org", "list"], host)', ALL],
  [
    "a command of svc-cloud on PostgreSQL",
    "cli/cloud/main.ts",
    'program.main(["org", "list", "--database", "postgres://127.0.0.1:1/none"], host)',
    USUAL,
  ],
  ["a command of svc-ml", "cli/ml/main.ts", 'program.main(["profiles"], host)', USUAL],
  ["a command of svc-ml on files", "cli/ml/main.ts", 'program.main(["infer", "/none"], host)', ALL],
];

for (const [who, module, call, rights] of CASES) {
  Deno.test({
    name: `rights: ${who} has only ${rights.join(", ")}`,
    ignore: Deno.build.os === "windows",
    fn: async () => assertEquals((await rightsAfter(module, call)).sort(), [...rights].sort()),
  });
}

const THREADS: readonly (readonly [who: string, kept: readonly Right[]])[] = [
  ["the thread that encodes video", VIDEO_RIGHTS],
  ["the thread that checks configurations", CONFIG_RIGHTS],
];

for (const [who, kept] of THREADS) {
  Deno.test(`rights: ${who} has only ${kept.join(", ") || "none"}, and its process keeps its own`, async () => {
    const before = rightsLeft();
    const module = new URL("./support/rights_worker.ts", import.meta.url);
    const worker = new Worker(module, threadWith(kept));
    try {
      const logged = await new Promise<{ left: Right[]; open: string[] }>((resolve, reject) => {
        worker.onmessage = ({ data }) => resolve(data);
        worker.onerror = reject;
      });
      assertEquals(logged.left.toSorted(), [...kept].toSorted());
      assertEquals(logged.open, kept.includes("read") ? ["a file"] : []);
      assertEquals(rightsLeft(), before);
    } finally {
      worker.terminate();
    }
  });
}
