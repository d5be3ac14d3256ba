/**
 * Killed under load: everything acknowledged is there afterwards, once, and the database opens.
 */

import { assert, assertEquals, assertGreater } from "@std/assert";
import { AppService } from "../../proto/gen/app_pb.ts";
import { RobotService } from "../../proto/gen/robot_config_pb.ts";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { type CloudProcess, type Example, serveCloud, svcCloud } from "./program.ts";
import { until } from "../support/until.ts";

/** How often it is killed; `SVC_TEST_KILLS` for more. */
const KILLS = Number(Deno.env.get("SVC_TEST_KILLS") ?? 3);
const WRITERS = 8;
/** Acknowledged in each life, by all writers together, before it ends. */
const LIFE_WRITES = 60;

interface Acknowledged {
  readonly messages: Set<string>;
  /** `max_rpm` of the configurations, in order. */
  readonly configs: number[];
}

Deno.test(`svc-cloud keeps all acknowledged logs and configurations when killed ${KILLS} times under load`, async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  try {
    const example: Example = JSON.parse(await svcCloud("init", "--data", folder, "--json"));
    const known: Acknowledged = { messages: new Set(), configs: [] };
    let [token, machineToken] = ["", ""];
    for (let life = 0; life < KILLS; life++) {
      const cloud = await serveCloud(["--data", folder]);
      // A token of the first life is good in all.
      token ||= await tokenOf(cloud, example.ownerKey);
      machineToken ||= await tokenOf(cloud, example.config.cloud.api_key);
      const killed = { yet: false };
      const [before, changes] = [known.messages.size, known.configs.length];
      const writers = Array.from(
        { length: WRITERS },
        (_, writer) => write(cloud, machineToken, example, `${life}.${writer}`, known, killed),
      );
      const change = configure(cloud, token, example, known, killed);
      // Also a change of the configuration in each life: it takes longer than many logs.
      await until(() => known.messages.size - before >= LIFE_WRITES && known.configs.length > changes);
      killed.yet = true;
      await cloud.stop("SIGKILL");
      await Promise.all([...writers, change]);
    }
    await judge(folder, token, example, known);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

async function judge(folder: string, token: string, { partId }: Example, known: Acknowledged): Promise<void> {
  const cloud = await serveCloud(["--data", folder]);
  const channel = connect(cloud, token);
  try {
    const app = client(AppService, channel);
    const found: string[] = [];
    let pageToken = "";
    do {
      const page = await app.getRobotPartLogs({ id: partId, pageToken, limit: 1000n });
      found.push(...page.logs.map(({ message }) => message));
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    assertEquals([...known.messages].filter((message) => !found.includes(message)), [], "lost entries");
    assertEquals(found.length, new Set(found).size, "entries that are there twice");
    const { configJson } = await app.getRobotPart({ id: partId });
    const last = JSON.parse(configJson).components[0].attributes.max_rpm;
    // The one under way at the end may have been saved without having been acknowledged.
    assert(
      last >= known.configs.at(-1)!,
      `found configuration ${last}, acknowledged ${known.configs.at(-1)}`,
    );
    assertGreater(known.configs.length, 0);
  } finally {
    channel.close();
    assertEquals(await cloud.stop(), 0);
  }
}

/** Sends logs without end, and repeats unacknowledged ones, until the server is killed. */
async function write(
  cloud: CloudProcess,
  token: string,
  { partId: id }: Example,
  name: string,
  { messages }: Acknowledged,
  killed: { yet: boolean },
): Promise<void> {
  const channel = connect(cloud, token);
  const { log } = client(RobotService, channel);
  try {
    for (let number = 0; !killed.yet; number++) {
      const message = `${name}.${number}`;
      await log({
        id,
        logs: [{ message, level: "info", loggerName: "load", time: toTimestamp(number + 1) }],
      });
      messages.add(message);
    }
  } catch (error) {
    if (!killed.yet) throw error;
  } finally {
    channel.close();
  }
}

async function configure(
  cloud: CloudProcess,
  token: string,
  { partId: id }: Example,
  { configs }: Acknowledged,
  killed: { yet: boolean },
): Promise<void> {
  const channel = connect(cloud, token);
  const { updateRobotPart } = client(AppService, channel);
  try {
    for (let number = (configs.at(-1) ?? 0) + 10; !killed.yet; number++) {
      const motor = { name: "m", api: "rdk:component:motor", model: "fake", attributes: { max_rpm: number } };
      await updateRobotPart({ id, name: "", robotConfig: { components: [motor] } });
      configs.push(number);
    }
  } catch (error) {
    if (!killed.yet) throw error;
  } finally {
    channel.close();
  }
}

function connect({ url }: CloudProcess, token?: string) {
  const header = token ? Metadata.from([["authorization", `Bearer ${token}`]]) : undefined;
  return connectGrpc(new URL(url).host, { clock: new SystemClock(), header });
}

async function tokenOf(cloud: CloudProcess, { id, key }: Example["ownerKey"]): Promise<string> {
  const channel = connect(cloud);
  try {
    const { authenticate } = client(AuthService, channel);
    return (await authenticate({ entity: id, credentials: { type: "api-key", payload: key } })).accessToken;
  } finally {
    channel.close();
  }
}
