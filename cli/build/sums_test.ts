import { Buffer } from "node:buffer";
import { createPublicKey, generateKeyPairSync, sign, verify } from "node:crypto";
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { PROJECT_KEY, verifiedSums } from "../../lib/base/release/sums.ts";
import { ROOT } from "./compiler.ts";
import { outputOf } from "../../tests/support/needing.ts";
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

Deno.test("README.md and the installers have the key that release publish checks by default", async () => {
  for (const file of ["README.md", "install/install.sh", "install/install.ps1"]) {
    assertStringIncludes(await Deno.readTextFile(`${ROOT}${file}`), PROJECT_KEY);
  }
});

const openssl = (await outputOf("openssl", "version"))?.startsWith("OpenSSL 3") ?? false;

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

/** Reads lines of key, message and signature in hexadecimal digits; answers each. */
const HARNESS = `
public static class Harness
{
    static byte[] Bytes(string text)
    {
        byte[] bytes = new byte[text.Length / 2];
        for (int at = 0; at < bytes.Length; at++) bytes[at] = System.Convert.ToByte(text.Substring(at * 2, 2), 16);
        return bytes;
    }

    public static void Main()
    {
        for (string line; (line = System.Console.ReadLine()) != null;)
        {
            string[] words = line.Split(' ');
            System.Console.WriteLine(SvcEd25519.Verify(Bytes(words[0]), Bytes(words[1]), Bytes(words[2])) ? "yes" : "no");
        }
    }
}
`;
const mono = await outputOf("mcs", "--version") !== undefined;

Deno.test({
  name: `install.ps1 knows the project's signatures${
    mono ? "" : " (needs mono-mcs, which is not installed here)"
  }`,
  ignore: !mono,
  fn: async () => {
    const script = await Deno.readTextFile(`${ROOT}install/install.ps1`);
    const [, source] = /\$ed25519 = @'\n([\s\S]*?)\n'@\n/.exec(script) ?? [];
    const cases: (readonly [key: Uint8Array, message: Uint8Array, signature: Uint8Array])[] = [];
    for (let number = 0; number < 8; number++) {
      const { publicKey, privateKey } = generateKeyPairSync("ed25519");
      const key = new Uint8Array(publicKey.export({ format: "der", type: "spki" })).slice(-32);
      const message = new TextEncoder().encode("a line of the sums\n".repeat(number * 40));
      const signature = new Uint8Array(sign(null, message, privateKey));
      cases.push([key, message, signature]);
      const changed = (bytes: Uint8Array, at: number) =>
        bytes.map((byte, index) => index === at ? byte ^ 4 : byte);
      if (message.length > 0) cases.push([key, changed(message, number), signature]);
      for (const at of [0, 31, 32, 63]) cases.push([key, message, changed(signature, at)]);
      cases.push([changed(key, number), message, signature]);
      cases.push([key, message, signature.slice(1)], [key, message, new Uint8Array(64)]);
      cases.push([key, message, withOrder(signature)]);
    }
    // The neutral element as key and R, with S = 0, would sign everything.
    const neutral = Uint8Array.from({ length: 32 }, (_, at) => at === 0 ? 1 : 0);
    cases.push([neutral, new Uint8Array(3), Uint8Array.from([...neutral, ...new Uint8Array(32)])]);
    const folder = await Deno.makeTempDir({ prefix: "svc-mono-" });
    try {
      await Deno.writeTextFile(`${folder}/check.cs`, source + HARNESS);
      const args = ["-r:System.Numerics", "-langversion:5", `-out:${folder}/check.exe`, `${folder}/check.cs`];
      const compiled = await new Deno.Command("mcs", { args }).output();
      assert(compiled.success, new TextDecoder().decode(compiled.stderr));
      const lines = cases.map((one) => `${one.map((bytes) => bytes.toHex()).join(" ")}\n`).join("");
      const child = new Deno.Command("mono", {
        args: [`${folder}/check.exe`],
        stdin: "piped",
        stdout: "piped",
      })
        .spawn();
      const writer = child.stdin.getWriter();
      await writer.write(new TextEncoder().encode(lines));
      await writer.close();
      const { stdout } = await child.output();
      const wanted = cases.map((one) => isSigned(...one) ? "yes" : "no");
      assertEquals(wanted.filter((one) => one === "yes").length >= 8, true);
      assertEquals(new TextDecoder().decode(stdout).trim().split(/\r?\n/), wanted);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test("install.ps1 checks SVC_SUMS as install.sh does, before it runs the agent", async () => {
  const script = await Deno.readTextFile(`${ROOT}install/install.ps1`);
  const [check, run] = [
    script.indexOf("if ($env:SVC_SUMS) { Test-Sums $file }"),
    script.indexOf("& $file --install"),
  ];
  assert(check > 0 && check < run, `${check} ${run}`);
  for (
    const why of [
      "there is no $sums, or no $sums.sig",
      "has not signed $sums",
      "has no svc-agent.exe with SHA-256",
    ]
  ) {
    assertStringIncludes(script, why);
  }
});

function isSigned(key: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  const spki = Uint8Array.from([...Uint8Array.fromHex("302a300506032b6570032100"), ...key]);
  try {
    const publicKey = createPublicKey({ key: Buffer.from(spki), format: "der", type: "spki" });
    return signature.length === 64 && verify(null, message, publicKey, signature);
  } catch {
    return false;
  }
}

/** The same signature with another S, which strict checks refuse. */
function withOrder(signature: Uint8Array): Uint8Array {
  let s = 2n ** 252n + 27742317777372353535851937790883648493n;
  for (let at = 0; at < 32; at++) s += BigInt(signature[32 + at]) << BigInt(8 * at);
  const bytes = Array.from({ length: 32 }, (_, at) => Number(s >> BigInt(8 * at) & 255n));
  return Uint8Array.from([...signature.slice(0, 32), ...bytes]);
}
