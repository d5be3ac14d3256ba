import { assertEquals } from "@std/assert";
import { brokenRules } from "./floating_promises.ts";

const CASES = `
declare const given: Promise<number>, thenable: { then(handler: (value: number) => void): void };
declare function chosen(): number | Promise<number>;
declare function plain(): number;
declare function same<T>(value: T): T;
declare function either(value: string): void;
declare function either(value: number): Promise<void>;
declare const loose: any, perhaps: undefined | { run?(): Promise<void>; note?(): void };
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
  same(given); // floats
  same(async () => {})(); // floats
  either(1); // floats
  perhaps?.run?.(); // floats
  import("node:path"); // floats
  same(1);
  either("a");
  loose.run(given);
  perhaps?.note?.();
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
