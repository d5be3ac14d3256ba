import { assert, assertAlmostEquals, assertEquals, assertStrictEquals } from "@std/assert";
import { quaternionFromEuler } from "../pose.ts";
import { readPcd, writePcd } from "./pcd.ts";
import { createCloud } from "./point_cloud.ts";
import { viewpointOf, withViewpoint } from "./viewpoint.ts";

const CLOUD = createCloud({ x: Float32Array.of(1, 2), y: Float32Array.of(3, 4), z: Float32Array.of(5, 6) });
const PLACE = {
  translation: { x: 220, y: -50, z: 300 },
  rotation: quaternionFromEuler({ roll: 0, pitch: 0, yaw: Math.PI / 2 }),
};
const ascii = (text: string) => new TextEncoder().encode(text);

Deno.test("a viewpoint goes through the header of every encoding, and the points stay", () => {
  for (const encoding of ["ascii", "binary", "binary_compressed"] as const) {
    const file = writePcd(CLOUD, encoding);
    assertEquals(viewpointOf(file), undefined);
    const placed = withViewpoint(file, PLACE);
    assertEquals(readPcd(placed), CLOUD);
    const { translation, rotation } = viewpointOf(placed)!;
    assertEquals(translation, PLACE.translation);
    assertAlmostEquals(rotation.z, PLACE.rotation.z, 1e-8);
    // A viewpoint that is there already counts.
    assertStrictEquals(withViewpoint(placed, { ...PLACE, translation: { x: 1, y: 1, z: 1 } }), placed);
  }
});

Deno.test("a header without the line, or with other line ends, gets one", () => {
  const rest = "FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 1\nHEIGHT 1\nPOINTS 1\nDATA ascii\n1 2 3\n";
  for (const text of [rest, rest.replaceAll("\n", "\r\n"), `# .PCD\nVERSION .7\n${rest}`]) {
    const placed = withViewpoint(ascii(text), PLACE);
    assertEquals(viewpointOf(placed)!.translation, PLACE.translation);
    assertEquals(readPcd(placed).z, Float32Array.of(3));
  }
});

Deno.test("what is no viewpoint is none, and what is no cloud stays as it is", () => {
  for (
    const wrong of ["", "1 2 3", "1 2 3 0 0 0 0", "nan 0 0 1 0 0 0", "1 2 x 1 0 0 0", "1e400 0 0 1 0 0 0"]
  ) {
    assertEquals(viewpointOf(ascii(`VIEWPOINT ${wrong}\nDATA ascii\n`)), undefined, wrong);
  }
  const files = [
    ascii(""),
    ascii("VIEWPOINT 1 2 3 1 0 0 0\n"),
    Uint8Array.of(0xff, 0xd8),
    ascii("\u00e9\nDATA ascii\n"),
  ];
  for (const file of files) assertStrictEquals(withViewpoint(file, PLACE), file);
  const nowhere = { ...PLACE, translation: { x: NaN, y: 0, z: 0 } };
  assert(viewpointOf(withViewpoint(writePcd(CLOUD), nowhere)) === undefined);
});
