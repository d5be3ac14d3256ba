/**
 * The built page as one file: an index of its assets, then their compressed contents.
 *
 * The build writes it and the program reads it. Each asset is stored in every encoding in which it may be sent, so that
 * the server neither compresses nor unpacks while it answers.
 */

import { SvcError } from "../../base/error.ts";

/** The encodings of stored contents, the smaller one first. */
export const PAGE_ENCODINGS = ["br", "gzip"] as const;
export type PageEncoding = typeof PAGE_ENCODINGS[number];

/** An asset of the page. */
export interface PageAsset {
  /** From the page's address: `index.html`, `assets/app-1a2b3c.js`. */
  readonly path: string;
  readonly contentType: string;
  /** The start of its checksum, in hexadecimal digits. */
  readonly sum: string;
  readonly contents: Readonly<Record<PageEncoding, Uint8Array<ArrayBuffer>>>;
}

/** An entry of the index; extents are `[offset, bytes]` after the index. */
interface IndexEntry {
  readonly path: string;
  readonly contentType: string;
  readonly sum: string;
  readonly extents: Readonly<Record<PageEncoding, readonly [number, number]>>;
}

const MAGIC = "svc-page-1\n";
const LENGTH_BYTES = 4;

export function packAssets(assets: readonly PageAsset[]): Uint8Array<ArrayBuffer> {
  const pieces: Uint8Array[] = [];
  let offset = 0;
  const entries = assets.map(({ path, contentType, sum, contents }): IndexEntry => {
    const place = (encoding: PageEncoding): [number, number] => {
      const content = contents[encoding];
      pieces.push(content);
      offset += content.length;
      return [offset - content.length, content.length];
    };
    return { path, contentType, sum, extents: { br: place("br"), gzip: place("gzip") } };
  });

  const magic = new TextEncoder().encode(MAGIC);
  const index = new TextEncoder().encode(JSON.stringify(entries));
  const start = magic.length + LENGTH_BYTES + index.length;
  const packed = new Uint8Array(start + offset);
  packed.set(magic);
  new DataView(packed.buffer).setUint32(magic.length, index.length);

  packed.set(index, magic.length + LENGTH_BYTES);
  let at = start;
  for (const piece of pieces) {
    packed.set(piece, at);
    at += piece.length;
  }

  return packed;
}

/** The assets by path. Throws `data_loss` if the bytes are not a whole archive. */
export function unpackAssets(bytes: Uint8Array<ArrayBuffer>): ReadonlyMap<string, PageAsset> {
  const broken = (why: string) => new SvcError("data_loss", `the built page is unusable: ${why}`);
  const head = MAGIC.length + LENGTH_BYTES;
  if (bytes.length < head || new TextDecoder().decode(bytes.subarray(0, MAGIC.length)) !== MAGIC) {
    throw broken("it begins with something else");
  }

  const indexBytes = new DataView(bytes.buffer, bytes.byteOffset).getUint32(MAGIC.length);
  const start = head + indexBytes;
  if (start > bytes.length) throw broken("its index is cut off");

  const entries: IndexEntry[] = JSON.parse(new TextDecoder().decode(bytes.subarray(head, start)));
  return new Map(entries.map(({ path, contentType, sum, extents }) => {
    const content = ([offset, length]: readonly [number, number]) => {
      if (start + offset + length > bytes.length) throw broken(`${path} is cut off`);
      return bytes.subarray(start + offset, start + offset + length);
    };
    return [path, {
      path,
      contentType,
      sum,
      contents: { br: content(extents.br), gzip: content(extents.gzip) },
    }];
  }));
}
