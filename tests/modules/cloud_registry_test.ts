/**
 * A module that is uploaded to a control plane, from there to the resource that answers: in the version that is
 * wanted, and in a higher one as soon as there is one that can be used. The machine has pinned the key of the control
 * plane, and follows it to the next one.
 */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { AppService } from "../../proto/gen/app_pb.ts";
import { PackageStatus_State, RobotService } from "../../proto/gen/robot_pb.ts";
import { SensorApi } from "../../lib/api/sensors/sensor.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { newReleaseKey } from "../../lib/base/release/signature.ts";
import { Secret } from "../../lib/base/secret.ts";
import { connectApp } from "../../lib/cloud_client/app_channel.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { type ManagedMachine, withManagedMachine } from "../cloud/managed.ts";
import { svcCloud } from "../cloud/program.ts";
import { run } from "../interop/programs.ts";
import { until } from "../support/until.ts";
import { fromSource } from "./sdk_bench.ts";

const COMPONENTS = [{
  name: "air",
  api: "rdk:component:sensor",
  model: "example:greenhouse:thermometer",
  attributes: { celsius: 7 },
}];
/** Begins as an archive does, and is none. */
const BROKEN = Uint8Array.of(0x1f, 0x8b, 8, 0);

Deno.test("a registry module is downloaded in the wanted version and updates with newer versions", async (t) => {
  const pins = await Deno.makeTempDir({ prefix: "svc-pins-" });
  try {
    const env = { SVC_PACKAGE_CHECK_INTERVAL: "300ms", SVC_RELEASE_KEYS: `${pins}/release_keys.json` };
    await withManagedMachine({}, (managed) => moves(managed, env.SVC_RELEASE_KEYS, t), { machineEnv: env });
  } finally {
    await Deno.remove(pins, { recursive: true });
  }
});

async function moves(
  { example, channel, server, folder, ca, cloud, data }: ManagedMachine,
  pins: string,
  t: Deno.TestContext,
): Promise<void> {
  const app = client(AppService, channel);
  const { part } = await app.getRobotPart({ id: example.partId });
  const { organizationId, partId } = example;
  const { moduleId } = await app.createModule({ organizationId, name: "greenhouse" });
  const upload = async (version: string, bytes: Uint8Array) => {
    await app.uploadModuleFile((async function* () {
      const value = { moduleId, version, platform: "any" };
      yield { moduleFile: { case: "moduleFileInfo" as const, value } };
      yield { moduleFile: { case: "file" as const, value: await Promise.resolve(bytes) } };
    })());
  };
  const configure = async (version?: string) => {
    const module: JsonObject = { name: "greenhouse", type: "registry", module_id: moduleId };
    const modules = [version === undefined ? module : { ...module, version }];
    const robotConfig = { network: { bind_address: "localhost:0" }, modules, components: COMPONENTS };
    await app.updateRobotPart({ id: partId, name: part!.name, robotConfig });
  };
  const key = new Secret(example.ownerKey.key);
  const clock = new SystemClock();
  const machine = connectApp({ address: server.url, ca, keyId: example.ownerKey.id, key, clock });
  const robot = client(RobotService, machine);
  const sensor = SensorApi.client(ResourceName.of(SensorApi.name, "air"), machine);
  const starts = () => [...server.output().matchAll(/this is version (\S+)/g)].map(([, one]) => one);
  /** Resolves when the module of this version was started last, and answers. */
  const runs = async (version: string) => {
    await until(async () => {
      const answers = await sensor.getReadings().then(({ celsius }) => celsius === 7, () => false);
      return answers && starts().at(-1) === version;
    }, { found: () => server.output().slice(-3_000) });
  };
  const firstRuns = () => Deno.readTextFile(`${folder}/first_runs`);
  const keys = async () =>
    (JSON.parse(await svcCloud("release", "keys", "--json", ...data)).keys as { publicKey: string }[])
      .map(({ publicKey }) => publicKey);
  try {
    await Deno.writeTextFile(pins, JSON.stringify(await keys()));
    await t.step("a pinned version runs although a higher version exists", async () => {
      await upload("1.0.0", await archive("1.0.0", folder));
      await upload("1.1.0", await archive("1.1.0", folder));
      await configure("1.0.0");
      await runs("1.0.0");
    });
    await t.step("a version range runs the highest version in it", async () => {
      await upload("2.0.0", await archive("2.0.0", folder));
      await configure("^1");
      await runs("1.1.0");
    });
    await t.step(
      "latest runs the newest version, and the next version when it is uploaded",
      async () => {
        await configure();
        await runs("2.0.0");
        await upload("2.1.0", await archive("2.1.0", folder));
        await runs("2.1.0");
      },
    );
    await t.step(
      "a package that does not unpack is refused and reported; the running version continues",
      async () => {
        const before = starts();
        await upload("2.2.0", BROKEN);
        const failed = await until(async () => {
          const { packages } = await robot.getMachineStatus({});
          return packages.find(({ state }) => state === PackageStatus_State.FAILED);
        });
        assertMatch(failed.error, /gzip|archive/);
        assertEquals(starts(), before);
        assertEquals((await sensor.getReadings()).celsius, 7);
        await upload("2.3.0", await archive("2.3.0", folder));
        await runs("2.3.0");
      },
    );
    await t.step("a package signed with the next key of the control plane is accepted", async () => {
      await svcCloud("release", "rotate-key", ...data);
      // svc-cloud checks every 5 s whether its secrets were replaced.
      const served = async () => (await (await fetch(`${cloud.url}/releases/keys.json`)).json()).keys;
      await until(async () => (await served()).length === 2);
      await upload("2.4.0", await archive("2.4.0", folder));
      await runs("2.4.0");
      assertEquals(JSON.parse(await Deno.readTextFile(pins)), (await keys()).slice(-1));
    });
    await t.step(
      "a package without a pinned key's signature is refused; the running version continues",
      async () => {
        const { key } = newReleaseKey(1);
        await Deno.writeTextFile(pins, JSON.stringify([key.public_key]));
        await upload("2.5.0", await archive("2.5.0", folder));
        const failed = await until(async () => {
          const { packages } = await robot.getMachineStatus({});
          return packages.find(({ state }) => state === PackageStatus_State.FAILED);
        });
        assertStringIncludes(failed.error, "wanted one of those trusted");
        assertEquals(starts().at(-1), "2.4.0");
      },
    );
    await t.step("first_run of each version runs once despite restarts of the module", async () => {
      await robot.restartModule({ idOrName: { case: "moduleName", value: "greenhouse" } });
      await runs("2.4.0");
      assertEquals(await firstRuns(), "1.0.0\n1.1.0\n2.0.0\n2.1.0\n2.3.0\n2.4.0\n");
      assertStringIncludes(server.output(), "a package is installed");
    });
  } finally {
    machine.close();
  }
}

/** The example module, as a package that says its version when it starts and notes its first run. */
async function archive(version: string, home: string): Promise<Uint8Array> {
  const content = await Deno.makeTempDir({ prefix: "svc-package-" });
  try {
    const command = fromSource("examples/modules/typescript/main.ts").map((word) => `'${word}'`).join(" ");
    const script = `#!/bin/sh\necho "this is version ${version}"\nexec ${command} "$@"\n`;
    await Deno.writeTextFile(`${content}/run.sh`, script, { mode: 0o755 });
    const first = `#!/bin/sh\necho ${version} >> "$VIAM_HOME/first_runs"\n`;
    await Deno.writeTextFile(`${content}/first.sh`, first, { mode: 0o755 });
    const meta = { entrypoint: "run.sh", first_run: "first.sh" };
    await Deno.writeTextFile(`${content}/meta.json`, JSON.stringify(meta));
    const path = `${home}/package.tar.gz`;
    const { code, stderr } = await run(["tar", "-czf", path, "-C", content, "."]);
    assertEquals(code, 0, stderr);
    return await Deno.readFile(path);
  } finally {
    await Deno.remove(content, { recursive: true });
  }
}
