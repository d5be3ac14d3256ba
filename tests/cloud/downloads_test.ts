/**
 * Downloads, signatures and releases: agents and machines fetch them complete or in parts, and only with the right to.
 */

import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { AgentDeviceService } from "../../proto/gen/agent_pb.ts";
import { PackageService, PackageType } from "../../proto/gen/packages_pb.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { Download } from "../../lib/agent/update/download.ts";
import { releaseOf } from "../../lib/agent/update/release.ts";
import { silentLogs } from "../../lib/base/log/log.ts";
import { AcceptedKeys } from "../../lib/base/release/accepted_keys.ts";
import { VALID_MS, verifyChannel } from "../../lib/base/release/channel.ts";
import { KeyRing, pinnedKey, type ReleaseKey } from "../../lib/base/release/signature.ts";
import { agentReports } from "../../lib/cloud/fleet/agent_reports.ts";
import { Crc32c } from "../../lib/cloud_client/crc32c.ts";
import { FolderFiles } from "../../lib/cloud/store/folder_files.ts";
import { Packages } from "../../lib/cloud/packages/packages.ts";
import { PartConfigs } from "../../lib/cloud/config/part_config.ts";
import { configText } from "../../lib/cloud/config/resolution.ts";
import { ReleaseKeys } from "../../lib/cloud/packages/release_keys.ts";
import { Releases } from "../../lib/cloud/packages/releases.ts";
import type { Store } from "../../lib/cloud/store/store.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { METRICS_KEY, newWorld, ownKey, type ServedCloud, withCloud, type World } from "./world.ts";
import { storeTest, type TestDatabase } from "./stores.ts";
import { SystemFiles } from "../../lib/base/files/system_files.ts";

const BYTES = Uint8Array.from({ length: 100_000 }, (_, i) => (i * 7) % 251);
const NOW = 1_700_000_000_000;

async function kept(database: TestDatabase, bytes = BYTES) {
  const files = await FolderFiles.open(new SystemFiles(), `${database.folder}/files`, { olderThanMs: 0 });
  return await files.put((async function* () {
    yield bytes;
  })());
}

/** A package, and its download address. */
async function packageIn(
  database: TestDatabase,
  served: ServedCloud,
  { organization, owner }: World,
  name = "map",
) {
  const file = await kept(database);
  const info = {
    organizationId: organization,
    name,
    version: "1",
    type: "slam_map",
    platform: "",
  } as const;
  await served.store.transaction((sql) => new Packages(sql).add({ ...info, metadata: {}, file }, NOW));
  const packages = client(PackageService, await served.channel(owner));
  const id = `${organization}/${name}`;
  const asked = { id, version: "latest", includeUrl: true, type: PackageType.SLAM_MAP };
  return { url: (await packages.getPackage(asked)).package!.url, sha256: file.sha256 };
}

async function get(url: string, headers: Record<string, string> = {}, method = "GET") {
  const answer = await fetch(url, { headers, method });
  const bytes = new Uint8Array(await answer.arrayBuffer());
  return { status: answer.status, headers: answer.headers, bytes, text: new TextDecoder().decode(bytes) };
}

storeTest(
  "a package is downloaded as a whole, in parts, and after an interruption",
  (database) =>
    withCloud(database, async (served) => {
      const { url, sha256 } = await packageIn(database, served, await newWorld(served.store));
      const etag = `"${sha256}"`;
      const whole = await get(url);
      assertEquals([whole.status, whole.headers.get("etag")], [200, etag]);
      assertEquals(whole.bytes, BYTES);
      // What published machines look at.
      const checksum = new Crc32c();
      checksum.update(BYTES);
      assertEquals(whole.headers.get("content-type"), "application/x-gzip");
      assertEquals(whole.headers.get("x-goog-hash"), `crc32c=${checksum.base64()}`);
      const head = await get(url, {}, "HEAD");
      assertEquals([head.status, head.headers.get("content-length"), head.bytes.length], [200, "100000", 0]);
      const cases: [headers: Record<string, string>, status: number, from: number, to: number][] = [
        [{ range: "bytes=0-9" }, 206, 0, 10],
        [{ range: "bytes=99000-" }, 206, 99_000, 100_000],
        [{ range: "bytes=99990-200000" }, 206, 99_990, 100_000],
        [{ range: "bytes=-5" }, 206, 99_995, 100_000],
        [{ range: "bytes=60000-", "if-range": etag }, 206, 60_000, 100_000],
        [{ range: "bytes=60000-", "if-range": '"other"' }, 200, 0, 100_000],
        [{ range: "bytes=0-1,5-6" }, 200, 0, 100_000],
        [{ range: "lines=1-2" }, 200, 0, 100_000],
        [{ range: "bytes=5-2" }, 200, 0, 100_000],
      ];
      for (const [headers, status, from, to] of cases) {
        const answer = await get(url, headers);
        assertEquals([answer.status, answer.bytes.length], [status, to - from], JSON.stringify(headers));
        assertEquals(answer.bytes, BYTES.slice(from, to));
        const range = status === 206 ? `bytes ${from}-${to - 1}/100000` : null;
        assertEquals(answer.headers.get("content-range"), range);
      }
      const beyond = await get(url, { range: "bytes=100000-" });
      assertEquals([beyond.status, beyond.headers.get("content-range")], [416, "bytes */100000"]);
      assertEquals((await get(url, { "if-none-match": etag })).status, 304);
      assertEquals((await get(url, {}, "POST")).status, 405);
    }),
);

storeTest("package downloads need a role on the package or a signed URL", (database) => {
  const clock = new FakeClock(NOW);
  return withCloud(database, async (served) => {
    const [mine, other] = [await newWorld(served.store), await newWorld(served.store)];
    const { url } = await packageIn(database, served, mine);
    const plain = url.split("?")[0];
    const status = async (headers: Record<string, string>, where = plain) =>
      (await get(where, headers)).status;
    const bearer = async (world: World) => ({
      authorization: `Bearer ${await served.token(world.operator)}`,
    });
    assertEquals(await status({}), 401);
    assertEquals(await status({ authorization: "Bearer nonsense" }), 401);
    assertEquals(await status({ key_id: mine.operator.id, key: "wrong" }), 401);
    assertEquals(await status({ key_id: mine.operator.id, key: mine.operator.key }), 200);
    assertEquals(await status(await bearer(mine)), 200);
    assertEquals(await status(await bearer(other)), 404);
    assertEquals(await status({}, url.replace(/signature=.{5}/, "signature=AAAAA")), 403);
    assertEquals(await status({}, url.replace(/expires=\d/, "expires=9")), 403);
    assertEquals(await status({}, `${plain}/more`), 404);
    assertEquals(await status({}), 401);
    assertEquals(await status({}, url), 200);
    await clock.advance(2 * 3600 * 1000);
    assertEquals(await status({}, url), 403);
  }, { clock });
});

storeTest(
  "every content has a signature, and its key is chained to the first release key",
  (database) =>
    withCloud(database, async (served) => {
      const world = await newWorld(served.store);
      const { url, sha256 } = await packageIn(database, served, world);
      const list = async () =>
        JSON.parse((await get(`${served.url}/releases/keys.json`)).text).keys as readonly ReleaseKey[];
      const [first] = await list();
      const pinned = new KeyRing([pinnedKey(first.public_key)]);
      const sig = async () => JSON.parse((await get(url.replace("?", ".sig?"))).text);
      assertEquals(pinned.verify(await sig()), {
        name: `${world.organization}/map`,
        version: "1",
        platform: "",
        sha256,
        size: BYTES.length,
        signed_ms: NOW,
      });
      // A machine finds in the signature the id by which it asked; another package's id is refused.
      const byId = async (id: string) => await get(url.replace("?", `.sig?as=${encodeURIComponent(id)}&`));
      const asked = `${world.organization}:map`;
      assertEquals(pinned.verify(JSON.parse((await byId(asked)).text)).name, asked);
      await packageIn(database, served, world, "another");
      assertMatch((await byId(`${world.organization}:another`)).text, /is another package than/);
      assertMatch((await byId("stranger:map")).text, /there is no package "stranger:map"/);
      // The word for a channel says what it means now, and expires.
      const word = async (query: string) => await get(url.replace("?", `.channel?as=${asked}&${query}&`));
      const latest = await word("wanted=latest&platform=linux/amd64");
      const { issued_ms, expires_ms, ...output } = verifyChannel(JSON.parse(latest.text), pinned.keys);
      assertEquals(output, { name: asked, wanted: "latest", platform: "linux/amd64", version: "1", sha256 });
      assertEquals([expires_ms - issued_ms, issued_ms % 3600_000], [VALID_MS, 0]);
      const refused = [await word("wanted=^9"), await word("platform=linux/amd64"), await word("as=x:y")];
      assertEquals(refused.map(({ status }) => status), [404, 400, 400]);
      await new ReleaseKeys(served.secrets).rotate();
      const signed = await sig();
      assertEquals(
        (await assertRejects(async () => void pinned.verify(await sig()), SvcError)).code,
        "permission_denied",
      );
      assertEquals(pinned.follow(await list()).verify(signed).sha256, sha256);
    }),
);

async function publish(
  database: TestDatabase,
  store: Store,
  name: string,
  version: string,
  channel: string,
  platform = "linux/amd64",
) {
  const file = await kept(database, new TextEncoder().encode(`${name} ${version} ${platform}`));
  await store.transaction((sql) => new Releases(sql).add({ name, version, channel, platform, file }, NOW));
}

storeTest(
  "DeviceAgentConfig gives an agent the versions of version_control, and its settings",
  (database) =>
    withCloud(database, async (served) => {
      const { store } = served;
      const world = await newWorld(store);
      for (const [version, channel] of [["1.0.0", "stable"], ["1.1.0-rc1", "dev"], ["0.9.0", "none"]]) {
        await publish(database, store, "svc-server", version, channel);
      }
      await publish(database, store, "svc-agent", "2.0.0", "stable", "linux/arm64");
      const agent = client(AgentDeviceService, await served.channel(await ownKey(store, world)));
      const ask = (platform = "linux/amd64") =>
        agent.deviceAgentConfig({
          id: world.part,
          hostInfo: { platform, distro: "debian:13", tags: ["rpi"] },
          versionInfo: { agentRunning: "1.9.0", viamServerRunning: "0.9.0", viamServerInstalled: "1.0.0" },
          agentUptime: { seconds: 90n },
        });
      const choose = (version_control: Record<string, string>, more = {}) =>
        store.transaction((sql) =>
          new PartConfigs(sql).set(
            world.part,
            configText({ agent: { version_control, ...more } }),
            "test",
            NOW,
          )
        );
      // A device with nothing to run hears what the operator has to do, and so does its log.
      const { versionProblems } = await agent.deviceAgentConfig({
        id: world.part,
        hostInfo: { platform: "linux/arm64" },
        versionInfo: { agentRunning: "1.9.0" },
        refusedVersions: ["svc-server 1.0.5"],
      });
      const command =
        "svc-cloud release publish svc-server VERSION FILE --platform linux/arm64 --channel stable";
      assertEquals(versionProblems, [
        `svc-server: this control plane has no release for linux/arm64 to run yet: ${command}`,
      ]);
      assertEquals((await agentReports(store, [world.part])).get(world.part)?.refused, ["svc-server 1.0.5"]);

      const first = await ask();
      assertEquals([first.viamServerUpdateInfo?.version, first.agentUpdateInfo], ["1.0.0", undefined]);
      const info = first.viamServerUpdateInfo!;
      assertEquals(info.filename, "svc-server-v1.0.0-linux-amd64");
      const downloaded = await get(info.url);
      assertEquals(downloaded.text, "svc-server 1.0.0 linux/amd64");
      assertEquals(downloaded.headers.get("etag"), `"${info.sha256.toHex()}"`);
      const sig = JSON.parse((await get(`${info.url}.sig`)).text);
      assertEquals([sig.statement.name, sig.statement.platform], ["svc-server", "linux/amd64"]);
      assertEquals(info.wanted, "stable");
      const ring = [
        pinnedKey(JSON.parse((await get(`${served.url}/releases/keys.json`)).text).keys[0].public_key),
      ];
      const word = async (wanted: string) =>
        verifyChannel(JSON.parse((await get(`${info.url}.channel?wanted=${wanted}`)).text), ring);
      const { version, sha256, wanted: channel, platform } = await word("stable");
      assertEquals([version, sha256, channel, platform], [
        "1.0.0",
        info.sha256.toHex(),
        "stable",
        "linux/amd64",
      ]);
      assertEquals((await word("dev")).version, "1.1.0-rc1");
      assertEquals((await get(`${info.url}.channel`)).status, 400);
      await withPinnedDevice(ring[0], async (download) => {
        const never = new AbortController().signal;
        const build = await download.fetch(releaseOf("svc-server", info)!, () => {}, never);
        assertEquals([build.version, build.sha256], ["1.0.0", info.sha256.toHex()]);
        // A false control plane that calls the last release the newest one has no word for it.
        const old = { ...releaseOf("svc-server", info)!, wanted: "dev" };
        await assertRejects(() => download.fetch(old, () => {}, never), SvcError, '"dev" leads to 1.1.0-rc1');
      });
      const newest = await get(`${served.url}/releases/svc-server/stable/linux-amd64`);
      const broken = await get(`${served.url}/releases/svc-server/%/linux-amd64`);
      assertEquals([broken.status, broken.text.includes("wanted %25")], [400, true]);
      assertEquals([newest.text, newest.headers.get("x-svc-version")], [downloaded.text, "1.0.0"]);
      assertEquals((await ask("linux/aarch64")).agentUpdateInfo?.version, "2.0.0");

      const chosen = async (version: string) => {
        await choose({ "svc-server": version });
        return (await ask()).viamServerUpdateInfo;
      };
      const pinned = async (version: string) => (await chosen(version))?.pinned;
      assertEquals((await chosen("dev"))?.version, "1.1.0-rc1");
      assertEquals((await chosen("0.9.0"))?.version, "0.9.0");
      // The agent takes a version that somebody named, without waiting for a start.
      const named = ["1.0.0", "file:///opt/svc-server", "stable", "dev", "1.x"].map((one) => () =>
        pinned(one)
      );
      const found: unknown[] = [];
      for (const ask of named) found.push(await ask());
      assertEquals(found, [true, true, false, false, false]);
      assertEquals((await chosen("v1.0.0"))?.version, "1.0.0");
      const custom = await chosen("https://example.com/builds/svc-server?x=1");
      assertEquals([custom?.version, custom?.filename, custom?.sha256.length], [
        "customURL",
        "svc-server",
        0,
      ]);
      assertEquals((await chosen("file:///opt/svc-server"))?.url, "file:///opt/svc-server");
      // A missing version is reported once, and the device keeps its version.
      assertEquals(await chosen("7.7.7"), undefined);
      assertMatch((await ask()).versionProblems.join(), /^svc-server: there is no release "7.7.7"/);
      await ask();
      const app = await served.app(world.owner);
      const { logs } = await app.getRobotPartLogs({ id: world.part, levels: ["error"] });
      assertEquals(logs.length, 2);
      const logged = logs.map(({ message }) => message).join("\n");
      assertMatch(logged, /no release for linux\/arm64 to run yet: svc-cloud release publish/);
      assertMatch(logged, /svc-server: there is no release "7.7.7".*1\.0\.0 \(stable\)/);

      const settings = {
        advanced_settings: { debug: true },
        additional_networks: { home: { type: "wifi" } },
      };
      await choose({ "viam-server": "stable" }, settings);
      const answer = await ask();
      assertEquals(answer.viamServerUpdateInfo?.version, "1.0.0");
      assertEquals([answer.advancedSettings, answer.additionalNetworks], [
        settings.advanced_settings,
        settings.additional_networks,
      ]);
      const report = (await agentReports(store, [world.part])).get(world.part)!;
      assertEquals([report.agentRunning, report.serverInstalled, report.platform], [
        "1.9.0",
        "1.0.0",
        "linux/amd64",
      ]);
      assertEquals([report.agentUptimeMs, report.serverUptimeMs], [90_000, null]);
    }),
);

storeTest(
  "releases are immutable, and can be moved between channels",
  (database) =>
    withCloud(database, async ({ store }) => {
      const add = (version: string, platform = "linux/amd64", name = "svc-agent") =>
        publish(database, store, name, version, "dev", platform);
      const code = async (run: Promise<unknown>) => (await assertRejects(() => run, SvcError)).code;
      await add("1.0.0");
      await add("1.0.0", "windows/amd64");
      assertEquals(await code(add("1.0.0")), "already_exists");
      assertEquals(await code(add("1.0")), "invalid_argument");
      assertEquals(await code(add("1.0.0", "plan9/amd64")), "invalid_argument");
      assertEquals(await code(add("1.0.0", "linux/amd64", "svc-else")), "invalid_argument");
      const releases = new Releases(store);
      assertEquals(await code(releases.find("svc-agent", "stable", "linux/amd64")), "not_found");
      await store.transaction((sql) => new Releases(sql).setChannel("svc-agent", "1.0.0", "stable"));
      assertEquals((await releases.find("svc-agent", "stable", "windows/amd64")).version, "1.0.0");
      const move = (version: string, channel: string) =>
        store.transaction((sql) => new Releases(sql).setChannel("svc-agent", version, channel));
      assertEquals(await code(move("3.0.0", "dev")), "not_found");
      assertEquals(await code(move("1.0.0", "beta")), "invalid_argument");
    }),
);

storeTest(
  "the metrics page shows the figures of the control plane for the metrics key only",
  (database) =>
    withCloud(database, async ({ store, app, robot, token, url }) => {
      const world = await newWorld(store);
      await (await app(world.owner)).listOrganizations({});
      const machine = await robot(await ownKey(store, world));
      await machine.log({ id: world.part, logs: [{ message: "a" }, { message: "b" }] });
      await assertRejects(() => machine.config({ id: "nothing" }));
      const { id: key_id, key } = world.owner;
      const others: Record<string, string>[] = [
        {},
        { authorization: "Bearer wrong" },
        { authorization: `Bearer ${await token(world.owner)}` },
        { key_id, key },
        { "x-forwarded-for": "127.0.0.1" },
      ];
      for (const headers of others) assertEquals((await get(`${url}/metrics`, headers)).status, 401);
      const { text, headers } = await get(`${url}/metrics`, { authorization: `Bearer ${METRICS_KEY}` });
      assertMatch(headers.get("content-type")!, /^application\/openmetrics-text/);
      for (
        const line of [
          'svc_cloud_requests_total{method="viam.app.v1.AppService/ListOrganizations",code="ok"} 1',
          'svc_cloud_requests_total{method="viam.app.v1.RobotService/Config",code="not_found"} 1',
          "svc_cloud_log_lines_total 2",
          "svc_cloud_parts_online 1",
        ]
      ) assert(text.includes(`${line}\n`), `${line} is not in\n${text}`);
      assert(Number(/svc_cloud_database_bytes (\d+)/.exec(text)?.[1]) > 10_000);
      assert(text.endsWith("# EOF\n"));
    }),
);

/** The downloads of a device with this key pinned. */
async function withPinnedDevice(
  { public_key }: ReleaseKey,
  work: (download: Download) => Promise<void>,
): Promise<void> {
  const base = await Deno.makeTempDir({ prefix: "svc-" });
  try {
    await Deno.mkdir(`${base}/etc`);
    await Deno.writeTextFile(`${base}/etc/release_keys.json`, JSON.stringify([public_key]));
    const [clock, files] = [new SystemClock(), new SystemFiles()];
    const historyPath = `${base}/state/accepted.json`;
    const keys = new AcceptedKeys(`${base}/etc/release_keys.json`, { files, clock, historyPath });
    const logger = silentLogs(clock).logger("download");
    await work(new Download({ base, files, clock, logger, keys, platform: "linux/amd64" }));
  } finally {
    await Deno.remove(base, { recursive: true });
  }
}
