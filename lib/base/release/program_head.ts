/**
 * The beginning of a file that claims to be a program: whether it is one for a system, and what it is otherwise.
 *
 * The agent checks downloads with it, and the control plane what it is given to publish, so that no device downloads a
 * file that it must refuse.
 */

/** Length of a file's beginning that suffices to recognize its type. */
export const HEAD_BYTES = 4096;

/** The processors in the header of a program for Linux, and in one for Windows. */
const ELF_MACHINES: { readonly [arch: string]: number } = { x64: 0x3e, amd64: 0x3e, arm64: 0xb7 };
const PE_MACHINES: { readonly [arch: string]: number } = { x64: 0x8664, amd64: 0x8664, arm64: 0xaa64 };

/** Why a file with this beginning is not a program for this system; `undefined` if it is one. */
export function notAProgram(
  head: Uint8Array,
  { os, arch }: { os: string; arch: string },
): string | undefined {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  const wanted = `wanted a program for ${os} on ${arch}`;
  if (os === "windows") {
    const at = head.length >= 64 && head[0] === 0x4d && head[1] === 0x5a ? view.getUint32(0x3c, true) : -1;
    if (at < 0 || at + 6 > head.length || view.getUint32(at, true) !== 0x4550) {
      return `found ${kindOf(head)}, ${wanted}`;
    }
    const machine = view.getUint16(at + 4, true);
    return machine === PE_MACHINES[arch] ? undefined : `found a program for another processor, ${wanted}`;
  }
  if (os === "darwin") {
    const magic = head.length >= 4 ? view.getUint32(0) : 0;
    return [0xcffaedfe, 0xcafebabe].includes(magic) ? undefined : `found ${kindOf(head)}, ${wanted}`;
  }
  if (head.length < 20 || view.getUint32(0) !== 0x7f454c46) return `found ${kindOf(head)}, ${wanted}`;
  const fits = head[4] === 2 && view.getUint16(18, true) === ELF_MACHINES[arch];
  return fits ? undefined : `found a program for another processor, ${wanted}`;
}

export const WEB_PAGE = "a web page";

/** First bytes of compressed files and archives. */
const PACKED: readonly (readonly [kind: string, ...bytes: number[]])[] = [
  ["a gzip file", 0x1f, 0x8b],
  ["an xz file", 0xfd, 0x37, 0x7a, 0x58, 0x5a],
  ["a zip file", 0x50, 0x4b, 0x03, 0x04],
  ["a bzip2 file", 0x42, 0x5a, 0x68],
  ["a zstd file", 0x28, 0xb5, 0x2f, 0xfd],
];

/**
 * What a server temporarily sends instead of a download, judged by its first bytes: nothing, a web page (the sign-in of
 * a Wi-Fi, a proxy's error), JSON, another text, or something compressed. `undefined` for everything else.
 */
export function answerInPlace(head: Uint8Array): string | undefined {
  if (head.length === 0) return "an empty file";
  const packed = PACKED.find(([, ...bytes]) => bytes.every((byte, at) => head[at] === byte));
  if (packed) return packed[0];
  const text = beginningOf(head);
  if (text.startsWith("#!")) return undefined;
  if (text.startsWith("<")) return WEB_PAGE;
  if (/^[{[]/.test(text)) return "JSON";
  // deno-lint-ignore no-control-regex
  return /[\x00-\x08\x0e-\x1f\x7f\ufffd]/.test(text) ? undefined : "a text";
}

function beginningOf(head: Uint8Array): string {
  return new TextDecoder().decode(head.subarray(0, 200)).trimStart().toLowerCase();
}

function kindOf(head: Uint8Array): string {
  const inPlace = answerInPlace(head);
  if (inPlace !== undefined) return inPlace;
  const text = beginningOf(head);
  if (text.startsWith("#!")) return "a script";
  if (text.startsWith("\x7felf")) return "a program for Linux";
  if (text.startsWith("mz")) return "a program for Windows";
  return "something that is not a program";
}
