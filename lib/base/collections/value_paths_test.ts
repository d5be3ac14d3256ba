import { assertEquals } from "@std/assert";
import { memberPath, NO_PATH, shownNames } from "./value_paths.ts";

const pathOf = (...keys: string[]) => keys.reduce(memberPath, NO_PATH);
const shown = (...paths: string[][]) => [...shownNames(paths.map((keys) => pathOf(...keys))).values()];

Deno.test("shownNames: plain names, and the keys with dots where two paths would have one name", () => {
  assertEquals(shown(["a"], ["b", "c"], ["imu.x"], ["a"]), ["a", "b.c", "imu.x"]);
  assertEquals(shown(["a.b"], ["a", "b"]), ['["a.b"]', "a.b"]);
  assertEquals(shown(["r", "a.b", "c"], ["r", "a", "b.c"], ["r", "a", "b", "c"], ["r", "d.e"]), [
    'r["a.b"].c',
    'r.a["b.c"]',
    "r.a.b.c",
    "r.d.e",
  ]);
});

Deno.test("shownNames: a key that is written like another path is no other path", () => {
  const names = shown(["a.b"], ["a", "b"], ['["a.b"]'], ["", ""], ["."], ["x"], ["", "x"], ["x", ""]);
  assertEquals(new Set(names).size, 8, names.join(" "));
});
