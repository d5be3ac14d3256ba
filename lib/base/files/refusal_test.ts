import { assertEquals, assertStringIncludes } from "@std/assert";
import { whileHeld, whyRefused } from "./refusal.ts";

const hasUsers = Deno.build.os !== "windows";

Deno.test({
  name: "a refusal says whose the folder on the way is, its permissions and what to do",
  ignore: !hasUsers,
  fn: async () => {
    const other = Deno.uid() as number + 54_321;
    const folder = await Deno.makeTempDir();
    try {
      await Deno.chmod(folder, 0o500);
      const missing = `${folder}/state/serve.lock`;
      assertEquals(
        whyRefused(missing),
        `permission denied: ${folder} has the permissions 500; chmod changes them, unless a rule of the system is ` +
          "in the way",
      );
      const refusal = whyRefused(missing, other);
      assertStringIncludes(refusal, `permission denied: ${folder} belongs to `);
      assertStringIncludes(
        refusal,
        `with the permissions 500, and this program runs as uid ${other}: run it as `,
      );
      assertStringIncludes(refusal, `(sudo -u), or give the files to uid ${other} (chown -R)`);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test({
  name: "a refusal of a device proposes no other owner",
  ignore: Deno.build.os !== "linux",
  fn: () => {
    assertEquals(
      whyRefused("/dev/null", 54_321),
      "permission denied: /dev/null belongs to root with the permissions 666, and this program runs as uid 54321",
    );
  },
});

/** Runs an operation that fails `times` times with `error`; gives the pauses, and how it ended. */
async function heldFor(
  times: number,
  error: Error,
): Promise<{ pausesMs: number[]; attempts: number; end: string }> {
  const pausesMs: number[] = [];
  let attempts = 0;
  const run = () => ++attempts <= times ? Promise.reject(error) : Promise.resolve("done");
  const sleep = (ms: number) => Promise.resolve(void pausesMs.push(ms));
  const end = await whileHeld(run, { sleep }).catch((error: Error) => error.message);
  return { pausesMs, attempts, end };
}

Deno.test("whileHeld: waits while a scanner has the file, and not without end", async () => {
  const sharing = new Error("The process cannot access the file because it is being used (os error 32)");
  assertEquals(await heldFor(3, sharing), { pausesMs: [10, 20, 40], attempts: 4, end: "done" });
  const refused = new Deno.errors.PermissionDenied("Zugriff verweigert (os error 5)");
  const { pausesMs, attempts, end } = await heldFor(100, refused);
  assertEquals([attempts, pausesMs.reduce((sum, ms) => sum + ms), end], [9, 2_550, refused.message]);
  for (
    const error of [new Deno.errors.Busy("busy"), new Error("The directory is not empty. (os error 145)")]
  ) {
    assertEquals((await heldFor(1, error)).end, "done");
  }
});

Deno.test("whileHeld: fails at once for every other reason", async () => {
  for (const error of [new Deno.errors.NotFound("gone (os error 2)"), new Error("full (os error 112)")]) {
    assertEquals(await heldFor(1, error), { pausesMs: [], attempts: 1, end: error.message });
  }
});
