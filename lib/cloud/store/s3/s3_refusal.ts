/**
 * Refusals of an S3-compatible store: the reason, whether a repetition may help, and what the operator can do.
 */

import { SvcError } from "../../../base/error.ts";

/** What an answer besides its text tells about a refusal. */
export interface AnswerFacts {
  readonly status: number;
  /** It has no text. */
  readonly isEmpty?: boolean;
  /** The region where the bucket is. */
  readonly region?: string;
  /** Where the store wants the request instead: a scheme, a host and a port. */
  readonly redirect?: string;
  /** The store's clock minus this computer's. */
  readonly aheadMs?: number;
  /** Before this time it refuses a repetition, too. */
  readonly retryAfterMs?: number;
}

const DETAIL_LENGTH_MAX = 200;
/** Statuses of a store that is busy or restarts. */
const PASSING = new Set([408, 425, 429, 500, 502, 503, 504]);
/** Refusals that have other statuses and pass, too. */
const PASSING_CODES = new Set([
  "RequestTimeout",
  "OperationAborted",
  "ConditionalRequestConflict",
  "SlowDown",
]);
const EXPIRED_CODES = new Set(["ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"]);
const REGION = /^[a-z0-9-]{1,40}$/;

/** The store answered with an error. */
export class S3Refusal extends SvcError {
  constructor(
    code: "unavailable" | "unimplemented",
    message: string,
    readonly facts: AnswerFacts,
    /** The store's own word for it. */
    readonly reason: string | undefined,
  ) {
    super(code, message);
  }

  /** Whether the same request may succeed a little later. */
  get passes(): boolean {
    return PASSING.has(this.facts.status) || PASSING_CODES.has(this.reason ?? "");
  }

  /** Whether the store asks for fewer requests. */
  get isBusy(): boolean {
    return this.facts.status === 429 || this.reason === "SlowDown";
  }

  /** Whether the same request fails until somebody changes a setting, a key or the bucket. */
  get isLasting(): boolean {
    const { status } = this.facts;
    // A clock that is wrong after a power loss is set by NTP a little later.
    return status >= 300 && status < 500 && !this.passes && this.reason !== "RequestTimeTooSkewed";
  }
}

/** The store's own words help the operator; they contain keys, which are checksums, and no secrets. */
export function s3Refusal(method: string, detail: string, facts: AnswerFacts = { status: 0 }): S3Refusal {
  const code = /<Code>([\w.]+)<\/Code>/.exec(detail)?.[1];
  const message = /<Message>([^<]*)<\/Message>/.exec(detail)?.[1];
  const text = code ? `${code}${message ? `: ${unescaped(message)}` : ""}` : detail;
  const named = /<Region>([^<]*)<\/Region>/.exec(detail)?.[1];
  const found = [facts.region, named].find((one) => one !== undefined && REGION.test(one));
  const all = { ...facts, region: found };
  const kind = facts.status === 501 ? "unimplemented" : "unavailable";
  const shown = `${text.slice(0, DETAIL_LENGTH_MAX)}${remedyOf(all, code)}`;
  return new S3Refusal(kind, `the object store refused ${method}: ${shown}`, all, code);
}

/** The characters that Go's and Java's writers of XML escape; the text is shown, not read. */
function unescaped(text: string): string {
  const names = new Map([["&lt;", "<"], ["&gt;", ">"], ["&quot;", '"'], ["&apos;", "'"], ["&amp;", "&"]]);
  const all = new Map([...names, ["&#34;", '"'], ["&#39;", "'"], ["&#x27;", "'"], ["&#x22;", '"']]);
  return text.replace(/&#?\w+;/g, (one) => all.get(one) ?? one);
}

function remedyOf({ status, region, redirect }: AnswerFacts, code = ""): string {
  if (EXPIRED_CODES.has(code)) {
    return "; the credentials have expired: write new ones into the file, or restart with new ones";
  }
  if (status === 400 || (status >= 300 && status < 400)) {
    const bucket = region === undefined ? "" : `; the bucket is in the region ${region}`;
    const other = redirect === undefined
      ? ""
      : `; it sends requests to ${redirect}, which are not sent there`;
    return `${bucket}${other}; check the endpoint and the region`;
  }
  switch (status) {
    case 401:
    case 403:
      return "; check the credentials, the bucket and this computer's clock";
    case 404:
      return "; create the bucket, or correct its name or the endpoint";
    default:
      return "";
  }
}
