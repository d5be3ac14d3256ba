/**
 * The `agent` section of a machine's configuration is checked before it is saved, like the sections for svc-server.
 */

import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { AppService } from "../../proto/gen/app_pb.ts";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { type Example, serveCloud, svcCloud } from "./program.ts";
import { linuxProgram } from "../support/linux_program.ts";

const BAD: [agent: JsonObject, logged: RegExp][] = [
  [
    { advanced_settings: { viam_server_start_timeout_minutes: "x" } },
    /agent\.advanced_settings\.viam_server_start_timeout_minutes: found "x", wanted minutes/,
  ],
  [{ additional_networks: { home: { type: "wifi" } } }, /agent\.additional_networks\.home\.ssid: /],
  [
    { additional_networks: { lan: { type: "wired", priority: 1000 } } },
    /agent\.additional_networks\.lan\.priority: found 1000/,
  ],
  [
    { version_control: { "svc-server": "9.9.9" } },
    /agent\.version_control\.svc-server: there is no release "9\.9\.9" of svc-server .*found 1\.0\.0 \(stable\)/,
  ],
  [{ version_control: { agent: 5 } }, /agent\.version_control\.agent: found 5, wanted "stable"/],
  [{ version_control: { agent: "ftp://x/y" } }, /agent\.version_control\.agent: found "ftp/],
  [{ version_control: { "svc-server": "nightly" } }, /agent\.version_control\.svc-server: found "nightly"/],
];

const GOOD: JsonObject[] = [
  { version_control: { agent: "stable", "svc-server": "stable" } },
  { version_control: { agent: "", "svc-server": "dev" } },
  { version_control: { "svc-server": "1.0.0" } },
  { version_control: { "svc-server": "v1.0.0" } },
  { version_control: { "svc-server": "http://example.com/svc-server" } },
  { version_control: { "svc-server": "file:///usr/local/bin/svc-server" } },
  { advanced_settings: { viam_server_start_timeout_minutes: 10 }, unknown_section: {} },
];

Deno.test("config set and UpdateRobotPart refuse bad agent settings and name their path", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const data = ["--data", folder];
  const example: Example = JSON.parse(await svcCloud("init", ...data, "--json"));
  const program = `${folder}/program`;
  await Deno.writeFile(program, linuxProgram());
  await svcCloud("release", "publish", "svc-server", "1.0.0", program, "--channel", "stable", ...data);
  const { partId, ownerKey: { id: entity, key: payload } } = example;
  const save = async (agent: JsonObject) => {
    await Deno.writeTextFile(`${folder}/config.json`, JSON.stringify({ agent }));
    await svcCloud("config", "set", partId, `${folder}/config.json`, ...data);
  };
  const served = await serveCloud(data);
  const clock = new SystemClock();
  const connect = (header?: Metadata) => connectGrpc(new URL(served.url).host, { clock, header });
  const anonymous = connect();
  const credentials = { type: "api-key", payload };
  const { accessToken } = await client(AuthService, anonymous).authenticate({ entity, credentials });
  const channel = connect(Metadata.from([["authorization", `Bearer ${accessToken}`]]));
  try {
    const app = client(AppService, channel);
    const update = (agent: JsonObject) =>
      app.updateRobotPart({ id: partId, name: "", robotConfig: { agent } });
    for (const [agent, logged] of BAD) {
      const { message } = await assertRejects(() => save(agent), Error);
      assertMatch(message, logged);
      const refused = await assertRejects(() => update(agent), SvcError);
      assertEquals(refused.code, "invalid_argument");
      assertMatch(refused.message, logged);
    }
    for (const agent of GOOD) {
      await save(agent);
      await update(agent);
    }
  } finally {
    channel.close();
    anonymous.close();
    await served.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
