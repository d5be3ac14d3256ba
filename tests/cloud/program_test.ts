/**
 * The command line of svc-cloud, and control planes that share a database.
 */

import { connect as connectTls } from "node:tls";
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { AppService } from "../../proto/gen/app_pb.ts";
import { RobotService } from "../../proto/gen/robot_config_pb.ts";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { makeExample } from "../../lib/cloud/example.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { FolderFiles } from "../../lib/cloud/store/folder_files.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc, type GrpcOptions } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { type Example, serveCloud, svcCloud, svcCloudPrinted } from "./program.ts";
import { sqliteTest, storeTest } from "./stores.ts";
import { newWorld, withCloud } from "./world.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import { ConfigThreads, ownThread } from "../../lib/cloud/config/config_threads.ts";

storeTest("commands see the results of earlier commands", async ({ flags }) => {
  const json = async (...args: string[]) => JSON.parse(await svcCloud(...args, ...flags, "--json"));
  const example: Example = await json("init");
  await assertRejects(() => svcCloud("init", ...flags), Error, "already");
  const { partId, machineId } = example;
  const file = `${flags[1]}/config.json`;
  const save = async (text: string) => {
    await Deno.writeTextFile(file, text);
    return await svcCloud("config", "set", partId, file, ...flags);
  };
  await save('{"debug": true, /* a comment */}');
  await save('{"debug": false}');
  await assertRejects(() => save('{"debug": 5, "network": 1}'), Error, "debug: found 5");
  const { changes: [last] } = await json("config", "history", partId);
  assertEquals([last.revision, last.who, last.diff], [2, "cli:tester", ["~ debug: true -> false"]]);
  assertEquals(await svcCloud("config", "restore", partId, "1", ...flags), "revision 3\n");
  await Deno.writeTextFile(file, '{"debug": true, "debgu": 1}');
  const { output, remarks } = await svcCloudPrinted("config", "set", partId, file, ...flags);
  assertEquals(output, "revision 4\n");
  assertMatch(remarks, /^svc-cloud config set: warning: debgu: .*debug/);
  await svcCloud("config", "restore", partId, "1", ...flags);
  assertEquals(await json("config", "show", partId), { debug: true });
  const key = await json("key", "create", "--role", "operator", "--on", `machine:${machineId}`);
  await json("key", "rotate", key.id);
  await json("key", "revoke", key.id);
  assert(!(await json("key", "list")).keys.some(({ id }: { id: string }) => id === key.id));
  const actions = (await json("audit")).entries.map(({ action }: { action: string }) => action);
  assertEquals(actions.slice(0, 4), ["key revoke", "key rotate", "key create", "config restore"]);
  await json("machine", "delete", machineId);
  assertEquals(await json("machine", "list"), { machines: [] });
  await assertRejects(
    () => svcCloud("config", "show", partId, ...flags),
    Error,
    `there is no part "${partId}"`,
  );
});

storeTest("hosts prints what leads the machines' names to svc-cloud", async ({ flags }) => {
  const { locationId }: Example = JSON.parse(await svcCloud("init", ...flags, "--json"));
  const name = `example-machine-main.${locationId}.svc.internal`;
  const four = await svcCloud("hosts", ...flags, "--address", "192.0.2.7");
  assertStringIncludes(four, `\n192.0.2.7 ${name}\n`);
  assertStringIncludes(four, `address=/svc.internal/192.0.2.7\n`);
  assertStringIncludes(four, `*.${locationId}.svc.internal. A 192.0.2.7\n`);
  assertStringIncludes(four, "svc-cloud serves on 8090");
  const six = await svcCloud("hosts", ...flags, "--address", "2001:db8::7");
  assertStringIncludes(six, `*.${locationId}.svc.internal. AAAA 2001:db8::7\n`);
  await assertRejects(() => svcCloud("hosts", ...flags, "--address", "cloud"), Error, 'found "cloud"');
  const refused = () => svcCloud("serve", ...flags, "--listen", "localhost:0", "--machine-domain", "a..b");
  await assertRejects(refused, Error, 'found the domain "a..b", wanted a DNS name');
});

storeTest("a configuration of another runtime is saved with warnings", async ({ flags }) => {
  const { partId }: Example = JSON.parse(await svcCloud("init", ...flags, "--json"));
  const file = `${flags[1]}/config.json`;
  const save = async (components: unknown[], ...more: string[]) => {
    await Deno.writeTextFile(file, JSON.stringify({ components }));
    return await svcCloudPrinted("config", "set", partId, file, ...flags, ...more);
  };
  const motor = {
    name: "m",
    type: "motor",
    model: "gpio",
    attributes: { board: "b", pins: { a: 12, b: 14 } },
  };
  const boards = [
    { name: "b", api: "rdk:component:board", model: "esp32", attributes: { pins: [15] } },
    { name: "heap", api: "rdk:component:sensor", model: "rdk:builtin:free-heap" },
    { name: "wifi", type: "sensor", model: "wifi-rssi" },
  ];
  for (const [index, board] of boards.entries()) {
    const { output, remarks } = await save([motor, board]);
    assertEquals(output, `revision ${index + 1}\n`);
    assertMatch(remarks, /warning: components\.0\.attributes\.pins\.a: found 12, wanted a string/);
    assertMatch(remarks, /warning: components\.1\.model: no model rdk:builtin:/);
  }
  await assertRejects(() => save([motor]), Error, "pins.a: found 12, wanted a string");
  await assertRejects(() => save([{ ...boards[0], model: "esp33" }]), Error, "no model rdk:builtin:esp33");
  const { output, remarks } = await save([motor], "--force");
  assertEquals(output, "revision 4\n");
  assertMatch(remarks, /warning: .*pins\.b: found 14/);
});

Deno.test({
  name: "in a folder that everybody may read, the database and what is uploaded are their owner's alone",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const folder = await Deno.makeTempDir();
    try {
      await Deno.chmod(folder, 0o755);
      await svcCloud("init", "--data", folder);
      const modeOf = async (name: string) => ((await Deno.stat(`${folder}/${name}`)).mode ?? 0) & 0o777;
      assertEquals([await modeOf("cloud.db"), await modeOf("files")], [0o600, 0o700]);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

storeTest(
  "a token is valid at every control plane of a database and after a restart",
  async ({ flags }) => {
    const example: Example = JSON.parse(await svcCloud("init", ...flags, "--json"));
    const one = await serveCloud(flags);
    // Several may serve one PostgreSQL database; a folder with SQLite has one.
    const isShared = flags.includes("--database");
    if (!isShared) await assertRejects(() => serveCloud(flags), Error, "svc-cloud ended");
    const two = isShared ? await serveCloud(flags) : one;
    const clock = new SystemClock();
    const { id, key } = example.ownerKey;
    const token = await tokenAt(one.url, id, key);
    const at = (url: string) => {
      const header = Metadata.from([["authorization", `Bearer ${token}`]]);
      return connectGrpc(new URL(url).host, { clock, header });
    };
    const channels = [at(one.url), at(two.url)];
    try {
      const [here, there] = channels.map((channel) => client(AppService, channel));
      await here.updateRobotPart({ id: example.partId, name: "", robotConfig: { debug: true } });
      const own = example.config.cloud.api_key;
      const header = Metadata.from([["authorization", `Bearer ${await tokenAt(one.url, own.id, own.key)}`]]);
      const machine = connectGrpc(new URL(two.url).host, { clock, header });
      channels.push(machine);
      const { config } = await client(RobotService, machine).config({ id: example.partId });
      assertEquals([config?.debug, config?.revision], [true, "1"]);
      assertEquals((await there.getRobotPart({ id: example.partId })).part?.lastAccess !== undefined, true);
      assertEquals(await one.stop(), 0);
      const again = await serveCloud(flags);
      const after = at(again.url);
      channels.push(after);
      const { part } = await client(AppService, after).getRobotPart({ id: example.partId });
      assertEquals(part?.id, example.partId);
      await svcCloud("key", "revoke", id, ...flags);
      const error = await assertRejects(
        () => client(AppService, after).listOrganizations({}),
        SvcError,
      );
      assertEquals(error.code, "unauthenticated");
      assertEquals(await again.stop(), 0);
    } finally {
      for (const channel of channels) channel.close();
      assertEquals(await two.stop(), 0);
    }
  },
);

storeTest(
  "the audit log has refused and completed calls, and the database has keys as hashes only",
  (database) =>
    withCloud(database, async ({ store, app }) => {
      const { owner, operator, machine } = await newWorld(store);
      await assertRejects(async () => await (await app(operator)).deleteRobot({ id: machine }), SvcError);
      await (await app(owner)).deleteRobot({ id: machine });
      const rows = await store.query<{ who: string; action: string; resource: string; outcome: string }>(
        "SELECT who, action, resource, outcome FROM audit ORDER BY at_ms, outcome DESC",
      );
      assertEquals(rows.map(({ who, action, resource, outcome }) => [who, action, resource, outcome]), [
        [operator.id, "DeleteRobot", `machine ${machine}`, "refused"],
        [owner.id, "DeleteRobot", `machine ${machine}`, "done"],
      ]);
      for (const { hash } of await store.query<{ hash: string }>("SELECT hash FROM api_keys")) {
        assertMatch(hash, /^scrypt\$/);
        assert(!hash.includes(owner.key) && !hash.includes(operator.key));
      }
    }),
);

sqliteTest(
  "a wrong command line ends with exit code 2, a command that fails with 1 and without SQL",
  async ({ flags }) => {
    const { partId }: Example = JSON.parse(await svcCloud("init", ...flags, "--json"));
    await svcCloud("location", "create", "barn", ...flags);
    const answer = async (line: string) => {
      const run = svcCloud(...line.split(" "), ...flags);
      return (await run.then(() => "done", (error: Error) => error.message)).replace(
        /^svc-cloud .*?: (?=\d)/,
        "",
      );
    };
    const wrong: [line: string, found: string][] = [
      ["key create --role boss", '--role: found "boss"'],
      ["key create --on tree:1", '--on: found "tree:1"'],
      [`config restore ${partId} first`, '"first" is not a revision'],
      [`config history ${partId} --limit 0`, "--limit: found 0, wanted 1 or more"],
      [`logs ${partId} --limit -1`, "--limit: found -1"],
      ["audit --limit 0", "--limit: found 0"],
      ["release publish nothing 1.0.0 none", 'NAME: found "nothing"'],
      ["release publish svc-agent 1.0.0 none --platform mars/x", '--platform: found "mars/x"'],
      ["release publish svc-agent 1.0.0 none --channel beta", '--channel: found "beta"'],
      ["release channel svc-agent 1.0.0 beta", 'CHANNEL: found "beta"'],
      ["map start machine hall", "--lidar: name the camera"],
      ["serve --listen nowhere", '--listen: found "nowhere"'],
      ["serve --training people", '--training: found "people"'],
    ];
    for (const [line, found] of wrong) {
      assertMatch(
        await answer(line),
        new RegExp(`^2: .*${RegExp.escape(found)}`),
      );
    }
    assertMatch(await answer("config history nothing"), /^1: .*there is no part "nothing"/);
    assertMatch(await answer("location create barn"), /^1: .*there is a location "barn" here already\n$/);
    await svcCloud("org", "create", "orchard", ...flags);
    assertMatch(
      await answer("org create orchard"),
      /^1: .*there is an organization "orchard" here already\n$/,
    );
  },
);

Deno.test("a command without a control plane fails with the reason and creates no folder", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  try {
    const data = `${folder}/wrong`;
    for (
      const words of [["org", "list"], ["machine", "create", "rover"], ["logs", "part"], ["release", "keys"]]
    ) {
      const refused = () => svcCloud(...words, "--data", data);
      await assertRejects(refused, Error, `found no control plane in ${data}: give its folder with --data`);
    }
    assertEquals([...Deno.readDirSync(folder)], []);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

sqliteTest(
  "the root page of svc-cloud names the program and refuses POST",
  (database) =>
    withCloud(database, async ({ url }) => {
      const answer = await fetch(`${url}/`);
      assertEquals(answer.status, 200);
      assertMatch(await answer.text(), /^This is svc-cloud, /);
      const posted = await fetch(`${url}/`, { method: "POST" });
      assertEquals([posted.status, await posted.text()], [405, "/ answers GET, not POST\n"]);
    }),
);

Deno.test({
  name: "serve tries the sandbox once for models and training scripts together",
  // The sandbox is one of Linux.
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
    const tried = `${folder}/tried`;
    await Deno.mkdir(`${folder}/bin`);
    await Deno.writeTextFile(`${folder}/bin/bwrap`, `#!/bin/sh\necho "$*" >>${tried}\nexit 1\n`, {
      mode: 0o755,
    });
    await svcCloud("init", "--data", `${folder}/data`);
    const flags = ["--data", `${folder}/data`, "--training", "embedded,scripts"];
    const cloud = await serveCloud(flags, { env: { PATH: `${folder}/bin:${Deno.env.get("PATH")}` } });
    try {
      const versions = (await Deno.readTextFile(tried)).split("\n").filter((line) => line === "--version");
      assertEquals(versions.length, 1);
      assertMatch(cloud.output(), /models, pictures and maps are not opened, because there is no sandbox/);
      assertMatch(cloud.output(), /training scripts are refused without a sandbox/);
    } finally {
      await cloud.stop();
      await Deno.remove(folder, { recursive: true });
    }
  },
});

sqliteTest(
  "makeExample reports its progress at the start and after every 40 pictures",
  async ({ folder, open }) => {
    const store = await open();
    const pictures = async () =>
      Number((await store.query<{ n: number }>("SELECT COUNT(*) AS n FROM binary_data"))[0].n);
    const files = await FolderFiles.open(new SystemFiles(), `${folder}/files`, { olderThanMs: 0 });
    const logged: string[] = [];
    const counts: Promise<number>[] = [];
    const parts = {
      store,
      files,
      host: new SystemFiles(),
      configs: new ConfigThreads(ownThread(() => Promise.resolve([])), defaultLimits(), new SystemClock()),
      data: folder,
      clock: new SystemClock(),
    };
    const heard = (made: number, total: number) => {
      logged.push(`${made} of ${total}`);
      if (made % 40 === 0) counts.push(pictures());
    };
    await makeExample(parts, "http://localhost:1", { withData: true, heard });
    assertEquals(logged, Array.from({ length: 241 }, (_, made) => `${made} of 240`));
    // Counting goes on beside creating, so a count may include a picture made since the report.
    const missing = (await Promise.all(counts)).filter((count, reported) => count < 40 * reported);
    assertEquals(missing, []);
    assertEquals(await pictures(), 240);
  },
);

/** The DNS names in the certificate of a local port. */
function namesShownBy(port: number, ca: string): Promise<string[]> {
  const socket = connectTls({ host: "127.0.0.1", port, ca, servername: "localhost" });
  return new Promise<string[]>((resolve, reject) => {
    socket.on("error", reject).on("secureConnect", () => {
      const { subjectaltname = "" } = socket.getPeerCertificate();
      resolve(subjectaltname.split(", ").map((name) => name.replace("DNS:", "")));
    });
  }).finally(() => socket.destroy());
}

Deno.test("serve --demo reports the progress of its example, and then serves", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const cloud = await serveCloud(["--demo", "--tls", "--data", folder]);
  try {
    const output = cloud.output();
    // The example's location exists only since the port opened; machines of it are dialed by these names.
    const ca = await svcCloud("authority", "--data", folder);
    const names = await namesShownBy(Number(new URL(cloud.url).port), ca);
    assert(names.some((name) => /^\*\..+\.svc\.internal$/.test(name)), names.join(" "));
    const places = [
      "creating an example: 0 of 240 training pictures",
      "creating an example: 40 of 240",
      "creating an example: 240 of 240",
      "An example has been made.",
      '{"url":',
    ].map((words) => output.indexOf(words));
    assert(places.every((place, at) => place >= 0 && place >= (places[at - 1] ?? 0)), output);
  } finally {
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("svc-cloud serves over TLS with a certificate of the local authority", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const example: Example = JSON.parse(await svcCloud("init", "--data", folder, "--json"));
  const ca = await svcCloud("authority", "--data", folder);
  const cloud = await serveCloud(
    ["--data", folder, "--tls", "--public-url", "https://cloud.example:8090"],
    { listen: "localhost:0" },
  );
  try {
    const { id, key } = example.ownerKey;
    for (const serverName of ["localhost", "cloud.example"]) {
      const token = await tokenAt(cloud.url, id, key, { ca, serverName });
      assertMatch(token, /^[\w-]+\.[\w-]+\.[\w-]+$/);
    }
    const other = { ca, serverName: "other.example" };
    await assertRejects(() => tokenAt(cloud.url, id, key, other), SvcError);
  } finally {
    assertEquals(await cloud.stop(), 0);
    await Deno.remove(folder, { recursive: true });
  }
});

async function tokenAt(
  url: string,
  entity: string,
  payload: string,
  tls?: GrpcOptions["tls"],
): Promise<string> {
  const { host } = new URL(url);
  const channel = connectGrpc(host, { clock: new SystemClock(), tls });
  try {
    const { authenticate } = client(AuthService, channel);
    return (await authenticate({ entity, credentials: { type: "api-key", payload } })).accessToken;
  } finally {
    channel.close();
  }
}
