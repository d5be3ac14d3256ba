/** What minor garbage collections leave of items that come and go, measured in a process of its own. */

/**
 * The bytes that each of `ways` still holds when nearly all items are gone. `ways` is JavaScript, run after `setup`, for
 * a list of pairs: a function that puts an item under a number, and one that takes the item of a number out, if there is
 * one. What holds the items has become old before they come.
 */
export async function bytesHeld(setup: string, ways: string): Promise<number[]> {
  const script = `
    ${setup}
    for (const [put, takeOut] of ${ways}) {
      put(0, {});
      for (let age = 0; age < 2; age++) gc({ type: "major" });
      const before = Deno.memoryUsage().heapUsed;
      for (let number = 1; number <= 10_000; number++) {
        put(number, Array(1000).fill(number));
        takeOut(number - 8);
        if (number % 500 === 0) gc({ type: "minor" });
      }
      gc({ type: "minor" });
      console.log(Deno.memoryUsage().heapUsed - before);
    }
  `;
  const args = ["eval", "--v8-flags=--expose-gc", script];
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout).trim().split("\n").map(Number);
}
