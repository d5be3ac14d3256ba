/**
 * Sends signed requests to an S3-compatible store, and reads their answers.
 *
 * Each request is signed (AWS Signature Version 4) with the sum of its body, so that the store refuses a body that was
 * changed on its way. A request that fails for a temporary reason is repeated, with a growing pause. One that the store
 * refuses because of a wrong clock, another region or expired credentials is signed again by what the store says, or
 * with the credentials that have replaced them. Every wait has a deadline. Redirects are not followed.
 *
 * Source: Amazon S3 API Reference, 2006-03-01.
 */

import { AwsClient } from "aws4fetch";
import { createHash, randomInt } from "node:crypto";
import type { Clock } from "../../../base/clock.ts";
import { messageOf, SvcError } from "../../../base/error.ts";
import { retryAfterMs } from "../../../base/download/answer.ts";
import type { Logger } from "../../../base/log/log.ts";
import { type Element, parseXml } from "../../../base/xml.ts";
import type { S3Address, S3Credentials } from "./s3_address.ts";
import { type AnswerFacts, S3Refusal, s3Refusal } from "./s3_refusal.ts";

export interface S3ClientParts {
  readonly address: S3Address;
  readonly credentials: S3Credentials;
  readonly clock: Clock;
  /** Reads credentials again that may have been replaced, once the store refuses the known ones. */
  readonly findCredentials?: () => Promise<S3Credentials>;
  readonly logger?: Logger;
  readonly fetch?: typeof fetch;
}

export interface S3Request {
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE";
  /** Empty for the bucket itself. */
  readonly key: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array<ArrayBuffer>;
}

/** What a request is signed with. */
interface Signature {
  readonly signer: AwsClient;
  readonly credentials: S3Credentials;
  readonly region: string;
  /** The store's clock minus this computer's. */
  readonly aheadMs: number;
}

const TRIES = 4;
/** The same for a store that asks for fewer requests. */
const BUSY_TRIES = 6;
/** How often a request is signed in another way. */
const CORRECTIONS_MAX = 3;
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
/** Stores accept clocks that differ by a quarter of an hour. */
const AHEAD_MS_MIN = 5 * 60_000;
const MINUTE_MS = 60_000;
const EMPTY_SUM = createHash("sha256").digest("hex");

export class S3Channel {
  #signature: Signature;

  constructor(private readonly parts: S3ClientParts) {
    const { address: { region }, credentials } = parts;
    this.#signature = signatureOf({ credentials, region, aheadMs: 0 });
  }

  /** This computer's time for a time of the store. */
  ownMs(storeMs: number): number {
    return storeMs - this.#signature.aheadMs;
  }

  /** An answer with a good status or an expected one, whose body the caller reads or cancels. */
  async send(request: S3Request, expected: readonly number[] = []): Promise<Response> {
    return await this.#repeat(request, expected, (answer) => Promise.resolve(answer));
  }

  /** The same without its body. */
  async sendOnly(request: S3Request, expected: readonly number[] = []): Promise<Response> {
    const answer = await this.send(request, expected);
    await answer.body?.cancel();
    return answer;
  }

  /**
   * The document of an answer; `undefined` for one of the `expected` statuses. The status of a long request is 200 even
   * if it fails after its start, and some other server on the way may have answered: only these roots are a success.
   */
  async document(
    request: S3Request,
    roots: readonly string[],
    expected: readonly number[] = [],
  ): Promise<Element | undefined> {
    return await this.#repeat(request, expected, async (answer) => {
      if (expected.includes(answer.status)) {
        await answer.body?.cancel();
        return undefined;
      }

      const text = await this.#bodyText(answer);
      const found = await parseXml(text).catch(() => undefined);
      if (found && roots.includes(found.nodeName)) return found;
      const detail = found?.nodeName === "Error" ? text : "its answer is not one of an object store";
      throw s3Refusal(request.method, detail, { status: 500 });
    });
  }

  /** A body's pieces, each within the deadline. */
  async *pieces(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
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

  /**
   * What `take` makes of an answer with a good status or an expected one. A store that says nothing has two attempts'
   * time at most.
   */
  async #repeat<T>(
    request: S3Request,
    expected: readonly number[],
    take: (answer: Response) => Promise<T>,
  ): Promise<T> {
    const { clock } = this.parts;
    const answerMs = answerMsOf(request);
    const endMs = clock.monotonicMs() + answerMs + REPETITION_MS;
    let corrections = 0;
    for (let tried = 1;;) {
      const signature = this.#signature;
      try {
        const limitMs = Math.max(1, Math.min(answerMs, endMs - clock.monotonicMs()));
        const answer = await this.#sendOnce(request, signature, limitMs);
        if (answer.ok || expected.includes(answer.status)) return await take(answer);
        throw await this.#readRefusal(request, answer);
      } catch (cause) {
        const error = cause instanceof SvcError ? cause : unreachable(cause);
        if (corrections < CORRECTIONS_MAX && await this.#correct(error, signature)) {
          corrections++;
          continue;
        }

        const waitMs = pauseMs(tried, error);
        const isLast = tried >= triesOf(error) || clock.monotonicMs() + waitMs >= endMs;
        if (isLast) throw error;
        await clock.sleep(waitMs);
        tried++;
      }
    }
  }

  /** Returns whether the next request is signed in another way than the refused one. */
  async #correct(error: SvcError, used: Signature): Promise<boolean> {
    if (!(error instanceof S3Refusal)) return false;
    const { status, region, aheadMs } = error.facts;
    if (status < 300 || status >= 500 || status === 404) return false;
    // Another request may have found out meanwhile.
    if (used !== this.#signature) return true;

    const { logger } = this.parts;
    if (aheadMs !== undefined && Math.abs(aheadMs - used.aheadMs) > AHEAD_MS_MIN) {
      this.#signature = signatureOf({ ...used, aheadMs });
      const minutes = Math.round(Math.abs(aheadMs) / MINUTE_MS);
      logger?.warn(
        `this computer's clock is ${minutes} minutes ${
          aheadMs > 0 ? "behind" : "ahead of"
        } the object store's: ` +
          "requests to it use the time of the store; set the clock",
      );
      return true;
    }
    if (region !== undefined && region !== used.region) {
      this.#signature = signatureOf({ ...used, region });
      logger?.warn(`the bucket is in the region ${region}, not in ${used.region}: correct its address`);
      return true;
    }
    if (status !== 400 && status !== 401 && status !== 403) return false;
    const credentials = await this.parts.findCredentials?.().catch(() => undefined);
    if (!credentials || isSame(credentials, used.credentials)) return false;
    this.#signature = signatureOf({ ...used, credentials });
    return true;
  }

  async #sendOnce(
    { method, key, query = {}, headers = {}, body }: S3Request,
    { signer, region, aheadMs }: Signature,
    answerMs: number,
  ): Promise<Response> {
    const { address, clock } = this.parts;
    const pairs = Object.entries(query).map(([name, value]) => `${encoded(name)}=${encoded(value)}`);
    const url = `${rootOf(address, region)}/${encodedKey(key)}${
      pairs.length > 0 ? `?${pairs.join("&")}` : ""
    }`;
    const sum = body === undefined ? EMPTY_SUM : createHash("sha256").update(body).digest("hex");
    const signed = await signer.sign(url, {
      method,
      headers: { ...headers, "x-amz-content-sha256": sum },
      body,
      aws: { datetime: new Date(clock.nowMs() + aheadMs).toISOString().replaceAll(/[:-]|\.\d{3}/g, "") },
    });
    // Not signed, because servers on the way change it. Ranges and sizes are those of the plain bytes.
    signed.headers.set("accept-encoding", "identity");

    const late = new AbortController();
    const cancel = clock.after(
      answerMs,
      () => late.abort(new Error(`no answer within ${Math.ceil(answerMs / 1000)} s`)),
    );
    try {
      return await (this.parts.fetch ?? fetch)(signed, { signal: late.signal, redirect: "manual" });
    } finally {
      cancel();
    }
  }

  async #readRefusal({ method }: S3Request, answer: Response): Promise<S3Refusal> {
    const { status, headers } = answer;
    const detail = await this.#bodyText(answer).catch(messageOf);
    const dateMs = Date.parse(headers.get("date") ?? "");
    const nowMs = this.parts.clock.nowMs();
    const facts: AnswerFacts = {
      status,
      isEmpty: detail === "",
      region: headers.get("x-amz-bucket-region") ?? undefined,
      redirect: URL.parse(headers.get("location") ?? "")?.origin,
      aheadMs: Number.isNaN(dateMs) ? undefined : dateMs - nowMs,
      retryAfterMs: retryAfterMs(answer, nowMs),
    };
    return s3Refusal(method, detail || `status ${status}`, facts);
  }

  async #bodyText({ body }: Response): Promise<string> {
    if (!body) return "";
    const decoder = new TextDecoder();
    let text = "";
    let bytes = 0;
    for await (const piece of this.pieces(body)) {
      bytes += piece.length;
      if (bytes > TEXT_BYTES_MAX) throw s3Refusal("the answer", `it is longer than ${TEXT_BYTES_MAX} bytes`);
      text += decoder.decode(piece, { stream: true });
    }
    return text;
  }
}

/** A key as part of an address: other characters than these have a meaning there, or stores read them in several ways. */
export function encodedKey(key: string): string {
  const parts = key.split("/");
  if (parts.includes(".") || parts.includes("..")) {
    throw new SvcError("invalid_argument", `the key "${key}" has "." or ".." between slashes`);
  }
  return parts.map(encoded).join("/");
}

function encoded(text: string): string {
  const common = encodeURIComponent(text);
  return common.replaceAll(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
}

function signatureOf({ credentials, region, aheadMs }: Omit<Signature, "signer">): Signature {
  const signer = new AwsClient({ ...credentials, service: "s3", region, retries: 0 });
  return { signer, credentials, region, aheadMs };
}

function rootOf({ bucket, endpoint }: S3Address, region: string): string {
  if (endpoint !== undefined) return `${endpoint}/${bucket}`;
  const host = `s3.${region}.amazonaws.com${region.startsWith("cn-") ? ".cn" : ""}`;
  // Amazon's certificates are for names with one part before this.
  return bucket.includes(".") ? `https://${host}/${bucket}` : `https://${bucket}.${host}`;
}

function answerMsOf({ method, query, headers, body }: S3Request): number {
  const isJoined = method === "POST" && query?.["uploadId"] !== undefined;
  if (isJoined || headers?.["x-amz-copy-source"] !== undefined) return COPIED_MS;
  return ANSWER_MS + (body?.length ?? 0) / SLOW_LINE;
}

function triesOf(error: SvcError): number {
  if (!(error instanceof S3Refusal)) return error.code === "unavailable" ? TRIES : 1;
  if (error.isBusy) return BUSY_TRIES;
  return error.passes ? TRIES : 1;
}

function pauseMs(tried: number, error: SvcError): number {
  const wantedMs = FIRST_PAUSE_MS * 3 ** (tried - 1);
  const leastMs = error instanceof S3Refusal ? error.facts.retryAfterMs ?? 0 : 0;
  return Math.max(leastMs, wantedMs / 2 + randomInt(wantedMs));
}

function isSame(one: S3Credentials, other: S3Credentials): boolean {
  return one.accessKeyId === other.accessKeyId && one.secretAccessKey === other.secretAccessKey &&
    one.sessionToken === other.sessionToken;
}

function unreachable(cause: unknown): SvcError {
  return new SvcError("unavailable", `the object store cannot be reached: ${messageOf(cause)}`, { cause });
}
