/** Archives of single programs: `.tar.gz` for Linux, `.zip` for Windows, each with one folder. */

import { SvcError } from "../../../lib/base/error.ts";
import { type Executable, execute, exists, ROOT, type Target } from "../compiler.ts";
import { zipOf } from "../zip.ts";
import { type DistributedBuild, revisionTime } from "./build.ts";

const PROGRAM_MODE = 0o755;

/** Makes `NAME-VERSION-TARGET.tar.gz` or `.zip` in `folder`; returns its file name. */
export async function makeArchive(
  { name }: Executable,
  target: Target,
  { path, notices, version, folder }: DistributedBuild,
): Promise<string> {
  const title = `${name}-${version}-${target.name}`;
  const manual = await readManual(name);
  const files = [
    { from: path, name: `${name}${target.suffix}`, mode: PROGRAM_MODE },
    { from: `${ROOT}LICENSE`, name: "LICENSE", mode: 0o644 },
    { from: notices, name: "THIRD_PARTY_NOTICES.txt", mode: 0o644 },
    ...manual ? [{ from: manual, name: `${name}.1`, mode: 0o644 }] : [],
  ];

  if (target.name.startsWith("windows")) {
    const read = files.map(async ({ from, name, mode }) => ({
      name: `${title}/${name}`,
      content: await Deno.readFile(from),
      mode,
    }));
    await Deno.writeFile(`${folder}/${title}.zip`, zipOf(await Promise.all(read)));
    return `${title}.zip`;
  }

  const tree = `${folder}/.archive/${title}`;
  await Deno.mkdir(tree, { recursive: true });
  for (const { from, name, mode } of files) {
    await Deno.copyFile(from, `${tree}/${name}`);
    await Deno.chmod(`${tree}/${name}`, mode);
  }
  await packTree(`${folder}/.archive`, title, `${folder}/${title}.tar.gz`);
  await Deno.remove(`${folder}/.archive`, { recursive: true });
  return `${title}.tar.gz`;
}

/** The same files give the same archive: sorted, of root, and as old as the revision. */
async function packTree(parent: string, name: string, file: string): Promise<void> {
  const same = [
    "--sort=name",
    "--owner=0",
    "--group=0",
    "--numeric-owner",
    `--mtime=@${await revisionTime()}`,
  ];
  const args = [
    "--create",
    "--use-compress-program=gzip -9n",
    ...same,
    "--directory",
    parent,
    "--file",
    file,
    name,
  ];
  const { code, errors } = await execute("tar", args);
  if (code !== 0) throw new SvcError("internal", `Cannot make ${file}: ${errors.trim()}`);
}

/** The path of a program's manual page, if it has one. */
export async function readManual(program: string): Promise<string | undefined> {
  const path = `${ROOT}docs/man/${program}.1`;
  return await exists(path) ? path : undefined;
}
