import { assertEquals } from "@std/assert";
import { brokenRules } from "./floating_promises.ts";

const CASES = `
declare const given: Promise<number>, thenable: { then(handler: (value: number) => void): void };
declare function chosen(): number | Promise<number>;
declare function plain(): number;
async function work(): Promise<void> {}
const kept = [] as Promise<void>[];
export async function cases(flag: boolean) {
  work(); // floats
  chosen(); // floats
  flag && work(); // floats
  flag ? plain() : work(); // floats
  (work()); // floats
  given.then(() => {}); // floats
  given.finally(() => {}); // floats
  ((): typeof thenable => thenable)(); // floats
  kept.map(async () => await work()); // nobody calls it a promise
  await work();
  void work();
  plain();
  kept[0] = work();
  kept.length = flag ? 1 : plain() === 2 ? 3 : 4; // nested
  kept.length = flag ? (plain() === 2 ? 3 : 4) : 1; // nested
  kept.length = (flag ? true : plain() === 2) ? 3 : 4; // nested
  kept.length = Math.max(flag ? 1 : 2, plain());
  given.catch(() => {});
  given.then(() => {}, () => {}).finally(() => {});
  return work();
}
`;

Deno.test("a promise that a statement drops is found, one that is kept, awaited or left on purpose is not; so is a nested condition", async () => {
  const file = await Deno.makeTempFile({ suffix: ".ts" });
  try {
    await Deno.writeTextFile(file, CASES);
    const wanted = CASES.split("\n").flatMap((text, at) => text.endsWith("// floats") ? [at + 1] : []);
    const { floating, nested } = await brokenRules([file]);
    assertEquals(floating.map(({ line }) => line), wanted);
    const nestedLines = CASES.split("\n").flatMap((text, at) => text.endsWith("// nested") ? [at + 1] : []);
    assertEquals(nested.map(({ line }) => line), nestedLines);
  } finally {
    await Deno.remove(file);
  }
});
