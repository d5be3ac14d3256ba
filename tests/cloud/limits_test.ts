/**
 * The limits of a caller, by their refusals.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { DataType } from "../../proto/gen/datasync_pb.ts";
import { DataSyncService } from "../../proto/gen/datasync_pb.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Audit } from "../../lib/cloud/access/audit.ts";
import { defaultLimits, limitsField, published } from "../../lib/cloud/access/limits.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import type { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { storeTest } from "./stores.ts";
import { newWorld, ownKey, withCloud } from "./world.ts";

async function failing(call: Promise<unknown>): Promise<SvcError> {
  return await call.then(() => new SvcError("unknown", "it did not fail"), (error) => SvcError.from(error));
}

storeTest(
  "repeated wrong keys are slowed down and audited once, while the right key still works",
  (database) =>
    withCloud(database, async ({ store, channel, token, url }) => {
      const { owner, operator } = await newWorld(store);
      await token(owner);
      const { authenticate } = client(AuthService, await channel());
      const guess = async (entity: string, payload: string) =>
        (await failing(authenticate({ entity, credentials: { type: "api-key", payload } }))).code;
      const codes: string[] = [];
      for (let count = 0; count < 60; count++) codes.push(await guess(owner.id, `wrong ${count}`));
      assertEquals(codes.slice(0, 5), Array(5).fill("unauthenticated"));
      assert(codes.filter((code) => code === "resource_exhausted").length > 40, codes.join());
      let pushback: string | undefined;
      const onTrailer = (trailer: Metadata) => void (pushback = trailer.get("grpc-retry-pushback-ms"));
      const last = authenticate({ entity: owner.id, credentials: { type: "api-key", payload: "x" } }, {
        onTrailer,
      });
      assertMatch((await failing(last)).message, /try again in 2 s/);
      assertEquals(pushback, "2000");
      const headers = { key_id: owner.id, key: "wrong" };
      const page = await fetch(`${url}/api/json1/config?id=x`, { headers });
      assertEquals([page.status, (await page.text()).includes("wrong_keys_per_key")], [429, true]);
      assert(await token(owner));
      assert(await token(operator));
      const entries = (await new Audit(store, new FakeClock()).newest(100)).filter(({ action }) =>
        action === "Authenticate"
      );
      assertEquals(entries.length, 1);
      assertMatch(entries[0].who, /^address 127\.0\.0\.1$/);
      assertEquals([entries[0].resource, entries[0].outcome], [`key ${owner.id}`, "refused"]);
      assertEquals(await guess("no\0body", "x"), "unauthenticated");
    }, { clock: new FakeClock() }),
);

storeTest("a machine's logs are limited by call and by day", (database) => {
  const clock = new FakeClock();
  const limits = {
    ...defaultLimits(),
    logLinesPerCall: 10,
    logLinesPerMachineDay: 25,
    logBytesPerCall: 5_000,
  };
  return withCloud(database, async ({ store, robot }) => {
    const { machine, part: id } = await newWorld(store);
    const rover = await robot(await ownKey(store, { machine }));
    const lines = (count: number, message = "m") => rover.log({ id, logs: Array(count).fill({ message }) });
    const many = await failing(lines(11));
    assertEquals(many.code, "resource_exhausted");
    assertMatch(many.message, /limit log_lines_per_call: found 11, wanted at most 10; .*--limits/);
    assertMatch((await failing(lines(1, "x".repeat(6_000)))).message, /limit log_bytes_per_call/);
    await lines(10);
    await lines(10);
    assertMatch((await failing(lines(10))).message, /limit log_lines_per_machine_day/);
    await lines(5);
    await clock.advance(24 * 3600 * 1000);
    await lines(10);
  }, { clock, limits });
});

storeTest("data bytes and readings are limited for each organization by itself", (database) => {
  const clock = new FakeClock();
  const limits = { ...defaultLimits(), dataBytesPerOrganization: 100, readingsPerOrganization: 3 };
  return withCloud(database, async ({ store, channel }) => {
    const [mine, other] = [await newWorld(store), await newWorld(store)];
    const upload = async ({ owner, part: partId }: typeof mine, bytes: number) => {
      const { dataCaptureUpload } = client(DataSyncService, await channel(owner));
      const data = { case: "binary" as const, value: new Uint8Array(bytes).fill(bytes) };
      const metadata = { partId, type: DataType.FILE, fileName: `f${bytes}`, fileExtension: ".bin" };
      return await dataCaptureUpload({ metadata, sensorContents: [{ data }] });
    };
    const read = async ({ owner, part: partId }: typeof mine, readings: number) => {
      const { dataCaptureUpload } = client(DataSyncService, await channel(owner));
      const one = (value: number) => ({ data: { case: "struct" as const, value: { value } } });
      const metadata = { partId, type: DataType.TABULAR_SENSOR, componentName: "s", methodName: "Readings" };
      return await dataCaptureUpload({
        metadata,
        sensorContents: Array.from({ length: readings }, (_, n) => one(n)),
      });
    };
    await upload(mine, 60);
    const over = await failing(upload(mine, 50));
    assertEquals(over.code, "resource_exhausted");
    assertMatch(over.message, /limit data_bytes_per_organization: found 60 and 50 more, wanted at most 100/);
    await upload(mine, 40);
    await upload(other, 90);
    await read(mine, 2);
    assertMatch((await failing(read(mine, 2))).message, /limit readings_per_organization/);
    // A removal makes room within seconds.
    await store.transaction((sql) => sql.query("DELETE FROM binary_data"));
    await clock.advance(11_000);
    await upload(mine, 70);
  }, { clock, limits });
});

Deno.test("docs/limits.md lists every limit with its default", async () => {
  const text = (await Deno.readTextFile(new URL("../../docs/limits.md", import.meta.url)))
    .replace(/ +/g, " ");
  const properties = limitsField.jsonSchema().properties as Record<string, { default: number }>;
  for (const [name, { default: fallback }] of Object.entries(properties)) {
    assert(text.includes(`| \`${name}\` | ${fallback} |`), `| \`${name}\` | ${fallback} |`);
  }
  assertEquals(Object.keys(properties), Object.keys(defaultLimits()).map((name) => published(name as never)));
});
