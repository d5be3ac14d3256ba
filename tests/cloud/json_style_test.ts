/** Every list that svc-cloud prints as JSON is in one style, with a name beside each id. */

import { assert, assertEquals } from "@std/assert";
import { styleProblems } from "../support/json_style.ts";
import { type Example, svcCloud } from "./program.ts";
import { sqliteTest } from "./stores.ts";

/** Commands that print lists, and what they take; `help` shows that none is missing. */
const LISTS: { readonly [words: string]: readonly string[] } = {
  "org list": [],
  "location list": [],
  "machine list": [],
  fleet: [],
  hosts: [],
  "key list": [],
  "account list": [],
  "administrator list": [],
  "config history": ["rover"],
  "fragment list": [],
  "rollout list": [],
  "rollout status": [],
  logs: [],
  audit: [],
  "package list": [],
  "map list": [],
  "trigger list": [],
  "trigger deliveries": [],
  usage: [],
  retention: [],
  "package uses": ["hand"],
  "release list": [],
  "release keys": [],
  "secret list": [],
};
/** Lists that need what this test does not make: an open session of a person, and a profile of one's own. */
const ELSEWHERE = ["account sessions", "profile list"];

sqliteTest("every list of svc-cloud is JSON in one style", async ({ flags, folder, connect }) => {
  const run = (...args: string[]) => svcCloud(...args, ...flags);
  const json = async (...args: string[]) => JSON.parse(await run(...args, "--json"));
  const write = async (name: string, value: unknown) => {
    await Deno.writeTextFile(`${folder}/${name}`, JSON.stringify(value));
    return `${folder}/${name}`;
  };
  const { machineId, organizationId, partId, locationId }: Example = await json("init");
  await run("machine", "rename", machineId, "rover");
  await run("machine", "tag", "rover", "night");
  const made = [await json("key", "create", "--name", "robot", "--on", "machine:rover")];
  made.push(await json("machine", "create", "second"));
  made.push(await json("account", "invite", "ann@example.com"));
  const camera = { name: "eye", api: "rdk:component:camera", model: "fake" };
  const retention = { method: "ReadImage", capture_frequency_hz: 1, retention_policy: { days: 3 } };
  const capture = { type: "data_manager", attributes: { capture_methods: [retention] } };
  const trigger = {
    name: "here",
    event: { type: "part_online" },
    notifications: [{ type: "webhook", value: "https://example.com/x", seconds_between_notifications: 0 }],
  };
  const whole = { components: [{ ...camera, service_configs: [capture] }], triggers: [trigger] };
  made.push(await json("config", "set", "rover", await write("rover.json", whole)));
  const hand = { name: "hand", package: `${organizationId}/hand`, version: "1", type: "ml_model" };
  made.push(await json("fragment", "set", "eyes", await write("eyes.json", { packages: [hand] })));
  made.push(await json("fragment", "apply", "eyes", "second"));
  await Deno.mkdir(`${folder}/model`);
  await write("model/model.onnx", "weights");
  made.push(await json("package", "upload", "--type", "ml_model", "hand", "1", `${folder}/model`));
  made.push(
    await json(
      "rollout",
      "start",
      "second",
      "--fragment",
      "eyes",
      "--config",
      await write("new.json", { components: [camera] }),
    ),
  );
  made.push(await json("retention", "--days", "3"));
  const store = connect();
  await store.transaction(async (sql) => {
    const info = {
      host: "h",
      os: "linux",
      ips: [],
      version: "1.0.0",
      git_revision: "abc",
      platform: "linux/amd64",
    };
    await sql.query(
      "UPDATE parts SET info = ?, seen_ms = ? WHERE id = ?",
      JSON.stringify(info),
      1e12,
      partId,
    );
    await sql.query(
      `INSERT INTO trigger_deliveries (id, organization_id, part_id, trigger_name, kind, target, message, state, attempts,
         created_ms, next_ms, error, lease_ms) VALUES ('d', ?, ?, 'here', 'webhook', 'https://example.com', '{}', 'dead',
         1, ?, ?, 'refused', 0)`,
      organizationId,
      partId,
      1e12,
      1e12,
    );
  });
  assertEquals(made.flatMap((one, at) => styleProblems(one, `made[${at}]`)), []);

  const help = await run("help");
  const commands = [...help.matchAll(/^ {2}(.*?)(?: [A-Z[].*)? {2,}Lists /gm)]
    .map(([, words]) => words);
  assert(commands.length > 12, help);
  for (const words of commands) {
    assert([...Object.keys(LISTS), ...ELSEWHERE].includes(words), `${words} is not tried`);
  }

  for (const [words, takes] of Object.entries(LISTS)) {
    const value = await json(...words.split(" "), ...takes);
    assert(!Array.isArray(value), `${words}: a list without a name`);
    assertEquals(styleProblems(value, words), []);
  }
  const { machines } = await json("fleet");
  assertEquals(machines.map((one: { gitRevision?: string }) => one.gitRevision), ["abc", undefined]);
  const [part] = machines;
  assertEquals([part.partId, part.locationId, part.machineId], [partId, locationId, machineId]);
  const { organizationName, collectors } = await json("retention");
  assertEquals([organizationName, collectors[0].partName], ["example", "example-machine-main"]);
});
