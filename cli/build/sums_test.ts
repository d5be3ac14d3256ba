import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { PROJECT_KEY, verifiedSums } from "../../lib/base/release/sums.ts";
import { ROOT } from "./compiler.ts";
import { bytesSum, makeSignKey, readSignKey, writeSums } from "./sums.ts";

const PROVENANCE = { version: "1.2.3", revision: "abc", deno: "2.9.6", lockSha256: "0".repeat(64) };

async function withBuild(test: (folder: string, key: string, pem: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-sums-" });
  try {
    const key = await makeSignKey(`${folder}/key.pem`, ROOT);
    const pem = await readSignKey(`${folder}/key.pem`, ROOT);
    await Deno.writeTextFile(`${folder}/svc-server`, "program");
    await writeSums(folder, ["svc-server", "svc-none"], PROVENANCE, pem);
    await test(folder, key, pem);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("SHA256SUMS has provenance, and only its key's signature makes it count", () =>
  withBuild(async (folder, key) => {
    const text = await Deno.readTextFile(`${folder}/SHA256SUMS`);
    const signature = await Deno.readFile(`${folder}/SHA256SUMS.sig`);
    const sum = await bytesSum(new TextEncoder().encode("program"));
    assertEquals([...verifiedSums(text, signature, key)], [["svc-server", sum]]);
    for (const fact of ["# version 1.2.3", "# revision abc", "# deno 2.9.6", "# deno.lock 000"]) {
      assertStringIncludes(text, fact);
    }
    assertThrows(() => verifiedSums(text, signature, PROJECT_KEY), SvcError, "is not signed by the key");
    assertThrows(
      () => verifiedSums(text.replace(sum, "0".repeat(64)), signature, key),
      SvcError,
      "not signed",
    );
    assertThrows(() => verifiedSums(text.replace("abc", "abd"), signature, key), SvcError, "not signed");
    assertThrows(() => verifiedSums(text, signature.slice(1), key), SvcError, "not signed");
    await writeSums(folder, ["svc-server"], PROVENANCE, undefined);
    await assertRejects(() => Deno.stat(`${folder}/SHA256SUMS.sig`), Deno.errors.NotFound);
  }));

Deno.test("a key of the project lies outside of the tree, is its owner's alone, and is never replaced", () =>
  withBuild(async (folder) => {
    for (const inside of [`${ROOT}key.pem`, `${ROOT}dist/../lib/key.pem`]) {
      await assertRejects(() => makeSignKey(inside, ROOT), SvcError, "wanted one outside of it");
      await assertRejects(() => readSignKey(inside, ROOT), SvcError, "wanted one outside of it");
    }
    await assertRejects(() => makeSignKey(`${folder}/key.pem`, ROOT), Deno.errors.AlreadyExists);
    if (Deno.build.os !== "windows") {
      assertEquals((await Deno.stat(`${folder}/key.pem`)).mode! & 0o777, 0o600);
    }
  }));

Deno.test("README.md and install.sh have the key that release publish checks by default", async () => {
  for (const file of ["README.md", "install/install.sh"]) {
    assertStringIncludes(await Deno.readTextFile(`${ROOT}${file}`), PROJECT_KEY);
  }
});

const openssl = await new Deno.Command("openssl", { args: ["version"] }).output()
  .then(({ stdout }) => new TextDecoder().decode(stdout).startsWith("OpenSSL 3"), () => false);

Deno.test({
  name: "install.sh takes with SVC_SUMS only an agent in sums that the project has signed",
  ignore: !openssl || Deno.build.os === "windows",
  fn: () =>
    withBuild(async (folder, key, pem) => {
      const script = (await Deno.readTextFile(`${ROOT}install/install.sh`)).replace(PROJECT_KEY, key);
      const check = `${script.replace(/main "\$@"\n$/, "")}\nfolder=$1\ncheck_sums\necho taken\n`;
      const outcome = async (sums = `${folder}/SHA256SUMS`) => {
        const args = ["-c", check, "sh", folder];
        const command = new Deno.Command("sh", { args, env: { SVC_SUMS: sums } });
        const { stdout, stderr } = await command.output();
        return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
      };
      await Deno.writeTextFile(`${folder}/svc-agent`, "the agent");
      assertStringIncludes(await outcome(), "has no svc-agent with SHA-256");
      await writeSums(folder, ["svc-server", "svc-agent"], PROVENANCE, pem);
      assertEquals(await outcome(), "taken\n");
      await Deno.writeTextFile(`${folder}/svc-agent`, "another agent");
      assertStringIncludes(await outcome(), "has no svc-agent with SHA-256");
      const sum = await bytesSum(new TextEncoder().encode("another agent"));
      await Deno.writeTextFile(`${folder}/SHA256SUMS`, `${sum}  svc-agent\n`);
      assertStringIncludes(await outcome(), "has not signed");
      assertStringIncludes(await outcome(`${folder}/none`), "there is no");
      assert((await outcome("")).includes("taken"), "without SVC_SUMS nothing is checked");
    }),
});
