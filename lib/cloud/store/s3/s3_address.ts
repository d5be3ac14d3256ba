/**
 * The address of an S3-compatible store and its credentials, in the form of other S3 programs.
 *
 * `s3://BUCKET/PREFIX?endpoint=URL&region=NAME`. What the address leaves out comes from the environment:
 * `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`, `AWS_REGION` or `AWS_DEFAULT_REGION`. Credentials never stand in the
 * address: they come from `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`, or from the file
 * `AWS_SHARED_CREDENTIALS_FILE` (`~/.aws/credentials`), section `AWS_PROFILE` (`default`).
 */

import { SvcError } from "../../../base/error.ts";
import type { ReadFiles } from "../../../base/files/files.ts";
import { withoutEnd } from "../../../base/escape.ts";

export interface S3Address {
  readonly bucket: string;
  /** Empty, or ends with a slash. */
  readonly prefix: string;
  /** The URL of the service; `undefined` means Amazon's. */
  readonly endpoint: string | undefined;
  readonly region: string;
}

export interface S3Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

type Environment = (name: string) => string | undefined;

const SCHEME = "s3://";
const DEFAULT_REGION = "us-east-1";

export function isS3Address(text: string): boolean {
  return text.startsWith(SCHEME);
}

/** Throws `invalid_argument`. */
export function parseS3Address(text: string, env: Environment): S3Address {
  const wrong = (what: string) =>
    new SvcError(
      "invalid_argument",
      `the address of the object store has ${what}, wanted s3://BUCKET/PREFIX?endpoint=URL&region=NAME`,
    );
  const parts = /^s3:\/\/([^/?#@]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/.exec(text);
  if (!parts) throw wrong("another form");
  const [, bucket = "", path = "", query = ""] = parts;
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket)) throw wrong(`the bucket "${bucket}"`);
  const prefix = withoutEnd(path, "/");
  const names = prefix.split("/");
  const isName = (name: string) => /^[\w.-]+$/.test(name) && name !== "." && name !== "..";
  if (prefix !== "" && !names.every(isName)) {
    throw wrong(`the prefix "${prefix}" with something else than letters, digits, "_", "-", "." and "/"`);
  }

  const options = new URLSearchParams(query);
  for (const name of options.keys()) {
    if (name !== "endpoint" && name !== "region") throw wrong(`the option "${name}"`);
  }
  const given = options.get("endpoint") || env("AWS_ENDPOINT_URL_S3") || env("AWS_ENDPOINT_URL") || undefined;
  const region = options.get("region") || env("AWS_REGION") || env("AWS_DEFAULT_REGION") || DEFAULT_REGION;
  if (!/^[\w-]+$/.test(region)) throw wrong(`the region "${region}"`);
  const endpoint = given === undefined ? undefined : endpointOf(given);
  if (given !== undefined && endpoint === undefined) {
    throw wrong("an endpoint that is no http:// or https:// address");
  }
  return { bucket, prefix: prefix === "" ? "" : `${prefix}/`, endpoint, region };
}

/** The address of a service without a slash at its end. */
function endpointOf(text: string): string | undefined {
  const url = URL.parse(text);
  const isPlain = url !== null && /^https?:$/.test(url.protocol) && url.username === "" &&
    url.search === "" &&
    url.hash === "";
  return isPlain ? `${url.origin}${withoutEnd(url.pathname, "/")}` : undefined;
}

/** Throws `failed_precondition` if there are none, `invalid_argument` for a file without the section. */
export async function findS3Credentials(
  env: Environment,
  files: Pick<ReadFiles, "readTextFile">,
): Promise<S3Credentials> {
  const accessKeyId = env("AWS_ACCESS_KEY_ID");
  const secretAccessKey = env("AWS_SECRET_ACCESS_KEY");
  if (accessKeyId && secretAccessKey) {
    return { accessKeyId, secretAccessKey, sessionToken: env("AWS_SESSION_TOKEN") || undefined };
  }

  const home = env("HOME") || env("USERPROFILE");
  const path = env("AWS_SHARED_CREDENTIALS_FILE") || (home && `${home}/.aws/credentials`);
  const text = path ? await files.readTextFile(path).catch(() => undefined) : undefined;
  if (text === undefined) {
    throw new SvcError(
      "failed_precondition",
      "found no credentials for the object store: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a file " +
        "with them in AWS_SHARED_CREDENTIALS_FILE",
    );
  }
  const profile = env("AWS_PROFILE") || "default";
  const values = sectionOf(text, profile);
  const [id, secret] = [values.get("aws_access_key_id"), values.get("aws_secret_access_key")];
  if (!id || !secret) {
    throw new SvcError(
      "invalid_argument",
      `${path}: the section [${profile}] lacks aws_access_key_id or aws_secret_access_key`,
    );
  }
  return { accessKeyId: id, secretAccessKey: secret, sessionToken: values.get("aws_session_token") };
}

/** The settings of a section of an INI file. */
function sectionOf(text: string, wanted: string): Map<string, string> {
  const values = new Map<string, string>();
  let isWanted = false;
  for (const line of text.split(/\r?\n/).map((one) => one.trim())) {
    const [, title] = /^\[(.*)\]$/.exec(line) ?? [];
    if (title !== undefined) isWanted = title.trim() === wanted;
    const [, name, value = ""] = /^([^#;=]+)=(.*)$/.exec(line) ?? [];
    if (name !== undefined && isWanted) values.set(name.trim(), value.trim());
  }
  return values;
}
