/**
 * Downloads over HTTP: contents of packages, programs for agents, and the signatures of both.
 *
 * A content never changes, so its hash is its ETag, and an interrupted download continues (Range, If-Range). A package
 * needs a token, a key, or a link issued a short while ago. Releases are public: an installer has no key yet.
 */

import { createHmac } from "node:crypto";
import { type Code, messageOf, SvcError } from "../../base/error.ts";
import { isSameText } from "../../base/same_text.ts";
import type { HeaderFields } from "../../wire/rpc/metadata.ts";
import { contentAnswer } from "../../wire/port/content.ts";
import { fieldValue } from "../../wire/port/exchange.ts";
import { textAnswer } from "../../wire/port/routes.ts";
import { forAnySite } from "../../wire/port/sites.ts";
import type { Peer } from "../../wire/rpc/service.ts";
import type { CloudContext } from "../access/context.ts";
import type { FileStore } from "../store/files.ts";
import { Crc32c } from "../../cloud_client/crc32c.ts";
import { Packages } from "./packages.ts";
import { ReleaseKeys } from "./release_keys.ts";
import { type PublishedRelease, releaseFileName, Releases } from "./releases.ts";
import type { Route, RouteAnswer, RouteRequest } from "../../wire/port/route.ts";
import type { Item, Package } from "./item.ts";

/** The owner of the credentials in these header fields. Throws `unauthenticated`. */
export type Identify = (fields: HeaderFields, peer: Peer) => Promise<string>;

/** A complete content for download. */
interface StoredContent {
  readonly sha256: string;
  readonly bytes: number;
  readonly contentType: string;
  readonly cache: string;
  readonly name: string;
}

const PACKAGE_PATH = "/packages/v1/files";
const RELEASE_PATH = "/releases";
const SIGNATURE = ".sig";
const CHANNEL = ".channel";
/** Links expire on the hour, one to two hours from now, so that repeated requests get the same link. */
const LINK_MS = 3600 * 1000;
/** The only content type that published machines accept for a package. */
const ARCHIVE_TYPE = "application/x-gzip";
const CHECKSUMS_MAX = 1000;

const STATUS: { readonly [C in Code]?: number } = {
  unauthenticated: 401,
  permission_denied: 403,
  not_found: 404,
  invalid_argument: 400,
  unavailable: 503,
};

export class Downloads {
  readonly #keys: ReleaseKeys;
  readonly #checksums = new Map<string, Promise<string>>();

  constructor(
    private readonly cloud: CloudContext,
    private readonly identify: Identify,
  ) {
    this.#keys = new ReleaseKeys(cloud.secrets);
  }

  get routes(): Map<string, Route> {
    const guarded = (answer: Route) => forAnySite((request) => this.#guarded(answer, request));
    return new Map([
      [`${PACKAGE_PATH}/*`, guarded((request) => this.#package(request))],
      [`${RELEASE_PATH}/*`, guarded((request) => this.#release(request))],
      [`${RELEASE_PATH}/keys.json`, guarded(() => json({ keys: this.#keys.list() }))],
    ]);
  }

  /**
   * A temporary download link of a package that needs no other credentials. The link with `.sig` gives its signature,
   * and with `as=<id>` a signature for that id, so that a client finds the requested id in the signed statement.
   */
  async packageUrl(one: Package, peer: Peer): Promise<string> {
    const expires = (Math.floor(this.cloud.clock.nowMs() / LINK_MS) + 2) * LINK_MS;
    const query = `expires=${expires}&signature=${this.#linkSignatures(one.id, expires)[0]}`;
    return `${await this.cloud.addresses.linkFor(peer)}${PACKAGE_PATH}/${one.id}/${
      archiveName(one)
    }?${query}`;
  }

  async releaseUrl(one: PublishedRelease, peer: Peer): Promise<string> {
    const platform = one.platform.replace("/", "-");
    return `${await this.cloud.addresses.linkFor(
      peer,
    )}${RELEASE_PATH}/${one.name}/${one.version}/${platform}/${releaseFileName(one)}`;
  }

  async #guarded(answer: Route, request: RouteRequest): Promise<RouteAnswer> {
    const { method, path } = request;
    if (method !== "GET" && method !== "HEAD") return textAnswer(405, `${path} answers GET, not ${method}`);
    try {
      return await answer(request);
    } catch (thrown) {
      const { code } = SvcError.from(thrown);
      const answered = textAnswer(STATUS[code] ?? 500, messageOf(thrown));
      return code === "unauthenticated"
        ? { ...answered, fields: [["www-authenticate", "Bearer"]] }
        : answered;
    }
  }

  async #package(request: RouteRequest): Promise<RouteAnswer> {
    const [, id, name = ""] = /^\/([^/]+)\/([^/]+)$/.exec(request.path.slice(PACKAGE_PATH.length)) ?? [];
    if (id === undefined) throw nothingAt(request.path);
    const linked = this.#isLinked(id, request.query);
    const entity = linked ? undefined : await this.identify(request.fields, request.peer);
    const one = await new Packages(this.cloud.store).get(id);
    if (!linked) await requireVisible(this.cloud, entity, one.item, id);
    if (name.endsWith(SIGNATURE)) {
      const signedName = await this.#resolveId(one, request.query.get("as"));
      return this.#signature(signedName, one.version, one.platform, one, one.createdMs);
    }
    if (name.endsWith(CHANNEL)) return await this.#packageChannel(one, request.query);
    // Published machines fetch the whole content at once.
    const whole = request.method === "GET" && fieldValue(request.fields, "range") === undefined;
    const checksum = whole ? await this.#checksum(one.sha256) : undefined;
    return storedAnswer(
      request,
      this.cloud.files,
      { ...one, contentType: ARCHIVE_TYPE, cache: "private, no-cache", name: archiveName(one) },
      checksum ? [["x-goog-hash", `crc32c=${checksum}`]] : [],
    );
  }

  /** The signed statement that a version of the package is the current one of the channel in the query. */
  async #packageChannel(one: Package, query: URLSearchParams): Promise<RouteAnswer> {
    const name = await this.#resolveId(one, query.get("as"));
    const [wanted, platform] = [wantedIn(query), query.get("platform") ?? ""];
    const { organizationId, name: own } = one.item;
    const current = await new Packages(this.cloud.store).find(`${organizationId}/${own}`, wanted, platform);
    return this.#channel({ name, wanted, platform, version: current.version, sha256: current.sha256 });
  }

  #channel(current: Parameters<ReleaseKeys["signChannel"]>[0]): RouteAnswer {
    return json(this.#keys.signChannel(current, this.cloud.clock.nowMs()));
  }

  /** The id in a package's signature: the requested id, if it is an id of the package. */
  async #resolveId({ item }: Package, asked: string | null): Promise<string> {
    if (asked === null) return `${item.organizationId}/${item.name}`;
    const { id } = await new Packages(this.cloud.store).item(asked);
    if (id === item.id) return asked;
    throw new SvcError("invalid_argument", `"${asked}" is another package than the one of this link`);
  }

  async #release(request: RouteRequest): Promise<RouteAnswer> {
    const pattern =
      /^\/(?<name>[^/]+)\/(?<version>[^/]+)\/(?<platform>[^/]+?)(?<file>\/[^/]+?)?(?<ending>\.sig|\.channel)?$/;
    const found = pattern.exec(request.path.slice(RELEASE_PATH.length))?.groups;
    if (!found) throw nothingAt(request.path);
    const { name: wanted = "", version: written = "", platform: target = "" } = found;
    const isChannel = found.ending === CHANNEL;
    const version = isChannel ? wantedIn(request.query) : decodedVersion(written);
    const one = await new Releases(this.cloud.store).find(
      wanted,
      version,
      target.replace("-", "/"),
    );
    const { name, platform, createdMs } = one;
    if (isChannel) {
      return this.#channel({ name, wanted: version, platform, version: one.version, sha256: one.sha256 });
    }
    if (found.ending === SIGNATURE) return await this.#signature(name, one.version, platform, one, createdMs);
    const fixed = version === one.version;
    return storedAnswer(request, this.cloud.files, {
      ...one,
      contentType: "application/octet-stream",
      cache: fixed ? "public, max-age=31536000, immutable" : "no-cache",
      name: releaseFileName(one),
    }, [["x-svc-version", one.version]]);
  }

  #signature(
    name: string,
    version: string,
    platform: string,
    { sha256, bytes: size }: { sha256: string; bytes: number },
    signed_ms: number,
  ): RouteAnswer {
    return json(this.#keys.sign({ name, version, platform, sha256, size, signed_ms }));
  }

  /** The checksum that published machines compare: CRC-32C in base64. */
  #checksum(sha256: string): Promise<string> {
    const known = this.#checksums.get(sha256);
    if (known) return known;
    const making = this.#makeChecksum(sha256);
    if (this.#checksums.size >= CHECKSUMS_MAX) this.#checksums.delete(this.#checksums.keys().next().value!);
    this.#checksums.set(sha256, making);
    making.catch(() => this.#checksums.delete(sha256));
    return making;
  }

  async #makeChecksum(sha256: string): Promise<string> {
    const checksum = new Crc32c();
    for await (const chunk of this.cloud.files.read(sha256)) checksum.update(chunk);
    return checksum.base64();
  }

  #isLinked(id: string, query: URLSearchParams): boolean {
    const [expires, signature] = [query.get("expires"), query.get("signature")];
    if (expires === null || signature === null) return false;
    const wanted = this.#linkSignatures(id, Number(expires));
    if (!wanted.some((one) => isSameText(signature, one))) {
      throw new SvcError("permission_denied", "this control plane has not issued the link");
    }
    if (this.cloud.clock.nowMs() < Number(expires)) return true;
    throw new SvcError("permission_denied", "the link has expired: ask for a new one");
  }

  /** The key that signs, then the others that are valid. */
  #linkSignatures(id: string, expires: number): string[] {
    return this.cloud.secrets.good("download-links").map((secret) =>
      createHmac("sha256", secret).update(`${id}\n${expires}`).digest("base64url")
    );
  }
}

/** The whole of a stored content or the requested range, to be saved under its name. */
export function storedAnswer(
  request: RouteRequest,
  files: FileStore,
  { sha256, bytes, contentType, cache, name }: StoredContent,
  more: HeaderFields,
): RouteAnswer {
  return contentAnswer(request, {
    etag: `"${sha256}"`,
    bytes,
    contentType,
    read: (from) => files.read(sha256, from),
    fields: [
      ["cache-control", cache],
      ["content-disposition", dispositionOf(name)],
      ...more,
    ],
  });
}

/** Programs that do not know the second form of RFC 6266 take the first one. */
function dispositionOf(name: string): string {
  const plain = name.replace(/[^\w.+-]/g, "_");
  const exact = plain === name
    ? ""
    : `; filename*=UTF-8''${encodeURIComponent(name.toWellFormed()).replace(/['()*]/g, percentOf)}`;
  return `attachment; filename="${plain}"${exact}`;
}

function percentOf(letter: string): string {
  return `%${letter.charCodeAt(0).toString(16).toUpperCase()}`;
}

/** Throws `not_found` for an item that a key may not see, like for a missing item. */
export async function requireVisible(
  { access }: Pick<CloudContext, "access">,
  entity: string | undefined,
  item: Item,
  id: string,
): Promise<void> {
  if (item.visibility !== "private") return;
  if ((await access.readOrganizations(entity)).includes(item.organizationId)) return;
  throw new SvcError("not_found", `there is no package "${id}"`);
}

function archiveName({ item, version, platform }: Package): string {
  const words = [item.name, version, platform.replace("/", "-")].filter((word) => word !== "");
  return `${words.join("-").replace(/[^\w.+-]/g, "_")}.tar.gz`;
}

function wantedIn(query: URLSearchParams): string {
  const wanted = query.get("wanted");
  if (wanted) return wanted;
  throw new SvcError("invalid_argument", "the query names no channel, wanted wanted=stable, or a range");
}

function decodedVersion(written: string): string {
  try {
    return decodeURIComponent(written);
  } catch (cause) {
    const why = `the version "${written}" of the address has a % that is no escape, wanted %25`;
    throw new SvcError("invalid_argument", why, { cause });
  }
}

function nothingAt(path: string): SvcError {
  return new SvcError("not_found", `there is nothing at ${path}`);
}

function json(value: unknown): RouteAnswer {
  return { status: 200, contentType: "application/json", body: `${JSON.stringify(value, null, 2)}\n` };
}
