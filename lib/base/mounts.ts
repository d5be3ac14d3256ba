/** The file system that holds a folder, by proc(5) `mounts`. */

/** `ext4`, `nfs4`, `overlay`; empty if no mount holds it. The deepest mount does; of several at one place the last. */
export function fileSystemOf(folder: string, mounts: string): string {
  const all = mounts.split("\n").map((line) => line.split(" ")).map(([, at = "", type = ""]) => ({
    at: unescaped(at),
    type,
  }));
  const found = all.filter(({ at }) => at === "/" || `${folder}/`.startsWith(`${at}/`));
  return found.reduce((one, other) => other.at.length >= one.at.length ? other : one, { at: "", type: "" })
    .type;
}

/** A blank in a path is `\040`. */
function unescaped(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(parseInt(octal, 8)));
}
