import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../error.ts";
import { strangersFiles } from "./strangers.ts";

const LIMITS = { filesMax: 10, bytesMax: 1_000 };
const unix = Deno.build.os !== "windows";

async function withOutput(run: (output: string, outside: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-output-" });
  try {
    await Deno.mkdir(`${folder}/output/tmp`, { recursive: true });
    await Deno.writeTextFile(`${folder}/secret`, "the signing key");
    await run(`${folder}/output`, `${folder}/secret`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** The published files, and the skipped ones. */
async function collected(output: string, limits = LIMITS) {
  const files: Record<string, string> = {};
  const leftOut: string[] = [];
  for await (
    const { path, content } of strangersFiles(
      output,
      { ...limits, except: "tmp" },
      (path, why) => leftOut.push(`${path} ${why}`),
    )
  ) {
    files[path] = "";
    for await (const chunk of content) files[path] += new TextDecoder().decode(chunk);
  }
  return { files, leftOut };
}

Deno.test("strangersFiles: yields the files of a folder and its subfolders, except the excluded folder", () =>
  withOutput(async (output) => {
    await Deno.mkdir(`${output}/deep/tmp`, { recursive: true });
    for (const path of ["model.onnx", "deep/a", "deep/tmp/b", "tmp/left"]) {
      await Deno.writeTextFile(`${output}/${path}`, path);
    }
    const files = { "deep/a": "deep/a", "deep/tmp/b": "deep/tmp/b", "model.onnx": "model.onnx" };
    assertEquals(await collected(output), { files, leftOut: [] });
    assertEquals(await collected(output, { filesMax: 3, bytesMax: 26 }), { files, leftOut: [] });
    await assertRejects(() => collected(output, { ...LIMITS, bytesMax: 25 }), SvcError, "more than 25 bytes");
    await assertRejects(() => collected(output, { ...LIMITS, filesMax: 2 }), SvcError, "more than 2 files");
    await Deno.truncate(`${output}/model.onnx`, 1e12);
    const error = await assertRejects(() => collected(output), SvcError, "files of more than 1000 bytes");
    assertEquals(error.code, "resource_exhausted");
  }));

Deno.test({
  name: "strangersFiles: skips links, hard links and special files",
  // There are no such things on Windows without rights of its own.
  ignore: !unix,
  fn: () =>
    withOutput(async (output, secret) => {
      await Deno.symlink(secret, `${output}/link.onnx`);
      await Deno.symlink("/etc", `${output}/folder`);
      await Deno.link(secret, `${output}/hard.onnx`);
      await new Deno.Command("mkfifo", { args: [`${output}/pipe`] }).output();
      await Deno.writeTextFile(`${output}/model.onnx`, "it");
      assertEquals(await collected(output), {
        files: { "model.onnx": "it" },
        leftOut: [
          "folder is a link, or cannot be opened",
          "hard.onnx has more names than this",
          "link.onnx is a link, or cannot be opened",
          "pipe is no file",
        ],
      });
      await Deno.rename(output, `${output}.away`);
      await Deno.symlink("/etc", output);
      assertEquals((await collected(output)).files, {});
    }),
});

Deno.test({
  name: "strangersFiles: does not follow a folder that becomes a link during the read",
  // Elsewhere a folder cannot be held open.
  ignore: Deno.build.os !== "linux",
  fn: () =>
    withOutput(async (output, secret) => {
      await Deno.mkdir(`${output}/model`);
      await Deno.writeTextFile(`${output}/model/a`, "ours");
      await Deno.writeTextFile(`${output}/model/secret`, "ours too");
      const seen: string[] = [];
      for await (const { content } of strangersFiles(output, LIMITS, () => {})) {
        for await (const chunk of content) seen.push(new TextDecoder().decode(chunk));
        if (seen.length > 1) continue;
        await Deno.rename(`${output}/model`, `${output}/away`);
        await Deno.symlink(secret.slice(0, secret.lastIndexOf("/")), `${output}/model`);
      }
      assertEquals(seen, ["ours", "ours too"]);
    }),
});
