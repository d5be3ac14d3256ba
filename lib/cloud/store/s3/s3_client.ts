/**
 * The few requests to an S3-compatible store that a control plane needs.
 *
 * Each request is signed (AWS Signature Version 4) with the sum of its body, so that the store refuses a body that was
 * changed on its way. A request that fails for a temporary reason is repeated, with a growing pause. Every wait has a
 * deadline.
 *
 * Source: Amazon S3 API Reference, 2006-03-01.
 */

import { AwsClient } from "aws4fetch";
import { createHash, randomInt } from "node:crypto";
import type { Clock } from "../../../base/clock.ts";
import { messageOf, SvcError } from "../../../base/error.ts";
import { childrenOf, type Element, parseXml, textIn } from "../../../base/xml.ts";
import type { S3Address, S3Credentials } from "./s3_address.ts";

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

export interface S3ClientParts {
  readonly address: S3Address;
  readonly credentials: S3Credentials;
  readonly clock: Clock;
  readonly fetch?: typeof fetch;
}

interface S3Request {
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE";
  /** Empty for the bucket itself. */
  readonly key: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array<ArrayBuffer>;
}

const TRIES = 4;
const FIRST_PAUSE_MS = 100;
/** Time limit until the headers of an answer, after the time that its body takes on a slow line. */
const ANSWER_MS = 20_000;
/** The same where the store copies or joins gigabytes before it answers. */
const COPIED_MS = 60_000;
/** Speed of a slow line: bytes a millisecond. Sent bytes are not seen here, so a body has the time that it may take. */
const SLOW_LINE = 160;
/** Time limit of a request with all its repetitions, after that of its answer. */
const REPETITION_MS = 20_000;
/** Time limit for silence within an answer's body. */
const SILENCE_MS = 30_000;
/** Limit of an answer that is read as a whole: a list or an error. */
const TEXT_BYTES_MAX = 8 * 1024 * 1024;
const DETAIL_LENGTH_MAX = 200;
/** Statuses of a store that is busy or restarts. */
const PASSING = new Set([408, 425, 429, 500, 502, 503, 504]);
const EMPTY_SUM = createHash("sha256").digest("hex");

/** An object, or the rest of one. */
export interface S3Content {
  /** The size of the whole object, if the answer states it. */
  readonly bytes?: number;
  /** Throws `unavailable` if the connection breaks. */
  readonly pieces: AsyncGenerator<Uint8Array>;
}

/** The store answered with an error. */
export class S3Refusal extends SvcError {
  /** @param isLasting whether the same request fails until somebody changes a setting, a key or the bucket */
  constructor(code: "unavailable" | "unimplemented", message: string, readonly isLasting: boolean) {
    super(code, message);
  }
}

export class S3Client {
  readonly #signer: AwsClient;
  readonly #root: string;

  constructor(private readonly parts: S3ClientParts) {
    const { address: { bucket, endpoint, region }, credentials } = parts;
    this.#signer = new AwsClient({ ...credentials, service: "s3", region, retries: 0 });
    this.#root = endpoint === undefined
      ? `https://${bucket}.s3.${region}.amazonaws.com`
      : `${endpoint}/${bucket}`;
  }

  /** Bytes of an object; `undefined` if there is none. */
  async size(key: string): Promise<number | undefined> {
    const answer = await this.#send({ method: "HEAD", key }, [404]);
    await answer.body?.cancel();
    if (answer.status === 404) return undefined;
    return Number(answer.headers.get("content-length"));
  }

  /** An object from byte `offset` on; `undefined` if there is none. */
  async get(key: string, offset: number): Promise<S3Content | undefined> {
    const headers = offset > 0 ? { range: `bytes=${offset}-` } : undefined;
    const answer = await this.#send({ method: "GET", key, headers }, [404, 416]);
    if (answer.status === 404 || answer.status === 416 || !answer.body) {
      await answer.body?.cancel();
      return answer.status === 404 ? undefined : { bytes: wholeBytes(answer), pieces: nothing() };
    }
    if (offset > 0 && answer.status !== 206) {
      await answer.body.cancel();
      throw refusal("GET", "it ignores ranges");
    }
    return { bytes: wholeBytes(answer), pieces: this.#pieces(answer.body) };
  }

  async put(key: string, body: Uint8Array<ArrayBuffer>): Promise<void> {
    await this.#text({ method: "PUT", key, body });
  }

  /** Copies an object of at most 5 GiB within the store; `false` if there is none. */
  async copy(from: string, to: string): Promise<boolean> {
    const source = `/${this.parts.address.bucket}/${from}`;
    const text = await this.#text({ method: "PUT", key: to, headers: { "x-amz-copy-source": source } }, [
      404,
    ]);
    if (text === undefined) return false;
    // The status is 200 even if a copy fails after its start.
    if (/<Error[\s>]/.test(text)) throw refusal("PUT", text);
    return true;
  }

  /** Removes an object; there may be none. */
  async remove(key: string): Promise<void> {
    await this.#text({ method: "DELETE", key }, [404]);
  }

  /** Objects whose keys begin with `prefix`, page by page. */
  async *list(prefix: string): AsyncGenerator<S3Object> {
    for (let token: string | undefined = "";;) {
      const query: Record<string, string> = { "list-type": "2", prefix };
      if (token) query["continuation-token"] = token;
      const page = await this.#xml({ method: "GET", key: "", query });
      for (const entry of childrenOf(page, "Contents")) {
        yield { key: textIn(entry, "Key") ?? "", modifiedMs: timeIn(entry, "LastModified") };
      }
      token = textIn(page, "NextContinuationToken");
      if (textIn(page, "IsTruncated") !== "true" || !token) return;
    }
  }

  /** Unfinished uploads in parts whose keys begin with `prefix`. Throws `unimplemented`: some stores have no such list. */
  async *uploads(prefix: string): AsyncGenerator<S3Upload> {
    for (let markers: Record<string, string> | undefined = {}; markers;) {
      const page: Element = await this.#xml({
        method: "GET",
        key: "",
        query: { uploads: "", prefix, ...markers },
      });
      for (const entry of childrenOf(page, "Upload")) {
        const [key, uploadId] = [textIn(entry, "Key"), textIn(entry, "UploadId")];
        if (key && uploadId) yield { key, uploadId, modifiedMs: timeIn(entry, "Initiated") };
      }
      const [key, upload] = [textIn(page, "NextKeyMarker"), textIn(page, "NextUploadIdMarker")];
      const isLast = textIn(page, "IsTruncated") !== "true" || !key;
      markers = isLast ? undefined : { "key-marker": key, ...upload && { "upload-id-marker": upload } };
    }
  }

  /** Begins an upload in parts; returns its id. */
  async beginUpload(key: string): Promise<string> {
    const id = textIn(await this.#xml({ method: "POST", key, query: { uploads: "" } }), "UploadId");
    if (!id) throw refusal("POST", "it gave no UploadId");
    return id;
  }

  /** Every part but the last has at least 5 MiB; numbers begin with 1. */
  async putPart(
    key: string,
    uploadId: string,
    number: number,
    body: Uint8Array<ArrayBuffer>,
  ): Promise<S3Part> {
    const answer = await this.#send({
      method: "PUT",
      key,
      query: { partNumber: String(number), uploadId },
      body,
    });
    await answer.body?.cancel();
    const etag = answer.headers.get("etag");
    if (!etag) throw refusal("PUT", "it gave no ETag");
    return { number, etag };
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
    const text = await this.#text({ method: "POST", key, query: { uploadId }, body }, [404]);
    // If the answer was lost, the upload may be gone because it is complete.
    if (text === undefined && await this.size(key) !== undefined) return;
    if (text === undefined || /<Error[\s>]/.test(text)) {
      throw refusal("POST", text ?? "there is no such upload");
    }
  }

  async abandonUpload(key: string, uploadId: string): Promise<void> {
    await this.#text({ method: "DELETE", key, query: { uploadId } }, [404]);
  }

  async #xml(request: S3Request): Promise<Element> {
    return await parseXml(await this.#text(request) ?? "");
  }

  /** An answer as text; `undefined` for one of the `expected` statuses. */
  async #text(request: S3Request, expected: readonly number[] = []): Promise<string | undefined> {
    const answer = await this.#send(request, expected);
    if (expected.includes(answer.status)) {
      await answer.body?.cancel();
      return undefined;
    }
    return await this.#bodyText(answer);
  }

  async #bodyText({ body }: Response): Promise<string> {
    const decoder = new TextDecoder();
    let text = "";
    let bytes = 0;
    for await (const piece of body ? this.#pieces(body) : nothing()) {
      bytes += piece.length;
      if (bytes > TEXT_BYTES_MAX) throw refusal("the answer", `it is longer than ${TEXT_BYTES_MAX} bytes`);
      text += decoder.decode(piece, { stream: true });
    }
    return text;
  }

  /** An answer with a good status or an expected one. A store that says nothing has two attempts' time at most. */
  async #send(request: S3Request, expected: readonly number[] = []): Promise<Response> {
    const { clock } = this.parts;
    const answerMs = answerMsOf(request);
    const endMs = clock.monotonicMs() + answerMs + REPETITION_MS;
    for (let tried = 1;; tried++) {
      const pauseMs = FIRST_PAUSE_MS * 3 ** (tried - 1);
      const waitMs = pauseMs / 2 + randomInt(pauseMs);
      const isLast = () => tried === TRIES || clock.monotonicMs() + waitMs >= endMs;
      try {
        const answer = await this.#sendOnce(
          request,
          Math.max(1, Math.min(answerMs, endMs - clock.monotonicMs())),
        );
        if (answer.ok || expected.includes(answer.status)) return answer;
        const detail = await this.#bodyText(answer).catch(messageOf);
        const error = refusal(request.method, detail || `status ${answer.status}`, answer.status);
        if (!PASSING.has(answer.status) || isLast()) throw error;
      } catch (cause) {
        const passes = !(cause instanceof SvcError);
        if (!passes || isLast()) throw passes ? unreachable(cause) : cause;
      }
      await clock.sleep(waitMs);
    }
  }

  async #sendOnce(
    { method, key, query = {}, headers = {}, body }: S3Request,
    answerMs: number,
  ): Promise<Response> {
    const url = new URL(`${this.#root}/${key}`);
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    const sum = body === undefined ? EMPTY_SUM : createHash("sha256").update(body).digest("hex");
    const signed = await this.#signer.sign(url, {
      method,
      headers: { ...headers, "x-amz-content-sha256": sum },
      body,
    });

    const late = new AbortController();
    const cancel = this.parts.clock.after(
      answerMs,
      () => late.abort(new Error(`no answer within ${Math.ceil(answerMs / 1000)} s`)),
    );
    try {
      return await (this.parts.fetch ?? fetch)(signed, { signal: late.signal, redirect: "manual" });
    } finally {
      cancel();
    }
  }

  /** A body's pieces, each within the deadline. */
  async *#pieces(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
    const reader = body.getReader();
    let isOver = false;
    let isSilent = false;
    // A canceled reader ends as if the body were complete.
    const endSilent = () => {
      isSilent = true;
      reader.cancel().catch(() => {});
    };

    try {
      while (true) {
        const cancel = this.parts.clock.after(SILENCE_MS, endSilent);
        const { done, value } = await reader.read().finally(cancel);
        if (isSilent) throw new Error(`it sent nothing for ${SILENCE_MS / 1000} s`);
        if (done) break;
        yield value;
      }

      isOver = true;
    } catch (cause) {
      isOver = true;
      throw unreachable(cause);
    } finally {
      if (!isOver) await reader.cancel().catch(() => {});
    }
  }
}

function answerMsOf({ method, query, headers, body }: S3Request): number {
  const isJoined = method === "POST" && query?.["uploadId"] !== undefined;
  if (isJoined || headers?.["x-amz-copy-source"] !== undefined) return COPIED_MS;
  return ANSWER_MS + (body?.length ?? 0) / SLOW_LINE;
}

function wholeBytes({ status, headers }: Response): number | undefined {
  const [, total] = /\/(\d+)$/.exec(headers.get("content-range") ?? "") ?? [];
  const length = status === 200 ? headers.get("content-length") : null;
  const bytes = total ?? length ?? undefined;
  return bytes === undefined ? undefined : Number(bytes);
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

function timeIn(entry: Element, name: string): number {
  const ms = Date.parse(textIn(entry, name) ?? "");
  return Number.isNaN(ms) ? Infinity : ms;
}

function unreachable(cause: unknown): SvcError {
  return new SvcError("unavailable", `the object store cannot be reached: ${messageOf(cause)}`, { cause });
}

/** The store's own words help the operator; they contain keys, which are checksums, and no secrets. */
function refusal(method: string, detail: string, status = 0): S3Refusal {
  const code = /<Code>([\w.]+)<\/Code>/.exec(detail)?.[1];
  const message = /<Message>([^<]*)<\/Message>/.exec(detail)?.[1];
  const text = code ? `${code}${message ? `: ${unescaped(message)}` : ""}` : detail;
  const shown = text.slice(0, DETAIL_LENGTH_MAX);
  const kind = status === 501 ? "unimplemented" : "unavailable";
  // A clock that is wrong after a power loss is set by NTP a little later.
  const isLasting = status >= 300 && status < 500 && !PASSING.has(status) && code !== "RequestTimeTooSkewed";
  return new S3Refusal(kind, `the object store refused ${method}: ${shown}${remedyOf(status)}`, isLasting);
}

/** The characters that Go's and Java's writers of XML escape; the text is shown, not read. */
function unescaped(text: string): string {
  const names = new Map([["&lt;", "<"], ["&gt;", ">"], ["&quot;", '"'], ["&apos;", "'"], ["&amp;", "&"]]);
  const all = new Map([...names, ["&#34;", '"'], ["&#39;", "'"], ["&#x27;", "'"], ["&#x22;", '"']]);
  return text.replace(/&#?\w+;/g, (one) => all.get(one) ?? one);
}

function remedyOf(status: number): string {
  switch (status) {
    case 301:
    case 307:
    case 400:
      return "; check the endpoint and the region";
    case 401:
    case 403:
      return "; check the credentials, the bucket and this computer's clock";
    case 404:
      return "; create the bucket, or correct its name or the endpoint";
    default:
      return "";
  }
}
