/**
 * The machine's identity at the cloud: the `cloud` section of the credentials file, or four environment variables.
 *
 * The runtime reads the same file, so this reader ignores the file's other sections. Errors name the file and the key,
 * and never show a secret.
 */

import type { Environment } from "../../base/host.ts";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { SvcError } from "../../base/error.ts";
import { parseJsonc } from "../../base/schema/jsonc.ts";
import { bool, DecodeContext, isObject, object, show, text } from "../../base/schema/schema.ts";
import { Secret, secret } from "../../base/secret.ts";
import { parseCloudAddress } from "../../cloud_client/client.ts";

export interface MachineCredentials {
  /** `https://host:port`. */
  readonly appAddress: string;
  /** Id of the machine's part. */
  readonly id: string;
  readonly login: {
    readonly type: "api-key" | "robot-secret";
    /** Id of the key; for a secret, id of the part. */
    readonly entity: string;
    readonly payload: Secret;
  };
  /** Whether traffic on the connection costs money. */
  readonly metered: boolean;
}

const full = (doc: string) => text(doc, { pattern: /\S/, wanted: "a text that is not empty" });

const cloudField = object({
  appAddress: full("address of the cloud").required().with((address, at) =>
    isAddress(address) ? address : at.wanted(ADDRESS, address)
  ),
  id: full("id of the machine's part").required(),
  apiKey: object({ id: full("id of the key").required(), key: secret("the key itself").required() }),
  secret: secret("the part's secret, if there is no API key"),
  metered: bool("the connection costs money by its traffic").default(false),
}).with((cloud, at) => {
  const { apiKey, appAddress, id, metered } = cloud;
  if (apiKey && !apiKey.key) return at.at("api_key").at("key").error("found an empty text, wanted the key");
  const login: MachineCredentials["login"] | undefined = apiKey?.key
    ? { type: "api-key", entity: apiKey.id, payload: apiKey.key }
    : cloud.secret && { type: "robot-secret", entity: id, payload: cloud.secret };
  if (!login) return at.at("api_key").error('missing, wanted {"id": "…", "key": "…"}, or a "secret" instead');
  return { appAddress, id, login, metered } satisfies MachineCredentials;
});

const ADDRESS = 'an address such as "https://host:port"';

function isAddress(text: string): boolean {
  try {
    return parseCloudAddress(text) !== undefined;
  } catch {
    return false;
  }
}

const documentField = object({ cloud: cloudField.required() });

const HINT = "it holds what the cloud shows for this machine's part as machine credentials";

/** Reads a credentials document, comments allowed. Throws `invalid_argument` with the file and every bad key. */
export function parseCredentials(bytes: Uint8Array, file: string): MachineCredentials {
  const json = parseJsonc(bytes, { file });
  if (!isObject(json)) {
    throw new SvcError("invalid_argument", `${file}: found ${show(json)}, wanted {"cloud": {…}}; ${HINT}`);
  }
  const at = new DecodeContext();
  const { cloud } = documentField.decode(json, at) ?? {};
  const wrong = at.problems.filter(({ severity }) => severity === "error");
  if (wrong.length === 0 && cloud) return cloud;
  const reported = wrong.map(({ path, message }) => `${path}: ${message}`).join("; ");
  throw new SvcError("invalid_argument", `${file}: ${reported}; ${HINT}`);
}

type ReadHost = ReadFiles & Environment;

/**
 * The credentials in the file; without a file, those in `SVC_API_KEY_ID`, `SVC_API_KEY`, `SVC_PART_ID` and
 * `SVC_APP_ADDRESS`. Throws `not_found` if both are missing, `invalid_argument` if they are unusable.
 */
export async function readCredentials(host: ReadHost, path: string): Promise<MachineCredentials> {
  let bytes: Uint8Array;
  try {
    bytes = await host.readFile(path);
  } catch (error) {
    if (SvcError.from(error).code !== "not_found") throw error;
    const found = credentialsOf((name) => host.env(name));
    if (found) return found;
    const wanted = `${VARIABLES.join(", ")} in the environment`;
    throw new SvcError("not_found", `no credentials: there is no ${path} (${HINT}), nor ${wanted}`);
  }
  return parseCredentials(bytes, path);
}

const VARIABLES = ["SVC_API_KEY_ID", "SVC_API_KEY", "SVC_PART_ID", "SVC_APP_ADDRESS"];

function credentialsOf(env: (name: string) => string | undefined): MachineCredentials | undefined {
  const [entity, key, id, appAddress] = VARIABLES.map((name) => env(name)?.trim());
  if (!entity || !key || !id || !appAddress) return undefined;
  if (!isAddress(appAddress)) {
    throw new SvcError("invalid_argument", `SVC_APP_ADDRESS: found ${show(appAddress)}, wanted ${ADDRESS}`);
  }
  return { appAddress, id, login: { type: "api-key", entity, payload: new Secret(key) }, metered: false };
}

/** Whether two credentials are for the same part at the same address by the same key. */
export function isSame(one: MachineCredentials, other: MachineCredentials): boolean {
  const [a, b] = [one, other].map(({ appAddress, id, login: { type, entity, payload } }) =>
    JSON.stringify([appAddress, id, type, entity, payload.reveal()])
  );
  return a === b;
}

/** Only the owner may read it. */
const MODE = 0o600;

/** Checks a document, then writes it unchanged. A power loss leaves the old file or the new one. */
export async function writeCredentials(
  host: WriteFiles,
  path: string,
  document: string,
): Promise<void> {
  parseCredentials(new TextEncoder().encode(document), path);
  await host.writeFile(path, document, { mode: MODE });
}
