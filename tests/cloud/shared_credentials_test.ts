/** Two devices with copies of one SD card: both keep working, and control plane and agent name them. */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { Secret } from "../../lib/base/secret.ts";
import { createDeviceMark } from "../../lib/cloud_client/changes/device_mark.ts";
import { CloudClient } from "../../lib/cloud_client/client.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { storeTest } from "./stores.ts";
import { newKey, newWorld, withCloud } from "./world.ts";

const MINUTE_MS = 60_000;
const PROGRAMS = ["svc-agent", "svc-server"];

storeTest(
  "two devices with one machine's credentials work, and each of their agents says so",
  async (database) => {
    const clock = new FakeClock();
    await withCloud(database, async ({ store, app, url }) => {
      const { machine, part, owner } = await newWorld(store);
      const { id: entity, key } = await newKey(store, "operator", "machine", machine);
      const clientOf = (program: string, hardware: string) =>
        new CloudClient({
          address: url,
          partId: part,
          credentials: { type: "api-key", entity, payload: new Secret(key) },
          allowInsecureCredentials: true,
          agent: { host: "rover" },
          mark: createDeviceMark(program, `rover (${hardware})`, {}),
          clock: new SystemClock(),
        });
      const devices = ["b8:27:eb:00:00:01", "b8:27:eb:00:00:02"].map((hardware) =>
        PROGRAMS.map((program) => clientOf(program, hardware))
      );
      const ask = () =>
        Promise.all(devices.map(async ([agent, runtime]) => {
          await runtime!.config();
          return (await agent!.deviceAgentConfig({})).deviceProblems;
        }));
      try {
        const before = await ask();
        for (let minute = 0; minute < 6; minute++) {
          await clock.advance(MINUTE_MS);
          await ask();
        }
        assertEquals(before, [[], []]);
        for (const problems of await ask()) {
          assertEquals(problems.length, PROGRAMS.length, "one of the agents, and one of the runtimes");
          for (const problem of problems) {
            assertStringIncludes(problem, "rover (b8:27:eb:00:00:01) at 127.0.0.1");
            assertStringIncludes(problem, "rover (b8:27:eb:00:00:02) at 127.0.0.1");
          }
        }
        const { logs } = await (await app(owner)).getRobotPartLogs({ id: part });
        const about = logs.filter(({ loggerName }) => loggerName === "svc-cloud.devices");
        assertEquals(about.map(({ level }) => level), ["error", "error"]);
        assertStringIncludes(about[0]!.message, "several devices use the credentials of this machine");
      } finally {
        await Promise.all(devices.flat().map((client) => client.close()));
      }
    }, { clock });
  },
);
