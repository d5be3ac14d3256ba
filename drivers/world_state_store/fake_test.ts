import { assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import type { TransformChange } from "../../lib/api/services/world_state_store.ts";
import { SvcError } from "../../lib/base/error.ts";
import { construct } from "../../tests/support/construct.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { FakeWorldStateStore } from "./fake.ts";

const idOf = ({ transform }: Pick<TransformChange, "transform">) => new TextDecoder().decode(transform.uuid);

Deno.test("fake world: three shapes stay, and a fourth comes and goes every three seconds", async () => {
  const clock = new FakeClock();
  const store = await construct(FakeWorldStateStore, {}, { clock });
  const ids = async () => (await store.listUuids()).map((uuid) => new TextDecoder().decode(uuid));
  assertEquals(await ids(), ["box-001", "sphere-001", "capsule-001", "box-front-box-0"]);
  await clock.advance(3_000);
  assertEquals(await ids(), ["box-001", "sphere-001", "capsule-001"]);
  await clock.advance(3_250);
  assertEquals((await ids())[3], "box-front-sphere-2");
  const box = await store.getTransform(new TextEncoder().encode("box-001"));
  assertAlmostEquals(box.poseInObserverFrame!.pose!.theta!, 450, 1e-6);
  await assertRejects(() => store.getTransform(new Uint8Array()), SvcError, "transform not found");
});

Deno.test("fake world: a stream tells what moves, comes and goes, until its call ends", async () => {
  const clock = new FakeClock();
  const store = await construct(FakeWorldStateStore, {}, { clock });
  assertEquals(await store.doCommand({ fps: 1 }), { fps: 1 });
  await assertRejects(() => store.doCommand({ fps: 0 }), SvcError, "found fps 0");
  const heard: TransformChange[] = [];
  const stop = new AbortController();
  const reading = (async () => {
    for await (const change of store.streamTransformChanges({ signal: stop.signal })) heard.push(change);
  })().catch(() => {});
  await clock.advance(6_000);
  const rare = heard.filter(({ type }) => type !== "updated").map((change) => [change.type, idOf(change)]);
  assertEquals(rare, [["removed", "box-front-box-0"], ["added", "box-front-sphere-2"]]);
  const turned = heard.filter((change) => idOf(change) === "box-001");
  assertEquals(
    turned.map(({ updatedFields }) => updatedFields[0]),
    Array(6).fill("poseInObserverFrame.pose.theta"),
  );
  stop.abort();
  await reading;
  assertEquals(clock.pending, 0);
});
