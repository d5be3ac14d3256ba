/**
 * Three control planes behind HAProxy with the configuration in examples/control_planes: a change at one reaches the
 * clients of the others, limits count for all together, and the calls go on when one is killed.
 */

import { assert, assertEquals } from "@std/assert";
import { AppService } from "../../proto/gen/app_pb.ts";
import { ChangeService, type FollowResponse } from "../../proto/gen/changes_pb.ts";
import { RobotService } from "../../proto/gen/robot_config_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { freePort } from "../support/free_port.ts";
import { needingTest } from "../support/needing.ts";
import { neededPostgres } from "../support/postgres.ts";
import { programHere } from "../support/programs_here.ts";
import { until } from "../support/until.ts";
import { type Tokens, tokensOf } from "./load.ts";
import { Planes } from "./planes.ts";
import { awaitOutcome } from "../support/outcome.ts";

const HAPROXY = new URL("../../examples/control_planes/haproxy.cfg", import.meta.url);
const PLANES = [0, 1, 2];
/** The example has one. */
const LOCATIONS_MAX = 6;
const LOG_LINES_MAX = 30;
const CALL = { timeoutMs: 30_000 };

const postgres = neededPostgres();
const needed = "missing" in postgres ? postgres : programHere("haproxy");

needingTest(
  "three control planes behind HAProxy push, count and answer as one",
  needed,
  async (_haproxy, test) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-planes-" });
    const limits = `${folder}/limits.json`;
    await Deno.writeTextFile(
      limits,
      JSON.stringify({ locations_per_organization: LOCATIONS_MAX, log_lines_per_machine_day: LOG_LINES_MAX }),
    );
    try {
      await Planes.run({ count: PLANES.length, flags: ["--limits", limits] }, async (planes) => {
        const tokens = await tokensOf(planes);
        await test.step("what is told to one is pushed by another", () => checkPush(planes, tokens));
        await test.step("limits hold for all together", () => checkLimits(planes, tokens));
        await test.step("HAProxy leaves out one that is killed", () => checkBalancer(planes, tokens, folder));
      });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

async function checkPush(planes: Planes, { owner, machine }: Tokens): Promise<void> {
  const [first, second, third] = PLANES.map((number) =>
    planes.connect(number === 0 ? machine : owner, planes.hostOf(number))
  );
  const over = new AbortController();
  const { partId: id } = planes.example;
  const heard: FollowResponse[] = [];
  try {
    const follow = client(ChangeService, first).follow({ id }, { signal: over.signal });
    const following = (async () => {
      for await (const news of follow) heard.push(news);
    })().catch(() => {});
    await until(() => heard.length === 1);
    await client(AppService, second).updateRobotPart({ id, name: "", robotConfig: { debug: true } }, CALL);
    await until(() => heard.some(({ config }) => config));
    await client(AppService, third).markPartForRestart({ partId: id }, CALL);
    await until(() => heard.some(({ restart }) => restart));
    over.abort();
    await following;
  } finally {
    for (const channel of [first, second, third]) channel.close();
  }
}

async function checkLimits(planes: Planes, { owner, machine }: Tokens): Promise<void> {
  const { organizationId, partId: id } = planes.example;
  const made = await everywhere(planes, owner, 4, (channel, at) => {
    return client(AppService, channel).createLocation({ organizationId, name: `place ${at}` }, CALL);
  });
  assertEquals(made, { ok: LOCATIONS_MAX - 1, resource_exhausted: 12 - LOCATIONS_MAX + 1 });
  const logged = await everywhere(planes, machine, 15, (channel, at) => {
    const logs = [{ message: `line ${at}`, level: "info", loggerName: "load", time: toTimestamp(at + 1) }];
    return client(RobotService, channel).log({ id, logs }, CALL);
  });
  assertEquals(logged, { ok: LOG_LINES_MAX, resource_exhausted: 45 - LOG_LINES_MAX });
}

/** Makes so many calls at each control plane, all at once; returns how many ended in which way. */
async function everywhere(
  planes: Planes,
  token: string,
  each: number,
  call: (channel: Channel, at: number) => Promise<unknown>,
): Promise<Record<string, number>> {
  const channels = PLANES.map((number) => planes.connect(token, planes.hostOf(number)));
  try {
    const calls = Array.from(
      { length: each * channels.length },
      (_, at) => awaitOutcome(call(channels[at % channels.length], at)),
    );
    const ended: Record<string, number> = {};
    for (const end of await Promise.all(calls)) ended[end] = (ended[end] ?? 0) + 1;
    return ended;
  } finally {
    for (const channel of channels) channel.close();
  }
}

async function checkBalancer(planes: Planes, { owner }: Tokens, folder: string): Promise<void> {
  const port = freePort();
  const text = (await Deno.readTextFile(HAPROXY))
    .replace(/bind :8443 .*/, `bind 127.0.0.1:${port}`)
    .replace(/cloud-(\d):8090/g, (_, number) => planes.hostOf(Number(number) - 1));
  await Deno.writeTextFile(`${folder}/haproxy.cfg`, text);
  const balancer = new Deno.Command("haproxy", {
    args: ["-db", "-f", `${folder}/haproxy.cfg`],
    stdout: "null",
    stderr: "null",
  }).spawn();
  const host = `127.0.0.1:${port}`;
  const channel = planes.connect(owner, host);
  const answers = async () => {
    const { organizations } = await client(AppService, channel).listOrganizations({}, CALL);
    return organizations.some(({ id }) => id === planes.example.organizationId);
  };
  const page = async () => (await fetch(`http://${host}/healthz`)).text().then(() => true);
  try {
    await until(() => answers().catch(() => false));
    assert(await page());
    await planes.kill(1);
    await until(() => answers().catch(() => false));
    await planes.start(1);
  } finally {
    channel.close();
    balancer.kill("SIGKILL");
    await balancer.status;
  }
}
