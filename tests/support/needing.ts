/**
 * Tests with needs that a computer may not meet: a foreign program, a compiler, a folder of samples. If a need is
 * missing, the test is ignored, and its name says why.
 */

/** A test's need, or why it is missing. */
export type Needed<T> = { readonly found: T } | { readonly missing: string };

/** Registers a test that gets its needs. */
export function needingTest<T>(
  name: string,
  needed: Needed<T>,
  run: (found: T, t: Deno.TestContext) => void | Promise<void>,
): void {
  if ("found" in needed) Deno.test(name, (t) => run(needed.found, t));
  else Deno.test({ name: `${name} (not run: ${needed.missing})`, ignore: true, fn: () => {} });
}

/** Two needs at once. */
export async function both<A, B>(
  ...[one, other]: [Promise<Needed<A>>, Promise<Needed<B>>]
): Promise<Needed<[A, B]>> {
  const [a, b] = [await one, await other];
  if ("missing" in a) return a;
  return "missing" in b ? b : { found: [a.found, b.found] };
}

/** What a program prints, if it is here and succeeds. */
export async function outputOf(program: string, ...args: string[]): Promise<string | undefined> {
  try {
    const { success, stdout } = await new Deno.Command(program, { args, stderr: "null" }).output();
    return success ? new TextDecoder().decode(stdout) : undefined;
  } catch {
    // There is none.
    return undefined;
  }
}
