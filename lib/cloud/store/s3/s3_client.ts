/**
 * The few requests to an S3-compatible store that a control plane needs.
 *
 * Stores and servers before them differ, so what an answer should have is looked for: a list without its root is not an
 * empty list, and a size that is missing is not zero.
 *
 * Source: Amazon S3 API Reference, 2006-03-01.
 */

import { assert } from "../../../base/error.ts";
import { childOf, childrenOf, type Element, textIn } from "../../../base/xml.ts";
import { encodedKey, S3Channel, type S3ClientParts, type S3Request } from "./s3_channel.ts";
import { S3Refusal, s3Refusal } from "./s3_refusal.ts";

/** An object in a list. */
export interface S3Object {
  readonly key: string;
  readonly modifiedMs: number;
}

/** An upload in parts that is not finished. */
export interface S3Upload extends S3Object {
  readonly uploadId: string;
}

/** A part of an upload. */
export interface S3Part {
  readonly number: number;
  readonly etag: string;
}

/** The root of a list of objects. */
const OBJECTS = "ListBucketResult";

/** An object, or the rest of one. */
export interface S3Content {
  /** The size of the whole object, if the answer states it. */
  readonly bytes?: number;
  /** Throws `unavailable` if the connection breaks. */
  readonly pieces: AsyncGenerator<Uint8Array>;
}

export class S3Client {
  readonly #channel: S3Channel;
  readonly #bucket: string;

  constructor(parts: S3ClientParts) {
    this.#channel = new S3Channel(parts);
    this.#bucket = parts.address.bucket;
  }

  /** Bytes of an object; `undefined` if there is none. */
  async size(key: string): Promise<number | undefined> {
    const { status, headers } = await this.#channel.sendOnly({ method: "HEAD", key }, [404]);
    if (status === 404) return undefined;
    const length = headers.get("content-length");
    if (length === null) throw s3Refusal("HEAD", "it gave no Content-Length");
    return Number(length);
  }

  /** An object from byte `offset` on; `undefined` if there is none. */
  async get(key: string, offset: number): Promise<S3Content | undefined> {
    const headers = offset > 0 ? { range: `bytes=${offset}-` } : undefined;
    const answer = await this.#found({ method: "GET", key, headers });
    if (!answer) return undefined;
    if (answer.status === 416 || !answer.body) {
      await answer.body?.cancel();
      return { bytes: wholeBytes(answer), pieces: nothing() };
    }
    if (firstByte(answer) !== offset) {
      await answer.body.cancel();
      throw s3Refusal("GET", "it ignores ranges");
    }
    return { bytes: wholeBytes(answer), pieces: this.#channel.pieces(answer.body) };
  }

  async put(key: string, body: Uint8Array<ArrayBuffer>): Promise<void> {
    etagOf(await this.#channel.sendOnly({ method: "PUT", key, body }));
  }

  /** Copies an object of at most 5 GiB within the store; `false` if there is none. */
  async copy(from: string, to: string): Promise<boolean> {
    const headers = { "x-amz-copy-source": `/${this.#bucket}/${encodedKey(from)}` };
    const request = { method: "PUT", key: to, headers } as const;
    return await this.#channel.document(request, ["CopyObjectResult"], [404]) !== undefined;
  }

  /** Removes an object; there may be none. */
  async remove(key: string): Promise<void> {
    await this.#channel.sendOnly({ method: "DELETE", key }, [404]);
  }

  /** Objects whose keys begin with `prefix`, page by page. */
  async *list(prefix: string): AsyncGenerator<S3Object> {
    for (let token: string | undefined = "";;) {
      const query: Record<string, string> = { "list-type": "2", prefix };
      if (token) query["continuation-token"] = token;
      const page = await this.#page(query);
      for (const entry of childrenOf(page, "Contents")) {
        const object = { key: keyIn(entry), modifiedMs: this.#timeIn(entry, "LastModified") };
        // A store may not know prefixes.
        if (object.key.startsWith(prefix)) yield object;
      }

      const next = textIn(page, "NextContinuationToken");
      if (textIn(page, "IsTruncated") !== "true") return;
      if (!next || next === token) throw s3Refusal("GET", "it gave a part of a list, and no way to the rest");
      token = next;
    }
  }

  /** Unfinished uploads in parts whose keys begin with `prefix`. Throws `unimplemented`: some stores have no such list. */
  async *uploads(prefix: string): AsyncGenerator<S3Upload> {
    for (let last = "", markers: Record<string, string> = {};;) {
      const query = { uploads: "", prefix, ...markers };
      const page: Element = await this.#page(query, "ListMultipartUploadsResult");
      // A store that does not know this list gives that of the objects.
      if (page.nodeName === OBJECTS) throw s3Refusal("GET", "it has no list of uploads", { status: 501 });
      for (const entry of childrenOf(page, "Upload")) {
        const [key, uploadId] = [keyIn(entry), textIn(entry, "UploadId")];
        if (!uploadId || !key.startsWith(prefix)) continue;
        yield { key, uploadId, modifiedMs: this.#timeIn(entry, "Initiated") };
      }

      const [key, upload] = [textIn(page, "NextKeyMarker"), textIn(page, "NextUploadIdMarker")];
      const next = JSON.stringify([key, upload]);
      if (textIn(page, "IsTruncated") !== "true") return;
      if (!key || next === last) throw s3Refusal("GET", "it gave a part of a list, and no way to the rest");
      last = next;
      markers = { "key-marker": key, ...upload && { "upload-id-marker": upload } };
    }
  }

  /** Begins an upload in parts; returns its id. */
  async beginUpload(key: string): Promise<string> {
    const request = { method: "POST", key, query: { uploads: "" } } as const;
    const begun = await this.#channel.document(request, ["InitiateMultipartUploadResult"]);
    const id = begun && textIn(begun, "UploadId");
    if (!id) throw s3Refusal("POST", "it gave no UploadId");
    return id;
  }

  /** Every part but the last has at least 5 MiB; numbers begin with 1. */
  async putPart(
    key: string,
    uploadId: string,
    number: number,
    body: Uint8Array<ArrayBuffer>,
  ): Promise<S3Part> {
    const query = { partNumber: String(number), uploadId };
    const answer = await this.#channel.sendOnly({ method: "PUT", key, query, body });
    return { number, etag: etagOf(answer) };
  }

  async finishUpload(key: string, uploadId: string, parts: readonly S3Part[]): Promise<void> {
    const list = parts.map(({ number, etag }) =>
      `<Part><PartNumber>${number}</PartNumber><ETag>${
        etag.replaceAll("&", "&amp;").replaceAll("<", "&lt;")
      }</ETag></Part>`
    );
    const body = new TextEncoder().encode(
      `<CompleteMultipartUpload>${list.join("")}</CompleteMultipartUpload>`,
    );
    const request = { method: "POST", key, query: { uploadId }, body } as const;
    if (await this.#channel.document(request, ["CompleteMultipartUploadResult"], [404])) return;
    // If the answer was lost, the upload may be gone because it is complete.
    if (await this.size(key) === undefined) throw s3Refusal("POST", "there is no such upload");
  }

  async abandonUpload(key: string, uploadId: string): Promise<void> {
    await this.#channel.sendOnly({ method: "DELETE", key, query: { uploadId } }, [404]);
  }

  /** `undefined` if there is no such object. A missing bucket, or another server's 404, does not say so. */
  async #found(request: S3Request): Promise<Response | undefined> {
    try {
      return await this.#channel.send(request, [416]);
    } catch (error) {
      const isMissing = error instanceof S3Refusal && error.facts.status === 404 &&
        (error.reason === "NoSuchKey" || error.facts.isEmpty);
      if (isMissing) return undefined;
      throw error;
    }
  }

  async #page(query: Readonly<Record<string, string>>, ...roots: readonly string[]): Promise<Element> {
    const page = await this.#channel.document({ method: "GET", key: "", query }, [OBJECTS, ...roots]);
    assert(page, "a list without a page");
    return page;
  }

  /** A time in this computer's clock; one that cannot be read never comes. */
  #timeIn(entry: Element, name: string): number {
    const ms = Date.parse(textIn(entry, name) ?? "");
    return Number.isNaN(ms) ? Infinity : this.#channel.ownMs(ms);
  }
}

function keyIn(entry: Element): string {
  const key = childOf(entry, "Key")?.textContent;
  if (!key) throw s3Refusal("GET", "its list has an entry without a key");
  return key;
}

/** What a store answers that has the bytes; a server on the way may answer otherwise. */
function etagOf({ headers }: Response): string {
  const etag = headers.get("etag");
  if (!etag) throw s3Refusal("PUT", "it gave no ETag");
  return etag;
}

/** The place of the answer's first byte in the object. */
function firstByte({ status, headers }: Response): number {
  if (status !== 206) return 0;
  return Number(/^bytes (\d+)-/.exec(headers.get("content-range") ?? "")?.[1] ?? NaN);
}

function wholeBytes({ status, headers }: Response): number | undefined {
  const [, total] = /\/(\d+)$/.exec(headers.get("content-range") ?? "") ?? [];
  const length = status === 200 ? headers.get("content-length") : null;
  const bytes = total ?? length ?? undefined;
  return bytes === undefined ? undefined : Number(bytes);
}

async function* nothing(): AsyncGenerator<Uint8Array> {}
