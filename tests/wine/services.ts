/** Checks svc-agent as a Windows service, from its installation to its removal. */

import { assert, assertEquals } from "@std/assert";
import { exists } from "../../cli/build/compiler.ts";
import { until } from "../support/until.ts";
import { BAD, GOOD, isInService, type Name, stages } from "../vm/device.ts";
import { AGENT, FOLDER, WineDevice } from "./device.ts";
import type { Check, World } from "./world.ts";

const [OLD, NEW] = GOOD;
const SERVICE_MS = 120_000;
const UPDATE_MS = 240_000;
const STOP_MS = 60_000;
/** About the duration of an update. */
const KILL_WITHIN_MS = 40_000;

/** The device of this group, made by the first check. */
const devices = new WeakMap<World["computer"], WineDevice>();

function deviceOf({ computer }: World): WineDevice {
  const device = devices.get(computer);
  assert(device, "the service was not installed");
  return device;
}

function check(name: string, run: (device: WineDevice) => Promise<string | void>): Check {
  return { name, group: "service", run: (world) => run(deviceOf(world)) };
}

/** The checks in order; one cuts the power `kills` times in the middle of an update. */
export function serviceChecks(kills: number): Check[] {
  return [
    {
      name: "svc-agent --install creates a stopped service, and a second run changes it",
      group: "service",
      run: async (world) => {
        const device = await WineDevice.make(world.computer, world.folder, world.reuse);
        devices.set(world.computer, device);
        world.after(() => device.close());
        const agent = device.downloaded("svc-agent", OLD);
        for (const _ of ["first", "again"]) {
          const logged = await world.computer.succeed(agent, ["--install"]);
          assert(logged.includes(`is installed in ${FOLDER}\\agent; start it with`), logged);
          assertEquals(await device.state(), "1 STOPPED");
        }
      },
    },
    check("the started service installs and runs svc-server from the control plane", async (device) => {
      await device.computer.succeed("net", ["start", "svc-agent"]);
      const { runtime } = await device.runs({ "svc-server": OLD, "svc-agent": OLD }, UPDATE_MS);
      assertEquals(await device.state(), "4 RUNNING");
      const { machines: [part] } = JSON.parse(await device.svcCloud("fleet", "--json"));
      assertEquals(part.state, "online");
      return `${runtime.file}, ${part.agent.platform}`;
    }),
    check("--install changes and restarts a running service", async (device) => {
      const logged = await device.computer.succeed(device.downloaded("svc-agent", OLD), ["--install"]);
      assert(logged.includes("; it runs"), logged);
      assertEquals(await device.state(), "4 RUNNING");
      await device.inService(SERVICE_MS);
    }),
    check("a killed svc-server is started again", async (device) => {
      const { runtime } = await device.inService(SERVICE_MS);
      assertEquals(device.computer.kill("\\cache\\svc-server-"), 1);
      await device.until("started again", SERVICE_MS, (status) => {
        return isInService(status) && status.runtime.pid !== runtime.pid;
      });
    }),
    check("a killed svc-agent is started again and replaces its svc-server", async (device) => {
      const { runtime } = await device.inService(SERVICE_MS);
      assertEquals(device.computer.kill("\\cache\\svc-agent-"), 1);
      await device.until("started again", SERVICE_MS, (status) => {
        return isInService(status) && status.runtime.pid !== runtime.pid;
      });
      assertEquals(device.computer.processes("\\cache\\svc-server-").length, 1);
    }),
    check("killing the service's process ends all processes that it started", async (device) => {
      assertEquals(device.computer.kill("svc-agent-service.exe service"), 1);
      await until(() => device.computer.processes("\\cache\\svc-").length === 0);
      await device.computer.succeed("net", ["start", "svc-agent"]);
      await device.inService(SERVICE_MS);
    }),
    check("svc-agent updates svc-server", async (device) => {
      await device.want({ "svc-server": NEW });
      await device.runs({ "svc-server": NEW }, UPDATE_MS);
    }),
    check(
      "svc-agent rolls back a svc-server that does not start",
      (device) => goneBackFrom(device, "svc-server"),
    ),
    check("svc-agent updates itself", async (device) => {
      await device.want({ "svc-server": NEW, "svc-agent": NEW });
      await device.runs({ "svc-agent": NEW, "svc-server": NEW }, UPDATE_MS);
    }),
    check("a svc-agent that does not start is rolled back", (device) => goneBackFrom(device, "svc-agent")),
    ...Array.from(
      { length: kills },
      (_, at) =>
        check(
          `killing all processes during an update keeps the device in service, ${at + 1} of ${kills}`,
          (device) => {
            return killMidway(device, at);
          },
        ),
    ),
    check("after all kills the wanted versions run", async (device) => {
      await device.want({ "svc-server": NEW, "svc-agent": NEW });
      await device.runs({ "svc-server": NEW, "svc-agent": NEW }, UPDATE_MS);
    }),
    check("the service stops in time, reports it and leaves no process", async (device) => {
      const began = performance.now();
      await device.computer.succeed("net", ["stop", "svc-agent"]);
      const states = new Set<string | undefined>();
      await until(async () => {
        const state = await device.state();
        states.add(state);
        return state === "1 STOPPED";
      }, { withinMs: STOP_MS, found: () => [...states].join() });
      const seconds = ((performance.now() - began) / 1000).toFixed(0);
      await until(() => device.computer.processes("\\svc\\agent\\").length === 0);
      return `${seconds} s; seen: ${[...states].join(", ")}`;
    }),
    check("svc-agent --dev-mode runs beside the service and ends with SIGTERM", async (device) => {
      await device.computer.succeed("net", ["start", "svc-agent"]);
      const args = ["--dev-mode", "--dir", "C:\\a folder", "--config", "C:\\none.json"];
      const agent = device.computer.command(device.downloaded("svc-agent", OLD), args).spawn();
      let output = "";
      const reading = Promise.all([agent.stdout, agent.stderr].map(async (stream) => {
        for await (const part of stream.pipeThrough(new TextDecoderStream())) output += part;
      }));
      await until(() => output.includes("this machine cannot work yet"), {
        withinMs: SERVICE_MS,
        found: () => output,
      });
      assertEquals(device.computer.processes("--dev-mode").length, 1);
      agent.kill("SIGTERM");
      const { code } = await agent.status;
      await reading;
      assertEquals(code, 0, output);
      assertEquals(await device.state(), "4 RUNNING");
    }),
    check("svc-agent uninstall --yes --purge leaves nothing behind", async (device) => {
      await device.inService(SERVICE_MS);
      const refused = await device.computer.run(AGENT, ["uninstall"]);
      assertEquals(refused.code, 1);
      assert(refused.output.includes("--yes"), refused.output);
      await device.computer.succeed(AGENT, ["uninstall", "--yes", "--purge"]);
      assertEquals(await device.state(), undefined);
      assertEquals(device.computer.processes("svc-agent"), []);
      assertEquals(device.computer.processes("svc-server"), []);
      assert(!await exists(device.computer.path(FOLDER)), `${FOLDER} is left`);
    }),
  ];
}

/** Asks for a broken version; the device must refuse it and stay in service. */
async function goneBackFrom(device: WineDevice, name: Name): Promise<string> {
  const good = { "svc-server": NEW, "svc-agent": name === "svc-agent" ? NEW : OLD };
  await device.want({ ...good, [name]: BAD });
  const { versions } = await device.until(`${name} ${BAD} refused`, UPDATE_MS, (status) => {
    return isInService(status) && status.versions[name].refused?.version === BAD;
  });
  await device.want(good);
  await device.runs(good, UPDATE_MS);
  return versions[name].refused!.reason;
}

/** Asks for other versions, and cuts the computer's power during the update. */
async function killMidway(device: WineDevice, at: number): Promise<string> {
  const version = GOOD[at % 2];
  const both = at % 3 === 0;
  await device.want({ "svc-server": version, "svc-agent": both ? version : NEW });
  // The golden ratio spreads the moments evenly over an update, the same in each run.
  const afterMs = ((at * 0.618) % 1) * KILL_WITHIN_MS;
  await new Promise((resolve) => setTimeout(resolve, afterMs));
  const before = stages(await device.status());
  await device.computer.off();
  const began = performance.now();
  await device.computer.on();
  await device.inService(SERVICE_MS);
  const seconds = ((performance.now() - began) / 1000).toFixed(0);
  return `after ${(afterMs / 1000).toFixed(1)} s (${before}); in service ${seconds} s after power-on`;
}
