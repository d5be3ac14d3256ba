/**
 * A machine and its control plane, two processes: saved configurations run on the machine, its logs arrive at the
 * control plane.
 */

import { dirname } from "node:path";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { create, toBinary } from "../../lib/wire/rpc/proto.ts";
import { RobotConfigSchema } from "../../proto/gen/robot_config_pb.ts";
import { robotConfigJson } from "../../lib/cloud_client/config_json.ts";
import { robotConfigMessage } from "../../lib/cloud/config/config_message.ts";
import { DataService } from "../../proto/gen/data_pb.ts";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { Secret } from "../../lib/base/secret.ts";
import { connectApp } from "../../lib/cloud_client/app_channel.ts";
import type { NewKey } from "../../lib/cloud/access/keys.ts";
import { type Channel, client } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { startServer } from "../support/server.ts";
import { type ManagedMachine, withManagedMachine } from "./managed.ts";
import { type Example, serveCloud, svcCloud } from "./program.ts";
import { until } from "../support/until.ts";

Deno.test("a machine applies a change and a restored revision, and an outage loses no log", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const data = ["--data", `${folder}/data`];
  const example: Example = JSON.parse(await svcCloud("init", ...data, "--json"));
  const { partId } = example;
  let cloud = await serveCloud(data);
  const { host } = new URL(cloud.url);
  const file = `${folder}/machine.json`;
  const own = { ...example.config.cloud, app_address: cloud.url, refresh_interval: "1s" };
  await Deno.writeTextFile(file, JSON.stringify({ cloud: own }));
  const start = () => startServer(file, { args: ["-allow-insecure-creds"], env: { SVC_HOME: folder } });
  const save = async (config: unknown) => {
    await Deno.writeTextFile(`${folder}/config.json`, JSON.stringify(config));
    await svcCloud("config", "set", partId, `${folder}/config.json`, ...data);
  };
  const network = { bind_address: "localhost:0" };
  const board = { name: "b", api: "rdk:component:board", model: "fake", attributes: { fail_new: false } };
  await save({ network });
  let server = await start();
  try {
    await server.wrote("machine is running");
    await save({ network, components: [board] });
    // One of them is there by default.
    await server.wrote('"revision":"2","resources":2');
    await svcCloud("config", "restore", partId, "1", ...data);
    await server.wrote('"revision":"3","resources":1');

    assertEquals(await cloud.stop("SIGKILL"), 137);
    assertEquals(await server.stop(), 0);
    cloud = await serveCloud(data, { listen: host });
    server = await start();
    await server.wrote("machine is running");
    assertEquals(await server.stop(), 0);

    const { entries: logs }: { entries: { message: string; time: string }[] } = JSON.parse(
      await svcCloud("logs", partId, ...data, "--json"),
    );
    const count = (text: string) => logs.filter(({ message }) => message.includes(text)).length;
    assertEquals([count("machine is running"), count("shutting down")], [2, 2]);
    const times = logs.map(({ time }) => time);
    assertEquals(times, times.toSorted());
  } finally {
    await server.stop();
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
});

interface Managed extends ManagedMachine {
  /** To the machine, with this key; to be closed. */
  readonly dial: (key: NewKey) => Channel;
}

/** A control plane and a machine that runs with a configuration from there. */
function withManaged(config: JsonObject, work: (managed: Managed) => Promise<void>): Promise<void> {
  return withManagedMachine(config, (machine) => {
    const { server, ca } = machine;
    const dial = ({ id: keyId, key }: NewKey) =>
      connectApp({ address: server.url, ca, keyId, key: new Secret(key), clock: new SystemClock() });
    return work({ ...machine, dial });
  });
}

const api = (type: string) => `rdk:component:${type}`;

Deno.test("captured data reaches the control plane", async () => {
  const capturing = (method: string, more = {}) => [{
    type: "data_manager",
    attributes: { capture_methods: [{ method, capture_frequency_hz: 20, tags: ["here"], ...more }] },
  }];
  const config: JsonObject = {
    components: [
      {
        name: "eye",
        api: api("camera"),
        attributes: { width: 64, height: 48 },
        model: "fake",
        service_configs: capturing("GetImages"),
      },
      { name: "gps", api: api("movement_sensor"), model: "fake", service_configs: capturing("Position") },
    ],
    services: [{
      name: "data",
      api: "rdk:service:data_manager",
      model: "builtin",
      attributes: { sync_interval_mins: 0.002 },
    }],
  };
  await withManaged(config, async ({ example: { partId }, server, channel }) => {
    const { binaryDataByFilter, getLatestTabularData } = client(DataService, channel);
    const source = {
      partId,
      resourceName: "gps",
      methodName: "Position",
      resourceSubtype: api("movement_sensor"),
    };
    const filter = { partId, componentName: "eye", tagsFilter: { tags: ["here"] } };
    const arrived = async () => {
      const { data } = await binaryDataByFilter({ dataRequest: { filter }, includeBinary: true });
      const image = data.find(({ metadata }) => metadata?.captureMetadata?.mimeType === "image/jpeg");
      const { payload } = await getLatestTabularData(source);
      return image && payload && { image, payload };
    };
    const { image, payload } = await until(arrived, { found: () => server.output() });
    assertEquals(payload, { coordinate: { latitude: 40.7, longitude: -73.98 }, altitude_m: 50.5 });
    assertEquals([...image.binary.subarray(0, 2)], [0xff, 0xd8]);
  });
});

/** Lets clients upload the files in `files` of the machine's home folder. */
const UPLOADS = {
  services: [{
    name: "data",
    api: "rdk:service:data_manager",
    model: "builtin",
    attributes: { additional_upload_paths: ["${environment.SVC_HOME}/files"], capture_disabled: true },
  }],
};

Deno.test("UploadDataFromPath sends no file outside of the folders that the configuration names", () =>
  withManaged(UPLOADS, async ({ example: { ownerKey }, folder, channel, dial }) => {
    const files = `${folder}/files`;
    await Deno.mkdir(`${files}/sub`, { recursive: true });
    await Deno.writeTextFile(`${files}/sub/own.txt`, "own");
    await Deno.symlink("../machine.json", `${files}/config.txt`);
    await Deno.symlink("../..", `${files}/sub/up`);
    await Deno.symlink("/etc", `${files}/etc`);
    await Deno.symlink("/proc/self/environ", `${files}/environment`);
    await Deno.link(`${folder}/machine.json`, `${files}/second_name.json`);
    const machine = dial(ownerKey);
    const { uploadDataFromPath } = client(RobotService, machine);
    const refused = [
      `${folder}/machine.json`,
      folder,
      `${files}/../machine.json`,
      `${files}/sub/../../machine.json`,
      `${files}/config.txt`,
      `${files}/sub/up/machine.json`,
      `${files}/sub/up`,
      `${files}/etc/passwd`,
      `${files}/environment`,
      `${files}/second_name.json`,
      `${folder}/data`,
      "/etc/passwd",
      "/proc/self/environ",
      "/",
      "machine.json",
      // Nobody learns what exists.
      "/etc/no/such/file",
      `${files}/etc/no_such_file`,
    ];
    for (const path of refused) {
      const error = await assertRejects(() => uploadDataFromPath({ path }), SvcError);
      assertEquals(error.code, "permission_denied", `${path}: ${error.message}`);
    }
    const named = await assertRejects(() => uploadDataFromPath({ path: "/etc/passwd" }), SvcError);
    assert(named.message.includes("additional_upload_paths"), named.message);
    const { filesUploaded, filesFailed } = await uploadDataFromPath({ path: files });
    assertEquals([filesUploaded, filesFailed], [1n, 1n]);
    const { data } = await client(DataService, channel).binaryDataByFilter({
      dataRequest: {},
      includeBinary: true,
    });
    assertEquals(data.map(({ binary }) => new TextDecoder().decode(binary)), ["own"]);
    machine.close();
  }));

Deno.test("UploadDataFromPath uploads files of the machine's folder to its control plane", () =>
  withManaged(UPLOADS, async ({ example: { partId, ownerKey }, folder, cloud, channel, dial }) => {
    const files = { "b/notes.txt": "one", "a.csv": "1,2\n", "b/c/large.bin": "x".repeat(3_000_000) };
    for (const [name, text] of Object.entries(files)) {
      await Deno.mkdir(dirname(`${folder}/files/${name}`), { recursive: true });
      await Deno.writeTextFile(`${folder}/files/${name}`, text);
    }
    await Deno.symlink("..", `${folder}/files/b/up`);
    const machine = dial(ownerKey);
    const { uploadDataFromPath } = client(RobotService, machine);
    const { binaryDataByIDs } = client(DataService, channel);
    const uploadMetadata = { partId: "another", tags: ["field"] };
    const { ids, ...counts } = await uploadDataFromPath({ path: `${folder}/files`, uploadMetadata });
    assertEquals([counts.filesUploaded, counts.filesFailed], [3n, 0n]);
    assertEquals([counts.bytesUploaded, counts.bytesTotal], [3_000_007n, 3_000_007n]);
    const { data: stored } = await binaryDataByIDs({ binaryDataIds: ids, includeBinary: true });
    for (const { binary, metadata } of stored) {
      const name = metadata!.fileName as keyof typeof files;
      assertEquals(new TextDecoder().decode(binary), files[name], name);
      const { partId: part, tags } = metadata!.captureMetadata!;
      assertEquals([part, tags], [partId, ["field"]]);
    }
    assertEquals(stored.length, 3);

    const renamed = { fileName: "b.csv" };
    const again = await uploadDataFromPath({ path: `${folder}/files/a.csv`, uploadMetadata: renamed });
    const { data: [{ metadata }] } = await binaryDataByIDs({ binaryDataIds: again.ids });
    assertEquals([metadata!.fileName, metadata!.captureMetadata!.mimeType], ["b.csv", "text/csv"]);
    const none = await assertRejects(() => uploadDataFromPath({ path: `${folder}/files/none` }), SvcError);
    assertEquals(none.code, "not_found");
    await cloud.stop();
    const away = await assertRejects(() => uploadDataFromPath({ path: `${folder}/files` }), SvcError);
    assertEquals(away.code, "unavailable");
    machine.close();
  }));

Deno.test("a machine admits the callers with a key for it, also after changes", () =>
  withManaged({}, async ({ example, data, server, dial }) => {
    const { machineId, locationId, config: { cloud: { api_key: own } }, ownerKey } = example;
    const clock = new SystemClock();
    /** How a call with this key ends. */
    const outcome = async (key: NewKey) => {
      const channel = dial(key);
      try {
        await client(RobotService, channel).getVersion({});
        return "served";
      } catch (error) {
        return SvcError.from(error).code;
      } finally {
        channel.close();
      }
    };
    const becomes = async (key: NewKey, wanted: string) => {
      await until(async () => await outcome(key) === wanted, { found: () => server.output() });
    };
    const anybody = connectGrpc(new URL(server.url).host, { clock, tls: { insecureSkipVerify: true } });
    const { code } = await assertRejects(() => client(RobotService, anybody).getVersion({}), SvcError);
    anybody.close();
    assertEquals(code, "unauthenticated");
    for (const key of [ownerKey, own]) assertEquals(await outcome(key), "served");
    const other = ["machine", "create", "other", "--location", locationId];
    const stranger: NewKey = JSON.parse(await svcCloud(...other, ...data, "--json")).config.cloud.api_key;
    assertEquals(await outcome(stranger), "unauthenticated");
    assertEquals(await outcome({ ...ownerKey, key: stranger.key }), "unauthenticated");

    const create = ["key", "create", "--on", `machine:${machineId}`];
    const guest: NewKey = JSON.parse(await svcCloud(...create, ...data, "--json"));
    await becomes(guest, "served");
    await svcCloud("key", "revoke", guest.id, ...data);
    await becomes(guest, "unauthenticated");
    await becomes(own, "served");
  }));

Deno.test("a configuration stays the same when converted to RobotConfig and back", async () => {
  for (const name of ["../contract/machine.json", "../../examples/demo.json"]) {
    const json = JSON.parse(await Deno.readTextFile(new URL(name, import.meta.url)));
    const message = (config: typeof json) => create(RobotConfigSchema, robotConfigMessage(config));
    const there = message(json);
    const back = message(robotConfigJson(there));
    assert(there.components.length > 0);
    assertEquals(toBinary(RobotConfigSchema, back), toBinary(RobotConfigSchema, there), name);
  }
});
