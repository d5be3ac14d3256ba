/** The source files of the project, for tests that hold rules over all of them. */

const ROOT = new URL("../../", import.meta.url);

export interface SourceFile {
  /** From the project's folder: `lib/base/clock.ts`. */
  readonly path: string;
  readonly text: string;
}

/** All `.ts` files in folders (`lib/`), except declarations; sorted by path. */
export async function sourceFiles(folders: readonly string[]): Promise<SourceFile[]> {
  const found: SourceFile[] = [];
  const visit = async (folder: string) => {
    for await (const { name, isDirectory } of Deno.readDir(new URL(folder, ROOT))) {
      const path = `${folder}${name}`;
      if (name === "node_modules") continue;
      if (isDirectory) await visit(`${path}/`);
      else if (/(?<!\.d)\.ts$/.test(name)) {
        found.push({ path, text: await Deno.readTextFile(new URL(path, ROOT)) });
      }
    }
  };
  for (const folder of folders) await visit(folder);
  return found.sort((a, b) => a.path < b.path ? -1 : 1);
}
