import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../../lib/base/error.ts";
import { readPcd, writePcd } from "../../../lib/geometry/cloud/pcd.ts";
import { createCloud } from "../../../lib/geometry/cloud/point_cloud.ts";
import { randomFrom } from "../../../lib/geometry/random.ts";
import { FakeHost } from "../../../tests/support/fake_host.ts";
import { MapEdits } from "./edits.ts";

const SEED = 5;
/** Callers may name no file. */
const NOWHERE = { folders: [], own: [], setting: "" };

Deno.test("corrections of a map: each removal takes the points around it that are there by then", async () => {
  const random = randomFrom(SEED);
  // On a grid of 3 cm, so that many points are near the edge of a removal and none is right at it.
  const places = (count: number) =>
    Array.from({ length: count }, () => ({
      X: 30 * Math.floor(40 * random() - 20),
      Y: 30 * Math.floor(40 * random() - 20),
    }));
  const edits = new MapEdits(new FakeHost(), NOWHERE);
  await edits.command({ postprocess_toggle: true });
  let wanted = places(300);
  const map = writePcd(createCloud({
    x: Float32Array.from(wanted, ({ X }) => X / 1000),
    y: Float32Array.from(wanted, ({ Y }) => Y / 1000),
    z: new Float32Array(wanted.length),
  }));
  for (let round = 0; round < 20; round++) {
    const [added, removed] = [places(20), places(3)];
    await edits.command({ postprocess_add: added });
    await edits.command({ postprocess_remove: removed });
    wanted = [...wanted, ...added].filter((one) => {
      return !removed.some(({ X, Y }) => Math.hypot(one.X - X, one.Y - Y) < 100);
    });
    const { x, y } = readPcd(edits.applied(map));
    const found = Array.from(x, (one, n) => ({ X: Math.round(one * 1000), Y: Math.round(y[n] * 1000) }));
    assertEquals(found, wanted, `round ${round}, seed ${SEED}`);
  }
});

Deno.test("corrections of a map: points that a file does not hold, and too many, are refused", async () => {
  const edits = new MapEdits(new FakeHost(), NOWHERE);
  await assertRejects(
    () => edits.command({ postprocess_add: [{ X: 1e300, Y: 0 }] }),
    SvcError,
    "point 0 is no object with the numbers X and Y",
  );
  const many = Array.from({ length: 10_000 }, () => ({ X: 0, Y: 0 }));
  for (let edit = 0; edit < 10; edit++) await edits.command({ postprocess_add: many });
  await assertRejects(
    () => edits.command({ postprocess_remove: [{ X: 0, Y: 0 }] }),
    SvcError,
    "the corrections have 100000 points already",
  );
});

Deno.test("corrections of a map: many removals at one place cost no more than a few, and the last one counts", async () => {
  const edits = new MapEdits(new FakeHost(), NOWHERE);
  await edits.command({ postprocess_toggle: true });
  // In the square of the points, and too far from them; none is like another.
  const crowd = (first: number) =>
    Array.from({ length: 9_999 }, (_, at) => ({ X: 280 + (first + at) / 1e5, Y: 280 }));
  const near = { x: Float32Array.from({ length: 200_000 }, (_, at) => at / 2e6), y: 0.01 };
  const map = writePcd(createCloud({
    x: near.x,
    y: new Float32Array(near.x.length).fill(near.y),
    z: new Float32Array(near.x.length),
  }));
  for (let edit = 0; edit < 9; edit++) {
    await edits.command({ postprocess_remove: crowd(9_999 * edit) });
    await edits.command({ postprocess_add: [{ X: 280, Y: 280 }] });
  }
  const { x } = readPcd(edits.applied(map));
  // Of the nine added points all were removed by the next crowd but the last one.
  assertEquals(x.length, near.x.length + 1);

  await edits.command({ postprocess_remove: [{ X: 50, Y: 10 }] });
  assertEquals(readPcd(edits.applied(map)).x.length, 1);
});
