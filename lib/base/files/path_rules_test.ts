import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../error.ts";
import { AllowedPaths, type PathRules } from "./path_rules.ts";
import { SystemFiles } from "./system_files.ts";

const unix = Deno.build.os !== "windows";
const files = new SystemFiles();

/** A folder with what callers may read (`open`), what they may not, and links between them. */
async function withTree(test: (root: string) => Promise<void>): Promise<void> {
  const root = await Deno.realPath(await Deno.makeTempDir());
  try {
    await Deno.mkdir(`${root}/open/deep`, { recursive: true });
    await Deno.mkdir(`${root}/home/capture`, { recursive: true });
    for (const path of ["open/a", "open/deep/b", "open/key.pem", "secret", "home/keys", "home/capture/c"]) {
      await Deno.writeTextFile(`${root}/${path}`, path);
    }
    await Deno.symlink("../secret", `${root}/open/link`);
    await Deno.symlink("../home", `${root}/open/folder`);
    await Deno.symlink("open", `${root}/alias`);
    await test(root);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

function rules(root: string, more: Partial<PathRules> = {}): PathRules {
  return {
    folders: [`${root}/open`, `${root}/home/capture`],
    own: [`${root}/home`, `${root}/open/key.pem`],
    setting: "see the settings",
    ...more,
  };
}

Deno.test(
  { name: "path rules: a path is judged by its real path", ignore: !unix },
  () =>
    withTree(async (root) => {
      const allowed = await AllowedPaths.of(rules(root), files);
      const judge = async (path: string) => {
        try {
          return (await allowed.realPath(path)).slice(root.length);
        } catch (error) {
          return SvcError.from(error).code;
        }
      };
      const cases: { readonly [path: string]: string } = {
        [`${root}/open`]: "/open",
        [`${root}/open/a`]: "/open/a",
        [`${root}/open/deep/../a`]: "/open/a",
        [`${root}/alias/deep/b`]: "/open/deep/b",
        [`${root}/open/folder/capture/c`]: "/home/capture/c",
        [`${root}/open/none`]: "not_found",
        [`${root}/open/none/none`]: "not_found",
        [`${root}/open/../secret`]: "permission_denied",
        [`${root}/open/link`]: "permission_denied",
        [`${root}/open/folder/keys`]: "permission_denied",
        [`${root}/open/folder/none`]: "permission_denied",
        [`${root}/open/key.pem`]: "permission_denied",
        [`${root}/openly`]: "permission_denied",
        [`${root}/home`]: "permission_denied",
        [root]: "permission_denied",
        "/": "permission_denied",
        "": "permission_denied",
      };
      for (const [path, wanted] of Object.entries(cases)) assertEquals(await judge(path), wanted, path);
    }),
);

Deno.test("path rules: an allowed folder that holds own files, or is one, keeps them back", async () => {
  const outside = ["/srv", "/srv/app/keys"];
  const plain = { readFolder: () => Promise.resolve([]), realPath: (path: string) => Promise.resolve(path) };
  const of = (folders: string[], own = outside) => AllowedPaths.of({ folders, own, setting: "" }, plain);
  const passes = async (allowed: AllowedPaths, path: string) =>
    await allowed.realPath(path).then(() => true, () => false);
  assertEquals(await passes(await of(["/"], ["/srv/app/keys"]), "/srv/app/other"), true);
  assertEquals(await passes(await of(["/"], ["/srv/app/keys"]), "/srv/app/keys/one"), false);
  assertEquals(await passes(await of(["/srv"]), "/srv/file"), false);
  assertEquals(await passes(await of(["/srv/app"]), "/srv/app/file"), true);
  assertEquals(await passes(await of(["/srv/app"]), "/srv/app/keys"), false);
  assertEquals(await passes(await of([]), "/srv/app/file"), false);
});

Deno.test(
  { name: "openUnlinked opens what was judged, whatever is put in its place", ignore: !unix },
  () =>
    withTree(async (root) => {
      const reads = async (path: string) => {
        const file = await files.openUnlinked(path);
        const text = (await Array.fromAsync(file.pieces(), (piece) => new TextDecoder().decode(piece))).join(
          "",
        );
        await file.close();
        return text;
      };
      const refuses = async (path: string) => {
        const error = await assertRejects(() => reads(path), SvcError);
        assertEquals(error.code, "permission_denied", error.message);
      };
      assertEquals(await reads(`${root}/open/deep/b`), "open/deep/b");
      await refuses(`${root}/open/link`);
      await refuses(`${root}/alias/a`);
      await refuses(`${root}/open/folder/keys`);
      await refuses(`${root}/open/deep`);
      await refuses(`${root}/open/../secret`);

      // Judged, then replaced: the file by a link, a pipe or a second name, then the folder by a link.
      const allowed = await AllowedPaths.of(rules(root), files);
      const real = await allowed.realPath(`${root}/open/deep/b`);
      await Deno.remove(real);
      await Deno.symlink("../../secret", real);
      await refuses(real);
      await Deno.remove(real);
      await new Deno.Command("mkfifo", { args: [real] }).output();
      await refuses(real);
      await Deno.remove(real);
      await Deno.link(`${root}/secret`, real);
      await refuses(real);
      await Deno.rename(`${root}/open/deep`, `${root}/open/former`);
      await Deno.symlink(`${root}/home`, `${root}/open/deep`);
      await refuses(`${root}/open/deep/keys`);
    }),
);

Deno.test({
  name: "openUnlinked: renames by the held path stay in the folder of the file",
  ignore: Deno.build.os !== "linux",
}, () =>
  withTree(async (root) => {
    const file = await files.openUnlinked(`${root}/open/deep/b`);
    await Deno.rename(`${root}/open/deep`, `${root}/former`);
    await Deno.mkdir(`${root}/open/deep`);
    await Deno.writeTextFile(`${root}/open/deep/b`, "of somebody else");
    files.removeFile(file.path);
    await file.close();
    assertEquals(await files.readFolder(`${root}/former`), []);
    assertEquals(await Deno.readTextFile(`${root}/open/deep/b`), "of somebody else");
  }));
