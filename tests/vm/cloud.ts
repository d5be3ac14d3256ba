/**
 * `deno task vm:cloud`: the service and the container of docs/operating.md, on a Debian system of its own whose first
 * process is systemd.
 *
 * Promises: one line a scenario, `ok …` or `FAILED …`, and their count at the end; exit code 0 only if none failed.
 */

import { checkCompiler } from "../../cli/build/check_compiler.ts";
import { compile, EXECUTABLES, exists, ROOT, TARGETS } from "../../cli/build/compiler.ts";
import { Report } from "../../cli/build/report.ts";
import { begin } from "../../cli/program.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { image, NETWORK_DEVICE } from "./image.ts";
import { Namespaces } from "./namespaces.ts";
import { freePort } from "../support/free_port.ts";

const PROGRAM = {
  name: "deno task vm:cloud",
  summary: "Installs svc-cloud as a service of a Debian system in namespaces, and breaks it.",
  style: "gnu",
  usage: "[flags]",
  flags: [
    { name: "reuse", type: "bool", default: false, help: "Take the program of an earlier run." },
  ],
} as const;

const FOLDER = "dist/vm/programs/1.0.0";
const SERVES_MS = 60_000;
const AS_USER =
  "setpriv --reuid svc-cloud --regid svc-cloud --clear-groups env SVC_CLOUD_DATA=/var/lib/svc-cloud";
const UNIT = "svc-cloud.service";

async function main(args: readonly string[], host: DenoHost): Promise<number> {
  const begun = begin(PROGRAM, args, host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const report = new Report(host);
  await makeProgram(begun.values.reuse);
  const folder = `${ROOT}dist/vm/cloud`;
  await Deno.remove(folder, { recursive: true }).catch(() => {});
  const system = await Namespaces.make(await image(NETWORK_DEVICE), folder);
  const ports = [freePort(), freePort()];
  // Executables of the older Deno serve no HTTP/1.1.
  const ready = (port: number) => `curl -fsS --http2-prior-knowledge http://127.0.0.1:${port}/readyz`;
  const install = (port: number, ...more: string[]) =>
    system.run(["/root/svc-cloud serve --install --listen", `127.0.0.1:${port}`, ...more].join(" "));
  try {
    await system.on();
    await system.copyIn(`${ROOT}${FOLDER}/svc-cloud`, "/root/svc-cloud");
    await report.check(
      "serve --install makes a service of its own user, which systemd takes and starts",
      async () => {
        await install(ports[0], "--public-url", "https://cloud.example.com", "--trusted-proxy", "127.0.0.1");
        await system.eventually(ready(ports[0]), SERVES_MS);
        const output = await system.run(`systemd-analyze verify ${UNIT}; systemctl is-enabled ${UNIT}`);
        if (output.split("\n").at(-1) !== "enabled" || output.includes(".service:")) throw new Error(output);
        const user = await system.run(`ps -o user= -p $(systemctl show -P MainPID ${UNIT})`);
        if (!"svc-cloud".startsWith(user.replace("+", ""))) throw new Error(`it runs as ${user}`);
        await system.run(`${AS_USER} svc-cloud org create Orchard`);
      },
    );
    await report.check("a killed svc-cloud is started again", async () => {
      await system.run(`systemctl kill -s KILL --kill-whom=main ${UNIT}`);
      await system.eventually(
        `test $(systemctl show -P NRestarts ${UNIT}) -ge 1 && ${ready(ports[0])}`,
        SERVES_MS,
      );
    });
    await report.check("it comes back with the system after a power cut, with its data", async () => {
      await system.cut();
      await system.on();
      await system.eventually(ready(ports[0]), SERVES_MS);
      const organizations = await system.run(`${AS_USER} svc-cloud org list`);
      if (!organizations.includes("Orchard")) throw new Error(organizations);
    });
    await report.check("serve --install with other flags changes the service", async () => {
      await install(ports[1]);
      await system.eventually(ready(ports[1]), SERVES_MS);
      const { code } = await system.try(ready(ports[0]));
      if (code === 0) throw new Error("the former address is served still");
    });
    await report.check("it stops in order", async () => {
      await system.run(`systemctl stop ${UNIT}`);
      const result = await system.run(`systemctl show -P Result ${UNIT}`);
      if (result !== "success") throw new Error(result);
    });
    return report.finish();
  } finally {
    await system.off();
  }
}

async function makeProgram(reuse: boolean): Promise<void> {
  if (reuse && await exists(`${ROOT}${FOLDER}/svc-cloud`)) return;
  const [target] = TARGETS;
  const executable = EXECUTABLES.find(({ name }) => name === "svc-cloud")!;
  await compile(await checkCompiler(target), executable, target, FOLDER, "1.0.0");
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
