/**
 * The configuration source of a managed machine: fetches the configuration from the control plane when it announces a
 * change, and periodically in any case; keeps a copy for times when the control plane is away.
 *
 * The local file decides about the connection to the control plane; everything else comes from the control plane. If
 * the control plane is away, the configuration in force silently stays. An invalid answer is reported.
 */

import type { CloudClient } from "../../cloud_client/client.ts";
import { robotConfigJson } from "../../cloud_client/config_json.ts";
import type { Announcements } from "../../cloud_client/changes/change_feed.ts";
import { PollTimer } from "../../cloud_client/changes/poll_timer.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf, type Code, SvcError } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import { isObject, type Json, type JsonObject } from "../../base/schema/schema.ts";
import type { ConfigCache } from "./cache.ts";
import type { ConfigDraft, ConfigSource } from "./source.ts";

/** Share of the usual interval before the first poll. */
const FIRST_INTERVAL_SHARE = 1 / 5;
const INTERVAL_MIN_MS = 1_000;
/** Interval of requests for a certificate; a change of the machine's names triggers one, too. */
const CERTIFICATE_INTERVAL_MS = 3_600_000;
/** Time limits for the control plane at the start: without a copy, and with one. */
const FIRST_TIMEOUT_MS = 15_000;
const FIRST_TIMEOUT_WITH_COPY_MS = 1_000;

/** Settings of the connection itself. */
const LOCAL = ["id", "secret", "api_key", "app_address", "refresh_interval", "metered"];
/** Settings of the machine's own port that the control plane's message has no field for, by their section. */
const LOCAL_SECTIONS = {
  network: ["bind_address", "webrtc"],
  auth: ["token_keys_file", "limits"],
};
/** The names in the certificate. */
const NAMES = ["fqdn", "local_fqdn", "signaling_address", "managed_by", "location_id", "primary_org_id"];
/** Error codes that concern the control plane's answer rather than the way to it. */
const NONSENSE: readonly Code[] = ["unknown", "invalid_argument", "failed_precondition"];

export interface CloudSourceParts {
  readonly client: Pick<CloudClient, "address" | "config" | "certificate">;
  /** The file with the credentials. */
  readonly local: JsonObject;
  readonly cache: ConfigCache;
  readonly refreshMs: number;
  /** Triggers an immediate poll, and makes the others rare. */
  readonly changes?: Announcements;
  /** Their interval then. */
  readonly rareMs: number;
  /** Replaces the time limit of the first answer. */
  readonly firstTimeoutMs?: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class CloudSource implements ConfigSource {
  readonly name: string;
  readonly #parts: CloudSourceParts;
  /** The last reported configuration, as comparable text. */
  #seen = "";
  /** Why the control plane gave no configuration at the last try. */
  #away: SvcError | undefined;
  #copy: JsonObject | undefined;
  #certificate: { readonly pair: JsonObject; readonly names: string; readonly sinceMs: number } | undefined;

  constructor(parts: CloudSourceParts) {
    this.name = parts.client.address;
    this.#parts = parts;
  }

  async first(): Promise<ConfigDraft> {
    const { cache, firstTimeoutMs } = this.#parts;
    const copy = this.#copy = await cache.read();
    const timeoutMs = firstTimeoutMs ?? (copy ? FIRST_TIMEOUT_WITH_COPY_MS : FIRST_TIMEOUT_MS);
    try {
      return this.#draft(await this.#fetch({ timeoutMs }));
    } catch (cause) {
      this.#away = SvcError.from(cause);
      throw new SvcError(this.#away.code, `no configuration from ${this.name}`, { cause });
    }
  }

  kept(): Promise<ConfigDraft | undefined> {
    return Promise.resolve(this.#copy && this.#withLocal(this.#copy));
  }

  follow(hear: (news: ConfigDraft | SvcError) => void): () => Promise<void> {
    const { clock, refreshMs, changes, rareMs } = this.#parts;
    const ended = new AbortController();
    const timer = new PollTimer({ changes, what: ["config"], rareMs, clock });
    const intervalMs = Math.max(INTERVAL_MIN_MS, refreshMs);
    const run = async () => {
      if (this.#away) timer.failed(this.#away);
      await timer.next(intervalMs * FIRST_INTERVAL_SHARE);
      while (!ended.signal.aborted) {
        const news = await this.#look(ended.signal);
        if (news && !ended.signal.aborted) hear(news);
        if (this.#away) timer.failed(this.#away);
        await timer.next(intervalMs);
      }
    };
    const done = run().catch(() => {});
    return async () => {
      ended.abort(new SvcError("canceled", "the program ends"));
      timer.close();
      await done;
    };
  }

  async keep({ json }: ConfigDraft): Promise<void> {
    const cloud = members(json.cloud);
    const secure = cloud.signaling_address !== undefined && cloud.signaling_insecure !== true;
    // Storing it would leave the machine without TLS at its next start; an older copy may have a certificate.
    if (secure && cloud.tls_certificate === undefined) return;
    const kept = Object.entries(cloud).filter(([key]) => !LOCAL.includes(key));
    await this.#parts.cache.write({ ...json, cloud: Object.fromEntries(kept) });
  }

  /** The new draft, if there is one. */
  async #look(signal: AbortSignal): Promise<ConfigDraft | SvcError | undefined> {
    const { logger } = this.#parts;
    let json: JsonObject;
    try {
      json = await this.#fetch({ signal });
    } catch (thrown) {
      const error = SvcError.from(thrown);
      if (signal.aborted) return undefined;
      if (!NONSENSE.includes(error.code)) {
        const reported = `${this.name} gives no configuration, the present one stays: ${chainOf(error)}`;
        if (this.#away) logger.debug(reported);
        else logger.warn(reported);
        this.#away = error;
        return undefined;
      }
      const mark = `error: ${chainOf(error)}`;
      if (mark === this.#seen) return undefined;
      this.#seen = mark;
      return new SvcError(error.code, `${this.name} has no usable configuration`, { cause: error });
    }

    if (this.#away) logger.info(`${this.name} gives configurations again`);
    this.#away = undefined;
    if (markOf(json) === this.#seen) return undefined;

    return this.#draft(json);
  }

  #draft(json: JsonObject): ConfigDraft {
    this.#seen = markOf(json);
    return this.#withLocal(json);
  }

  /** The control plane's configuration, with the certificate. */
  async #fetch(limits: { timeoutMs?: number; signal?: AbortSignal }): Promise<JsonObject> {
    const { client, clock, logger } = this.#parts;
    const json = robotConfigJson(await client.config(limits));
    const cloud = members(json.cloud);
    const names = JSON.stringify(NAMES.map((name) => cloud[name] ?? ""));
    const known = this.#certificate;
    const old = known === undefined || clock.monotonicMs() - known.sinceMs >= CERTIFICATE_INTERVAL_MS;
    if (old || known.names !== names) {
      const fresh = await client.certificate(limits).catch((error) => {
        logger.debug(`no certificate from ${this.name}: ${chainOf(error)}`);
      });
      // The previous certificate is better than none.
      const pair = fresh
        ? { tls_certificate: fresh.certPem, tls_private_key: fresh.keyPem }
        : known?.pair ?? pairOf(this.#copy);
      if (pair) this.#certificate = { pair, names, sinceMs: fresh ? clock.monotonicMs() : -Infinity };
    }

    return { ...json, cloud: { ...cloud, ...this.#certificate?.pair } };
  }

  #withLocal(json: JsonObject): ConfigDraft {
    const { local } = this.#parts;
    const own = Object.entries(members(local.cloud)).filter(([key]) => LOCAL.includes(key));
    const merged: JsonObject = { ...json, cloud: { ...members(json.cloud), ...Object.fromEntries(own) } };
    for (const [section, keys] of Object.entries(LOCAL_SECTIONS)) {
      const here = Object.entries(members(local[section])).filter(([key]) => keys.includes(key));
      if (here.length > 0) merged[section] = { ...members(json[section]), ...Object.fromEntries(here) };
    }
    if (local.debug === true) merged.debug = true;
    return { json: merged, revision: "", problems: [] };
  }
}

/** The certificate in a configuration. */
function pairOf(json: JsonObject | undefined): JsonObject | undefined {
  const { tls_certificate: certificate, tls_private_key: key } = members(json?.cloud);
  return certificate && key ? { tls_certificate: certificate, tls_private_key: key } : undefined;
}

function members(value: Json | undefined): JsonObject {
  return isObject(value) ? value as JsonObject : {};
}

function markOf(json: JsonObject): string {
  return JSON.stringify(json);
}
