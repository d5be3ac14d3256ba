import { assertEquals, assertStringIncludes } from "@std/assert";
import { whyRefused } from "./refusal.ts";

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
